"""Values of generated columns that rows lack, computed over Arrow rows in UTC. Spec: GEN-3."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from tablefmt.data.assigned_values import NewValue, computed, new_values
from tablefmt.data.sql_evaluation import LazyEngine
from tablefmt.data.value_conversion import relabelled
from tablefmt.errors import ConstraintViolationError, UnsupportedFeatureError
from tablefmt.expressions.generated_columns import GeneratedColumn, engine_text, generated_columns
from tablefmt.expressions.merge_statement import in_clause
from tablefmt.expressions.sql_parser import Relation
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field


def by_physical(column: Field) -> str:
    """Return the name of a column in data files."""
    return column.physical


def by_name(column: Field) -> str:
    """Return the name of a column for people."""
    return column.name


@dataclass(slots=True)
class GeneratedValues:
    """Computes the generated columns of a table. Not thread-safe."""

    metadata: Metadata
    named: Callable[[Field], str] = by_physical
    """Name of a column in the rows."""
    engine: LazyEngine = field(default_factory=LazyEngine)
    _columns: dict[int, GeneratedColumn] = field(init=False)
    _values: dict[int, NewValue] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._columns = {each.field.id: each for each in generated_columns(self.metadata)}

    @property
    def ids(self) -> frozenset[int]:
        """Return the ids of all generated columns."""
        return frozenset(self._columns)

    def prepare(self, ids: Iterable[int]) -> None:
        """Translate the expressions of some generated columns, before any row is read.

        Raises:
            UnsupportedFeatureError: only Spark can compute one.
        """
        for number in ids:
            self._value(number)

    def filled(self, rows: pa.Table, ids: Collection[int]) -> pa.Table:
        """Return the rows with new values of some generated columns, which they have already.

        Raises:
            UnsupportedFeatureError: as `prepare`.
            InvalidPredicateError: an expression has no result for a row, such as an overflow.
            ConstraintViolationError: DAT-3, NULL in a NOT NULL column.
        """
        for number in ids:
            column = self._columns[number].field
            values = self._computed(rows, number)
            if not column.nullable and values.null_count:
                raise ConstraintViolationError(
                    f"column {column.name!r} is NOT NULL, but its expression "
                    f"({self._columns[number].expression[:200]}) is NULL for {values.null_count} "
                    f"of {rows.num_rows} rows. Nothing was written."
                )
            at = rows.schema.get_field_index(self.named(column))
            rows = rows.set_column(at, rows.schema.field(at), values)
        return rows

    def _computed(self, rows: pa.Table, number: int) -> pa.ChunkedArray:
        value, relation = self._value(number), Relation(self.metadata.schema)
        used = {}
        for at, column in enumerate(self.metadata.schema.fields):
            handle = relation.handle(at)
            if handle in value.value.columns:
                given = rows.column(rows.schema.get_field_index(self.named(column)))
                used[handle] = relabelled(given, arrow_type(column.type))
        taken = pa.table(used) if used else pa.table({"none": pa.nulls(rows.num_rows)})
        with in_clause(f"the generated column {value.field.name!r}"):
            return computed(self.engine, taken, [value])[number]

    def _value(self, number: int) -> NewValue:
        known = self._values.get(number)
        if known is None:
            column = self._columns[number]
            relation = Relation(self.metadata.schema)
            text = engine_text(column, self.metadata)
            try:
                known = new_values([(column.field, text)], (relation,), 0)[0]
            except UnsupportedFeatureError as error:
                raise UnsupportedFeatureError(
                    f"the generated column {column.field.name!r} ({column.expression[:200]}) "
                    f"cannot be computed without Spark ({error}). Write with Spark.",
                    error.features,
                ) from None
            self._values[number] = known
        return known
