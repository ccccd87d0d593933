"""Two readers of mutated entries: both take one and show the same state, or both refuse it.

Every entry of every good golden table, with one to three things changed, sums made right again for
most, and a checksum that is right. Spec: KEY-2, ENT-1 to ENT-16, SCH-1 to SCH-10, VAL-1 to VAL-4,
ADD-1 to ADD-9, DEL-1 to DEL-4, LIN-1, LIN-2, RPL-2 to RPL-7, TIM-1, TIM-2, VER-2, VER-4.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tablefmt.log import entry_columns, entry_json, strict_json
from tablefmt.snapshot import head
from tests.spec import mutated

pytestmark = pytest.mark.broken_tables

AT_EVERY_CHANGE = 400


@pytest.fixture(scope="module")
def tables() -> list[mutated.Base]:
    return mutated.bases()


@pytest.mark.slow
def test_both_readers_make_the_same_of_a_few_hundred_mutated_entries(
    tmp_path: Path, tables: list[mutated.Base]
) -> None:
    """The sample has each of the outcomes."""
    kinds, differences = mutated.compare(25, AT_EVERY_CHANGE, tmp_path, tables)
    assert differences == []
    assert min(kinds["taken"], kinds["refused"], kinds["newer"]) > AT_EVERY_CHANGE // 10


@pytest.mark.soak
def test_both_readers_make_the_same_of_5000_mutated_entries(
    tmp_path: Path, first_seed: int, tables: list[mutated.Base]
) -> None:
    kinds, differences = mutated.compare(first_seed, 5000, tmp_path, tables)
    print(dict(kinds))
    assert differences == []


def nothing(*_: Any, **__: Any) -> None:
    """A check that checks nothing."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "other"),
    [
        (entry_columns, "_check_added", nothing),
        (head, "_check_times", nothing),
        (head, "_check_totals", nothing),
        (strict_json, "_members", lambda document: document and 1),
        (entry_json, "time_of", lambda mapping, name: mapping[name]),
    ],
)
def test_a_reader_that_leaves_a_check_out_is_found(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tables: list[mutated.Base],
    module: Any,
    name: str,
    other: Callable[..., Any],
) -> None:
    """The comparison fails for each check that is left out."""
    monkeypatch.setattr(module, name, other)
    found = mutated.outcomes(25, AT_EVERY_CHANGE, tmp_path, tables)
    assert any(one is not None for _, one in found)
