"""MERGE statements: clauses, conditions, schema evolution, and the rows that can match. Pure.

Clauses are checked against the table. Conditions give restrictions on the target and the columns
that ON equates; the analysis never refuses a condition, because the engine may support it.
Evolution adds columns and fields of the source to the table. Target rows that can match follow from
the values in the source: that predicate prunes the files to open, and is part of the read set for
the conflict rules. Spec: MRG-1, MRG-3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.expression_analysis import Analysis, analyze_tree
from tablefmt.expressions.predicate import (
    FALSE,
    Comparison,
    In,
    IsNull,
    Predicate,
    all_of,
    any_of,
    quote_name,
)
from tablefmt.expressions.set_assignments import Assignment, Expression, assigned, check_whole, over
from tablefmt.expressions.sql_parser import Relation, conjuncts_of, parse_tree, resolve
from tablefmt.expressions.sql_to_duckdb import Translated, translate_tree
from tablefmt.expressions.sql_to_predicate import predicate_of
from tablefmt.model.argument_checks import check_expression, check_flags, check_set
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Field, Primitive, Schema, Struct, is_float, is_nested, parts_of
from tablefmt.model.schema_rules import number_fields

_CALL = """when_matched_update({"price": "s.price"}, "s.price > 0")"""


class Side(str, Enum):
    """Rows that a clause applies to."""

    MATCHED = "matched"
    NOT_MATCHED = "not_matched"
    """Source rows without a target row."""
    NOT_MATCHED_BY_SOURCE = "not_matched_by_source"
    """Target rows without a source row."""


class Action(str, Enum):
    """Action of a clause on a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN of a MERGE."""

    side: Side
    action: Action
    condition: Expression | None = None
    """Condition of the clause. None: it always applies."""
    values: Mapping[str, Expression] | None = None
    """New values by column. None for all columns by name (`SET *`, `INSERT *`), or for a delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """MERGE statement without its source."""

    on: Expression
    source_alias: str = "s"
    target_alias: str = "t"
    clauses: tuple[Clause, ...] = ()
    merge_schema: bool = False
    """True to add columns of the source that the table lacks. `SET *` and `INSERT *` add all of
    them, other clauses add those they name. With `SET *`, fields that the source's structs lack
    stay unchanged.
    """

    def of(self, *sides: Side) -> tuple[Clause, ...]:
        """Return the clauses for these rows, in order."""
        return tuple(clause for clause in self.clauses if clause.side in sides)


@dataclass(frozen=True, slots=True)
class Step:
    """Clause with its columns resolved."""

    clause: Clause
    assignments: tuple[Assignment, ...] = ()
    """Assignments in the order of the table's columns. A column that an INSERT leaves out gets its
    default. A column that an UPDATE leaves out stays unchanged.
    """


def check_clauses(statement: MergeStatement) -> None:
    """Refuse statements that Spark also refuses.

    Raises:
        InvalidPredicateError: no clause; an action that its rows cannot have; a clause after one
            that matches all its rows; equal aliases. InvalidArgumentError: an invalid flag.
    """
    check_flags(merge_schema=statement.merge_schema)
    if not statement.clauses:
        raise InvalidPredicateError("a MERGE needs at least one WHEN clause")
    if folded(statement.source_alias) == folded(statement.target_alias):
        raise InvalidPredicateError(
            f"source and table are both named {statement.source_alias!r}; use two names"
        )
    check_expression(statement.on, "ON")
    always: set[Side] = set()
    for clause in statement.clauses:
        if clause.values is not None:
            check_set(clause.values, _CALL)
        if clause.condition is not None:
            check_expression(clause.condition, f"the condition of {_shown(clause)}")
        inserts = clause.action is Action.INSERT
        if inserts != (clause.side is Side.NOT_MATCHED):
            raise InvalidPredicateError(
                f"{_shown(clause)} is not possible: WHEN NOT MATCHED clauses can only INSERT, and "
                "the other clauses can only UPDATE or DELETE"
            )
        if clause.side in always:
            raise InvalidPredicateError(
                f"{_shown(clause)} follows a clause without a condition and can never apply; "
                "only the last clause of a kind may omit the condition"
            )
        if clause.condition is None:
            always.add(clause.side)


def resolve_clauses(
    statement: MergeStatement,
    schema: Schema,
    source_names: Sequence[str],
    generated: Collection[int] = (),
) -> tuple[Step, ...]:
    """Return the clauses with the columns that they set, in their order.

    Args:
        statement: this function also checks it.
        schema: the table's schema; with `merge_schema`, the evolved one.
        source_names: the source's columns. For all columns by name, they must include the table's
            columns that are not generated, unless `merge_schema`. Then an UPDATE leaves missing
            columns unchanged, and an INSERT sets them to NULL. Additional source columns are
            ignored.
        generated: ids of generated columns.

    Raises:
        InvalidPredicateError: as `check_clauses`; a clause without assignments.
        SchemaMismatchError: a column that does not exist, or is set twice.
        UnsupportedFeatureError: something inside an array or a map is set; an INSERT names a part
            of a column.
    """
    check_clauses(statement)
    steps = []
    for clause in statement.clauses:
        if clause.action is Action.DELETE:
            steps.append(Step(clause))
        elif clause.values is None:
            steps.append(
                Step(clause, _all_columns(statement, schema, source_names, clause, generated))
            )
        else:
            values = assigned(clause.values, schema, statement.target_alias)
            if clause.action is Action.INSERT:
                check_whole(values)
            steps.append(Step(clause, values))
    return tuple(steps)


def columns_by_name(
    schema: Schema,
    source_names: Sequence[str],
    *,
    partly: bool,
    generated: Collection[int] = (),
) -> tuple[tuple[Field, str], ...]:
    """Return the columns that `SET *` and `INSERT *` set: table column and source column, by name.

    Args:
        schema: the table's schema.
        source_names: the source's columns.
        partly: the source may lack some of the table's columns.
        generated: ids of generated columns, which it may always lack.

    Raises:
        SchemaMismatchError: the source lacks columns, or has one twice.
    """
    by_name: dict[str, str] = {}
    for name in source_names:
        if folded(name) in by_name and schema.find(name) is not None:
            raise SchemaMismatchError(f"the source has column {name!r} twice", [name])
        by_name[folded(name)] = name
    absent = [f for f in schema.fields if folded(f.name) not in by_name]
    missing = [f.name for f in absent if f.id not in generated]
    if len(absent) == len(schema.fields) or (missing and not partly):
        raise SchemaMismatchError(
            f"the source lacks {', '.join(map(repr, missing))}, but the clause sets every column; "
            "name the columns to set, or pass merge_schema=True",
            missing,
        )
    return tuple(
        (field, by_name[folded(field.name)])
        for field in schema.fields
        if folded(field.name) in by_name
    )


def _all_columns(
    statement: MergeStatement,
    schema: Schema,
    source_names: Sequence[str],
    clause: Clause,
    generated: Collection[int],
) -> tuple[Assignment, ...]:
    if clause.side is Side.NOT_MATCHED_BY_SOURCE:
        raise InvalidPredicateError(
            f"{_shown(clause)} has no source row to take values from; pass the columns to set"
        )
    partly = statement.merge_schema
    columns = columns_by_name(schema, source_names, partly=partly, generated=generated)
    overlays = statement.merge_schema and clause.action is Action.UPDATE
    values = [(field, source_column(statement, name)) for field, name in columns]
    return tuple((field, over(field, text) if overlays else text) for field, text in values)


def source_column(statement: MergeStatement, name: str) -> str:
    """Return the SQL text of a column of the source."""
    return f"{quote_name(statement.source_alias)}.{quote_name(name)}"


def when(clause: Clause) -> str:
    """Return the clause up to its condition, as SQL text."""
    return f"WHEN {clause.side.value.upper().replace('_', ' ')}"


@contextmanager
def in_clause(clause: str) -> Iterator[None]:
    """Prefix errors about expressions with the clause."""
    try:
        yield
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        error.args = (f"{clause}: {error}", *error.args[1:])
        raise


def _shown(clause: Clause) -> str:
    return f"{when(clause)} THEN {clause.action.value.upper()}"


VALUES_MAX = 1000
"""Maximum number of distinct values to list. Beyond it, only minimum and maximum are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceValues:
    """Values of one expression over the source, in the form of `predicate`."""

    values: tuple[Any, ...] | None = None
    """All distinct values except NULL; None if they are unknown, or too many to list."""
    lower: Any = None
    """Lower bound of the values; None: unknown. NaN is above every number."""
    upper: Any = None
    """Upper bound of the values; None: unknown."""
    has_null: bool = True
    """True if some values may be NULL."""


@dataclass(frozen=True, slots=True)
class Equated:
    """`field = expression over the source`, a part of ON."""

    field: Field
    values: SourceValues
    """Values of the field's type."""
    null_safe: bool = False
    """True if the operator is `<=>`: NULL matches NULL."""


def predicate_of_source(equated: Sequence[Equated]) -> Predicate:
    """Return a predicate that is TRUE for every target row that some source row can match.

    It is TRUE for all rows if nothing is known, and FALSE for all if the source has no value to
    match.
    """
    return all_of([part for each in equated for part in _parts(each)])


def values_of(column: pa.Array | pa.ChunkedArray, field: Field) -> SourceValues:
    """Return the values of a column of the field's own Arrow type."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    known = pc.unique(pc.drop_null(whole))
    has_null = whole.null_count > 0
    if isinstance(field.type, Primitive) and field.type.name in _STORAGE:
        known = known.view(_STORAGE[field.type.name])
    if len(known) <= VALUES_MAX:
        plain = known.to_pylist()
        if is_float(field.type):
            plain = _one_of_each(plain)
        return SourceValues(values=tuple(plain), has_null=has_null)
    if isinstance(field.type, Primitive) and field.type.name == "boolean":
        return SourceValues(has_null=has_null)
    ends = pc.min_max(known.filter(pc.invert(pc.is_nan(known))) if is_float(field.type) else known)
    lower, upper = ends["min"].as_py(), ends["max"].as_py()
    if is_float(field.type) and pc.any(pc.is_nan(known)).as_py():
        upper = float("nan")
    return SourceValues(lower=lower, upper=upper, has_null=has_null)


_STORAGE = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}


def _one_of_each(numbers: list[float]) -> list[float]:
    """Return the numbers with only one zero and one NaN."""
    plain = dict.fromkeys(n + 0.0 for n in numbers if n == n)
    return [*plain, *([float("nan")] if any(n != n for n in numbers) else [])]


def _parts(each: Equated) -> list[Predicate]:
    field, known = each.field, each.values
    nulls: list[Predicate] = [IsNull(field)] if each.null_safe and known.has_null else []
    if known.values is not None:
        if not known.values:
            return [any_of(nulls)] if nulls else [FALSE]
        return [any_of([*nulls, In(field, known.values)])]
    ends: list[Predicate] = []
    if known.lower is not None:
        ends.append(Comparison(field, ">=", known.lower))
    if known.upper is not None:
        ends.append(Comparison(field, "<=", known.upper))
    if not ends:
        return []
    return [any_of([*nulls, all_of(ends)])] if nulls else ends


def evolving_columns(statement: MergeStatement, schema: Schema, source: Schema) -> Schema | None:
    """Return the columns and fields that a MERGE may add to the table; None if there are none.

    Args:
        statement: with `merge_schema` or without.
        schema: the table's schema.
        source: the source's schema.

    Returns:
        All columns of the source if a clause has `SET *` or `INSERT *`. Otherwise the columns that
        clauses for its rows name and the table lacks.
    """
    if not statement.merge_schema:
        return None
    clauses = statement.of(Side.MATCHED, Side.NOT_MATCHED)
    if any(c.values is None and c.action is not Action.DELETE for c in clauses):
        return source
    paths = [
        path
        for clause in clauses
        for name, value in (clause.values or {}).items()
        if (path := _only_in_source(statement, schema, source, name, value))
    ]
    return number_fields(_pruned(source.fields, paths)) if paths else None


def _only_in_source(
    statement: MergeStatement, schema: Schema, source: Schema, name: str, value: Expression
) -> tuple[Field, ...]:
    """Return the source path that a clause names, if the table lacks it or a part of it."""
    if not isinstance(name, str):
        return ()
    plain = source.find(name)
    parts = [name] if plain is not None or schema.find(name) is not None else parts_of(name)
    if len(parts) > 1 and folded(parts[0]) == folded(statement.target_alias):
        parts = parts[1:]
    theirs = _walked(source.fields, parts)
    ours = _walked(schema.fields, parts)
    if len(theirs) < len(parts):
        return ()
    if len(ours) == len(parts):
        # The clause assigns the whole source column of that name, including its fields.
        written = folded(".".join(parts))
        text = folded(value.replace("`", "")) if isinstance(value, str) else ""
        return theirs if text == f"{folded(statement.source_alias)}.{written}" else ()
    inside = ours[-1].type if ours else None
    return () if inside is not None and not isinstance(inside, Struct) else theirs


def _walked(fields: Sequence[Field], parts: Sequence[str]) -> tuple[Field, ...]:
    """Return the fields along a path, up to the first missing one."""
    path: list[Field] = []
    for part in parts:
        field = next((f for f in fields if folded(f.name) == folded(part)), None)
        if field is None:
            break
        path.append(field)
        fields = field.type.fields if isinstance(field.type, Struct) else ()
    return tuple(path)


def _pruned(fields: Sequence[Field], paths: Sequence[tuple[Field, ...]]) -> list[Field]:
    """Return the fields that are on a path or at its end."""
    kept = []
    for field in fields:
        below = [path[1:] for path in paths if path[0] == field]
        if below and isinstance(field.type, Struct) and all(below):
            kept.append(replace(field, type=Struct(tuple(_pruned(field.type.fields, below)))))
        elif below:
            kept.append(field)
    return kept


@dataclass(frozen=True, slots=True)
class TargetCondition:
    """Known part of a condition that concerns the target's rows."""

    predicate: Predicate | None
    """Predicate that is TRUE for every target row for which the condition can be. None: nothing is
    known.
    """
    columns: frozenset[int] | None
    """Ids of the target's columns that decide the condition; None if it cannot be analysed."""


@dataclass(frozen=True, slots=True)
class Equality:
    """`column of the target = expression over the source`, one of the AND-ed parts of ON."""

    field: Field
    value: Translated
    source: Field | None
    """Source column, if the expression is a plain column."""
    null_safe: bool
    """True if the operator is `<=>`."""


@dataclass(frozen=True, slots=True)
class MergeCondition:
    """Known parts of ON."""

    target: TargetCondition
    equalities: tuple[Equality, ...]
    complete: bool
    """True if there is no other part."""


def analyze_merge_condition(
    text: str, target: Relation, source: Relation, time_zone: str = "UTC", now_us: int = 0
) -> MergeCondition:
    """Return the known parts of ON.

    Args:
        text: over both relations.
        target: prefix and alias differ from the source's.
        source: its prefix and alias differ from the target's.
        time_zone: for times without a zone.
        now_us: the statement's time.

    Raises:
        InvalidPredicateError: it cannot be parsed.
    """
    tree = parse_tree(text)
    predicates: list[Predicate] = []
    equalities: list[Equality] = []
    parts = list(conjuncts_of(tree))
    for part in parts:
        analysis = analyze_tree(part, target, source)
        if analysis.unresolved:
            continue
        ours, theirs = analysis.columns
        if ours and not theirs:
            predicates += _predicates(part, target, time_zone)
        elif isinstance(part, exp.EQ | exp.NullSafeEQ):
            equalities += _equality(part, target, source, now_us)
    columns = _columns(analyze_tree(tree, target, source), target)
    complete = len(equalities) == len(parts)
    return MergeCondition(_condition(predicates, columns), tuple(equalities), complete)


def analyze_target_condition(
    text: str, target: Relation, time_zone: str = "UTC"
) -> TargetCondition:
    """Return the known part of a condition over the target alone.

    Takes the arguments of `analyze_merge_condition`, and raises the same errors.
    """
    tree = parse_tree(text)
    predicates = [p for part in conjuncts_of(tree) for p in _predicates(part, target, time_zone)]
    return _condition(predicates, _columns(analyze_tree(tree, target), target))


def _condition(predicates: Sequence[Predicate], columns: frozenset[int] | None) -> TargetCondition:
    return TargetCondition(all_of(list(predicates)) if predicates else None, columns)


def _columns(analysis: Analysis, target: Relation) -> frozenset[int] | None:
    """Return the ids of its target columns; None if it depends on anything else of the target.

    Nested source columns are allowed, because the source is fixed for the statement.
    """
    ours = analysis.columns[0]
    if analysis.unresolved or not analysis.is_plain:
        return None
    if any(is_nested(target.schema.by_id(each).type) for each in ours):
        return None
    return ours


def _equality(
    part: exp.EQ | exp.NullSafeEQ, target: Relation, source: Relation, now_us: int
) -> Iterator[Equality]:
    for ours, theirs in ((part.this, part.expression), (part.expression, part.this)):
        field = _column(ours, target, source)
        if field is None or analyze_tree(theirs, target, source).columns[0]:
            continue
        try:
            value = translate_tree(theirs, (target, source), now_us)
        except (InvalidPredicateError, UnsupportedFeatureError, RecursionError):
            continue
        null_safe = isinstance(part, exp.NullSafeEQ)
        yield Equality(field, value, _column(theirs, source, target), null_safe)
        return


def _column(node: exp.Expression, relation: Relation, other: Relation) -> Field | None:
    """Return the relation's column that an expression is, without change. `other` may be named
    too.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    meant = resolve(node, (relation, other)) if isinstance(node, exp.Column) else []
    if len(meant) != 1 or meant[0].relation is not relation or meant[0].path:
        return None
    return meant[0].field


def _predicates(part: exp.Expression, target: Relation, time_zone: str) -> list[Predicate]:
    try:
        return [predicate_of(part, target.schema, time_zone, target.alias)]
    except (InvalidPredicateError, UnsupportedFeatureError, RecursionError):
        return []
