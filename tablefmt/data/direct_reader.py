"""Reads of data files without Arrow's scanner, for schemas and rows that do not suit it.

The scanner adds the columns of SCANNER_COLUMNS to every schema, and refuses a table with a column
of the same name. It also decodes whole row groups, however few rows are requested, and builds all
text before it drops rows. This module reads one file after another, page by page. Of rows at known
positions, it decodes the pages that hold them, or each row group up to the last one.
Spec: DAT-4, DAT-12, DEL-1, SCH-2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.arrow_scanner import POSITION, keep_rows, known_values
from tablefmt.data.file_prefetch import DataFiles
from tablefmt.data.file_verification import first_line
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.data.picked_pages import PickedPages, WantedRows, check_counts, picked_pages
from tablefmt.data.scan_tasks import Part, extents, part_rows
from tablefmt.log.bounded_parquet import columns_of, opened_with
from tablefmt.log.page_files import flat_columns
from tablefmt.log.parquet_footer import Leaf
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.positions import live_mask
from tablefmt.model.schema import Schema

SCANNER_COLUMNS = frozenset(
    {"__filename", "__fragment_index", "__batch_index", "__last_in_fragment"}
)


BATCH_ROWS = 1 << 16
"""Rows decoded at once."""


def needs_plain(schema: Schema) -> bool:
    """Return whether Arrow's scanner cannot read tables of this schema."""
    return any(field.physical in SCANNER_COLUMNS for field in schema.fields)


def plain_batches(
    files: ds.FileSystemDataset,
    schema: Schema,
    rows: Sequence[int],
    vectors: Sequence[bytes | None],
    names: Sequence[str],
    pushed: pc.Expression | None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield rows as `live_batches` does; at most `batch_rows` are decoded at once."""
    physical = file_schema(schema)
    read = None if pushed is not None else list(names)
    if read is not None:
        physical = pa.schema([physical.field(name) for name in names])
    data = getattr(files.filesystem, "handler", None)
    on_disk = isinstance(data, DataFiles) and data.on_disk
    for place, fragment in enumerate(files.get_fragments()):
        with files.filesystem.open_input_file(fragment.path) as source:
            file = opened_with(source, fragment.metadata)
            if file.metadata.num_rows != rows[place]:
                raise ValueError("the file has a different number of rows than the log says")
            live = live_mask(vectors[place], rows[place])
            start, known = 0, known_values(fragment, physical)
            counted = _Counted(fragment, file.metadata, source, physical.names)
            for batch in file.iter_batches(batch_rows, columns=read):
                positions = np.arange(start, start + batch.num_rows, dtype=np.int64)
                start += batch.num_rows
                if on_disk:
                    # A remote store would send the pages again.
                    counted.check(start)
                columns = [shaped_column(batch, column, known) for column in physical]
                shaped = pa.RecordBatch.from_arrays(
                    [*columns, pa.array(positions)], names=[*physical.names, POSITION]
                )
                if vectors[place] is not None:
                    shaped = _kept(shaped, live[positions])
                if pushed is not None:
                    shaped = shaped.filter(pushed)
                if shaped.num_rows:
                    yield place, shaped.select([*names, POSITION])
            if start != rows[place]:
                raise ValueError("the file has fewer rows than the log says")


class _Counted:
    """Row groups of a file whose page headers have been checked, from the first on."""

    def __init__(
        self,
        fragment: ds.ParquetFileFragment,
        footer: pq.FileMetaData,
        source: Any,
        names: Sequence[str],
    ) -> None:
        self._fragment, self._footer, self._source, self._names = fragment, footer, source, names
        self._leaves: tuple[Leaf, ...] = ()
        self._rows = self._groups = 0

    def check(self, rows: int) -> None:
        """Check the row groups with the first rows of the file, as `check_counts`."""
        while self._rows < rows:
            self._leaves = self._leaves or columns_of(self._source)
            group = self._footer.row_group(self._groups)
            with _naming(self._fragment):
                check_counts(self._source, group, self._leaves, self._names)
            self._rows += group.num_rows
            self._groups += 1


def shaped_column(
    batch: pa.RecordBatch, target: pa.Field, known: Mapping[str, pa.Scalar]
) -> pa.Array:
    """Return a column in its type of the schema, though the file may lack it or be narrower
    (DAT-12).

    Args:
        batch: rows in the file's own types.
        target: the column.
        known: as `known_values` returns them.
    """
    at = batch.schema.get_field_index(target.name)
    if at >= 0:
        return as_type(batch.column(at), target.type)
    value = known.get(target.name, pa.scalar(None, target.type))
    return pa.repeat(value, batch.num_rows)


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column cast to a type. A cast to its own type takes some time, too."""
    return column if column.type == kind else column.cast(kind)


class DamagedPagesError(ValueError):
    """Pages of a file are damaged, though Arrow may decode the file as a whole.

    Attributes:
        path: the file.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(problem)
        self.path = path


@contextmanager
def _naming(fragment: ds.ParquetFileFragment) -> Iterator[None]:
    """Replace an error of reading pages by one with the file's path."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        problem = f"its pages cannot be read: {first_line(error)}"
        raise DamagedPagesError(fragment.path, problem) from None


PICKED_BATCH_ROWS = 1 << 14
"""Rows decoded at once. At most this many are decoded after the last wanted row."""

PICKED_MOST = 1 << 9
"""Pages are picked for at most this many rows of a row group. More rows lie in most of its pages.
"""

FEW = 8
"""If fewer than one row in FEW is wanted, rows are taken one by one."""

THREADS = max(1, pa.cpu_count())
"""Row groups decoded in parallel."""

TOGETHER_BYTES = 32 << 20
"""Approximate bytes of picked pages that a `PageDecoder` decodes at once, after decompression."""


TOGETHER_GROUPS = 64
"""Row groups whose page headers are read at once."""


RUN_GROUPS = 4
"""Row groups of a file that a thread decodes one after another, if little of them is kept."""

FEW_ROWS = 1 << 18
"""Row groups with this many rows in all are decoded by one thread."""

_Found = TypeVar("_Found")


class RowGroup(NamedTuple):
    """A decoded row group."""

    place: int
    """Index of the file."""
    start: int
    """Position of its first row in the file."""
    rows: pa.RecordBatch


def row_groups(
    files: ds.FileSystemDataset,
    parts: Sequence[Part],
    names: Sequence[str],
    find: Callable[[RowGroup], _Found],
    together: int = RUN_GROUPS,
) -> Iterator[_Found]:
    """Yield what a function returns for whole row groups in order, several decoded at once.

    Args:
        files: whole files.
        parts: the row groups of every file.
        names: the columns to decode.
        find: called in several threads.
        together: row groups of one file that a thread decodes, one after another.

    Raises:
        ValueError: a row group holds another number of rows. Arrow's own errors: it cannot be read.
    """

    def jobs() -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
        for place, (fragment, _) in enumerate(parts):
            starts, counts = (each.tolist() for each in extents(fragment))
            groups = [each.id for each in fragment.row_groups if counts[each.id]]
            some = [(group, starts[group], counts[group]) for group in groups]
            for at in range(0, len(some), together):
                yield place, some[at : at + together]

    def read(job: tuple[int, list[tuple[int, int, int]]]) -> list[_Found]:
        place, groups = job
        fragment, _ = parts[place]
        there, known = _there(fragment, names), known_values(fragment, files.schema)
        targets = [files.schema.field(name) for name in names]
        found = []
        with files.filesystem.open_input_file(fragment.path) as source:
            file = _opened(fragment, source, there, fragment.metadata) if there else None
            for group, start, count in groups:
                batch = _nothing(count) if file is None else _decoded(file, group, there)
                columns = [shaped_column(batch, target, known) for target in targets]
                rows = pa.RecordBatch.from_arrays(columns, list(names))
                found.append(find(RowGroup(place, start, rows)))
        return found

    rows = sum(part_rows(part) for part in parts)
    # For few rows, threads take longer to start than to decode.
    found = map(read, jobs()) if rows <= FEW_ROWS else side_by_side(read, jobs(), THREADS)
    return chain.from_iterable(found)


def first_rows(
    files: ds.FileSystemDataset, part: Part, at: int, names: Sequence[str], most: int
) -> RowGroup:
    """Return the first rows of a row group of a part, as the only file.

    Args:
        files: whole files.
        part: row groups of one of them.
        at: which of these row groups; it has rows.
        names: the columns to decode.
        most: most rows to return.

    Raises as `row_groups`.
    """
    fragment, spans = part
    there, known = _there(fragment, names), known_values(fragment, files.schema)
    group = fragment.row_groups[at].id
    batch = _nothing(min(most, spans[at][1]))
    if there:
        with files.filesystem.open_input_file(fragment.path) as source:
            file = _opened(fragment, source, there, fragment.metadata)
            batches = file.iter_batches(most, row_groups=[group], columns=there, use_threads=False)
            # An exhausted iterator would end the generators that called this.
            batch = next(batches, _nothing(0))
    if not batch.num_rows:
        raise ValueError("a row group has a different number of rows than its footer says")
    columns = [shaped_column(batch, files.schema.field(name), known) for name in names]
    return RowGroup(0, spans[at][0], pa.RecordBatch.from_arrays(columns, list(names)))


def _there(fragment: ds.ParquetFileFragment, names: Sequence[str]) -> list[str]:
    """Return the columns that a file has. Raises ArrowInvalid: it has one of them twice."""
    there = fragment.physical_schema.names
    if any(there.count(name) > 1 for name in names):
        raise pa.ArrowInvalid("two columns of the file have the same name")
    return [name for name in names if name in there]


def _decoded(file: pq.ParquetFile, group: int, names: Sequence[str]) -> pa.RecordBatch:
    """Return columns of a whole row group, which is not empty, in the file's own types."""
    rows = file.read_row_group(group, columns=list(names), use_threads=False)
    if rows.num_rows != file.metadata.row_group(group).num_rows:
        raise ValueError("a row group has a different number of rows than its footer says")
    return _one_batch(rows)


def _opened(
    fragment: ds.ParquetFileFragment,
    source: Any,
    names: Sequence[str],
    footer: pq.FileMetaData | None = None,
) -> pq.ParquetFile:
    """Open columns of a file, or of a part of it, to read them as the dataset would."""
    kinds = [fragment.physical_schema.field(name) for name in names]
    return pq.ParquetFile(
        source,
        metadata=footer,
        read_dictionary=[field.name for field in kinds if pa.types.is_dictionary(field.type)],
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
    )


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return rows, of which there are some, as one batch."""
    (batch,) = rows.combine_chunks().to_batches()
    return batch


class _Job(NamedTuple):
    place: int
    """Index of the file."""
    group: int
    """Index of the row group."""
    start: int
    """Position of the row group's first row."""
    positions: NDArray[np.int64]
    """Positions of the wanted rows in the file."""


class PageDecoder(Protocol):
    """Decoder of picked pages other than Arrow."""

    @property
    def looked(self) -> frozenset[str]:
        """Columns that it needs besides those to return."""

    def picked(
        self, some: Sequence[tuple[ds.ParquetFileFragment, PickedPages]]
    ) -> list[pa.RecordBatch] | None:
        """Return the wanted rows of the pages of each row group; None: Arrow must decode them."""


def _placed(
    job: _Job, names: Sequence[str], columns: list[pa.Array], located: bool
) -> tuple[int, pa.RecordBatch]:
    """Return the index of a job's file, and its rows with the position at the end if `located`."""
    if located:
        columns = [*columns, pa.array(job.positions)]
    return job.place, pa.RecordBatch.from_arrays(columns, [*names, POSITION][: len(columns)])


class PickedRows:
    """Rows of files at known positions."""

    def __init__(
        self, files: ds.FileSystemDataset, positions: Mapping[int, NDArray[np.int64]]
    ) -> None:
        """Read the footers of files with wanted rows.

        Args:
            files: whole files.
            positions: ascending positions by the index of the file.
        """
        self._schema, self._filesystem = files.schema, files.filesystem
        self._fragments = list(files.get_fragments())
        self._leaves: dict[int, tuple[Leaf, ...]] = {}
        """Columns of the footer, by the index of the file."""
        self._jobs = [
            job for place in sorted(positions) for job in self._of_file(place, positions[place])
        ]

    def _of_file(self, place: int, positions: NDArray[np.int64]) -> Iterator[_Job]:
        starts, _ = extents(self._fragments[place])
        groups = np.searchsorted(starts, positions, side="right") - 1
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        for some in np.split(positions, firsts[1:]):
            group = int(np.searchsorted(starts, some[0], side="right")) - 1
            yield _Job(place, group, int(starts[group]), some)

    @property
    def decoded(self) -> int:
        """Rows that must be decoded."""
        return sum(int(job.positions[-1]) + 1 - job.start for job in self._jobs)

    @property
    def wanted(self) -> int:
        """Rows at the positions."""
        return sum(len(job.positions) for job in self._jobs)

    @property
    def of_rows(self) -> int:
        """Rows in all the files."""
        return sum(fragment.metadata.num_rows for fragment in self._fragments)

    def batches(
        self, names: Sequence[str], located: bool, decoder: PageDecoder | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the index of a file, and the wanted rows of one of its row groups.

        Args:
            names: the columns to return.
            located: add the column POSITION at the end.
            decoder: decodes pages of these columns; None: Arrow does.

        Raises:
            ValueError: a file holds fewer rows. Arrow's own errors: it cannot be read.
        """

        def read(job: _Job) -> tuple[int, pa.RecordBatch]:
            return _placed(job, names, self._columns(job, names), located)

        if decoder is None:
            return side_by_side(read, iter(self._jobs), THREADS)
        return self._decoded_together(names, located, decoder, read)

    def _decoded_together(
        self,
        names: Sequence[str],
        located: bool,
        decoder: PageDecoder,
        read: Callable[[_Job], tuple[int, pa.RecordBatch]],
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield as `batches` does; `decoder` decodes the pages of several row groups at once."""

        def decode(
            run: Sequence[tuple[_Job, PickedPages | None]],
        ) -> Iterator[tuple[int, pa.RecordBatch]]:
            some = [(self._fragments[job.place], pages) for job, pages in run if pages is not None]
            found = decoder.picked(some) if some else None
            if found is None:
                yield from side_by_side(read, (job for job, _ in run), THREADS)
                return
            for (job, _), batch in zip(run, found, strict=True):
                yield _placed(job, names, batch.columns, located)

        # Consecutive row groups of which pages are picked, or of which none are.
        run: list[tuple[_Job, PickedPages | None]] = []
        held = 0
        every = [*names, *sorted(decoder.looked - {*names})]
        for start in range(0, len(self._jobs), TOGETHER_GROUPS):
            some = self._jobs[start : start + TOGETHER_GROUPS]
            for job, pages in zip(some, self._all_picked(some, every), strict=True):
                if run and (held > TOGETHER_BYTES or (pages is None) != (run[0][1] is None)):
                    yield from decode(run)
                    run, held = [], 0
                run.append((job, pages))
                held += 0 if pages is None else pages.unpacked
        if run:
            yield from decode(run)

    def _all_picked(
        self, jobs: Sequence[_Job], names: Sequence[str]
    ) -> Iterator[PickedPages | None]:
        """Yield the pages with wanted rows of each row group after a check of their checksums;
        None: some column is read otherwise.
        """
        left = len(jobs)
        with ExitStack() as opened:
            sources: dict[int, Any] = {}
            try:
                wanted = []
                for job in jobs:
                    if job.place not in sources:
                        path = self._fragments[job.place].path
                        source = self._filesystem.open_input_file(path)
                        sources[job.place] = opened.enter_context(source)
                    wanted.append(self._wanted(job, sources[job.place], names))
                found = picked_pages([some for some in wanted if some is not None], verified=True)
                for some in wanted:
                    pages = [] if some is None else next(found)
                    picked = pages[0] if len(pages) == 1 else None
                    if some is None or picked is None or len(picked.names) < len(some.places):
                        picked = None
                    left -= 1
                    yield picked
            except (OSError, ValueError, pa.ArrowException):
                pass
        yield from [None] * left

    def _wanted(self, job: _Job, source: Any, names: Sequence[str]) -> WantedRows | None:
        """Return the wanted rows of a row group; None: no pages can be picked of some column."""
        some = self._flat(job, source, read := _there(self._fragments[job.place], names))
        if len(some.rows) > PICKED_MOST or len(some.places) < len(read):
            return None
        return None if some.rows[-1] >= some.group.num_rows else some

    def _flat(self, job: _Job, source: Any, names: Sequence[str]) -> WantedRows:
        """Return the wanted rows of a row group, in the columns without nesting."""
        # Several threads may read the columns of one footer. They find the same.
        leaves = self._leaves.get(job.place) or columns_of(source)
        self._leaves[job.place] = leaves
        flat = flat_columns(leaves)
        places = {name: flat[name] for name in names if name in flat}
        group = self._fragments[job.place].metadata.row_group(job.group)
        return WantedRows(source, group, leaves, places, job.positions - job.start)

    def _columns(self, job: _Job, names: Sequence[str]) -> list[pa.Array]:
        """Return columns of the wanted rows of a job, decoded by Arrow."""
        fragment = self._fragments[job.place]
        read, known = _there(fragment, names), known_values(fragment, self._schema)
        rows = job.positions - job.start
        if rows[-1] >= fragment.metadata.row_group(job.group).num_rows:
            raise ValueError("the file has fewer rows than the log says")
        with self._filesystem.open_input_file(fragment.path) as source:
            # By column: the wanted rows, in one or more pieces.
            found: dict[str, list[pa.Array]] = {}
            with _naming(fragment):
                for picked in self._picked(job, source, read):
                    part = _opened(fragment, pa.BufferReader(picked.file()), picked.names)
                    batch = _taken(_one_batch(part.read(use_threads=False)), picked.rows)
                    found |= {name: [batch.column(name)] for name in picked.names}
            rest = [name for name in read if name not in found]
            if rest:
                some = self._flat(job, source, rest)
                with _naming(fragment):
                    check_counts(source, some.group, some.leaves, rest)
            for piece in self._pieces(job, source, rest, rows) if rest else ():
                for name in rest:
                    found.setdefault(name, []).append(piece.column(name))
        columns = []
        for target in (self._schema.field(name) for name in names):
            pieces = [
                pa.RecordBatch.from_arrays([piece], [target.name])
                for piece in found.get(target.name, ())
            ] or [_nothing(len(rows))]
            chunks = [shaped_column(piece, target, known) for piece in pieces]
            columns.append(chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks))
        return columns

    def _picked(self, job: _Job, source: Any, names: Sequence[str]) -> list[PickedPages]:
        """Return the pages with wanted rows, of the columns of which few pages have one."""
        if len(job.positions) > PICKED_MOST:
            return []
        return next(picked_pages([self._flat(job, source, names)], verified=False))

    def _pieces(
        self, job: _Job, source: Any, read: Sequence[str], rows: NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows in the file's own types."""
        fragment, start = self._fragments[job.place], 0
        file = _opened(fragment, source, read, fragment.metadata)
        for batch in file.iter_batches(
            PICKED_BATCH_ROWS, row_groups=[job.group], columns=list(read), use_threads=False
        ):
            first, after = np.searchsorted(rows, [start, start + batch.num_rows])
            if first < after:
                yield _taken(batch, rows[first:after] - start)
            start += batch.num_rows
            if start > rows[-1]:
                return
        raise ValueError("the file has fewer rows than the log says")


def _taken(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    if len(rows) == batch.num_rows:
        return batch
    if len(rows) * FEW < batch.num_rows:
        return batch.take(pa.array(rows))
    mask: NDArray[np.bool_] = np.zeros(batch.num_rows, bool)
    mask[rows] = True
    return _kept(batch, mask)


def _kept(batch: pa.RecordBatch, keep: NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the rows of a batch for which `keep` is true."""
    return pa.RecordBatch.from_arrays(keep_rows(batch.columns, keep), schema=batch.schema)


def _nothing(rows: int) -> pa.RecordBatch:
    """Return a batch with the right number of rows and only a placeholder column."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], [POSITION])
