"""The answer kept in the database (table `answer`), so that a file of `analyze --db` can be opened with nothing lost.

The column `analysis` holds every field of `model.Analysis` as JSON; its shape follows the dataclasses and is read by type.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from datetime import datetime
from functools import cache
from typing import Any

import duckdb

from postmortem.analysis import model
from postmortem.analysis.model import Analysis
from postmortem.errors import UsageError

TABLE = "answer"


def store(con: duckdb.DuckDBPyConnection, analysis: Analysis, version: str) -> None:
    """Fill the table `answer`."""
    verdict = analysis.verdict
    culprit = {k: v for k, v in dataclasses.asdict(verdict.culprit).items() if v not in (None, (), [])}
    con.execute(
        f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            # A bundle's name out of a path may hold bytes that are no UTF-8; the database takes none of these.
            analysis.bundle.encode("utf-8", "backslashreplace").decode(),
            version,
            verdict.cause,
            verdict.confidence,
            json.dumps(culprit, sort_keys=True),
            verdict.onset,
            verdict.onset_lo,
            verdict.onset_hi,
            analysis.job.outcome,
            verdict.summary.encode("utf-8", "backslashreplace").decode(),
            to_json(analysis),
        ],
    )


def load(con: duckdb.DuckDBPyConnection) -> tuple[Analysis, str]:
    """The answer and the version that wrote it. Raises UsageError where there is none or it can't be read."""
    try:
        row = con.execute(f"SELECT analysis, version FROM {TABLE} LIMIT 1").fetchone()
    except duckdb.Error:
        row = None
    if row is None:
        raise UsageError(
            "the database holds no answer of postmortem (an older version wrote none): analyse the bundle again"
        )
    try:
        return from_json(row[0]), str(row[1])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError("the answer in the database can't be read: analyse the bundle again") from error


def to_json(analysis: Analysis) -> str:
    """All fields as JSON in ASCII; times as ISO text."""
    return json.dumps(dataclasses.asdict(analysis), default=datetime.isoformat)


def from_json(text: str) -> Analysis:
    """What `to_json` wrote. A field that is missing has its default, one that is not known is left out.

    Raises ValueError, TypeError, KeyError, AttributeError or RecursionError for anything else.
    """
    found = _value(Analysis, json.loads(text))
    assert isinstance(found, Analysis)
    return found


@cache
def _fields(kind: type) -> dict[str, Any]:
    # A record's module may import those of model.py for type checkers only.
    return typing.get_type_hints(kind, localns=vars(model))


def _value(hint: Any, value: Any) -> Any:
    """`value` out of JSON as the type that the annotation says."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
        return None if value is None else _value(kinds[0], value)
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is no {hint.__name__}")
        hints = _fields(hint)
        return hint(**{name: _value(kind, value[name]) for name, kind in hints.items() if name in value})
    if typing.get_origin(hint) is tuple:
        kinds = list(typing.get_args(hint))
        if kinds[-1] is Ellipsis:
            return tuple(_value(kinds[0], one) for one in value)
        return tuple(_value(kind, one) for kind, one in zip(kinds, value, strict=True))
    if typing.get_origin(hint) is dict:
        return {key: _value(typing.get_args(hint)[1], one) for key, one in value.items()}
    if hint is datetime:
        return datetime.fromisoformat(value)
    if hint is float:
        return float(value)
    wanted = hint if isinstance(hint, type) else str
    if not isinstance(value, wanted):
        raise ValueError(f"{value!r} is no {wanted.__name__}")
    return value
