"""Delete files and their manifests: positional deletes of format 2, vectors of format 3. Pure.

Format 2 has a Parquet file with the positions that one version deletes from one data file. A
version that deletes rows of many files has one for each partition. Format 3 has one vector for each
data file, the union of all deletes, and one Puffin file for each version. Spec: XPT-26.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.errors import CorruptTableError
from tablefmt.export.avro_file import ADVICE, decode, write_records
from tablefmt.export.iceberg_manifests import (
    ADDED,
    DELETED,
    DELETES,
    DELETES_FULL,
    EXISTING,
    Manifest,
    NewObject,
    TableForm,
    list_record,
    manifest_facts,
    named,
    partition_record,
)
from tablefmt.export.iceberg_records import entry_schema
from tablefmt.export.iceberg_schema import Json

SINGLE_MAX = 100
"""Data files of one version up to which each has a delete file of its own. Some readers take only
such delete files.
"""

_PATH_ID, _POS_ID, _ROW_ID = 2_147_483_546, 2_147_483_545, 2_147_483_645
_MAGIC = b"PFA1"
_VECTOR_MAGIC = 1681511377
_NAME = re.compile(r"deletes-\d+-(\d+)-(\d+)-[0-9a-f]+\.parquet")

Positions = Callable[[int, int], BitMap64]
"""Deleted positions to write for a data file, by its id and its number of rows."""

_PLAIN: Json = {
    "content": 1,
    "column_sizes": None,
    "value_counts": None,
    "null_value_counts": None,
    "nan_value_counts": None,
    "lower_bounds": None,
    "upper_bounds": None,
    "key_metadata": None,
    "split_offsets": None,
    "equality_ids": None,
    "sort_order_id": None,
    "first_row_id": None,
    "referenced_data_file": None,
    "content_offset": None,
    "content_size_in_bytes": None,
}
"""Fields of a delete file that say nothing by default."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete file in a manifest."""

    entry: Json
    """Entry of the manifest, by `entry_schema`."""
    low: int
    high: int
    """Lowest and highest id of a data file whose rows it deletes, or wider."""


def new_delete_files(
    table: TableForm, files: pa.Table, positions: Positions
) -> tuple[list[DeleteFile], list[NewObject]]:
    """Return the delete files of one version, and the objects that hold them.

    Args:
        table: facts of the snapshot.
        files: data files whose rows the version deletes, with `id`, `path`, `rows` and partitions.
        positions: the positions to write: in format 2 the version's own, in format 3 all.
    """
    if not files.num_rows:
        return [], []
    schema = _partition_schema(table)
    partitions = partition_record(table.spec, files)
    victims = [
        _Victim(file, address.decode(), partition, positions(file, rows))
        for file, rows, address, partition in zip(
            *(files[name].to_pylist() for name in ("id", "rows")),
            table.addresses(files).to_pylist(),
            partitions.to_pylist(),
            strict=True,
        )
    ]
    if table.form >= 3:
        return _vectors(table, victims, schema)
    groups: dict[Any, list[_Victim]] = {}
    for victim in victims:
        alone = len(victims) <= SINGLE_MAX
        groups.setdefault(victim.file if alone else victim.partition, []).append(victim)
    made, objects = [], []
    for group in groups.values():
        delete_file, written = _positional(table, group, schema)
        made.append(delete_file)
        objects.append(written)
    return made, objects


@dataclass(frozen=True, slots=True)
class _Victim:
    """Data file that loses rows."""

    file: int
    path: str
    partition: bytes
    """Avro bytes of its partition values."""
    positions: BitMap64


def _positional(
    table: TableForm, victims: list[_Victim], schema: Any
) -> tuple[DeleteFile, NewObject]:
    victims = sorted(victims, key=lambda victim: victim.path)
    sizes = [len(victim.positions) for victim in victims]
    index = pa.array(np.repeat(np.arange(len(victims), dtype=np.int32), sizes))
    paths = pa.DictionaryArray.from_arrays(index, [victim.path for victim in victims])
    places = np.concatenate([np.asarray(v.positions.to_array(), np.int64) for v in victims])
    rows = pa.table([paths.cast(pa.string()), pa.array(places)], _POSITION_COLUMNS)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    body = sink.getvalue().to_pybytes()
    ids = [victim.file for victim in victims]
    key = named("deletes", table.snapshot, min(ids), max(ids), body, "parquet")
    data_file = {
        **_PLAIN,
        "file_path": f"{table.location}/{key}",
        "file_format": "PARQUET",
        "partition": decode(schema, victims[0].partition, 0)[0],
        "record_count": len(places),
        "file_size_in_bytes": len(body),
        "lower_bounds": [{"key": _PATH_ID, "value": victims[0].path.encode()}],
        "upper_bounds": [{"key": _PATH_ID, "value": victims[-1].path.encode()}],
        "referenced_data_file": victims[0].path if len(victims) == 1 else None,
    }
    made = DeleteFile(_added(table, data_file), min(ids), max(ids))
    return made, NewObject(key, body)


_POSITION_COLUMNS = pa.schema(
    [
        pa.field(name, kind, False, {b"PARQUET:field_id": str(number).encode()})
        for name, kind, number in (
            ("file_path", pa.string(), _PATH_ID),
            ("pos", pa.int64(), _POS_ID),
        )
    ]
)


def _vectors(
    table: TableForm, victims: list[_Victim], schema: Any
) -> tuple[list[DeleteFile], list[NewObject]]:
    """Return one Puffin file with the vectors of data files, and the entry of each vector."""
    body, blobs = bytearray(_MAGIC), []
    for victim in victims:
        packed = vector_blob(victim.positions)
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_ID],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(body),
                "length": len(packed),
                "properties": {
                    "referenced-data-file": victim.path,
                    "cardinality": str(len(victim.positions)),
                },
            }
        )
        body += packed
    footer = orjson.dumps({"blobs": blobs, "properties": {"created-by": "tablefmt"}})
    body += _MAGIC + footer + struct.pack("<I", len(footer)) + bytes(4) + _MAGIC
    low, high = min(v.file for v in victims), max(v.file for v in victims)
    key = named("vectors", table.snapshot, low, high, bytes(body), "puffin")
    made = []
    for victim, blob in zip(victims, blobs, strict=True):
        data_file = {
            **_PLAIN,
            "file_path": f"{table.location}/{key}",
            "file_format": "PUFFIN",
            "partition": decode(schema, victim.partition, 0)[0],
            "record_count": len(victim.positions),
            "file_size_in_bytes": len(body),
            "referenced_data_file": victim.path,
            "content_offset": blob["offset"],
            "content_size_in_bytes": blob["length"],
        }
        made.append(DeleteFile(_added(table, data_file), victim.file, victim.file))
    return made, [NewObject(key, bytes(body))]


def vector_blob(positions: BitMap64) -> bytes:
    """Return the blob `deletion-vector-v1`: length, magic number, bitmap, checksum."""
    small = positions.copy()
    small.run_optimize()
    data = struct.pack("<I", _VECTOR_MAGIC) + small.serialize()
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def _added(table: TableForm, data_file: Json) -> Json:
    return {
        "status": ADDED,
        "snapshot_id": table.snapshot,
        "sequence_number": table.snapshot,
        "file_sequence_number": table.snapshot,
        "data_file": data_file,
    }


def kept_delete_files(
    table: TableForm,
    manifest: Manifest,
    entries: Sequence[Json],
    replaced: frozenset[str],
    live: NDArray[np.int64],
) -> Iterator[DeleteFile]:
    """Yield the delete files of an older manifest that still delete rows of live files.

    Args:
        table: facts of the snapshot.
        manifest: the manifest.
        entries: its entries.
        replaced: addresses of data files whose vectors do not apply any more (format 3).
        live: ids of all live files, ascending.
    """
    names = [field["name"] for field in _partition_schema(table)["fields"]]
    widths = [_fixed_width(field) for field in _partition_schema(table)["fields"]]
    for entry in entries:
        data_file = entry["data_file"]
        low, high = manifest.low, manifest.high
        if data_file["file_format"] == "PUFFIN":
            alive = data_file["referenced_data_file"] not in replaced
        else:
            low, high = _range_of(data_file["file_path"])
            first, last = np.searchsorted(live, [low, high + 1])
            alive = bool(last > first)
        if entry["status"] == DELETED or not alive:
            continue
        values = zip(data_file["partition"].values(), widths, strict=True)
        partition = dict(zip(names, (_widened(*pair) for pair in values), strict=True))
        kept = {**_PLAIN, **data_file, "partition": partition}
        yield DeleteFile({**entry, "status": EXISTING, "data_file": kept}, low, high)


def _range_of(path: str) -> tuple[int, int]:
    match = _NAME.fullmatch(path.rpartition("/")[2])
    if match is None:
        message = f"{path!r} is not the name of a delete file of an export"
        raise CorruptTableError(message, rule="XPT-26", advice=ADVICE)
    return int(match[1]), int(match[2])


def _fixed_width(field: Json) -> int:
    kind = field["type"][1]
    return int(kind["size"]) if isinstance(kind, dict) and kind["type"] == "fixed" else 0


def _widened(value: Any, width: int) -> Any:
    """Return a decimal's bytes in the width of a column that was widened since."""
    if not width or value is None:
        return value
    return (b"\xff" if value[0] >= 0x80 else b"\x00") * (width - len(value)) + value


def delete_manifests(
    table: TableForm, delete_files: Sequence[DeleteFile]
) -> Iterator[tuple[Manifest, NewObject]]:
    """Yield manifests of delete files, each with its object."""
    ordered = sorted(delete_files, key=lambda each: (each.low, each.high))
    for start in range(0, len(ordered), DELETES_FULL):
        part = ordered[start : start + DELETES_FULL]
        kinds = list(zip(table.spec.fields, table.spec.kinds, strict=True))
        entries = [each.entry for each in part]
        schema, facts = entry_schema(kinds, table.form), manifest_facts(table, "deletes")
        body = write_records(schema, facts, entries)
        low, high = min(each.low for each in part), max(each.high for each in part)
        key = named("deletes", table.snapshot, low, high, body, "avro")
        counts = {
            status: (len(rows), sum(rows))
            for status in (EXISTING, ADDED, DELETED)
            for rows in [[e["data_file"]["record_count"] for e in entries if e["status"] == status]]
        }
        record = list_record(
            table,
            key=key,
            length=len(body),
            content=DELETES,
            least=min(entry["sequence_number"] for entry in entries),
            counts=counts,
            partitions=None,
            first_row_id=None,
        )
        yield Manifest(record, low, high), NewObject(key, body)


def _partition_schema(table: TableForm) -> Any:
    kinds = list(zip(table.spec.fields, table.spec.kinds, strict=True))
    data_file = entry_schema(kinds, table.form)["fields"][4]["type"]
    return data_file["fields"][3]["type"]
