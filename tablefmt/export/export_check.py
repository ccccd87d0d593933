"""Comparison of a copy with the log: the mark of its newest commit, and the files that it shows.

The copy is read by its own rules, not by the exporter's. Spec: XPT-1, XPT-3, XPT-20.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from urllib.parse import unquote

from tablefmt.errors import CorruptEntryError, CorruptTableError
from tablefmt.export.avro_file import read_records
from tablefmt.export.delta_target import LOG
from tablefmt.export.export_target import Mark
from tablefmt.export.iceberg_commit import key_of
from tablefmt.export.iceberg_manifests import DATA, DELETED
from tablefmt.export.iceberg_metadata import metadata_key
from tablefmt.export.iceberg_schema import Json
from tablefmt.export.iceberg_target import location_of
from tablefmt.export.table_export import target_of
from tablefmt.log.bounded_avro import AVRO_ERRORS
from tablefmt.log.bounded_records import records_of
from tablefmt.log.log_reader import has_entry
from tablefmt.log.strict_json import bounded_json, json_lines
from tablefmt.model.import_layouts import NUMBER
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import KeyNotFoundError, Store

Files = dict[str, tuple[int, int]]
"""Length in bytes and number of deleted rows by path; by address for a file outside the table."""

SHOWN = 5
"""Files that a problem names."""


def delta_files(store: Store, version: int) -> Files:
    """Return the files of a version by the Delta log alone.

    Raises:
        KeyNotFoundError, ValueError, KeyError, pyarrow.ArrowException: it is damaged.
    """
    keys = [one.key for one in store.list_after(LOG)]
    numbered = [key for key in keys if key[len(LOG) :][:20].isdigit()]
    roots = [key for key in numbered if key.endswith(".checkpoint.parquet")]
    roots = [key for key in roots if int(key[len(LOG) :][:20]) <= version]
    live: dict[tuple[str, str], tuple[int, int]] = {}
    first = 0
    if roots:
        first = int(roots[-1][len(LOG) :][:20]) + 1
        for row in records_of(store.get(roots[-1]), ["add"]):
            if row.get("add") is not None:
                _add(live, row["add"])
    for at in range(first, version + 1):
        lines = list(json_lines(store.get(f"{LOG}{at:020d}.json")))
        for line in lines:
            if "remove" in line:
                del live[_key(line["remove"])]
        for line in lines:
            if "add" in line:
                _add(live, line["add"])
    files = {unquote(path): value for (path, _), value in live.items()}
    if len(files) != len(live):
        raise ValueError("a path is live twice")
    return files


def _key(action: dict[str, object]) -> tuple[str, str]:
    vector = action.get("deletionVector")
    if not isinstance(vector, dict):
        return str(action["path"]), ""
    return str(action["path"]), f"{vector['pathOrInlineDv']}@{vector.get('offset')}"


def _add(live: dict[tuple[str, str], tuple[int, int]], add: dict[str, object]) -> None:
    vector = add.get("deletionVector")
    deleted = vector["cardinality"] if isinstance(vector, dict) else 0
    live[_key(add)] = (int(str(add["size"])), int(deleted))


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
        for path, rows in _deleted_rows(store, location, entry["data_file"]).items():
            if entry["data_file"]["file_format"] == "PUFFIN":
                if path in vectors or path not in sizes:
                    raise ValueError(f"a vector of {path} is stale")
                vectors.add(path)
            if path in since and entry["sequence_number"] >= since[path]:
                lost[path] += rows
    below = f"{location}/"
    return {path.removeprefix(below): (size, lost[path]) for path, size in sizes.items()}


def _deleted_rows(store: Store, location: str, delete_file: Json) -> dict[str, int]:
    """Return the number of rows by data file that a delete file deletes."""
    path = delete_file["referenced_data_file"]
    if path is not None:
        return {path: delete_file["record_count"]}
    body = store.get(key_of(delete_file["file_path"], location))
    found: Counter[str] = Counter()
    for row in records_of(body, ["file_path"]):
        found[row["file_path"]] += 1
    return dict(found)


CHECKS: dict[str, Callable[[Store, int], Files]] = {
    "delta": delta_files,
    "iceberg": iceberg_files,
}
"""Readers of copies by target."""


def copy_problems(view: LogView, names: tuple[str, ...] = tuple(CHECKS)) -> list[CorruptTableError]:
    """Return the problems of the copies of a table. Those of another table or program are ignored.

    Args:
        view: the log, at its head.
        names: targets.

    Raises:
        StoreError: the store does not answer.
    """
    problems = []
    for name in names:
        target = target_of(name)
        newest = target.newest(view.store)
        mark = None if newest is None else target.read_mark(newest[1])
        if newest is None or mark is None or mark.table != view.head.table:
            continue
        if mark.version > view.head.version and has_entry(view.store, mark.version):
            view = LogView.open(view.store)  # a commit came after the log was read
        problem = _problem(view, name, mark)
        if problem:
            problems.append(CorruptTableError(problem, key=newest[0], rule="XPT-1"))
    return problems


def _wanted(view: LogView, version: int) -> Files:
    files = view.snapshot(version).files
    paths, sizes, deleted = (files[name].to_pylist() for name in ("path", "size", "deleted"))
    imports = view.metadata_at(version).imports
    if NUMBER in files.column_names:
        roots = {
            number: f"{location_of(each.root)}/" for number, each in imports.items() if each.root
        }
        numbers = files[NUMBER].to_pylist()
        paths = [roots.get(number, "") + path for number, path in zip(numbers, paths, strict=True)]
    return dict(zip(paths, zip(sizes, deleted, strict=True), strict=True))


def _problem(view: LogView, name: str, mark: Mark) -> str:
    oldest, head = view.timeline.oldest, view.head.version
    if not oldest <= mark.version <= head:
        return f"the copy is at version {mark.version}; the table has versions {oldest} to {head}"
    if mark.version and not mark.is_of(view.entries_after(mark.version - 1, mark.version)[0]):
        return f"the entry of version {mark.version} has another hash"
    if not oldest <= mark.shown:
        return f"the copy shows version {mark.shown}, which is no longer kept"
    try:
        found = CHECKS[name](view.store, mark.version)
    except (CorruptTableError, CorruptEntryError, KeyNotFoundError, *AVRO_ERRORS) as error:
        return f"the copy cannot be read: {type(error).__name__}: {error}"
    wanted = _wanted(view, mark.shown)
    if found == wanted:
        return ""
    odd = sorted(path for path in {*found, *wanted} if found.get(path) != wanted.get(path))
    return (
        f"its files differ from version {mark.shown} of the log, {len(odd)} in all, among them "
        f"{', '.join(odd[:SHOWN])}"
    )
