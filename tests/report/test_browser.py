"""The report in a real browser: it renders, asks for nothing, its links land, its tools work, it prints, it fits a phone, axe finds nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from report_samples import VERSION, after, crash, filled, insert, quiet, tables, unknown

from postmortem.report.html import Theme, render
from postmortem.resources import data_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; .ci/run installs it, elsewhere the tests are skipped without it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of a crash with everything in it, of an unknown cause, of a quiet run, and of 2,048 ranks."""
    folder = tmp_path_factory.mktemp("reports")
    con = filled()
    insert(
        con,
        "ranks",
        "rank, host, node, local_rank",
        [(r, f"node-{r // 8}", f"node-{r // 8}", r % 8) for r in range(64)],
    )
    rows = [
        (100 + r, after(r), r, "torch", "torch.watchdog_timeout", "error", "out.log", r + 1) for r in range(0, 64, 3)
    ]
    insert(con, "events", "event_id, ts, rank, source, event, severity, file, line", rows)
    large = tables()
    large.execute(
        "INSERT INTO ranks (rank, host, node, local_rank) SELECT r, node, node, r % 8 FROM (SELECT i AS r, format('node-{:04}', i // 8) AS node FROM range(2048) t(i))"
    )
    large.execute(
        "INSERT INTO events (event_id, ts, rank, source, event, severity, file, line) "
        "SELECT i, ?::TIMESTAMP + to_milliseconds(20 * i), 2 * i, 'torch', 'torch.watchdog_timeout', 'error', 'out.log', i + 1 FROM range(1024) t(i)",
        [after(0)],
    )
    made = {
        "crash": (crash(), con),
        "unknown": (unknown(), tables()),
        "quiet": (quiet(), filled()),
        "large": (crash(), large),
    }
    found = {}
    for name, (analysis, tables_of) in made.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(render(analysis, tables_of, VERSION), encoding="utf-8")
    return found


NAMES = ["crash", "unknown", "quiet", "large"]


def opened(
    browser: Browser, path: Path, size: dict[str, int], *, scripts: bool = True, scheme: str = "light"
) -> tuple[Page, list[str]]:
    """The page, and what it complained of or asked for."""
    page = browser.new_context(viewport=size, java_script_enabled=scripts, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    return page, said


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
@pytest.mark.parametrize("name", NAMES)
def test_it_renders_without_complaint_or_request_and_fits(
    browser: Browser, files: dict[str, Path], name: str, scripts: bool, size: dict[str, int]
) -> None:
    page, said = opened(browser, files[name], size, scripts=scripts)
    assert page.locator("h1").is_visible()
    assert said == []
    checker, _ = opened(browser, files[name], size) if not scripts else (page, [])
    assert checker.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_serious(browser: Browser, files: dict[str, Path], name: str, scheme: str) -> None:
    context = browser.new_context(viewport=DESK, color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(files[name].as_uri())
    page.evaluate((ROOT / "data" / "axe-core-4.14.1" / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html.slice(0, 200)]))")
    assert [one for one in found if one[0] in {"serious", "critical"}] == []


def test_links_within_the_page_land(browser: Browser, files: dict[str, Path]) -> None:
    page, _ = opened(browser, files["crash"], DESK)
    lost = page.evaluate(
        "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
        ".filter(h => !h.startsWith('#') || !document.getElementById(h.slice(1)))"
    )
    assert lost == []


def test_a_drawing_can_be_enlarged_and_fitted_again(browser: Browser, files: dict[str, Path]) -> None:
    page, _ = opened(browser, files["crash"], DESK)
    box = page.locator("#timeline .scroll").first
    before = box.evaluate("e => e.scrollWidth")
    page.locator("#timeline .tool", has_text="+").click()
    assert box.evaluate("e => e.scrollWidth") > 1.4 * before
    page.locator("#timeline .tool", has_text="fit").click()
    assert box.evaluate("e => e.scrollWidth") == before


def test_steps_can_be_zoomed_into(browser: Browser, files: dict[str, Path]) -> None:
    page, said = opened(browser, files["crash"], DESK)
    page.locator("#steps .tool", has_text="zoom").click()
    over = page.locator(".uplot-holder .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 60, steps=4)
    page.mouse.up()
    assert said == []
    page.locator("#steps .tool", has_text="zoom").click()
    assert page.locator(".uplot-holder").count() == 0


def test_an_evidence_line_can_be_copied(browser: Browser, files: dict[str, Path]) -> None:
    page, _ = opened(browser, files["crash"], DESK)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator("#evidence .tool").first
    button.click()
    page.wait_for_function("document.querySelector('#evidence .tool').textContent === 'copied'")
    assert ":" in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize(("theme", "scheme"), [("dark", "light"), ("light", "dark")])
def test_a_theme_holds_against_the_system_and_paper_is_white(
    browser: Browser, tmp_path: Path, theme: Theme, scheme: str
) -> None:
    path = tmp_path / "r.html"
    path.write_text(render(unknown(), tables(), VERSION, theme=theme), encoding="utf-8")
    page, said = opened(browser, path, DESK, scheme=scheme)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == ("rgb(17, 21, 27)" if theme == "dark" else "rgb(255, 255, 255)")
    page.emulate_media(media="print")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert said == []


def test_on_a_phone_the_line_that_counts_is_seen_among_its_neighbours(browser: Browser, tmp_path: Path) -> None:
    first, *rest = crash().findings
    line, *others = first.evidence
    long = "a long line of an export that wraps many times on a narrow screen " * 12
    told = replace(first, evidence=(replace(line, before=(long,) * 3, after=(long,) * 3), *others))
    path = tmp_path / "r.html"
    path.write_text(render(replace(crash(), findings=(told, *rest)), tables(), VERSION), encoding="utf-8")
    page, _ = opened(browser, path, PHONE)
    box = page.locator("#e1-1 .log")
    assert box.evaluate("e => e.scrollHeight <= e.clientHeight"), "nothing of it is hidden below a fold"
    assert box.evaluate("e => e.clientHeight") < PHONE["height"]
    page.emulate_media(media="print")
    assert page.locator("#e1-1 .log div:not(.hit) code").first.evaluate("e => e.scrollHeight <= e.clientHeight + 1")


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_it_prints(browser: Browser, files: dict[str, Path], paper: str) -> None:
    page, _ = opened(browser, files["crash"], DESK)
    page.emulate_media(media="print")
    assert not page.locator("#timeline .tools").is_visible()
    assert page.pdf(format=paper).startswith(b"%PDF-")


def test_2048_ranks_stay_readable_and_small(browser: Browser, files: dict[str, Path]) -> None:
    assert files["large"].stat().st_size < 2_000_000
    page, _ = opened(browser, files["large"], DESK)
    assert page.locator("#ranks svg.ranks g").count() == 256
    assert page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") < 5000


def test_vendored_files_are_as_published() -> None:
    folder = data_folder("reports") / "vendor"
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    present = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {"SHA256SUMS"}
    assert set(listed) == present
    for name, digest in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
