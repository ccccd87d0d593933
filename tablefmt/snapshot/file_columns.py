"""The columns of files: what an entry or a side file says of them, as typed Arrow columns. Pure.

Spec: ADD-1, ADD-6, ADD-9, SCH-9, VAL-1, VAL-4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.log.checks import INTEGER_MAX
from tablefmt.log.names import entry_key
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.entry import AddedFiles, Entry, Metadata
from tablefmt.model.schema import Field, Primitive, Schema, Type, is_nested
from tablefmt.model.values import decode, has_negative_zero

_COUNTED = frozenset({"nulls", "nans"})
_LONG = Primitive("long")
_PLAIN = {
    "path": Primitive("string"),
    "size": _LONG,
    "rows": _LONG,
    "footer": _LONG,
    "updated": Primitive("boolean"),
    "keys": Primitive("binary"),
    "written": _LONG,
}
_COUNTS = (("size", 1, INTEGER_MAX), ("rows", 0, INTEGER_MAX), ("footer", 0, (1 << 32) - 1))
"""Least and greatest (ADD-1, ADD-7)."""

NOT_KEPT = frozenset({"keys"})
"""Columns that judge a commit, and are of no use to readers."""
_TYPED = ("partition", "lower", "upper")
_BY_FIELD = frozenset(_TYPED) | _COUNTED


def column_type(name: str, types: Mapping[int, Type]) -> Type | None:
    """The type of an `add` column, None for one of a field that no schema has named."""
    group, dot, field_id = name.partition(".")
    if not dot:
        return _PLAIN[name]
    return _LONG if group in _COUNTED else types.get(int(field_id))


def file_table(columns: Mapping[str, Sequence[Any]], types: Mapping[int, Type]) -> pa.Table:
    """Columns as an entry has them, typed; one of a field that no schema has named is left out.

    Args:
        columns: ADD-1 names; the values in the form of the log.
        types: by field id, of all columns ever.

    Raises:
        CorruptEntryError: VAL-1; VAL-2, a partition of negative zero.
    """
    arrays = {}
    for name, values in columns.items():
        kind = column_type(name, types)
        if kind is not None:
            arrays[name] = decode(values, kind)
            _check_zero(name, arrays[name])
    return pa.table(arrays)


def _check_zero(name: str, values: pa.Array | pa.ChunkedArray, key: str = "") -> None:
    """Refuse -0.0 as a partition value: its rows are in the partition of 0.0 (VAL-2)."""
    if name.startswith("partition.") and has_negative_zero(values):
        raise CorruptEntryError(f"`add` column {name} holds negative zero", key=key, rule="VAL-2")


def added_table(files: AddedFiles, metadata: Metadata) -> pa.Table:
    """The columns of one entry, typed by its metadata: what a side file holds (ADD-6)."""
    return file_table(files.columns, {f.id: f.type for f in metadata.schema.fields})


def blame(
    added: NDArray[np.int64], columns: Mapping[str, Sequence[Any]], types: Mapping[int, Type]
) -> None:
    """Name the entry whose values do not fit; the columns hold those of several.

    Raises:
        CorruptEntryError: with the key of that entry.
    """
    for at, version in enumerate(added):
        try:
            file_table({name: values[at : at + 1] for name, values in columns.items()}, types)
        except CorruptEntryError as error:
            key = entry_key(int(version))
            raise CorruptEntryError(error.detail, key=key, rule=error.rule) from None


def side_table(entry: Entry, columns: pa.Table, types: Mapping[int, Type]) -> pa.Table:
    """A side file's columns as `file_table` makes them of an entry.

    Raises:
        CorruptEntryError: ADD-6.
    """
    known = [name for name in columns.column_names if _is_known(name) and name not in NOT_KEPT]
    kinds = {name: column_type(name, types) for name in known}
    arrow_types = {name: arrow_type(kind) for name, kind in kinds.items() if kind is not None}
    needed = {"path", "size", "rows"} | {"updated"}.intersection(arrow_types)
    try:
        if "written" in known and not pa.types.is_integer(columns["written"].type):
            raise ValueError("`written` is not of integers")
        typed = columns.select(list(arrow_types)).cast(pa.schema(arrow_types))
        if any(typed[name].null_count for name in needed):
            raise ValueError("a path, a size or a row count is missing")
        for name, least, most in _COUNTS:
            found = pc.min_max(typed[name]) if name in arrow_types else None
            if found is None or not found["min"].is_valid:
                continue
            if not least <= found["min"].as_py() <= found["max"].as_py() <= most:
                raise ValueError(f"{name!r} has a number that none can have")
    except (pa.ArrowException, ValueError, KeyError) as error:
        message = f"the side file has columns that do not fit: {error}"
        raise CorruptEntryError(message, key=entry_key(entry.version), rule="ADD-6") from None
    for name in typed.column_names:
        _check_zero(name, typed[name], entry_key(entry.version))
    return typed


def with_written(entry: Entry, columns: pa.Table, under: int) -> pa.Table:
    """A side file's columns with the version that each file was written under. Spec: ADD-9.

    Args:
        entry: whose side file it is.
        columns: typed.
        under: of the newest metadata: what files that do not say it were written under.
    """
    at = columns.schema.get_field_index("written")
    if at < 0:
        values = np.full(columns.num_rows, under, np.int64)
        return columns.append_column("written", pa.array(values))
    written = pc.fill_null(columns.column(at), under)
    least_and_most = pc.min_max(written).as_py()
    if not 0 <= least_and_most["min"] <= least_and_most["max"] <= entry.version:
        message = "a file was written under a version that is not there"
        raise CorruptEntryError(message, key=entry_key(entry.version), rule="ADD-9")
    return columns.set_column(at, "written", written)


def _is_known(name: str) -> bool:
    group, dot, field_id = name.partition(".")
    return field_id.isdigit() and group in _BY_FIELD if dot else group in _PLAIN


def typed_bounds(files: pa.Table, fields: Iterable[Field]) -> pa.Table:
    """The same files with bounds and partition values in the types of these columns.

    A value that the type cannot hold becomes unknown (VAL-4).
    """
    for field in fields:
        if is_nested(field.type):
            continue
        target = arrow_type(field.type)
        for group in _TYPED:
            at = files.schema.get_field_index(f"{group}.{field.id}")
            if at >= 0 and files.schema.field(at).type != target:
                column = _cast(files.column(at), target)
                files = files.set_column(at, f"{group}.{field.id}", column)
    return files


def of_partitioning(files: pa.Table, partition_ids: Collection[int]) -> pa.Table:
    """The same files without values of columns that they are not partitioned by.

    Beside files of another partitioning they got NULL there; a NULL that stays is the value.
    Spec: ENT-8, DAT-8.
    """
    names = {f"partition.{i}" for i in partition_ids}
    other = [n for n in files.column_names if n.startswith("partition.") and n not in names]
    return files.drop_columns(other) if other else files


def with_partitions(no_files: pa.Table, schema: Schema, partition_ids: Collection[int]) -> pa.Table:
    """Return the columns of no files with those of the partitioning, which older files lack."""
    for field_id in sorted(partition_ids):
        name, target = f"partition.{field_id}", arrow_type(schema.by_id(field_id).type)
        if name not in no_files.column_names:
            no_files = no_files.append_column(name, pa.array([], target))
    return no_files


def _cast(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Return the values in another type; NULL where it does not hold a value exactly.

    A restore brings a narrower type back (RET-3). A bound that was rounded would leave out files
    that hold rows.
    """
    try:
        there = _converted(values, target)
        same = pc.fill_null(pc.equal(_converted(there, values.type), values), False)
        return there if pc.all(same).as_py() else pc.if_else(same, there, None)
    except pa.ArrowException:
        return pa.chunked_array([pa.nulls(len(values), target)], target)


def _converted(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_integer(values.type) and pa.types.is_decimal(target):
        # Arrow asks for room for every integer of the type; what counts is these.
        values = values.cast(pa.decimal128(38, 0))
    return values.cast(target)
