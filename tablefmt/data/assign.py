"""New values of columns, as Spark's ANSI store assignment takes them. Spec: SQL-3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tablefmt.data.conform import fitted, misfit
from tablefmt.data.engine import Engine
from tablefmt.errors import SchemaMismatchError
from tablefmt.model.clauses import Assignment
from tablefmt.model.schema import Field, is_nested
from tablefmt.model.sql_types import Typed, store_assigned
from tablefmt.model.translate import Relation, Translated, translate


@dataclass(frozen=True, slots=True)
class NewValue:
    """What becomes of one column."""

    field: Field
    value: Translated
    """Of the field's type, or a nested column whose values are fitted by the names of fields."""


def new_values(
    assignments: Sequence[Assignment], relations: tuple[Relation, ...], now_us: int
) -> list[NewValue]:
    """The assignments, checked and typed.

    Raises:
        SchemaMismatchError: a value of a type that the column does not take.
        InvalidPredicateError, UnsupportedFeatureError: as `translate`.
    """
    return [
        NewValue(field, _stored(field, str(text), translate(text, relations, now_us)))
        for field, text in assignments
    ]


def computed(
    engine: Callable[[], Engine], rows: pa.Table, values: Sequence[NewValue]
) -> dict[int, pa.ChunkedArray]:
    """By field id, the new value of each row.

    Args:
        engine: asked for only if there is something to compute.
        rows: columns by their handles.
        values: what to compute.

    Raises:
        InvalidPredicateError: a value that does not fit, or has no result.
    """
    plain = {
        v.field.id: fitted(rows[v.value.column], v.field)
        for v in values
        if v.value.column is not None
    }
    made = [v for v in values if v.value.column is None]
    if not made:
        return plain
    columns = engine().evaluate(rows, [v.value for v in made])
    return plain | {v.field.id: column for v, column in zip(made, columns, strict=True)}


def _stored(field: Field, text: str, value: Translated) -> Translated:
    if value.type is not None and str(value.type) == str(field.type):
        return value
    if value.type is not None and value.column is not None and is_nested(field.type):
        problem = misfit(value.type, field)
        if problem is None:
            return value
        raise SchemaMismatchError(problem, [field.name])
    stored = store_assigned(Typed(value.sql, value.type), field.type)
    if stored is None:
        raise SchemaMismatchError(
            f"column {field.name!r} is {field.type} and does not take {text[:200]!r}, which is "
            f"{value.type}; cast it",
            [field.name],
        )
    return replace(value, sql=stored.sql, type=field.type, column=None)
