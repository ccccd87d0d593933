"""Columns of other writers' Parquet files: their types here, and their names by field. Pure.

Spec: IMP-5, IMP-7, DAT-7, DAT-10, SCH-5, SCH-9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError
from tablefmt.imports.source import refused
from tablefmt.model.arrow_types import FIELD_ID, from_arrow_field, is_list
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import (
    Array,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    all_fields,
    nullable_field,
)
from tablefmt.model.schema_rules import NewIds, checked_schema
from tablefmt.model.type_widening import common_type

_INSTANT = pa.timestamp("us", "UTC")
_INTEGERS = ("byte", "short", "integer", "long")

GREGORIAN_DAYS = -141427
"""First day of the Gregorian calendar, 1582-10-15. Earlier dates of old writers are shifted."""

EXACT_MICROS = -2208988800000000
"""Start of the year 1900. Earlier times of old writers may be shifted by their zone's rules."""


def plain_columns(footer: pq.FileMetaData) -> pa.Schema:
    """Return the columns of a file in types that a table can have.

    INT96 is an instant in µs (DAT-7). Dictionaries, views and large types are plain.

    Raises:
        UnsupportedFeatureError: IMP-7, a type that cannot be read exactly.
    """
    columns = footer.schema.to_arrow_schema()
    physical: dict[str, str] = {}
    if any("[ns" in str(column.type) for column in columns):
        # INT96 and INT64 of ns have one Arrow type.
        for at in range(len(footer.schema)):
            leaf = footer.schema.column(at)
            physical.setdefault(leaf.path.split(".")[0], leaf.physical_type)
            if "timeUnit=nanoseconds" in str(leaf.logical_type):
                raise _type_refused(leaf.path, "timestamp in nanoseconds")
    return pa.schema([c.with_type(_plain(c.type, c.name)) for c in columns])


def _type_refused(column: str, kind: str) -> UnsupportedFeatureError:
    return refused(
        f"the column {column!r:.200} has the type {kind} (rule IMP-7)",
        "import:type",
        advice="Rewrite the column with another type.",
    )


def _plain(kind: pa.DataType, where: str) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type, where)
    if isinstance(kind, pa.BaseExtensionType):
        raise _type_refused(where, str(kind))
    if types.is_fixed_size_binary(kind) or types.is_time(kind) or types.is_duration(kind):
        raise _type_refused(where, str(kind))
    if types.is_timestamp(kind):
        return _INSTANT if kind.unit == "ns" or kind.tz else pa.timestamp("us")
    if types.is_struct(kind):
        names = {f.name for f in kind}
        if "typed_value" in names and "metadata" in names:
            raise _type_refused(where, "shredded variant")
        return pa.struct([f.with_type(_plain(f.type, f"{where}.{f.name}")) for f in kind])
    if types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(
            key.with_type(_plain(key.type, f"{where}.key")),
            item.with_type(_plain(item.type, f"{where}.value")),
        )
    if is_list(kind):
        inner = kind.value_field
        return pa.list_(inner.with_type(_plain(inner.type, f"{where}.element")))
    if types.is_date64(kind):
        return pa.date32()
    return kind


def fields_of(columns: pa.Schema) -> tuple[Field, ...]:
    """Return the columns as nullable fields without ids.

    Raises:
        UnsupportedFeatureError: SCH-5, a type that no table has.
    """
    try:
        return tuple(nullable_field(from_arrow_field(c)) for c in columns)
    except SchemaMismatchError as error:
        raise refused(str(error).rstrip("."), "import:type") from None


def merged(table: Schema, incoming: Sequence[Field], path: str, first: str) -> Schema:
    """Return the columns of the table and of one more file, each in a common type (SCH-9).

    Args:
        table: columns of the files before.
        incoming: columns of the file, without ids.
        path: the file, for messages.
        first: one of the files before.

    Raises:
        SchemaMismatchError: IMP-7, a column has two types without a common one.
    """
    ids = NewIds(table)
    try:
        fields = _merged_fields(table.fields, incoming, ids, "")
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"the source's files have incompatible columns: {str(error).rstrip('.')}, in {path!r} "
            f"and in files before it, such as {first!r} (rule IMP-7). Import them into separate "
            "tables.",
            error.columns,
        ) from None
    if fields == table.fields:
        return table
    return checked_schema(replace(table, fields=fields, last_id=ids.last), table)


def _merged_fields(
    ours: Sequence[Field], theirs: Sequence[Field], ids: NewIds, where: str
) -> tuple[Field, ...]:
    given = {folded(f.name): f for f in theirs}
    if len(given) != len(theirs):
        raise SchemaMismatchError("column names differ only in case", [f.name for f in theirs])
    kept = []
    for field in ours:
        other = given.pop(folded(field.name), None)
        name = f"{where}{field.name}"
        kind = field.type if other is None else _merged_type(field.type, other.type, ids, name)
        kept.append(field if kind is field.type else replace(field, type=kind))
    kept += [ids.numbered(field, kept) for field in theirs if folded(field.name) in given]
    return tuple(kept)


def _merged_type(ours: Type, theirs: Type, ids: NewIds, name: str) -> Type:
    if isinstance(ours, Struct) and isinstance(theirs, Struct):
        return Struct(_merged_fields(ours.fields, theirs.fields, ids, f"{name}."))
    if isinstance(ours, Array) and isinstance(theirs, Array):
        element = _merged_type(ours.element, theirs.element, ids, f"{name}.element")
        return replace(ours, element=element)
    if isinstance(ours, Map) and isinstance(theirs, Map):
        key = _merged_type(ours.key, theirs.key, ids, f"{name}.key")
        value = _merged_type(ours.value, theirs.value, ids, f"{name}.value")
        return replace(ours, key=key, value=value)
    nested = (Struct, Array, Map)
    kind = None
    if not isinstance(ours, nested) and not isinstance(theirs, nested):
        kind = common_type(ours, theirs)
    if kind is None:
        raise SchemaMismatchError(
            f"the column {name!r:.200} has the types {ours!s:.100} and {theirs!s:.100}", [name]
        )
    return ours if kind == ours else kind


@dataclass(frozen=True, slots=True, eq=False)
class NamesInFile:
    """Differences between a file's columns and the table's physical names."""

    names: Mapping[int, str | None]
    """By field id, where they differ. None: the file lacks the column, and has another one of its
    physical name.
    """

    @classmethod
    def by_name(cls, schema: Schema, columns: pa.Schema) -> NamesInFile:
        """Return the names in a file whose columns are found by name, ignoring case."""
        return cls(dict(_by_name(schema.fields, list(columns))))

    @classmethod
    def by_id(
        cls, schema: Schema, columns: pa.Schema, known: Mapping[int, Sequence[str]]
    ) -> NamesInFile:
        """Return the names in a file whose columns are found by field id.

        Args:
            schema: of the table.
            columns: of the file.
            known: names by field id, for a file without field ids.
        """
        return cls(dict(_by_id(schema.fields, list(columns), known, _has_ids(columns))))

    def lack(self, field: Field, columns: pa.Schema) -> bool:
        """Return True if a file with these columns does not have a column of the table."""
        return self.names.get(field.id, field.physical) not in columns.names

    @property
    def key(self) -> tuple[tuple[int, str | None], ...]:
        """Return the names as a value that can be compared."""
        return tuple(sorted(self.names.items()))


def _has_ids(columns: pa.Schema) -> bool:
    return any(FIELD_ID in (column.metadata or {}) for column in columns)


def _by_name(ours: Sequence[Field], theirs: Sequence[pa.Field]) -> Iterator[tuple[int, str | None]]:
    given = {folded(f.name): f for f in theirs}
    for field in ours:
        found = given.get(folded(field.physical))
        if found is None:
            continue
        if found.name != field.physical:
            yield field.id, found.name
        for inner, columns in _inner(field.type, found.type):
            yield from _by_name(inner, columns)


def _by_id(
    ours: Sequence[Field],
    theirs: Sequence[pa.Field],
    known: Mapping[int, Sequence[str]],
    has_ids: bool,
) -> Iterator[tuple[int, str | None]]:
    by_name = {f.name: f for f in theirs}
    if has_ids:
        found = {int((f.metadata or {}).get(FIELD_ID, b"-1")): f for f in theirs}
    else:
        found = {}
        for field in ours:
            there = [name for name in known.get(field.id, ()) if name in by_name]
            if there:
                found[field.id] = by_name[there[0]]
    for field in ours:
        column = found.get(field.id)
        if column is None:
            if field.physical in by_name:
                yield field.id, None
            continue
        if column.name != field.physical:
            yield field.id, column.name
        for inner, columns in _inner(field.type, column.type):
            yield from _by_id(inner, columns, known, has_ids)


def _inner(ours: Type, theirs: pa.DataType) -> Iterator[tuple[Sequence[Field], Sequence[pa.Field]]]:
    """Yield the fields of structs at the same places of two types."""
    if isinstance(ours, Struct) and pa.types.is_struct(theirs):
        yield ours.fields, list(theirs)
    elif isinstance(ours, Array) and is_list(theirs):
        yield from _inner(ours.element, theirs.value_type)
    elif isinstance(ours, Map) and pa.types.is_map(theirs):
        yield from _inner(ours.key, theirs.key_type)
        yield from _inner(ours.value, theirs.item_type)


def unused_names(
    schema: Schema, columns: pa.Schema, names: Mapping[int, str | None]
) -> Iterator[str]:
    """Yield the names of a file's columns, at any depth, that no field of the table reads."""
    yield from _unused(schema.fields, list(columns), names)


def reserved_names(
    schema: Schema, columns: pa.Schema, names: Mapping[int, str | None]
) -> Iterator[str]:
    """Yield the names in a file, at any depth, that no new field of the table may get (SCH-8).

    A new field would read the column of this name.
    """
    yield from unused_names(schema, columns, names)
    physical = {field.id: folded(field.physical) for field in all_fields(schema)}
    for field_id, name in names.items():
        if name is not None and folded(name) != physical[field_id]:
            yield name


def _unused(
    ours: Sequence[Field], theirs: Sequence[pa.Field], names: Mapping[int, str | None]
) -> Iterator[str]:
    given = {f.name: f for f in theirs}
    for field in ours:
        column = given.pop(names.get(field.id, field.physical) or "", None)
        if column is not None and str(field.type) != "variant":
            for inner, columns in _inner(field.type, column.type):
                yield from _unused(inner, columns, names)
    yield from given


def check_fits(schema: Schema, columns: pa.Schema, names: NamesInFile, path: str) -> None:
    """Refuse a file with a column that the table's type cannot hold (IMP-7).

    Raises:
        SchemaMismatchError: the column and both types.
    """
    _check_fits(schema.fields, list(columns), names.names, path, "")


def _check_fits(
    ours: Sequence[Field],
    theirs: Sequence[pa.Field],
    names: Mapping[int, str | None],
    path: str,
    where: str,
) -> None:
    given = {f.name: f for f in theirs}
    for field in ours:
        column = given.get(names.get(field.id, field.physical) or "")
        if column is not None:
            _check_type(field.type, column.type, names, path, f"{where}{field.name}")


def _check_type(
    ours: Type, theirs: pa.DataType, names: Mapping[int, str | None], path: str, name: str
) -> None:
    if ours == Primitive("variant"):
        if pa.types.is_struct(theirs) and {f.name for f in theirs} == {"value", "metadata"}:
            return
    elif isinstance(ours, Struct) and pa.types.is_struct(theirs):
        _check_fits(ours.fields, list(theirs), names, path, f"{name}.")
        return
    elif isinstance(ours, Array) and is_list(theirs):
        return _check_type(ours.element, theirs.value_type, names, path, f"{name}.element")
    elif isinstance(ours, Map) and pa.types.is_map(theirs):
        _check_type(ours.key, theirs.key_type, names, path, f"{name}.key")
        return _check_type(ours.value, theirs.item_type, names, path, f"{name}.value")
    elif not isinstance(ours, Struct | Array | Map):
        (found,) = fields_of(pa.schema([pa.field(name, theirs)]))
        both_whole = str(found.type) in _INTEGERS and str(ours) in _INTEGERS
        if both_whole or common_type(found.type, ours) == ours:
            return
    raise SchemaMismatchError(
        f"the file {path!r:.200} has {str(theirs)[:100]} in the column {name!r:.200}, but the "
        f"source's metadata says {ours!s:.100} (rule IMP-7). The source is damaged.",
        [name],
    )


_VERSION = re.compile(rb"(\d+)\.(\d+)")


def calendar_problem(footer: pq.FileMetaData) -> str | None:
    """Return the reason why dates or times may be of an older calendar; None if they are not.

    Spark before 3.0, and later releases on request, wrote days of the Julian calendar. Values that
    are new enough are the same in both.
    """
    known = footer.metadata or {}
    version = _VERSION.match(known.get(b"org.apache.spark.version", b""))
    release = (int(version[1]), int(version[2])) if version else None
    old = release is not None and release < (3, 0)
    legacy = b"org.apache.spark.legacyDateTime" in known or old
    legacy96 = b"org.apache.spark.legacyINT96" in known or (
        release is not None and release < (3, 1)
    )
    if not legacy and not legacy96:
        return None
    for at in range(len(footer.schema)):
        leaf = footer.schema.column(at)
        kind = str(leaf.logical_type)
        if leaf.physical_type == "INT96" and legacy96:
            return f"the column {leaf.path!r:.200} holds INT96 times in Spark's legacy calendar"
        is_time = kind.startswith("Timestamp")
        if legacy and (is_time or kind.startswith("Date")) and _may_be_old(footer, at, is_time):
            return f"the column {leaf.path!r:.200} may hold dates in Spark's legacy calendar"
    return None


def _may_be_old(footer: pq.FileMetaData, at: int, is_time: bool) -> bool:
    for number in range(footer.num_row_groups):
        chunk = footer.row_group(number).column(at)
        stats = chunk.statistics
        if stats is not None and stats.null_count == chunk.num_values:
            continue
        if stats is None or not stats.has_min_max:
            return True
        least = stats.min_raw
        if not is_time:
            if least < GREGORIAN_DAYS:
                return True
        elif least * (1000 if "milli" in str(footer.schema.column(at)) else 1) < EXACT_MICROS:
            return True
    return False
