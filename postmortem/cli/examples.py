"""The examples below a command's help."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """An epilog with one example per line, kept as it is by click."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
