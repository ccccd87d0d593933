"""Which columns and rows a reader asks for, checked against a schema. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.expression import to_arrow_expression, to_scan_expression
from tablefmt.data.read import RowFilter, physical_schema
from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.parse import parse_predicate
from tablefmt.model.predicate import Predicate, all_of, fields
from tablefmt.model.schema import Field, Schema, is_float, walk
from tablefmt.model.substrait import predicates_of

Condition = Union[str, pc.Expression, None]  # noqa: UP007 - evaluated at run time in 3.10


def chosen_columns(schema: Schema, names: Sequence[str] | None) -> list[Field]:
    """The columns of those names, in the order given; all for None.

    Raises:
        SchemaMismatchError: a name that is not there.
    """
    if names is None:
        return list(schema.fields)
    if isinstance(names, str):
        names = [names]
    found = [(name, schema.find(name)) for name in names]
    missing = [name for name, field in found if field is None]
    if missing:
        raise SchemaMismatchError(
            f"no column {', '.join(map(repr, missing))}; there are "
            f"{', '.join(map(repr, schema.names))}",
            missing,
        )
    return [field for _, field in found if field is not None]


def understood(where: Condition, schema: Schema) -> tuple[Predicate | None, RowFilter | None]:
    """A condition as what prunes files, and what selects rows.

    Of a pyarrow expression, the parts that are understood prune (PRN-15); None if there is none.

    Raises:
        InvalidPredicateError: text that cannot be parsed, an expression that does not fit the
            columns, or neither.
        UnsupportedFeatureError: text that this version cannot evaluate; or a pyarrow expression on
            a table with renamed columns.
    """
    if where is None:
        return None, None
    if isinstance(where, str):
        predicate = parse_predicate(where, schema)
        return predicate, _filter_of(predicate, schema)
    if not isinstance(where, pc.Expression):
        raise InvalidPredicateError(
            f"where is a {type(where).__name__}; give SQL text or a pyarrow.compute.Expression"
        )
    if any(f.name != f.physical for f in schema.fields):
        raise UnsupportedFeatureError(
            "a pyarrow expression cannot be used on a table with renamed columns; give SQL text",
            ["where:expression-renamed"],
        )
    try:
        file_schema(schema).empty_table().filter(where)
    except (pa.ArrowException, TypeError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise InvalidPredicateError(f"the condition does not fit the columns: {first}") from None
    parts, _ = predicates_of(where, schema)
    return (all_of(parts) if parts else None), _filter_by(where, schema)


def _filter_of(predicate: Predicate, schema: Schema) -> RowFilter:
    names = physical_schema(schema)
    exact, pushed = to_arrow_expression(predicate, names), to_scan_expression(predicate, names)
    if pushed.equals(exact):
        return RowFilter(exact)
    return RowFilter(pushed, exact, tuple(schema.by_id(i).physical for i in fields(predicate)))


def _filter_by(where: pc.Expression, schema: Schema) -> RowFilter:
    """An expression of the user's own: pushed into the scan unless it looks at floats."""
    if not any(is_float(kind) for field in schema.fields for kind in walk(field.type)):
        return RowFilter(where)
    # A column named by its place, as pc.field(1), keeps it only if every column is read.
    by_place = "FieldPath(" in str(where)
    reads = list(schema.fields) if by_place else _columns_of(where, schema)
    if not any(is_float(kind) for field in reads for kind in walk(field.type)):
        return RowFilter(where)
    return RowFilter(None, where, tuple(field.physical for field in reads))


def _columns_of(where: pc.Expression, schema: Schema) -> list[Field]:
    """The columns an expression needs: Arrow tells by refusing it when one is missing."""
    columns = file_schema(schema)
    found = []
    for at, field in enumerate(schema.fields):
        try:
            columns.remove(at).empty_table().filter(where)
        except (pa.ArrowException, TypeError, ValueError, KeyError):
            found.append(field)
    return found
