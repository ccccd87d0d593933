"""Delta's `add` and `remove` for Arrow columns of files: JSON lines, and a checkpoint. Pure.

No object per file is made, except for files with a deletion vector and odd text. A
checkpoint has the whole state of a copy in one Parquet object. Spec: XPT-7 ..
XPT-9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.export.delta_schema import stated_partitions
from tablefmt.log.bounded_records import records_of
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field, is_float, is_nested

_ESCAPED = r'["\\\x00-\x1f\x7f]'
"""Characters that do not stand for themselves in a JSON string."""


def whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def text(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values as JSON strings; NULL stays NULL."""
    values = whole(values).cast(pa.string())
    quoted = joined('"', values, '"')
    odd = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if not pc.any(odd).as_py():
        return quoted
    made = [orjson.dumps(value).decode() for value in values.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(made, pa.string()))


def text_of(document: pa.Array) -> pa.Array:
    """Return JSON documents as JSON strings, so quoted once more."""
    escaped = pc.replace_substring(document, "\\", "\\\\")
    return joined('"', pc.replace_substring(escaped, '"', '\\"'), '"')


def joined(*parts: pa.Array | str) -> pa.Array:
    """Return the concatenation of columns and constants; NULL if one of them is NULL."""
    return pc.binary_join_element_wise(*parts, "")


def objects(members: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Return JSON objects. A member that is NULL is left out.

    Args:
        members: JSON text by name.
        rows: the number of objects.
    """
    keys = [orjson.dumps(name).decode() + ":" for name in members]
    if not keys:
        return pa.repeat(pa.scalar("{}"), rows)
    if not any(values.null_count for values in members.values()):
        keys = ["{" + keys[0], *("," + key for key in keys[1:])]
        pairs = zip(keys, members.values(), strict=True)
        return joined(*(part for pair in pairs for part in pair), "}")
    named = [joined(key, values) for key, values in zip(keys, members.values(), strict=True)]
    absent = named[0].is_null()
    for values in named[1:]:
        absent = pc.and_(absent, values.is_null())
    # Arrow omits the whole element if all of its parts are skipped.
    named[0] = pc.if_else(absent, "", named[0])
    inside = pc.binary_join_element_wise(*named, ",", null_handling="skip")
    return joined("{", inside, "}")


def lines(texts: pa.Array) -> bytes:
    """Return the texts as lines, each with an end."""
    ended = joined(texts, "\n")
    _, offsets, data = ended.buffers()
    bounds = np.frombuffer(offsets, np.int32)[ended.offset : ended.offset + len(ended) + 1]
    body: bytes = data.slice(int(bounds[0]), int(bounds[-1] - bounds[0])).to_pybytes()
    return body


_PLAIN_PATH = "^[A-Za-z0-9/_.~-]*$"

_STR, _LONG = pa.string(), pa.int64()
VECTOR = pa.struct(
    [
        ("storageType", _STR),
        ("pathOrInlineDv", _STR),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", _LONG),
    ]
)
"""Descriptor of a deletion vector."""


@dataclass(frozen=True, slots=True, eq=False)
class FileActions:
    """Files of one state, as the columns of Delta's actions."""

    path: pa.Array
    """Percent-encoded, so without a character that JSON escapes."""
    partitions: Mapping[str, pa.Array]
    """Text of the values by physical name, for the columns that the copy states."""
    size: pa.Array
    stats: pa.Array
    """JSON text."""
    vectors: Mapping[int, Mapping[str, Any]]
    """Descriptors by place, of files with deleted rows."""

    def __len__(self) -> int:
        return len(self.path)


def file_actions(
    files: pa.Table,
    metadata: Metadata,
    vectors: Mapping[int, Mapping[str, Any]],
    *,
    removed: bool = False,
) -> FileActions:
    """Return the actions' columns of files.

    Args:
        files: as in `Difference`.
        metadata: in force for them.
        vectors: descriptors by place.
        removed: True for `remove` actions, which have no statistics.
    """
    stated = stated_partitions(metadata)
    ids = {f.id for f in stated}
    return FileActions(
        path=_encoded(whole(files["path"])),
        partitions={f.physical: _partition_text(files, f) for f in stated},
        size=whole(files["size"]),
        stats=pa.array([], _STR) if removed else stats_text(files, metadata, ids),
        vectors=vectors,
    )


def _partition_text(files: pa.Table, field: Field) -> pa.Array:
    return whole(files[f"partition.{field.id}"]).cast(_STR)


def _encoded(paths: pa.Array) -> pa.Array:
    odd = pc.invert(pc.match_substring_regex(paths, _PLAIN_PATH))
    if not pc.any(odd).as_py():
        return paths
    made = [quote(path, safe="/") for path in paths.filter(odd).to_pylist()]
    return pc.replace_with_mask(paths, odd, pa.array(made, _STR))


def add_lines(actions: FileActions, modified: int, changes: bool) -> bytes:
    """Return an `add` line for each file.

    Args:
        actions: the files.
        modified: their modification time, ms.
        changes: False if the commit only moved rows.
    """
    if not len(actions):
        return b""
    said = f',"modificationTime":{modified},"dataChange":{str(changes).lower()},"stats":'
    line = joined(
        '{"add":{"path":"',
        actions.path,
        '","partitionValues":',
        _partition_objects(actions),
        ',"size":',
        actions.size.cast(_STR),
        said,
        text_of(actions.stats),
        _vector_texts(actions),
        "}}",
    )
    return lines(line)


def remove_lines(actions: FileActions, deleted: int, changes: bool) -> bytes:
    """Return a `remove` line for each file, with the vector that its `add` had. `deleted`: ms."""
    if not len(actions):
        return b""
    said = f'","deletionTimestamp":{deleted},"dataChange":{str(changes).lower()}'
    line = joined(
        '{"remove":{"path":"',
        actions.path,
        said,
        ',"extendedFileMetadata":true,"partitionValues":',
        _partition_objects(actions),
        ',"size":',
        actions.size.cast(_STR),
        _vector_texts(actions),
        "}}",
    )
    return lines(line)


def _partition_objects(actions: FileActions) -> pa.Array:
    members = {
        name: pc.fill_null(text(values), "null") for name, values in actions.partitions.items()
    }
    return objects(members, len(actions))


def _vector_texts(actions: FileActions) -> pa.Array:
    if not actions.vectors:
        return pa.repeat(pa.scalar(""), len(actions))
    mask = np.zeros(len(actions), bool)
    mask[list(actions.vectors)] = True
    made = [
        ',"deletionVector":' + orjson.dumps(actions.vectors[place]).decode()
        for place in sorted(actions.vectors)
    ]
    empty = pa.repeat(pa.scalar(""), len(actions))
    return pc.replace_with_mask(empty, pa.array(mask), pa.array(made, _STR))


def add_structs(actions: FileActions, modified: int, kind: pa.StructType) -> pa.StructArray:
    """Return the `add` column of a checkpoint for the files.

    Args:
        actions: the files.
        modified: their modification time, ms.
        kind: the type of the column.
    """
    count = len(actions)
    descriptors = [actions.vectors.get(place) for place in range(count)] if actions.vectors else []
    columns = {
        "path": actions.path,
        "partitionValues": _partition_maps(actions),
        "size": actions.size,
        "modificationTime": pa.repeat(pa.scalar(modified, _LONG), count),
        "dataChange": pa.repeat(pa.scalar(False), count),
        "stats": actions.stats,
        "deletionVector": pa.array(descriptors, VECTOR) if descriptors else None,
    }
    arrays = []
    for part in kind:
        known = columns.get(part.name)
        arrays.append(pa.nulls(count, part.type) if known is None else known)
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _partition_maps(actions: FileActions) -> pa.MapArray:
    names, count = list(actions.partitions), len(actions)
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * len(names))
    if not names:
        return pa.MapArray.from_arrays(offsets, pa.array([], _STR), pa.array([], _STR))
    order = np.arange(count * len(names)).reshape(len(names), count).T.reshape(-1)
    values = pa.concat_arrays(list(actions.partitions.values())).take(pa.array(order))
    keys = pa.array(names, _STR).take(pa.array(np.tile(np.arange(len(names)), count)))
    return pa.MapArray.from_arrays(offsets, keys, values)


def stats_text(files: pa.Table, metadata: Metadata, without: set[int]) -> pa.Array:
    """Return the statistics of each file as JSON. Spec: XPT-9.

    Args:
        files: with `rows`, `deleted` and the bounds that the log has.
        metadata: in force for them.
        without: ids of partition columns that the copy states.
    """
    names, texts = set(files.column_names), _whole_numbers(files)
    low, high, nulls = {}, {}, {}
    for column in metadata.schema.fields:
        if is_nested(column.type) or column.id in without:
            continue
        if f"nulls.{column.id}" in names:
            nulls[column.physical] = texts[f"nulls.{column.id}"]
        sides = (f"lower.{column.id}", f"upper.{column.id}")
        if names.issuperset(sides):
            lower, upper = (
                texts[side] if side in texts else _bounds(files, column, side) for side in sides
            )
            if lower is None or upper is None:
                continue
            low[column.physical], high[column.physical] = lower, upper
    count = files.num_rows
    members = {
        "numRecords": texts["rows"],
        "minValues": objects(low, count) if low else pa.nulls(count, _STR),
        "maxValues": objects(high, count) if high else pa.nulls(count, _STR),
        "nullCount": objects(nulls, count) if nulls else pa.nulls(count, _STR),
    }
    has_vector = pa.array(files["deleted"].to_numpy() > 0)
    if pc.any(has_vector).as_py():
        members["tightBounds"] = pc.if_else(has_vector, "false", pa.scalar(None, _STR))
    return objects(members, count)


_CAST_TOGETHER = 1 << 16
"""Values of several columns that are cast at once."""

_YEARS = (-62135596800000, 253402300799999)
"""Milliseconds of the years 1 to 9999, both included. Other years have no text that all read."""


def _whole_numbers(files: pa.Table) -> dict[str, pa.Array]:
    """Return the columns of whole numbers that statistics have, as text.

    A cast has a fixed cost. So several columns of a few files are cast at once.
    """
    by_type: dict[pa.DataType, list[str]] = {}
    for part in files.schema:
        if pa.types.is_integer(part.type) and ("." in part.name or part.name == "rows"):
            by_type.setdefault(part.type, []).append(part.name)
    count = files.num_rows
    together = max(1, _CAST_TOGETHER // max(1, count))
    texts: dict[str, pa.Array] = {}
    for names in by_type.values():
        for start in range(0, len(names), together):
            some = names[start : start + together]
            cast = pa.concat_arrays([whole(files[name]) for name in some]).cast(_STR)
            texts |= {name: cast.slice(at * count, count) for at, name in enumerate(some)}
    return texts


def _bounds(files: pa.Table, column: Field, side: str) -> pa.Array | None:
    """Return bounds as JSON, NULL where unknown; None if the type has none in Delta.

    Args:
        files: the files.
        column: of the bounds. It does not hold whole numbers.
        side: name of the bounds in `files`.
    """
    name, upper = str(column.type), side.startswith("upper.")
    values = whole(files[side])
    if name in ("boolean", "binary") or pa.types.is_null(values.type):
        return None
    if is_float(column.type):
        known = f"nans.{column.id}"
        if known not in files.column_names:
            return None
        # NaN is outside of bounds, and above all values for Spark.
        no_nan = pc.fill_null(pc.equal(whole(files[known]), 0), False)
        usable = pc.and_(no_nan, pc.fill_null(pc.is_finite(values), False))
        return pc.if_else(usable, values.cast(_STR), pa.scalar(None, _STR))
    if name in ("timestamp", "timestamp_ntz"):
        return _times(values, upper=upper, zone="Z" if name == "timestamp" else "")
    if name == "date":
        days = values.cast(pa.int32()).to_numpy(zero_copy_only=False)
        return _of_years(joined('"', values.cast(_STR), '"'), days * 86_400_000.0)
    if name.startswith("decimal"):
        return _plain(values.cast(_STR))
    assert name == "string", name
    return text(values)


def _plain(numbers: pa.Array) -> pa.Array:
    """Return decimals without exponents, which not all readers parse."""
    odd = pc.fill_null(pc.match_substring(numbers, "E"), False)
    if not pc.any(odd).as_py():
        return numbers
    made = [format(Decimal(number), "f") for number in numbers.filter(odd).to_pylist()]
    return pc.replace_with_mask(numbers, odd, pa.array(made, _STR))


def _times(micros: pa.Array, *, upper: bool, zone: str) -> pa.Array:
    """Return times as JSON, rounded outwards to milliseconds."""
    valid = micros.is_valid()
    numbers = pc.fill_null(micros.cast(_LONG), 0).to_numpy()
    # Floor division of the negative rounds up.
    ms = -(-numbers // 1000) if upper else numbers // 1000
    inside = (ms >= _YEARS[0]) & (ms <= _YEARS[1]) & valid.to_numpy(zero_copy_only=False)
    times = pa.array(np.where(inside, ms, 0)).cast(pa.timestamp("ms")).cast(_STR)
    shown = joined('"', pc.replace_substring(times, " ", "T"), zone + '"')
    return pc.if_else(pa.array(inside), shown, pa.scalar(None, _STR))


def _of_years(shown: pa.Array, ms: NDArray[np.float64]) -> pa.Array:
    inside = (ms >= _YEARS[0]) & (ms <= _YEARS[1])
    return pc.if_else(pa.array(inside), shown, pa.scalar(None, _STR))


def action_line(name: str, content: Mapping[str, Any]) -> bytes:
    """Return the line of one action."""
    return orjson.dumps({name: content}) + b"\n"


def selected(files: pa.Table, places: NDArray[np.int64] | Sequence[int]) -> pa.Table:
    """Return the files except those at some places."""
    if not len(places):
        return files
    mask = np.ones(files.num_rows, bool)
    mask[np.asarray(places)] = False
    return files.filter(pa.array(mask))


_STR, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
_TEXTS = pa.map_(_STR, _STR)

_ADD = pa.struct(
    [
        ("path", _STR),
        ("partitionValues", _TEXTS),
        ("size", _LONG),
        ("modificationTime", _LONG),
        ("dataChange", pa.bool_()),
        ("stats", _STR),
        ("tags", _TEXTS),
        ("deletionVector", VECTOR),
    ]
)
_REMOVE = pa.struct(
    [
        ("path", _STR),
        ("deletionTimestamp", _LONG),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXTS),
        ("size", _LONG),
        ("deletionVector", VECTOR),
    ]
)
_TXN = pa.struct([("appId", _STR), ("version", _LONG), ("lastUpdated", _LONG)])
_METADATA = pa.struct(
    [
        ("id", _STR),
        ("name", _STR),
        ("description", _STR),
        ("format", pa.struct([("provider", _STR), ("options", _TEXTS)])),
        ("schemaString", _STR),
        ("partitionColumns", pa.list_(_STR)),
        ("createdTime", _LONG),
        ("configuration", _TEXTS),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", _INT),
        ("minWriterVersion", _INT),
        ("readerFeatures", pa.list_(_STR)),
        ("writerFeatures", pa.list_(_STR)),
    ]
)


def checkpoint_bytes(
    protocol: Mapping[str, Any], metadata: Mapping[str, Any], files: FileActions, modified: int
) -> bytes:
    """Return the Parquet bytes: one row for each action.

    Args:
        protocol, metadata: the actions in force.
        files: all live files.
        modified: modification time of the files, ms.
    """
    count = len(files)
    described = {
        **metadata,
        "format": {"provider": "parquet", "options": []},
        "configuration": list(metadata["configuration"].items()),
    }
    adds = pa.concat_arrays([pa.nulls(2, _ADD), add_structs(files, modified, _ADD)])
    table = pa.table(
        {
            "txn": pa.nulls(count + 2, _TXN),
            "add": adds,
            "remove": pa.nulls(count + 2, _REMOVE),
            "metaData": _one([None, described], count, _METADATA),
            "protocol": _one([dict(protocol), None], count, _PROTOCOL),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    body: bytes = sink.getvalue().to_pybytes()
    return body


def have_same_files(found: bytes, made: bytes) -> bool:
    """Return whether two checkpoints are of one table, with the same files and vectors.

    Args:
        found: anybody may have written it.
        made: of `checkpoint_bytes`.
    """
    try:
        return _files_in(found) == _files_in(made)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError):
        return False


def _files_in(checkpoint: bytes) -> tuple[list[Any], list[Any]]:
    adds, tables = [], []
    for row in records_of(checkpoint, ["add", "metaData"]):
        if row.get("add") is not None:
            adds.append([row["add"][name] for name in ("path", "size", "deletionVector")])
        if row.get("metaData") is not None:
            tables.append(row["metaData"]["id"])
    return sorted(adds, key=lambda add: str(add[0])), tables


def _one(first: list[Any], count: int, kind: pa.StructType) -> pa.Array:
    return pa.concat_arrays([pa.array(first, kind), pa.nulls(count, kind)])
