"""Query that reads live files with DuckDB's own reader. Pure.

Columns are read by their physical names; a column that a file lacks is a constant. Files with
deleted rows are joined with a bitmap of these rows, one row for each file. Other files have no
extra cost. Spec: DAT-4, DAT-8, DAT-12, DEL-4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablefmt.data.layouts import AlikeFiles, sorted_out
from tablefmt.engines.duckdb_types import (
    constant,
    is_read_exactly,
    quoted,
    renamed,
    text,
    type_text,
)
from tablefmt.errors import UnsupportedFeatureError
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
from tablefmt.model.schema import Field, Primitive, Type, is_float
from tablefmt.model.schema_views import physical_field

GONE = pa.schema([("branch", pa.int64()), ("file", pa.uint64()), ("bits", pa.binary())])
"""Deleted rows: the branch of the query, the index of the file in it, and one bit for each row."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveRows:
    """A query, and the table that it joins."""

    sql: str
    """Columns `c0`, `c1`, … in the requested order."""
    gone: pa.Table
    """Deleted rows, as `GONE`. If it is empty, the query does not name it."""


def live_rows(
    groups: Sequence[AlikeFiles],
    columns: Sequence[Field],
    address: Callable[[str, int], str],
    gone_name: str,
) -> LiveRows:
    """Return the query for all live rows of files.

    Args:
        groups: the files, with `vector`, packed positions of deleted rows, if there are any.
        columns: the columns to read.
        address: returns the address at which DuckDB finds the file of a key and a length; not a
            pattern.
        gone_name: SQL name of the `GONE` table in the query. Its bits must be BIT already, as a
            cast in the join would run for every row.

    Raises:
        UnsupportedFeatureError: DuckDB's reader would return other values than the file holds.
    """
    parts: list[str] = []
    gone: list[tuple[int, int, bytes]] = []
    for group in groups:
        whole, pierced = sorted_out(group.files)
        if whole.num_rows:
            parts.append(_branch(group, whole, columns, address, None))
        if pierced.num_rows:
            branch = len(parts)
            joined = f"{gone_name} AS g WHERE g.branch = {branch}"
            parts.append(_branch(group, pierced, columns, address, joined))
            vectors = zip(pierced["vector"].to_pylist(), pierced["rows"].to_pylist(), strict=True)
            gone += [(branch, at, _bits(*one)) for at, one in enumerate(vectors)]
    if not parts:
        values = ", ".join(f"{_null(c.type)} AS c{at}" for at, c in enumerate(columns))
        parts.append(f"SELECT {values} LIMIT 0")
    arrays = zip(*gone, strict=True) if gone else [(), (), ()]
    table = pa.table([pa.array(a, f.type) for a, f in zip(arrays, GONE, strict=True)], GONE)
    return LiveRows("\nUNION ALL\n".join(parts), table)


def _bits(vector: bytes, rows: int) -> bytes:
    """Return a bit for each row, the first one highest, as DuckDB counts bits."""
    return np.packbits(~live_mask(vector, rows)).tobytes()


def _branch(
    group: AlikeFiles,
    files: pa.Table,
    columns: Sequence[Field],
    address: Callable[[str, int], str],
    gone: str | None,
) -> str:
    names = [name.lower() for name in group.columns.names]
    # For files read with a schema, DuckDB estimates one row each, and would hash the larger side.
    # Yet a column with one of these names hides the virtual columns with positions.
    by_schema = gone is None or not _VIRTUAL.isdisjoint(names)
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
    if gone is None:
        return query
    return (
        f"{query} JOIN (SELECT g.file, g.bits FROM {gone}) AS gone ON gone.file = f.file_index "
        "WHERE get_bit(gone.bits, CAST(f.file_row_number AS INTEGER)) = 0"
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
