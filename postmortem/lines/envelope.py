"""Lines that are JSON objects of a collector → the program's own line inside them.

Docker, journald, Kubernetes events and the usual log exporters wrap the text; times and hosts of
the envelope take the place of an outer header. An object that wraps nothing stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import polars as pl

MESSAGE_KEYS: Final = (
    "MESSAGE", "message", "msg", "log", "content", "line", "_raw", "text", "event.original", "textPayload", "@message", "Message",
    "body", "short_message",
)  # fmt: skip
HOST_KEYS: Final = (
    "_HOSTNAME", "hostname", "host", "host_name", "host.name", "node", "nodename", "node_name", "source_ip", "client", "Host",
    "instance",
)  # fmt: skip
TIME_KEYS: Final = (
    "timestamp",
    "@timestamp",
    "time",
    "ts",
    "_time",
    "eventTime",
    "lastTimestamp",
    "date",
    "Timestamp",
    "Created",
    "EventTimestamp",
)
POD_KEYS: Final = ("pod", "pod_name", "kubernetes.pod_name", "pod.name")
INNER_KEYS: Final = ("result", "_source", "jsonPayload", "attributes", "fields", "cef")
"""Where exporters put the record itself: Splunk, Elasticsearch, Cloud Logging, Datadog."""

ABOUT_KEYS: Final = (
    "kubernetes",
    "labels",
    "stream",
    "host",
    "agent",
    "resource",
    "pod",
    "node",
    "metadata",
    "orchestrator",
)
"""Objects that say of which host or pod a record is; one level of them may hold another."""

MAX_JSON: Final = 1 << 20


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(b, int) and 0 <= b < 256 for b in value):
        return bytes(value).decode("utf-8", "replace")  # journald gives bytes when the text is not UTF-8
    return None


def _micros(value: Any) -> tuple[int, int | None] | None:
    """(microseconds, zone) of an epoch number or an ISO text."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.replace(".", "", 1).isdigit():
        value = float(value)
    if isinstance(value, (int, float)):
        for limit, factor in ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (1e20, 1e-3)):
            if abs(value) < limit:
                return int(value * factor), 0
        return None
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    offset = when.utcoffset()
    naive = when.replace(tzinfo=UTC)
    try:
        micros = int(naive.timestamp()) * 1_000_000 + naive.microsecond
    except (OverflowError, ValueError):
        return None
    return micros, None if offset is None else int(offset.total_seconds())


def _digits(value: Any, most: int) -> int | None:
    """The number that journald gives as text, unless it has more digits than any real one."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= most else None


def _kubernetes(doc: dict[str, Any]) -> dict[str, Any]:
    """An Event object as `Reason: message`, with its node or pod."""
    about = doc.get("involvedObject") or doc.get("regarding") or {}
    about = about if isinstance(about, dict) else {}
    stamp = next(
        (
            m
            for k in ("lastTimestamp", "eventTime", "firstTimestamp", "deprecatedLastTimestamp")
            if (m := _micros(doc.get(k)))
        ),
        None,
    )
    kind, name = about.get("kind"), _text(about.get("name"))
    return {
        "message": f"{doc.get('reason')}: {_text(doc.get('message')) or _text(doc.get('note')) or ''}",
        "stamp": stamp,
        "host": name if kind == "Node" else None,
        "pod": name if kind == "Pod" else None,
        "kind": "k8s_event",
    }


def _error_file(message: dict[str, Any]) -> dict[str, Any]:
    """The error file that torch's `@record` writes: the exception as printed, and when it was raised."""
    extra = message.get("extraInfo")
    stamp = _micros(extra.get("timestamp")) if isinstance(extra, dict) else None
    return {
        "message": message["message"].rstrip("\r\n"),
        "stamp": stamp,
        "host": None,
        "pod": None,
        "kind": "error_file",
    }


def _ring_buffer(doc: dict[str, Any]) -> dict[str, Any]:
    """A record of `dmesg --json`: its time is the uptime."""
    up = doc.get("time")
    return {
        "message": doc["msg"],
        "stamp": None,
        "host": None,
        "pod": None,
        "kind": "kmsg",
        "uptime": float(up) if isinstance(up, int | float) and 0 <= up < 3e9 else None,
    }


def _inner(doc: dict[str, Any]) -> tuple[str | None, list[dict[str, Any]]]:
    """(the program's line, the objects that tell of it, innermost first); the record may lie in an exporter's own."""
    chain = [doc]
    for _ in range(3):
        deeper = next((d for k in INNER_KEYS if isinstance(d := chain[0].get(k), dict)), None)
        if deeper is None:
            break
        chain.insert(0, deeper)
    for about in chain:
        found = next((t for k in MESSAGE_KEYS if (t := _text(about.get(k)))), None)
        event = about.get("event")
        if found is None and isinstance(event, dict):
            found = _text(event.get("original"))
        if found is not None:
            return found, chain
    return None, chain


def _about(doc: dict[str, Any], keys: tuple[str, ...], named: tuple[str, str]) -> str | None:
    """The host or pod that `doc` names, or one of its objects about whom it is."""
    objects = [doc]
    for key in ABOUT_KEYS:
        about = doc.get(key)
        if isinstance(about, dict):
            objects.append(about)
            if key == named[0] and isinstance(about.get(named[1]), str) and about[named[1]]:
                return str(about[named[1]])
            objects += [d for k in ABOUT_KEYS if isinstance(d := about.get(k), dict)]
    return next((h for d in objects for k in keys if isinstance(h := d.get(k), str) and h), None)


def _open(line: str) -> dict[str, Any] | None:
    """What the JSON object in `line` wraps; None when it is none or wraps nothing."""
    try:
        doc = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(doc, dict):
        return None
    if doc.get("kind") == "Event" and "reason" in doc:
        return _kubernetes(doc)
    if isinstance(doc.get("object"), dict) and doc["object"].get("kind") == "Event":
        return _kubernetes(doc["object"])
    if isinstance(doc.get("message"), dict) and isinstance(doc["message"].get("message"), str):
        return _error_file(doc["message"])
    if "pri" in doc and isinstance(doc.get("msg"), str):
        return _ring_buffer(doc)
    inner, outer = _inner(doc)
    if inner is None or "step" in doc or "log_type_name" in doc:
        return None
    stamp = None
    if "__REALTIME_TIMESTAMP" in doc:
        stamp = _micros(doc["__REALTIME_TIMESTAMP"])
    stamp = stamp or next((m for d in outer for k in TIME_KEYS if (m := _micros(d.get(k)))), None)
    host = next((h for d in outer if (h := _about(d, HOST_KEYS, ("host", "name")))), None)
    pod = next((h for d in outer if (h := _about(d, POD_KEYS, ("pod", "name")))), None)
    uptime = doc.get("_SOURCE_MONOTONIC_TIMESTAMP")
    micros = _digits(uptime, 15)
    kind = "syslog_kernel" if doc.get("_TRANSPORT") == "kernel" else "json"
    return {
        "message": inner.rstrip("\r\n"),
        "stamp": stamp,
        "host": host,
        "pod": pod,
        "kind": kind,
        "uptime": None if micros is None else micros / 1e6,
        "tag": _text(doc.get("SYSLOG_IDENTIFIER")),
        "pid": _digits(doc.get("_PID") or doc.get("SYSLOG_PID"), 10),
    }


def unwrap(segments: pl.DataFrame, peel: Callable[[pl.Series], pl.DataFrame]) -> pl.DataFrame:
    """`segments` (with the columns of peel) with wrapped messages opened; adds `is_unwrapped`.

    A Python loop over the lines that are JSON objects: each may have other keys, which no column
    operation reads without a schema; only lines that hold a catalogue literal come here.
    """
    segments = segments.with_columns(is_unwrapped=pl.lit(False))
    is_json = segments["message"].str.starts_with("{") & segments["message"].str.ends_with("}")
    if not is_json.any():
        return segments
    where = [int(i) for i in is_json.arg_true()]
    texts = segments["message"].gather(where).to_list()
    opened = {
        i: found for i, t in zip(where, texts, strict=True) if len(t) <= MAX_JSON and (found := _open(t)) is not None
    }
    if not opened:
        return segments
    rows = list(opened)
    inner = peel(pl.Series("t", [str(o["message"]).split("\n", 1)[0] for o in opened.values()], dtype=pl.String))
    inner = inner.rename({"rest": "message"}).with_columns(i=pl.Series(rows, dtype=pl.Int64))
    envelope = pl.DataFrame(
        {
            "i": rows,
            "kind": [o["kind"] for o in opened.values()],
            "e_host": [o["host"] for o in opened.values()],
            "e_pod": [o["pod"] for o in opened.values()],
            "e_tag": [o.get("tag") for o in opened.values()],
            "e_pid": [o.get("pid") for o in opened.values()],
            "e_up": [o.get("uptime") for o in opened.values()],
            "e_us": [o["stamp"][0] if o["stamp"] else None for o in opened.values()],
            "e_zone": [o["stamp"][1] if o["stamp"] else None for o in opened.values()],
        },
        schema={
            "i": pl.Int64,
            "kind": pl.String,
            "e_host": pl.String,
            "e_pod": pl.String,
            "e_tag": pl.String,
            "e_pid": pl.Int64,
            "e_up": pl.Float64,
            "e_us": pl.Int64,
            "e_zone": pl.Int32,
        },
    )
    both = inner.join(envelope, on="i", how="left", maintain_order="left")
    has_inner = pl.col("stamp_us").is_not_null()
    both = both.with_columns(
        host=pl.coalesce("host", "e_host"),
        pod=pl.coalesce("pod", "e_pod"),
        tag=pl.coalesce("tag", "e_tag"),
        pid=pl.coalesce("pid", "e_pid"),
        uptime_s=pl.coalesce("uptime_s", "e_up"),
        headers=pl.lit("|") + pl.col("kind") + pl.col("headers"),
        stamp2_us=pl.when(has_inner).then("e_us").otherwise("stamp2_us"),
        stamp2_zone_s=pl.when(has_inner).then("e_zone").otherwise("stamp2_zone_s"),
        stamp_us=pl.coalesce("stamp_us", "e_us"),
        stamp_zone_s=pl.when(has_inner).then("stamp_zone_s").otherwise("e_zone"),
        stamp_has_year=pl.when(has_inner).then("stamp_has_year").otherwise(pl.col("e_us").is_not_null()),
        stamp_res_us=pl.when(has_inner).then("stamp_res_us").otherwise(pl.lit(1, dtype=pl.Int64)),
        is_unwrapped=pl.lit(True),
    )
    names = [c for c in segments.columns if c in both.columns]
    indexed = segments.with_columns(i=pl.int_range(pl.len(), dtype=pl.Int64))
    return indexed.update(both.select("i", *names), on="i", how="left").drop("i")
