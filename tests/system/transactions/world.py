"""A small table in memory, and every version of it as plain Python rows."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import logdump
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from tablefmt.commit.environment import Environment
from tablefmt.operations.create import create
from tablefmt.operations.transaction import Transaction
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table, open_at

Row = tuple[str, int, int]
"""Partition, key, value."""
Rows = tuple[Row, ...]
"""Rows in order, as a multiset."""
AnyStore = TypeVar("AnyStore", bound=Store)

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.int64())])
DDL = "p STRING, k BIGINT, v BIGINT"
ENVIRONMENT = Environment(sleep=lambda _: None, fraction=lambda: 0.0)

_numbers = itertools.count()


def memory() -> MemoryStore:
    """Return a store of its own."""
    return MemoryStore(f"transactions-{next(_numbers)}")


def forget(store: MemoryStore) -> None:
    """Free the memory of a store."""
    for found in list(store.list_after("")):
        store.delete(found.key)


def copy_of(store: Store) -> MemoryStore:
    """A store of its own with the same objects."""
    return copy_to(store, memory())


def copy_to(store: Store, copied: AnyStore) -> AnyStore:
    """The same objects in a store that is empty."""
    for found in store.list_after(""):
        copied.put(found.key, store.get(found.key))
    return copied


def new_table(store: Store, partitioned: bool = True, **properties: str) -> Table:
    """An empty table."""
    by = ["p"] if partitioned else []
    made = create(store, DDL, partition_by=by, properties=properties, environment=ENVIRONMENT)
    return Table(made)


def handle(store: Store) -> Table:
    """A handle of its own, at the newest version."""
    return open_at(store, ENVIRONMENT)


def begin(table: Table) -> Transaction:
    """A transaction on the newest version."""
    return Transaction(table.context)


def data(rows: Iterable[Row]) -> pa.Table:
    """Rows for the table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, SCHEMA)


def plain(table: pa.Table) -> Rows:
    """Rows of an answer."""
    columns = (table[name].to_pylist() for name in SCHEMA.names)
    return tuple(sorted(zip(*columns, strict=True)))


def rows_at(table: Table, version: int) -> Rows:
    """Return the rows by the package."""
    return plain(table.to_arrow(version=version))


def rows_by_specification(store: Store, version: int) -> Rows:
    """Return the rows by `tools/logdump` and a plain Parquet reader."""
    document = logdump.read(store.uri, as_of=version)
    assert document["findings"] == [], document["findings"]
    found: list[Row] = []
    for file in document["state"]["files"]:
        columns = _columns(file["path"], store.get(file["path"]))
        rows = list(zip(columns["k"], columns["v"], strict=True))
        places = columns.get("p", [file["partition"].get("p")] * len(rows))
        gone = {at for first, end in file["gone"] for at in range(first, end)}
        found += [(places[at], *row) for at, row in enumerate(rows) if at not in gone]
    return tuple(sorted(found))


@lru_cache(64)
def _columns(path: str, body: bytes) -> dict[str, list[Any]]:
    """A data file as Python values; files are the same in every copy of a table."""
    columns: dict[str, list[Any]] = pq.ParquetFile(io.BytesIO(body)).read().to_pydict()
    return columns


def assert_rows(store: Store, expected: Sequence[Rows], first: int) -> None:
    """The versions from `first` on are these, for the package and for the specification.

    The specification is not asked about the first of them, where all scenes begin.
    """
    table = handle(store)
    assert table.version == first + len(expected) - 1
    report = table.verify()
    assert report.ok, str(report)
    for version, rows in enumerate(expected, first):
        assert rows_at(table, version) == rows, version
        if version > first:
            assert rows_by_specification(store, version) == rows, version


class Counting(CountingStore):
    """Counts, apart, what a get found."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Counted."""
        bodies = super().get_many(keys)
        self.requests += [
            ("found", key) for key, body in zip(keys, bodies, strict=True) if body is not None
        ]
        return bodies

    def get(self, key: str) -> bytes:
        """Counted."""
        body = super().get(key)
        self.requests.append(("found", key))
        return body


class Watch:
    """Counts what a handle, and transactions that begin on it from now on, ask of the store."""

    def __init__(self, table: Table) -> None:
        self.counting = Counting(table.context.store)
        table.context.store = self.counting
        table.context.view.store = self.counting

    def seen(self) -> list[tuple[str, str]]:
        """Return the requests since the last call."""
        requests = list(self.counting.requests)
        self.counting.reset()
        return requests


def of_data(requests: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the requests that read or write data files. A delete is neither."""
    return [
        (verb, key)
        for verb, key in requests
        if key.startswith("data/") and verb not in ("delete", "list_after")
    ]


def attempt(action: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return the result of an action, or the conflict it raises."""
    from tablefmt.errors import ConcurrentModificationException

    try:
        return action(), None
    except ConcurrentModificationException as error:
        return None, error
