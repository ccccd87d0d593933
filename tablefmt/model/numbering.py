"""Assignment and checks of ids, names and comments of new schemas. Pure.

Spec: SCH-2 .. SCH-4, SCH-6, ENT-11 (spec/entry.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.case_folding import folded
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


def is_unicode(text: str) -> bool:
    """Return True if the text can be encoded as UTF-8, that is, without unpaired surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_comments(schema: Schema) -> None:
    """Refuse invalid comments of columns and of fields inside them. Spec: ENT-11.

    Raises:
        SchemaMismatchError: it names the column.
    """
    for field in all_fields(schema):
        checked_comment(field.comment, f"column {field.name!r:.100}")
