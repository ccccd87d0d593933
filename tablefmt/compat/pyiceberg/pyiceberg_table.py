"""PyIceberg's Table and scans, over a table of tablefmt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablefmt.compat.pyiceberg.pyiceberg_conditions import where_of
from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.pyiceberg.pyiceberg_partitioning import UpdateSpec
from tablefmt.compat.pyiceberg.pyiceberg_transactions import Transaction
from tablefmt.compat.pyiceberg.pyiceberg_updates import (
    MaintenanceTable,
    ManageSnapshots,
    UpdateSchema,
    UpdateSortOrder,
)
from tablefmt.compat.translation import Translated, translated
from tablefmt.engines.duckdb_tables import connect
from tablefmt.errors import InvalidArgumentError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.properties import USER_PREFIX, split_names
from tablefmt.model.times import from_micros
from tablefmt.operations.metadata_tables import refs
from tablefmt.session.commit_options import CommitKeywords
from tablefmt.session.table_scan import Scan
from tablefmt.table import Table as OurTable


@dataclass(frozen=True)
class Snapshot:
    """A version of the table: `snapshot_id` is its number."""

    snapshot_id: int
    parent_snapshot_id: int | None
    timestamp_ms: int
    summary: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SnapshotLogEntry:
    """A version and its time."""

    snapshot_id: int
    timestamp_ms: int


@dataclass(frozen=True)
class UpsertResult:
    """Numbers of changed rows."""

    rows_updated: int = 0
    rows_inserted: int = 0


class DataScan(Translated):
    """A read of one version. Nothing is read before a method asks for rows."""

    _names, _called = NAMES, "DataScan"

    def __init__(self, table: OurTable, asked: Mapping[str, Any], wheres: tuple[Any, ...]) -> None:
        self._table, self._asked, self._wheres = table, asked, wheres

    def _scan(self) -> Scan:
        given = [each for each in self._wheres if each is not None]
        if len(given) > 1 and not all(isinstance(each, str) for each in given):
            raise InvalidArgumentError(
                "pyiceberg: several filters must all be text; or combine them in one filter"
            )
        where = " AND ".join(f"({each})" for each in given) if len(given) > 1 else None
        return self._table.scan(where=given[0] if len(given) == 1 else where, **self._asked)

    @translated(NAMES, "DataScan.filter")
    def filter(self, expr: Any) -> DataScan:
        """Return a scan of the rows that also match a filter."""
        return DataScan(self._table, self._asked, (*self._wheres, where_of(expr)))

    def select(self, *field_names: str) -> DataScan:
        """Return a scan of some columns."""
        return DataScan(self._table, {**self._asked, **_columns(field_names)}, self._wheres)

    @translated(NAMES, "DataScan.to_arrow")
    def to_arrow(self, dictionary_columns: tuple[str, ...] = ()) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._scan().to_arrow()

    @translated(NAMES, "DataScan.to_arrow_batch_reader")
    def to_arrow_batch_reader(
        self, dictionary_columns: tuple[str, ...] = ()
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream that is read on demand."""
        return self._scan().to_reader()

    def to_pandas(self, **kwargs: Any) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self._scan().to_pandas(**kwargs)

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame."""
        return self._scan().to_polars()

    def to_duckdb(self, table_name: str, connection: Any = None) -> Any:
        """Register the rows in DuckDB under a name. Return the connection."""
        connection = connect() if connection is None else connection
        connection.register(table_name, self._scan().to_arrow())
        return connection

    def plan_files(self) -> Iterator[FileScanTask]:
        """Yield the files that may have rows of the scan."""
        uri = self._table.uri.rstrip("/")
        found = self._scan().files().select(["path", "rows", "size"])
        for batch in found.to_batches():
            for path, rows, size in zip(*(column.to_pylist() for column in batch), strict=True):
                place = path if "://" in path or path.startswith("/") else f"{uri}/{path}"
                yield FileScanTask(DataFile(place, rows, size))

    @translated(NAMES, "DataScan.use_ref")
    def use_ref(self, name: str) -> DataScan:
        """Return a scan of the version of a tag; `main` is the newest one."""
        version = None if name == "main" else name
        return DataScan(self._table, {**self._asked, "version": version}, self._wheres)

    def count(self) -> int:
        """Return the number of rows."""
        return self._scan().count()

    def projection(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._scan().schema

    def snapshot(self) -> Snapshot | None:
        """Return the version that is read."""
        return _snapshots(self._table).get(self._scan().version)


class InspectTable(Translated):
    """Metadata of a table as Arrow tables."""

    _names, _called = NAMES, "InspectTable"

    def __init__(self, table: OurTable) -> None:
        self._table = table

    def snapshots(self) -> pa.Table:
        """Return a row for each version but 0, oldest first."""
        rows = [
            {
                "committed_at": from_micros(each.timestamp_ms * 1000),
                "snapshot_id": each.snapshot_id,
                "parent_id": each.parent_snapshot_id,
                "operation": each.summary["operation"],
                "summary": list(each.summary.items()),
            }
            for each in _snapshots(self._table).values()
        ]
        kinds = (pa.timestamp("ms", "UTC"), pa.int64(), pa.int64(), pa.string())
        names = ("committed_at", "snapshot_id", "parent_id", "operation")
        columns = [pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)]
        summary = pa.field("summary", pa.map_(pa.string(), pa.string()))
        return pa.Table.from_pylist(rows, pa.schema([*columns, summary]))

    def history(self) -> pa.Table:
        """Return the same versions with their parents."""
        found = self.snapshots()
        current = pa.array([True] * found.num_rows, pa.bool_())
        return pa.table(
            {
                "made_current_at": found["committed_at"],
                "snapshot_id": found["snapshot_id"],
                "parent_id": found["parent_id"],
                "is_current_ancestor": current,
            }
        )

    def refs(self) -> pa.Table:
        """Return the newest version as the branch `main`, and the tags."""
        return refs(self._table.context)

    @translated(NAMES, "InspectTable.files")
    def files(self, snapshot_id: int | None = None) -> pa.Table:
        """Return the files of a version, with tablefmt's columns."""
        check_snapshot(snapshot_id)
        return self._table.refresh().scan(version=snapshot_id).files()

    @translated(NAMES, "InspectTable.data_files")
    def data_files(self, snapshot_id: int | None = None) -> pa.Table:
        """Return the files of a version, as `files` does."""
        return self.files(snapshot_id)

    @translated(NAMES, "InspectTable.partitions")
    def partitions(
        self,
        snapshot_id: int | None = None,
        row_filter: Any = None,
        case_sensitive: bool = True,
    ) -> pa.Table:
        """Return the partitions of a version, with tablefmt's columns.

        With a filter, these are the partitions of files that may hold rows of it.
        """
        check_snapshot(snapshot_id)
        where = where_of(row_filter)
        return self._table.refresh().scan(version=snapshot_id, where=where).partitions()


@dataclass(frozen=True)
class SnapshotRef:
    """Target of a name: the newest version, as the branch `main`, or a tag."""

    snapshot_id: int
    snapshot_ref_type: str
    max_ref_age_ms: int | None = None


@dataclass(frozen=True)
class DataFile:
    """A file of a plan."""

    file_path: str
    record_count: int
    file_size_in_bytes: int


@dataclass(frozen=True)
class FileScanTask:
    """A file that a scan reads."""

    file: DataFile


class TableSchema:
    """The columns of a table: an Arrow schema that also has PyIceberg's names."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def as_arrow(self) -> pa.Schema:
        """Return the Arrow schema."""
        return self._columns

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns.names)

    def __getattr__(self, name: str) -> Any:
        if name == "_columns":
            raise AttributeError(name)
        return getattr(self._columns, name)

    def __arrow_c_schema__(self) -> Any:
        return self._columns.__arrow_c_schema__()

    def __iter__(self) -> Iterator[pa.Field]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        columns = other.as_arrow() if isinstance(other, TableSchema) else other
        return bool(self._columns == columns)

    def __hash__(self) -> int:
        return hash(self._columns)

    def __repr__(self) -> str:
        return repr(self._columns)


class Table(Translated):
    """A table of a catalog. `table` is the same table with the names of tablefmt."""

    _names, _called = NAMES, "Table"

    def __init__(self, identifier: tuple[str, ...], table: OurTable) -> None:
        self._identifier, self.table = identifier, table

    def __repr__(self) -> str:
        return f"Table({'.'.join(self._identifier)!r}, {self.table!r})"

    def name(self) -> tuple[str, ...]:
        """Return the identifier: its namespace and its name."""
        return self._identifier

    def location(self) -> str:
        """Return the place of the table."""
        return self.table.uri

    def schema(self) -> TableSchema:
        """Return the columns as Arrow types. Also has PyIceberg's `as_arrow`."""
        return TableSchema(self.table.schema)

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties. A name of the user's own has no prefix."""
        given = self.table.refresh().properties.items()
        return {name.removeprefix(USER_PREFIX): text for name, text in given}

    @property
    def inspect(self) -> InspectTable:
        """Return the object that shows metadata."""
        return InspectTable(self.table)

    def refresh(self) -> Table:
        """Read the newest version from now on."""
        self.table.refresh()
        return self

    @translated(NAMES, "Table.scan")
    def scan(
        self,
        row_filter: Any = None,
        selected_fields: tuple[str, ...] = ("*",),
        case_sensitive: bool = True,
        snapshot_id: int | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> DataScan:
        """Plan a read of the newest known version, or of a given one."""
        check_snapshot(snapshot_id)
        asked = {"version": snapshot_id, "limit": limit, **_columns(selected_fields)}
        return DataScan(self.table, asked, (where_of(row_filter),))

    def to_polars(self) -> Any:
        """Return a lazy frame of polars."""
        return self.scan().to_polars().lazy()

    @translated(NAMES, "Table.append")
    def append(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = "main",
    ) -> None:
        """Append rows."""
        self.table.append(df, **_commit(snapshot_properties))

    @translated(NAMES, "Table.overwrite")
    def overwrite(
        self,
        df: Any,
        overwrite_filter: Any = None,
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = "main",
    ) -> None:
        """Replace all rows, or those of a filter. New rows need not match the filter."""
        where, commit = where_of(overwrite_filter), _commit(snapshot_properties)
        if where is None:
            self.table.overwrite(df, **commit)
            return
        # An overwrite by a condition checks that the new rows match it.
        merge = self.table.merge(df, "FALSE").when_not_matched_by_source_delete(where)
        merge.when_not_matched_insert_all().execute(**commit)

    @translated(NAMES, "Table.dynamic_partition_overwrite")
    def dynamic_partition_overwrite(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = "main",
    ) -> None:
        """Replace the partitions of the new rows."""
        self.table.overwrite(df, dynamic_partitions=True, **_commit(snapshot_properties))

    @translated(NAMES, "Table.delete")
    def delete(
        self,
        delete_filter: Any = None,
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = "main",
    ) -> None:
        """Delete the rows of a filter, or all rows."""
        self.table.delete(where_of(delete_filter), **_commit(snapshot_properties))

    @translated(NAMES, "Table.upsert")
    def upsert(
        self,
        df: Any,
        join_cols: list[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool = True,
        branch: str | None = "main",
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> UpsertResult:
        """Update rows with equal keys that differ, and insert the others.

        Raises:
            InvalidArgumentError: no keys, or nothing to do.
        """
        join_cols = join_cols or _identifier_columns(self.table)
        if not join_cols or not (when_matched_update_all or when_not_matched_insert_all):
            raise InvalidArgumentError(
                "pyiceberg: upsert needs join_cols, the key columns, or a table that was created "
                "with identifier fields, and at least one of "
                "when_matched_update_all and when_not_matched_insert_all"
            )
        keys = [quote_name(name) for name in join_cols]
        names = [n for n in self.table.refresh().schema.names if n not in join_cols]
        merge = self.table.merge(df, " AND ".join(f"t.{key} = s.{key}" for key in keys))
        if when_matched_update_all and names:
            same = " AND ".join(f"t.{quote_name(n)} <=> s.{quote_name(n)}" for n in names)
            merge = merge.when_matched_update_all(f"NOT ({same})")
        if when_not_matched_insert_all:
            merge = merge.when_not_matched_insert_all()
        counts = merge.execute(**_commit(snapshot_properties)).metrics
        return UpsertResult(
            counts.get("numTargetRowsUpdated", 0), counts.get("numTargetRowsInserted", 0)
        )

    @translated(NAMES, "Table.update_schema")
    def update_schema(
        self, allow_incompatible_changes: bool = False, case_sensitive: bool = True
    ) -> UpdateSchema:
        """Begin to change columns."""
        return UpdateSchema(self.table, allow_incompatible_changes, None)

    def manage_snapshots(self) -> ManageSnapshots:
        """Begin to set and drop tags, or to go back to a version."""
        return ManageSnapshots(self.table)

    @translated(NAMES, "Table.update_sort_order")
    def update_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """Begin to set the order of rows in new files."""
        return UpdateSortOrder(self.table)

    @translated(NAMES, "Table.update_spec")
    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        """Begin to change the partitioning of new files."""
        return UpdateSpec(self.table, None)

    def transaction(self) -> Transaction:
        """Begin several changes that are one commit."""
        return Transaction(self)

    @property
    def maintenance(self) -> MaintenanceTable:
        """Return the object that expires snapshots."""
        return MaintenanceTable(self.table)

    def refs(self) -> dict[str, SnapshotRef]:
        """Return the newest version as `main`, and the tags."""
        rows = refs(self.table.context).to_pylist()
        return {row["name"]: SnapshotRef(row["snapshot_id"], row["type"].lower()) for row in rows}

    @translated(NAMES, "Table.snapshot_by_name")
    def snapshot_by_name(self, name: str) -> Snapshot | None:
        """Return the version of a tag, or the newest one for `main`; None if there is none."""
        found = self.refs().get(name)
        return None if found is None else self.snapshot_by_id(found.snapshot_id)

    def history(self) -> list[SnapshotLogEntry]:
        """Return the versions but 0 with their times, oldest first."""
        return [SnapshotLogEntry(each.snapshot_id, each.timestamp_ms) for each in self.snapshots()]

    def snapshots(self) -> list[Snapshot]:
        """Return the versions but 0, oldest first."""
        return list(_snapshots(self.table).values())

    @translated(NAMES, "Table.snapshot_by_id")
    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """Return a version; None if there is none."""
        return _snapshots(self.table).get(snapshot_id)

    def current_snapshot(self) -> Snapshot | None:
        """Return the version that is read; None for a table without rows yet."""
        return _snapshots(self.table).get(self.table.version)

    @translated(NAMES, "Table.snapshot_as_of_timestamp")
    def snapshot_as_of_timestamp(
        self, timestamp_ms: int, inclusive: bool = True
    ) -> Snapshot | None:
        """Return the newest version at a time in ms; None if there is none."""
        end = timestamp_ms if inclusive else timestamp_ms - 1
        return next((each for each in reversed(self.snapshots()) if each.timestamp_ms <= end), None)


def check_snapshot(snapshot_id: Any) -> None:
    """Check a snapshot id. Raises InvalidArgumentError for 0, which is no snapshot."""
    if snapshot_id is not None and whole_number(snapshot_id) == 0:
        raise InvalidArgumentError(
            "pyiceberg: 0 is not a snapshot id: version 0 of a table is its creation, without "
            "rows. The first write is 1; see Table.snapshots()"
        )


IDENTIFIERS = f"{USER_PREFIX}identifier-fields"
"""Property that keeps the names of PyIceberg's identifier fields."""


def _identifier_columns(table: OurTable) -> list[str]:
    return split_names(table.refresh().properties.get(IDENTIFIERS, ""))


def _columns(names: tuple[str, ...]) -> dict[str, Any]:
    return {"columns": None if "*" in names else list(names)}


def _commit(given: Mapping[str, str] | None) -> CommitKeywords:
    return {"user_metadata": dict(given)} if given else {}


def _snapshots(table: OurTable) -> dict[int, Snapshot]:
    names = ["version", "timestamp", "operation", "operationMetrics", "userMetadata"]
    rows = table.history().select(names)
    found = {}
    for row in reversed(rows.to_pylist()):
        number = row["version"]
        if number > 0:
            given = json.loads(row["userMetadata"] or "{}")
            summary = {"operation": row["operation"], **dict(row["operationMetrics"] or ())}
            summary |= {key: str(value) for key, value in given.items()}
            when = int(row["timestamp"].timestamp() * 1000)
            found[number] = Snapshot(number, number - 1 or None, when, summary)
    return found
