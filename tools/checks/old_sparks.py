"""Run the Spark tests on the older supported PySparks, each in a separate environment.

    python tools/checks/old_sparks.py [--smoke] [--folder FOLDER] [--tests TEST ...] [VERSION ...]

A version is a tested minor version, such as 4.1, or one of its releases, such as 4.1.0. Without a
version, all tested minor versions except the newest run; with --smoke only the oldest runs. An
environment has that PySpark in front of the packages of the current one. It is created in FOLDER
(.venv/sparks by default) and reused the next time. The program prints the failures, then one line
for each version. The exit code is 1 if a version failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP))

from tablefmt.spark.jvm.spark_internals import MINORS  # noqa: E402

TESTS = ["tests/spark"]
SMOKE = ["tests/spark/jvm/smoke.py", "tests/spark/jvm/test_callers.py"]
"""Tests that CI runs on the oldest version at every change, and on the others in the soak."""
OLD = tuple(f"{major}.{minor}" for major, minor in MINORS[:-1])


def environment(folder: Path, version: str) -> Path:
    """Return the Python of an environment with that PySpark."""
    home = folder / version
    python = home / "bin" / "python"
    complete = home / "complete"
    base = sysconfig.get_path("purelib")
    wanted = f"{sys.version} {base}\n{(TOP / 'pyproject.toml').read_text('utf-8')}"
    if not complete.exists() or complete.read_text("utf-8") != wanted:
        venv.create(home, with_pip=False, clear=True)
        paths = {"base": str(home), "platbase": str(home)}
        packages = Path(sysconfig.get_path("purelib", vars=paths))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-compile"]
        wish = f"pyspark=={version}" + (".*" if version.count(".") == 1 else "")
        subprocess.run([*pip, "--target", str(packages), wish], check=True)
        (packages / "behind.pth").write_text(f"import site; site.addsitedir({base!r})\n", "utf-8")
        complete.write_text(wanted, "utf-8")
    return python


def tested(python: Path, chosen: list[str]) -> tuple[str, str, float]:
    """Return the PySpark version, the result of its tests, and the seconds."""
    start = time.monotonic()
    asked: list[str | Path] = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    run = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "0", "-m", "not soak", *chosen],
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
    """Run all requested versions; return 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--folder", type=Path, default=TOP / ".venv" / "sparks")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="what pytest is given")
    parser.add_argument("--smoke", action="store_true", help="a few tests, on the oldest version")
    given = parser.parse_args()
    if given.smoke:
        given.tests = SMOKE
    answers = []
    for version in given.versions or (OLD[:1] if given.smoke else OLD):
        print(f"== pyspark {version}", flush=True)
        answers.append(tested(environment(given.folder, version), given.tests))
    for found, answer, seconds in answers:
        print(f"pyspark {found}: {answer} ({seconds:.0f} s)")
    return int(any(answer.startswith("FAILED") for _, answer, _ in answers))


if __name__ == "__main__":
    sys.exit(main())
