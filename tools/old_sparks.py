"""Run the Spark tests on the older PySparks that are supported, each in an environment of its own.

    python tools/old_sparks.py [--folder FOLDER] [VERSION ...]

A version is what pip takes after `pyspark==`; without one, the newest 4.1 and the newest 4.2. The
environments are made in FOLDER (a temporary one that is removed, unless given) and used again the
next time. What a version fails is printed, then one line a version; the exit code is 1 if one did.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
VERSIONS = ("4.1.*", "4.2.*")
TESTS = "tests/spark"


def environment(folder: Path, version: str) -> Path:
    """The Python of an environment with that PySpark and all that the tests need."""
    home = folder / f"pyspark-{version.replace('*', 'x')}"
    python = home / "bin" / "python"
    complete = home / "complete"
    wanted = (TOP / "pyproject.toml").read_text()
    if not complete.exists() or complete.read_text() != wanted:
        venv.create(home, with_pip=True, clear=True)
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*install, f"pyspark=={version}", f"{TOP}[test]"], check=True)
        # The tests are to see the checkout, not a copy of it.
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", "tablefmt"], check=True)
        complete.write_text(wanted)
    return python


def tested(python: Path, chosen: str) -> tuple[str, str, float]:
    """The PySpark that ran, how its tests ended, and seconds."""
    start = time.monotonic()
    asked: list[str | Path] = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    run = subprocess.run(
        [python, "-m", "pytest", "-q", "-m", "not soak", chosen],
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        print(run.stdout)
    last = run.stdout.strip().splitlines()[-1] if run.stdout.strip() else "no output"
    return (
        found,
        ("passed: " if run.returncode == 0 else "FAILED: ") + last,
        (time.monotonic() - start),
    )


def main() -> int:
    """All versions asked for; 0 if every one passes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=list(VERSIONS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--tests", default=TESTS, help="what pytest is given")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="old-sparks-") as temporary:
        folder = given.folder or Path(temporary)
        answers = []
        for version in given.versions:
            print(f"== pyspark {version}", flush=True)
            answers.append(tested(environment(folder, version), given.tests))
    for found, answer, seconds in answers:
        print(f"pyspark {found}: {answer} ({seconds:.0f} s)")
    return int(any(answer.startswith("FAILED") for _, answer, _ in answers))


if __name__ == "__main__":
    sys.exit(main())
