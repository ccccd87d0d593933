"""Partition values of folders and of other formats' metadata, which are text. Pure. Spec: IMP-5."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import SchemaMismatchError
from tablefmt.imports.source import refused
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.scalar_values import encode
from tablefmt.model.schema import Primitive, Type, is_float

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""Text of NULL in the name of a folder."""

_WHOLE = re.compile("-?[0-9]{1,18}")
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def folder_values(paths: Sequence[str]) -> tuple[list[str], dict[str, list[str | None]]]:
    """Return the partition columns in the names of folders, and their values in each file.

    Args:
        paths: relative to the source's folder.

    Raises:
        UnsupportedFeatureError: IMP-7, a path has a partition twice, or paths have other ones.
    """
    names: list[str] | None = None
    columns: dict[str, list[str | None]] = {}
    known: dict[str, tuple[list[str], list[str | None]]] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        if folder not in known:
            parts = [p.partition("=") for p in folder.split("/") if "=" in p and p[0] != "="]
            found = [_decoded(key, path) for key, _, _ in parts]
            values = [None if v == NULL_FOLDER else _decoded(v, path) for _, _, v in parts]
            if len(set(found)) != len(found):
                raise refused(
                    f"the path {path!r:.300} has two values for one partition column (rule IMP-7)",
                    "import:partitions",
                )
            known[folder] = (found, values)
        found, values = known[folder]
        if names is None:
            names, columns = found, {name: [] for name in found}
        if found != names:
            raise refused(
                f"the path {path!r:.300} has the partition columns {found}, but other files have "
                f"{names} (rule IMP-7)",
                "import:partitions",
                advice="Import one of the folders alone.",
            )
        for name, value in zip(found, values, strict=True):
            columns[name].append(value)
    return names or [], columns


def _decoded(text: str, path: str) -> str:
    """Return a name or a value without percent encoding."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise refused(
            f"the path {path!r:.300} has a partition value that is not UTF-8 (rule IMP-7)",
            "import:partitions",
        ) from None


def typed_partitions(
    names: Sequence[str],
    texts: Mapping[str, Sequence[str | None]],
    given: Mapping[str, Type],
) -> list[tuple[str, Type, list[Any]]]:
    """Return name, type and encoded values of partition columns.

    Without a given type, all values are whole numbers, or all are dates, or the column is text.
    """
    typed = []
    for name in names:
        kind = given.get(name) or guessed_type(texts[name])
        typed.append((name, kind, encoded(texts[name], kind, name)))
    return typed


def guessed_type(texts: Sequence[str | None]) -> Type:
    """Return the type of a partition column: long, date or string."""
    there = {text for text in texts if text is not None}
    if there and all(_WHOLE.fullmatch(text) for text in there):
        return Primitive("long")
    if there and all(_DATE.fullmatch(text) for text in there):
        try:
            pa.array(there, pa.string()).cast(pa.date32())
            return Primitive("date")
        except pa.ArrowInvalid:  # such as February 30
            pass
    return Primitive("string")


def encoded(texts: Sequence[str | None], kind: Type, name: str) -> list[Any]:
    """Return texts as values of a type, in the form of the log (VAL-1).

    Raises:
        SchemaMismatchError: a text is no value of the type.
    """
    if str(kind) == "string":
        return list(texts)
    distinct = pa.array(texts, pa.string()).dictionary_encode()
    words = [None if text == "" else text for text in distinct.dictionary.to_pylist()]
    try:
        values = encode(_parsed(words, kind), kind)
    except (pa.ArrowException, ValueError) as error:
        first = str(error).splitlines()[0]
        raise SchemaMismatchError(
            f"a value of the partition column {name!r} is not of type {kind}: {first:.200}", [name]
        ) from None
    return [None if code is None else values[code] for code in distinct.indices.to_pylist()]


_STAMP_ZONE = re.compile(r"(?:[Zz]|[+-]\d\d:?\d\d)$")


def _parsed(words: Sequence[str | None], kind: Type) -> pa.Array:
    name, target = str(kind), arrow_type(kind)
    if name == "binary":
        return pa.array([None if w is None else w.encode() for w in words], target)
    if name in ("timestamp", "timestamp_ntz"):
        plain = [None if w is None else _STAMP_ZONE.sub("", w.replace("T", " ")) for w in words]
        if any(w is not None and _STAMP_ZONE.search(w[10:]) and w[-1] not in "Zz" for w in words):
            raise ValueError("a time with an offset")
        return pa.array(plain, pa.string()).cast(pa.timestamp("us")).cast(target)
    if name.startswith("decimal"):
        import decimal

        return pa.array([None if w is None else decimal.Decimal(w) for w in words], target)
    values = pa.array(words, pa.string()).cast(target)
    # VAL-2: zero has no sign. Adding zero removes it.
    return pc.add(values, pa.scalar(0, target)) if is_float(kind) else values
