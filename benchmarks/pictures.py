"""Takes the pictures of README.md and docs/ from real reports of sample_logs, in Chromium.

    python benchmarks/pictures.py            rewrite docs/pictures/
    python benchmarks/pictures.py FOLDER     put them into FOLDER, with the phone, dark and print views of every sample, to be looked at

Needs the extra `test` (Playwright) and Debian's chromium, or the browser that CHROMIUM names. Pictures differ a little from machine to machine
(fonts), so no test compares them; tests/test_docs.py holds that each is small and shown by some page.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import postmortem

if TYPE_CHECKING:
    from typing import Literal

    from playwright.sync_api import Browser

TOP = Path(__file__).resolve().parent.parent
PICTURES = TOP / "docs" / "pictures"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
DESK, PHONE = (1200, 860), (390, 844)


def shoot(
    browser: Browser,
    report: Path,
    target: Path,
    size: tuple[int, int] = DESK,
    part: str = "",
    scheme: Literal["light", "dark"] = "light",
    whole: bool = False,
) -> None:
    """One picture: the first screen, the `whole` page or the element that the selector `part` finds."""
    page = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme).new_page()
    page.goto(report.as_uri())
    if part:
        page.locator(part).first.screenshot(path=target)
    else:
        page.screenshot(path=target, full_page=whole)
    page.context.close()


def reports(folder: Path, names: list[str]) -> dict[str, Path]:
    """Reports of samples."""
    found = {}
    for name in names:
        with postmortem.analyze(TOP / "sample_logs" / name / "bundle", workers=1) as incident:
            found[name] = incident.report(folder / f"{name}.html")
    return found


def main() -> int:
    """Exit code 2 where there is no browser."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        print("no chromium on this machine: name one in CHROMIUM", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    looked_at = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    target = looked_at or PICTURES
    target.mkdir(parents=True, exist_ok=True)
    names = ["link-flap", "gpu-off-the-bus", "straggler-queue-pair"] if looked_at else ["link-flap"]
    with tempfile.TemporaryDirectory(prefix="postmortem-") as work, sync_playwright() as driver:
        made = reports(Path(work), names)
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        flap = made["link-flap"]
        shoot(browser, flap, target / "report.png")
        shoot(browser, flap, target / "timeline.png", part="#timeline")
        shoot(browser, flap, target / "phone.png", PHONE)
        for name, report in made.items() if looked_at else ():
            shoot(browser, report, target / f"{name}-whole.png", whole=True)
            shoot(browser, report, target / f"{name}-phone-whole.png", PHONE, whole=True)
            shoot(browser, report, target / f"{name}-dark.png", scheme="dark")
            page = browser.new_page()
            page.goto(report.as_uri())
            page.pdf(path=target / f"{name}.pdf", format="A4")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
