"""Columns and their types, with field ids. Pure values.

A field has an `id` that never changes, a `name` for people, and a `physical` name that data files
use. So renames and drops change metadata only. Also here: views of a schema (physical names, NULL
allowed everywhere, no comments), paths of fields inside columns (`column.field`, `list.element`,
`map.value`), and the lengths of CHAR(n) and VARCHAR(n), counted in code points. Spec: SCH-1 ..
SCH-5, SCH-10 (spec/entry.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Union

from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.argument_checks import checked_name
from tablefmt.model.name_matching import folded

COLUMNS_MAX = 10_000
"""Maximum number of top-level columns: every file has statistics per column."""

ID_MAX = 2_147_482_999
"""Highest id of a column. Higher ids belong to hidden columns and to other formats. SCH-4."""

DEPTH_MAX = 64
"""Maximum nesting depth, in a schema given and in a schema read."""

NAME_BYTES_MAX = 1024

FILE_LEVELS_MAX = 100
"""Levels of a Parquet schema that libraries read. Spec: SCH-5."""

COMMENT_MAX = 4000
"""Maximum characters of a comment. Spec: ENT-11."""

PRIMITIVES = (
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "variant",
)
"""Type names of Spark. `timestamp` is an instant (UTC), `timestamp_ntz` a wall-clock time; both in
µs.

A `variant` value carries its own type.
"""

_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of `PRIMITIVES`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exact decimal: 1 <= precision <= 38, 0 <= scale <= precision."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    """List of `element`; `nullable` is True if elements may be null."""

    element: Type
    nullable: bool = True
    element_id: int = 0
    """Id of the element, as a field's id (SCH-4); 0 before it is assigned."""

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Map with keys that are never null; `nullable` is True if values may be null."""

    key: Type
    value: Type
    nullable: bool = True
    key_id: int = 0
    value_id: int = 0
    """Ids of the key and of the value, as a field's id (SCH-4); 0 before they are assigned."""

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return "struct<" + ",".join(f"{f.name}:{f.type}" for f in self.fields) + ">"


Type = Union[Primitive, Decimal, Array, Map, Struct]  # noqa: UP007 - evaluated at run time in 3.10


@dataclass(frozen=True, slots=True)
class Identity:
    """Values that a table gives to an identity column: start, start + step, and so on. IDN-1."""

    always: bool = True
    """False if rows may bring their own values."""
    start: int = 1
    step: int = 1


@dataclass(frozen=True, slots=True)
class Transform:
    """Function of a column whose values partition a table. HID-1."""

    kind: str
    """Name in `partition_transforms.TRANSFORMS`."""
    source: int
    """Id of the column."""
    number: int = 0
    """Buckets, or the width; 0 without one."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column, or one field of a struct."""

    id: int
    """Field id: positive, unique in the schema, never reused. Also the Parquet field id."""
    name: str
    """Name that people write. Unique among its siblings, ignoring case."""
    physical: str
    """Name in data files. Fixed when the field is created."""
    type: Type
    nullable: bool = True
    default: Any = None
    """Value of a row that is written without the column, in the form of VAL-1; None is NULL.
    SCH-7.
    """
    initial: Any = None
    """Value of all rows of a file that lacks the column, in the form of VAL-1; None is NULL.
    SCH-7.
    """
    text: str | None = None
    """`char(n)` or `varchar(n)` for a top-level string of a declared length. SCH-10."""
    comment: str | None = None
    """Description for people; None for no description. ENT-11."""
    generated: str | None = None
    """Expression of a generated column, in a schema that a caller gives. The metadata of a table
    has it as a constraint. GEN-1.
    """
    identity: Identity | None = None
    """Identity of the column, in a schema that a caller gives. The metadata of a table has it as a
    property. IDN-1.
    """
    transform: Transform | None = None
    """Function whose value a hidden partition field is; None for a column. HID-1."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns of a table in order. `last_id` is the highest field id ever assigned."""

    fields: tuple[Field, ...]
    last_id: int
    dropped: tuple[str, ...] = ()
    """Physical names of dropped fields, at any depth, sorted: never assigned again (SCH-8)."""
    hidden: tuple[Field, ...] = ()
    """Hidden partition fields, by id. They are no columns: only entries have their values. HID-1.
    """

    @property
    def names(self) -> list[str]:
        """Return the logical column names in order."""
        return [f.name for f in self.fields]

    def find(self, name: str) -> Field | None:
        """Return the column of that name: the exact match, else the one that differs only in
        case.
        """
        wanted = folded(name)
        return next((f for f in self.fields if folded(f.name) == wanted), None)

    @property
    def with_hidden(self) -> tuple[Field, ...]:
        """Return the columns, and then the hidden partition fields."""
        return self.fields + self.hidden

    def by_id(self, field_id: int) -> Field:
        """Return the top-level column or hidden partition field with that id. Raises KeyError if
        there is none.
        """
        for field in self.with_hidden:
            if field.id == field_id:
                return field
        raise KeyError(field_id)


def with_hidden_columns(schema: Schema) -> Schema:
    """Return the schema of conditions that name hidden partition fields like columns (HID-4)."""
    return replace(schema, fields=schema.with_hidden, hidden=())


def walk(kind: Type) -> Iterator[Type]:
    """Yield every type in `kind`, itself first."""
    yield kind
    if isinstance(kind, Struct):
        for field in kind.fields:
            yield from walk(field.type)
    elif isinstance(kind, Array):
        yield from walk(kind.element)
    elif isinstance(kind, Map):
        yield from walk(kind.key)
        yield from walk(kind.value)


def file_levels(kind: Type) -> int:
    """Return the number of levels of a type in the schema of a Parquet file. Spec: DAT-15."""
    if isinstance(kind, Struct):
        return 1 + max(file_levels(field.type) for field in kind.fields)
    if isinstance(kind, Array):
        return 2 + file_levels(kind.element)
    if isinstance(kind, Map):
        return 2 + max(file_levels(kind.key), file_levels(kind.value))
    return 2 if is_variant(kind) else 1


def kind_name(kind: Type) -> str:
    """Return `decimal` for decimals, else the type's name."""
    return "decimal" if isinstance(kind, Decimal) else str(kind)


_WITH_PARTS = (Struct, Array, Map)


def is_nested(kind: Type) -> bool:
    """Return True if values have parts. Such columns have no bounds and cannot partition a
    table.
    """
    return isinstance(kind, _WITH_PARTS) or is_variant(kind)


def is_variant(kind: Type) -> bool:
    """Return True if every value has its own type. Spec: SCH-6."""
    return isinstance(kind, Primitive) and kind.name == "variant"


def is_float(kind: Type) -> bool:
    """Return True if values may be NaN."""
    return isinstance(kind, Primitive) and kind.name in ("float", "double")


def primitive(name: str) -> Primitive | Decimal:
    """Return the type of that name, decimals included. Raises KeyError if there is none."""
    if name in PRIMITIVES:
        return Primitive(name)
    match = _DECIMAL.fullmatch(name)
    if match:
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            return Decimal(precision, scale)
    raise KeyError(name)


def is_type_name(name: str) -> bool:
    """Return True for the name of a type, or a decimal of any digits. Spec: SCH-1."""
    return name in PRIMITIVES or name.startswith("decimal(")


def all_fields(schema: Schema) -> list[Field]:
    """Return every field at every depth, depth first."""
    fields: list[Field] = []
    for top in schema.fields:
        fields.append(top)
        for kind in walk(top.type):
            if isinstance(kind, Struct):
                fields.extend(kind.fields)
    return fields


def all_ids(schema: Schema) -> Iterator[int]:
    """Yield the id of every field, element, key and value at every depth, depth first. Spec:
    SCH-4.
    """
    for top in schema.fields:
        yield top.id
        for kind in walk(top.type):
            if isinstance(kind, Struct):
                yield from (field.id for field in kind.fields)
            elif isinstance(kind, Array):
                yield kind.element_id
            elif isinstance(kind, Map):
                yield kind.key_id
                yield kind.value_id
    yield from (field.id for field in schema.hidden)


def id_types(schema: Schema) -> dict[int, Type]:
    """Return the type of every field, element, key and value by its id. Spec: SCH-4."""
    types: dict[int, Type] = {}
    for top in schema.fields:
        types[top.id] = top.type
        for kind in walk(top.type):
            if isinstance(kind, Struct):
                types |= {field.id: field.type for field in kind.fields}
            elif isinstance(kind, Array):
                types[kind.element_id] = kind.element
            elif isinstance(kind, Map):
                types |= {kind.key_id: kind.key, kind.value_id: kind.value}
    return types


def id_places(schema: Schema) -> dict[int, tuple[int, str]]:
    """Return, for every id, the id of its parent and its role there. Spec: SCH-4.

    The parent is 0 for the schema. The role is "field", "element", "key" or "value".
    """
    places: dict[int, tuple[int, str]] = {}

    def enter(kind: Type, parent: int) -> None:
        if isinstance(kind, Struct):
            enter_fields(kind.fields, parent)
        elif isinstance(kind, Array):
            places[kind.element_id] = (parent, "element")
            enter(kind.element, kind.element_id)
        elif isinstance(kind, Map):
            places[kind.key_id], places[kind.value_id] = (parent, "key"), (parent, "value")
            enter(kind.key, kind.key_id)
            enter(kind.value, kind.value_id)

    def enter_fields(fields: tuple[Field, ...], parent: int) -> None:
        for field in fields:
            places[field.id] = (parent, "field")
            enter(field.type, field.id)

    enter_fields(schema.fields, 0)
    for field in schema.hidden:
        assert field.transform is not None
        # A hidden partition field is what it is computed from.
        role = f"{field.transform.kind} {field.transform.number} #{field.id}"
        places[field.id] = (field.transform.source, role)
    return places


def physical(schema: Schema) -> Schema:
    """Return the schema with physical names as names, at every level."""
    return replace(schema, fields=tuple(map(physical_field, schema.fields)))


def physical_field(field: Field) -> Field:
    """Return the field with physical names as names, at every level."""
    return replace(field, name=field.physical, type=_each(field.type, physical_field, keep=True))


def renamed_field(field: Field, physical: Callable[[Field], str]) -> Field:
    """Return the field with its physical name as name, and another physical name, at every level.

    Args:
        field: the field.
        physical: returns the new physical name of a field.
    """
    inner = _each(field.type, lambda one: renamed_field(one, physical), keep=True)
    return replace(field, name=field.physical, physical=physical(field), type=inner)


def nullable(schema: Schema) -> Schema:
    """Return the schema with NULL allowed in every field, element and map value."""
    return replace(schema, fields=tuple(map(nullable_field, schema.fields)))


def nullable_field(field: Field) -> Field:
    """Return the field with NULL allowed in it and in every part of it."""
    return replace(field, nullable=True, type=_each(field.type, nullable_field, keep=False))


def without_comments(schema: Schema) -> Schema:
    """Return the schema without comments."""
    return replace(schema, fields=tuple(map(_uncommented, schema.fields)))


def _uncommented(field: Field) -> Field:
    return replace(field, comment=None, type=_each(field.type, _uncommented, keep=True))


def _each(kind: Type, change: Callable[[Field], Field], *, keep: bool) -> Type:
    """Return `kind` with every field in it changed.

    With `keep`, elements and values keep their nullability. Otherwise they become nullable.
    """
    if isinstance(kind, Struct):
        return Struct(tuple(map(change, kind.fields)))
    if isinstance(kind, Array):
        element = _each(kind.element, change, keep=keep)
        return replace(kind, element=element, nullable=kind.nullable or not keep)
    if isinstance(kind, Map):
        key, value = (_each(inner, change, keep=keep) for inner in (kind.key, kind.value))
        return replace(kind, key=key, value=value, nullable=kind.nullable or not keep)
    return kind


def same_type(one: Type, other: Type) -> bool:
    """Return True if the types are equal in names, order and nullability. Ids are ignored."""
    if isinstance(one, Struct) and isinstance(other, Struct):
        return len(one.fields) == len(other.fields) and all(
            a.name == b.name and a.nullable == b.nullable and same_type(a.type, b.type)
            for a, b in zip(one.fields, other.fields, strict=True)
        )
    if isinstance(one, Array) and isinstance(other, Array):
        return one.nullable == other.nullable and same_type(one.element, other.element)
    if isinstance(one, Map) and isinstance(other, Map):
        return (
            one.nullable == other.nullable
            and same_type(one.key, other.key)
            and same_type(one.value, other.value)
        )
    return one == other


_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def path_of(schema: Schema, name: str, *, new: bool = False) -> tuple[str, ...]:
    """Return the names along a dotted path.

    A column with the whole text as its name comes first. Otherwise dots separate names, and
    backticks enclose a name. A backtick inside them is doubled. With `new`, a text that
    is not a path, and has no opening backtick, is one name as a whole.

    Raises:
        SchemaMismatchError: it is not a path; with `new`, its first part is not a column.
    """
    name = checked_name(name)
    if schema.find(name) is not None or not ("." in name or "`" in name):
        return (name,)
    parts = parts_of(name)
    if not parts:
        if ".`" in f".{name}":
            raise SchemaMismatchError(
                f"{name!r:.200} is not a column name: backticks enclose a name, and a backtick in "
                "a name is doubled inside them, as in '`a``b`'",
                [name],
            )
        if new or "." not in name:
            return (name,)
        raise SchemaMismatchError(
            f"{name!r:.200} is not a path of a field; expected names separated by dots", [name]
        )
    if new and len(parts) > 1 and schema.find(parts[0]) is None:
        # A typo in the first name must not create a column with a dot in its name.
        raise SchemaMismatchError(
            f"there is no column {parts[0]!r:.200} to hold the field {name!r:.200}; for a "
            "column with a dot in its name, enclose it in backticks",
            [name],
        )
    return parts


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a path without reference to a schema; empty if it is not a path."""
    return tuple(_parts(name))


def _parts(name: str) -> Iterator[str]:
    parts, at = [], 0
    while True:
        match = _PART.match(name, at)
        if match is None:
            return
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        at = match.end()
        if at == len(name):
            yield from parts
            return
        if name[at] != ".":
            return
        at += 1


LENGTH_MAX = (1 << 31) - 1
"""Maximum n."""

SHOWN = 100
"""Maximum characters of a value in an error."""

_LENGTH = re.compile(r"(var)?char\(([1-9][0-9]{0,9})\)")


def length_of(text: str) -> tuple[bool, int]:
    """Return whether values are padded, and their maximum number of characters.

    Args:
        text: `char(n)` or `varchar(n)`, with n from 1 to `LENGTH_MAX`.

    Raises:
        ValueError: it is neither.
    """
    match = _LENGTH.fullmatch(text)
    if match is None or int(match[2]) > LENGTH_MAX:
        raise ValueError(f"{text!r:.100} is neither char(n) nor varchar(n)")
    return match[1] is None, int(match[2])


def is_length(value: Any) -> bool:
    """Return True if `length_of` accepts the value."""
    try:
        return isinstance(value, str) and bool(length_of(value))
    except ValueError:
        return False


def fits_within(old: str | None, new: str | None) -> bool:
    """Return True if every stored value of `old` is also a stored value of `new`; None: STRING."""
    if old == new or new is None:
        return True
    if old is None:
        return False
    padded, most = length_of(new)
    return not padded and length_of(old)[1] <= most


def fitted_text(value: str, text: str) -> str | None:
    """Return the value as a column of that length stores it; None if it is too long."""
    padded, most = length_of(text)
    if len(value) > most:
        return value[:most] if len(value.rstrip(" ")) <= most else None
    return value.ljust(most) if padded else value


def fitted_default(value: Any, text: str | None, name: str) -> Any:
    """Return a default of VAL-1 as the column stores it. Raises SchemaMismatchError if it is too
    long.
    """
    if value is None or text is None:
        return value
    fitted = fitted_text(value, text)
    if fitted is None:
        raise SchemaMismatchError(
            f"{value!r:.{SHOWN}} cannot be the default of column {name!r} ({text.upper()}): it has "
            f"{len(value)} characters",
            [name],
        )
    return fitted


def too_long(name: str, text: str, characters: int, value: str) -> ConstraintViolationError:
    """Return the error for a value that is too long; `value` may be cut."""
    return ConstraintViolationError(
        f"column {name!r} is {text.upper()}, and a value has {characters} characters: "
        f"{value!r:.{SHOWN}}; nothing was written",
        row={name: value},
    )
