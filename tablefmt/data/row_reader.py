"""Rows of data files, read through Arrow's own scanner with all page checksums verified.

Spec: DAT-4, DAT-5, DAT-7, ADD-7, DEL-4.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.arrow_scanner import POSITION, READAHEAD, replace_fragments
from tablefmt.data.direct_reader import DamagedPagesError, needs_plain, plain_batches
from tablefmt.data.file_verification import DAMAGE, first_line, first_problem, is_no_answer
from tablefmt.data.imported_files import (
    FileRun,
    ImportedScan,
    explain_missing,
    has_imported,
    runs_of,
)
from tablefmt.data.matching_rows import Reading, RowFilter, located, matching
from tablefmt.data.scan_tasks import ScanTask, is_whole, tasks_of
from tablefmt.data.small_files import by_size
from tablefmt.data.value_conversion import relabelled
from tablefmt.errors import CorruptDataError, InvalidPredicateError, TablefmtError
from tablefmt.model.arrow_types import arrow_field
from tablefmt.model.schema import Field, Schema
from tablefmt.store.import_roots import folder_of
from tablefmt.store.object_store import Store


@dataclass(frozen=True, slots=True, eq=False)
class LocatedRows:
    """Rows of one file with their positions in it."""

    file: int
    """Index of the file among the files read."""
    positions: NDArray[np.int64]
    """Ascending; 0 is the first row of the file."""
    rows: pa.RecordBatch


def read_files(
    store: Store,
    files: pa.Table,
    schema: Schema,
    columns: Sequence[Field],
    condition: RowFilter | None = None,
    *,
    eager: bool = True,
    first: int | None = None,
    kept: bool = False,
    views: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield batches in the order of `files`, with the requested columns under their logical names.

    Args:
        store: the store with the files.
        files: live files: `path`, `size`, `rows`, and `footer` if it is known. If rows are deleted:
            `vector`, their encoded positions, and `deleted`, their number.
        schema: the snapshot's schema.
        columns: columns of the result, in order.
        condition: keep rows for which it is true.
        eager: all rows will be requested, so files of a remote store are fetched early.
        first: most rows that will be requested; None for all.
        kept: the caller keeps all batches in memory at once.
        views: text may be returned as views of Arrow, column by column and batch by batch.

    Raises:
        CorruptDataError: DAT-5: a file is missing, has another length or row count, or fails a
            checksum.
        StoreError: a remote store cannot answer.
        InvalidPredicateError: Arrow cannot evaluate the condition on these rows.
    """
    answer = answer_schema(columns)
    condition = condition or RowFilter(None)
    if has_imported(files):
        yield from _imported_rows(store, files, schema, columns, condition, eager, first)
        return
    # The condition's columns come first: it may name them by position.
    names = list(dict.fromkeys([*condition.reads, *(f.physical for f in columns)]))
    # If the caller keeps all batches, reading ahead needs no extra memory.
    most = sys.maxsize if kept and condition.pushed is condition.exact is first is None else None
    later = condition.is_coded_later(store)
    reading = Reading(
        schema,
        names,
        condition,
        first=first,
        most_bytes=most,
        coded_later=later and first is None,
        views=views,
    )
    tasks = tasks_of(store, files, condition.needs(schema, names, eager, first, not later))
    for task in chain.from_iterable(map(by_size, tasks)):
        with _diagnosed(store, task, schema, condition):
            for rows in matching(task, reading):
                if rows.num_rows:
                    yield _chosen(rows, columns, answer)
            _check_rows(task)
        task.drop()


def _imported_rows(
    store: Store,
    files: pa.Table,
    schema: Schema,
    columns: Sequence[Field],
    condition: RowFilter,
    eager: bool,
    first: int | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of runs of imported and of own files as `read_files` does."""
    answer = answer_schema(columns)
    for run in runs_of(files):
        folder = folder_of(store, run.root)
        if run.layout is None:
            yield from read_files(store, run.files, schema, columns, condition, eager=eager)
            continue
        scan = ImportedScan.of(run, schema, columns, condition)
        limit = first if condition.pushed is condition.exact is None else None
        batches = read_files(
            folder, run.files, scan.schema, scan.columns, scan.inner, eager=eager, first=limit
        )
        with explain_missing(run.root):
            for rows in map(scan.kept, batches):
                if rows.num_rows:
                    yield _chosen(rows, columns, answer)


def locate_rows(
    store: Store,
    files: pa.Table,
    schema: Schema,
    columns: Sequence[Field],
    condition: RowFilter | None = None,
    readahead: int = READAHEAD,
) -> Iterator[LocatedRows]:
    """Yield the rows of `read_files` with file and position. Takes and raises the same.

    A file's rows arrive in one or more pieces, in the order of their positions. For `readahead` see
    `live_batches`.
    """
    answer = answer_schema(columns)
    condition = condition or RowFilter(None)
    if has_imported(files):
        for run in runs_of(files):
            if run.layout is None:
                parts = locate_rows(store, run.files, schema, columns, condition, readahead)
            else:
                parts = _located_imported(store, run, schema, columns, condition, readahead)
            for one in parts:
                yield replace(one, file=run.start + one.file)
        return
    names = list(dict.fromkeys([*condition.reads, *(f.physical for f in columns)]))
    later = condition.is_coded_later(store)
    reading = Reading(schema, names, condition, readahead, coded_later=later)
    for task in tasks_of(store, files, condition.needs(schema, names, coded=not later)):
        with _diagnosed(store, task, schema, condition):
            for place, rows in located(task, reading):
                if rows.num_rows:
                    chosen = _chosen(rows, columns, answer)
                    positions = rows.column(POSITION).to_numpy()
                    yield LocatedRows(task.start + place, positions, chosen)
            _check_rows(task)
        task.drop()


def _located_imported(
    store: Store,
    run: FileRun,
    schema: Schema,
    columns: Sequence[Field],
    condition: RowFilter,
    readahead: int,
) -> Iterator[LocatedRows]:
    """Yield the rows of a run of imported files as `locate_rows` does."""
    answer, scan = answer_schema(columns), ImportedScan.of(run, schema, columns, condition)
    folder = folder_of(store, run.root)
    parts = locate_rows(folder, run.files, scan.schema, scan.columns, scan.inner, readahead)
    with explain_missing(run.root):
        for one in parts:
            placed = one.rows.append_column(POSITION, pa.array(one.positions))
            rows = scan.kept(placed)
            if rows.num_rows:
                chosen = _chosen(rows, columns, answer)
                yield LocatedRows(one.file, rows.column(POSITION).to_numpy(), chosen)


def _check_rows(task: ScanTask) -> None:
    """Check row counts (DAT-5)."""
    for path, expected in zip(*(task.files[c].to_pylist() for c in ("path", "rows")), strict=True):
        outline = task.data.outline(path)
        if outline is None or outline.rows != expected:
            raise ValueError("a file has a different number of rows than the log says")


def _chosen(rows: pa.RecordBatch, columns: Sequence[Field], answer: pa.Schema) -> pa.RecordBatch:
    """Return the columns under their logical names and nullability."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    pairs = zip(columns, answer, strict=True)
    arrays = [_as_shown(rows.column(f.physical), shown.type) for f, shown in pairs]
    if any(array.type in _VIEWS for array in arrays):
        answer = pa.schema([f.with_type(a.type) for f, a in zip(answer, arrays, strict=True)])
    return pa.RecordBatch.from_arrays(arrays, schema=answer)


_VIEWS = (pa.string_view(), pa.binary_view())


def _as_shown(values: pa.Array, target: pa.DataType) -> pa.Array:
    return values if values.type in _VIEWS else relabelled(values, target)


def count_rows(store: Store, files: pa.Table, schema: Schema, condition: RowFilter | None) -> int:
    """Return the number of rows that `read_files` would return. Raises the same."""
    if condition is None:
        removed = pc.sum(files["deleted"]).as_py() if "deleted" in files.column_names else 0
        return int(pc.sum(files["rows"]).as_py() or 0) - int(removed or 0)
    by_rows = has_imported(files) or not is_whole(files) or needs_plain(schema)
    if condition.exact is not None or by_rows:
        read = [f for f in schema.fields if f.physical in condition.reads]
        return sum(b.num_rows for b in read_files(store, files, schema, read, condition))
    count = 0
    for task in tasks_of(store, files, condition.needs(schema, [])):
        with _diagnosed(store, task, schema, condition):
            count += task.dataset.count_rows(filter=condition.pushed)
            _check_rows(task)
        task.drop()
    return count


def answer_schema(columns: Sequence[Field]) -> pa.Schema:
    """Return the Arrow schema of the result for these columns."""
    return pa.schema(list(map(arrow_field, columns)))


@contextmanager
def _diagnosed(
    store: Store, task: ScanTask, schema: Schema, condition: RowFilter
) -> Iterator[None]:
    """Replace an error of reading a task by the one that `_diagnosis` returns."""
    try:
        yield
    except InvalidPredicateError:
        raise
    except DAMAGE as error:
        raise _diagnosis(store, task, schema, condition, error) from None


def _diagnosis(
    store: Store, task: ScanTask, schema: Schema, condition: RowFilter, error: BaseException
) -> TablefmtError:
    """Return the error with the damaged file, which Arrow may not name, or for the condition."""
    if isinstance(error, TablefmtError) and is_no_answer(store, error):
        return error
    problem = first_problem(store, task.files) or _scan_problem(task, schema)
    if problem is not None:
        return CorruptDataError(problem[1], key=problem[0], rule="DAT-5")
    if isinstance(error, DamagedPagesError):
        return CorruptDataError(str(error), key=error.path, rule="DAT-5")
    if condition.pushed is not None or condition.exact is not None:
        return InvalidPredicateError(f"the condition cannot be evaluated: {first_line(error)}")
    return CorruptDataError(f"the data files could not be read: {first_line(error)}", rule="DAT-5")


def _scan_problem(task: ScanTask, schema: Schema) -> tuple[str, str] | None:
    """Return the first file that cannot be scanned under this schema, and its problem."""
    rows = task.files["rows"].to_pylist()
    for fragment, expected in zip(task.dataset.get_fragments(), rows, strict=True):
        try:
            file = replace_fragments(task.dataset, [fragment])
            if needs_plain(schema):
                names = [field.physical for field in schema.fields]
                batches = plain_batches(file, schema, [expected], [None], names, None)
                for _ in batches:
                    pass
            else:
                for _ in file.to_batches():
                    pass
        except DAMAGE as error:
            return fragment.path, f"it cannot be read: {first_line(error)}"
    return None
