"""Scope of a statement: the rows its condition selects and their partitions, for conflict rules."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablefmt.conflict.read_write_sets import Read
from tablefmt.data.matching_rows import RowFilter
from tablefmt.data.selection import Condition, RowSelection, select_rows
from tablefmt.expressions.arrow_to_predicate import expression_identity
from tablefmt.expressions.file_pruning import decided_by_partitions
from tablefmt.expressions.implied_conditions import implied
from tablefmt.expressions.partition_conditions import over_partitions
from tablefmt.expressions.predicate import (
    TRUE,
    Comparison,
    IsNull,
    Predicate,
    all_of,
    any_of,
    fields,
    over_columns,
    to_sql,
)
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.log_entry import AddedFiles, Metadata, PartitionScope, PredicateScope, Scope
from tablefmt.model.scalar_values import decode_value, encode
from tablefmt.model.schema import Field, Schema

SCOPE_PARTITIONS_MAX = 1000
"""Most partitions in the scope of an entry. Beyond, the scope is the whole table."""


def partitions_of(added: AddedFiles, metadata: Metadata) -> Predicate:
    """Return a predicate that is true exactly for the partitions of the files."""
    columns = [metadata.schema.by_id(i) for i in metadata.partition_by]
    encoded = [added.columns[f"partition.{c.id}"] for c in columns]
    distinct = list(dict.fromkeys(zip(*encoded, strict=True)))
    alternatives = []
    for values in distinct:
        pairs = zip(columns, values, strict=True)
        alternatives.append(all_of([_is(column, value) for column, value in pairs]))
    return any_of(alternatives)


def _is(column: Field, encoded: Any) -> Predicate:
    """Return a predicate that a column has exactly this partition value, NULL included."""
    if encoded is None:
        return IsNull(column)
    return Comparison(column, "=", decode_value(encoded, column.type))


def partition_scope(added: AddedFiles | None, metadata: Metadata) -> Scope:
    """Return the partitions of the files as a scope; None, the whole table, without
    partitioning."""
    if not metadata.partition_by or added is None:
        return None
    columns = [added.columns[f"partition.{i}"] for i in metadata.partition_by]
    values = dict.fromkeys(zip(*columns, strict=True))
    return PartitionScope(tuple(values)) if len(values) <= SCOPE_PARTITIONS_MAX else None


def scope_of(predicate: Predicate | None, metadata: Metadata) -> Scope:
    """Return the partitions that may hold rows with a true condition; None: all."""
    if predicate is None or not metadata.partition_by:
        return None
    over = over_columns(implied(predicate, metadata), frozenset(metadata.partition_by))
    return None if over == TRUE else PredicateScope(to_sql(over))


def scope_of_files(files: pa.Table, metadata: Metadata) -> Scope:
    """Return the partitions of live files (columns `partition.<id>`); None if there are too
    many."""
    # A file of another partitioning has rows of any partition.
    if not metadata.partition_by or metadata.is_evolved:
        return None
    columns = [
        encode(files[f"partition.{i}"].combine_chunks(), metadata.schema.by_id(i).type)
        for i in metadata.partition_by
    ]
    values = dict.fromkeys(zip(*columns, strict=True))
    return PartitionScope(tuple(values)) if len(values) <= SCOPE_PARTITIONS_MAX else None


TEXT_MAX = 1000
"""Most characters of a text that an entry keeps as the user wrote it."""


@dataclass(frozen=True, slots=True, eq=False)
class AnalyzedCondition:
    """A condition, as far as it is understood."""

    text: str
    predicate: Predicate | None
    """TRUE for every selected row; None: unknown, or every row is selected."""
    rows: RowFilter | None
    """None selects every row."""
    exact: bool
    """`predicate` is TRUE for no other row."""
    follows_from_columns: bool | None = None
    """The condition depends only on the values of `columns`, so conflicts can be judged by row.
    None: as `exact`."""
    columns: frozenset[int] | None = None
    """Ids of the columns that the condition uses; None: those of an exact `predicate`."""

    def decided_by_partitions(self, metadata: Metadata) -> bool:
        """Return whether partition values alone decide which files are selected (HID-5)."""
        if not self.exact or self.predicate is None:
            return self.exact
        over = over_partitions(self.predicate, metadata)
        return decided_by_partitions(over, metadata.partition_ids)

    def over_partitions(self, metadata: Metadata) -> Predicate | None:
        """Return `predicate` over hidden partition fields where it selects whole partitions."""
        return None if self.predicate is None else over_partitions(self.predicate, metadata)

    def read_nothing(self) -> Read:
        """Return the read of a choice among files by metadata. It read no row, and more files may
        match."""
        return Read(
            predicate=self.predicate, by_row=self.by_row, rows={}, columns=self.used_columns
        )

    def read(self, files: pa.Table, rows: Mapping[int, BitMap64] | None = None) -> Read:
        """Return the read of `files` (column `id`), which are those that may hold selected rows.

        Args:
            files: the opened files.
            rows: selected positions by file; None: the rows of all files were read.
        """
        return Read(
            predicate=self.predicate,
            by_row=self.by_row,
            files=np.sort(files["id"].to_numpy()),
            rows=rows,
            columns=self.used_columns,
        )

    @property
    def by_row(self) -> bool:
        """Return whether conflicts can be judged by row, as in `follows_from_columns`."""
        return self.exact if self.follows_from_columns is None else self.follows_from_columns

    @property
    def used_columns(self) -> frozenset[int] | None:
        """Return the ids of the columns that decide which rows are selected; None: any column."""
        if self.columns is not None:
            return self.columns
        if not self.exact:
            return None
        return frozenset() if self.predicate is None else frozenset(fields(self.predicate))


def analyzed_condition(where: Condition, schema: Schema) -> AnalyzedCondition:
    """Return the analysis of a condition. None selects all rows.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: as `select_rows`.
    """
    selection = select_rows(where, schema)
    if where is None:
        return AnalyzedCondition("TRUE", None, None, True)
    predicate, exact = selection.predicate, selection.exact
    if exact and predicate is not None:
        text = to_sql(predicate)
    elif isinstance(where, pc.Expression):
        text = kept_text(str(where), expression_identity(where, file_schema(schema)))
    else:
        text = kept_text(str(where))
    return condition_of(selection, text)


def kept_text(text: str, whole: bytes | None = None) -> str:
    """Return the form of a text that an entry keeps.

    Different texts stay different, and so do their digests, however long they are (CFL-23).

    Args:
        text: a condition.
        whole: everything that decides its meaning, if the text alone does not.
    """
    if whole is None:
        if len(text) <= TEXT_MAX:
            return text
        whole = text.encode("utf-8", "surrogatepass")
    return f"{text[:TEXT_MAX]} … SHA-256 {hashlib.sha256(whole).hexdigest()}"


def condition_of(selection: RowSelection, text: str = "") -> AnalyzedCondition:
    """Return the condition that selects those rows. Its text is for display only."""
    predicate, rows, exact, columns = (
        selection.predicate, selection.rows, selection.exact, selection.columns
    )  # fmt: skip
    return AnalyzedCondition(text, predicate, rows, exact, exact or columns is not None, columns)
