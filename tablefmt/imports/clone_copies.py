"""Copies of the files of a deep clone, byte for byte. Copies that the table to replace has are not
made again.

A copy is checked against the log of its source: length, checksum of the footer (ADD-7), and the
digest of a file without page checksums (IMP-6). So damage is not copied in silence.
Spec: CLN-3, CLN-6, DAT-5, DAT-6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from tablefmt.data.file_checksum import PIECE_BYTES, read_ends
from tablefmt.data.file_verification import MISSING
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.errors import CorruptDataError
from tablefmt.imports.clone_plan import CloneSource, copies_there, copy_names
from tablefmt.log.object_names import data_folder
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.import_roots import folder_of
from tablefmt.store.object_store import KeyNotFoundError, Store

Progress: TypeAlias = Callable[[int, int], None]

THREADS = 8
"""Files copied at once. Each has at most one piece in memory."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file to copy."""

    store: Store
    """The store with the file."""
    path: str
    into: str
    """Path of the copy."""
    size: int
    """Length in bytes by the log."""
    footer: int | None
    """Checksum of the footer by the log, if it is known."""
    digest: bytes | None
    """SHA-256 of the whole file by the log, if it is known."""


def copy_files(copies: Iterator[FileCopy], target: Store) -> Iterator[int]:
    """Copy files in their order. Yield the number of files so far after each one.

    Raises:
        CorruptDataError: DAT-5, a file is missing or damaged.
        StoreError: a store cannot answer.
    """
    done = side_by_side(lambda each: _copy(each, target), copies, THREADS)
    for number, _ in enumerate(done, 1):
        yield number


def _copy(each: FileCopy, target: Store) -> None:
    whole = hashlib.sha256()
    with target.open_output(each.into) as out:
        for piece in _pieces(each):
            whole.update(piece)
            out.write(piece)
        if each.digest is not None and each.digest != whole.digest():
            raise _damaged(each, "its bytes do not match the digest in the log", "IMP-6")
    (end,) = read_ends(target, [(each.into, each.size)])
    if end is None or not end.is_sound(each.size, each.footer):
        target.delete(each.into)
        raise _damaged(each, "its footer bytes do not match the checksum in the log", "ADD-7")


def _pieces(each: FileCopy) -> Iterator[bytes]:
    """Yield the bytes of a file of the right length."""
    for start in range(0, each.size, PIECE_BYTES):
        expected = min(PIECE_BYTES, each.size - start)
        # One byte beyond the expected end shows whether the file is longer.
        length = expected + (start + expected == each.size)
        try:
            piece = each.store.get_range(each.path, start, length)
        except KeyNotFoundError:
            raise _damaged(each, MISSING, "DAT-5") from None
        if len(piece) != expected:
            raise _damaged(each, f"its length is not the {each.size} bytes of the log", "DAT-5")
        yield piece


def _damaged(each: FileCopy, problem: str, rule: str) -> CorruptDataError:
    return CorruptDataError(problem, key=each.path, rule=rule)


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
