"""What trainers and trackers write of a run beside its log -> events `train.step`, `train.eval`, `train.end`.

`trainer_state.json` (Hugging Face transformers, written last into each `checkpoint-500/`), with keys in the order of the alphabet:

    {"best_metric": null, …, "global_step": 500, …, "log_history": [{"epoch": 0.1, "grad_norm": 1.2, "loss": 2.3, "step": 10},
     {"epoch": 0.1, "eval_loss": 2.2, "eval_runtime": 3.1, "step": 10}], …, "max_steps": 1000, …}

MLflow's files of one metric, `mlruns/<experiment>/<run>/metrics/train_loss`, lines of `<epoch milliseconds> <value> <step>`. Read from
transformers src/transformers/trainer_callback.py and mlflow/store/tracking/file_store.py.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, Final

import polars as pl

from postmortem.decoders.base import (
    Decoded,
    Format,
    Hints,
    MemberLike,
    Row,
    evidence,
    numbered,
    read_text,
    real,
    same_stamp,
    stamp,
    whole,
)
from postmortem.decoders.training.step_names import role
from postmortem.lines.blocks import read_blocks
from postmortem.patterns import later

MAX_ROWS: Final = 1_000_000
_STATE: Final = later(r'\s*\{\s*"(?:best_(?:global_step|metric|model_checkpoint)|epoch)"\s*:')
_STATE_KEYS: Final = ('"best_metric"', '"best_model_checkpoint"')
_LIST: Final = later(r'"log_history"\s*:\s*\[\s*')
_BETWEEN: Final = later(r"[\s,]*")
_CHECKPOINT: Final = later(r"(?:^|[/!])checkpoint-([0-9]{1,12})/trainer_state\.json$")
_DECODER: Final = json.JSONDecoder()
_FIGURES: Final = (
    "loss",
    "grad_norm",
    "step_time_ms",
    "data_time_ms",
    "tokens_per_s",
    "samples_per_s",
    "tflops",
    "mfu",
)

_METRIC: Final = later(r"(?:^|[/!])metrics/([^!]{1,200})$")
_METRIC_LINE: Final = later(r"1[0-9]{12} [-+0-9.eEnaNif]+ [0-9]{1,12}")
_FIELDS: Final = r"^(1[0-9]{12}) ([-+0-9.eEnaNif]+) ([0-9]{1,12})\s*$"


def is_trainer_state(head: str) -> bool:
    """A JSON object with the first keys of a `TrainerState`."""
    return _STATE.match(head) is not None and all(key in head[:4000] for key in _STATE_KEYS)


def decode_trainer_state(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of events, without a time: the file prints none. A file that was cut off keeps the entries before the cut."""
    decoded = Decoded()
    text = read_text(member, decoded)
    breaks = [m.start() for m in re.finditer("\n", text)]
    total = re.search(r'"max_steps"\s*:\s*([0-9]{1,12})\b', text)
    planned = int(total[1]) if total and int(total[1]) > 0 else None
    rows: list[Row] = []
    listed = _LIST.search(text)
    at = listed.end() if listed else 0
    while listed and text[at : at + 1] == "{" and len(rows) < MAX_ROWS:
        try:
            entry, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            decoded.notes.append("a trainer_state.json that is cut off or damaged")
            break
        where = evidence(member, bisect_right(breaks, at) + 1, json.dumps(entry), "trainer")
        rows += [{**where, **stamp(None), "rank": hints.rank, "sub": 0, **row} for row in _entry(entry, planned)]
        after = _BETWEEN.match(text, end)
        at = after.end() if after else end
    if listed is None:
        decoded.notes.append("a trainer_state.json without its history")
    rows += _checkpoint(member, text)
    decoded.put("events", rows)
    return decoded


def _entry(entry: dict[str, Any], planned: int | None) -> list[Row]:
    step = whole(entry.get("step"))
    if step is None or step < 0:
        return []
    if "train_runtime" in entry:
        runtime = real(entry["train_runtime"])
        return [{"event": "train.end", "severity": "info", "step": step, "elapsed_ms": runtime and runtime * 1000}]
    if any(isinstance(key, str) and key.startswith("eval_") for key in entry):
        return [{"event": "train.eval", "severity": "info", "step": step, "loss": real(entry.get("eval_loss"))}]
    figures: Row = {}
    for key, value in entry.items():
        found = role(key)
        number = real(value)
        if found and found.column in _FIGURES and number is not None:
            figures.setdefault(found.column, number * found.factor)
    loss = entry.get("loss")
    is_nan = isinstance(loss, float) and loss != loss
    if not figures and not is_nan:
        return []
    rows: list[Row] = [{"event": "train.step", "severity": "info", "step": step, "total_steps": planned, **figures}]
    return rows + ([{"event": "train.nan", "severity": "error", "step": step, "sub": 1}] if is_nan else [])


def _checkpoint(member: MemberLike, text: str) -> list[Row]:
    """The checkpoint that the file stands in: its trainer writes this file when the weights are written."""
    folder = _CHECKPOINT.search(member.name)
    step = re.search(r'"global_step"\s*:\s*([0-9]{1,12})\b', text)
    if folder is None or step is None or int(step[1]) != int(folder[1]):
        return []
    where = evidence(member, text.count("\n", 0, step.start()) + 1, step[0], "trainer")
    path = member.name.rsplit("/", 1)[0]
    row: Row = {"event": "train.checkpoint_done", "severity": "info", "step": int(step[1]), "path": path, "sub": 0}
    return [{**where, **stamp(None), **row}]


def is_metric(name: str, head: str) -> bool:
    """A file in a folder `metrics`, named like a figure of a step, whose lines are a time, a value and a step."""
    named = _METRIC.search(name)
    found = role(named[1]) if named else None
    lines = head.split("\n")[:20]
    lines = lines[:-1] if len(lines) > 1 else lines
    return (
        found is not None
        and found.column in _FIGURES
        and bool(lines)
        and all(map(_METRIC_LINE.fullmatch, map(str.rstrip, lines)))
    )


def decode_metric(member: MemberLike, hints: Hints) -> Decoded:
    """Rows of events `train.step` with the one figure that the file is of."""
    decoded = Decoded()
    named = _METRIC.search(member.name)
    found = role(named[1]) if named else None
    parts: list[pl.DataFrame] = []
    kept = 0
    for block in read_blocks(member.stream):
        decoded.count(block)
        groups = [pl.col("t").str.extract(_FIELDS, i) for i in (1, 2, 3)]
        rows = numbered(block).select(
            "line",
            pl.col("t").alias("text"),
            groups[0].cast(pl.Int64, strict=False).alias("ms"),
            groups[1].cast(pl.Float64, strict=False).alias("value"),
            groups[2].cast(pl.Int64, strict=False).alias("step"),
        )
        parts.append(rows.filter(pl.col("step").is_not_null()).head(MAX_ROWS - kept))
        kept += parts[-1].height
    if not kept or found is None or found.column not in _FIGURES:
        return decoded
    value = pl.when(pl.col("value").is_finite()).then(pl.col("value") * found.factor)
    rows = pl.concat(parts)
    base = [
        pl.lit(member.name).alias("file"), pl.col("line"), pl.lit(0, dtype=pl.Int64).alias("offset"), pl.col("text"), pl.col("text").alias("message"),
        pl.lit("trainer").alias("source"), pl.col("step"), pl.lit(hints.rank, dtype=pl.Int64).alias("rank"),
        *same_stamp(pl.col("ms") * 1000, 1_000),
    ]  # fmt: skip
    steps = rows.select(
        *base, value.alias(found.column), pl.lit("train.step").alias("event"), pl.lit("info").alias("severity"),
        pl.lit(0, dtype=pl.Int64).alias("sub"),
    )  # fmt: skip
    nan = rows.filter(pl.col("value").is_nan() & pl.lit(found.column == "loss")).select(
        *base, pl.lit("train.nan").alias("event"), pl.lit("error").alias("severity"), pl.lit(1, dtype=pl.Int64).alias("sub")
    )  # fmt: skip
    decoded.tables["events"] = pl.concat([steps, nan], how="diagonal") if nan.height else steps
    return decoded


FORMATS: Final = (
    Format(
        "trainer_state",
        "trainer_state.json: loss of each logged step, evaluations, the checkpoint it stands in",
        "Hugging Face transformers 4 and later",
        "huggingface/transformers src/transformers/trainer_callback.py",
        lambda head: is_trainer_state(head.text),
        decode_trainer_state,
    ),
    Format(
        "mlflow_metric",
        "one metric of a run, a line per step",
        "MLflow, file store",
        "mlflow/mlflow mlflow/store/tracking/file_store.py",
        lambda head: is_metric(head.name, head.text),
        decode_metric,
    ),
)
