"""Rows out of data files, through Arrow's own scanner; page checksums are always verified.

Spec: DAT-4, DAT-5, DAT-7, ADD-7, DEL-4.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.damage import DAMAGE, first_line, first_problem, is_no_answer
from tablefmt.data.matching import Reading, RowFilter, located, matching
from tablefmt.data.nested_values import relabelled
from tablefmt.data.plain_read import needs_plain, plain_batches
from tablefmt.data.portions import Portion, is_whole, portions
from tablefmt.data.scanner import POSITION, READAHEAD, replace_fragments
from tablefmt.errors import CorruptDataError, InvalidPredicateError, TablefmtError
from tablefmt.model.arrow_types import arrow_field
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import Store


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
    first: int | None = None,
    kept: bool = False,
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
        first: no more than so many rows will be asked for; None: all.
        kept: whoever asks keeps all batches at once.

    Raises:
        CorruptDataError: DAT-5, a file is missing, of the wrong length, holds another number of
            rows, or fails a checksum.
        StoreError: a remote store cannot answer.
        InvalidPredicateError: Arrow cannot evaluate the condition on these rows.
    """
    answer = answer_schema(columns)
    condition = condition or RowFilter(None)
    # Those of the condition first: it may name them by place.
    names = list(dict.fromkeys([*condition.reads, *(f.physical for f in columns)]))
    # What is decoded ahead of somebody who keeps all of it takes no memory of its own.
    most = sys.maxsize if kept and condition.pushed is condition.exact is first is None else None
    reading = Reading(schema, names, condition, first=first, most_bytes=most)
    for portion in portions(store, files, condition.needs(schema, names, eager, first)):
        try:
            for rows in matching(portion, reading):
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
    reading = Reading(schema, names, condition, readahead)
    for portion in portions(store, files, condition.needs(schema, names)):
        try:
            for place, rows in located(portion, reading):
                if rows.num_rows:
                    arrays = [rows.column(f.physical) for f in columns]
                    chosen = _as_answer(arrays, rows.num_rows, answer)
                    positions = rows.column(POSITION).to_numpy()
                    yield LocatedRows(portion.start + place, positions, chosen)
            _check_rows(portion)
        except InvalidPredicateError:
            raise
        except DAMAGE as error:
            raise _diagnosis(store, portion, schema, condition, error) from None
        portion.drop()


def _check_rows(portion: Portion) -> None:
    """DAT-5. After the scan, when Arrow has the footers."""
    rows = portion.files["rows"].to_pylist()
    for fragment, expected in zip(portion.dataset.get_fragments(), rows, strict=True):
        if fragment.metadata.num_rows != expected:
            raise ValueError("a file does not hold the rows that the log says")


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
    if condition.exact is not None or not is_whole(files) or needs_plain(schema):
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


def physical_schema(schema: Schema) -> Schema:
    """The same columns called by their physical names: for conditions on data files."""
    return replace(schema, fields=tuple(replace(f, name=f.physical) for f in schema.fields))
