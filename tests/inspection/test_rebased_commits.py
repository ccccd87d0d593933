"""Commits that met concurrent ones: by pair of operations, against a plain count."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import InvalidRangeError, VersionNotFoundError
from tablefmt.inspection.rebased_commits import PAIRS, VERSIONS, rebased_pairs
from tests.cli.conftest import run
from tests.tables import memory, rows

Pairs = dict[tuple[str, str], tuple[int, int, int, int]]


def counted(first: int, names: list[str], read: list[int | None], since: int, last: int) -> Pairs:
    """Return commits, times, and the first and last version by pair, commit by commit."""
    met: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for at, (name, known) in enumerate(zip(names, read, strict=True)):
        version = first + at
        if known is None or not since <= version <= last:
            continue
        onto = names[max(known + 1 - first, 0) : at]
        for other in set(onto):
            met[name, other].append((version, onto.count(other)))
    return {
        pair: (len(found), sum(n for _, n in found), found[0][0], found[-1][0])
        for pair, found in met.items()
    }


def by_pair(pairs: pa.Table) -> Pairs:
    assert pairs.schema == PAIRS
    assert pairs["times"].to_pylist() == sorted(pairs["times"].to_pylist(), reverse=True)
    return {tuple(row[:2]): tuple(row[2:]) for row in zip(*pairs.to_pydict().values(), strict=True)}


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[str], list[int | None]]:
    first = draw(st.integers(0, 50))
    commits = draw(st.lists(st.tuples(st.sampled_from("WDC"), st.integers(1, 12)), max_size=40))
    read = [first + at - back for at, (_, back) in enumerate(commits)]
    return first, [name for name, _ in commits], [None if r < 0 else r for r in read]


@given(histories(), st.integers(0, 100))
def test_pairs_are_counted(history: tuple[int, list[str], list[int | None]], since: int) -> None:
    first, names, read = history
    zeros = [0] * len(names)
    numbers = list(range(first, first + len(names)))
    versions = pa.table([numbers, zeros, names, read, zeros, zeros, zeros], schema=VERSIONS)
    assert by_pair(rebased_pairs(versions, since)) == counted(first, names, read, since, 1 << 60)


@pytest.fixture
def table() -> tablefmt.Table:
    """Return a table whose versions 3 and 6 to 8 were rebased."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1))
    behind = tablefmt.open(table.uri).transaction()
    behind.append(rows(2))
    table.append(rows(3))
    behind.commit()
    others = [tablefmt.open(table.uri).transaction() for _ in range(3)]
    for number, other in enumerate(others):
        other.append(rows(10 + number))
    table.refresh()
    table.append(rows(4))
    table.delete("id = 3")
    for other in others:
        other.commit()
    table.alter.set_tag("q", version=6)
    return table


def expected(table: tablefmt.Table, since: int, last: int) -> Pairs:
    log = table.history().sort_by("version")
    return counted(0, log["operation"].to_pylist(), log["readVersion"].to_pylist(), since, last)


def test_a_report_has_the_pairs_of_the_log(table: tablefmt.Table) -> None:
    found = table.conflicts()
    assert (found.first, found.last, found.commits) == (0, 9, 4)
    assert by_pair(pa.table(found)) == expected(table, 0, 9)
    assert by_pair(found.pairs)["WRITE", "DELETE"] == (3, 3, 6, 8)
    assert "  WRITE onto DELETE: 3 times in 3 commits (versions 6 to 8)" in str(found)


@pytest.mark.parametrize(("since", "last"), [(4, None), (None, 5), (6, 6), ("q", "q"), (9, 9)])
def test_a_range_counts_its_own_commits(table: tablefmt.Table, since: Any, last: Any) -> None:
    found = table.conflicts(starting_version=since, ending_version=last)
    first, end = (6 if each == "q" else each for each in (since, last))
    first, end = first or 0, 9 if end is None else end
    assert by_pair(found.pairs) == expected(table, first, end)
    assert found.commits == len({3, 6, 7, 8} & set(range(first, end + 1)))
    bounds = [("--since", since), ("--until", last)]
    given_ = [text for name, value in bounds if value is not None for text in (name, str(value))]
    record = run("conflicts", table.uri, "--json", *given_).document
    assert record == {
        "uri": table.uri,
        "first": first,
        "last": end,
        "commits": found.commits,
        "pairs": found.pairs.to_pylist(),
        "refusals": 0,
        "refused": [],
    }


def test_a_range_that_is_none_is_refused(table: tablefmt.Table) -> None:
    for since, last in ((5, 4), (0, 10), (-1, 3), (True, 3)):
        with pytest.raises(InvalidRangeError):
            table.conflicts(starting_version=since, ending_version=last)
    with pytest.raises(VersionNotFoundError):
        table.conflicts(starting_version="none")


def test_entries_before_the_range_are_met_too(table: tablefmt.Table) -> None:
    """The first commit of a range may have met commits before it."""
    pairs = table.conflicts(starting_version=3, ending_version=3).pairs
    assert by_pair(pairs) == {("WRITE", "WRITE"): (1, 1, 3, 3)}
