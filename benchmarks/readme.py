"""Runs the commands quoted in README.md and docs/ and puts their real output below them.

A quoted output stands between two marks; the fenced block inside is replaced:

    <!-- output of: postmortem formats list --event gpu.sxid -->
    (fenced block)
    <!-- end -->

`<!-- output of, first 20 lines: … -->` keeps the beginning, `last 3 lines` the end. Commands run in bash in a temporary folder that shows
`sample_logs` and `parsers`; stdout and stderr come as on a terminal of 100 columns without colour.

    python benchmarks/readme.py            rewrite what changed, print the names of changed files
    python benchmarks/readme.py --check    change nothing, exit 1 when something is out of date
    python benchmarks/readme.py config     only the commands that hold this text
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<mark><!-- output of(?:, (?P<end>first|last) (?P<count>[0-9]+) lines)?: (?P<command>[^\n]+?) -->\n)"
    r"```[a-z]*\n.*?^```\n(?P<close><!-- end -->)",
    re.DOTALL | re.MULTILINE,
)
LAUNCHER = """\
#!{python}
import sys
sys.path.insert(0, {top!r})
from postmortem.cli import main
if __name__ == "__main__":
    main()
"""


def pages() -> list[Path]:
    """The README and every page of docs/ that quotes an output."""
    return [
        p
        for p in (TOP / "README.md", *sorted((TOP / "docs").glob("*.md")))
        if BLOCK.search(p.read_text(encoding="utf-8"))
    ]


def refreshed(text: str, folder: Path, only: str = "") -> str:
    """`text` with the output of every marked command (that holds `only`) as it is now; commands run in `folder` (see `prepare`)."""

    def again(match: re.Match[str]) -> str:
        if only not in match["command"]:
            return match[0]
        lines = _run(match["command"], folder).rstrip("\n").split("\n")
        if match["count"]:
            count = int(match["count"])
            cut = len(lines) > count
            lines = lines[:count] if match["end"] == "first" else lines[-count:]
            if cut:
                lines = [*lines, "…"] if match["end"] == "first" else ["…", *lines]
        body = "\n".join(line.rstrip() for line in lines)
        return f"{match['mark']}```console\n$ {match['command']}\n{body}\n```\n{match['close']}"

    return BLOCK.sub(again, text)


def prepare(folder: Path) -> None:
    """A working folder with the checkout's samples and definitions, and a `postmortem` that runs the checkout."""
    for name in ("sample_logs", "parsers"):
        (folder / name).symlink_to(TOP / name)
    launcher = folder / ".bin" / "postmortem"
    launcher.parent.mkdir()
    launcher.write_text(LAUNCHER.format(python=sys.executable, top=str(TOP)), encoding="utf-8")
    launcher.chmod(0o755)


@cache
def _run(command: str, folder: Path) -> str:
    """Output of `command`, run once however often it is quoted; what it wrote is removed, so that no other output is numbered after it."""
    env = {
        **{name: value for name, value in os.environ.items() if name != "POSTMORTEM_CACHE"},
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "PATH": f"{folder / '.bin'}:{os.environ.get('PATH', '')}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "POSTMORTEM_CONFIG": os.devnull,
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    for written in (*folder.glob("*.html"), *folder.glob("*.toml")):
        written.unlink()
    # A slow machine prints progress now and then.
    text = re.sub(r"^\[[#.]+\] .*\n", "", done.stdout.decode("utf-8", "replace"), flags=re.MULTILINE)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}, nothing was changed: {command}\n{text}")
    return text


def main() -> int:
    """Exit code: 1 when --check found something out of date."""
    check = "--check" in sys.argv[1:]
    only = next((one for one in sys.argv[1:] if one != "--check"), "")
    stale = []
    with tempfile.TemporaryDirectory(prefix="postmortem-readme-") as name:
        folder = Path(name)
        prepare(folder)
        for page in pages():
            old = page.read_text(encoding="utf-8")
            new = refreshed(old, folder, only)
            if new != old:
                stale.append((page, new))
    for page, new in stale:
        if not check:
            page.write_text(new, encoding="utf-8")
        print(page.relative_to(TOP))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
