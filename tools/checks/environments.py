"""Test the oldest and the newest declared dependencies, each in a separate environment.

    python tools/checks/environments.py [--folder FOLDER] [--python PYTHON] [oldest|newest ...]

`oldest` installs every lower bound of pyproject.toml, on the oldest supported Python that this
machine has. `newest` installs the newest releases of an index, on the newest Python. Each runs
`pip check`, and the tests of every part except Spark. The environments are created in FOLDER (a
temporary one by default) and reused the next time. The exit code is 1 if one fails.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
EXTRAS = "s3,gcs,azure,sql,pandas,polars"
TOOLS = ["hypothesis", "jsonschema", "moto[server,s3]", "pytest", "pytest-timeout", "pytest-xdist"]
SMOKE = ["tests/spec/test_golden.py", "tests/spec/test_golden_feeds.py", "tests/expressions"]
SMOKE += ["tests/engines", "tests/data", "tests/store", "tests/cli", "tests/table"]

DEVELOPMENT = {"test", "docs", "bench"}
GROUP = re.compile(r"^(\w+) = \[(.*?)\](?: *#[^\n]*)?$", re.MULTILINE | re.DOTALL)
BOUND = re.compile(r'"([a-z0-9-]+)>=([\w.]+)')
NAMED = re.compile(r'"Programming Language :: Python :: (3\.\d+)"')


def lower_bounds(text: str) -> list[str]:
    """Return constraints that fix every dependency of a pyproject.toml at its lower bound.

    The extras for development are left out, because users do not depend on their versions.
    """
    found: dict[str, str] = {}
    for group, items in GROUP.findall(text[text.index("\ndependencies = [") :]):
        if group not in DEVELOPMENT:
            found.update(BOUND.findall(items))
    if "botocore" in found:
        # The tests' boto3 goes with it: without a bound, pip tries hundreds of its releases.
        found["boto3"] = found["botocore"]
    return [f"{name}=={bound}" for name, bound in sorted(found.items())]


def pythons(text: str) -> list[str]:
    """Return the Pythons that a pyproject.toml supports and this machine has, oldest first."""
    found = []
    for version in sorted(NAMED.findall(text), key=lambda name: int(name.partition(".")[2])):
        here = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for candidate in (shutil.which(f"python{version}"), *map(str, here)):
            if candidate is None:
                continue
            runs = subprocess.run([candidate, "-c", ""], capture_output=True, check=False)
            if runs.returncode == 0:
                found.append(candidate)
                break
    return found or [sys.executable]


def environment(home: Path, python: str, constraints: list[str]) -> Path:
    """Return the Python of an environment with the package's dependencies and the test tools."""
    own, complete = home / "bin" / "python", home / "complete"
    wanted = "\n".join([(TOP / "pyproject.toml").read_text("utf-8"), python, *constraints])
    if not complete.exists() or complete.read_text("utf-8") != wanted:
        # pip 24.2, which comes with Python 3.13.0, finds no set of newest releases that fit.
        subprocess.run([python, "-m", "venv", "--clear", "--upgrade-deps", home], check=True)
        (home / "constraints.txt").write_text("\n".join(constraints), encoding="utf-8")
        install: list[str | Path] = [
            own,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
        ]
        limits: list[str | Path] = ["-c", home / "constraints.txt"] if constraints else []
        subprocess.run([*install, f"{TOP}[{EXTRAS}]", *TOOLS, *limits], check=True)
        complete.write_text(wanted, encoding="utf-8")
    return own


def check(python: Path) -> bool:
    """Run `pip check` and the smoke tests; print what fails."""
    passed = True
    commands: list[list[str]] = [
        ["pip", "check", "--disable-pip-version-check"],
        ["pytest", "-q", "-m", "not soak and not spark", *SMOKE],
    ]
    for command in commands:
        done = subprocess.run(
            [python, "-m", *command], cwd=TOP, capture_output=True, text=True, check=False
        )
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        print("\n".join(lines if done.returncode else lines[-1:]), flush=True)
        passed = passed and done.returncode == 0
    return passed


def main(arguments: list[str] | None = None) -> int:
    """Build and check the requested environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="oldest|newest", default=["oldest", "newest"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--python", help="instead of the oldest or the newest that is named")
    given = parser.parse_args(arguments)
    text = (TOP / "pyproject.toml").read_text("utf-8")
    known = pythons(text)
    cases = {"oldest": (known[0], lower_bounds(text)), "newest": (known[-1], [])}
    failed = []
    with tempfile.TemporaryDirectory(prefix="environments-") as temporary:
        for name in given.names:
            python, constraints = cases[name]
            python = given.python or python
            print(f"== {name} on {python}", flush=True)
            home = (given.folder or Path(temporary)) / f"{name}-{Path(python).resolve().parts[-3]}"
            if not check(environment(home, python, constraints)):
                failed.append(name)
    print(f"FAILED: {', '.join(failed)}" if failed else f"passed: {', '.join(given.names)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
