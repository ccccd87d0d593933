"""delta-rs' DeltaTable over a table of tablefmt."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

import tablefmt.table as tables
from tablefmt.compat.deltalake.deltalake_arguments import (
    CommitProperties,
    commit_keywords,
    condition_of,
    metrics_of,
    rows_of,
    sql_of,
    storage_keywords,
)
from tablefmt.compat.deltalake.deltalake_builders import TableAlterer, TableMerger, TableOptimizer
from tablefmt.compat.deltalake.deltalake_names import NAMES
from tablefmt.compat.deltalake.schema import Schema
from tablefmt.compat.standard_sql import spark_sql, spark_values
from tablefmt.compat.translation import Translated, translated
from tablefmt.errors import InvalidArgumentError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.peer_properties import translate_properties
from tablefmt.session.table_scan import Scan
from tablefmt.store.location import Uri

_NAME = "user.name"
"""Property that keeps the name of a table."""


@dataclass(frozen=True)
class Metadata:
    """The definition of a table."""

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int
    """Milliseconds since 1970-01-01."""
    configuration: dict[str, str]


class ProtocolVersions(NamedTuple):
    """Features of the table. tablefmt has no version numbers of features, so both are 0."""

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None


def check_version(version: Any) -> None:
    """Check a version or time to read.

    Raises:
        InvalidArgumentError: version 0. In Delta it may have the rows of the first write.
    """
    if whole_number(version) == 0:
        raise InvalidArgumentError(
            "version 0 of a tablefmt table is its creation, and has no rows; the first write is "
            "version 1. A version n of a Delta table that a write created is version n + 1 here. "
            "To read the empty version, use tablefmt.open(uri).scan(version=0)"
        )


def definition(
    name: str | None, description: str | None, configuration: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the arguments of `tablefmt.create` for a definition of delta-rs."""
    given = {key: value for key, value in (configuration or {}).items() if value is not None}
    properties = translate_properties(given)
    if name is not None:
        properties[_NAME] = name
    return {"properties": properties, "comment": description}


class DeltaTable(Translated):
    """A table, at its newest version or at the one that was loaded.

    A write moves it to the newest version. `table` is the same table of tablefmt.
    """

    _names, _called = NAMES, "DeltaTable"

    @translated(NAMES, "DeltaTable")
    def __init__(
        self,
        table_uri: Uri,
        version: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
    ) -> None:
        self.table = tables.open(table_uri, storage_options=storage_keywords(storage_options))
        self._at: int | None = None
        if version is not None:
            self.load_as_version(version)

    def __repr__(self) -> str:
        return f"DeltaTable({self.table.uri!r}, version={self.version()})"

    def _scan(self, columns: list[str] | None = None, where: Any = None) -> Scan:
        return self.table.scan(columns=columns, where=where, version=self._at)

    def _newest(self) -> tables.Table:
        """Return the table to write to. The handle then reads the newest version."""
        self._at = None
        return self.table

    @staticmethod
    @translated(NAMES, "DeltaTable.is_deltatable")
    def is_deltatable(table_uri: Uri, storage_options: Mapping[str, Any] | None = None) -> bool:
        """Return whether there is a table."""
        return tables.exists(table_uri, storage_options=storage_keywords(storage_options))

    @classmethod
    @translated(NAMES, "DeltaTable.create")
    def create(
        cls,
        table_uri: Uri,
        schema: Any,
        mode: str = "error",
        partition_by: list[str] | str | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
        raise_if_key_not_exists: bool = True,
    ) -> DeltaTable:
        """Create an empty table.

        Raises:
            TableExistsError: there is a table, and the mode is error or append.
            InvalidArgumentError: another mode; mode overwrite, if there is a table.
        """
        if mode not in ("error", "append", "overwrite", "ignore"):
            raise InvalidArgumentError(
                f"mode is {mode!r}; expected error, append, overwrite or ignore"
            )
        options = storage_keywords(storage_options)
        there = tables.exists(table_uri, storage_options=options)
        if there and mode == "overwrite":
            raise InvalidArgumentError(
                f"there is a table at {table_uri}; call tablefmt.drop(uri) before create, or "
                'write rows with write_deltalake(mode="overwrite", schema_mode="overwrite")'
            )
        if not (there and mode == "ignore"):
            columns = schema.to_arrow() if isinstance(schema, Schema) else pa.schema(schema)
            tables.create(
                table_uri,
                columns,
                partition_by=partition_by,
                storage_options=options,
                **definition(name, description, configuration),
            )
        return cls(table_uri, storage_options=storage_options)

    def version(self) -> int:
        """Return the version that is read."""
        return self.table.version if self._at is None else self._at

    @property
    def table_uri(self) -> str:
        """Return the location of the table."""
        return self.table.uri

    def schema(self) -> Schema:
        """Return the columns."""
        return Schema.from_arrow(self._scan().schema)

    def metadata(self) -> Metadata:
        """Return the definition of the table."""
        found = self._scan().snapshot.metadata
        properties = dict(found.properties)
        return Metadata(
            id=str(uuid.UUID(self.table.id)),
            name=properties.pop(_NAME, None),
            description=found.comment,
            partition_columns=found.partition_names,
            created_time=self.table.context.view.created // 1000,
            configuration=properties,
        )

    def protocol(self) -> ProtocolVersions:
        """Return the features that readers and writers of the table need."""
        found = self.table.context.view.head.protocol
        return ProtocolVersions(0, 0, list(found.writer), list(found.reader))

    @translated(NAMES, "DeltaTable.load_as_version")
    def load_as_version(self, version: int | str | datetime) -> None:
        """Read another version from now on, by its number or a time."""
        check_version(version)
        if isinstance(version, str | datetime):
            self._at = self.table.refresh().scan(timestamp=version).version
        else:
            self._at = self.table.refresh().scan(version=version).version

    def update_incremental(self) -> None:
        """Read the newest version from now on."""
        self._newest().refresh()

    def count(self) -> int:
        """Return the number of rows."""
        return self._scan().count()

    @translated(NAMES, "DeltaTable.scan")
    def scan(
        self, columns: list[str] | None = None, predicate: str | None = None
    ) -> pa.RecordBatchReader:
        """Return rows as a stream that is read on demand."""
        return self._scan(columns, spark_sql(predicate)).to_reader()

    @translated(NAMES, "DeltaTable.to_pyarrow_table")
    def to_pyarrow_table(
        self,
        partitions: Any = None,
        columns: list[str] | None = None,
        filesystem: Any = None,
        filters: Any = None,
    ) -> pa.Table:
        """Return rows as an Arrow table."""
        return self._scan(columns, self._where(partitions, filters)).to_arrow()

    @translated(NAMES, "DeltaTable.to_pandas")
    def to_pandas(
        self,
        partitions: Any = None,
        columns: list[str] | None = None,
        filesystem: Any = None,
        filters: Any = None,
        types_mapper: Any = None,
    ) -> Any:
        """Return rows as a pandas DataFrame."""
        rows = self._scan(columns, self._where(partitions, filters))
        return rows.to_pandas(types_mapper=types_mapper)

    @translated(NAMES, "DeltaTable.to_pyarrow_dataset")
    def to_pyarrow_dataset(
        self,
        partitions: Any = None,
        filesystem: Any = None,
        parquet_read_options: Any = None,
        schema: Any = None,
        as_large_types: bool = False,
        file_pruning_predicate: Any = None,
    ) -> ds.Dataset:
        """Return rows as a dataset in memory."""
        where = self._where(partitions, file_pruning_predicate)
        return ds.dataset(self._scan(None, where).to_arrow())

    @translated(NAMES, "DeltaTable.file_uris")
    def file_uris(
        self, partition_filters: Any = None, *, file_pruning_predicate: Any = None
    ) -> list[str]:
        """Return the addresses of the files that may hold the rows."""
        where = self._where(partition_filters, file_pruning_predicate)
        paths = self._scan(None, where).files()["path"].to_pylist()
        root = self.table.uri.rstrip("/")
        return [path if "://" in path or path[:1] == "/" else f"{root}/{path}" for path in paths]

    @translated(NAMES, "DeltaTable.partitions")
    def partitions(
        self, partition_filters: Any = None, *, file_pruning_predicate: Any = None
    ) -> list[dict[str, str | None]]:
        """Return the partitions of the files that may hold the rows, each once."""
        where = self._where(partition_filters, file_pruning_predicate)
        files = self._scan(None, where).files()
        if "partition" not in files.column_names:
            return []
        fields = files["partition"].combine_chunks().flatten()
        columns = dict(zip(self._scan().snapshot.metadata.partition_names, fields, strict=True))
        values = pa.table(columns)
        once = values.group_by(values.column_names).aggregate([]).to_pylist()
        texts = [{k: None if v is None else str(v) for k, v in one.items()} for one in once]
        return sorted(texts, key=lambda one: list(map(str, one.values())))

    @translated(NAMES, "DeltaTable.get_add_actions")
    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """Return a row for each file: path, size_bytes, num_records, partition."""
        files = self._scan().files()
        columns = {
            "path": files["path"],
            "size_bytes": files["size"],
            "num_records": files["rows"],
        }
        if "partition" in files.column_names:
            columns["partition"] = files["partition"]
        answer = pa.table(columns)
        return answer.flatten() if flatten else answer

    @translated(NAMES, "DeltaTable.history")
    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return one dict for each version, newest first, with delta-rs' keys."""
        return [_commit_info(row) for row in self.table.history(limit).to_pylist()]

    @translated(NAMES, "DeltaTable.load_cdf")
    def load_cdf(
        self,
        starting_version: int = 0,
        ending_version: int | None = None,
        starting_timestamp: str | None = None,
        ending_timestamp: str | None = None,
        columns: list[str] | None = None,
        predicate: str | None = None,
        allow_out_of_range: bool = False,
    ) -> pa.RecordBatchReader:
        """Return the row changes of a range, as a stream."""
        by_time = starting_timestamp is not None and starting_version == 0
        return self.table.changes(
            starting_version=None if by_time else starting_version,
            starting_timestamp=starting_timestamp if by_time else None,
            ending_version=ending_version,
            ending_timestamp=ending_timestamp if ending_version is None else None,
            columns=columns,
            where=spark_sql(predicate),
        ).to_reader()

    @translated(NAMES, "DeltaTable.delete")
    def delete(
        self,
        predicate: str | None = None,
        writer_properties: Any = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> dict[str, Any]:
        """Delete rows. Return the metrics under delta-rs' names."""
        done = self._newest().delete(spark_sql(predicate), **commit_keywords(commit_properties))
        return metrics_of("delete", done.metrics)

    @translated(NAMES, "DeltaTable.update")
    def update(
        self,
        updates: dict[str, str] | None = None,
        new_values: dict[str, Any] | None = None,
        predicate: str | None = None,
        writer_properties: Any = None,
        error_on_type_mismatch: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> dict[str, Any]:
        """Update rows by SQL text or by Python values. Return the metrics.

        Raises:
            InvalidArgumentError: both or none of `updates` and `new_values`.
        """
        if (updates is None) == (new_values is None):
            raise InvalidArgumentError("give either updates (SQL text) or new_values (values)")
        values = spark_values(updates or {}) or {
            name: sql_of(value, name) for name, value in (new_values or {}).items()
        }
        commit = commit_keywords(commit_properties)
        done = self._newest().update(values, spark_sql(predicate), **commit)
        return metrics_of("update", done.metrics)

    @translated(NAMES, "DeltaTable.merge")
    def merge(
        self,
        source: Any,
        predicate: str,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        error_on_type_mismatch: bool = True,
        writer_properties: Any = None,
        streamed_exec: bool = True,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> TableMerger:
        """Begin a MERGE. `execute` of the result runs it."""
        builder = self._newest().merge(
            rows_of(source),
            spark_sql(predicate),
            source_alias=source_alias or "source",
            target_alias=target_alias or "target",
            merge_schema=merge_schema,
        )
        alias = quote_name(source_alias or "source")
        columns = {name: f"{alias}.{quote_name(name)}" for name in self.table.schema.names}
        return TableMerger(builder, commit_keywords(commit_properties), columns)

    @property
    def optimize(self) -> TableOptimizer:
        """Return the object that compacts and clusters."""
        return TableOptimizer(self._newest())

    @property
    def alter(self) -> TableAlterer:
        """Return the object that changes the definition."""
        return TableAlterer(self._newest())

    @translated(NAMES, "DeltaTable.vacuum")
    def vacuum(
        self,
        retention_hours: int | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
        full: bool = False,
        keep_versions: list[int] | None = None,
    ) -> list[str]:
        """Remove files that no kept version needs. Return their paths."""
        report = self._newest().vacuum(
            retention=None if retention_hours is None else timedelta(hours=retention_hours),
            dry_run=dry_run,
            breaks_running_transactions=not enforce_retention_duration,
        )
        paths: list[str] = report.files["path"].to_pylist()
        return paths

    @translated(NAMES, "DeltaTable.restore")
    def restore(
        self,
        target: int | datetime | str,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> dict[str, Any]:
        """Restore an older version by a new commit. Return the numbers of files."""
        commit = commit_keywords(commit_properties)
        check_version(target)
        if isinstance(target, str | datetime):
            done = self._newest().restore(timestamp=target, **commit)
        else:
            done = self._newest().restore(target, **commit)
        return {
            "numRemovedFile": done.metrics.get("numRemovedFiles", 0),
            "numRestoredFile": done.metrics.get("numRestoredFiles", 0),
        }

    @translated(NAMES, "DeltaTable.transaction_version")
    def transaction_version(self, app_id: str) -> int | None:
        """Return the newest version of an application transaction; None if there is none."""
        found = self.table.refresh().context.view.read_head.applications.get(app_id)
        return None if found is None else found[0].version

    def create_checkpoint(self) -> None:
        """Write a checkpoint of the newest version."""
        self.table.checkpoint()

    def cleanup_metadata(self) -> None:
        """Remove log entries that are older than logRetentionDuration."""
        self.table.expire_log(dry_run=False)

    def _where(self, *given: Any) -> Any:
        return condition_of(self._scan().schema, *given)


def _commit_info(row: dict[str, Any]) -> dict[str, Any]:
    info = {
        "timestamp": int(row["timestamp"].timestamp() * 1000),
        "operation": row["operation"],
        "operationParameters": dict(row["operationParameters"] or ()),
        "operationMetrics": {name: int(value) for name, value in row["operationMetrics"] or ()},
        "isolationLevel": row["isolationLevel"],
        "isBlindAppend": row["isBlindAppend"],
        "version": row["version"],
    }
    if row["readVersion"] is not None:
        info["readVersion"] = row["readVersion"]
    if row["userMetadata"] is not None:
        try:
            given = json.loads(row["userMetadata"])
        except ValueError:
            given = {"userMetadata": row["userMetadata"]}
        custom = given if isinstance(given, dict) else {"userMetadata": row["userMetadata"]}
        info = {**custom, **info}
    return info
