"""The tests of a module are found by its path: their folders are those of the package."""

from __future__ import annotations

from pathlib import Path

import tablefmt
from tests.places import ROOT
from tests.scheduling import LONG

PACKAGE = Path(tablefmt.__file__).parent
TESTS = ROOT / "tests"
OF_NO_PACKAGE = {
    "architecture": "the shape of the package",
    "documents": "README and the site",
    "spark/cluster": "executors in processes of their own",
    "spark/connect": "the Spark Connect client",
    "spark/s3": "Spark on S3",
    "spec": "the specification, its golden tables and the second reader",
    "system": "many packages at once: faults, processes, simulation, histories, requests",
    "table": "what holds for every verb",
}


def test_folders_of_tests_are_packages() -> None:
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    of_packages = {
        f for f in folders if not any(f"{f}/".startswith(f"{o}/") for o in OF_NO_PACKAGE)
    }
    assert of_packages
    assert [folder for folder in sorted(of_packages) if not (PACKAGE / folder).is_dir()] == []


def test_the_schedule_names_tests_that_exist() -> None:
    assert [path for path in LONG if not (ROOT / path).exists()] == []
