"""A loss that comes apart over many steps, none of which lies far above those just before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postmortem.incident import Incident

Analyse = Callable[[dict[str, str]], Incident]

LINE = "iteration {n:8}/    9000 | consumed samples:       480000 | elapsed time per iteration (ms): 10000.0 | learning rate: 6.000E-05 | global batch size:   128 | lm loss: {loss:E} | loss scale: 1.0 | grad norm: 1.000 |\n"


def falling(n: int) -> float:
    return 2.3 + 6.0 / (n + 1)


def rising(n: int) -> float:
    return falling(n) if n < 100 else min(2.36 + 0.03 * (n - 100), 7.2)


def uneven(n: int) -> float:
    return falling(n) + (0.9 if n % 7 == 3 else 0.0)


def near_zero(n: int) -> float:
    return rising(n) / 60


def table(loss: Callable[[int], float], steps: int = 300) -> str:
    return "".join(LINE.format(n=n, loss=loss(n)) for n in range(1, steps + 1))


@pytest.mark.parametrize(
    ("loss", "cause"),
    [(rising, "numeric"), (falling, "unknown"), (uneven, "unknown"), (near_zero, "unknown")],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_a_loss_that_rises_slowly(analyse: Analyse, loss: Callable[[int], float], cause: str) -> None:
    assert analyse({"train.log": table(loss)}).analysis.verdict.cause == cause


def test_a_few_printed_losses_show_no_slow_rise(analyse: Analyse) -> None:
    assert analyse({"train.log": table(lambda n: rising(n + 95), 40)}).analysis.verdict.cause == "unknown"


def test_another_failure_is_not_put_down_to_a_slow_rise(analyse: Analyse) -> None:
    text = table(rising) + "ValueError: number of heads must divide the hidden size\n"
    assert analyse({"train.log": text}).analysis.verdict.cause == "software_exception"


def test_the_step_is_named_from_which_on_it_rose(analyse: Analyse) -> None:
    finding = analyse({"train.log": table(rising)}).analysis.findings[0]
    step = int(finding.summary.rsplit(" ", 1)[1].rstrip("."))
    assert 110 <= step <= 130
