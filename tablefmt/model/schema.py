"""Columns and their types, with field ids. Pure values.

A field has an `id` that never changes, a `name` for people, and a `physical` name that data files
use. Renaming and dropping are metadata only because of that. Spec: SCH-1 .. SCH-5 (spec/entry.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from tablefmt.errors import CorruptEntryError, SchemaMismatchError
from tablefmt.model.text_lengths import is_length

COLUMNS_MAX = 10_000
"""More top-level columns than this are refused: every file carries statistics a column."""

ID_MAX = 2_147_482_999
"""The highest id of a column: those above are of hidden columns, and of other formats. SCH-4."""

DEPTH_MAX = 64
"""Nesting beyond this is refused, in a schema given and in a schema read."""

NAME_BYTES_MAX = 1024

COMMENT_MAX = 4000
"""Characters of a comment. Spec: ENT-11."""

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
"""Spark's names. `timestamp` is an instant (UTC), `timestamp_ntz` a wall-clock time; both in µs.
`variant` is a value that says itself of what type it is.
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
    """A list of `element`; `nullable` says whether elements may be null."""

    element: Type
    nullable: bool = True
    element_id: int = 0
    """As the id of a field (SCH-4); 0 where none was given out yet."""

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Keys are never null; `nullable` says whether values may be."""

    key: Type
    value: Type
    nullable: bool = True
    key_id: int = 0
    value_id: int = 0
    """As the id of a field (SCH-4); 0 where none was given out yet."""

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
class Field:
    """One column, or one field of a struct."""

    id: int
    """Positive, unique in the schema, never used again. Also the Parquet field id."""
    name: str
    """What people write. Unique among its siblings, case ignored."""
    physical: str
    """The name in data files. Fixed when the field is made."""
    type: Type
    nullable: bool = True
    default: Any = None
    """The value of a row that is written without the column, as of VAL-1; None is NULL. SCH-7."""
    initial: Any = None
    """The value of all rows of a file that lacks the column, as of VAL-1; None is NULL. SCH-7."""
    text: str | None = None
    """`char(n)` or `varchar(n)` for a top-level string of a declared length. SCH-10."""
    comment: str | None = None
    """What people say of it; None for nothing. ENT-11."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table in order. `last_id` is the highest field id ever given out."""

    fields: tuple[Field, ...]
    last_id: int
    dropped: tuple[str, ...] = ()
    """Physical names of fields there were once, at any depth, sorted: never used again (SCH-8)."""

    @property
    def names(self) -> list[str]:
        """Logical column names in order."""
        return [f.name for f in self.fields]

    def find(self, name: str) -> Field | None:
        """The column of that name: the exact one, else the one that differs by case alone."""
        folded = name.casefold()
        return next((f for f in self.fields if f.name.casefold() == folded), None)

    def by_id(self, field_id: int) -> Field:
        """The top-level column with that id. KeyError if there is none."""
        for field in self.fields:
            if field.id == field_id:
                return field
        raise KeyError(field_id)


def number_fields(fields: Sequence[Field], first: int = 1) -> Schema:
    """Give ids first, first + 1, … depth first to fields, elements, keys and values, and physical
    names as the names are.

    Raises:
        SchemaMismatchError: SCH-2, SCH-3: empty, doubled or over-long names, too many columns,
            too deep; SCH-4: no ids are left; SCH-6: a variant as the key of a map.
    """
    last = first - 1

    def new_id() -> int:
        nonlocal last
        last += 1
        if last > ID_MAX:
            raise SchemaMismatchError("the table has given out all ids of columns that there are")
        return last

    def number(field: Field, depth: int) -> Field:
        own = new_id()
        return replace(field, id=own, physical=field.name, type=renumber(field.type, depth))

    def renumber(kind: Type, depth: int) -> Type:
        if depth > DEPTH_MAX:
            raise SchemaMismatchError(f"the schema nests deeper than {DEPTH_MAX} levels")
        if isinstance(kind, Struct):
            check_names(kind.fields)
            return Struct(tuple(number(f, depth + 1) for f in kind.fields))
        if isinstance(kind, Array):
            own = new_id()
            return Array(renumber(kind.element, depth + 1), kind.nullable, own)
        if isinstance(kind, Map):
            if any(map(is_variant, walk(kind.key))):
                raise SchemaMismatchError(
                    "a VARIANT cannot be the key of a map: it has no equality"
                )
            key_id = new_id()
            key = renumber(kind.key, depth + 1)
            value_id = new_id()
            return Map(key, renumber(kind.value, depth + 1), kind.nullable, key_id, value_id)
        return kind

    check_names(fields)
    numbered = tuple(number(f, 1) for f in fields)
    return Schema(numbered, last)


def check_names(fields: Sequence[Field]) -> None:
    """Refuse sibling names that cannot be told apart. Spec: SCH-2.

    Raises:
        SchemaMismatchError: no columns, an empty name, one over 1,024 bytes or with a NUL, or two
            that differ by case alone (Spark could not tell them apart).
    """
    if not fields:
        raise SchemaMismatchError("a table, and a struct, needs at least one column")
    if len(fields) > COLUMNS_MAX:
        raise SchemaMismatchError(f"{len(fields)} columns; at most {COLUMNS_MAX} are allowed")
    seen: dict[str, str] = {}
    for field in fields:
        if not field.name or "\0" in field.name:
            raise SchemaMismatchError(
                f"column name {field.name!r} is empty or holds a NUL; give it a name",
                [field.name],
            )
        if len(field.name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
            raise SchemaMismatchError(
                f"column name {field.name[:40]!r}… is longer than {NAME_BYTES_MAX} bytes",
                [field.name],
            )
        folded = field.name.casefold()
        twin = seen.get(folded)
        seen[folded] = field.name
        if twin is not None:
            raise SchemaMismatchError(
                f"columns {twin!r} and {field.name!r} differ by case alone, and Spark ignores "
                "case; rename one",
                [twin, field.name],
            )


def is_comment(value: Any) -> bool:
    """Whether it is text that a table may keep as a comment. Spec: ENT-11."""
    return type(value) is str and 0 < len(value) <= COMMENT_MAX


def checked_comment(given: Any, what: str) -> str | None:
    """A comment as it is kept; None for none, and for text that is empty.

    Raises:
        SchemaMismatchError: it is no text, or too long.
    """
    if given is None or given == "":
        return None
    if not is_comment(given) or not _is_unicode(given):
        raise SchemaMismatchError(
            f"the comment of {what} is {given!r:.100}; give text of at most {COMMENT_MAX} "
            "characters, or None"
        )
    return str(given)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def walk(kind: Type) -> Iterator[Type]:
    """Every type in `kind`, itself first."""
    yield kind
    if isinstance(kind, Struct):
        for field in kind.fields:
            yield from walk(field.type)
    elif isinstance(kind, Array):
        yield from walk(kind.element)
    elif isinstance(kind, Map):
        yield from walk(kind.key)
        yield from walk(kind.value)


def kind_name(kind: Type) -> str:
    """`decimal` for decimals, else the type's name."""
    return "decimal" if isinstance(kind, Decimal) else str(kind)


def is_nested(kind: Type) -> bool:
    """Whether values have parts. Such columns have no bounds and cannot partition."""
    return isinstance(kind, Struct | Array | Map) or is_variant(kind)


def is_variant(kind: Type) -> bool:
    """Whether every value has a type of its own. Spec: SCH-6."""
    return isinstance(kind, Primitive) and kind.name == "variant"


def is_float(kind: Type) -> bool:
    """Whether values may be NaN."""
    return isinstance(kind, Primitive) and kind.name in ("float", "double")


def primitive(name: str) -> Primitive | Decimal:
    """The type of that name, decimals included. KeyError if there is none."""
    if name in PRIMITIVES:
        return Primitive(name)
    match = _DECIMAL.fullmatch(name)
    if match:
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            return Decimal(precision, scale)
    raise KeyError(name)


def is_type_name(name: str) -> bool:
    """Whether it is the name of a type, or a decimal of whatever digits. Spec: SCH-1."""
    return name in PRIMITIVES or name.startswith("decimal(")


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """The JSON form in an entry. Spec: SCH-1."""
    document = {"fields": [_field_to_json(f) for f in schema.fields], "last_id": schema.last_id}
    return document | ({"dropped": list(schema.dropped)} if schema.dropped else {})


def _field_to_json(field: Field) -> dict[str, Any]:
    values = {name: getattr(field, name) for name in ("default", "initial", "text", "comment")}
    return {
        "id": field.id,
        "name": field.name,
        "nullable": field.nullable,
        "physical": field.physical,
        "type": type_to_json(field.type),
    } | {name: value for name, value in values.items() if value is not None}


def type_to_json(kind: Type) -> Any:
    """`"long"`, `{"array": …}`, `{"map": [k, v]}` or `{"struct": [field, …]}`. Spec: SCH-1."""
    if isinstance(kind, Struct):
        return {"struct": [_field_to_json(f) for f in kind.fields]}
    if isinstance(kind, Array):
        return {
            "array": type_to_json(kind.element),
            "element_id": kind.element_id,
            "nullable": kind.nullable,
        }
    if isinstance(kind, Map):
        return {
            "key_id": kind.key_id,
            "map": [type_to_json(kind.key), type_to_json(kind.value)],
            "nullable": kind.nullable,
            "value_id": kind.value_id,
        }
    return str(kind)


def schema_from_json(value: Any) -> Schema:
    """The reverse of `schema_to_json`, strict.

    Raises:
        CorruptEntryError: SCH-1 .. SCH-4, anything that is not a schema.
    """
    try:
        fields = tuple(_field_from_json(f, 1) for f in value["fields"])
        last_id = value["last_id"]
        if type(last_id) is not int:
            raise TypeError("last_id is not an integer")
        dropped = _dropped_from_json(value)
        check_names(fields)
    except (KeyError, TypeError, ValueError, AttributeError, SchemaMismatchError) as error:
        raise CorruptEntryError(f"not a schema: {error}", rule="SCH-1") from None
    schema = Schema(fields, last_id, dropped)
    ids = list(all_ids(schema))
    if len(set(ids)) != len(ids) or any(not 0 < i <= last_id for i in ids):
        raise CorruptEntryError("field ids are doubled or above last_id", rule="SCH-4")
    if last_id > ID_MAX:
        raise CorruptEntryError(f"last_id is above {ID_MAX}", rule="SCH-4")
    return schema


def _dropped_from_json(value: Mapping[str, Any]) -> tuple[str, ...]:
    names = value.get("dropped")
    if names is None and "dropped" not in value:
        return ()
    if type(names) is not list or not names or any(type(n) is not str for n in names):
        raise TypeError("dropped is not a list of names")
    if sorted(set(names)) != names:
        raise TypeError("dropped is not sorted, or holds a name twice")
    return tuple(names)


def all_fields(schema: Schema) -> list[Field]:
    """Every field at every depth, depth first."""
    found: list[Field] = []
    for top in schema.fields:
        found.append(top)
        for kind in walk(top.type):
            if isinstance(kind, Struct):
                found.extend(kind.fields)
    return found


def all_ids(schema: Schema) -> Iterator[int]:
    """The id of every field, element, key and value at every depth, depth first. Spec: SCH-4."""
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


def check_comments(schema: Schema) -> None:
    """Refuse comments of columns, and of fields inside them, that are none. Spec: ENT-11.

    Raises:
        SchemaMismatchError: it names the column.
    """
    for field in all_fields(schema):
        checked_comment(field.comment, f"column {field.name!r:.100}")


def _field_from_json(value: Mapping[str, Any], depth: int) -> Field:
    identity, name, physical = value["id"], value["name"], value["physical"]
    nullable = value["nullable"]
    if type(identity) is not int or type(name) is not str or type(physical) is not str:
        raise TypeError("a field's id, name or physical name has the wrong type")
    if type(nullable) is not bool:
        raise TypeError("a field's nullable is not a boolean")
    kind = _type_from_json(value["type"], depth)
    values = [value.get(key) for key in ("default", "initial")]
    for key, found in zip(("default", "initial"), values, strict=True):
        if key in value and type(found) not in (bool, int, float, str):
            raise TypeError(f"a field's {key} is no value")
        if key in value and depth > 1:
            raise TypeError(f"a field inside a column has a {key}")
    text = value.get("text")
    if "text" in value and (depth > 1 or kind != Primitive("string") or not is_length(text)):
        raise TypeError("a field's text is no length, or it is no column of strings")
    comment = value.get("comment")
    if "comment" in value and not is_comment(comment):
        raise CorruptEntryError(f"field {name!r:.100} has a comment that is none", rule="ENT-11")
    default, initial = values
    return Field(identity, name, physical, kind, nullable, default, initial, text, comment)


def _type_from_json(value: Any, depth: int) -> Type:
    if depth > DEPTH_MAX:
        raise TypeError(f"types nest deeper than {DEPTH_MAX} levels")
    if isinstance(value, str):
        return primitive(value)
    if "struct" in value:
        fields = tuple(_field_from_json(f, depth + 1) for f in value["struct"])
        check_names(fields)
        return Struct(fields)
    if type(value["nullable"]) is not bool:
        raise TypeError("nullable is not a boolean")
    if "array" in value:
        element = _type_from_json(value["array"], depth + 1)
        return Array(element, value["nullable"], _id_from_json(value, "element_id"))
    key, item = (_type_from_json(inner, depth + 1) for inner in value["map"])
    ids = (_id_from_json(value, name) for name in ("key_id", "value_id"))
    return Map(key, item, value["nullable"], *ids)


def _id_from_json(value: Mapping[str, Any], name: str) -> int:
    if type(value[name]) is not int:
        raise TypeError(f"{name} is not an integer")
    return int(value[name])
