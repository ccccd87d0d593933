"""Arguments and results of delta-rs, in the forms that tablefmt takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tablefmt.compat.deltalake.deltalake_names import NAMES
from tablefmt.compat.standard_sql import spark_sql
from tablefmt.compat.translation import translated
from tablefmt.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.literals import literal_sql
from tablefmt.model.name_matching import folded
from tablefmt.model.times import to_micros
from tablefmt.session.commit_options import CommitKeywords


@dataclass(frozen=True, slots=True)
class Transaction:
    """An application transaction: a write with an id and a version is applied once."""

    app_id: str
    version: int
    last_updated: int | None = None


class CommitProperties:
    """Metadata and the application transaction of a commit."""

    @translated(NAMES, "CommitProperties")
    def __init__(
        self,
        custom_metadata: dict[str, Any] | None = None,
        max_commit_retries: int | None = None,
        app_transactions: list[Transaction] | None = None,
    ) -> None:
        self.custom_metadata = custom_metadata
        self.max_commit_retries = max_commit_retries
        self.app_transactions = app_transactions


class PostCommitHookProperties:
    """Accepted for delta-rs. Checkpoints follow the property checkpointInterval."""

    def __init__(
        self, create_checkpoint: bool = True, cleanup_expired_logs: bool | None = None
    ) -> None:
        self.create_checkpoint, self.cleanup_expired_logs = create_checkpoint, cleanup_expired_logs


@dataclass(frozen=True)
class BloomFilterProperties:
    """Accepted for delta-rs. Encodings are chosen from the data."""

    set_bloom_filter_enabled: bool | None
    fpp: float | None = None
    ndv: int | None = None


@dataclass(frozen=True)
class ColumnProperties:
    """Accepted for delta-rs. Encodings are chosen from the data."""

    dictionary_enabled: bool | None = None
    statistics_enabled: str | None = None
    bloom_filter_properties: BloomFilterProperties | None = None
    encoding: str | None = None


@dataclass(frozen=True)
class WriterProperties:
    """Accepted for delta-rs. Encodings are chosen from the data."""

    data_page_size_limit: int | None = None
    dictionary_page_size_limit: int | None = None
    data_page_row_count_limit: int | None = None
    write_batch_size: int | None = None
    max_row_group_size: int | None = None
    compression: str | None = None
    compression_level: int | None = None
    statistics_truncate_length: int | None = None
    default_column_properties: ColumnProperties | None = None
    column_properties: Mapping[str, ColumnProperties] | None = field(default=None)


def commit_keywords(given: CommitProperties | None) -> CommitKeywords:
    """Return the keywords of a commit.

    Raises:
        UnsupportedFeatureError: several application transactions.
    """
    keywords: CommitKeywords = {}
    if given is None:
        return keywords
    if given.custom_metadata:
        keywords["user_metadata"] = given.custom_metadata
    if given.app_transactions:
        if len(given.app_transactions) > 1:
            raise UnsupportedFeatureError(
                "deltalake: app_transactions has several transactions; a commit of tablefmt has "
                "one. Give each write one Transaction",
                ["compat:CommitProperties(app_transactions)"],
            )
        one = given.app_transactions[0]
        keywords["application"] = (one.app_id, one.version)
    return keywords


NOT_NEEDED = frozenset(
    {
        "copy_if_not_exists",
        "aws_copy_if_not_exists",
        "aws_s3_allow_unsafe_rename",
        "aws_s3_locking_provider",
        "delta_dynamo_table_name",
    }
)
"""Storage options of deltalake for stores without a conditional create."""


def storage_keywords(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the storage options that a store of tablefmt takes, which has the same names."""
    if given is None:
        return None
    return {name: value for name, value in given.items() if folded(name) not in NOT_NEEDED}


def rows_of(data: Any) -> Any:
    """Return rows in a form that tablefmt takes: a list of record batches is one table."""
    batches = isinstance(data, Sequence) and len(data) > 0
    if batches and all(hasattr(each, "__arrow_c_array__") for each in data):
        return pa.Table.from_batches([pa.record_batch(each) for each in data])
    return data


def condition_of(schema: pa.Schema, *given: Any) -> Any:
    """Return one condition that all given ones imply: filter tuples, text or an expression.

    Values of filter tuples may be text, as delta-rs encodes partition values.

    Raises:
        InvalidArgumentError: text together with another condition.
    """
    asked = [_typed(each, schema) if isinstance(each, list) else spark_sql(each) for each in given]
    asked = [each for each in asked if each is not None]
    if not asked:
        return None
    if len(asked) == 1:
        return asked[0]
    first, second = asked
    if isinstance(first, list) and isinstance(second, list):
        return [[*left, *right] for left in _alternatives(first) for right in _alternatives(second)]
    raise InvalidArgumentError(
        "one condition is SQL text and the other is a list of tuples; give both as lists, or "
        "combine them in one argument"
    )


def _alternatives(filters: list[Any]) -> list[list[Any]]:
    return [filters] if filters and isinstance(filters[0], tuple) else filters


def _typed(filters: list[Any], schema: pa.Schema) -> list[Any] | None:
    if not filters:
        return None
    return [[_typed_one(each, schema) for each in group] for group in _alternatives(filters)]


def _typed_one(given: Any, schema: pa.Schema) -> Any:
    try:
        name, operator, value = given
    except (TypeError, ValueError):
        return given
    if name not in schema.names:
        return given
    kind = schema.field(name).type
    if isinstance(value, list | tuple | set):
        return name, operator, [_value(each, kind, name) for each in value]
    return name, operator, _value(value, kind, name)


def _value(value: Any, kind: pa.DataType, name: str) -> Any:
    if not isinstance(value, str) or pa.types.is_string(kind):
        return value
    try:
        return pa.scalar(value).cast(kind).as_py()
    except pa.ArrowException:
        raise InvalidArgumentError(
            f"the filter on {name} has the value {value!r:.100}, which is not a {kind}; for NULL, "
            f"use the condition '{name} IS NULL'"
        ) from None


def sql_of(value: Any, column: str) -> str:
    """Return a Python value of `new_values` as SQL text.

    Raises:
        SchemaMismatchError: a value of another type.
    """
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"array({', '.join(sql_of(each, column) for each in value)})"
    if isinstance(value, bool):
        return literal_sql(value, "boolean")
    if isinstance(value, int):
        return literal_sql(value, "long")
    if isinstance(value, float):
        return literal_sql(value, "double")
    if isinstance(value, Decimal):
        return literal_sql(value, "decimal")
    if isinstance(value, str):
        return literal_sql(value, "string")
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return literal_sql(to_micros(aware), "timestamp")
    if isinstance(value, date):
        return literal_sql((value - date(1970, 1, 1)).days, "date")
    raise SchemaMismatchError(
        f"the new value of {column} is a {type(value).__name__}; use SQL text in `updates`",
        [column],
    )


METRICS: Mapping[str, str] = {
    "numAddedFiles": "num_added_files",
    "numRemovedFiles": "num_removed_files",
    "numDeletedRows": "num_deleted_rows",
    "numUpdatedRows": "num_updated_rows",
    "numCopiedRows": "num_copied_rows",
    "executionTimeMs": "execution_time_ms",
    "scanTimeMs": "scan_time_ms",
    "rewriteTimeMs": "rewrite_time_ms",
    "numSourceRows": "num_source_rows",
    "numTargetRowsInserted": "num_target_rows_inserted",
    "numTargetRowsUpdated": "num_target_rows_updated",
    "numTargetRowsDeleted": "num_target_rows_deleted",
    "numTargetRowsCopied": "num_target_rows_copied",
    "numOutputRows": "num_output_rows",
    "numTargetFilesAdded": "num_target_files_added",
    "numTargetFilesRemoved": "num_target_files_removed",
}
"""delta-rs' name of a metric by ours."""

_DELETE = (
    *("num_added_files", "num_removed_files", "num_deleted_rows", "num_copied_rows"),
    *("execution_time_ms", "scan_time_ms", "rewrite_time_ms"),
)
_UPDATE = (
    *("num_added_files", "num_removed_files", "num_updated_rows", "num_copied_rows"),
    *("execution_time_ms", "scan_time_ms"),
)
_MERGE = (
    *("num_source_rows", "num_target_rows_inserted", "num_target_rows_updated"),
    *("num_target_rows_deleted", "num_target_rows_copied", "num_output_rows"),
    *("num_target_files_added", "num_target_files_removed"),
    *("execution_time_ms", "scan_time_ms", "rewrite_time_ms"),
)
METRICS_OF: Mapping[str, tuple[str, ...]] = {"delete": _DELETE, "update": _UPDATE, "merge": _MERGE}
"""Metrics that a verb of delta-rs returns and tablefmt counts."""


def metrics_of(verb: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a commit under delta-rs' names. A metric without a value is 0."""
    named = {METRICS[name]: value for name, value in metrics.items() if name in METRICS}
    return {name: named.get(name, 0) for name in METRICS_OF[verb]}
