"""For any stored bytes, a reader takes little memory, and gives the right rows or an error.

Spec: STO-24, STO-25.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.system.fuzzed_bytes import ENVIRONMENT, FORGED, SAME
from tests.system.fuzzed_copies import CHANGES
from tests.system.fuzzed_fields import FIELDS

BYTES, COPIES = "tests.system.fuzzed_bytes", "tests.system.fuzzed_copies"
VALUES = "tests.system.fuzzed_fields"


def run(seed: int, cases: int, *more: str, module: str = BYTES) -> tuple[int, str]:
    """Run cases in a process of their own. Return its code, and its output for failed cases."""
    command = [sys.executable, "-m", module, str(seed), str(cases), *more]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    crash = "" if done.returncode in (0, 1) else done.stderr[-2000:]
    return done.returncode, done.stdout + crash


@pytest.mark.soak
def test_changed_bytes_are_right_rows_or_an_error(first_seed: int) -> None:
    """STO-24, STO-25: 1 GB, random changes of every kind of object."""
    assert run(first_seed, 3000) == (0, "")


@pytest.mark.soak
@pytest.mark.parametrize("kind", [*SAME, *FORGED])
def test_every_kind_of_change_is_right_rows_or_an_error(kind: str) -> None:
    """STO-24, STO-25: the same cases in every run."""
    assert run(1, 20, "", kind) == (0, "")


@pytest.mark.soak
def test_changed_copies_and_sources_are_rows_or_an_error(first_seed: int) -> None:
    """STO-25, IMP-5, XPT-1: 1 GB, random changes of what imports and exports read."""
    assert run(first_seed, 1000, module=COPIES) == (0, "")


@pytest.mark.soak
def test_changed_fields_are_rows_or_an_error(first_seed: int) -> None:
    """STO-24, ENT-16, IDN-2, EVO-2, RPL-7: cursors, identity claims and partitionings."""
    assert run(first_seed, 1500, module=VALUES) == (0, "")


@pytest.mark.slow
def test_a_few_changed_fields_are_rows_or_an_error() -> None:
    """STO-24, IDN-2, EVO-2, RPL-7: a fixed sample at every change."""
    assert run(1, 5, module=VALUES) == (0, "")


@pytest.mark.soak
@pytest.mark.parametrize("field", FIELDS)
def test_every_changed_field_is_rows_or_an_error(field: str) -> None:
    """STO-24, ENT-16, IDN-2, EVO-2, RPL-7: the same cases in every run."""
    assert run(1, 20, field, module=VALUES) == (0, "")


@pytest.mark.soak
@pytest.mark.parametrize("kind", CHANGES)
def test_every_kind_of_changed_copy_is_rows_or_an_error(kind: str) -> None:
    """STO-25: the same cases in every run."""
    assert run(1, 40, kind, module=COPIES) == (0, "")


@pytest.mark.soak
@pytest.mark.parametrize(("gate", "kind"), [("pages", "side"), ("json", "json"), ("far", "names")])
def test_a_gate_that_is_left_out_is_missed(gate: str, kind: str) -> None:
    """The cases fail if one gate is left out."""
    code, said = run(1, 40, gate, kind)
    assert (code != 0, bool(said)) == (True, True)


@pytest.mark.slow
def test_a_few_changed_bytes_are_right_rows_or_an_error() -> None:
    """STO-24, STO-25: a fixed sample at every change."""
    assert run(1, 12, "", "bytes") == (0, "")
