"""Builds wheel and sdist and installs each into an empty environment of every Python that is found, then analyses a sample with it.

    python benchmarks/release.py                     all of python3.11 to python3.14 on PATH or among pyenv's
    python benchmarks/release.py --keep DIR          leave wheel and sdist there

Prints one line per Python and package, and the sizes. Exit code 1 when an installation fails, answers differ, or the wheel is 2 MB or larger.
Needs hatchling (extra `test`) and an index that pip can reach.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
WHEEL_LIMIT = 2_000_000
SAMPLE = TOP / "sample_logs" / "gpu-off-the-bus"


def build(folder: Path) -> tuple[Path, Path]:
    """Wheel and sdist of this checkout."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(TOP)).build(directory=str(folder), versions=["standard"])
    (sdist,) = SdistBuilder(str(TOP)).build(directory=str(folder), versions=["standard"])
    return Path(wheel), Path(sdist)


def python(version: str) -> str | None:
    """The interpreter of a version that runs: on PATH (where pyenv's shim may stand for one that is not switched on), else pyenv's own."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (shutil.which(name), *sorted(map(str, pyenv.glob(f"{version}.*/bin/{name}")))):
        if path and subprocess.run([path, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return path
    return None


def without_installing(wheel: Path, work: Path) -> str:
    """What `uvx` and `pipx run` say of the version. Raises CalledProcessError where one fails."""
    env = work / "runners"
    subprocess.run([sys.executable, "-m", "venv", str(env)], check=True, capture_output=True)
    subprocess.run([env / "bin" / "pip", "install", "-q", "uv", "pipx"], check=True, capture_output=True)
    homes = {**os.environ, "UV_CACHE_DIR": str(work / "uv"), "PIPX_HOME": str(work / "pipx")}
    said = []
    for run in (["uvx", "--from", str(wheel), "postmortem"], ["pipx", "run", "--spec", str(wheel), "postmortem"]):
        command = [str(env / "bin" / run[0]), *run[1:], "--version"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=work, env=homes)
        said.append(f"{run[0]}: {done.stdout.strip()}")
    return ", ".join(said)


def answer(interpreter: str, package: Path, work: Path) -> str:
    """What the installed program says of the sample: cause and version. Raises CalledProcessError where something fails."""
    env = work / "env"
    subprocess.run([interpreter, "-m", "venv", "--clear", str(env)], check=True, capture_output=True)
    subprocess.run([env / "bin" / "pip", "install", "-q", str(package)], check=True, capture_output=True)
    run = [env / "bin" / "postmortem", "analyze", "-q", "--format", "json", SAMPLE / "bundle"]
    done = subprocess.run([*map(str, run)], check=True, capture_output=True, text=True, cwd=work)
    document = json.loads(done.stdout)
    return f"{document['verdict']['cause']} {document['verdict']['confidence']} by {document['version']}"


def main() -> int:
    """Exit code 1 when something is wrong."""
    wrong = False
    with tempfile.TemporaryDirectory(prefix="postmortem-release-") as name:
        work = Path(name)
        packages = build(work)
        for package in packages:
            print(f"{package.name}: {package.stat().st_size / 1e6:.2f} MB")
        wrong |= packages[0].stat().st_size >= WHEEL_LIMIT
        said = set()
        for version in VERSIONS:
            interpreter = python(version)
            if interpreter is None:
                print(f"Python {version}: not on this machine")
                continue
            for package in packages:
                try:
                    said.add(found := answer(interpreter, package, work))
                    print(f"Python {version}, {package.suffix.removeprefix('.')}: {found}", flush=True)
                except subprocess.CalledProcessError as error:
                    wrong = True
                    print(f"Python {version}, {package.name}: {error}\n{error.stderr!s}")
        wrong |= len(said) != 1
        try:
            print(without_installing(packages[0], work), flush=True)
        except subprocess.CalledProcessError as error:
            wrong = True
            print(f"{error}\n{error.stderr!s}")
        if "--keep" in sys.argv[1:]:
            target = Path(sys.argv[sys.argv.index("--keep") + 1])
            target.mkdir(parents=True, exist_ok=True)
            for package in packages:
                shutil.copy2(package, target)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
