"""Small tables on any store, a clock that tests own, and a second opinion on what is in a table."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tablefmt
from tablefmt.commit.environment import Environment
from tablefmt.log.codec import decode, encode
from tablefmt.log.object_names import entry_key
from tablefmt.maintenance.verify import verify
from tablefmt.model.log_entry import Basis, Entry, Operation, OperationClass, StoredEntry
from tablefmt.operations.create import create
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import PutReply, Store, StoredObject, Written
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.table import Table, open_at

_numbers = itertools.count()
START_US = 1_800_000_000_000_000
_ORDERED = (int, float, Decimal, str, bytes, bytearray, dt.date, dt.time, dt.timedelta)


@dataclass
class Clock:
    """Time that passes only when a caller sleeps, or a test moves it."""

    micros: int = START_US
    seconds: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.forward(seconds)

    def forward(self, seconds: float) -> None:
        self.seconds += seconds
        self.micros += int(seconds * 1_000_000)

    def environment(self) -> Environment:
        return Environment(
            now_us=lambda: self.micros,
            monotonic=lambda: self.seconds,
            sleep=self.sleep,
            fraction=lambda: 0.5,
            aside=lambda work: None,
        )


def memory() -> MemoryStore:
    """Return a store of its own."""
    return MemoryStore(f"faults-{next(_numbers)}")


class Dated(ForwardingStore):
    """A store that dates its objects by a clock of a test, and tells no writer the time."""

    def __init__(self, clock: Clock, inner: Store | None = None) -> None:
        super().__init__(inner or memory())
        self.clock = clock
        self.written: dict[str, int] = {}

    def clock_us(self) -> int:
        return self.clock.micros

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        reply = self.inner.put_if_absent(key, body)
        if isinstance(reply, Written):
            self.written[key] = self.clock.micros
        return reply

    def put(self, key: str, body: bytes) -> None:
        self.written[key] = self.clock.micros
        self.inner.put(key, body)

    def open_output(self, key: str) -> Any:
        self.written[key] = self.clock.micros
        return self.inner.open_output(key)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        for one in self.inner.list_after(prefix, after):
            yield replace(one, modified_us=self.written.get(one.key, one.modified_us))


def rows(*values: int, p: str | Sequence[str] = "a") -> pa.Table:
    """Rows with these ids, in one partition or in as many as there are rows."""
    names = [p] * len(values) if isinstance(p, str) else list(p)
    return pa.table({"id": pa.array(values, pa.int64()), "p": pa.array(names, pa.string())})


def new_table(
    store: Store | None = None,
    *,
    partitioned: bool = False,
    clock: Clock | None = None,
    **properties: str,
) -> Table:
    """An empty table of `id BIGINT, p STRING`."""
    environment = (clock or Clock()).environment()
    store = store or memory()
    context = create(
        store,
        "id BIGINT, p STRING",
        partition_by=["p"] if partitioned else [],
        properties=properties,
        environment=environment,
    )
    return Table(context)


def handle(store: Store, clock: Clock | None = None) -> Table:
    """A fresh handle, whose own requests go to `store`."""
    return open_at(store, (clock or Clock()).environment())


def behind(table: Table, store: Store) -> Table:
    """A warm handle as `table` is now, whose requests go to `store` from here on."""
    other = handle(table.context.store)
    other.context.environment = table.context.environment
    other.context.store = store
    other.context.view.store = store
    return other


def opened(of: Table | str | Path) -> Table:
    """Return the handle itself, or a new one at an address."""
    return of if isinstance(of, Table) else tablefmt.open(of)


def ids(of: Table | str | Path, version: int | None = None) -> list[int]:
    """The ids in a table, sorted. The argument is a handle, which is not refreshed, or an address.

    Without a version, they are those of the version that the handle has read.
    """
    return sorted(opened(of).to_arrow(version=version)["id"].to_pylist())


def rows_by_id(
    of: Table | str | Path, columns: list[str] | None = None, version: int | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts, in the order of `id`. A handle is refreshed."""
    found = opened(of).refresh().to_arrow(columns=columns, version=version)
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as tuples, in their order. Names of columns may repeat."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def table_of_rows(uri: str, ddl: str, rows: list[dict[str, Any]]) -> Table:
    """Create a table whose version 1 holds the rows."""
    table = tablefmt.create(uri, ddl)
    table.append(pa.Table.from_pylist(rows, table.to_arrow().schema))
    return table


def last_entry(table: Table) -> Entry:
    """Return the entry of the version that the handle has read."""
    return table.context.view.entries_after(table.version - 1)[0].entry


def entries_of(store: Store, first: int, last: int) -> list[StoredEntry]:
    """Read the entries of a range of versions, one by one."""
    return [decode(store.get(entry_key(v)), v) for v in range(first, last + 1)]


def swap_a_and_b(table: Any) -> None:
    """Exchange the names of two columns, in three commits."""
    for name, to in (("a", "x"), ("b", "a"), ("x", "b")):
        table.alter.rename_column(name, to)


def sorted_rows(of: Any, *columns: str, **point: Any) -> list[tuple[Any, ...]]:
    """Return the rows as tuples, in the order of `by_values`.

    Args:
        of: a table handle, which is refreshed; the address of a table; an Arrow table; or a Spark
            DataFrame.
        columns: the columns to read, in this order; all by default.
        point: the version or the time to read of a table, as for `Table.to_arrow`.
    """
    if isinstance(of, (Table, str, Path)):
        of = opened(of).refresh().to_arrow(columns=list(columns) or None, **point)
    elif point:
        raise TypeError(f"expected a table to read at {point}, got {type(of).__name__}")
    elif columns:
        of = of.select(list(columns))
    if isinstance(of, pa.Table):
        return sorted(tuples(of), key=by_values)
    return sorted(map(tuple, of.collect()), key=by_values)


def by_values(row: Iterable[Any]) -> tuple[Any, ...]:
    """Return a key that sorts rows by value: NULL first, NaN last, nested values by their text."""
    return tuple(
        (0, 0)
        if value is None
        else (2, 0)
        if value != value
        else (1, value if isinstance(value, _ORDERED) else repr(value))
        for value in row
    )


def by_hand(store: Store) -> list[int]:
    """The same by nothing but the newest log and Parquet: live files read one by one."""
    files = LogView.open(store).snapshot().files
    found: list[int] = []
    for path in files["path"].to_pylist():
        found += pq.ParquetFile(pa.BufferReader(store.get(path))).read()["id"].to_pylist()
    return sorted(found)


def contents_of(store: Store, *folders: str) -> dict[str, bytes]:
    """Return the body of each object by its key: of some folders, by default of all."""
    found = (one.key for folder in folders or ("",) for one in store.list_after(folder))
    return {key: store.get(key) for key in found}


def quoted(name: str) -> str:
    """Return a column name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def data_files(store: Store) -> list[str]:
    """Keys of all data files, live or not."""
    return [found.key for found in store.list_after("data/")]


def live_files(store: Store) -> list[str]:
    """Keys of the live ones."""
    return sorted(handle(store).scan().files()["path"].to_pylist())


def assert_sound(store: Store) -> None:
    """Every page can be read, and the log's times rise."""
    report = verify(store, deep=True)
    assert report.ok, str(report)
    stamps = list(handle(store).context.view.timeline.timestamps)
    assert stamps == sorted(set(stamps))


def with_history(versions: int, store: Store | None = None) -> Store:
    """A table whose versions after 0 change nothing: entries without files, made by hand."""
    store = store or memory()
    table = new_table(store)
    extend(store, table, versions - 1)
    return store


def extend(store: Store, table: Table, count: int, **changes: Any) -> None:
    """Put `count` more entries after the head that the handle knows."""
    view = LogView.open(store)
    for _ in range(count):
        following = next_entry(view, **changes)
        store.put(entry_key(following.version), encode(following))
        view.absorb(_decoded(following))  # type: ignore[arg-type]


def _decoded(entry: Entry) -> Iterable[Any]:
    return [decode(encode(entry), entry.version)]


def next_entry(view: LogView, **changes: Any) -> Entry:
    """Return a sound entry above a log, which a test may spoil."""
    head = view.head
    at = head.timestamp + 1
    fields: dict[str, Any] = {
        "table": head.table,
        "version": head.version + 1,
        "timestamp": at,
        "time_version": at,
        "transaction": f"{head.version + 1:032x}",
        "previous": head.digest,
        "operation": Operation(name="WRITE", cls=OperationClass.INSERT),
        "basis": Basis(
            read_version=head.version,
            isolation="WriteSerializable",
            granularity="row",
            blind=True,
        ),
        "totals": head.totals,
    }
    return Entry(**{**fields, **changes})
