"""Rows out of data files, through Arrow's own scanner; page checksums are always verified.

Spec: DAT-4, DAT-5, DAT-7, ADD-7, DEL-4.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.checksum import first_damaged, stored_checksum
from tablefmt.data.conform import relabelled
from tablefmt.data.live import POSITION, READAHEAD, THREADS, live_batches
from tablefmt.errors import CorruptDataError, InvalidPredicateError, StoreError
from tablefmt.model.arrow_types import arrow_field, file_schema
from tablefmt.model.defaults import default_array
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import KeyNotFoundError, Store

GROUP_FILES = 256
"""Files whose ends are verified and that are then scanned together."""

_CHECKED = ds.ParquetFragmentScanOptions(page_checksum_verification=True, pre_buffer=True)

# Damage shows as anything: bytes that are no UTF-8, lengths beyond memory, types that do not exist.
_DAMAGE = (OSError, pa.ArrowException, StoreError, KeyNotFoundError, MemoryError, ValueError)


Test = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Says of each row whether it is wanted; never null. Columns have physical names."""


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """Which rows are wanted, over physical names.

    Parquet statistics leave NaN out, and Arrow takes a row group with equal bounds for a constant;
    so what is pushed into the scan may be wider than what is wanted (PRN-10).
    """

    pushed: pc.Expression | None
    """Passes every row that is wanted, in spite of the statistics."""
    exact: pc.Expression | Test | None = None
    """Applied to what the scan gives; None if `pushed` is exact already."""
    reads: tuple[str, ...] = ()
    """Physical names of the columns that `exact` looks at."""


@dataclass(frozen=True, slots=True, eq=False)
class LocatedRows:
    """Rows of one file and where they are in it."""

    file: int
    """The place of the file among those read."""
    positions: NDArray[np.int64]
    """Ascending; 0 is the first row of the file."""
    rows: pa.RecordBatch


def dataset_of(store: Store, files: pa.Table, schema: Schema) -> ds.FileSystemDataset:
    """The files (columns `path` and `size`) as an Arrow dataset over physical names.

    What a file lacks is NULL, or the column's initial value; narrower values are cast (DAT-12).
    """
    filesystem, root = store.arrow_filesystem()
    kind = ds.ParquetFileFormat(default_fragment_scan_options=_CHECKED)
    prefix = root + "/" if root else ""
    initial = [f for f in schema.fields if f.initial is not None]

    def fragment(path: str, size: int) -> ds.ParquetFileFragment:
        file = kind.make_fragment(prefix + path, filesystem, file_size=size)
        known = _initial_values(initial, file)
        if known is None:
            return file
        return kind.make_fragment(prefix + path, filesystem, known, file_size=size)

    described = (files["path"].to_pylist(), files["size"].to_pylist())
    # Without initial values no file is looked at here.
    with ThreadPoolExecutor(max(1, min(THREADS, files.num_rows))) as pool:
        fragments = list((pool.map if initial else map)(fragment, *described))
    return ds.FileSystemDataset(fragments, file_schema(schema), kind, filesystem)


def _initial_values(initial: Sequence[Field], file: ds.ParquetFileFragment) -> pc.Expression | None:
    """What is true of every row of a file: the values of columns that it lacks (SCH-7)."""
    if not initial:
        return None
    there = frozenset(file.physical_schema.names)
    known = [
        pc.field(f.physical) == default_array(f.initial, f.type)[0]
        for f in initial
        if f.physical not in there
    ]
    return reduce(operator.and_, known) if known else None


def read_files(
    store: Store,
    files: pa.Table,
    schema: Schema,
    columns: Sequence[Field],
    condition: RowFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches in the order of `files`, with the columns asked for under their logical names.

    Args:
        store: where the files are.
        files: live files: `path`, `size`, `rows`, and `footer` where it is known; `vector`, packed
            positions of rows that are gone, and `deleted`, their number, where there are any.
        schema: the snapshot's.
        columns: columns of the answer, in order.
        condition: rows for which it is true are kept.

    Raises:
        CorruptDataError: DAT-5, a file is missing, of the wrong length, or fails a checksum.
        InvalidPredicateError: Arrow cannot evaluate the condition on these rows.
    """
    wanted = answer_schema(columns)
    condition = condition or RowFilter(None)
    # Those of the condition first: it may name them by place.
    names = dict.fromkeys([*condition.reads, *(f.physical for f in columns)])
    for _, group in _groups(store, files):
        try:
            for batch in _batches(store, group, schema, list(names), condition):
                rows = _kept(batch, condition)
                if rows.num_rows:
                    arrays = [rows.column(f.physical) for f in columns]
                    yield _as_wanted(arrays, rows.num_rows, wanted)
        except InvalidPredicateError:
            raise
        except _DAMAGE as error:
            raise _diagnosis(store, group, schema, condition, error) from None


def locate_rows(
    store: Store,
    files: pa.Table,
    schema: Schema,
    columns: Sequence[Field],
    condition: RowFilter | None = None,
    readahead: int = READAHEAD,
) -> Iterator[LocatedRows]:
    """The rows of `read_files`, with the file and the position of each. Takes and raises the same.

    A file's rows come in one or more pieces, in the order of their positions. For `readahead` see
    `live_batches`.
    """
    wanted = answer_schema(columns)
    condition = condition or RowFilter(None)
    names = list(dict.fromkeys([*condition.reads, *(f.physical for f in columns)]))
    for start, group in _groups(store, files):
        try:
            for place, batch in _live(store, group, schema, names, condition, readahead):
                rows = _kept(batch, condition)
                if rows.num_rows:
                    arrays = [rows.column(f.physical) for f in columns]
                    found = _as_wanted(arrays, rows.num_rows, wanted)
                    yield LocatedRows(start + place, rows.column(POSITION).to_numpy(), found)
        except InvalidPredicateError:
            raise
        except _DAMAGE as error:
            raise _diagnosis(store, group, schema, condition, error) from None


def _kept(batch: pa.RecordBatch, condition: RowFilter) -> pa.RecordBatch:
    if condition.exact is None:
        return batch
    if isinstance(condition.exact, pc.Expression):
        return batch.filter(condition.exact)
    return batch.filter(condition.exact(batch))


def _batches(
    store: Store, group: pa.Table, schema: Schema, names: list[str], condition: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Live rows for which what is pushed is true; the columns `names` come first."""
    if _is_whole(group):
        yield from dataset_of(store, group, schema).scanner(names, condition.pushed).to_batches()
        return
    for _, batch in _live(store, group, schema, names, condition):
        yield batch


def _live(
    store: Store,
    group: pa.Table,
    schema: Schema,
    names: list[str],
    condition: RowFilter,
    readahead: int = READAHEAD,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    vectors = [None] * group.num_rows if _is_whole(group) else group["vector"].to_pylist()
    dataset = dataset_of(store, group, schema)
    rows = group["rows"].to_pylist()
    return live_batches(dataset, rows, vectors, names, condition.pushed, readahead)


def _is_whole(files: pa.Table) -> bool:
    """Whether no row of these files is gone."""
    if "vector" in files.column_names:
        return bool(files["vector"].null_count == files.num_rows)
    gone = pc.sum(files["deleted"]).as_py() if "deleted" in files.column_names else 0
    assert not gone, "files with rows that are gone come with their vectors"
    return True


def _as_wanted(arrays: list[pa.Array], rows: int, wanted: pa.Schema) -> pa.RecordBatch:
    """The columns under their logical names and nullability."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    columns = [relabelled(a, f.type) for a, f in zip(arrays, wanted, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def count_rows(store: Store, files: pa.Table, schema: Schema, condition: RowFilter | None) -> int:
    """How many rows `read_files` would give. Raises the same."""
    if condition is None:
        gone = pc.sum(files["deleted"]).as_py() if "deleted" in files.column_names else 0
        return int(pc.sum(files["rows"]).as_py() or 0) - int(gone or 0)
    if condition.exact is not None or not _is_whole(files):
        read = [f for f in schema.fields if f.physical in condition.reads]
        return sum(b.num_rows for b in read_files(store, files, schema, read, condition))
    found = 0
    for _, group in _groups(store, files):
        try:
            found += dataset_of(store, group, schema).count_rows(filter=condition.pushed)
        except InvalidPredicateError:
            raise
        except _DAMAGE as error:
            raise _diagnosis(store, group, schema, condition, error) from None
    return found


def _groups(store: Store, files: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The files in runs whose ends are what was written (ADD-7); with the place of the first."""
    for start in range(0, files.num_rows, GROUP_FILES):
        group = files.slice(start, GROUP_FILES)
        try:
            damaged = first_damaged(store, group)
        except StoreError as error:
            raise CorruptDataError(
                f"the data files could not be read: {_first_line(error)}", rule="DAT-5"
            ) from None
        if damaged is not None:
            path, size, rows, footer = _described(group.slice(damaged, 1))[0]
            problem = check_file(store, path, size, rows, deep=False, footer=footer)
            raise CorruptDataError(problem or "it was damaged", key=path, rule="DAT-5")
        yield start, group


def answer_schema(columns: Sequence[Field]) -> pa.Schema:
    """What a reader sees of these columns."""
    return pa.schema(list(map(arrow_field, columns)))


def check_file(
    store: Store, path: str, size: int, rows: int, *, deep: bool, footer: int | None = None
) -> str | None:
    """What is wrong with one data file, or None.

    Args:
        store: where it is.
        path: its key.
        size: bytes the log says.
        rows: rows the log says.
        deep: read every page and verify its checksum; otherwise length and footer alone.
        footer: its checksum in the log (ADD-7), if it is there.
    """
    try:
        found = store.size(path)
        if found != size:
            return f"it is {found} bytes long, and the log says {size}"
        if footer is not None and stored_checksum(store, path, size) != footer:
            return "its bytes are not those that were written"
        filesystem, root = store.arrow_filesystem()
        name = f"{root}/{path}" if root else path
        with filesystem.open_input_file(name) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            if file.metadata.num_rows != rows:
                return f"it holds {file.metadata.num_rows} rows, and the log says {rows}"
            if deep:
                for _ in file.iter_batches():
                    pass
    except KeyNotFoundError:
        return "it is missing"
    except _DAMAGE as error:
        return f"it cannot be read: {_first_line(error)}"
    return None


def _diagnosis(
    store: Store,
    files: pa.Table,
    schema: Schema,
    condition: RowFilter,
    error: BaseException,
) -> CorruptDataError | InvalidPredicateError:
    """Which file it was: Arrow's own message may name none. Or else it was the condition."""
    for at, (path, size, rows, footer) in enumerate(_described(files)):
        problem = check_file(store, path, size, rows, deep=True, footer=footer)
        problem = problem or _scan_problem(store, files.slice(at, 1), schema)
        if problem is not None:
            return CorruptDataError(problem, key=path, rule="DAT-5")
    if condition.pushed is not None or condition.exact is not None:
        return InvalidPredicateError(f"the condition cannot be evaluated: {_first_line(error)}")
    return CorruptDataError(f"the data files could not be read: {_first_line(error)}", rule="DAT-5")


def _scan_problem(store: Store, file: pa.Table, schema: Schema) -> str | None:
    """What keeps a whole file from being scanned under this schema."""
    try:
        for _ in dataset_of(store, file, schema).to_batches():
            pass
    except _DAMAGE as error:
        return f"it cannot be read: {_first_line(error)}"
    return None


def _described(files: pa.Table) -> list[tuple[str, int, int, int | None]]:
    """Path, size, rows and checksum of each file."""
    names = ("path", "size", "rows")
    columns = [files[name].to_pylist() for name in names]
    known = "footer" in files.column_names
    columns.append(files["footer"].to_pylist() if known else [None] * files.num_rows)
    return list(zip(*columns, strict=True))


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def physical_schema(schema: Schema) -> Schema:
    """The same columns called by their physical names: for conditions on data files."""
    return replace(schema, fields=tuple(replace(f, name=f.physical) for f in schema.fields))
