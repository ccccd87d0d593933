"""Files of an Iceberg copy by its metadata alone, for a comparison with the log. Spec: XPT-20."""

from __future__ import annotations

from collections import Counter

from tablefmt.export.avro_file import read_records
from tablefmt.export.iceberg_commit import key_of
from tablefmt.export.iceberg_manifests import DATA, DELETED
from tablefmt.export.iceberg_metadata import metadata_key
from tablefmt.export.iceberg_schema import Json
from tablefmt.log.bounded_records import records_of
from tablefmt.log.strict_json import bounded_json
from tablefmt.store.object_store import Store

Files = dict[str, tuple[int, int]]
"""Length in bytes and number of deleted rows by path; by address for a file outside the table."""


def iceberg_files(store: Store, version: int) -> Files:
    """Return the files that the metadata file of a version shows.

    A positional delete applies to files of the same sequence number or a lower one. A file with a
    vector has no other deletes.

    Raises:
        KeyNotFoundError, ValueError, KeyError, pyarrow.ArrowException, CorruptTableError: it is
            damaged.
    """
    made = bounded_json(store.get(metadata_key(version)))
    location = made["location"]

    def records(path: str) -> list[Json]:
        key = key_of(path, location)
        return read_records(store.get(key), key)

    sizes: dict[str, int] = {}
    since: dict[str, int] = {}
    deletes: list[Json] = []
    for manifest in records(made["snapshots"][-1]["manifest-list"]):
        for entry in records(manifest["manifest_path"]):
            if entry["status"] == DELETED:
                continue
            if manifest["content"] != DATA:
                deletes.append(entry)
                continue
            path = entry["data_file"]["file_path"]
            if path in sizes:
                raise ValueError(f"the path {path} is live twice")
            sizes[path] = entry["data_file"]["file_size_in_bytes"]
            since[path] = entry["sequence_number"]
    lost: Counter[str] = Counter()
    vectors: set[str] = set()
    for entry in deletes:
        for path, rows in _deleted(store, location, entry["data_file"]).items():
            if entry["data_file"]["file_format"] == "PUFFIN":
                if path in vectors or path not in sizes:
                    raise ValueError(f"a vector of {path} is stale")
                vectors.add(path)
            if path in since and entry["sequence_number"] >= since[path]:
                lost[path] += rows
    below = f"{location}/"
    return {path.removeprefix(below): (size, lost[path]) for path, size in sizes.items()}


def _deleted(store: Store, location: str, delete_file: Json) -> dict[str, int]:
    """Return the number of rows by data file that a delete file deletes."""
    path = delete_file["referenced_data_file"]
    if path is not None:
        return {path: delete_file["record_count"]}
    body = store.get(key_of(delete_file["file_path"], location))
    found: Counter[str] = Counter()
    for row in records_of(body, ["file_path"]):
        found[row["file_path"]] += 1
    return dict(found)
