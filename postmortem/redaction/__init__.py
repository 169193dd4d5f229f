"""Masks for hosts, addresses, users, paths, mails and tokens, the same one for the same name in every output.

All names are found first (`names`), each gets its mask (`masks`), then tables and answer are rewritten from one place
(`apply`), before any output is made of them. `check` reads finished outputs again and looks for the originals.
"""

from __future__ import annotations

from postmortem.redaction.apply import find_names, redact
from postmortem.redaction.check import check_database, check_html, check_json, check_text
from postmortem.redaction.masks import Masks
from postmortem.redaction.sweep import sweep

__all__ = ["Masks", "check_database", "check_html", "check_json", "check_text", "find_names", "redact", "sweep"]
