"""Scan tasks: runs of files that Arrow scans at once, and the row groups of their files.

Footers are verified and bytes prefetched. Row groups are selected, give positions, and are split
into pieces of bounded size. Spec: DAT-4, DAT-5, ADD-7, DEL-1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
from numpy.typing import NDArray

from tablefmt.data.arrow_scanner import dataset_of, replace_fragments
from tablefmt.data.file_checksum import END_BYTES, End, read_ends, read_ends_and
from tablefmt.data.file_prefetch import (
    PART_BYTES,
    SCAN_TASK_BYTES,
    WHOLE_BYTES,
    DataFiles,
    RangedFile,
    ahead,
    column_ranges,
    in_parts,
)
from tablefmt.data.file_verification import (
    DAMAGE,
    check_file,
    check_masks,
    first_line,
    first_problem,
    is_no_answer,
)
from tablefmt.errors import CorruptDataError
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.schema import Schema
from tablefmt.store.object_store import Store

THREADS = 16
"""Footers read in parallel."""

ONE_BY_ONE = 32
"""Footers of at most this many files are read by one thread: more of them would mostly wait for
Python.
"""

PIECE_BYTES = 128 << 20
"""Approximate Arrow data of one piece. Arrow decodes ahead of its consumer, and by itself stops
only at 1 GiB.
"""

UNKNOWN_BYTES = 16
"""Overhead of a text or nested value in memory, in bytes."""

EXPANSION = 3
"""Assumed size of text in memory, as a multiple of its size in the file."""

Spans = list[tuple[int, int]]
"""Runs of positions: the first position, and the count."""

Part = tuple[ds.ParquetFileFragment, Spans]
"""Row groups of a file, and their positions in it."""


def whole_parts(files: ds.FileSystemDataset, rows: Sequence[int]) -> list[Part]:
    """Return all row groups of every file."""
    return [(file, [(0, n)]) for file, n in zip(files.get_fragments(), rows, strict=True)]


def passing_parts(files: ds.FileSystemDataset, pushed: pc.Expression) -> list[Part]:
    """Return each file's row groups for which a condition can be true. It reads the footers."""

    def passing(fragment: ds.ParquetFileFragment) -> Part:
        part = fragment.subset(filter=pushed, schema=files.schema)
        starts, counts = extents(fragment)
        return part, [(int(starts[group.id]), int(counts[group.id])) for group in part.row_groups]

    return in_parallel(passing, files)


def inhabited_part(part: Part, live: NDArray[np.bool_]) -> Part:
    """Return the row groups of a whole file that hold a live row."""
    fragment, _ = part
    starts, counts = extents(fragment)
    if counts.sum() != len(live) or not counts.all():
        return part
    groups = np.flatnonzero(np.add.reduceat(live, starts, dtype=np.int64)).tolist()
    if not groups or len(groups) == len(counts):
        return part
    spans = [(int(starts[group]), int(counts[group])) for group in groups]
    return fragment.subset(row_group_ids=groups), spans


def in_parallel(find: Callable[[ds.ParquetFileFragment], Part], files: ds.Dataset) -> list[Part]:
    """Apply `find` to every file. Its footer was fetched before, so few files need no threads."""
    fragments = list(files.get_fragments())
    if len(fragments) <= ONE_BY_ONE:
        return list(map(find, fragments))
    with ThreadPoolExecutor(max(1, min(THREADS, len(fragments)))) as pool:
        return list(pool.map(find, fragments))


def extents(fragment: ds.ParquetFileFragment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first position and the row count of every row group of a file."""
    footer = fragment.metadata
    counts = np.array(
        [footer.row_group(i).num_rows for i in range(footer.num_row_groups)], np.int64
    )
    return np.cumsum(counts) - counts, counts


def row_bytes(schema: pa.Schema, names: Sequence[str], files: pa.Table) -> list[int]:
    """Return the approximate Arrow bytes of a row of these columns, for each file.

    Args:
        schema: all columns of the files.
        names: the columns to read.
        files: `size`, in bytes, and `rows`.
    """
    widths = [_width(schema.field(name).type) for name in names]
    unknown = widths.count(None)
    fixed = sum(width for width in widths if width is not None) + UNKNOWN_BYTES * unknown
    if not unknown:
        return [max(1, fixed)] * files.num_rows
    rows = np.maximum(files["rows"].to_numpy(), 1)
    each: list[int] = (fixed + EXPANSION * files["size"].to_numpy() // rows).tolist()
    return each


def _width(kind: pa.DataType) -> int | None:
    try:
        bits: int = kind.bit_width
    except ValueError:
        return None
    return max(1, bits // 8)


def pieces(
    parts: Sequence[Part], widths: Sequence[int], most_bytes: int | None = None
) -> Iterator[list[Part]]:
    """Yield non-empty parts in order, in runs of at most `most_bytes`, or of one row group.

    Args:
        parts: at most one part of each file.
        widths: bytes of a row, for each part.
        most_bytes: limit; by default PIECE_BYTES.
    """
    most_bytes = most_bytes or PIECE_BYTES
    run: list[Part] = []
    held = 0
    for part, width in zip(parts, widths, strict=True):
        for some in _cut(part, most_bytes // width):
            length = width * part_rows(some)
            if run and held + length > most_bytes:
                yield run
                run, held = [], 0
            run.append(some)
            held += length
    if run:
        yield run


def _cut(part: Part, most: int) -> Iterator[Part]:
    """Split a part into parts of at most `most` rows, or of one row group.

    Any two consecutive parts together exceed the limit.
    """
    fragment, spans = part
    if part_rows(part) <= most:
        if spans:
            yield part
        return
    groups = [group.id for group in fragment.row_groups]
    if len(groups) != len(spans):
        spans = list(zip(*(each.tolist() for each in extents(fragment)), strict=True))
    start = held = 0
    for at, (_, count) in enumerate(spans):
        if at > start and held + count > most:
            yield fragment.subset(row_group_ids=groups[start:at]), spans[start:at]
            start, held = at, 0
        held += count
    yield fragment.subset(row_group_ids=groups[start:]), spans[start:]


def part_rows(part: Part) -> int:
    """Return the number of rows in the row groups of a part."""
    return sum(count for _, count in part[1])


GROUP_FILES = 256
"""Most files whose footer bytes are fetched and checked at once."""

FIRST_FILES = 4
"""Files of the first group if perhaps not all rows are wanted. Each later group is four times as
large.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """The columns and rows that a scan reads of files."""

    schema: Schema
    names: frozenset[str] | None = None
    """Physical names of the columns; None for all."""
    pushed: pc.Expression | None = None
    """Row groups for which this cannot be true are not read."""
    eager: bool = True
    """True if all rows will be requested, so files are fetched early."""
    unlooked: frozenset[str] = frozenset()
    """Columns of `names` that no condition reads."""
    first: int | None = None
    """Most rows that will be requested; None for all."""

    @property
    def is_everything(self) -> bool:
        """True if all bytes of the files will be read."""
        if self.first is not None or self.pushed is not None or not self.eager:
            return False
        if self.schema.dropped:
            # Older files have these columns, too.
            return False
        physical = (field.physical for field in self.schema.fields)
        return self.names is None or self.names.issuperset(physical)


@dataclass(frozen=True, slots=True, eq=False)
class ScanTask:
    """A scan task: files that are scanned together."""

    start: int
    """Index of the first file among all files."""
    files: pa.Table
    dataset: ds.FileSystemDataset
    data: DataFiles
    is_fetched: bool
    """True if the file is remote and all bytes to read are already in memory."""

    @property
    def is_whole(self) -> bool:
        """True if no row of these files is deleted."""
        return is_whole(self.files)

    @property
    def vectors(self) -> list[bytes | None]:
        """Encoded positions of deleted rows, for each file."""
        if self.is_whole:
            return [None] * self.files.num_rows
        vectors: list[bytes | None] = self.files["vector"].to_pylist()
        return vectors

    def row_bytes(self, names: Sequence[str]) -> list[int]:
        """Return the approximate bytes of a row of these columns, for each file."""
        return row_bytes(self.dataset.schema, names, self.files)

    def slice(self, start: int, stop: int) -> ScanTask:
        """Return a scan task with the files from `start` up to, not including, `stop`."""
        fragments = list(self.dataset.get_fragments())[start:stop]
        dataset = replace_fragments(self.dataset, fragments)
        files = self.files.slice(start, stop - start)
        return replace(self, start=self.start + start, files=files, dataset=dataset)

    def coded(self, needs: Needs) -> ScanTask:
        """Return the same files, of which text columns are read as codes where that is faster."""
        if not needs.unlooked:
            return self
        dataset = dataset_of(self.data, self.files, needs.schema, needs.unlooked)
        return replace(self, dataset=dataset)

    def drop(self) -> None:
        """Release the bytes fetched for the files."""
        self.data.drop(self.files["path"].to_pylist())


def is_whole(files: pa.Table) -> bool:
    """Return whether no row of these files is deleted."""
    if "vector" in files.column_names:
        return bool(files["vector"].null_count == files.num_rows)
    removed = pc.sum(files["deleted"]).as_py() if "deleted" in files.column_names else 0
    assert not removed, "files with deleted rows must come with their vectors"
    return True


def tasks_of(store: Store, files: pa.Table, needs: Needs) -> Iterator[ScanTask]:
    """Yield scan tasks with all files in order, including files without wanted rows.

    If all rows will be requested, a thread prepares the next task while the caller reads one. On a
    local disk, this takes more than GROUP_FILES files.

    Raises:
        CorruptDataError: DAT-5: a file is missing, has another length, or fails its checksum.
        StoreError: the store gives no answer.
    """
    if needs.eager and (store.traits.remote or files.num_rows > GROUP_FILES):
        return ahead(partial(_scan_tasks, store, files, needs))
    return _scan_tasks(store, files, needs)


def _scan_tasks(store: Store, files: pa.Table, needs: Needs) -> Iterator[ScanTask]:
    check_masks(files)
    for start, group in _groups(store, files, needs):
        data = DataFiles(store)
        try:
            _hold(store, group, data, store.traits.remote and needs.is_everything)
            whole = ScanTask(
                start,
                group,
                dataset_of(data, group, needs.schema, needs.unlooked),
                data,
                store.traits.remote,
            )
            expected_bytes = _requested(whole, needs) if store.traits.remote else []
        except DAMAGE as error:
            if is_no_answer(store, error):
                raise
            path, problem = first_problem(store, group) or ("", _unread(error))
            raise CorruptDataError(problem, key=path, rule="DAT-5") from None
        if store.traits.remote:
            yield from _fetched(store, whole, expected_bytes)
        else:
            yield whole


def _groups(store: Store, files: pa.Table, needs: Needs) -> Iterator[tuple[int, pa.Table]]:
    """Yield runs of files whose bytes to read at once fit into memory, with the index of the first
    file.
    """
    most = GROUP_FILES if needs.eager else FIRST_FILES
    whole = WHOLE_BYTES if store.traits.remote else END_BYTES
    everything = store.traits.remote and needs.is_everything
    start = at = held = 0
    for at, size in enumerate(files["size"].to_pylist()):
        end = END_BYTES if size > (PARTS_MOST if everything else whole) else size
        full = held >= SCAN_TASK_BYTES if everything else held + end > SCAN_TASK_BYTES
        if at > start and (at - start >= most or full):
            yield start, files.slice(start, at - start)
            start, held, most = at, 0, min(GROUP_FILES, 4 * most)
        held += end
    if start < files.num_rows:
        yield start, files.slice(start)


def _hold(store: Store, group: pa.Table, data: DataFiles, everything: bool) -> None:
    """Fetch the footer bytes of files, and check them (ADD-7). Of files that are read completely,
    fetch everything.
    """
    sizes = list(zip(group["path"].to_pylist(), group["size"].to_pylist(), strict=True))
    if everything:
        starts = [_start_of_last_part(size) for _, size in sizes]
        fronts = [
            (path, first, length)
            for (path, size), start in zip(sizes, starts, strict=True)
            for first, length in in_parts([(0, start)] if size <= PARTS_MOST else (), start)
        ]
        ends, bodies = read_ends_and(store, sizes, starts, fronts)
    else:
        ends = read_ends(store, sizes, WHOLE_BYTES if store.traits.remote else END_BYTES)
        fronts, bodies = [], []
    for (path, size), end in zip(sizes, _sound_ends(store, group, sizes, ends), strict=True):
        data.hold(path, size, end)
    there = iter(bodies)
    for path, some in itertools.groupby(fronts, key=lambda front: front[0]):
        parts = [(first, length) for _, first, length in some]
        data.expect(path, parts).give(range(len(parts)), [next(there) for _ in parts])


PARTS_MOST = SCAN_TASK_BYTES
"""Longer files do not fit into one scan task. So their ends are read first."""


def _start_of_last_part(size: int) -> int:
    """Return the first byte of the last part of a file that is read completely. Pure."""
    last = (size - 1) // PART_BYTES * PART_BYTES if size <= PARTS_MOST else size
    return max(0, min(last, size - END_BYTES))


def _sound_ends(
    store: Store, group: pa.Table, sizes: Sequence[tuple[str, int]], ends: Sequence[End | None]
) -> list[End]:
    """Return the footer bytes of files after their check (ADD-7)."""
    expected: list[int | None] = [None] * group.num_rows
    if "footer" in group.column_names:
        expected = group["footer"].to_pylist()
    sound = []
    for at, ((path, size), end) in enumerate(zip(sizes, ends, strict=True)):
        if end is None or not end.is_sound(size, expected[at]):
            rows = group["rows"][at].as_py()
            problem = check_file(store, path, size, rows, deep=False, footer=expected[at])
            raise CorruptDataError(problem or "it is damaged", key=path, rule="DAT-5")
        sound.append(end)
    return sound


def _unread(error: BaseException) -> str:
    return f"the data files could not be read: {first_line(error)}"


def _requested(group: ScanTask, needs: Needs) -> list[RangedFile | None]:
    """Announce the ranges that will be read of each file that is not fetched whole."""
    files = group.files
    paths = files["path"].to_pylist()
    deleted = files["deleted"].to_pylist() if "deleted" in files.column_names else [0] * len(paths)
    return [
        None
        if group.data.is_whole(path)
        else group.data.expected(path) or group.data.expect(path, _ranges(part, needs, rows))
        for path, part, rows in zip(paths, group.dataset.get_fragments(), deleted, strict=True)
    ]


def _fetched(
    store: Store, group: ScanTask, expected_bytes: Sequence[RangedFile | None]
) -> Iterator[ScanTask]:
    """Yield the group as scan tasks whose bytes are in memory, as far as they fit."""
    fragments = list(group.dataset.get_fragments())
    start = 0
    while start < len(fragments):
        stop, length = start, 0
        while stop < len(fragments) and (stop == start or length < SCAN_TASK_BYTES):
            file = expected_bytes[stop]
            length += 0 if file is None else file.expected_bytes
            stop += 1
        chosen = [(f, f.missing()) for f in expected_bytes[start:stop] if f is not None]
        ranges = [one for file, parts in chosen for one in file.wanted(parts)]
        bodies = iter(store.get_ranges(ranges) if ranges else ())
        for file, parts in chosen:
            file.give(parts, [next(bodies) for _ in parts])
        yield group.slice(start, stop)
        start = stop


def _ranges(fragment: ds.ParquetFileFragment, needs: Needs, removed: int) -> list[tuple[int, int]]:
    """Return first byte and length of each range to read of a file with `removed` deleted rows."""
    part = fragment
    if needs.pushed is not None:
        part = fragment.subset(filter=needs.pushed, schema=file_schema(needs.schema))
    groups = [group.id for group in part.row_groups]
    if needs.first is not None:
        before = np.cumsum([0, *(group.num_rows for group in part.row_groups)])
        groups = groups[: int(np.searchsorted(before, needs.first + removed))]
    return column_ranges(fragment.metadata, groups, needs.names)
