"""Query that reads live files with DuckDB's own reader, and DuckDB's syntax for it. Pure.

Every name and value from a log or a user enters a query through the functions for names, texts,
types and constants only. Columns are read by their physical names; a column that a file lacks is a
constant. Files with deleted rows are joined with a bitmap of these rows, one row for each file.
Other files have no extra cost. Spec: DAT-4, DAT-8, DAT-12, DEL-4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.data.file_verification import AlikeFiles, sorted_out
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.duckdb_types import WITHOUT_ZONES
from tablefmt.expressions.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.positions import live_mask
from tablefmt.model.schema import (
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    Type,
    is_float,
    is_variant,
    physical_field,
)

_NAMES = {
    **WITHOUT_ZONES,
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "variant": 'STRUCT("value" BLOB, "metadata" BLOB)',
}


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Quote a string."""
    if "\0" in value:
        return f"decode(from_hex('{value.encode().hex()}'))"
    return "'" + value.replace("'", "''") + "'"


def type_text(kind: Type) -> str:
    """Return the SQL of a type, with struct fields by their physical names, as files have them."""
    if isinstance(kind, Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, Array):
        return f"{type_text(kind.element)}[]"
    if isinstance(kind, Map):
        return f"MAP({type_text(kind.key)}, {type_text(kind.value)})"
    if isinstance(kind, Struct):
        return "STRUCT(" + ", ".join(map(_member, kind.fields)) + ")"
    return _NAMES[kind.name]


def _member(field: Field) -> str:
    return f"{quoted(field.physical)} {type_text(field.type)}"


def constant(value: pa.Scalar, kind: Type) -> str:
    """Return the SQL of a value of a flat type, or NULL."""
    target = type_text(kind)
    if not value.is_valid:
        return f"CAST(NULL AS {target})"
    if kind == Primitive("binary"):
        return "from_hex(" + text(value.as_py().hex()) + ")"
    # Beyond Python's calendar, only Arrow's days and microseconds are available.
    if kind == Primitive("date"):
        return f"make_date(CAST({value.cast(pa.int32()).as_py()} AS INTEGER))"
    if kind in (Primitive("timestamp"), Primitive("timestamp_ntz")):
        micros = _micros(value)
        if abs(micros) == _INFINITE_US:
            return f"CAST('{'-' if micros < 0 else ''}infinity' AS {target})"
        function = "make_timestamptz" if kind == Primitive("timestamp") else "make_timestamp"
        return f"{function}({micros})"
    plain: Any = value.as_py()
    shown = f"{plain:f}" if isinstance(kind, Decimal) else str(plain)
    return f"CAST({text(shown)} AS {target})"


_INFINITE_US = (1 << 63) - 1
"""µs that DuckDB reads as infinity, as it reads their negative."""


def _micros(value: pa.Scalar) -> int:
    micros: int = value.cast(pa.int64()).as_py()
    return micros


def renamed(expression: str, kind: Type, depth: int = 0) -> str:
    """Return an expression that renames struct fields from physical to logical names."""
    if not _has_other_names(kind):
        return expression
    if isinstance(kind, Struct):
        members = ", ".join(
            f"{text(f.name)}: " + renamed(_part(expression, f.physical), f.type, depth)
            for f in kind.fields
        )
        return f"CASE WHEN {expression} IS NULL THEN NULL ELSE {{{members}}} END"
    one = f"x{depth}"
    if isinstance(kind, Array):
        element = renamed(one, kind.element, depth + 1)
        return f"list_transform({expression}, lambda {one}: {element})"
    assert isinstance(kind, Map)
    key = renamed(_part(one, "key"), kind.key, depth + 1)
    item = renamed(_part(one, "value"), kind.value, depth + 1)
    entries = f"list_transform(map_entries({expression}), lambda {one}: "
    return f"map_from_entries({entries}{{'key': {key}, 'value': {item}}}))"


def _part(expression: str, name: str) -> str:
    return f"struct_extract({expression}, {text(name)})"


def _has_other_names(kind: Type) -> bool:
    if isinstance(kind, Struct):
        return any(f.name != f.physical or _has_other_names(f.type) for f in kind.fields)
    if isinstance(kind, Array):
        return _has_other_names(kind.element)
    return isinstance(kind, Map) and (_has_other_names(kind.key) or _has_other_names(kind.value))


_WIDENED = {
    "short": ("int8",),
    "integer": ("int8", "int16"),
    "long": ("int8", "int16", "int32"),
    "double": ("int8", "int16", "int32", "float"),
    "timestamp_ntz": ("date32[day]", "timestamp[ms]"),
    "timestamp": ("timestamp[ms, tz=UTC]",),
}
"""Arrow's names of file types that DuckDB casts exactly (SCH-9, DAT-7)."""


def is_read_exactly(stored: pa.DataType, kind: Type) -> bool:
    """Return whether DuckDB reads a file's column exactly as `arrow_type(kind)`."""
    types = pa.types
    if isinstance(kind, Struct):
        return bool(types.is_struct(stored)) and _members_are(stored, kind)
    if isinstance(kind, Array):
        return bool(types.is_list(stored)) and is_read_exactly(stored.value_type, kind.element)
    if isinstance(kind, Map):
        return (
            bool(types.is_map(stored))
            and is_read_exactly(stored.key_type, kind.key)
            and is_read_exactly(stored.item_type, kind.value)
        )
    if isinstance(kind, Decimal):
        return bool(types.is_signed_integer(stored) or types.is_decimal(stored))
    if is_variant(kind):
        return str(stored) == str(arrow_type(kind))
    return stored == arrow_type(kind) or str(stored) in _WIDENED.get(kind.name, ())


def _members_are(stored: pa.StructType, kind: Struct) -> bool:
    """Return whether all members are read exactly. DuckDB ignores case, so names must differ by
    more.
    """
    members = {stored.field(at).name: stored.field(at).type for at in range(stored.num_fields)}
    folded = {name.lower(): name for name in members}
    return len(folded) == stored.num_fields and all(
        folded.get(f.physical.lower()) in (None, f.physical)
        and (f.physical not in members or is_read_exactly(members[f.physical], f.type))
        for f in kind.fields
    )


DELETED = pa.schema([("branch", pa.int64()), ("file", pa.uint64()), ("bits", pa.binary())])
"""Deleted rows: the branch of the query, the index of the file in it, and one bit for each row."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveRows:
    """A query, and the table that it joins."""

    sql: str
    """Columns `c0`, `c1`, … in the requested order."""
    deleted: pa.Table
    """Deleted rows, as `DELETED`. If it is empty, the query does not name it."""


def live_rows(
    groups: Sequence[AlikeFiles],
    columns: Sequence[Field],
    address: Callable[[str, int], str],
    deleted_name: str,
) -> LiveRows:
    """Return the query for all live rows of files.

    Args:
        groups: the files, with `vector`, encoded positions of deleted rows, if there are any.
        columns: the columns to read.
        address: returns the address at which DuckDB finds the file of a key and a length; not a
            pattern.
        deleted_name: SQL name of the `DELETED` table in the query. Its bits must be BIT already:
            a cast in the join would run for every row.

    Raises:
        UnsupportedFeatureError: DuckDB's reader would return other values than the file holds.
    """
    parts: list[str] = []
    deleted: list[tuple[int, int, bytes]] = []
    for group in groups:
        whole, pierced = sorted_out(group.files)
        if whole.num_rows:
            parts.append(_branch(group, whole, columns, address, None))
        if pierced.num_rows:
            branch = len(parts)
            joined = f"{deleted_name} AS g WHERE g.branch = {branch}"
            parts.append(_branch(group, pierced, columns, address, joined))
            vectors = zip(pierced["vector"].to_pylist(), pierced["rows"].to_pylist(), strict=True)
            deleted += [(branch, at, _bits(*one)) for at, one in enumerate(vectors)]
    if not parts:
        values = ", ".join(f"{_null(c.type)} AS c{at}" for at, c in enumerate(columns))
        parts.append(f"SELECT {values} LIMIT 0")
    arrays = zip(*deleted, strict=True) if deleted else [(), (), ()]
    table = pa.table([pa.array(a, f.type) for a, f in zip(arrays, DELETED, strict=True)], DELETED)
    return LiveRows("\nUNION ALL\n".join(parts), table)


def _bits(vector: bytes, rows: int) -> bytes:
    """Return a bit for each row, the first one highest, as DuckDB counts bits."""
    return np.packbits(~live_mask(vector, rows)).tobytes()


def _branch(
    group: AlikeFiles,
    files: pa.Table,
    columns: Sequence[Field],
    address: Callable[[str, int], str],
    deleted: str | None,
) -> str:
    """Return the SELECT over files that have the same columns, without the rows in `deleted`."""
    names = [name.lower() for name in group.columns.names]
    # For files read with a schema, DuckDB estimates one row each, and would hash the larger side.
    # Yet a column with one of these names hides the virtual columns with positions.
    by_schema = deleted is None or not _VIRTUAL.isdisjoint(names)
    values, entries = [], []
    for at, column in enumerate(columns):
        place = group.columns.get_field_index(column.physical)
        if place < 0:
            values.append(f"{_absent(group, column)} AS c{at}")
            continue
        stored = group.columns.field(place).type
        if names.count(column.physical.lower()) > 1 or not is_read_exactly(stored, column.type):
            raise _not_read(column, stored, files["path"][0].as_py())
        kind = type_text(column.type)
        value = f"f.c{at}"
        if by_schema:
            entries.append(
                f"{text(column.physical)}: {{'name': 'c{at}', 'type': {text(kind)}, "
                "'default_value': NULL}"
            )
        else:
            value = f"f.{quoted(column.physical)}"
            if stored != arrow_type(physical_field(column).type):
                value = f"CAST({value} AS {kind})"
        values.append(renamed(value, column.type) + f" AS c{at}")
    places = map(address, files["path"].to_pylist(), files["size"].to_pylist())
    paths = ", ".join(text(_no_pattern(place)) for place in places)
    schema = f", schema = MAP {{{', '.join(entries)}}}" if entries else ""
    source = f"read_parquet([{paths}], hive_partitioning = false{schema}) AS f"
    query = f"SELECT {', '.join(values)} FROM {source}"
    if deleted is None:
        return query
    return (
        f"{query} JOIN (SELECT g.file, g.bits FROM {deleted}) AS d ON d.file = f.file_index "
        "WHERE get_bit(d.bits, CAST(f.file_row_number AS INTEGER)) = 0"
    )


_VIRTUAL = frozenset({"file_index", "file_row_number"})


def _not_read(column: Field, stored: pa.DataType, path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"DuckDB's reader cannot read column {column.name!r} ({column.type}) of {path!r} exactly: "
        f"the file has {stored}. Use tablefmt.open(uri).scan(), which DuckDB reads as "
        "a variable",
        ["duckdb:column"],
    )


def _absent(group: AlikeFiles, column: Field) -> str:
    """Return the value of a column in files that lack it."""
    value = group.lacked(column)
    return constant(value, column.type) if value.is_valid else _null(column.type)


def _null(kind: Type) -> str:
    return renamed(f"CAST(NULL AS {type_text(kind)})", kind)


def _no_pattern(path: str) -> str:
    """Return a path with its wildcards escaped."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def condition_text(predicate: Predicate, name: Callable[[Field], str]) -> str:
    """Return a condition in DuckDB's SQL, which orders floats and text in the same way (PRN-2)."""
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(condition_text(item, name) for item in predicate.items) + ")"
    if isinstance(predicate, Not):
        return f"(NOT {condition_text(predicate.item, name)})"
    if isinstance(predicate, Constant):
        return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[predicate.value]
    column = name(predicate.field)
    if isinstance(predicate, IsNull):
        return f"({column} IS NULL)"
    if isinstance(predicate, IsNaN):
        return f"coalesce(isnan({column}), FALSE)"
    if isinstance(predicate, Like):
        return f"({column} LIKE {text(predicate.pattern)} ESCAPE '\\')"
    kind = Primitive("double") if is_float(predicate.field.type) else predicate.field.type
    if isinstance(predicate, In):
        return f"({column} IN ({', '.join(_literal(v, kind) for v in predicate.values)}))"
    assert isinstance(predicate, Comparison)
    op = "IS NOT DISTINCT FROM" if predicate.op == "<=>" else predicate.op
    return f"({column} {op} {_literal(predicate.value, kind)})"


def _literal(value: object, kind: Type) -> str:
    return constant(pa.scalar(value, arrow_type(kind)), kind)
