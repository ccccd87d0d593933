"""Log entries as records: every field, with times as text and one record for each file.

Entries are read one by one, each checked against the entry before it, as far as they exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.cli.output import Json, plain_column, progress
from tablefmt.errors import CorruptTableError, VersionNotFoundError
from tablefmt.expressions.generated_columns import check_conditions, generated_expressions
from tablefmt.log.entry_json import cursors_to_json, derived_to_json, scope_to_json
from tablefmt.log.log_reader import kept_from, read_each
from tablefmt.log.metadata_json import schema_to_json
from tablefmt.log.overflow_metadata import read_deletes, read_overflow
from tablefmt.model.log_entry import (
    OWN,
    AddedFiles,
    Entry,
    Lineage,
    Metadata,
    OverflowFile,
)
from tablefmt.model.positions import decode_positions, delete_columns, marks_of
from tablefmt.model.times import show_time
from tablefmt.snapshot.file_columns import (
    added_table,
    exact_sum,
    numbers_of,
    with_partitioning,
)
from tablefmt.snapshot.head import advance, first_head
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store

WINDOW_ENTRIES = 256
WINDOW_FILES = 4096
"""Entries, or added files, that are converted together."""

Read = tuple[Entry, Metadata]
"""An entry, and the metadata in force at its version."""


def entry_records(store: Store, entries: Iterable[Read]) -> Iterator[Json]:
    """Yield entries as records. A window of them is in memory at a time.

    Args:
        store: store to read the overflow metadata files from, if entries have any.
        entries: in any order. If reading them raises, the records of those before come first.

    Raises:
        CorruptTableError: ADD-6, KEY-2, VAL-1.
    """
    for window in _windows(entries):
        files = _added_together(window)
        for at, (entry, metadata) in enumerate(window):
            # An entry alone tells whether its own values are wrong.
            added = files[at] if at in files else added_files(store, entry, metadata)
            yield _record(store, entry, metadata, added)


def _windows(entries: Iterable[Read]) -> Iterator[list[Read]]:
    """Yield entries in lists of few entries and files. After an error, yield what was read."""
    window: list[Read] = []
    files = 0
    try:
        for read in entries:
            window.append(read)
            files += 0 if read[0].add is None else len(read[0].add)
            if len(window) >= WINDOW_ENTRIES or files >= WINDOW_FILES:
                yield window
                window, files = [], 0
    except CorruptTableError:
        yield window
        raise
    yield window


def _added_together(window: Sequence[Read]) -> dict[int, list[Json]]:
    """Return the records of added files by the place of their entry.

    Entries with values that do not fit, and those with an overflow metadata file, are left out.
    """
    alike: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for at, (entry, metadata) in enumerate(window):
        if isinstance(entry.add, AddedFiles):
            alike.setdefault((id(metadata), tuple(entry.add.columns)), []).append(at)
    found: dict[int, list[Json]] = {}
    for (_, names), places in alike.items():
        added = [a for at in places if isinstance(a := window[at][0].add, AddedFiles)]
        columns = {name: [v for one in added for v in one.columns[name]] for name in names}
        next_ids = [window[at][0].totals.next_id for at in places]
        ids = [
            i for one, end in zip(added, next_ids, strict=True) for i in range(end - len(one), end)
        ]
        metadata = window[places[0]][1]
        with suppress(CorruptTableError):
            table = added_table(AddedFiles(columns), metadata)
            table = table.append_column("id", pa.array(ids, pa.int64()))
            stored = {**columns, "id": ids}
            records = iter(file_records(table, metadata, bounds=True, stored=stored))
            for at, one in zip(places, added, strict=True):
                found[at] = list(islice(records, len(one)))
    return found


def entry_record(store: Store, entry: Entry, metadata: Metadata) -> Json:
    """Return one entry as a record. Arguments and errors are those of `entry_records`."""
    (record,) = entry_records(store, [(entry, metadata)])
    return record


def _record(store: Store, entry: Entry, metadata: Metadata, added: list[Json]) -> Json:
    """Return one entry as `log --json` prints it."""
    operation, basis = entry.operation, entry.basis
    record: Json = {
        "version": entry.version,
        "timestamp": show_time(entry.timestamp),
        "time_version": show_time(entry.time_version),
        "operation": operation.name,
        "class": operation.cls.value,
        "parameters": dict(operation.parameters),
        "metrics": dict(operation.metrics),
        "basis": {
            "read_version": basis.read_version,
            "isolation": basis.isolation,
            "granularity": basis.granularity,
            "blind": basis.blind,
            "scope": scope_to_json(basis.scope),
            **({} if basis.predicate is None else {"predicate": basis.predicate}),
        },
        "added": added,
        "removed_ids": list(entry.remove),
        "deletes": row_deletes(store, entry),
        "totals": {
            "files": entry.totals.files,
            "rows": entry.totals.rows,
            "bytes": entry.totals.bytes,
            "next_id": entry.totals.next_id,
            "metadata_version": entry.totals.metadata_version,
            "deleted": entry.totals.deleted,
            "oldest": entry.totals.oldest,
        },
        "table": entry.table,
        "transaction": entry.transaction,
        "previous": entry.previous,
        "user_metadata": dict(entry.user_metadata),
    }
    return record | _more(entry)


def _more(entry: Entry) -> Json:
    """Return the optional fields that few entries have."""
    record: Json = {}
    if entry.lineage is not None:
        record["lineage"] = lineage_records(entry.lineage)
    if entry.update is not None:
        chosen = None if entry.update.set is None else list(entry.update.set)
        record["update"] = {"set": chosen, "keys": list(entry.update.keys)}
    if entry.application is not None:
        mine = entry.application
        record["application"] = {"id": mine.id, "version": mine.version, "digest": mine.digest}
    if entry.derived_from is not None:
        record["derived_from"] = derived_to_json(entry.derived_from)
    if entry.cursors:
        record["cursors"] = cursors_to_json(entry.cursors)
    if entry.protocol is not None:
        features = {"reader": list(entry.protocol.reader), "writer": list(entry.protocol.writer)}
        record["protocol"] = features
    if entry.metadata is not None:
        record["metadata"] = {
            "schema": schema_to_json(entry.metadata.schema),
            "partition_by": entry.metadata.partition_names,
            "properties": dict(entry.metadata.properties),
            "constraints": check_conditions(entry.metadata),
            "generatedColumns": generated_expressions(entry.metadata),
        }
        if entry.metadata.is_evolved:
            record["metadata"]["partitionings"] = {
                str(number): entry.metadata.partitioned_as(number).partition_names
                for number in sorted(entry.metadata.numbered)
            }
    if entry.horizon is not None:
        record["horizon"] = {"version": entry.horizon.version}
    if entry.unknown:
        record["unknown"] = dict(entry.unknown)
    return record


def row_deletes(store: Store, entry: Entry) -> list[Json]:
    """Return the number of rows that an entry deletes and updates, with one record for each
    file.
    """
    if entry.delete is None:
        return []
    if isinstance(entry.delete, OverflowFile):
        columns = read_deletes(store, entry.delete)
    else:
        columns = delete_columns(entry.delete)
    return [
        {"id": file, "deleted": len(marks.deleted), "updated": len(marks.updated)}
        for file, marks in marks_of(columns).items()
    ]


@dataclass(frozen=True, slots=True)
class ChangeSums:
    """Sums of what an entry adds and deletes."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    deleted: int = 0
    """Rows that it deletes or updates by deletion vectors."""


def change_sums(store: Store, entry: Entry) -> ChangeSums:
    """Return the sums of an entry. Only an overflow metadata file is read.

    Raises:
        CorruptTableError: ADD-6.
    """
    files = rows = size = deleted = 0
    if isinstance(entry.add, OverflowFile):
        columns = read_overflow(store, entry.add)
        files = columns.num_rows
        rows, size = (exact_sum(columns[name].to_numpy()) for name in ("rows", "size"))
    elif entry.add is not None:
        files, rows, size = len(entry.add), entry.add.rows, entry.add.bytes
    if isinstance(entry.delete, OverflowFile):
        deleted = exact_sum(read_deletes(store, entry.delete)["rows"].to_numpy())
    elif entry.delete is not None:
        deleted = sum(entry.delete.rows)
    return ChangeSums(files, rows, size, deleted)


def lineage_records(lineage: Lineage) -> list[Json]:
    """Return one record for each run: its output, input file, start and row count."""
    return [
        {
            "output": output,
            "input": file,
            "start": start,
            "rows": rows,
            "dropped": 0 if dropped is None else len(decode_positions(dropped)),
        }
        for output, file, start, rows, dropped in zip(
            lineage.output, lineage.input, lineage.start, lineage.rows, lineage.dropped, strict=True
        )
    ]


def added_files(store: Store, entry: Entry, metadata: Metadata) -> list[Json]:
    """Return the files an entry adds, in the order of their ids."""
    if entry.add is None:
        return []
    if isinstance(entry.add, OverflowFile):
        columns = read_overflow(store, entry.add)
    else:
        columns = added_table(entry.add, metadata)
    first = entry.totals.next_id - columns.num_rows
    ids = pa.array(range(first, entry.totals.next_id), pa.int64())
    return file_records(columns.append_column("id", ids), metadata, bounds=True)


def file_records(
    files: pa.Table,
    metadata: Metadata,
    *,
    bounds: bool = False,
    stored: Mapping[str, list[Any]] | None = None,
) -> list[Json]:
    """Return files as records: id, path, size, rows, and partition by name.

    Records have the number of deleted rows if the files come from a known version.

    Args:
        files: of a version, or of an entry.
        metadata: in force there. If it has several partitionings, records have `partitioned_by`.
        bounds: add the column bounds.
        stored: columns of `files` as an entry has them. Integers and texts are the same in JSON.
    """
    known = {} if stored is None else stored

    def column(name: str) -> list[Any]:
        kind = files.schema.field(name).type
        if name in known and (pa.types.is_integer(kind) or pa.types.is_string(kind)):
            return known[name]
        return plain_column(files[name])

    names = {field.id: field.name for field in metadata.schema.with_hidden}
    rows = [
        {"id": i, "path": p, "size": s, "rows": r, "partition": {}}
        for i, p, s, r in zip(
            *(column(name) for name in ("id", "path", "size", "rows")), strict=True
        )
    ]
    if "deleted" in files.column_names:
        for row, deleted in zip(rows, files["deleted"].to_pylist(), strict=True):
            row["deleted"] = deleted
    groups: dict[str, dict[int, list[Any]]] = {}
    for name in files.column_names:
        group, dot, field_id = name.replace(OWN, "partition.").partition(".")
        if dot and int(field_id) in names and (bounds or group == "partition"):
            groups.setdefault(group, {})[int(field_id)] = column(name)
    numbers = numbers_of(with_partitioning(files, metadata.partitioning)).tolist()
    for group, columns in groups.items():
        titles = [names[field] for field in columns]
        values = zip(*columns.values(), strict=True)
        if group == "partition":
            own = _partitions(titles, values, list(columns), metadata, numbers)
        else:
            own = _known_values(titles, values, any(None in each for each in columns.values()))
        for row, record in zip(rows, own, strict=True):
            if record:
                row[group] = record
    if metadata.is_evolved:
        declared = {
            n: ", ".join(metadata.partitioned_as(n).partition_names) for n in metadata.numbered
        }
        for row, number in zip(rows, numbers, strict=True):
            row["partitioned_by"] = declared[number]
    return rows


def _partitions(
    names: list[str],
    values: Iterable[tuple[Any, ...]],
    ids: list[int],
    metadata: Metadata,
    numbers: Sequence[int],
) -> Iterator[Json]:
    """Yield the partition of each file, without fields that its partitioning lacks."""
    if not metadata.is_evolved:
        yield from (dict(zip(names, row, strict=True)) for row in values)
        return
    fields = list(zip(ids, names, strict=True))
    held = {
        number: [at for at, (field, _) in enumerate(fields) if field in metadata.numbered[number]]
        for number in set(numbers)
    }
    for row, number in zip(values, numbers, strict=True):
        yield {names[at]: row[at] for at in held[number]}


def _known_values(
    names: list[str], values: Iterable[tuple[Any, ...]], some_unknown: bool
) -> Iterator[Json]:
    """Yield the values of each file by name, without those that are unknown."""
    for row in values:
        pairs = zip(names, row, strict=True)
        yield {n: v for n, v in pairs if v is not None} if some_unknown else dict(pairs)


def checked_entries(store: Store, *, shows: bool = True) -> Iterator[Read]:
    """Yield every entry with the metadata in force.

    For an expired log: the first entry, and the entries that are kept (RET-9).

    Args:
        store: of the log.
        shows: show a progress bar. It would be in the way of lines that are printed meanwhile.

    Raises:
        TableNotFoundError, CorruptTableError, UnsupportedFeatureError: at the entry concerned.
    """
    head = None
    try:
        with progress("reading the log") if shows else nullcontext() as show:
            for stored in read_each(store, show):
                head = first_head(stored) if head is None else advance(head, stored)
                yield stored.entry, head.metadata
    except VersionNotFoundError:
        view, first = _kept(store)
        for stored in view.entries_after(first - 1):
            yield stored.entry, view.metadata_at(stored.version)


def whole_entry(store: Store, version: int) -> Json:
    """Return the record of one entry, with its removed files.

    The removed files are null if the version before is not kept. Damage in later entries does not
    matter.

    Raises:
        VersionNotFoundError: the entry does not exist, or is not kept.
        CorruptTableError: the log is damaged.
    """
    try:
        with progress("reading the log") as shown:
            entries = list(islice(read_each(store, shown), version + 1))
        view, first = LogView(store, entries), 0
    except VersionNotFoundError:
        view, first = _kept(store)
        kept = first <= version <= view.head.version
        entries = view.entries_after(version - 1, version) if kept else []
    if not entries or entries[-1].version != version:
        raise VersionNotFoundError(f"version {version}", first, view.head.version)
    entry, metadata = entries[-1].entry, view.metadata_at(version)
    record = entry_record(store, entry, metadata)
    removed = np.asarray(entry.remove, np.int64)
    record["removed"] = []
    if len(removed):
        try:
            before = view.snapshot(version - 1)
        except VersionNotFoundError:
            record["removed"] = None
        else:
            record["removed"] = file_records(before.of_ids(removed), before.metadata)
    return record


def _kept(store: Store) -> tuple[LogView, int]:
    """Return the log from a checkpoint on, and the first version whose entry is kept."""
    view = LogView.open(store, ended=True)
    return view, kept_from(store, view.head.version)
