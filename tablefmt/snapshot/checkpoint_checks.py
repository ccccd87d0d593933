"""Checks that the lines of a checkpoint's part obey the rules of the log. Pure.

A checksum shows that the bytes are unchanged, not that they are right. So every column is checked
against the rules of its entry before use.

Spec: CKP-3, CKP-9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.file_pruning import Mask
from tablefmt.log.entry_columns import no_columns
from tablefmt.log.object_names import first_path_problem
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.log_entry import PARTITIONING
from tablefmt.model.positions import DELETE_COLUMNS
from tablefmt.model.scalar_values import decode
from tablefmt.model.schema import Field, Type, is_nested
from tablefmt.model.type_widening import share_origin
from tablefmt.snapshot.checkpoint_root import SegmentPart
from tablefmt.snapshot.file_columns import exact_sum
from tablefmt.snapshot.segments import summary, total_rows

Numbers = NDArray[np.int64]

_TYPES = {
    "id": pa.int64(),
    "added": pa.int64(),
    "path": pa.string(),
    "size": pa.int64(),
    "rows": pa.int64(),
    "footer": pa.int64(),
    "written": pa.int64(),
    "updated": pa.bool_(),
    "import": pa.int64(),
    "digest": pa.binary(),
    PARTITIONING: pa.int64(),
}
_NEEDED = ("id", "added", "path", "size", "rows")
_NOT_NULL = frozenset({*_NEEDED, "written"})
_LEAST = {
    "id": 1, "added": 0, "size": 1, "rows": 0, "footer": 0, "written": 0, "import": 1,
    PARTITIONING: 0,
}  # fmt: skip
_CRC_MAX = (1 << 32) - 1

DELETE_NEEDED = (*DELETE_COLUMNS.names, "version")
_MAPS = ("deleted", "updated")

DENSE = 64
"""Maximum ratio of an id range to the number of ids for a lookup array over the whole range."""


SPAN_MAX = 1 << 24
"""Maximum length of such an array."""


@dataclass(frozen=True, slots=True)
class CheckpointLimits:
    """Limits in a checkpoint's root that its parts must obey."""

    version: int
    next_id: int
    deleted: int
    """Number of deleted rows in all live files."""
    last_id: int
    """Highest field id of the schema."""
    fields: Mapping[int, Field]
    """Columns of the version, by id."""
    partition_ids: frozenset[int]
    """Fields that partition every file."""
    all_partition_ids: frozenset[int]
    """Fields that partition any file (EVO-1)."""


def columns_problem(schema: pa.Schema, limits: CheckpointLimits) -> str | None:
    """Return the error in a manifest segment's columns, from the footer; None if there is none."""
    names = schema.names
    values = [f"partition.{i}" for i in sorted(limits.partition_ids)]
    missing = [name for name in (*_NEEDED, *values) if name not in names]
    if missing:
        return f"it lacks the column {missing[0]!r}"
    if len(set(names)) != len(names):
        return "it has two columns of one name"
    for column in schema:
        expected = _TYPES.get(column.name)
        if expected is None:
            problem = _field_problem(column, limits)
        else:
            problem = None if _is_like(column.type, expected) else f"has type {column.type}"
        if problem is not None:
            return f"its column {column.name[:100]!r} {problem}"
    return None


def _field_problem(column: pa.Field, limits: CheckpointLimits) -> str | None:
    group, _, field_id = column.name.partition(".")
    if no_columns([column.name]) or f"{group}." not in _GROUPS:
        return "is not a column of files"
    known = int(field_id)
    if known > limits.last_id:
        return "is of a field that the table never had"
    if group in ("nulls", "nans"):
        return None if column.type == pa.int64() else f"has type {column.type}"
    if group == "partition" and known not in limits.all_partition_ids:
        return "is not of a partition column"
    found = _type_of(column.type)
    if found is None:
        return f"has type {column.type}"
    field = limits.fields.get(known)
    # For a column that was dropped since, the only known fact is that it is not nested.
    fits = not is_nested(found) if field is None else share_origin(found, field.type)
    return None if fits else f"has type {column.type}, which its column never had"


@lru_cache(64)
def _type_of(kind: pa.DataType) -> Type | None:
    """Return the type of columns with this Arrow type; None: no column can have it."""
    try:
        (found,) = from_arrow(pa.schema([pa.field("x", kind)])).fields
    except SchemaMismatchError:
        return None
    return found.type


_GROUPS = frozenset({"partition.", "lower.", "upper.", "nulls.", "nans."})


def deletes_problem(schema: pa.Schema) -> str | None:
    """Return the error in the columns of a part of `deletes`, from the footer; None if there is
    none.
    """
    if sorted(schema.names) != sorted(DELETE_NEEDED):
        return "it does not have the columns of deleted rows"
    for column in schema:
        is_map = column.name in _MAPS
        expected = pa.binary() if is_map else pa.int64()
        if not _is_like(column.type, expected):
            return f"its column {column.name!r} has type {column.type}"
    return None


def _is_like(kind: pa.DataType, expected: pa.DataType) -> bool:
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return kind in (expected, large.get(expected, expected))


def lines_problem(columns: pa.Table, segment: SegmentPart, limits: CheckpointLimits) -> str | None:
    """Return the error in the values of some lines of a manifest segment; None if there is none.

    Args:
        columns: some of its columns, at any lines.
        segment: its description in the root.
        limits: the limits of the checkpoint.
    """
    most = {
        "id": segment.ids[1],
        "added": segment.added,
        "footer": _CRC_MAX,
        "written": limits.version,
    }
    for name in columns.column_names:
        column = columns[name]
        if name in _NOT_NULL and column.null_count:
            return f"a file lacks its {name!r}"
        if name in _LEAST:
            least = segment.ids[0] if name == "id" else _LEAST[name]
            if _is_outside(column, least, most.get(name)):
                return f"a file has an invalid number in {name!r}"
        elif name == "path":
            imports = columns["import"] if "import" in columns.column_names else None
            problem = first_path_problem(column, imports)
            if problem is not None:
                return f"{problem} (rule KEY-2)"
        elif not _is_text(column):
            return f"its column {name!r} holds text that is not Unicode"
    if {"written", "added"} <= set(columns.column_names) and (
        np.any(columns["written"].to_numpy() > columns["added"].to_numpy())
    ):
        return "a file was written under a version after the one that added it"
    return _values_problem(columns, limits)


def _values_problem(columns: pa.Table, limits: CheckpointLimits) -> str | None:
    """Return the error in partition values that the bounds or NULLs of the same column exclude."""
    names = set(columns.column_names)
    for field_id in limits.partition_ids:
        name = f"partition.{field_id}"
        if name not in names:
            continue
        value = columns[name]
        unlike = []
        for side, beyond in (("lower", pc.less), ("upper", pc.greater)):
            bound = f"{side}.{field_id}"
            if bound in names and columns[bound].type == value.type:
                unlike.append(beyond(value, columns[bound]))
                unlike.append(pc.and_(pc.is_null(value), pc.is_valid(columns[bound])))
        if {"rows", f"nulls.{field_id}"} <= names:
            # All rows of a file have the same partition value.
            nulls, rows = columns[f"nulls.{field_id}"], columns["rows"]
            some = pc.or_(pc.greater(nulls, 0), pc.and_(pc.is_null(value), pc.greater(rows, 0)))
            unlike.append(pc.and_(some, pc.xor(pc.is_null(value), pc.equal(nulls, rows))))
        if any(pc.any(one).as_py() for one in unlike):
            return f"a file has a value in {name!r} that its bounds or NULLs exclude"
    return None


def _is_outside(column: pa.ChunkedArray, least: int, most: int | None) -> bool:
    found = pc.min_max(column).as_py()
    if found["min"] is None:
        return False
    return found["min"] < least or (most is not None and found["max"] > most)


def _is_text(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def numbers_problem(ids: Numbers, added: Numbers, segment: SegmentPart) -> str | None:
    """Return the error in the ids of all lines and the versions that added them; None if there is
    none.

    Ids are assigned in the order of versions (ADD-2), each once.
    """
    if (int(ids.min()), int(ids.max())) != segment.ids or int(added.max()) != segment.added:
        return "its ids or versions differ from the root"
    in_order = _by_id(ids, added)
    if in_order is None:
        return "it has a file twice"
    if np.any(in_order[1:] < in_order[:-1]):
        return "a file has an id that does not fit the version that added it"
    return None


def _by_id(ids: Numbers, added: Numbers) -> Numbers | None:
    """Return the versions in the order of ids; None if an id occurs twice."""
    first = int(ids.min())
    span = int(ids.max()) - first + 1
    if span > min(DENSE * len(ids), SPAN_MAX):
        order = np.argsort(ids)
        ascending = ids[order]
        return None if np.any(ascending[1:] == ascending[:-1]) else added[order]
    placed = np.full(span, -1, np.int64)
    placed[ids - first] = added
    found: Numbers = placed[placed >= 0]
    return found if len(found) == len(ids) else None


def sums_problem(columns: pa.Table, segment: SegmentPart, limits: CheckpointLimits) -> str | None:
    """Return the error in columns of all lines, compared with the root; None if there is none.

    Raises:
        CorruptEntryError, pyarrow.ArrowException: the root holds a value of another type.
    """
    if "rows" not in columns.column_names:
        return None
    if total_rows(columns) != segment.rows:
        return "its number of rows differs from the root"
    for name in {name.partition(".")[2] for name in columns.column_names}:
        known, field = segment.bounds.get(name), limits.fields.get(int(name or 0))
        if known is None or field is None:
            continue
        found = summary(columns, field.id, field.id in limits.partition_ids)
        for column, value in summaries_of([known], field).items():
            if column in found and _is_beyond(column, found[column], value):
                return f"it has a value in {column!r} outside the bounds in the root"
    return None


def _is_beyond(column: str, found: Any, said: pa.Array) -> bool:
    side = column.partition(".")[0]
    beyond = {"lower": pc.less, "upper": pc.greater}.get(side, pc.not_equal)
    return bool(pc.any(beyond(found, said)).as_py())


_SUMMARIES = ("lower", "upper", "nulls", "nans")


def summaries_of(known: Sequence[Mapping[str, Any]], field: Field) -> dict[str, pa.Array]:
    """Return a root's summaries of a column as Arrow arrays, with an element for each segment.

    A value that no segment has is absent. One that some segments have is null for the others.

    Raises:
        CorruptEntryError, pyarrow.ArrowException: a value does not have the column's type.
    """
    values = {name: [each.get(name) for each in known] for name in _SUMMARIES}
    there = [name for name in _SUMMARIES if any(value is not None for value in values[name])]
    return {
        f"{name}.{field.id}": decode(values[name], field.type)
        if name in ("lower", "upper")
        else pa.array(values[name], pa.int64())
        for name in there
    }


def delta_problem(columns: pa.Table, limits: CheckpointLimits) -> str | None:
    """Return the error in lines of a part of `deletes`. Position sets are checked when used."""
    most = {"file": limits.next_id - 1, "version": limits.version, "rows": None}
    least = {"file": 1, "version": 0, "rows": 1}
    for name, highest in most.items():
        if columns[name].null_count or _is_outside(columns[name], least[name], highest):
            return f"a line has an invalid number in {name!r}"
    both = pc.and_(*(pc.is_null(columns[name]) for name in _MAPS))
    return "a line has no set of positions" if pc.any(both).as_py() else None


def deletes_sum_problem(
    files: Numbers, versions: Numbers, rows: Numbers, live: Mask, deleted: int
) -> str | None:
    """Return the error in all lines of all parts of `deletes` together; None if there is none.

    Args:
        files: the file of each line.
        versions: the version of each line.
        rows: the number of rows of each line.
        live: for each line, True if its file is live.
        deleted: the number of deleted rows of live files in the entry.
    """
    if exact_sum(rows[live]) != deleted:
        return "the number of deleted rows of its files differs from its entry"
    order = np.lexsort((versions, files))
    same = (np.diff(files[order]) == 0) & (np.diff(versions[order]) == 0)
    return "an entry deletes rows of a file twice" if np.any(same) else None
