"""Two operations on one base table: what each does, where, and what plain Python makes of it.

A scene says itself which rows an operation reads, takes out and puts in (`Doing`), and in which
files they are; what the rows are then is worked out by `tablefmt.testing.reference_model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from tablefmt.operations.transaction import Transaction
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.testing import reference_model
from tests.system.transactions.world import (
    Row,
    Rows,
    Watch,
    attempt,
    begin,
    copy_of,
    data,
    handle,
    memory,
    new_table,
    of_data,
    rows_at,
    rows_by_specification,
)

DELETED = (1, 101)
"""Keys that are deleted before either operation starts, so that positions and ranks differ."""

FILES = {
    "a": [range(4), range(10, 14), range(20, 24), range(30, 34), range(40, 44)],
    "b": [range(100, 104), range(110, 114)],
}
"""Keys of each file of the base table, by partition; a row's value is its key."""

SAME, ROWS, OTHER_FILES, ELSEWHERE = "same rows", "same files", "other files", "other partition"


@dataclass(frozen=True)
class Place:
    """The place of an operation: one partition, one row to change, some files to compact."""

    p: str
    key: int
    files: tuple[int, ...]
    """First keys of the files that a compaction takes."""


HERE = Place("a", 2, (0, 10))
PLACES = {
    SAME: HERE,
    ROWS: Place("a", 3, (0, 10)),
    OTHER_FILES: Place("a", 42, (30, 40)),
    ELSEWHERE: Place("b", 102, (100, 110)),
}


@dataclass(frozen=True)
class Doing:
    """One operation of a scene. All sets are of rows of the base table, or of new rows."""

    stage: Callable[[Transaction], object]
    removed: frozenset[Row] = frozenset()
    added: tuple[Row, ...] = ()
    read: frozenset[Row] = frozenset()
    """Rows that its condition selects. For a scan: all rows of the files that may match."""
    condition: Callable[[Row], bool] = lambda row: False
    """Return True if the condition would select a new row too."""
    replaces: Callable[[Row], bool] | None = None
    """For an OVERWRITE: the rows to remove, decided when it commits."""
    sets: frozenset[str] | None = None
    """Columns an UPDATE sets."""
    looks_at: frozenset[str] = frozenset()
    """Columns of the condition."""
    compacts: tuple[int, ...] = ()
    """First keys of the files that a compaction moves."""


def base_rows() -> list[Row]:
    """The rows both operations start from."""
    rows = [(p, k, k) for p, files in FILES.items() for keys in files for k in keys]
    return [row for row in rows if row[1] not in DELETED]


def file_of(row: Row) -> int:
    """The first key of the base file that a row is in."""
    (first,) = (f[0] for files in FILES.values() for f in files if row[1] in f)
    return first


@cache
def _base(partitioned: bool, properties: tuple[tuple[str, str], ...]) -> tuple[MemoryStore, int]:
    store = memory()
    table = new_table(store, partitioned, **dict(properties))
    filled = begin(table)
    for p, files in FILES.items():
        for keys in files:
            filled.append(data([(p, k, k) for k in keys]))
    filled.commit()
    begin(table).delete(f"k IN {DELETED}").commit()
    expected = tuple(sorted(base_rows()))
    assert rows_at(table, table.version) == rows_by_specification(store, table.version) == expected
    return store, table.version


def base(partitioned: bool = True, **properties: str) -> tuple[MemoryStore, int]:
    """A store with the base table, and its version."""
    store, version = _base(partitioned, tuple(sorted(properties.items())))
    return copy_of(store), version


def at_key(key: int) -> frozenset[Row]:
    """The base row of a key."""
    return frozenset(row for row in base_rows() if row[1] == key)


def insert(place: Place, key: int) -> Doing:
    """A blind append of one row of that key."""
    row = (place.p, key, 7)
    return Doing(lambda txn: txn.append(data([row])), added=(row,))


def overwrite(place: Place, key: int, partitioned: bool = True) -> Doing:
    """An OVERWRITE that reads nothing: of the partition, or of the whole table."""
    row = (place.p, key, 8)

    def goes(row: Row) -> bool:
        return not partitioned or row[0] == place.p

    where = f"p = '{place.p}'" if partitioned else None
    return Doing(
        lambda txn: txn.overwrite(data([row]), where=where),
        removed=frozenset(filter(goes, base_rows())),
        added=(row,),
        replaces=goes,
    )


def delete(place: Place) -> Doing:
    """DELETE by key."""
    rows = at_key(place.key)
    return Doing(
        lambda txn: txn.delete(f"p = '{place.p}' AND k = {place.key}"),
        removed=rows,
        read=rows,
        condition=lambda row: row[:2] == (place.p, place.key),
        looks_at=frozenset("pk"),
    )


def delete_by_value(place: Place) -> Doing:
    """DELETE by value: another row that gets the value would be selected as well."""
    rows = at_key(place.key)
    return Doing(
        lambda txn: txn.delete(f"p = '{place.p}' AND v = {place.key}"),
        removed=rows,
        read=rows,
        condition=lambda row: (row[0], row[2]) == (place.p, place.key),
        looks_at=frozenset("pv"),
    )


def set_value(place: Place, value: int) -> Doing:
    """UPDATE SET v = value, by key."""
    rows = at_key(place.key)
    return Doing(
        lambda txn: txn.update({"v": str(value)}, f"p = '{place.p}' AND k = {place.key}"),
        removed=rows,
        added=tuple((p, k, value) for p, k, _ in rows),
        read=rows,
        condition=lambda row: row[:2] == (place.p, place.key),
        sets=frozenset("v"),
        looks_at=frozenset("pk"),
    )


def copy_row(place: Place, key: int) -> Doing:
    """An INSERT whose source reads the row of the place."""
    rows = at_key(place.key)

    def stage(txn: Transaction) -> None:
        found = txn.scan(where=f"p = '{place.p}' AND k = {place.key}").to_arrow()
        txn.append(found.set_column(1, "k", pa.array([key] * len(found), pa.int64())))

    opened = {file_of(row) for row in rows}
    return Doing(
        stage,
        added=tuple((p, key, v) for p, _, v in rows),
        read=frozenset(row for row in base_rows() if file_of(row) in opened),
        condition=lambda row: row[:2] == (place.p, place.key),
        looks_at=frozenset("pk"),
    )


def files_of(place: Place) -> str:
    """A condition for which the bounds of the place's files leave these alone."""
    return f"p = '{place.p}' AND k >= {place.files[0]} AND k < {place.files[-1] + 4}"


def minor(place: Place) -> Doing:
    """MINOR: the place's files into one."""
    where = files_of(place)
    return Doing(lambda txn: txn.compact("minor", where=where), compacts=place.files)


def major(place: Place) -> Doing:
    """MAJOR: all files of the partition into one."""
    firsts = tuple(f[0] for f in FILES[place.p])
    return Doing(lambda txn: txn.compact("major", where=f"p = '{place.p}'"), compacts=firsts)


def cluster(place: Place) -> Doing:
    """CLUSTER: the place's files into one."""
    where = files_of(place)
    return Doing(lambda txn: txn.cluster(["v"], where=where), compacts=place.files)


def cluster_all(place: Place) -> Doing:
    """CLUSTER of the whole partition."""
    firsts = tuple(f[0] for f in FILES[place.p])
    where = f"p = '{place.p}'"
    return Doing(lambda txn: txn.cluster(["v", "k"], where=where), compacts=firsts)


def after(rows: Iterable[Row], doing: Doing) -> Rows:
    """Return the rows after the operation has committed."""
    before = tuple(rows)
    removed = doing.removed if doing.replaces is None else filter(doing.replaces, before)
    return tuple(sorted(reference_model.after(before, removed, doing.added)))


def overtaken(
    store: Store, version: int, first: Doing, second: Doing, shared: bool
) -> tuple[Any, Exception | None]:
    """Stage both at `version`, commit the first, then try to commit the second.

    No data file is touched by the commit of the second (CMT-5). With `shared` both have one handle.

    Returns:
        The second's commit result, or the conflict.
    """
    one, two = handle(store), handle(store)
    late = one if shared else two
    watch = Watch(late)
    concurrent, loser = begin(one), begin(late)
    first.stage(concurrent)
    second.stage(loser)
    assert concurrent.read_version == loser.read_version == version
    concurrent.commit()
    assert of_data(watch.seen())
    commit_result, error = attempt(loser.commit)
    assert of_data(watch.seen()) == []
    return commit_result, error
