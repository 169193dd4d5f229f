"""What trainers call the figures of a step, in tables, JSON and TensorBoard: name -> column and factor.

>>> role("time_metrics/end_to_end(s)")
Role(column='step_time_ms', factor=1000.0, scope=None)
>>> role("lm loss vs samples") is None
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from postmortem.patterns import later


@dataclass(frozen=True, slots=True)
class Role:
    """Column of a step that a figure fills, what it is multiplied with, and whether a rate is of a device or the job."""

    column: str
    factor: float = 1.0
    scope: str | None = None


# Durations without a unit in their name are seconds. Names are compared in lower case, any run of `-_ ./` as one `_`.
_COLUMNS: Final[dict[str, str]] = {
    "step": "step iteration iter global_step current_steps trainer_global_step train_global_step training_global_step",
    "step_time_ms": (
        "step_time iteration_time iter_time elapsed duration seconds train_step_timing step_duration batch_time "
        "time_per_step elapsed_time_per_iteration perf_step_time perf_time_per_step train_step_time "
        "time_metrics_end_to_end throughput_duration time_per_iter train_iter_time train_batch_time"
    ),
    "data_time_ms": "data_time data_loading_time dataload_time time_metrics_data_loading train_data_time throughput_loading_time",
    "loss": (
        "loss lm_loss train_loss training_loss reduced_train_loss train_loss_step loss_train_total metrics_train_loss "
        "loss_metrics_global_avg_loss learning_loss train_crossentropyloss train_ce_loss train_lm_loss loss_train"
    ),
    "grad_norm": (
        "grad_norm gradient_norm train_grad_norm total_grad_norm optim_total_grad_norm learning_grad_norm "
        "actor_grad_norm train_optim_grad_norm grad_norm_total"
    ),
    "tokens_per_s": "tokens_per_s tokens_per_second tokens_per_sec throughput_tokens_per_second throughput_tokens_per_sec",
    "tokens_per_s device": (
        "tokens_per_second_per_gpu tokens_per_sec_per_gpu tokens_per_gpu_per_second throughput_tps tps "
        "throughput_device_tokens_per_second throughput_device_tokens_per_sec tgs perf_throughput"
    ),
    "tflops device": "throughput tflops perf_per_device_tflops_per_sec tflops_per_gpu throughput_device_flops_per_sec",
    "mfu": "mfu perf_mfu train_mfu throughput_mfu throughput_device_mfu perf_mfu_actor",
    "samples_per_s": "samples_per_second samples_per_sec samples_per_s throughput_samples_per_sec",
    "total_steps": "total_steps max_steps",
    "rank": "rank global_rank",
    "time": "time timestamp ts wall_time datetime",
    "host": "host hostname node",
}  # fmt: skip
_BY_NAME: Final = {name: column for column, names in _COLUMNS.items() for name in names.split()}
_UNIT: Final = later(
    r"(?:[ _]*\((ms|msec|s|sec|seconds|%|tps)\)|[ _](?:in[ _])?(ms|msecs?|milliseconds|s|secs?|seconds))$"
)
_IS_MS: Final = frozenset({"ms", "msec", "msecs", "milliseconds"})


@lru_cache(maxsize=4096)
def role(name: str) -> Role | None:
    """What the figure of that name is; null when it is none of a training step."""
    bare = name.strip().lower()
    if bare.startswith("timing_s/"):
        return Role("step_time_ms", 1000.0) if bare == "timing_s/step" else None
    known, factor = _BY_NAME.get(_plain(bare)), 1000.0
    unit = _UNIT.search(bare)
    if known is None and unit is not None:
        stem = _plain(bare[: unit.start()] + ("_tps" if unit[1] == "tps" else ""))
        known = "step_time_ms" if stem == "time" else _BY_NAME.get(stem)
        factor = 1.0 if (unit[1] or unit[2]) in _IS_MS else 1000.0
    if known is None:
        return None
    column, _, scope = known.partition(" ")
    return Role(column, factor if column.endswith("_ms") else 1.0, scope or None)


def _plain(name: str) -> str:
    return re.sub(r"[-_ ./]+", "_", name).strip("_")
