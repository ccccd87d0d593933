"""Generated columns: computed from other columns of their row. Pure.

The metadata holds a generated column as a constraint: the column equals its expression. So every
writer that checks constraints checks the column too, and a schema change of its sources is refused.
A writer also fills the column where the rows lack it. Spec: GEN-1 .. GEN-5 (spec/generated.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.check_constraints import GENERATED_PREFIX, columns_of
from tablefmt.expressions.constraint_grammar import rewritten
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.sql_parser import Relation
from tablefmt.expressions.sql_to_duckdb import translate
from tablefmt.model.features import EVOLUTION, GENERATED, HIDDEN, IDENTITY
from tablefmt.model.identity_columns import declared_identities, identity_columns, identity_ids
from tablefmt.model.log_entry import Constraint, Metadata, ProtocolFeatures
from tablefmt.model.name_matching import there_are
from tablefmt.model.schema import Field, Schema, is_nested, is_variant, walk
from tablefmt.model.type_widening import is_widening


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A column that is computed from others."""

    field: Field
    expression: str
    """Spark SQL over other columns of the row."""
    sources: frozenset[int]
    """Ids of the columns that the expression uses."""

    @property
    def constraint(self) -> str:
        """Return the name of its constraint."""
        return _constraint_name(self.field)


def generated_columns(metadata: Metadata) -> tuple[GeneratedColumn, ...]:
    """Return the generated columns, in the order of the table's columns. Spec: GEN-1."""
    if not any(name.startswith(GENERATED_PREFIX) for name in metadata.constraints):
        return ()
    found = ((field, _read(field, metadata)) for field in metadata.schema.fields)
    return tuple(each for _, each in found if each is not None)


def _read(field: Field, metadata: Metadata) -> GeneratedColumn | None:
    known = metadata.constraints.get(_constraint_name(field))
    begin = _before(field)
    if known is None or field.id not in known.columns:
        return None
    text = known.condition
    if len(text) <= len(begin) or not (text.startswith(begin) and text.endswith(")")):
        return None
    sources = frozenset(known.columns) - {field.id}
    return GeneratedColumn(field, text[len(begin) : -1], sources)


def _constraint_name(field: Field) -> str:
    return f"{GENERATED_PREFIX}{field.id}"


def _before(field: Field) -> str:
    return f"{quote_name(field.name)} <=> ("


def generated_expressions(metadata: Metadata) -> dict[str, str]:
    """Return the expressions of the generated columns, by the names of the columns."""
    return {each.field.name: each.expression for each in generated_columns(metadata)}


def check_conditions(metadata: Metadata) -> dict[str, str]:
    """Return the conditions of the CHECK constraints that are not of generated columns, by name."""
    own = {each.constraint for each in generated_columns(metadata)}
    return {n: each.condition for n, each in metadata.constraints.items() if n not in own}


def declared_schema(metadata: Metadata) -> Schema:
    """Return the columns with expressions and identities, for a definition as text."""
    texts = {each.field.id: each.expression for each in generated_columns(metadata)}
    fields = (replace(f, generated=texts.get(f.id)) for f in metadata.schema.fields)
    return declared_identities(metadata, replace(metadata.schema, fields=tuple(fields)))


def recomputed_columns(metadata: Metadata, set_columns: Iterable[int]) -> frozenset[int]:
    """Return the generated columns that change with some columns, without these themselves.

    Args:
        metadata: of the table.
        set_columns: ids of columns that a statement sets.
    """
    given = frozenset(set_columns)
    changed = (each for each in generated_columns(metadata) if each.sources & given)
    return frozenset(each.field.id for each in changed) - given


def engine_text(column: GeneratedColumn, metadata: Metadata) -> str:
    """Return the expression as text for engines, which the log does not pass on. Spec: SQL-6.

    Raises:
        UnsupportedFeatureError: a generated column may not have the expression; it names both.
    """
    try:
        return rewritten(column.expression, _sources_of(metadata).names)
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        features = error.features if isinstance(error, UnsupportedFeatureError) else ["sql:check"]
        raise UnsupportedFeatureError(
            f"{_shown(column.field.name, column.expression)} cannot be computed: "
            f"{_about(error)}. Write with an engine that supports it, or drop the column.",
            features,
        ) from None


def _sources_of(metadata: Metadata) -> Schema:
    """Return the columns that an expression may use: all that are not generated."""
    own = {each.field.id for each in generated_columns(metadata)}
    fields = tuple(field for field in metadata.schema.fields if field.id not in own)
    return replace(metadata.schema, fields=fields)


def defined(metadata: Metadata, expressions: Mapping[str, str] | None = None) -> Metadata:
    """Return the definition of a new table with its generated columns. Spec: GEN-1, GEN-2.

    Args:
        metadata: the definition. Its columns say their expressions (`Field.generated`).
        expressions: further expressions, by the names of columns.

    Raises:
        SchemaMismatchError: no such column; it cannot be generated; the expression has another
            type, or uses a generated column.
        InvalidPredicateError: the expression cannot be parsed, names a column that does not exist,
            or depends on more than one row or on something that changes by itself.
        UnsupportedFeatureError: it contains a construct that the log does not allow (SQL-6).
    """
    texts = _by_field(metadata.schema, expressions or {})
    if not texts:
        return metadata
    plain = tuple(replace(field, generated=None) for field in metadata.schema.fields)
    schema = replace(metadata.schema, fields=plain)
    numbered = identity_ids(metadata)
    for field in plain:
        if field.id in texts and field.id in numbered:
            raise SchemaMismatchError(
                f"column {field.name!r} is an identity column, so it cannot have an expression",
                [field.name],
            )
    # An identity column gets its value after the generated columns are computed.
    sources = tuple(field for field in plain if field.id not in texts and field.id not in numbered)
    usable = replace(schema, fields=sources)
    constraints = dict(metadata.constraints)
    for field in plain:
        if field.id in texts:
            each = _defined(field, texts[field.id], usable, schema, numbered)
            constraints[each.constraint] = _constraint(each)
    return replace(metadata, schema=schema, constraints=constraints)


def _by_field(schema: Schema, expressions: Mapping[str, str]) -> dict[int, str]:
    texts = {field.id: field.generated for field in schema.fields if field.generated is not None}
    for name, text in expressions.items():
        field = schema.find(name) if isinstance(name, str) else None
        if field is None:
            raise SchemaMismatchError(
                f"there is no column {name!r:.200} to generate; "
                f"{there_are(str(name), schema.names)}",
                [str(name)],
            )
        if texts.setdefault(field.id, text) != text:
            raise SchemaMismatchError(
                f"column {field.name!r} has two expressions: {texts[field.id]!r:.100} and "
                f"{text!r:.100}",
                [field.name],
            )
    return texts


def _defined(
    field: Field, text: str, usable: Schema, schema: Schema, numbered: frozenset[int]
) -> GeneratedColumn:
    """Return the checked definition of one generated column. Raises as `defined`."""
    name = field.name
    if not isinstance(text, str) or not text.strip():
        raise SchemaMismatchError(
            f"column {name!r} needs an expression to be generated, as SQL text, got {text!r:.100}",
            [name],
        )
    text = text.strip()
    if is_nested(field.type) or field.text is not None:
        raise SchemaMismatchError(
            f"column {name!r} is {field.text or field.type} and cannot be generated: expected a "
            "type without parts and without a length, such as STRING",
            [name],
        )
    if field.default is not None:
        raise SchemaMismatchError(
            f"column {name!r} is generated, so it cannot have a default", [name]
        )
    try:
        used = columns_of(text, usable)
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        also = _uses_generated(text, usable, schema, numbered)
        message = f"{_shown(name, text)}: {also or _about(error)}"
        if also or isinstance(error, InvalidPredicateError):
            raise InvalidPredicateError(message) from None
        raise UnsupportedFeatureError(message, error.features) from None
    for column in used:
        if any(map(is_variant, walk(column.type))):
            raise SchemaMismatchError(
                f"{_shown(name, text)} uses column {column.name!r}, which holds variants",
                [column.name],
            )
    _check_type(field, text, usable)
    return GeneratedColumn(field, text, frozenset(column.id for column in used))


def _uses_generated(
    text: str, usable: Schema, schema: Schema, numbered: frozenset[int]
) -> str | None:
    """Return why an expression fails, if it would not fail over all columns; else None."""
    try:
        used = columns_of(text, schema)
    except (InvalidPredicateError, UnsupportedFeatureError):
        return None
    other = [column for column in used if usable.find(column.name) is None]
    if not other:
        return None
    kind = "an identity" if other[0].id in numbered else "itself a generated"
    return f"it uses {other[0].name!r}, which is {kind} column"


def _check_type(field: Field, text: str, usable: Schema) -> None:
    try:
        kind = translate(rewritten(text, usable.names), (Relation(usable),)).type
    except UnsupportedFeatureError:
        # Only Spark evaluates the expression, and only Spark writes such a table.
        return
    except InvalidPredicateError as error:
        raise InvalidPredicateError(f"{_shown(field.name, text)}: {error}") from None
    if kind is None or not (kind == field.type or is_widening(kind, field.type)):
        given = "NULL" if kind is None else str(kind)
        raise SchemaMismatchError(
            f"{_shown(field.name, text)} has type {given}, but the column is {field.type}; give "
            "the column that type, or cast the expression",
            [field.name],
        )


def is_typed(column: GeneratedColumn, metadata: Metadata) -> bool:
    """Return whether the type of the expression is known to fit the column without Spark."""
    try:
        text = rewritten(column.expression, _sources_of(metadata).names)
        kind = translate(text, (Relation(metadata.schema),)).type
    except (InvalidPredicateError, UnsupportedFeatureError):
        return False
    return kind == column.field.type


def _constraint(column: GeneratedColumn) -> Constraint:
    condition = f"{_before(column.field)}{column.expression})"
    return Constraint(condition, tuple(sorted({*column.sources, column.field.id})))


def _shown(name: str, text: str) -> str:
    return f"column {name!r} GENERATED ALWAYS AS ({text[:200]})"


def _about(error: Exception) -> str:
    return str(error).replace("a constraint", "a generated column")


def without_generation(metadata: Metadata, ids: Iterable[int]) -> Metadata:
    """Return the metadata in which some columns are not generated any more."""
    dropped = {each.constraint for each in generated_columns(metadata) if each.field.id in set(ids)}
    if not dropped:
        return metadata
    left = {name: each for name, each in metadata.constraints.items() if name not in dropped}
    return replace(metadata, constraints=left)


def with_generation(metadata: Metadata, columns: Iterable[GeneratedColumn]) -> Metadata:
    """Return the metadata in which columns are generated again, under their present names."""
    added = {}
    for each in columns:
        field = metadata.schema.by_id(each.field.id)
        added[each.constraint] = _constraint(replace(each, field=field))
    return replace(metadata, constraints={**metadata.constraints, **added}) if added else metadata


def renumbered_constraints(metadata: Metadata, ids: Mapping[int, int]) -> dict[str, Constraint]:
    """Return the constraints of the same columns under other ids."""
    names = {each.constraint: ids[each.field.id] for each in generated_columns(metadata)}
    return {
        f"{GENERATED_PREFIX}{names[name]}" if name in names else name: replace(
            each, columns=tuple(sorted(ids[i] for i in each.columns))
        )
        for name, each in metadata.constraints.items()
    }


def features_for(
    metadata: Metadata, known: ProtocolFeatures | None = None
) -> ProtocolFeatures | None:
    """Return the features of a table with some metadata; None if `known` has them (VER-4)."""
    known = known or ProtocolFeatures()
    writer = {GENERATED} if generated_columns(metadata) else set[str]()
    writer |= {IDENTITY} if identity_columns(metadata) else set[str]()
    both = {HIDDEN} if metadata.schema.hidden else set[str]()
    both |= {EVOLUTION} if metadata.partitionings else set[str]()
    needed = known.plus(both, writer | both)
    return None if needed == known else needed


def refuse_generated(fields: Iterable[Field], what: str) -> None:
    """Refuse generated columns where existing rows would need values.

    Args:
        fields: columns that are added.
        what: the change, for the message.

    Raises:
        SchemaMismatchError: one is generated.
    """
    for field in fields:
        if field.generated is not None:
            raise SchemaMismatchError(
                f"column {field.name!r} cannot be generated in {what}: existing rows would need "
                "values; create a table with the column, or add a plain column and UPDATE it",
                [field.name],
            )
