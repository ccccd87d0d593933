"""Manual checkpoints: write one with a report, and verify existing ones. Spec: CKP-7."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import CorruptTableError, LostCheckpointError, UnsupportedFeatureError
from tablefmt.log.codec import digest
from tablefmt.log.object_names import root_version
from tablefmt.printable import number_of, printable
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.checkpoint_reader import listed_roots, read_base
from tablefmt.snapshot.checkpoint_root import Part, Root
from tablefmt.snapshot.checkpoint_writer import Checkpoint
from tablefmt.snapshot.file_columns import exact_sum
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.part_file import PartFile
from tablefmt.store.object_store import KeyNotFoundError, Store


@dataclass(frozen=True, slots=True)
class CheckpointReport(ArrowReport):
    """A written checkpoint. `print` shows its cost; `to_arrow` has one row."""

    uri: str
    version: int
    path: str
    """Key of the root."""
    sha256: str
    """SHA-256 of the root."""
    size: int
    """Bytes of the root."""
    files: int
    """Number of live files."""
    parts: int
    """Objects that the root names."""
    written_parts: int
    """Objects among them that are new."""
    written_bytes: int
    """Bytes written, including the root."""
    seconds: float

    def to_arrow(self) -> pa.Table:
        """Return one row with a column for each field."""
        return pa.Table.from_pylist([asdict(self)])

    def __str__(self) -> str:
        return printable(
            f"{self.uri}: checkpoint of version {self.version}, {number_of(self.files, 'file')} in "
            f"{number_of(self.parts, 'part')}; {number_of(self.written_parts, 'part')} and "
            f"{self.written_bytes} bytes written in {self.seconds:.2f} s: {self.path}"
        )


def checkpoint(context: TableContext) -> CheckpointReport:
    """Write a checkpoint of the newest version.

    Raises:
        StoreError: the store cannot write it.
        CorruptTableError: the log is damaged.
    """
    began = context.environment.monotonic()
    context.view.refresh()
    written = context.checkpointer.write(context.view, context.environment)
    return report_of(context.store.uri, written, context.environment.monotonic() - began)


def report_of(uri: str, written: Checkpoint, seconds: float) -> CheckpointReport:
    """Return the report of a written checkpoint."""
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
    """Read a whole checkpoint, and verify it against itself and the entry of its version.

    Args:
        store: the table's root.
        key: the key of the root.

    Returns:
        The root, the SHA-256 of its bytes, and their number, as a retention horizon names them
        (ENT-13).

    Raises:
        CorruptTableError: CKP-2 .. CKP-5, a part of it is wrong.
        UnsupportedFeatureError: it needs a newer reader.
        StoreError: the store gives no answer.
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
            raise _unsound(part, "it has ids outside their range")
        if len(found) and segment.files.added.max() > part.added:
            raise _unsound(part, "it has files added later than the root says")
        ids.append(found)
        paths.append(columns["path"])
        rows, size = (exact_sum(columns[name].to_numpy()) for name in ("rows", "size"))
        deleted = segment.deleted_counts(history.all_deltas, head.version)
        found_sums = (rows, size, exact_sum(deleted))
        sums = [known + more for known, more in zip(sums, found_sums, strict=True)]
    _check_sums(key, root, np.concatenate([np.zeros(0, np.int64), *ids]), paths, sums)
    body = store.get(key)
    return root, digest(body), len(body)


def checkpoint_problems(view: LogView, *, every: bool) -> list[CorruptTableError]:
    """Return the problems of checkpoints, in themselves or compared with the entries.

    Args:
        view: the whole log (`LogView.open(whole=True)`).
        every: check all checkpoints, not only the newest.

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
            message = "its metadata, application transactions or cursors differ from the entries"
            problems.append(CorruptTableError(message, key=key, rule="CKP-1"))
        by_entries = view.snapshot(version)
        if not says.equals(_plain(by_entries.with_vectors(by_entries.files))):
            message = "its live files differ from the entries up to its version"
            problems.append(CorruptTableError(message, key=key, rule="CKP-1"))
    return problems


def _plain(files: pa.Table) -> pa.Table:
    """Return the columns with at least one value, in the order of their names, to be compared.

    Floats are texts, because NaN does not equal NaN.
    """
    known = [name for name in sorted(files.column_names) if files[name].null_count < len(files)]
    columns = {name: files[name] for name in known}
    return pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_floating(column.type) else column
            for name, column in columns.items()
        }
    ).combine_chunks()


def _check_sums(
    key: str, root: Root, ids: NDArray[np.int64], paths: list[pa.ChunkedArray], sums: list[int]
) -> None:
    totals = root.head.totals
    if len(np.unique(ids)) != totals.files or len(ids) != totals.files:
        raise CorruptTableError("it has a file twice, or lacks one", key=key, rule="CKP-3")
    if sums != [totals.rows, totals.bytes, totals.deleted]:
        raise CorruptTableError(
            "its table statistics do not match its files", key=key, rule="CKP-1"
        )
    whole = pa.chunked_array([chunk for each in paths for chunk in each.chunks], pa.string())
    if len(whole.unique()) != totals.files:
        raise CorruptTableError("two of its files have the same path", key=key, rule="CKP-1")


def _check_bytes(store: Store, part: Part) -> None:
    try:
        body = store.get(part.path)
    except KeyNotFoundError:
        raise LostCheckpointError("it is missing", key=part.path, rule="CKP-3") from None
    if len(body) != part.size or digest(body) != part.sha256:
        raise _unsound(part, "it does not match the root's size and checksum")
    PartFile(store, part).footer  # noqa: B018 - read and checked


def _unsound(part: Part, message: str) -> LostCheckpointError:
    return LostCheckpointError(message, key=part.path, rule="CKP-3")
