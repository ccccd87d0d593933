"""Large columns of an entry go to side files before the entry is sent. Spec: ADD-6, DEL-3."""

from __future__ import annotations

from dataclasses import replace

import orjson

from tablefmt.commit.plan import Plan
from tablefmt.log.side_files import (
    DELETES_ABOVE_BYTES,
    SIDE_ABOVE_BYTES,
    write_deletes,
    write_side,
)
from tablefmt.model.entry import AddedFiles, Entry, RowDeletes, SideFile
from tablefmt.snapshot.file_columns import added_table
from tablefmt.store.protocol import Store

SIDE_FROM_FILES = 2000
"""Fewer files than this seldom reach SIDE_ABOVE_BYTES, so their size is not computed."""


class SideFileWriter:
    """The side files of one transaction. What did not change since the last entry stays."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.store = store
        self.plan = plan
        self._add: tuple[AddedFiles, AddedFiles | SideFile] | None = None
        self._delete: tuple[RowDeletes, RowDeletes | SideFile] | None = None

    def entry(self, entry: Entry) -> Entry:
        """The entry with side files in place of what is large; they are durable then.

        Raises:
            StoreError: a side file cannot be written.
        """
        add, delete = entry.add, entry.delete
        if isinstance(add, AddedFiles) and len(add) >= SIDE_FROM_FILES:
            if self._add is None or self._add[0] is not add:
                self._add = (add, self._added(add))
            entry = replace(entry, add=self._add[1])
        if isinstance(delete, RowDeletes) and _size(delete) > DELETES_ABOVE_BYTES:
            if self._delete is None or self._delete[0] != delete:
                side = write_deletes(self.store, self.plan.transaction, delete)
                self._delete = (delete, side)
            entry = replace(entry, delete=self._delete[1])
        return entry

    def _added(self, add: AddedFiles) -> AddedFiles | SideFile:
        # The entry may bring the metadata that its files were written under.
        metadata = self.plan.staged.metadata or self.plan.staged.written_under
        if metadata is None or len(orjson.dumps(dict(add.columns))) <= SIDE_ABOVE_BYTES:
            return add
        return write_side(self.store, self.plan.transaction, added_table(add, metadata))


def _size(deletes: RowDeletes) -> int:
    """Characters of the columns in an entry, about."""
    texts = (len(text) for column in (deletes.deleted, deletes.updated) for text in column if text)
    return sum(texts) + 24 * len(deletes)
