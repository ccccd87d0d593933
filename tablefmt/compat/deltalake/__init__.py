"""The names of delta-rs (`deltalake`), over tables of tablefmt.

`from tablefmt.compat.deltalake import DeltaTable, write_deltalake` replaces the import from
`deltalake`. Version numbers are those of tablefmt: the first write of a new table is version 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import tablefmt.table as tables
from tablefmt.compat.deltalake.deltalake_arguments import (
    BloomFilterProperties,
    ColumnProperties,
    CommitProperties,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    commit_keywords,
    rows_of,
    storage_keywords,
)
from tablefmt.compat.deltalake.deltalake_names import NAMES
from tablefmt.compat.deltalake.deltalake_table import DeltaTable, Metadata, definition
from tablefmt.compat.deltalake.query import QueryBuilder
from tablefmt.compat.deltalake.schema import DataType, Field, Schema
from tablefmt.compat.standard_sql import spark_sql
from tablefmt.compat.translation import absent_name, translated
from tablefmt.errors import InvalidArgumentError
from tablefmt.operations.save_modes import Mode
from tablefmt.store.location import Uri

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "CommitProperties",
    "DataType",
    "DeltaTable",
    "Field",
    "Metadata",
    "PostCommitHookProperties",
    "QueryBuilder",
    "Schema",
    "Transaction",
    "WriterProperties",
    "convert_to_deltalake",
    "write_deltalake",
]

__getattr__ = absent_name(NAMES)


@translated(NAMES, "write_deltalake")
def write_deltalake(
    table_or_uri: Uri | DeltaTable,
    data: Any,
    *,
    partition_by: list[str] | str | None = None,
    mode: Mode = "error",
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    schema_mode: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    predicate: str | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Write rows to a table. Without a table, create one with their columns.

    Raises:
        TableExistsError: mode is error, and there is a table.
        InvalidArgumentError: arguments that exclude each other; a definition of an existing table.
    """
    _check_modes(mode, schema_mode, predicate)
    handle = table_or_uri if isinstance(table_or_uri, DeltaTable) else None
    uri = table_or_uri if handle is None else handle.table.uri
    options, commit = storage_keywords(storage_options), commit_keywords(commit_properties)
    rows = rows_of(data)
    there = handle is not None or tables.exists(uri, storage_options=options)
    if (name, description, configuration) != (None, None, None):
        if there and mode in ("append", "overwrite"):
            raise InvalidArgumentError(
                "the table exists, so name, description and configuration have no effect; leave "
                "them out, and use DeltaTable.alter"
            )
        if not there:
            rows = _table_of(rows)
            given = definition(name, description, configuration)
            tables.create(
                uri,
                rows.schema,
                partition_by=partition_by,
                storage_options=options,
                **given,
            )
            mode = "append"
    if handle is not None and mode in ("append", "overwrite"):
        table = handle._newest()
        if mode == "append":
            table.append(rows, merge_schema=schema_mode == "merge", **commit)
        else:
            _overwrite(table, rows, predicate, schema_mode, partition_by, commit)
    elif there and mode == "overwrite":
        table = tables.open(uri, storage_options=options)
        _overwrite(table, rows, predicate, schema_mode, partition_by, commit)
    else:
        tables.write(
            rows,
            uri,
            mode=mode,
            partition_by=partition_by,
            merge_schema=schema_mode == "merge",
            storage_options=options,
            **commit,
        )


def _check_modes(mode: str, schema_mode: str | None, predicate: str | None) -> None:
    if predicate is not None and mode != "overwrite":
        raise InvalidArgumentError('predicate selects the rows to replace; use mode="overwrite"')
    if schema_mode not in (None, "merge", "overwrite"):
        raise InvalidArgumentError(f"schema_mode is {schema_mode!r}; expected merge or overwrite")
    if schema_mode == "overwrite" and (mode != "overwrite" or predicate is not None):
        raise InvalidArgumentError(
            'schema_mode="overwrite" replaces the columns of the whole table; use '
            'mode="overwrite" without predicate'
        )
    if schema_mode == "merge" and mode == "overwrite":
        raise InvalidArgumentError(
            'schema_mode="merge" needs mode="append" here; add the columns with '
            "DeltaTable.alter.add_columns, then overwrite"
        )


def _table_of(rows: Any) -> pa.Table:
    if isinstance(rows, list):
        return pa.Table.from_pylist(rows)
    return pa.table(rows)


def _overwrite(
    table: tables.Table,
    rows: Any,
    predicate: str | None,
    schema_mode: str | None,
    partition_by: list[str] | str | None,
    commit: Any,
) -> None:
    columns = [partition_by] if isinstance(partition_by, str) else partition_by
    replaces = schema_mode == "overwrite"
    if columns is not None and not replaces and columns != table.partition_by:
        raise InvalidArgumentError(
            f"partition_by is {columns}, and the table has {table.partition_by}; use "
            'schema_mode="overwrite" to change it'
        )
    table.overwrite(
        rows,
        spark_sql(predicate),
        overwrite_schema=replaces,
        partition_by=columns if replaces else None,
        **commit,
    )


@translated(NAMES, "convert_to_deltalake")
def convert_to_deltalake(
    uri: Uri,
    mode: Mode = "error",
    partition_by: Any = None,
    partition_strategy: str | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    collect_stats: bool = True,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Make a table of a folder of Parquet files, in its place. No file is copied.

    Raises:
        InvalidArgumentError: folders that are not in the hive form.
    """
    if partition_strategy not in (None, "hive"):
        raise InvalidArgumentError(
            f"partition_strategy is {partition_strategy!r}; expected 'hive', with folders such as "
            "day=2026-01-01"
        )
    options = storage_keywords(storage_options)
    if mode == "ignore" and tables.exists(uri, storage_options=options):
        return
    table = tables.import_table(uri, "parquet", storage_options=options)
    if name is not None:
        table.alter.set_properties({"user.name": name})
    if description is not None:
        table.alter.set_comment(description)
