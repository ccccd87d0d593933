"""Copies of the files of a deep clone. Copies that the table to replace has are not made again.

Spec: CLN-3, CLN-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tablefmt.imports.clone_plan import CloneSource, copies_there, copy_names
from tablefmt.imports.file_copies import FileCopy, copy_files
from tablefmt.log.object_names import data_folder
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.import_roots import folder_of
from tablefmt.store.object_store import Store

Progress: TypeAlias = Callable[[int, int], None]


class CloneCopies:
    """Copies of the files of one version, in the place of its clone."""

    def __init__(
        self,
        store: Store,
        source: CloneSource,
        target: Store,
        transaction: str,
        progress: Progress | None,
    ) -> None:
        """Begin without copies.

        Args:
            store: of the source.
            source: the version to clone.
            target: the place of the clone.
            transaction: of the clone.
            progress: gets the number of files that were copied, and that of all files to copy.
        """
        self._store, self._source, self._target = store, source, target
        self._folder, self._names = data_folder(transaction), copy_names(source)
        self._progress = progress
        self._made: set[int] = set()
        """Places of the files that this clone copied."""

    def paths(self, table: Snapshot | None) -> list[str]:
        """Return the path of each copy, after making those that are missing.

        Args:
            table: newest version of the table to replace; None: the place is free.

        Raises:
            CorruptDataError: DAT-5, a file of the source is missing or damaged.
        """
        known: Sequence[str | None] = [None] * len(self._names)
        if table is not None:
            known = copies_there(self._source, self._names, table)
        missing = [at for at, path in enumerate(known) if path is None and at not in self._made]
        for done in copy_files(self._copies(missing), self._target):
            if self._progress is not None:
                self._progress(done, len(missing))
        self._made.update(missing)
        return [
            self._folder + self._names[at] if path is None or at in self._made else path
            for at, path in enumerate(known)
        ]

    def are_shared(self, paths: Sequence[str]) -> bool:
        """Return whether the table to replace has some of these copies."""
        return any(not path.startswith(self._folder) for path in paths)

    def _copies(self, places: Sequence[int]) -> Iterator[FileCopy]:
        files, imports = (
            self._source.files.take(pa.array(places, pa.int64())),
            self._source.imports(),
        )
        numbers = self._source.numbers().take(pa.array(places, pa.int64())).to_pylist()
        columns = [_values(files, name) for name in ("path", "size", "footer", "digest")]
        for at, path, size, footer, digest, number in zip(places, *columns, numbers, strict=True):
            folder = self._store if number is None else folder_of(self._store, imports[number].root)
            into = self._folder + self._names[at]
            yield FileCopy(folder, path, into, size, footer, digest)


def _values(files: pa.Table, name: str) -> list[Any]:
    if name in files.column_names:
        return list(files[name].to_pylist())
    return [None] * files.num_rows
