"""Does another kind of source say the same of the same thing? Candidates by what they have in common, so that tens of thousands cost no square."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from postmortem.analysis.windows import SKEW_S

if TYPE_CHECKING:
    from postmortem.analysis.candidates import Candidate

FAMILY: Final[dict[str, str]] = {
    "link_flap": "link",
    "optic_fault": "link",
    "switch_failure": "link",
    "nic_fault": "link",
    "link_degraded": "link",
    "pcie_drop": "pcie",
    "gpu_memory": "gpu",
    "gpu_fault": "gpu",
    "nvlink_fault": "nvlink",
    "gpu_software": "soft",
    "host_oom": "oom",
    "gpu_oom": "oom2",
}
_PROGRAM: Final = ("nccl.", "torch.", "train.")
_HARDWARE: Final = "nccl.ib_async_event"
"""What the adapter tells, passed on by the program."""
FAULT: Final = 0.5
"""Weight of a sign from which on it speaks of a fault that ends jobs."""
APART_S: Final = 60 + SKEW_S

_Place = tuple[str, str, str | None, int]


class Others:
    """All candidates, found by family, host (own or that of the port) and stretch of APART_S."""

    def __init__(self, candidates: Sequence[Candidate], signs: dict[int, float]) -> None:
        self._victims = {c.episode for c in candidates if c.tier == "victim"}
        # Of one event on one host all candidates look the same to the rest: kept apart, so that they are passed over at once.
        self._at: dict[_Place, dict[tuple[str, str | None], list[Candidate]]] = defaultdict(lambda: defaultdict(list))
        for c in candidates:
            if c.first is not None and signs[id(c)] >= 0.1:
                for side, host in (("own", c.host), ("port", c.port_host)):
                    self._at[self._place(c, side, host)][c.event, c.host].append(c)

    @staticmethod
    def _place(c: Candidate, side: str, host: str | None, shift: int = 0) -> _Place:
        assert c.first is not None
        seconds = c.first.toordinal() * 86_400 + c.first.hour * 3600 + c.first.minute * 60 + c.first.second
        return FAMILY.get(c.cause, c.cause), side, host, int(seconds // APART_S) + shift

    def _near(self, c: Candidate) -> Iterator[Candidate]:
        for side, host in (("own", c.host), ("port", c.host), ("own", c.port_host)):
            for shift in (-1, 0, 1):
                for (event, there), found in self._at.get(self._place(c, side, host, shift), {}).items():
                    if event != c.event or there != c.host:
                        yield from found

    def corroborated(self, c: Candidate) -> float:
        """1 when another kind of source says the same of the same thing at about the same time, or, of a program's own failure,
        when others wait for it in vain."""
        if c.tier == "own" and len(self._victims) > (c.episode in self._victims):
            return 1.0
        if c.first is None or c.tier in {"victim", "lifecycle"}:
            return 0.0
        for o in self._near(c):
            assert o.first is not None
            is_apart = abs((o.first - c.first).total_seconds()) > APART_S
            if o.episode != c.episode and not is_apart and not (_is_program(c) and _is_program(o)):
                return 1.0
        # That failed connections end at its node makes a fault of it likelier; it does not make one of what hardly is a fault.
        return 0.5 if c.weight >= FAULT and c.blamed and c.blamed >= 0.8 * c.blamed_total else 0.0


def _is_program(c: Candidate) -> bool:
    """The job's own processes say it: they repeat each other, so two of them are no second source."""
    return c.event.startswith(_PROGRAM) and c.event != _HARDWARE
