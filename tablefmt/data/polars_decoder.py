"""Rows decoded by polars in programs that have loaded it: all of them, or those of a condition.

Arrow decodes all columns of a row group before it looks at the condition. polars decodes the
condition's columns first, and builds only the matching rows of the others. Without a condition, it
decodes text faster, and drops deleted rows before their text is built in Arrow's form. It verifies
no page checksums. So this module reads the pages, verifies their checksums, and gives polars these
same bytes as a file in memory.

Whatever polars does not decode exactly as Arrow is left to Arrow: types, conditions, and pages at
which it fails. So errors are Arrow's, too. polars is never imported here: importing it takes longer
than most scans. Spec: DAT-4, DAT-5, DAT-12, DEL-1, PRN-10.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.arrow_scanner import known_values
from tablefmt.data.direct_reader import as_type, shaped_column
from tablefmt.data.file_prefetch import DataFiles
from tablefmt.data.picked_pages import PickedPages
from tablefmt.data.scan_tasks import Part
from tablefmt.expressions.predicate import (
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    fields,
    normalise,
)
from tablefmt.log.bounded_parquet import chunk_extent, columns_of
from tablefmt.log.page_files import (
    ChunkBody,
    FileMemory,
    checked_chunks,
    flat_columns,
    known_form,
    page_file,
)
from tablefmt.log.parquet_footer import Leaf
from tablefmt.model.schema import Decimal, Field, Schema
from tablefmt.store.forks import renew_after_fork

PIECE_BYTES = 64 << 20
"""Approximate Arrow data of the rows that polars decodes at once, before the condition. It builds
the matching rows only.
"""

UNPACKED_MOST = 256 << 20
"""Most bytes of pages after decompression that polars decodes at once."""

BATCH_ROWS = 1 << 14
"""Rows of a batch, on average, for which no copy of the rows of several row groups pays."""

LISTED_MOST = 16
"""Most values of an IN condition."""

COMPARED_MOST = 32
"""Most comparisons of a condition. polars needs much longer for deep expressions than Arrow."""

_ROW = "\0row"
"""Name of the column with row numbers. No table column can have it (SCH-2)."""

_INT96 = 3

_INTEGERS = ("int8", "int16", "int32", "int64")

_KINDS = frozenset({*_INTEGERS, "bool", "float", "double", "string", "binary", "date32[day]"})
"""Arrow's names of types without parameters that polars decodes exactly."""

_TIMES = frozenset({"timestamp[us]", "timestamp[us, tz=UTC]"})

_COMPARED = frozenset({"byte", "short", "integer", "long", "date", "string"})
"""Types, besides decimals, that polars compares exactly as Arrow does."""


class _Library:
    """Knowledge of whether this process can use polars."""

    def __init__(self) -> None:
        self.lost = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Give polars up in a child: its threads do not exist there, and would be awaited."""
        self.lost = "polars" in sys.modules

    def is_loaded(self) -> bool:
        # Programs that test what happens without polars put None there.
        return sys.modules.get("polars") is not None and not self.lost


_LIBRARY = _Library()


def is_loaded() -> bool:
    """Return whether this process has loaded polars and can use it."""
    return _LIBRARY.is_loaded()


Live = Callable[[int], NDArray[np.bool_] | None]
"""Returns for a part, by its index, whether each row of its file is live; None: all rows are."""


def decoder_for(
    files: ds.FileSystemDataset,
    schema: Schema,
    names: Sequence[str],
    predicate: Predicate | None,
    views: bool = False,
) -> PolarsDecoder | None:
    """Return a decoder of these columns, if polars is loaded and understands the condition.

    Args:
        files: whole files.
        schema: the snapshot's schema.
        names: physical names of the columns to return; at least one.
        predicate: keep rows for which it is true; None: all.
        views: as `PolarsDecoder.views`.
    """
    decoder = unsuited_decoder(files, schema, names, predicate, views)
    if decoder is None:
        return None
    try:
        suited = all(decoder.kind(each) is not None for each in files.get_fragments())
    except (OSError, ValueError, OverflowError, pa.ArrowException):
        return None
    return decoder if suited else None


def unsuited_decoder(
    files: ds.FileSystemDataset,
    schema: Schema,
    names: Sequence[str],
    predicate: Predicate | None,
    views: bool = False,
) -> PolarsDecoder | None:
    """Return a decoder as `decoder_for` does, before it reads the types of the files.

    Args:
        files: whole files.
        schema: the snapshot's schema.
        names: physical names of the columns to return; at least one.
        predicate: keep rows for which it is true; None: all.
        views: as `PolarsDecoder.views`.
    """
    if not is_loaded():
        return None
    if predicate is None:
        if any(map(_is_pattern, names)):
            return None
        return PolarsDecoder(files, tuple(names), views=views)
    wanted = normalise(predicate)
    looked = frozenset(schema.by_id(i).physical for i in fields(predicate))
    if _comparisons(wanted) > COMPARED_MOST or any(map(_is_pattern, {*names, *looked})):
        return None
    try:
        condition = _expression(wanted, schema)
    except AttributeError:
        # This polars is too old, or no polars.
        return None
    if condition is None:
        return None
    return PolarsDecoder(files, tuple(names), condition, looked, views)


@dataclass(frozen=True, slots=True, eq=False)
class PolarsDecoder:
    """Decoder of the matching rows of row groups."""

    files: ds.FileSystemDataset
    names: tuple[str, ...]
    condition: Any = None
    """An expression of polars; None: return all rows."""
    looked: frozenset[str] = frozenset()
    """Columns that the condition reads."""
    views: bool = False
    """Text is returned as Arrow's views, in the memory of polars. It becomes text of polars again
    without a copy."""
    _kinds: dict[object, _Kind | None] = field(default_factory=dict)

    def rows(
        self, run: Sequence[Part], live: Live, memory: FileMemory | None = None
    ) -> list[pa.RecordBatch] | None:
        """Return the matching live rows of row groups, in order; None: Arrow must decode them.

        Args:
            run: row groups of files. Together they are bounded by PIECE_BYTES, or one row group.
            live: the live rows of their files.
            memory: memory for the bytes of the row groups; None: new memory.
        """

        def decode() -> list[pa.RecordBatch] | None:
            opened = [self._opened(at, part) for at, part in enumerate(run)]
            if None in opened:
                return None
            files = [file for file in opened if file is not None]
            alike = itertools.groupby(files, key=lambda file: (file.elements, file.known))
            held = memory or FileMemory()
            return [batch for _, some in alike for batch in self._decoded(list(some), live, held)]

        return _unless_it_fails(decode)

    def picked(
        self, some: Sequence[tuple[ds.ParquetFileFragment, PickedPages]]
    ) -> list[pa.RecordBatch] | None:
        """Return the wanted rows of pages of each row group; None: Arrow must decode them.

        Args:
            some: row groups whose checksums are verified, and whose wanted rows all match the
                condition. The pages are those of all columns to read that the file has.
        """

        def decode() -> list[pa.RecordBatch] | None:
            files = [self._picked_file(fragment, pages) for fragment, pages in some]
            if None in files:
                return None
            alike = itertools.groupby(
                [file for file in files if file is not None],
                key=lambda file: (file.elements, file.known),
            )
            return [batch for _, same in alike for batch in self._picked_rows(list(same))]

        return _unless_it_fails(decode)

    def of_whole(
        self,
        fragment: ds.ParquetFileFragment,
        bodies: Sequence[bytes],
        live: NDArray[np.bool_] | None,
    ) -> list[pa.RecordBatch] | None:
        """Return the matching live rows of whole files; None: Arrow must decode them.

        Args:
            fragment: the first of the files. The log has the same values for the others, and
                their outlines differ in the number of rows only.
            bodies: the bytes of the files, which ADD-7 covers.
            live: for each row of the files whether it is live; None: all are.
        """

        def decode() -> list[pa.RecordBatch] | None:
            kind = self.kind(fragment)
            if kind is None:
                return None
            return self._selected(list(bodies), kind.stored, kind.known, live)

        return _unless_it_fails(decode)

    def stored(self, fragment: ds.ParquetFileFragment) -> dict[str, pa.DataType] | None:
        """Return the types that a file has for the columns to read; None: Arrow must decode it."""
        kinds, columns = fragment.physical_schema, self.files.schema
        needed = dict.fromkeys([*self.names, *sorted(self.looked)])
        counts = Counter(kinds.names)
        there = [name for name in needed if counts[name]]
        if any(counts[name] > 1 for name in there) or not self.looked <= {*there}:
            return None
        # A value that the log has replaces that of the file.
        if ds.get_partition_keys(fragment.partition_expression).keys() & there:
            return None
        stored = {name: _plain(kinds.field(name).type) for name in there}
        for name, kind in stored.items():
            wanted = columns.field(name).type
            same = kind == wanted or (str(kind) in _INTEGERS and pa.types.is_integer(wanted))
            if not _is_exact(kind) or (name in self.looked and not same):
                return None
        return stored

    def kind(self, fragment: ds.ParquetFileFragment) -> _Kind | None:
        """Return what is the same in all files with the columns and the values of one file; None:
        Arrow must decode them.
        """
        path, data = fragment.path, getattr(self.files.filesystem, "handler", None)
        outline = data.outline(path) if isinstance(data, DataFiles) else None
        key: object = path
        if outline is not None:
            key = outline.columns, outline.rest, str(fragment.partition_expression)
        if key not in self._kinds:
            leaves = data.leaves(path) if isinstance(data, DataFiles) else None
            self._kinds[key] = self._new_kind(fragment, leaves)
        return self._kinds[key]

    def _new_kind(
        self, fragment: ds.ParquetFileFragment, leaves: Sequence[Leaf] | None
    ) -> _Kind | None:
        stored = self.stored(fragment)
        if stored is None:
            return None
        if leaves is None:
            with self.files.filesystem.open_input_file(fragment.path) as source:
                leaves = columns_of(source)
        places = flat_columns(leaves)
        if any(n not in places or leaves[places[n]].kind == _INT96 for n in stored):
            return None
        returned = pa.schema([self.files.schema.field(name) for name in self.names])
        columns = [(leaves[places[name]], places[name]) for name in stored]
        return _Kind(stored, known_values(fragment, returned), columns)

    def _opened(self, at: int, part: Part) -> _File | None:
        """Return the column chunks of a part; None if polars might decode one otherwise."""
        fragment, spans = part
        kind = self.kind(fragment)
        if kind is None or not kind.columns:
            return None
        footer = fragment.metadata
        groups = [
            [_chunk(leaf, group, place) for leaf, place in kind.columns]
            for group in (footer.row_group(each.id) for each in fragment.row_groups)
            if group.num_rows
        ]
        elements = tuple(leaf.element for leaf, _ in kind.columns)
        return _File(at, fragment.path, spans, elements, kind.stored, kind.known, groups)

    def _decoded(
        self, some: Sequence[_File], live: Live, memory: FileMemory
    ) -> list[pa.RecordBatch]:
        """Return the matching live rows of files with the same columns."""
        described = [chunk for file in some for group in file.groups for chunk in group]
        if not described:
            return []
        width = len(some[0].elements)
        lengths = [chunk.stop - chunk.start for chunk in described]
        # Before memory is taken: a footer may describe the same bytes many times.
        if sum(lengths) > UNPACKED_MOST:
            raise ValueError("the pages are large")
        taken = memory.take(lengths, [chunk.leaf for chunk in described[:width]])
        bodies, there = [], iter(taken)
        for file in some:
            with self.files.filesystem.open_input_file(file.path) as source:
                for chunk in itertools.chain.from_iterable(file.groups):
                    bodies.append(chunk.read(source, next(there)))
        chunks = checked_chunks(bodies)
        if sum(chunk.unpacked for chunk in chunks) > UNPACKED_MOST:
            raise ValueError("the pages are large")
        groups = [(bodies[at].rows, chunks[at : at + width]) for at in range(0, len(chunks), width)]
        masks = [live(file.at) for file in some]
        kept = _live(some, masks) if any(mask is not None for mask in masks) else None
        found = self._selected(memory.file(groups), some[0].stored, some[0].known, kept)
        if self.condition is None:
            rows = sum(rows for rows, _ in groups) if kept is None else np.count_nonzero(kept)
            if sum(batch.num_rows for batch in found) != rows:
                raise ValueError("polars returns another number of rows")
        return found

    def _selected(
        self,
        source: bytes | list[bytes],
        stored: Mapping[str, pa.DataType],
        known: Mapping[str, pa.Scalar],
        live: NDArray[np.bool_] | None,
    ) -> list[pa.RecordBatch]:
        """Return the matching live rows of files in memory.

        Args:
            source: one file, or several with the same columns.
            stored: types of the columns to read.
            known: values of columns that the files lack.
            live: for each row whether it is live; None: all are.
        """
        import polars

        read = [name for name in self.names if name in stored]
        # Without a condition, all rows come in order.
        numbered = (live is not None and self.condition is not None) or not read
        rows = polars.scan_parquet(
            source,
            row_index_name=_ROW if numbered else None,
            # Their statistics are no part of what is known about these rows.
            use_statistics=False,
            hive_partitioning=False,
            glob=False,
            parallel="auto" if self.condition is None else "prefiltered",
        )
        if self.condition is not None:
            rows = rows.filter(self.condition)
        frame = rows.select([*read, *([_ROW] if numbered else [])]).collect()
        if live is not None:
            kept = live[frame[_ROW].to_numpy()] if numbered else live
            if not kept.all():
                frame = frame.filter(polars.Series(kept))
        if frame.height < BATCH_ROWS * frame.n_chunks():
            frame = frame.rechunk()
        return self._shaped(frame.select(read), frame.height, stored, known)

    def _shaped(
        self,
        frame: Any,
        rows: int,
        stored: Mapping[str, pa.DataType],
        known: Mapping[str, pa.Scalar],
    ) -> list[pa.RecordBatch]:
        """Return the rows of a frame in the types of the schema, a batch for each of its chunks.

        Args:
            frame: columns that the files have, perhaps none.
            rows: number of rows.
            stored: types of these columns.
            known: values of columns that the files lack.
        """
        import polars

        if not rows:
            return []
        shown = _viewed if self.views else _as_it_is
        nothing = pa.RecordBatch.from_arrays([pa.nulls(rows)], [_ROW])
        chunks = [nothing]
        if frame.columns:
            chunks = frame.to_arrow(compat_level=polars.CompatLevel.newest()).to_batches()
        kinds = [shown(stored[name]) for name in frame.columns]
        targets = [self.files.schema.field(name) for name in self.names]
        targets = [target.with_type(shown(target.type)) for target in targets]
        found = []
        for chunk in chunks:
            if kinds:
                columns = [as_type(c, kind) for c, kind in zip(chunk.columns, kinds, strict=True)]
                chunk = pa.RecordBatch.from_arrays(columns, frame.columns)
            shaped = [shaped_column(chunk, target, known) for target in targets]
            found.append(pa.RecordBatch.from_arrays(shaped, list(self.names)))
        return found

    def _picked_file(
        self, fragment: ds.ParquetFileFragment, pages: PickedPages
    ) -> _PickedFile | None:
        """Return pages of a file; None if polars might decode one otherwise."""
        kind = self.kind(fragment)
        if kind is None or {*kind.stored} != {*pages.names}:
            return None
        elements = tuple(chunk.leaf.element for chunk in pages.chunks)
        return _PickedFile(elements, kind.stored, kind.known, pages)

    def _picked_rows(self, some: Sequence[_PickedFile]) -> list[pa.RecordBatch]:
        """Return the wanted rows of each of some row groups with the same columns.

        Raises:
            ValueError: polars finds that a wanted row does not match, or the pages are large.
        """
        import polars

        if sum(file.pages.unpacked for file in some) > UNPACKED_MOST:
            raise ValueError("the pages are large")
        counts = [file.pages.total for file in some]
        starts = itertools.accumulate(counts[:-1], initial=0)
        wanted = np.concatenate(
            [start + file.pages.rows for start, file in zip(starts, some, strict=True)]
        )
        body = page_file([(file.pages.total, file.pages.chunks) for file in some])
        read = [name for name in self.names if name in some[0].stored]
        rows = polars.scan_parquet(body, row_index_name=_ROW, glob=False, parallel="prefiltered")
        frame = rows.filter(self.condition).select([*read, _ROW]).collect()
        matching = frame[_ROW].to_numpy()
        if not np.array_equal(matching, wanted):
            # Deleted rows match, too.
            frame = frame.filter(polars.Series(np.isin(matching, wanted)))
        if frame.height != len(wanted):
            raise ValueError("polars and Arrow disagree on the condition")
        frame = frame.rechunk().select(read)
        (batch,) = self._shaped(frame, len(wanted), some[0].stored, some[0].known)
        ends = itertools.accumulate(len(file.pages.rows) for file in some)
        return [
            batch.slice(end - len(file.pages.rows), len(file.pages.rows))
            for end, file in zip(ends, some, strict=True)
        ]


class _Kind(NamedTuple):
    """Common parts of files that polars decodes as Arrow does."""

    stored: dict[str, pa.DataType]
    """Types of the columns to read, by name."""
    known: dict[str, pa.Scalar]
    """Values of columns that the files lack."""
    columns: Sequence[tuple[Leaf, int]]
    """The columns of `stored` in their footers, with their indexes."""


class _PickedFile(NamedTuple):
    """Pages of a row group."""

    elements: tuple[bytes, ...]
    """Columns, as the file's schema has them."""
    stored: dict[str, pa.DataType]
    """Their types by name."""
    known: dict[str, pa.Scalar]
    """Values of columns that the file lacks."""
    pages: PickedPages


_T = TypeVar("_T")


def _unless_it_fails(decode: Callable[[], _T | None]) -> _T | None:
    """Return the result; None if polars or a check fails, so that Arrow decodes and reports."""
    try:
        return decode()
    except Exception:
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


class _File(NamedTuple):
    """Row groups of a file."""

    at: int
    """Index of the part."""
    path: str
    spans: Sequence[tuple[int, int]]
    """Positions of their rows in the file."""
    elements: tuple[bytes, ...]
    """Columns, as the file's schema has them."""
    stored: dict[str, pa.DataType]
    """Their types by name."""
    known: dict[str, pa.Scalar]
    """Values of columns that the file lacks."""
    groups: list[list[_ChunkPlace]]
    """The column chunks of each row group."""


def _as_it_is(kind: pa.DataType) -> pa.DataType:
    return kind


def _viewed(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values with text and bytes as views."""
    if pa.types.is_string(kind):
        return pa.string_view()
    return pa.binary_view() if pa.types.is_binary(kind) else kind


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether polars decodes columns of an Arrow type to the same values."""
    return pa.types.is_decimal128(kind) or str(kind) in _KINDS or str(kind) in _TIMES


class _ChunkPlace(NamedTuple):
    """A column chunk of a file."""

    leaf: Leaf
    form: bytes
    rows: int
    start: int
    stop: int

    def read(self, source: Any, memory: memoryview) -> ChunkBody:
        """Read the chunk into memory. Raises ValueError: it is truncated."""
        source.seek(self.start)
        if source.readinto(memory) != self.stop - self.start:
            raise ValueError("a column chunk is truncated")
        return ChunkBody(self.leaf, self.form, self.rows, memory)


def _chunk(leaf: Leaf, group: pq.RowGroupMetaData, place: int) -> _ChunkPlace:
    """Return where a column chunk is. Raises ValueError: it has an unusual form."""
    described = group.column(place)
    form = known_form(leaf, described)
    if form is None:
        raise ValueError("a column chunk has an unusual codec or encoding")
    return _ChunkPlace(leaf, form, group.num_rows, *chunk_extent(described))


def _live(some: Sequence[_File], masks: Sequence[NDArray[np.bool_] | None]) -> NDArray[np.bool_]:
    """Return for each row of some row groups whether it is live."""
    found = [np.ones(0, bool)]
    for file, mask in zip(some, masks, strict=True):
        for first, count in file.spans:
            if mask is None:
                found.append(np.ones(count, bool))
            elif first + count > len(mask):
                raise ValueError("the file has more rows than the log says")
            else:
                found.append(mask[first : first + count])
    return np.concatenate(found)


def _is_pattern(name: str) -> bool:
    """Return whether polars reads a name as a pattern of several names."""
    return name == "*" or name.startswith("^")


def _comparisons(predicate: Predicate) -> int:
    """Return the number of comparisons in a normal predicate."""
    if isinstance(predicate, And | Or):
        return sum(map(_comparisons, predicate.items))
    leaf = predicate.item if isinstance(predicate, Not) else predicate
    return len(leaf.values) if isinstance(leaf, In) else 1


def _expression(predicate: Predicate, schema: Schema) -> Any:
    """Return a normal predicate as an expression of polars over physical names; None: it is not
    understood.
    """
    if isinstance(predicate, And | Or):
        items = [_expression(item, schema) for item in predicate.items]
        if any(item is None for item in items):
            return None
        return reduce(operator.and_ if isinstance(predicate, And) else operator.or_, items)
    negated = isinstance(predicate, Not)
    leaf = predicate.item if isinstance(predicate, Not) else predicate
    if not isinstance(leaf, Comparison | In | IsNull):
        return None
    field = schema.by_id(leaf.field.id)
    if not isinstance(field.type, Decimal) and str(field.type) not in _COMPARED:
        return None
    import polars

    column = polars.col(field.physical)
    if isinstance(leaf, IsNull):
        return column.is_not_null() if negated else column.is_null()
    if isinstance(leaf, Comparison):
        return _comparison(column, field, leaf.op, leaf.value)
    if None in leaf.values or len(leaf.values) > LISTED_MOST:
        return None
    same = [_comparison(column, field, "!=" if negated else "=", v) for v in leaf.values]
    return reduce(operator.and_ if negated else operator.or_, same)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _comparison(column: Any, field: Field, op: str, value: Any) -> Any:
    import polars

    kinds: dict[str, Any] = {
        "byte": polars.Int8,
        "short": polars.Int16,
        "integer": polars.Int32,
        "long": polars.Int64,
        "string": polars.String,
    }
    if isinstance(field.type, Decimal):
        other = polars.lit(value, dtype=polars.Decimal(field.type.precision, field.type.scale))
    elif str(field.type) == "date":
        other = polars.lit(value, dtype=polars.Int32).cast(polars.Date)
    else:
        kind = kinds[str(field.type)]
        column, other = column.cast(kind), polars.lit(value, dtype=kind)
    return _OPERATORS[op](column, other)
