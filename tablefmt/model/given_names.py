"""Reserved names, refused for new columns and fields but read in existing tables. Spec: SCH-11.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.case_folding import folded
from tablefmt.model.schema import Field, Schema, Struct, walk

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
