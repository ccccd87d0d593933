"""Filter tuples wherever a condition is taken: rows, files, text, conflicts are those of SQL."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    ConcurrentAppendException,
    ConstraintViolationError,
    InvalidPredicateError,
)

_numbers = itertools.count()

ROWS = [{"a.b": i, "Land": land, "v": v} for i, (land, v) in enumerate(
    [("DE", 1.5), ("DE", None), ("FR", float("nan")), ("FR", -0.0), (None, 2.5), (None, 7.0)]
)]  # fmt: skip


def made() -> tablefmt.Table:
    """Two rows a file, a file a partition; `a.b` was called otherwise before."""
    schema = pa.schema({"old": pa.int64(), "Land": pa.string(), "v": pa.float64()})
    table = tablefmt.create(f"memory://filters-{next(_numbers)}", schema, partition_by=["Land"])
    for start in (0, 2, 4):
        few = ROWS[start : start + 2]
        table.append([{"old": row["a.b"], "Land": row["Land"], "v": row["v"]} for row in few])
    table.alter.rename_column("old", "a.b")
    return table


PAIRS: list[tuple[Any, str, list[int]]] = [
    ([("a.b", ">", 3)], "`a.b` > 3", [4, 5]),
    ([("LAND", "=", "DE")], "Land = 'DE'", [0, 1]),
    ([("Land", "not in", ["DE"])], "Land IS NULL OR NOT Land IN ('DE')", [2, 3, 4, 5]),
    ([("Land", "in", [None, "FR"])], "Land IS NULL OR Land IN ('FR')", [2, 3, 4, 5]),
    ([("v", ">", 1)], "v > 1 AND NOT isnan(v)", [0, 4, 5]),
    ([[("a.b", "=", 1)], [("Land", "=", "FR"), ("v", "=", 0)]],
     "`a.b` = 1 OR (Land = 'FR' AND v = 0)", [1, 3]),
]  # fmt: skip


def numbers(table: tablefmt.Table, **how: Any) -> list[int]:
    found: list[int] = table.to_arrow(columns=["a.b"], **how)["a.b"].to_pylist()
    return found


@pytest.mark.parametrize(("filters", "text", "expected"), PAIRS, ids=lambda v: str(v)[:40])
def test_every_verb_takes_them(filters: Any, text: str, expected: list[int]) -> None:
    table = made()
    scan, same = table.scan(where=filters), table.scan(where=text)

    assert numbers(table, where=filters) == expected
    assert scan.files() == same.files()
    assert scan.explain() == same.explain()
    assert scan.count() == table.count(where=filters) == len(expected)
    changes = table.changes(after_version=0, ending_version=4, where=filters)
    assert changes.to_arrow()["a.b"].to_pylist() == expected
    with table.transaction() as txn:
        assert txn.scan(where=filters).count() == len(expected)

    changed = [made() for _ in range(4)]
    for (updated, deleted), where in ((changed[:2], filters), (changed[2:], text)):
        updated.update({"v": "100.0"}, where)
        assert sorted(numbers(updated, where="v = 100")) == expected
        deleted.delete(where)
        assert sorted(numbers(deleted)) == [i for i in range(6) if i not in expected]
    entries = [t.history(1)["operationParameters"].to_pylist() for t in changed]
    assert entries[:2] == entries[2:]

    replaced = made()
    fitting = replaced.to_arrow(where=filters).slice(0, 1)
    replaced.overwrite(fitting, where=filters)
    kept = [i for i in range(6) if i not in expected[1:]]
    assert sorted(numbers(replaced)) == kept
    outside = next(row for row in ROWS if row["a.b"] not in expected)
    with pytest.raises(ConstraintViolationError):
        replaced.overwrite([outside], where=filters)
    replaced.truncate(filters)
    assert sorted(numbers(replaced)) == [i for i in range(6) if i not in expected]


def test_an_empty_list_deletes_nothing() -> None:
    """It is no condition, rather than every row."""
    table = made()
    for verb in (table.delete, table.truncate, lambda w: table.update({"v": "1.0"}, w)):
        for nothing in ([], [[]], ()):
            with pytest.raises(InvalidPredicateError, match="filters have"):
                verb(nothing)
    assert table.count() == 6


def test_they_are_reads_as_narrow_as_text() -> None:
    """CFL-10: an append elsewhere is no conflict, one that matches is."""
    table = made()
    table.alter.set_properties({"isolationLevel": "Serializable"})
    for land, refused in (("DE", True), ("FR", False)):
        with table.transaction() as txn:
            txn.delete([("Land", "=", "DE"), ("a.b", "<", 50)])
            tablefmt.open(table.uri).append([{"a.b": 40, "Land": land}])
            if refused:
                with pytest.raises(ConcurrentAppendException):
                    txn.commit()
            else:
                txn.commit()
    assert sorted(numbers(table.refresh())) == [2, 3, 4, 5, 40]


def test_a_scan_keeps_the_filters_it_was_given() -> None:
    """A later change of the list does not change what was read (CFL-8)."""
    table = made()
    filters: list[Any] = [("Land", "=", "DE")]
    scan = table.scan(where=filters)
    filters[0] = ("Land", "=", "FR")
    tablefmt.open(table.uri).append([{"a.b": 9, "Land": "FR"}])

    # A read of DE: the append of FR is not in its way.
    table.append(scan)
    assert sorted(numbers(table)) == [0, 0, 1, 1, 2, 3, 4, 5, 9]
