"""Entries one by one, each checked against the entry before it, as far as they exist."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from tablefmt.cli.entries import entry_record, file_records
from tablefmt.cli.output import Json, progress
from tablefmt.errors import VersionNotFoundError
from tablefmt.log.reader import kept_from, read_each
from tablefmt.model.entry import Entry, Metadata
from tablefmt.snapshot.head import advance, first_head
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store


def checked_entries(store: Store) -> Iterator[tuple[Entry, Metadata]]:
    """Yield every entry with the metadata in force.

    For an expired log: the first entry, and the entries that are kept (RET-9).

    Raises:
        TableNotFoundError, CorruptTableError, UnsupportedFeatureError: at the entry concerned.
    """
    head = None
    try:
        with progress("reading the log") as show:
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
            record["removed"] = file_records(before.of_ids(removed), metadata)
    return record


def _kept(store: Store) -> tuple[LogView, int]:
    """Return the log from a checkpoint on, and the first version whose entry is kept."""
    view = LogView.open(store, ended=True)
    return view, kept_from(store, view.head.version)
