"""Reading a bundle: a folder, files or archives in archives, as a flat sequence of decompressed members."""

from __future__ import annotations

from postmortem.bundle.hosts import HostHint, host_hint, host_hints
from postmortem.bundle.limits import Limits
from postmortem.bundle.model import Member, Plan, Problem, Unit
from postmortem.bundle.ranks import rank_hint
from postmortem.bundle.reading import open_unit, open_units
from postmortem.bundle.remote import base_name, is_url
from postmortem.bundle.streams import MemberStream
from postmortem.bundle.walk import plan

__all__ = [
    "HostHint",
    "Limits",
    "Member",
    "MemberStream",
    "Plan",
    "Problem",
    "Unit",
    "base_name",
    "host_hint",
    "host_hints",
    "is_url",
    "open_unit",
    "open_units",
    "plan",
    "rank_hint",
]
