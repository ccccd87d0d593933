"""Transactions that scan, and MERGEs, at both isolation levels; the rest is in tests/operations.

Rows are (partition, key, value); every transaction begins before the one before it commits, unless
it says so.
"""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.errors import (
    ConcurrentAppendException,
    ConcurrentModificationException,
)
from tablefmt.operations.create import create
from tablefmt.operations.transaction import Transaction
from tablefmt.store.memory_store import MemoryStore
from tablefmt.table import Table
from tests.system.transactions.world import (
    ENVIRONMENT,
    Row,
    attempt,
    begin,
    data,
    memory,
    new_table,
    rows_at,
)

SERIAL, WRITES = "Serializable", "WriteSerializable"
LEVELS = [SERIAL, WRITES]
GRANULARITIES = ["row", "file"]


def table_of(*rows: Row, **properties: Any) -> Table:
    """Version 1 holds the rows, in one file a partition."""
    table = new_table(memory(), **properties)
    table.append(data(rows))
    return table


def rows(table: Table, version: int | None = None) -> list[Row]:
    """Return the rows at a version, by default the newest."""
    table.refresh()
    return list(rows_at(table, table.version if version is None else version))


@pytest.mark.parametrize("granularity", [*GRANULARITIES, "transaction"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("places", ["aa", "ab"])
def test_two_that_scan_and_delete_different_rows_never_both_commit(
    level: str, granularity: str, places: str
) -> None:
    """CFL-10: write skew. On call are two, one may go; rows of one file or of two partitions."""
    table = table_of(
        (places[0], 1, 1),
        (places[1], 2, 1),
        isolationLevel=level,
        conflictGranularity=granularity,
    )
    both = [begin(table), begin(table)]
    for key, txn in enumerate(both, 1):
        assert txn.scan(where="v = 1").count() == 2
        txn.delete(f"k = {key}")
    both[0].commit()
    with pytest.raises(ConcurrentModificationException):
        both[1].commit()
    assert rows(table) == [(places[1], 2, 1)]


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("level", LEVELS)
def test_two_that_scan_and_append_by_what_they_saw_never_both_commit(
    level: str, granularity: str
) -> None:
    """CFL-8: each appends only if there is none yet."""
    table = table_of(("b", 1, 5), isolationLevel=level, conflictGranularity=granularity)
    both = [begin(table), begin(table)]
    for key, txn in enumerate(both, 10):
        assert txn.scan(where="p = 'a'").count() == 0
        txn.append(data([("a", key, 1)]))
    both[0].commit()
    with pytest.raises(ConcurrentAppendException):
        both[1].commit()
    assert rows(table) == [("a", 10, 1), ("b", 1, 5)]


def test_a_later_commit_that_began_before_a_skipped_one_is_no_conflict() -> None:
    """CFL-9: a delete passes an insert over; a count that began before that did not see it."""
    table = table_of(("a", 1, 1), ("a", 2, 0))
    delete, counting = begin(table), begin(table)
    delete.delete("v = 1")
    counting.append(data([("a", 4, 10 + counting.scan(where="v = 1").count())]))
    table.append(data([("b", 3, 1)]))
    counting.commit()
    assert delete.commit().version == 4
    assert rows(table) == [("a", 2, 0), ("a", 4, 11), ("b", 3, 1)]


DAYS = [datetime.date(2026, 1, day) for day in (1, 2)]


def days(*found: tuple[datetime.date, str, int, int]) -> pa.Table:
    columns = zip(*found, strict=True)
    types = (pa.date32(), pa.string(), pa.int64(), pa.int64())
    names = ("day", "country", "k", "v")
    arrays = {n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)}
    return pa.table(arrays)


def merge(txn: Transaction, source: pa.Table, where: str = "TRUE") -> None:
    """Merge by key: matched rows get the source's `v`, others are inserted."""
    builder = txn.merge(source, f"t.k = s.k AND {where}").when_matched_update({"v": "s.v"})
    builder.when_not_matched_insert_all().execute()


def by_day(store: MemoryStore, **properties: Any) -> Table:
    context = create(
        store,
        "day DATE, country STRING, k BIGINT, v BIGINT",
        partition_by=["day", "country"],
        properties=properties,
        environment=ENVIRONMENT,
    )
    table = Table(context)
    table.append(days(*((day, c, k, 0) for day in DAYS for c in ("DE", "FR") for k in (1, 2))))
    return table


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("granularity", [*GRANULARITIES, "transaction"])
@pytest.mark.parametrize("level", LEVELS)
def test_merges_that_pin_different_days_never_conflict(
    level: str, granularity: str, mode: str
) -> None:
    """CFL-8, CFL-19: each updates a key and inserts one, the same keys on two days."""
    table = by_day(memory(), isolationLevel=level, conflictGranularity=granularity, deleteMode=mode)
    both = [begin(table), begin(table)]
    for day, txn in zip(DAYS, both, strict=True):
        where = f"t.day = DATE '{day}' AND t.country = 'DE'"
        merge(txn, days((day, "DE", 1, 7), (day, "DE", 9, 7)), where)
    assert [txn.commit().version for txn in both] == [2, 3]
    found = table.refresh().to_arrow(where="v = 7").select(["day", "country", "k"]).to_pylist()
    expected = [{"day": day, "country": "DE", "k": k} for day in DAYS for k in (1, 9)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert table.scan().count() == 10


@pytest.mark.parametrize("level", LEVELS)
def test_merges_that_pin_no_day_conflict_unless_their_keys_differ(level: str) -> None:
    """CFL-18: the text reads the whole table, the keys of the source say that it did not."""
    for keys, conflicts in (((21, 22), False), ((21, 21), True)):
        table = by_day(memory(), isolationLevel=level)
        both = [begin(table), begin(table)]
        for day, key, txn in zip(DAYS, keys, both, strict=True):
            # 20 and 30 around both, so that bounds alone prove nothing.
            source = [(day, "DE", key, 7)]
            source += [(day, "DE", k, 7) for k in ((20, 30) if day == DAYS[0] else (19, 31))]
            merge(txn, days(*source))
        both[0].commit()
        _, error = attempt(both[1].commit)
        assert isinstance(error, ConcurrentAppendException) is conflicts, error
        assert table.refresh().scan(where="v = 7").count() == (3 if conflicts else 6)
