"""Rules of new schemas: ids, physical names, reserved names and comments. Pure.

Ids and physical names are each assigned once. Reserved names are refused for new columns and
fields, but read in existing tables. Hidden columns of data files are not table columns; their names
and Parquet ids are reserved. Spec: SCH-2 .. SCH-4, SCH-6, SCH-8, SCH-11, ENT-11, DAT-11
(spec/entry.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.name_matching import folded
from tablefmt.model.partition_transforms import declared
from tablefmt.model.schema import (
    COLUMNS_MAX,
    COMMENT_MAX,
    DEPTH_MAX,
    FILE_LEVELS_MAX,
    ID_MAX,
    NAME_BYTES_MAX,
    Array,
    Field,
    Map,
    Schema,
    Struct,
    Type,
    all_fields,
    file_levels,
    is_variant,
    walk,
)
from tablefmt.printable import is_unicode


def number_fields(fields: Sequence[Field], first: int = 1) -> Schema:
    """Assign ids first, first + 1, … depth first to fields, elements, keys and values.

    Physical names equal the names.

    Raises:
        SchemaMismatchError: SCH-2, SCH-3: empty, doubled or over-long names, too many columns,
            too deep; SCH-5: too deep for a file; SCH-4: no ids are left; SCH-6: a variant as the
            key of a map.
    """
    last = first - 1

    def new_id() -> int:
        nonlocal last
        last += 1
        if last > ID_MAX:
            raise SchemaMismatchError(
                f"the table has used all {ID_MAX} column ids; create a new table"
            )
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
                    "a VARIANT cannot be the key of a map, because it has no equality"
                )
            key_id = new_id()
            key = renumber(kind.key, depth + 1)
            value_id = new_id()
            return Map(key, renumber(kind.value, depth + 1), kind.nullable, key_id, value_id)
        return kind

    check_names(fields)
    numbered = tuple(number(f, 1) for f in fields)
    for field in numbered:
        levels = 1 + file_levels(field.type)
        if levels > FILE_LEVELS_MAX:
            raise SchemaMismatchError(
                f"column {field.name!r} needs {levels} levels in a Parquet file, and libraries "
                f"read at most {FILE_LEVELS_MAX} (rule SCH-5); nest fewer lists and maps",
                [field.name],
            )
    return Schema(numbered, last)


def check_names(fields: Sequence[Field]) -> None:
    """Refuse sibling names that Spark cannot distinguish. Spec: SCH-2.

    Raises:
        SchemaMismatchError: no columns; an empty name, one over 1,024 bytes, or one with a NUL;
            two names that differ only in case, which Spark cannot distinguish.
    """
    if not fields:
        raise SchemaMismatchError("no columns: a table or struct needs at least one column")
    if len(fields) > COLUMNS_MAX:
        raise SchemaMismatchError(
            f"the schema has {len(fields)} columns; a table has at most {COLUMNS_MAX}"
        )
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
        key = folded(field.name)
        twin = seen.get(key)
        seen[key] = field.name
        if twin is not None:
            raise SchemaMismatchError(
                f"columns {twin!r} and {field.name!r} differ only in case, and Spark ignores "
                "case; rename one",
                [twin, field.name],
            )


def is_comment(value: Any) -> bool:
    """Return True if a table may store the value as a comment. Spec: ENT-11."""
    return type(value) is str and 0 < len(value) <= COMMENT_MAX


def checked_comment(given: Any, what: str) -> str | None:
    """Return a comment in its stored form; None for no comment and for empty text.

    Raises:
        SchemaMismatchError: it is not text, or too long.
    """
    if given is None or given == "":
        return None
    if not is_comment(given) or not is_unicode(given):
        raise SchemaMismatchError(
            f"invalid comment of {what}: expected text of at most {COMMENT_MAX} characters, or "
            f"None, got {given!r:.100}"
        )
    return str(given)


def check_comments(schema: Schema) -> None:
    """Refuse invalid comments of columns and of fields inside them. Spec: ENT-11.

    Raises:
        SchemaMismatchError: it names the column.
    """
    for field in all_fields(schema):
        checked_comment(field.comment, f"column {field.name!r:.100}")


OWN_PREFIX = "__tablefmt_"
"""Prefix of hidden columns in data files (DAT-11), and of columns in our Spark plans."""

SPARK_KEEPS = "_tmp_metadata_row_index"
"""Name that Spark's Parquet reader uses for the position of a row."""


def check_new_names(schema: Schema, before: Schema | None = None) -> Schema:
    """Return the schema if it introduces no reserved name.

    Args:
        schema: the new schema of a table.
        before: the current schema; None for a new table. Names that already exist may stay.

    Raises:
        SchemaMismatchError: SCH-11, naming the column or field.
    """
    known = frozenset() if before is None else frozenset(_named(before.fields))
    for siblings in _siblings(schema.fields):
        fresh = [field for field in siblings if (field.id, field.name) not in known]
        for field in fresh:
            _check(field.name, top=siblings is schema.fields)
        if fresh:
            _check_twins(siblings)
    return schema


def _check(name: str, *, top: bool) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise SchemaMismatchError(
            f"the name {name!r} is not Unicode text; give another", [name]
        ) from None
    if "${" in name:
        raise SchemaMismatchError(
            f"the name {name!r} contains ${{…}}, which Spark replaces with a setting "
            "(rule SCH-11); give another",
            [name],
        )
    if top and (folded(name).startswith(OWN_PREFIX) or folded(name) == SPARK_KEEPS):
        owner = "Spark's reader" if folded(name) == SPARK_KEEPS else "tablefmt"
        raise SchemaMismatchError(
            f"{owner} reserves the name {name!r} (rule SCH-11); give another", [name]
        )


def _check_twins(siblings: Sequence[Field]) -> None:
    seen: dict[str, str] = {}
    for field in siblings:
        twin = seen.setdefault("".join(map(_as_java, field.name)), field.name)
        if twin != field.name:
            raise SchemaMismatchError(
                f"Spark cannot tell the names {twin!r} and {field.name!r} apart (rule SCH-11); "
                "give another",
                [twin, field.name],
            )


def _as_java(character: str) -> str:
    """Return a character as Java compares it ignoring case. The dotless and the dotted I both
    become i.
    """
    upper = character.upper()
    lower = (upper if len(upper) == 1 else character).lower()
    return lower[0] if character == "\u0130" else lower


def _siblings(fields: Sequence[Field]) -> Iterator[Sequence[Field]]:
    """Yield the columns, and the fields of every struct in them."""
    yield fields
    for field in fields:
        for kind in walk(field.type):
            if isinstance(kind, Struct):
                yield kind.fields


def _named(fields: Sequence[Field]) -> Iterator[tuple[int, str]]:
    for siblings in _siblings(fields):
        yield from ((field.id, field.name) for field in siblings)


class NewIds:
    """Generator of ids and physical names that were never assigned before."""

    def __init__(self, schema: Schema) -> None:
        self.last = schema.last_id
        self._dropped = {folded(name) for name in schema.dropped}

    def numbered(self, field: Field, siblings: Sequence[Field]) -> Field:
        """Return the field, with new ids for it and all its parts, beside its siblings."""
        whole = number_fields([field], self.last + 1)
        self.last = whole.last_id
        new = whole.fields[0]
        # No file holds a part of a new column, so only the column's own name can collide.
        taken = self._dropped.union(folded(f.physical) for f in siblings)
        name = new.name
        while folded(name) in taken:
            name = f"{name}_{new.id}"
        return replace(new, physical=name)


def dropped_names(schema: Schema, dropped: Collection[Field]) -> tuple[str, ...]:
    """Return the physical names that stay reserved after these fields are dropped. Spec: SCH-8."""
    return tuple(sorted({*schema.dropped, *(f.physical for f in dropped)}))


def checked_schema(schema: Schema, before: Schema) -> Schema:
    """Refuse a schema that readers reject, and new names that SCH-11 reserves.

    Names that `before` has may stay.

    Raises:
        SchemaMismatchError: SCH-2, SCH-11.
    """
    number_fields(schema.fields)
    check_comments(schema)
    check_hidden_names(schema)
    return check_new_names(schema, before)


def check_hidden_names(schema: Schema) -> None:
    """Refuse a hidden partition field with the name of a column, or of another one. Spec: HID-2.

    Raises:
        SchemaMismatchError: HID-2, SCH-2.
    """
    if not schema.hidden:
        return
    taken = {folded(field.name): field.name for field in schema.fields}
    known: dict[str, str] = {}
    for hidden in schema.hidden:
        text = declared(hidden, schema)
        earlier = known.setdefault(folded(hidden.name), text)
        if earlier != text:
            raise SchemaMismatchError(
                f"{earlier} and {text} would both have the partition field {hidden.name!r}; leave "
                "one of them out",
                [hidden.name],
            )
    check_names(schema.hidden)
    for hidden in schema.hidden:
        text = declared(hidden, schema)
        for other in (hidden.name, text):
            name = taken.get(folded(other))
            if name is not None:
                raise SchemaMismatchError(
                    f"column {name!r} has the name of the partition field of {text}; give the "
                    "column another name",
                    [name],
                )


def dropped_roots(fields: Iterable[Field], staying: Collection[int]) -> Iterator[Field]:
    """Yield the fields that are not among `staying`, at any depth, without the fields inside
    them.
    """
    for each in fields:
        if each.id not in staying:
            yield each
        else:
            for inner in _structs(each.type):
                yield from dropped_roots(inner.fields, staying)


def _structs(kind: Type) -> Iterator[Struct]:
    """Yield the structs in a type that are not inside another struct."""
    if isinstance(kind, Struct):
        yield kind
    elif isinstance(kind, Array):
        yield from _structs(kind.element)
    elif isinstance(kind, Map):
        yield from _structs(kind.key)
        yield from _structs(kind.value)


HIDDEN_IDS: Mapping[str, int] = MappingProxyType(
    {
        "__tablefmt_file": 2_147_483_001,
        "__tablefmt_row": 2_147_483_002,
        "__tablefmt_source": 2_147_483_003,
        "__tablefmt_action": 2_147_483_004,
    }
)
"""Parquet ids by name. No schema assigns these ids (SCH-4). No id is used for another name."""

_RESERVED = range(ID_MAX + 1, 2_147_483_448)
"""Ids above this range are reserved by Iceberg."""

assert len(set(HIDDEN_IDS.values())) == len(HIDDEN_IDS)
assert all(identity in _RESERVED for identity in HIDDEN_IDS.values())
assert all(name.startswith(OWN_PREFIX) for name in HIDDEN_IDS)
