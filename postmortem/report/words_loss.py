"""What is said of the loss beside its table: advice on the checkpoint interval, what would have saved some of it, energy."""

from __future__ import annotations

from collections.abc import Callable

from postmortem.analysis.model import Advice, Loss, Saving, Span
from postmortem.report.figures import agrees, duration, money, percent, significant


def spread(span: Span, write: Callable[[float], str], unit: str = "") -> str:
    """`302 GPU-hours (280 to 310)`; one number where the bounds agree to one percent."""
    best = f"{write(span.best)} {unit}".rstrip()
    return best if agrees(span) else f"{best} ({write(span.lo)} to {write(span.hi)})"


def throughput_words(loss: Loss) -> str:
    """What the share of the throughput was lost to, and who says so."""
    if loss.throughput_basis == "trace":
        return "throughput lost to uneven work (trace)"
    of = f"in {loss.slow_steps:,} slow step{'s' * (loss.slow_steps != 1)}" if loss.slow_steps else "to slow steps"
    return f"throughput lost {of}{' (few healthy ones)' if loss.throughput_basis == 'few steps' else ''}"


def _what(saving: Saving) -> str:
    if saving.what == "checkpoint_interval":
        return f"A save every {duration(saving.interval_s)} would have saved at least"
    if saving.what == "detection":
        return "Noticing the fault within 60 s would have saved"
    since = f" since step {saving.since_step:,}" if saving.since_step is not None else ""
    return f"Repairing what was slow{since} as soon as it showed would have saved"


def saving_words(saving: Saving, advice: Advice | None = None) -> str:
    """One saving as a sentence; an interval shorter than the advised one is no advice, and is not left looking like one."""
    parts = [spread(saving.saved_s, duration)]
    if saving.gpu_hours is not None:
        parts.append(spread(saving.gpu_hours, significant, "GPU-hours"))
    if saving.cost is not None:
        parts.append(f"{spread(saving.cost, money)} in money")
    is_too_often = advice is not None and saving.interval_s is not None and saving.interval_s < advice.tau_s.best
    but = "; over many failures that many saves cost more than they save" if is_too_often else ""
    return f"{_what(saving)} {', '.join(parts)}{but}."


def advice_words(advice: Advice) -> str:
    """The advice in one or two sentences; its conditions are printed beside it."""
    steps = f"{advice.tau_steps:,} step{'' if advice.tau_steps == 1 else 's'}"
    every = f"every {spread(advice.tau_s, duration)}, about {steps}"
    source = "as given" if advice.mtbf_source == "given" else f"{advice.mtbf_source}, {advice.mtbf_basis}"
    mtbf = f"a failure every {spread(advice.mtbf_s, duration)} ({source})"
    ground = f"A save stops the steps for {duration(advice.save_stall_s)}; with {mtbf}"
    if advice.now_s is None or advice.now_overhead is None:
        return f"{ground} one {every} loses least: {percent(advice.overhead)} of the time."
    if advice.is_near:
        return f"{ground} the present interval of {duration(advice.now_s)} is near the optimum ({every})."
    return (
        f"{ground} one {every} loses least: {percent(advice.overhead)} of the time, "
        f"now {percent(advice.now_overhead)} at {duration(advice.now_s)}."
    )


def advice_figures(advice: Advice) -> list[tuple[str, str]]:
    """Name and value of what the advice rests on."""
    found = [
        ("Young's optimum", duration(advice.young_s)),
        ("Daly's optimum", duration(advice.daly_s)),
        ("for most availability", duration(advice.availability_s)),
        ("no shorter than", duration(advice.floor_s)),
        ("durable after", duration(advice.save_lag_s)),
        ("expected ETTR", percent(advice.ettr)),
    ]
    if advice.now_ettr is not None:
        found.append(("expected ETTR now", percent(advice.now_ettr)))
    return found


def energy_words(loss: Loss) -> str | None:
    """The energy of what was lost; None unless it was asked for."""
    if loss.energy_kwh is None:
        return None
    watts = f" at {significant(loss.watts)} W per GPU" if loss.watts is not None else ""
    return f"{spread(loss.energy_kwh, significant, 'kWh')}{watts}"


def ratio_words(loss: Loss) -> list[tuple[str, str]]:
    """The ratios that are known: name and percentage. They differ in what they are set against."""
    named = (
        ("ETTR of the attempt", loss.ettr_attempt),
        ("ETTR of all attempts", loss.ettr_run),
        ("ETTR with queue time", loss.ettr_wall),
        ("goodput", loss.goodput),
    )
    return [(name, percent(share)) for name, share in named if share is not None]
