"""Rows out of data files, through Arrow's own scanner; page checksums are always verified.

Spec: DAT-4, DAT-5, DAT-7, ADD-7, DEL-4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.damage import DAMAGE, first_line, first_problem, is_no_answer
from tablefmt.data.live_rows import POSITION, READAHEAD, live_batches
from tablefmt.data.nested_values import relabelled
from tablefmt.data.plain_read import needs_plain, plain_batches
from tablefmt.data.portions import Needs, Portion, portions, replace_fragments
from tablefmt.errors import CorruptDataError, InvalidPredicateError, TablefmtError
from tablefmt.model.arrow_types import arrow_field
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import Store

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
    pushed_reads: frozenset[str] | None = None
    """Physical names of the columns that `pushed` looks at; None: unknown."""

    def needs(self, schema: Schema, names: Sequence[str], eager: bool = True) -> Needs:
        """What is read of files for columns of those physical names."""
        if self.pushed is not None and self.pushed_reads is None:
            return Needs(schema, None, self.pushed, eager)
        read = frozenset(names).union(self.reads, self.pushed_reads or ())
        return Needs(schema, read, self.pushed, eager)


@dataclass(frozen=True, slots=True, eq=False)
class LocatedRows:
    """Rows of one file and where they are in it."""

    file: int
    """The place of the file among those read."""
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
) -> Iterator[pa.RecordBatch]:
    """Batches in the order of `files`, with the columns asked for under their logical names.

    Args:
        store: where the files are.
        files: live files: `path`, `size`, `rows`, and `footer` where it is known; `vector`, packed
            positions of rows that are gone, and `deleted`, their number, where there are any.
        schema: the snapshot's.
        columns: columns of the answer, in order.
        condition: rows for which it is true are kept.
        eager: all rows will be asked for, so files of a remote store are fetched early.

    Raises:
        CorruptDataError: DAT-5, a file is missing, of the wrong length, holds another number of
            rows, or fails a checksum.
        StoreError: a remote store cannot answer.
        InvalidPredicateError: Arrow cannot evaluate the condition on these rows.
    """
    answer = answer_schema(columns)
    condition = condition or RowFilter(None)
    # Those of the condition first: it may name them by place.
    names = dict.fromkeys([*condition.reads, *(f.physical for f in columns)])
    for portion in portions(store, files, condition.needs(schema, list(names), eager)):
        try:
            for batch in _batches(portion, schema, list(names), condition):
                rows = _kept(batch, condition)
                if rows.num_rows:
                    arrays = [rows.column(f.physical) for f in columns]
                    yield _as_answer(arrays, rows.num_rows, answer)
            _check_rows(portion)
        except InvalidPredicateError:
            raise
        except DAMAGE as error:
            raise _diagnosis(store, portion, schema, condition, error) from None
        portion.drop()


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
    answer = answer_schema(columns)
    condition = condition or RowFilter(None)
    names = list(dict.fromkeys([*condition.reads, *(f.physical for f in columns)]))
    for portion in portions(store, files, condition.needs(schema, names)):
        try:
            for place, batch in _live(portion, schema, names, condition, readahead):
                rows = _kept(batch, condition)
                if rows.num_rows:
                    arrays = [rows.column(f.physical) for f in columns]
                    located = _as_answer(arrays, rows.num_rows, answer)
                    positions = rows.column(POSITION).to_numpy()
                    yield LocatedRows(portion.start + place, positions, located)
            _check_rows(portion)
        except InvalidPredicateError:
            raise
        except DAMAGE as error:
            raise _diagnosis(store, portion, schema, condition, error) from None
        portion.drop()


def _kept(batch: pa.RecordBatch, condition: RowFilter) -> pa.RecordBatch:
    if condition.exact is None:
        return batch
    if isinstance(condition.exact, pc.Expression):
        return batch.filter(condition.exact)
    return batch.filter(condition.exact(batch))


def _batches(
    portion: Portion, schema: Schema, names: list[str], condition: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Live rows for which what is pushed is true; the columns `names` come first."""
    if _is_whole(portion.files) and not needs_plain(schema):
        yield from portion.dataset.scanner(names, condition.pushed).to_batches()
        return
    for _, batch in _live(portion, schema, names, condition):
        yield batch


def _live(
    portion: Portion,
    schema: Schema,
    names: list[str],
    condition: RowFilter,
    readahead: int = READAHEAD,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    files, dataset, pushed = portion.files, portion.dataset, condition.pushed
    vectors = [None] * files.num_rows if _is_whole(files) else files["vector"].to_pylist()
    rows = files["rows"].to_pylist()
    if needs_plain(schema):
        return plain_batches(dataset, schema, rows, vectors, names, pushed)
    return live_batches(dataset, rows, vectors, names, pushed, readahead)


def _check_rows(portion: Portion) -> None:
    """DAT-5. After the scan, when Arrow has the footers."""
    rows = portion.files["rows"].to_pylist()
    for fragment, expected in zip(portion.dataset.get_fragments(), rows, strict=True):
        if fragment.metadata.num_rows != expected:
            raise ValueError("a file does not hold the rows that the log says")


def _is_whole(files: pa.Table) -> bool:
    """Whether no row of these files is gone."""
    if "vector" in files.column_names:
        return bool(files["vector"].null_count == files.num_rows)
    removed = pc.sum(files["deleted"]).as_py() if "deleted" in files.column_names else 0
    assert not removed, "files with rows that are gone come with their vectors"
    return True


def _as_answer(arrays: list[pa.Array], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """The columns under their logical names and nullability."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    columns = [relabelled(a, f.type) for a, f in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def count_rows(store: Store, files: pa.Table, schema: Schema, condition: RowFilter | None) -> int:
    """How many rows `read_files` would give. Raises the same."""
    if condition is None:
        removed = pc.sum(files["deleted"]).as_py() if "deleted" in files.column_names else 0
        return int(pc.sum(files["rows"]).as_py() or 0) - int(removed or 0)
    if condition.exact is not None or not _is_whole(files) or needs_plain(schema):
        read = [f for f in schema.fields if f.physical in condition.reads]
        return sum(b.num_rows for b in read_files(store, files, schema, read, condition))
    count = 0
    for portion in portions(store, files, condition.needs(schema, [])):
        try:
            count += portion.dataset.count_rows(filter=condition.pushed)
            _check_rows(portion)
        except DAMAGE as error:
            raise _diagnosis(store, portion, schema, condition, error) from None
        portion.drop()
    return count


def answer_schema(columns: Sequence[Field]) -> pa.Schema:
    """What a reader sees of these columns."""
    return pa.schema(list(map(arrow_field, columns)))


def _diagnosis(
    store: Store, portion: Portion, schema: Schema, condition: RowFilter, error: BaseException
) -> TablefmtError:
    """Which file it was: Arrow's own message may name none. Or else it was the condition."""
    if isinstance(error, TablefmtError) and is_no_answer(store, error):
        return error
    problem = first_problem(store, portion.files) or _scan_problem(portion, schema)
    if problem is not None:
        return CorruptDataError(problem[1], key=problem[0], rule="DAT-5")
    if condition.pushed is not None or condition.exact is not None:
        return InvalidPredicateError(f"the condition cannot be evaluated: {first_line(error)}")
    return CorruptDataError(f"the data files could not be read: {first_line(error)}", rule="DAT-5")


def _scan_problem(portion: Portion, schema: Schema) -> tuple[str, str] | None:
    """What keeps a whole file from being scanned under this schema."""
    rows = portion.files["rows"].to_pylist()
    for fragment, expected in zip(portion.dataset.get_fragments(), rows, strict=True):
        try:
            file = replace_fragments(portion.dataset, [fragment])
            if needs_plain(schema):
                batches = plain_batches(file, schema, [expected], [None], [], None)
                for _ in batches:
                    pass
            else:
                for _ in file.to_batches():
                    pass
        except DAMAGE as error:
            return fragment.path, f"it cannot be read: {first_line(error)}"
    return None


def physical_schema(schema: Schema) -> Schema:
    """The same columns called by their physical names: for conditions on data files."""
    return replace(schema, fields=tuple(replace(f, name=f.physical) for f in schema.fields))
