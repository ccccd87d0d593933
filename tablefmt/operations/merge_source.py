"""The source of a MERGE on Arrow: its columns, its rows as they are kept, and its keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.conflict.facts import Keys
from tablefmt.data.cast import cast_to_schema, match_columns
from tablefmt.data.engine import LazyEngine
from tablefmt.data.evaluation import evaluate
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.names import Relation
from tablefmt.expressions.source_bounds import SourceValues, values_of
from tablefmt.model.arrow_types import arrow_type, file_schema, from_arrow_field
from tablefmt.model.numbering import number_fields
from tablefmt.model.schema import Schema
from tablefmt.session.merge_analysis import EquatedColumn, MergeAnalysis
from tablefmt.session.merge_keys import source_keys


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The source's rows, read once."""

    relation: Relation
    rows: pa.Table
    """Columns by their handles."""
    engine: LazyEngine
    """Works out what ON equates."""
    in_memory: bool
    """The rows can be looked at when the statement is done too."""

    def of(self, columns: Sequence[str]) -> pa.Table:
        """Some columns, and the rows' numbers as `r`."""
        chosen = self.rows.select(list(columns))
        return chosen.append_column("r", pa.array(np.arange(self.rows.num_rows)))

    def equated(self, each: EquatedColumn) -> pa.ChunkedArray:
        """What a column is equated with, in its own type; NULL where none can be equal."""
        kind, value = each.field.type, each.value.value
        if value.column is not None:
            column = self.rows[value.column]
        else:
            (column,) = evaluate(self.engine, self.rows, [value])
        if value.type == kind:
            return column
        wide, target = column.cast(pa.int64()), arrow_type(kind)
        half = 1 << (target.bit_width - 1)
        fits = pc.and_(pc.greater_equal(wide, -half), pc.less_equal(wide, half - 1))
        return pc.if_else(fits, wide, pa.scalar(None, pa.int64())).cast(target)

    def values(self, analysis: MergeAnalysis) -> list[SourceValues]:
        """What it holds of each of `MergeAnalysis.equated`."""
        return [values_of(self.equated(each), each.field) for each in analysis.equated]

    def keys(self, analysis: MergeAnalysis) -> Keys | None:
        """Of all its rows, as of `source_keys`."""
        columns = [self.equated(analysis.equated[at]) for at in analysis.key_parts]
        return source_keys(analysis, self.rows.num_rows, lambda: columns, later=self.in_memory)


def source_schema(given: pa.Schema, there: Schema) -> Schema:
    """The source's columns; of a type that no column can have, left out.

    One that has no type, all NULL, is of the type of the table's column of that name.

    Raises:
        SchemaMismatchError: there is none.
    """
    columns = []
    for column in given:
        same = there.find(column.name) if pa.types.is_null(column.type) else None
        if same is not None:
            columns.append(replace(same, name=column.name))
            continue
        try:
            columns.append(from_arrow_field(column))
        except SchemaMismatchError:
            continue
    if not columns:
        raise SchemaMismatchError("the source has no column that an expression could name")
    return number_fields([replace(column, nullable=True) for column in columns])


def by_handles(reader: pa.RecordBatchReader, relation: Relation) -> pa.RecordBatchReader:
    """The source's rows in the types that columns have, columns by their handles."""
    schema = relation.schema
    shape = file_schema(schema)
    known = [name for name in reader.schema.names if schema.find(name) is not None]
    chosen = pa.schema([reader.schema.field(name) for name in known])
    positions = match_columns(chosen, schema)
    handles = [relation.handle(at) for at in range(len(schema.fields))]
    renamed = pa.schema([pa.field(h, f.type) for h, f in zip(handles, shape, strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            rows = pa.Table.from_batches([batch]).select(known)
            cast = cast_to_schema(rows, positions, schema, shape)
            yield from cast.rename_columns(handles).cast(renamed).to_batches()

    return pa.RecordBatchReader.from_batches(renamed, batches())
