"""Rows of live files taken out, replaced or moved, in either delete mode: what a plan is made of.

Data files are read at the pinned version, and new ones written, here; from then on all is metadata.
Spec: DEL-1, LIN-1, ENT-9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyroaring import BitMap64

from tablefmt.conflict.facts import Ids, Output, Run
from tablefmt.data.nested_values import relabelled
from tablefmt.data.read import answer_schema, read_files
from tablefmt.model.entry import AddedFiles
from tablefmt.model.positions import pack_positions, row_span
from tablefmt.session.measurements import REWRITE
from tablefmt.session.selected_rows import live_files
from tablefmt.session.snapshot import TransactionSnapshot, joined

COPY_ON_WRITE = "copy-on-write"

CHUNK_ROWS = 131_072
CHUNK_BYTES = 32 << 20
"""New values are worked out for so many rows at once, about."""

Change = Callable[[pa.Table], pa.Table]
"""New rows for old ones, one for one; columns by name."""


def change_rows(
    pinned: TransactionSnapshot, old: Iterable[pa.RecordBatch], change: Change, shape: pa.Schema
) -> AddedFiles | None:
    """Write the new versions of rows, marked as such (ENT-9); None if there are no rows.

    Args:
        pinned: the version that they are rows of.
        old: the rows, what `change` looks at of them.
        change: makes the new ones.
        shape: of what it gives.

    Raises:
        SchemaMismatchError, ConstraintViolationError: what `change` gives does not fit.
    """

    def changed() -> Iterator[pa.RecordBatch]:
        for rows in _in_chunks(old):
            new_rows = change(rows)
            columns = [
                relabelled(column, field.type)
                for column, field in zip(new_rows.columns, shape, strict=True)
            ]
            yield from pa.Table.from_arrays(columns, schema=shape).to_batches()

    with pinned.measured.timed(REWRITE):
        added = pinned.write(pa.RecordBatchReader.from_batches(shape, changed()))
    return None if added is None else flagged(added, updated=True)


def _in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, not too few at once: to work out new values costs milliseconds a time."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def flagged(added: AddedFiles, *, updated: bool) -> AddedFiles:
    """The files, said to hold new versions of older rows, or not."""
    return AddedFiles({**added.columns, "updated": [updated] * len(added)})


def runs_of(
    inputs: Iterable[tuple[int, int, BitMap64]], outputs: Sequence[int]
) -> tuple[tuple[Run, ...], ...]:
    """The runs of rows that each output is made of, if the rows of all inputs come in order. Pure.

    Args:
        inputs: id, rows as written, and the positions left out.
        outputs: rows of each output; together as many as the inputs have left.
    """
    runs: list[list[Run]] = [[] for _ in outputs]
    at, room = 0, outputs[0] if outputs else 0
    for file, rows, dropped in inputs:
        left = row_span(rows) - dropped
        start = taken = 0
        if rows and not left and outputs:
            runs[at].append(Run(file, 0, rows, dropped))
        while taken < len(left):
            while room == 0:
                at += 1
                room = outputs[at]
            count = min(room, len(left) - taken)
            taken, room = taken + count, room - count
            # Rows left out between two outputs belong to the earlier one.
            end = rows if taken == len(left) else left[taken]
            runs[at].append(Run(file, start, end - start, dropped & row_span(start, end)))
            start = end
    return tuple(map(tuple, runs))


def copy_rows(
    pinned: TransactionSnapshot, files: Ids, selected: Mapping[int, BitMap64]
) -> tuple[AddedFiles | None, tuple[Output, ...]]:
    """Write the live rows of files again but for those selected, each file's apart.

    Args:
        pinned: the version they are read at.
        files: ids of live files; each has a row left.
        selected: positions that do not come along, for every one of the files.
    """
    snapshot = pinned.snapshot
    columns = snapshot.schema.fields
    shape = answer_schema(columns)
    parts: list[AddedFiles | None] = []
    carried: list[Output] = []
    for file in files.tolist():
        one = live_files(pinned, [file])
        dropped = snapshot.positions(file) | selected[file]
        one = one.append_column("vector", pa.array([pack_positions(dropped)], pa.large_binary()))
        batches = read_files(pinned.store, one, snapshot.schema, columns)
        with pinned.measured.timed(REWRITE):
            added = pinned.write(pa.RecordBatchReader.from_batches(shape, batches), carried=True)
        assert added is not None, "a file that does not go whole has rows left"
        runs = runs_of([(file, one["rows"][0].as_py(), dropped)], added.columns["rows"])
        carried.extend(enumerate(runs, len(carried)))
        parts.append(flagged(added, updated=False))
    return joined(parts), tuple(carried)
