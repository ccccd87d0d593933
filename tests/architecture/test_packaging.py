"""Files of the packages, their metadata, and the effects of importing tablefmt."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.places import ROOT

IMPORTED = """
import sys
before = set(sys.modules)
import tablefmt
ours = sorted(name for name in sys.modules if name.split(".")[0] == "tablefmt")
print(*ours)
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}
              - set(sys.stdlib_module_names) - {"tablefmt"}))
assert set(tablefmt.__all__) <= set(dir(tablefmt))
for name in tablefmt.__all__:
    assert getattr(tablefmt, name) is getattr(tablefmt, name), name
assert "pyarrow" in sys.modules
"""

UNTOUCHED = """
import faulthandler, gc, locale, os, signal, socket, sys, threading

def refuse(*_, **__): raise AssertionError("a switch of the process, or the network")

def switches():
    return {
        "environment": dict(os.environ),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
        "recursion": sys.getrecursionlimit(),
        "threads": threading.active_count(),
        "locale": locale.setlocale(locale.LC_ALL),
        "timeout": socket.getdefaulttimeout(),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook),
        "interval": sys.getswitchinterval(),
        "faults": faulthandler.is_enabled(),
        "folder": os.getcwd(),
        "files": sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__,
    }

before = switches()
gc.disable = gc.freeze = gc.set_threshold = refuse
signal.signal = sys.setrecursionlimit = socket.socket.connect = refuse
import tablefmt
import tablefmt.table
import tablefmt.spark
assert gc.isenabled()
after = switches()
assert before == after, [name for name in before if before[name] != after[name]]
for name in ("pyspark", "s3fs", "aiobotocore", "click", "rich", "duckdb"):
    assert name not in sys.modules, name
tablefmt.create(sys.argv[1], "id BIGINT")
for name in ("pyspark", "s3fs", "fsspec", "duckdb"):
    assert name not in sys.modules, name
"""


def run(script: str, *arguments: str) -> str:
    """Return the output of a new process. It must succeed and print nothing to stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
def test_importing_the_package_imports_nothing_heavy() -> None:
    """A bound on modules, where a bound on seconds would depend on the machine.

    pyarrow, pandas (which pyarrow.dataset imports) and sqlglot take most of a second. They come
    with the first public name that is used.
    """
    ours, others = run(IMPORTED).splitlines()
    assert ours.split() == ["tablefmt", "tablefmt.errors", "tablefmt.printable"]
    assert others.split() == []


IMPORT_SECONDS = 0.25
"""Processor time that `import tablefmt` may take. It takes about a twentieth of this."""

TIMED = """
import time
began = time.process_time()
import tablefmt
print(time.process_time() - began)
"""


@pytest.mark.slow
def test_importing_the_package_is_quick() -> None:
    """Processor time, the least of five processes: other programs on the machine do not count."""
    assert min(float(run(TIMED)) for _ in range(5)) <= IMPORT_SECONDS


@pytest.mark.slow
def test_importing_the_package_switches_nothing_of_the_process(tmp_path: Path) -> None:
    """The import loads no engine and no client. A local table does not either."""
    assert run(UNTOUCHED, str(tmp_path / "t")) == ""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: .ci/recipes env installs it")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def tracked(*places: str) -> set[str]:
    """Files of the checkout that git has, or would take."""
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard", "--", *places]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {name for name in said.split("\0") if name and (ROOT / name).exists()}


@pytest.mark.slow
def test_the_wheel_is_the_package_and_nothing_else(built: Path) -> None:
    """The wheel is small: it has 1.6 MB, and may have 2."""
    [wheel] = built.glob("*.whl")
    assert wheel.stat().st_size < 2 << 20
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == tracked("tablefmt")


def test_the_sdist_is_the_checkout_without_golden_tables_and_results(built: Path) -> None:
    """The sdist has the files that build the wheel, document it and test it."""
    [sdist] = built.glob("*.tar.gz")
    assert sdist.stat().st_size < 4 << 20
    with tarfile.open(sdist) as archive:
        names = {m.name.split("/", 1)[1] for m in archive.getmembers() if m.isfile()}
    left_out = {n for n in tracked("spec/golden") if n.count("/") > 2}
    left_out |= tracked("benchmarks/results")
    assert len(left_out) > 1000
    assert names == (tracked() - left_out) | {"PKG-INFO"}


def test_what_is_declared(built: Path) -> None:
    """Metadata that an index shows."""
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        header = archive.read(name).decode().split("\n\n")[0].splitlines()
    fields = [line.partition(": ") for line in header]
    given = {key: [value for name, _, value in fields if name == key] for key, _, _ in fields}
    assert [url.split(", ")[0] for url in given["Project-URL"]] == [
        "Homepage",
        "Documentation",
        "Changes",
        "Issues",
    ]
    assert given["Author"] == ["The tablefmt maintainers"]
    assert "lakehouse" in given["Keywords"][0].split(",")
    assert given["Requires-Python"] == [">=3.10"]
    pythons = [c.rpartition(" ")[2] for c in given["Classifier"] if ":: Python :: 3." in c]
    assert pythons == ["3.10", "3.11", "3.12", "3.13"]
