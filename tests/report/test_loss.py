"""What the reports say of the loss: the stacked bar, the advice, what would have saved some of it, energy."""

from __future__ import annotations

import re
from dataclasses import replace

from report_samples import VERSION, crash, tables

from postmortem.analysis.model import Advice, Bin, Loss, Saving, Span
from postmortem.report.document import to_document
from postmortem.report.html import render
from postmortem.report.svg_loss import loss_bar
from postmortem.report.terminal import summary
from postmortem.report.words_loss import advice_words, saving_words

ADVICE = Advice(
    tau_s=Span(2400.0, 4604.0, 5000.0),
    tau_steps=460,
    young_s=4624.0,
    daly_s=4604.0,
    availability_s=4658.0,
    floor_s=130.0,
    save_stall_s=30.0,
    save_lag_s=120.0,
    mtbf_s=Span(84_000.0, 356_400.0, 456_000.0),
    mtbf_basis="assumed",
    mtbf_source="public failure rates",
    overhead=0.013,
    ettr=0.985,
    conditions=("Failures come at a constant rate.",),
    now_s=1030.0,
    now_overhead=0.0306,
    now_ettr=0.967,
    is_near=False,
)
LOSS = Loss(
    gpus=8,
    bins=(
        Bin("productive", 700.0, 700.0, 700.0, "measured"),
        Bin("lost_work", 50.0, 200.0, 400.0, "inferred", True),
        Bin("queue", 100.0, 100.0, 100.0, "measured"),
    ),
    lost_s=Span(50.0, 200.0, 400.0),
    gpu_hours=Span(0.111, 0.444, 0.889),
    goodput=0.7,
    ettr_run=0.75,
    energy_kwh=Span(0.08, 0.31, 0.62),
    watts=700.0,
    advice=ADVICE,
    savings=(Saving("detection", Span(530.0, 540.0, 550.0)),),
)


def test_the_bar_has_a_part_for_each_bin_and_the_bounds_of_the_loss() -> None:
    drawing = loss_bar(LOSS)
    assert drawing is not None
    widths = {
        css: float(width)
        for css, width in re.findall(r'class="bin-(\w+)" x="[0-9.]+" y="22" width="([0-9.]+)"', drawing)
    }
    assert set(widths) == {"kept", "lost", "queue"}
    assert abs(widths["kept"] / widths["queue"] - 7) < 0.1
    assert 'class="whisker"' in drawing
    exact = loss_bar(replace(LOSS, lost_s=Span(200.0, 200.0, 200.0)))
    assert exact is not None
    assert "whisker" not in exact


def test_no_bar_without_time() -> None:
    assert loss_bar(Loss(gpus=8)) is None
    assert loss_bar(Loss(bins=(Bin("init", 0.0, float("nan"), 0.0, "measured"),))) is None


def test_the_advice_names_its_ground() -> None:
    assert "public failure rates, assumed" in advice_words(ADVICE)
    assert "about 460 steps" in advice_words(ADVICE)
    assert "near the optimum" in advice_words(replace(ADVICE, is_near=True))
    assert "as given" in advice_words(replace(ADVICE, mtbf_source="given", mtbf_basis="measured"))


def test_a_saving_shorter_than_the_advice_is_no_advice() -> None:
    saving = Saving("checkpoint_interval", Span(10.0, 10.0, 10.0), interval_s=515.0)
    assert "cost more than they save" in saving_words(saving, ADVICE)
    assert "cost more than they save" not in saving_words(replace(saving, interval_s=5000.0), ADVICE)


def test_every_output_says_it() -> None:
    analysis = replace(crash(), loss=LOSS)
    document = to_document(analysis, VERSION)["loss"]
    assert isinstance(document, dict)
    assert document["goodput"] == 0.7
    assert document["ettr_run"] == 0.75
    assert document["checkpoint_advice"]["interval_steps"] == 460
    assert document["what_if"][0]["what"] == "detection"
    assert document["energy_kwh"]["best"] == 0.31
    for page in (summary(analysis, colour=False, width=100), render(analysis, tables(), VERSION)):
        text = " ".join(page.split())
        for words in ("goodput", "70.0 %", "within 60 s", "about 460 steps"):
            assert words in text, words


def test_no_energy_where_none_was_asked() -> None:
    analysis = replace(crash(), loss=replace(LOSS, energy_kwh=None, watts=None))
    assert "kWh" not in summary(analysis, colour=False, width=100)
    assert "kWh" not in render(analysis, tables(), VERSION)
