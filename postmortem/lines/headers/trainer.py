"""Heads of lines that trainers and their loggers print (trainer.md), beside those of Python's logging module."""

from __future__ import annotations

from typing import Final

from postmortem.lines.headers.grammar import DATE, HMS, HOST, ISO, REST, Header

_LEVEL: Final = r"(?P<lvl>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"

HEADERS: Final = (
    # mmengine; with the year the examples of transformers and accelerate
    Header(
        "pylog",
        r"^(?P<mo>[0-9]{2})/(?P<d>[0-9]{2})(?:/(?P<y>20[0-9]{2}))? "
        + HMS
        + r" - (?:(?P<tag>[^ ]+) - "
        + _LEVEL
        + r"|[A-Z]+ - [^ ]+) - +"
        + REST,
    ),
    # loguru, as it comes
    Header(
        "pylog",
        r"^"
        + ISO
        + r" \| (?P<lvl>TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL) *\| (?P<src>[A-Za-z_<][^ |]*:[0-9]+) - "
        + REST,
    ),
    # LLaMA-Factory, ms-swift
    Header("pylog", r"^\[" + _LEVEL + r"\|" + ISO + r"\] (?P<src>[^ ]+:[0-9]+)[ >]+" + REST),
    Header("pylog", r"^\[" + _LEVEL + r":(?P<tag>[A-Za-z][A-Za-z0-9_.-]*)\] +" + REST),
    # PaddleNLP, InternEvo, OpenCLIP, lingua
    Header("pylog", r"^\[" + ISO + r"\] \[ *" + _LEVEL + r"\] - " + REST),
    Header("pylog", r"^" + ISO + r"\t" + _LEVEL + r" (?P<src>[^ ]+:[0-9]+) in [^ ]+ -- " + REST),
    Header("pylog", r"^" + DATE + r",(?P<hms>[0-9]{2}:[0-9]{2}:[0-9]{2}) \| " + _LEVEL + r" \| " + REST),
    Header("pylog", r"^[0-9]+: " + _LEVEL + r" +[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:.]+ - [0-9:]+ - " + REST),
    # OLMo: into a file, and on a terminal through rich
    Header(
        "pylog",
        r"^"
        + ISO
        + r"[\t ]+"
        + HOST
        + r":(?P<lrank>[0-9]+)[\t ]+(?P<src>[A-Za-z_][^\t ]*:[0-9]+)[\t ]+"
        + _LEVEL
        + r"[\t ]+"
        + REST,
    ),
    Header("pylog", r"^" + _LEVEL + r" +\[(?P<src>[^\], ]+:[0-9]+), rank=(?P<rank>[0-9]+)\] +" + REST),
    # OLMo-core, where the number is that of the rank on its node
    Header("pylog", r"^" + _LEVEL + r" +\[(?P<src>[^\], ]+:[0-9]+), " + HOST + r", rank=(?P<lrank>[0-9]+)\] +" + REST),
    # Paddle's launcher; Ray's Python processes, of whose two forms this is the one with tabs
    Header("pylog", r"^LAUNCH " + _LEVEL + r" " + ISO + r" " + REST),
    Header("pylog", r"^" + ISO + r"\t" + _LEVEL + r" (?P<src>[a-z_]+\.py:[0-9]+) -- " + REST),
    # Levanter: the number is that of a process, which may drive several devices, so it is no rank
    Header("pylog", r"^" + ISO + r" - [0-9]+ - (?P<tag>[^ ]+) - (?:(?P<src>[^ ]+) - )?" + _LEVEL + r" :: " + REST),
    # Composer; its time comes off as a collector's
    Header(
        "pylog",
        r"^rank(?P<rank>[0-9]+)\[(?P<pid>[0-9]+)\]\[[^\]]*\]: "
        + _LEVEL
        + r": (?P<tag>[A-Za-z_][A-Za-z0-9_.]*): "
        + REST,
    ),
    # detectron2; Megatron's progress.txt
    Header(
        "pylog",
        r"^\[(?P<mo>[0-9]{2})/(?P<d>[0-9]{2}) " + HMS + r" (?P<tag>[A-Za-z][^\] ]*)\]: +" + REST,
    ),
    Header("stamp", r"^" + ISO + r"\t(?P<rest>Job ID: .*)$"),
    # Swin and its kin
    Header("pylog", r"^\[" + ISO + r" (?P<tag>[^\]]+)\] ?\((?P<src>[^)]+)\): " + _LEVEL + r" " + REST),
    # Megatron's print_datetime has the time behind the words, TorchTitan's structured log has it amid its keys.
    Header("datetime", r"^(?P<rest>\[[a-z][^\]]*\]) datetime: " + ISO + r" *$"),
    Header(
        "structured",
        r'^\{"delta_ms": [^,]+, .*?"global_rank": (?P<rank>[0-9]+), "local_rank": (?P<lrank>[0-9]+), '
        r'.*?"host_name": "(?P<host>[^"]+)", "pid": (?P<pid>[0-9]+), '
        r'(?P<rest>"step": .*?"time": (?P<epoch>[0-9]{10}), .*"log_type_name": .*)$',
    ),
)
