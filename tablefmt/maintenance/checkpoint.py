"""Checkpoints by hand: write one, say what it took, find out whether one is sound. Spec: CKP-7."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.data.arrow_report import ArrowReport
from tablefmt.errors import CorruptTableError, LostCheckpointError, UnsupportedFeatureError
from tablefmt.log.codec import digest
from tablefmt.log.names import root_version
from tablefmt.model.sums import exact_sum
from tablefmt.printable import printable
from tablefmt.session.context import TableContext
from tablefmt.snapshot.checkpoints.parts import PartFile
from tablefmt.snapshot.checkpoints.read import listed_roots, read_base
from tablefmt.snapshot.checkpoints.root import Part, Root
from tablefmt.snapshot.checkpoints.write import Checkpoint
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import KeyNotFoundError, Store


@dataclass(frozen=True, slots=True)
class CheckpointReport(ArrowReport):
    """A checkpoint that was written. `print` says what it took; `to_arrow` has one row."""

    uri: str
    version: int
    path: str
    """The root's name."""
    sha256: str
    """Of the root."""
    size: int
    """Bytes of the root."""
    files: int
    """Live files."""
    parts: int
    """Objects that the root names."""
    written_parts: int
    """Those of them that are new."""
    written_bytes: int
    """With the root."""
    seconds: float

    def to_arrow(self) -> pa.Table:
        """One row, a column for each field."""
        return pa.Table.from_pylist([asdict(self)])

    def __str__(self) -> str:
        return printable(
            f"{self.uri}: checkpoint of version {self.version}, {self.files} files in "
            f"{self.parts} parts; {self.written_parts} parts and {self.written_bytes} bytes "
            f"written in {self.seconds:.2f} s: {self.path}"
        )


def checkpoint(context: TableContext) -> CheckpointReport:
    """Write a checkpoint of the newest version.

    Raises:
        StoreError: the store does not do it. CorruptTableError: the log is damaged.
    """
    began = context.environment.monotonic()
    context.view.refresh()
    written = context.checkpointer.write(context.view, context.environment)
    return report_of(context.store.uri, written, context.environment.monotonic() - began)


def report_of(uri: str, written: Checkpoint, seconds: float) -> CheckpointReport:
    """What was written, for people."""
    return CheckpointReport(
        uri=uri,
        version=written.version,
        path=written.path,
        sha256=written.sha256,
        size=written.size,
        files=written.files,
        parts=written.parts,
        written_parts=written.written_parts,
        written_bytes=written.written_bytes,
        seconds=seconds,
    )


def verified(store: Store, key: str) -> tuple[Root, str, int]:
    """Read a whole checkpoint and hold it against the entry of its version, and itself.

    Args:
        store: the table's root.
        key: the name of the root.

    Returns:
        The root, the SHA-256 of its bytes, and their number: what a horizon names (ENT-13).

    Raises:
        CorruptTableError: CKP-2 .. CKP-5, anything in it is not what it should be.
        UnsupportedFeatureError: it needs a newer reader. StoreError: no answer.
    """
    base = read_base(store, key)
    assert base.root is not None
    root, head = base.root, base.root.head
    for part in (*root.segments, *root.deletes):
        _check_bytes(store, part)
    history = base.files
    ids, paths = [], []
    sums = [0, 0, 0]
    for segment, part in zip(history.segments, root.segments, strict=True):
        columns = segment.files.table
        if any(columns[name].null_count for name in ("path", "rows", "size")):
            raise _unsound(part, "a file lacks its path, rows or size")
        found = segment.files.ids
        if len(found) and not part.ids[0] <= found.min() <= found.max() <= part.ids[1]:
            raise _unsound(part, "it has ids outside of their range")
        if len(found) and segment.files.added.max() > part.added:
            raise _unsound(part, "it has files added later than the root says")
        ids.append(found)
        paths.append(columns["path"])
        rows, size = (exact_sum(columns[name].to_numpy()) for name in ("rows", "size"))
        deleted = segment.gone_rows(history.all_deltas, head.version)
        found_sums = (rows, size, exact_sum(deleted))
        sums = [known + more for known, more in zip(sums, found_sums, strict=True)]
    _check_sums(key, root, np.concatenate([np.zeros(0, np.int64), *ids]), paths, sums)
    body = store.get(key)
    return root, digest(body), len(body)


def checkpoint_problems(view: LogView, *, every: bool) -> list[CorruptTableError]:
    """What is wrong with checkpoints: in themselves, or beside what the entries say.

    Args:
        view: the whole log (`LogView.open(whole=True)`).
        every: of all there are, not of the newest alone.

    Raises:
        CorruptTableError: the log itself is damaged.
    """
    problems: list[CorruptTableError] = []
    keys = listed_roots(view.store)
    for key in keys if every else keys[:1]:
        version = root_version(key)
        if version is None or not view.head.totals.oldest <= version <= view.head.version:
            continue
        try:
            verified(view.store, key)
            base = read_base(view.store, key)
            of_base = LogView(view.store, [], base).snapshot(version)
            says = _plain(of_base.with_vectors(of_base.files))
            later = LogView(view.store, view.entries_after(version), base)
        except UnsupportedFeatureError:
            continue
        except CorruptTableError as error:
            problems.append(error)
            continue
        described = (view.metadata_at(version), view.metadata_version_at(version), view.created)
        if later.read_head != view.read_head or described != (
            later.metadata_at(version),
            later.metadata_version_at(version),
            later.created,
        ):
            message = "its metadata, applications or cursors are not those of the entries"
            problems.append(CorruptTableError(message, key=key, rule="CKP-1"))
        by_entries = view.snapshot(version)
        if not says.equals(_plain(by_entries.with_vectors(by_entries.files))):
            message = "its files are not those that the entries up to its version leave"
            problems.append(CorruptTableError(message, key=key, rule="CKP-1"))
    return problems


def _plain(files: pa.Table) -> pa.Table:
    """Columns in which something is known, in the order of their names."""
    known = [name for name in sorted(files.column_names) if files[name].null_count < len(files)]
    return files.select(known).combine_chunks()


def _check_sums(
    key: str, root: Root, ids: NDArray[np.int64], paths: list[pa.ChunkedArray], sums: list[int]
) -> None:
    totals = root.head.totals
    if len(np.unique(ids)) != totals.files or len(ids) != totals.files:
        raise CorruptTableError("a file is in it twice, or not at all", key=key, rule="CKP-3")
    if sums != [totals.rows, totals.bytes, totals.deleted]:
        raise CorruptTableError("its sums are not those of its files", key=key, rule="CKP-1")
    whole = pa.chunked_array([chunk for each in paths for chunk in each.chunks], pa.string())
    if len(whole.unique()) != totals.files:
        raise CorruptTableError("two of its files have one path", key=key, rule="CKP-1")


def _check_bytes(store: Store, part: Part) -> None:
    try:
        body = store.get(part.path)
    except KeyNotFoundError:
        raise LostCheckpointError("it is missing", key=part.path, rule="CKP-3") from None
    if len(body) != part.size or digest(body) != part.sha256:
        raise _unsound(part, "it is not what the root says")
    PartFile(store, part).footer  # noqa: B018 - read and checked


def _unsound(part: Part, message: str) -> LostCheckpointError:
    return LostCheckpointError(message, key=part.path, rule="CKP-3")
