"""JSON of Slurm's tools -> the same rows as of their tables: `sacct`, `scontrol show job|node`, `squeue` and `sinfo` with `--json`.

    {"jobs": [{"job_id": 1234, "nodes": "node-[01-16]", "state": {"current": ["NODE_FAIL"], "reason": "None"}, "failed_node": "node-17",
      "exit_code": {"status": ["SUCCESS"], "return_code": {"set": true, "infinite": false, "number": 0}, "signal": {…}},
      "time": {"start": 1748736010, "end": 1748748280, …}, "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 128}, …]}, …}], "meta": …}

(slurm/src/plugins/data_parser/v0.0.3x … v0.0.46, parsers.c; before 22.05 openapi/dbv0.0.37). Versions differ: a state is text until
0.0.39 and a list since, a number is plain or `{set, infinite, number}`, `scontrol` and `squeue` say `job_state`, `start_time`,
`tres_alloc_str`. Times are seconds since 1970.
"""

from __future__ import annotations

from typing import Any, Final

from postmortem.decoders.base import Decoded, Format, MemberLike, Row, read_text
from postmortem.decoders.schedulers.hostlist import expand_hostlist
from postmortem.decoders.schedulers.json_lists import Document, Element, number, part, text_of
from postmortem.decoders.schedulers.slurm_jobs import Job, Jobs, epoch, exit_pair, gpus_in
from postmortem.decoders.schedulers.slurm_nodes import MAX_ROWS, Node, node_rows, states_of
from postmortem.patterns import later

_LIST: Final = later(r'"(jobs|nodes|sinfo)"\s*:\s*\[(?=\s*[{\]])')
_JOB: Final = later(r'"(?:derived_exit_code|job_state|allocation_nodes|state_reason)"\s*:')
_NODE: Final = later(
    r'"(?:slurmd_start_time|boot_time|burstbuffer_network_address|next_state_after_reboot|operating_system)"\s*:'
)
_SINFO: Final = later(r'"(?:node|cluster|reason|weight|gres|partition)"\s*:')
_SAYS_JOB: Final = later(r'"(?:job_state"|state"\s*:\s*\{\s*"current"|state"\s*:\s*"[A-Z])')
_SAYS_REASON: Final = later(r'"(?:reason|description)"\s*:\s*"[^"]')
_SAYS_STATE: Final = later(r'"state"\s*:')
_SAYS_BOOT: Final = later(r'"boot_time"\s*:')


def looks_like_slurm_json(head: str) -> bool:
    """An object with a list of jobs or nodes whose first element has keys that only Slurm's have."""
    if not head.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    found = _LIST.search(head)
    if found is None or head.count("{", 0, found.start()) > 12:
        return False
    keys = {"jobs": _JOB, "nodes": _NODE, "sinfo": _SINFO}[found[1]]
    return keys.search(head, found.end()) is not None


def decode_slurm_json(member: MemberLike) -> Decoded:
    """Rows of `Jobs.add` for jobs, of `node_rows` for nodes."""
    decoded = Decoded()
    document = Document(read_text(member, decoded))
    found = _LIST.search(document.text)
    if found is None:
        return decoded
    jobs = Jobs()
    for element in document.elements(found.end()):
        if found[1] == "jobs":
            job = _job(element.value)
            if job is not None:
                jobs.add(job, document.evidence(member, element, _SAYS_JOB))
        elif len(jobs.events) < MAX_ROWS:
            jobs.events += _nodes(document, member, element)
    if document.damage:
        decoded.notes.append(f"the list of {found[1]} is damaged or cut: {document.damage}")
    jobs.fill(decoded)
    return decoded


def _job(value: dict[str, Any]) -> Job | None:
    job_id = value.get("job_id")
    name = str(job_id) if isinstance(job_id, int) and not isinstance(job_id, bool) else text_of(job_id)
    if not name:
        return None
    state = value.get("state")
    code, signal = _exit(value.get("exit_code"))
    reason = text_of(part(state, "reason")) or text_of(value.get("state_reason"))
    return Job(
        name,
        _word(part(state, "current") if isinstance(state, dict) else value.get("job_state", state)),
        epoch(number(part(value, "time", "start")) or number(value.get("start_time"))),
        epoch(number(part(value, "time", "end")) or number(value.get("end_time"))),
        code,
        signal,
        text_of(value.get("nodes")),
        text_of(value.get("failed_node")),
        reason,
        _gpus(value),
    )


def _word(state: object) -> str:
    """A state as text; of a list the first word, others are flags such as COMPLETING."""
    return text_of(state[0]) if isinstance(state, list) and state else text_of(state)


def _exit(value: object) -> tuple[int | None, int | None]:
    """Code and signal of an `exit_code`; a plain number (`scontrol` before 23.11) is the status of wait(2), text `<code>:<signal>`."""
    if isinstance(value, str):
        return exit_pair(value)
    if isinstance(value, dict) and "return_code" in value:
        signal = part(value, "signal", "id")
        return number(value["return_code"]), number(part(value, "signal", "signal_id") if signal is None else signal)
    status = number(value)
    return (None, None) if status is None else (status >> 8 & 0xFF, status & 0x7F)


def _gpus(value: dict[str, Any]) -> int:
    """GPUs of the list of allocated resources: the sum of the row without a kind, else of the kinds."""
    listed = part(value, "tres", "allocated")
    if not isinstance(listed, list):
        return gpus_in(text_of(value.get("tres_alloc_str")) or text_of(listed))
    plain, kinds = 0, 0
    for one in listed:
        if isinstance(one, dict) and one.get("type") == "gres":
            name, count = text_of(one.get("name")), number(one.get("count")) or 0
            plain = max(plain, count if name == "gpu" else 0)
            kinds += count if name.startswith("gpu:") else 0
    return plain or kinds


def _nodes(document: Document, member: MemberLike, element: Element) -> list[Row]:
    """Rows of an element of `nodes` (one node) or of `sinfo` (nodes in one state)."""
    value = element.value
    is_group = isinstance(value.get("node"), dict)
    state = part(value, "node", "state") if is_group else value.get("state")
    words = [text_of(w) for w in [*(state if isinstance(state, list) else [state]), *_flags(value)]]
    reason = text_of(value.get("reason")) or text_of(part(value, "reason", "description"))
    when = number(value.get("reason_changed_at")) or number(part(value, "reason", "time"))
    by = text_of(value.get("reason_set_by_user")) or text_of(part(value, "reason", "user"))
    base = document.evidence(member, element, _SAYS_REASON if reason else _SAYS_STATE)
    boot = epoch(number(value.get("boot_time")))
    boot_base = document.evidence(member, element, _SAYS_BOOT) if boot else None
    rows: list[Row] = []
    for host in _group(value) if is_group else [text_of(value.get("name"))]:
        if host:
            node = Node(host, states_of("+".join(words)), reason, by, epoch(when), boot)
            rows += node_rows(node, base, boot_base)
    return rows


def _flags(value: dict[str, Any]) -> list[object]:
    flags = value.get("state_flags")
    return flags if isinstance(flags, list) else []


def _group(value: dict[str, Any]) -> list[str]:
    """Names of a row of `sinfo`, each a host list."""
    listed = part(value, "nodes", "nodes")
    names = listed if isinstance(listed, list) else [listed]
    return [host for name in names for host in expand_hostlist(text_of(name))][:MAX_ROWS]


FORMATS: Final = (
    Format(
        "slurm_json",
        "JSON of sacct, scontrol, squeue and sinfo: jobs, states of nodes",
        "Slurm 21.08 and later, data_parser 0.0.37 to 0.0.46",
        "SchedMD/slurm src/plugins/data_parser",
        lambda head: looks_like_slurm_json(head.text),
        lambda member, hints: decode_slurm_json(member),
        in_section=True,
    ),
)
