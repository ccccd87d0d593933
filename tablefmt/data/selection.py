"""Requested columns and rows, checked against a schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.matching_rows import RowFilter, physical_schema
from tablefmt.data.sql_evaluation import RowTest, check_carried_out, now_us
from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.arrow_to_predicate import predicates_of
from tablefmt.expressions.expression_analysis import analyze
from tablefmt.expressions.filter_tuples import Filters, filters_to_predicate, is_filters
from tablefmt.expressions.predicate import (
    Predicate,
    all_of,
    fields,
    to_arrow_expression,
    to_scan_expression,
)
from tablefmt.expressions.sql_parser import Relation
from tablefmt.expressions.sql_to_duckdb import translate_condition
from tablefmt.expressions.sql_to_predicate import parse_conjuncts, parse_predicate
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.name_matching import there_are
from tablefmt.model.schema import Field, Schema, is_float, walk

Condition = Union[str, Filters, pc.Expression, None]  # noqa: UP007 - evaluated at run time in 3.10


def chosen_columns(schema: Schema, names: Sequence[str] | None) -> list[Field]:
    """Return the columns of those names, in the order given; all for None.

    Raises:
        SchemaMismatchError: a name is not in the schema.
    """
    if names is None:
        return list(schema.fields)
    if isinstance(names, str):
        names = [names]
    by_name = [(name, schema.find(name)) for name in names]
    missing = [name for name, field in by_name if field is None]
    if missing:
        raise SchemaMismatchError(
            f"no column {', '.join(map(repr, missing))}; {there_are(missing[0], schema.names)}",
            missing,
        )
    return [field for _, field in by_name if field is not None]


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """Rows that a condition selects, as far as it is understood."""

    predicate: Predicate | None = None
    """TRUE for every selected row; used for pruning files. None: unknown."""
    rows: RowFilter | None = None
    """Row filter; None selects every row."""
    exact: bool = True
    """True if `predicate` selects exactly these rows; None then selects every row."""
    columns: frozenset[int] | None = None
    """Ids of the only columns that decide an inexact condition; None: unknown."""


def select_rows(where: Condition, schema: Schema) -> RowSelection:
    """Return the selection of a condition; all rows for None.

    Text beyond comparisons of one column with constants goes to the SQL engine. For text and
    pyarrow expressions, the parts that are understood prune files (PRN-3, PRN-15). Filter tuples
    are understood completely.

    Raises:
        InvalidPredicateError: text that cannot be parsed, tuples or an expression that do not fit
            the columns, or another type.
        UnsupportedFeatureError: text that cannot be evaluated exactly, or only by an engine that is
            not installed; or a pyarrow expression on a table with renamed columns.
    """
    if where is None:
        return RowSelection()
    if isinstance(where, str):
        try:
            predicate = parse_predicate(where, schema)
        except UnsupportedFeatureError:
            return _by_engine(where, schema)
        return RowSelection(predicate, filter_of(predicate, schema))
    if is_filters(where):
        predicate = filters_to_predicate(where, schema)
        return RowSelection(predicate, filter_of(predicate, schema))
    if not isinstance(where, pc.Expression):
        raise no_condition(where)
    if any(f.name != f.physical for f in schema.fields):
        raise UnsupportedFeatureError(
            "a pyarrow expression cannot be used on a table with renamed columns. Use SQL text.",
            ["where:expression-renamed"],
        )
    try:
        file_schema(schema).empty_table().filter(where)
    except (pa.ArrowException, TypeError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise InvalidPredicateError(f"the condition does not fit the columns: {first}") from None
    parts, exact = predicates_of(where, schema)
    known = all_of(parts) if parts else None
    seen = _physical(known, schema) if exact and known is not None else None
    rows = replace(_filter_by(where, schema), pushed_reads=seen, predicate=known)
    return RowSelection(known, rows, exact and known is not None)


def no_condition(where: object) -> InvalidPredicateError:
    """Return the error for a `where` of an unsupported type."""
    return InvalidPredicateError(
        f"where={where!r:.100}: expected SQL text, filter tuples like "
        f'[("id", ">", 1)] or a pyarrow.compute.Expression, got {type(where).__name__}'
    )


def _by_engine(where: str, schema: Schema) -> RowSelection:
    condition = translate_condition(where, (Relation(schema),), now_us())
    check_carried_out([condition])
    parts, _ = parse_conjuncts(where, schema)
    predicate = all_of(parts) if parts else None
    used = [f for at, f in enumerate(schema.fields) if f"t{at}" in condition.columns]
    names = physical_schema(schema)
    pushed = None if predicate is None else to_scan_expression(predicate, names)
    seen = None if predicate is None else _physical(predicate, schema)
    names_used = tuple(f.physical for f in used)
    rows = RowFilter(pushed, RowTest(schema, condition), names_used, seen, predicate)
    analysis = analyze(where, Relation(schema))
    columns = analysis.columns[0] if analysis.follows_from_columns else None
    return RowSelection(predicate, rows, exact=False, columns=columns)


def filter_of(predicate: Predicate, schema: Schema) -> RowFilter:
    """Return the filter for rows for which the predicate is TRUE."""
    names = physical_schema(schema)
    exact, pushed = to_arrow_expression(predicate, names), to_scan_expression(predicate, names)
    seen = _physical(predicate, schema)
    if pushed.equals(exact):
        return RowFilter(exact, pushed_reads=seen, predicate=predicate)
    return RowFilter(pushed, exact, tuple(sorted(seen)), seen, predicate)


def _physical(predicate: Predicate, schema: Schema) -> frozenset[str]:
    """Return the physical names of the columns that the predicate reads."""
    return frozenset(schema.by_id(i).physical for i in fields(predicate))


def _filter_by(where: pc.Expression, schema: Schema) -> RowFilter:
    """Return the filter for a user's expression: pushed into the scan unless it reads floats."""
    if not any(is_float(kind) for field in schema.fields for kind in walk(field.type)):
        return RowFilter(where)
    reads = list(schema.fields) if _names_places(where) else _columns_of(where, schema)
    if not any(is_float(kind) for field in reads for kind in walk(field.type)):
        return RowFilter(where)
    return RowFilter(None, where, tuple(field.physical for field in reads))


def _names_places(where: pc.Expression) -> bool:
    """Return whether a column is named by index, as pc.field(1); then all columns are needed.

    Arrow cannot serialize such an expression.
    """
    try:
        where.__reduce__()
    except pa.ArrowException:
        return True
    return False


def _columns_of(where: pc.Expression, schema: Schema) -> list[Field]:
    """Return the columns an expression needs: Arrow refuses it if one of them is missing."""
    columns = file_schema(schema)
    needed = []
    for at, field in enumerate(schema.fields):
        try:
            columns.remove(at).empty_table().filter(where)
        except (pa.ArrowException, TypeError, ValueError, KeyError):
            needed.append(field)
    return needed
