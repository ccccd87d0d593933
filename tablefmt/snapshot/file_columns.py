"""File columns of an entry or an overflow metadata file, as typed Arrow columns. Pure.

Sums of their 64-bit numbers do not overflow. Spec: ADD-1, ADD-6, ADD-9, SCH-9, VAL-1, VAL-4,
EVO-2, EVO-3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.log.object_names import entry_key
from tablefmt.log.strict_json import INTEGER_MAX
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.log_entry import OWN, PARTITIONING, AddedFiles, Entry, Metadata
from tablefmt.model.scalar_values import decode, has_negative_zero
from tablefmt.model.schema import Field, Primitive, Schema, Type, is_nested

_LOW = (1 << 32) - 1


def exact_sum(values: NDArray[np.int64]) -> int:
    """Return the sum of up to 2**31 integers of 64 bits. numpy's own sum wraps around beyond 2**63.

    A wrapped sum of stored numbers could match a wrong value in the log.
    """
    if not len(values):
        return 0
    if max(int(values.max()), -int(values.min())) * len(values) < 1 << 63:
        return int(values.sum())
    high, low = np.sum(values >> 32), np.sum(values & _LOW)
    return (int(high) << 32) + int(low)


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
    "import": _LONG,
    "digest": Primitive("binary"),
    PARTITIONING: _LONG,
}
WITHOUT_BOUNDS = frozenset(_PLAIN)
"""Columns that describe whole files. Bounds are most of the data about files."""

_COUNTS = (
    ("size", 1, INTEGER_MAX),
    ("rows", 0, INTEGER_MAX),
    ("footer", 0, (1 << 32) - 1),
    ("import", 1, INTEGER_MAX),
    (PARTITIONING, 0, INTEGER_MAX),
)
"""Lowest and highest allowed values (ADD-1, ADD-7)."""

NOT_KEPT = frozenset({"keys"})
"""Columns for conflict checks only, which readers do not need."""
_TYPED = ("partition", "lower", "upper")
_BY_FIELD = frozenset(_TYPED) | _COUNTED


def column_type(name: str, types: Mapping[int, Type]) -> Type | None:
    """Return the type of an `add` column; None for a field that no schema has."""
    group, dot, field_id = name.partition(".")
    if not dot:
        return _PLAIN[name]
    return _LONG if group in _COUNTED else types.get(int(field_id))


def file_table(columns: Mapping[str, Sequence[Any]], types: Mapping[int, Type]) -> pa.Table:
    """Return the columns of an entry, typed, without columns of fields that no schema has.

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
    """Return the columns of one entry, typed by its metadata: an overflow file's content
    (ADD-6).
    """
    return file_table(files.columns, {f.id: f.type for f in metadata.schema.with_hidden})


def blame(
    added: NDArray[np.int64], columns: Mapping[str, Sequence[Any]], types: Mapping[int, Type]
) -> None:
    """Find the entry whose values do not fit. The columns hold the values of several entries.

    Raises:
        CorruptEntryError: with the key of that entry.
    """
    for at, version in enumerate(added):
        try:
            file_table({name: values[at : at + 1] for name, values in columns.items()}, types)
        except CorruptEntryError as error:
            key = entry_key(int(version))
            raise CorruptEntryError(error.detail, key=key, rule=error.rule) from None


def overflow_table(entry: Entry, columns: pa.Table, types: Mapping[int, Type]) -> pa.Table:
    """Return an overflow metadata file's columns in the form that `file_table` returns for an
    entry.

    Raises:
        CorruptEntryError: ADD-6.
    """
    known = [name for name in columns.column_names if _is_known(name) and name not in NOT_KEPT]
    kinds = {name: column_type(name, types) for name in known}
    arrow_types = {name: arrow_type(kind) for name, kind in kinds.items() if kind is not None}
    needed = {"path", "size", "rows"} | {"updated"}.intersection(arrow_types)
    try:
        for name in {"written", "import", PARTITIONING}.intersection(known):
            if not pa.types.is_integer(columns[name].type):
                raise ValueError(f"`{name}` does not hold integers")
        typed = columns.select(list(arrow_types)).cast(pa.schema(arrow_types))
        if any(typed[name].null_count for name in needed):
            raise ValueError("a path, a size or a row count is missing")
        for name, least, most in _COUNTS:
            found = pc.min_max(typed[name]) if name in arrow_types else None
            if found is None or not found["min"].is_valid:
                continue
            if not least <= found["min"].as_py() <= found["max"].as_py() <= most:
                raise ValueError(f"{name!r} has a number outside {least} to {most}")
    except (pa.ArrowException, ValueError, KeyError) as error:
        message = f"the overflow metadata file has columns that do not fit: {error}"
        raise CorruptEntryError(message, key=entry_key(entry.version), rule="ADD-6") from None
    for name in typed.column_names:
        _check_zero(name, typed[name], entry_key(entry.version))
    return typed


def with_written(entry: Entry, columns: pa.Table, under: int) -> pa.Table:
    """Return an overflow metadata file's columns with the `written` version of each file. Spec:
    ADD-9.

    Args:
        entry: the entry of the overflow metadata file.
        columns: typed.
        under: the newest metadata version, for files without a version of their own.
    """
    at = columns.schema.get_field_index("written")
    if at < 0:
        values = np.full(columns.num_rows, under, np.int64)
        return columns.append_column("written", pa.array(values))
    written = pc.fill_null(columns.column(at), under)
    least_and_most = pc.min_max(written).as_py()
    if not 0 <= least_and_most["min"] <= least_and_most["max"] <= entry.version:
        message = f"a file has a `written` version outside 0 to {entry.version}"
        raise CorruptEntryError(message, key=entry_key(entry.version), rule="ADD-9")
    return columns.set_column(at, "written", written)


def _is_known(name: str) -> bool:
    group, dot, field_id = name.partition(".")
    return field_id.isdigit() and group in _BY_FIELD if dot else group in _PLAIN


def typed_bounds(files: pa.Table, fields: Iterable[Field]) -> pa.Table:
    """Return the files with bounds and partition values in the types of these columns.

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
    """Return the files without partition values of columns that do not partition them.

    Beside files of another partitioning, they got NULL there. A NULL that stays would be a value.
    Spec: ENT-8, DAT-8.
    """
    names = {f"partition.{i}" for i in partition_ids}
    other = [n for n in files.column_names if n.startswith("partition.") and n not in names]
    return files.drop_columns(other) if other else files


def with_partitioning(columns: pa.Table, partitioning: int) -> pa.Table:
    """Return an overflow metadata file's columns with the partitioning of each file. Spec: EVO-2.

    Args:
        columns: typed.
        partitioning: the current one, for files without a number of their own.
    """
    at = columns.schema.get_field_index(PARTITIONING)
    if at >= 0:
        filled = pc.fill_null(columns.column(at), partitioning)
        return columns.set_column(at, PARTITIONING, filled)
    if not partitioning:
        return columns
    values = np.full(columns.num_rows, partitioning, np.int64)
    return columns.append_column(PARTITIONING, pa.array(values))


def numbers_of(files: pa.Table, count: int | None = None) -> NDArray[np.int64]:
    """Return the number of each file's partitioning. NULL is 0: it never changed.

    Args:
        files: the files.
        count: how many they are, if the table may have no column.
    """
    if PARTITIONING not in files.column_names:
        return np.zeros(files.num_rows if count is None else count, np.int64)
    numbers: NDArray[np.int64] = pc.fill_null(files[PARTITIONING], 0).to_numpy()
    return numbers


def shared_values(files: pa.Table, metadata: Metadata, *, bounds: bool = True) -> pa.Table:
    """Return the files with `partition.<id>` of the fields that partition all live files.

    Values of other fields are in `own.<id>`, and become bounds and counts of NULLs: all rows of the
    file have them. Files of another partitioning keep the bounds of the column. Spec: EVO-3.

    Args:
        files: the files, with `partition.<id>` of all fields, as an entry has them.
        metadata: in force.
        bounds: make bounds too. `rows` must be among the columns.
    """
    files = of_partitioning(files, metadata.all_partition_ids)
    if not metadata.is_evolved:
        return files
    number = numbers_of(files)
    for field_id in sorted(metadata.all_partition_ids - metadata.partition_ids):
        at = files.schema.get_field_index(f"partition.{field_id}")
        if at < 0:
            continue
        having = [n for n, ids in metadata.numbered.items() if field_id in ids]
        if bounds:
            files = _with_bounds(files, field_id, files.column(at), np.isin(number, having))
        files = files.set_column(at, f"{OWN}{field_id}", files.column(at))
    if PARTITIONING in files.column_names:
        files = files.drop_columns([PARTITIONING])
    return files.append_column(PARTITIONING, pa.array(number))


def own_values(files: pa.Table) -> pa.Table:
    """Return the files with `partition.<id>` of all partitionings, as an entry has them."""
    names = [
        f"partition.{name.removeprefix(OWN)}" if name.startswith(OWN) else name
        for name in files.column_names
    ]
    return files.rename_columns(names)


def _with_bounds(
    files: pa.Table, field_id: int, values: pa.ChunkedArray, has: NDArray[np.bool_]
) -> pa.Table:
    """Return files whose partition values are bounds, where the files have them."""
    mask, rows = pa.array(has), files["rows"]
    nan = pc.is_nan(values) if pa.types.is_floating(values.type) else None
    bound = values if nan is None else pc.if_else(nan, None, values)
    counts = {"nulls": pc.is_null(values), "nans": nan}
    known = {"lower": bound, "upper": bound} | {
        name: pc.if_else(pc.fill_null(flags, False), rows, 0)
        for name, flags in counts.items()
        if flags is not None
    }
    for group, value in known.items():
        name = f"{group}.{field_id}"
        at = files.schema.get_field_index(name)
        others: Any = pa.nulls(files.num_rows, value.type)
        if at >= 0 and files.column(at).type == value.type:
            others = files.column(at)
        column = pc.if_else(mask, value, others)
        place = at if at >= 0 else files.num_columns
        files = files.drop_columns([name]) if at >= 0 else files
        files = files.add_column(place, name, column)
    return files


def with_partitions(no_files: pa.Table, schema: Schema, partition_ids: Collection[int]) -> pa.Table:
    """Return an empty files table with the partition columns, which older files lack."""
    for field_id in sorted(partition_ids):
        name, target = f"partition.{field_id}", arrow_type(schema.by_id(field_id).type)
        if name not in no_files.column_names:
            no_files = no_files.append_column(name, pa.array([], target))
    return no_files


def _cast(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Return the values in another type; NULL if the type does not hold a value exactly.

    A restore brings a narrower type back (RET-3). A rounded bound would exclude files that hold
    matching rows.
    """
    try:
        there = _converted(values, target)
        same = pc.fill_null(pc.equal(_converted(there, values.type), values), False)
        return there if pc.all(same).as_py() else pc.if_else(same, there, None)
    except pa.ArrowException:
        return pa.chunked_array([pa.nulls(len(values), target)], target)


def _converted(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_integer(values.type) and pa.types.is_decimal(target):
        # Arrow requires digits for every integer of the type; only the actual values matter.
        values = values.cast(pa.decimal128(38, 0))
    return values.cast(target)
