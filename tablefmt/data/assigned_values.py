"""New column values under Spark's ANSI store assignment. Spec: SQL-3, SQL-5, MRG-1.

A struct that is set field by field is assembled here from its new and its old fields. For a MERGE
with a source that lacks fields, the source's struct is laid over the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.column_cast import cast_column, check_nested_nulls, fit_length, type_misfit
from tablefmt.data.sql_evaluation import Engine, check_carried_out, evaluate
from tablefmt.data.value_conversion import nulls, places_of_fields
from tablefmt.errors import ConstraintViolationError, InvalidPredicateError, SchemaMismatchError
from tablefmt.expressions.duckdb_types import DOUBLE, FLOAT, Typed, store_assigned
from tablefmt.expressions.merge_statement import in_clause
from tablefmt.expressions.set_assignments import Assignment, Over, Parts
from tablefmt.expressions.sql_parser import Relation
from tablefmt.expressions.sql_to_duckdb import Translated, translate
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Field, Struct, is_nested, nullable_field


def overlaid(values: pa.ChunkedArray, old: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """Return the given fields, and the old values of missing fields, at any depth.

    A NULL value gives NULL, unless its type lacks fields of the column and the old struct is not
    NULL.

    Args:
        values: structs of a type that may lack fields of the column.
        old: the old values, in the column's type.
        column: the table's column.

    Raises:
        SchemaMismatchError: SCH-5, a value does not fit.
        ConstraintViolationError: DAT-3, NULL in a NOT NULL field.
    """
    assert isinstance(column.type, Struct)
    merged = _overlaid(values.combine_chunks(), old.combine_chunks(), column.type)
    whole = cast_column(pa.chunked_array([merged]), column)
    check_nested_nulls(whole, column.type, column.name)
    return whole


def _overlaid(values: pa.Array, old: pa.Array, kind: Struct) -> pa.StructArray:
    field_places = places_of_fields(values.type)
    is_null = values.is_null()
    if _lacks(values.type, kind):
        is_null = pc.and_(is_null, old.is_null())
    children = []
    for place, column in enumerate(kind.fields):
        # The field is NULL wherever the struct is, whatever its storage holds.
        child = pc.struct_field(old, [place])
        at = field_places.get(folded(column.name))
        if at is not None:
            given = pc.struct_field(values, [at])
            if isinstance(column.type, Struct) and pa.types.is_struct(given.type):
                child = _overlaid(given, child, column.type)
            else:
                child = given
        children.append(child)
    fields = [
        pa.field(column.name, child.type)
        for column, child in zip(kind.fields, children, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=is_null)


def _lacks(given: pa.StructType, target: Struct) -> bool:
    """Return whether the type lacks a field of the column, at any depth of structs."""
    field_places = places_of_fields(given)
    for column in target.fields:
        at = field_places.get(folded(column.name))
        if at is None:
            return True
        inner, kind = given.field(at).type, column.type
        if isinstance(kind, Struct) and pa.types.is_struct(inner) and _lacks(inner, kind):
            return True
    return False


@dataclass(frozen=True, slots=True)
class NewValue:
    """The new value of a column, or of one field of a struct that is set field by field."""

    field: Field
    value: Translated
    """A value of the field's type, or a nested column whose values are matched by field name. With
    `parts`, its columns are all columns that the parts read, plus the old column.
    """
    parts: tuple[NewValue, ...] = ()
    """The fields that are set. The other fields keep their values."""
    old: str | None = None
    """Handle of a column that is set field by field; None if it is NULL in all rows."""
    over: bool = False
    """True if fields that the value's structs lack keep their old values too."""
    path: str = ""
    """The column's name, or the path of the field."""
    given: Translated | None = None
    """The value before the cast to the field's type; None if it already has that type."""

    @property
    def is_computed(self) -> bool:
        """True if the value is neither NULL nor an unchanged column."""
        return self.value.type is not None and self.value.column is None


def new_values(
    assignments: Sequence[Assignment], relations: tuple[Relation, ...], now_us: int
) -> list[NewValue]:
    """Return the assignments, checked and typed.

    Args:
        assignments: as returned by `assigned`.
        relations: the relations that expressions may name; the table must be first if a struct is
            set field by field.
        now_us: as for `translate`.

    Raises:
        SchemaMismatchError: the column does not accept a value of this type.
        InvalidPredicateError, UnsupportedFeatureError: as `translate`.
    """
    values = []
    for field, value in assignments:
        new = _new_value(field, value, relations, now_us, field.name)
        values.append(_with_old(new, relations[0]) if new.parts or new.over else new)
    check_carried_out([leaf.value for leaf in _leaves(values) if leaf.is_computed])
    return values


def _new_value(
    field: Field, value: Any, relations: tuple[Relation, ...], now_us: int, path: str
) -> NewValue:
    if isinstance(value, Over):
        new = _new_value(nullable_field(field), value.value, relations, now_us, path)
        return replace(new, field=field, over=new.value.column is not None)
    if not isinstance(value, Parts):
        with in_clause(f"the value of {path!r}"):
            translated = translate(value, relations, now_us)
        stored = _stored(replace(field, name=path), str(value), translated)
        given = translated if stored.column is None and stored is not translated else None
        return NewValue(field, stored, path=path, given=given)
    parts = tuple(
        _new_value(part, inner, relations, now_us, f"{path}.{part.name}")
        for part, inner in value.values
    )
    used = frozenset().union(*(part.value.columns for part in parts))
    return NewValue(field, Translated("", field.type, used), parts)


def _with_old(new: NewValue, relation: Relation) -> NewValue:
    """Add the handle of the old column, parts of which are kept."""
    for at, column in enumerate(relation.schema.fields):
        if column.id == new.field.id:
            handle = relation.handle(at)
            used = new.value.columns | {handle}
            return replace(new, value=replace(new.value, columns=used), old=handle)
    return new


def computed(
    engine: Callable[[], Engine], rows: pa.Table, values: Sequence[NewValue]
) -> dict[int, pa.ChunkedArray]:
    """Return the new value of each row, by field id.

    Args:
        engine: called only if an expression needs it.
        rows: columns by their handles.
        values: the values to compute.

    Raises:
        InvalidPredicateError: an expression has no result for a row.
        SchemaMismatchError: SQL-3, a value does not fit its column.
        ConstraintViolationError: DAT-3, a struct that is set field by field has NULL in a NOT NULL
            field; DAT-14, a text is too long.
    """
    leaves = list(_leaves(values))
    known, computable = {}, []
    for leaf in leaves:
        if leaf.value.type is None:
            null = nulls(rows.num_rows, arrow_type(leaf.field.type))
            known[leaf.field.id] = pa.chunked_array([null])
        elif leaf.over and leaf.old is not None:
            given, old = rows[str(leaf.value.column)], cast_column(rows[leaf.old], leaf.field)
            known[leaf.field.id] = overlaid(given, old, leaf.field)
        elif leaf.is_computed:
            computable.append(leaf)
        else:
            known[leaf.field.id] = cast_column(rows[str(leaf.value.column)], leaf.field)
    if computable:
        try:
            columns = evaluate(engine, rows, [leaf.value for leaf in computable])
        except InvalidPredicateError:
            for leaf in computable:
                _check_fit(engine, rows, leaf)
            raise
        for leaf, column in zip(computable, columns, strict=True):
            _check_finite(engine, rows, leaf, column)
        known |= {v.field.id: column for v, column in zip(computable, columns, strict=True)}
    by_column = {}
    for value in values:
        partly = value.parts and value.old is not None
        old = cast_column(rows[str(value.old)], value.field) if partly else None
        whole = _whole(value, old, known, rows.num_rows, value.field.name)
        by_column[value.field.id] = fit_length(whole, value.field)
    return by_column


def _check_fit(engine: Callable[[], Engine], rows: pa.Table, leaf: NewValue) -> None:
    """Refuse a value that has a result but does not fit the column. Raises SchemaMismatchError.

    Runs only after the statement failed, because it evaluates the value again.
    """
    if leaf.given is None:
        return
    try:
        (given,) = evaluate(engine, rows, [leaf.given])
    except InvalidPredicateError:
        return
    try:
        evaluate(engine, rows, [leaf.value])
    except InvalidPredicateError:
        if pa.types.is_floating(given.type) and pa.types.is_integer(arrow_type(leaf.field.type)):
            # A fraction is cut off, and is no reason: the message names a value beyond the type.
            given = pc.trunc(given)
        cast_column(given, replace(leaf.field, name=leaf.path))
        raise _beyond(leaf, leaf.given, "") from None


def _check_finite(
    engine: Callable[[], Engine], rows: pa.Table, leaf: NewValue, column: pa.ChunkedArray
) -> None:
    """Refuse a double beyond the largest float: an explicit cast makes it infinite, as in Spark.

    Raises:
        SchemaMismatchError: SQL-3, a value does not fit its column.
    """
    if leaf.given is None or (leaf.given.type, leaf.field.type) != (DOUBLE, FLOAT):
        return
    infinite = pc.is_inf(column)
    if not pc.any(infinite).as_py():
        return
    (given,) = evaluate(engine, rows, [leaf.given])
    beyond = given.filter(pc.and_(infinite, pc.is_finite(given)))
    if len(beyond.drop_null()):
        raise _beyond(leaf, leaf.given, f" ({beyond.drop_null()[0].as_py()!r} is out of range)")


def _beyond(leaf: NewValue, given: Translated, why: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {leaf.path!r}: a value of type {given.type} does not fit {leaf.field.type}{why}. "
        "Nothing was written; cast the value or widen the column.",
        [leaf.path],
    )


def _leaves(values: Sequence[NewValue]) -> Iterator[NewValue]:
    for value in values:
        if value.parts:
            yield from _leaves(value.parts)
        else:
            yield value


def _whole(
    new: NewValue,
    old: pa.ChunkedArray | None,
    known: dict[int, pa.ChunkedArray],
    rows: int,
    path: str,
) -> pa.ChunkedArray:
    """Return the values of a field. Setting a field of a NULL struct makes the struct non-NULL
    (SQL-5).
    """
    if not new.parts:
        return known[new.field.id]
    assert isinstance(new.field.type, Struct)
    kind = arrow_type(new.field.type)
    parts = {part.field.id: part for part in new.parts}
    columns = []
    for at, field in enumerate(new.field.type.fields):
        # The field is NULL wherever the struct is, whatever its storage holds.
        before = None if old is None else pc.struct_field(old, [at])
        inner = f"{path}.{field.name}"
        if field.id in parts:
            column = _whole(parts[field.id], before, known, rows, inner)
        elif before is None:
            column = pa.chunked_array([nulls(rows, kind.field(at).type)])
        else:
            column = before
        if not field.nullable and column.null_count:
            raise ConstraintViolationError(
                f"field {inner} is NOT NULL, but {column.null_count} of the new rows have NULL. "
                "Nothing was written; give these rows a value."
            )
        columns.append(column)
    aligned = pa.Table.from_arrays(columns, list(map(str, range(len(columns)))))
    fields = [kind.field(at) for at in range(kind.num_fields)]
    chunks = [
        pa.StructArray.from_arrays(batch.columns, fields=fields) for batch in aligned.to_batches()
    ]
    return pa.chunked_array(chunks, kind)


def _stored(field: Field, text: str, value: Translated) -> Translated:
    if value.type is None or str(value.type) == str(field.type):
        return value
    if value.column is not None and is_nested(field.type):
        problem = type_misfit(value.type, field)
        if problem is None:
            return value
        raise SchemaMismatchError(problem, [field.name])
    stored = store_assigned(Typed(value.sql, value.type, arrow=value.arrow), field.type)
    if stored is None:
        raise SchemaMismatchError(
            f"column {field.name!r} of type {field.type} does not accept {text[:200]!r} of type "
            f"{value.type}. Cast the value.",
            [field.name],
        )
    return replace(value, sql=stored.sql, type=field.type, column=None, arrow=stored.arrow)
