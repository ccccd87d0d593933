"""Checkpoint of a copy in the form of Delta: its whole state in one Parquet object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.export.delta_actions import VECTOR, FileActions, add_structs

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


def _one(first: list[Any], count: int, kind: pa.StructType) -> pa.Array:
    return pa.concat_arrays([pa.array(first, kind), pa.nulls(count, kind)])
