"""Counters of ports, devices and GPUs -> `counters`: the formats of all families of programs, strict ones first."""

from __future__ import annotations

from typing import Final

from postmortem.decoders.counters import ib, metrics, mlxlink, nic, switch, sys

FORMATS: Final = (*ib.FORMATS, *mlxlink.FORMATS, *nic.FORMATS, *metrics.FORMATS, *sys.FORMATS, *switch.FORMATS)
