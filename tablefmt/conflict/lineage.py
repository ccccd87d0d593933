"""Lineage: the new positions of rows that a compaction moved, computed from metadata alone. Pure.

Spec: LIN-1 (spec/entry.md), CFL-13.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap64

from tablefmt.conflict.facts import Ids, Output, Run, own_file
from tablefmt.conflict.ids import is_among
from tablefmt.errors import CorruptEntryError
from tablefmt.model.entry import Entry
from tablefmt.model.positions import decode_positions


@dataclass(frozen=True, slots=True)
class Move:
    """Run of rows of an input, and its position in an output."""

    run: Run
    output: int
    """File id, or `own_file`."""
    offset: int
    """Position in the output of the first row that was not dropped."""

    @property
    def rows(self) -> int:
        """Return the number of rows that were not dropped."""
        return self.run.rows - len(self.run.dropped)

    @property
    def all(self) -> BitMap64:
        """Return the positions in the output."""
        return span(self.offset, self.rows)

    def place(self, positions: BitMap64) -> BitMap64:
        """Return the output positions of the given input positions that are in the run and not
        dropped.
        """
        run = self.run
        if not positions:
            return positions
        inside = positions
        if inside.min() < run.start or inside.max() >= run.start + run.rows:
            inside = inside & span(run.start, run.rows)
        shift = self.offset - run.start
        if not run.dropped or not inside:
            return inside.shift(shift)
        if run.dropped.max() < inside.min():
            return inside.shift(shift - len(run.dropped))
        inside = inside - run.dropped
        at = _numbers(inside)
        moved = at + shift - np.searchsorted(_numbers(run.dropped), at)
        return BitMap64(array("Q", moved.astype(np.uint64).tobytes()))


Moves = Mapping[int, list[Move]]
"""Moves by input, in the order of its rows."""


def span(start: int, rows: int) -> BitMap64:
    """Return `rows` positions from `start` on."""
    positions = BitMap64()
    positions.add_range(start, start + rows)
    return positions


def moves_of(entry: Entry, inputs: Ids) -> dict[int, list[Move]]:
    """Return the moves of the rows of `inputs` (ascending ids) from an entry's lineage.

    The function reads only the lines of outputs that hold rows of `inputs`.

    Raises:
        CorruptEntryError: DEL-2, an invalid set of positions.
    """
    lineage = entry.lineage
    if lineage is None or entry.add is None or len(inputs) == 0:
        return {}
    files = np.asarray(lineage.input, np.int64)
    of_inputs = is_among(files, inputs)
    outputs = np.asarray(lineage.output, np.int64)
    lines = np.flatnonzero(np.isin(outputs, outputs[of_inputs]))
    first = entry.totals.next_id - len(entry.add)
    moves: dict[int, list[Move]] = {}
    output, offset = -1, 0
    for at in lines.tolist():
        if outputs[at] != output:
            output, offset = int(outputs[at]), 0
        text = lineage.dropped[at]
        dropped = BitMap64() if text is None else decode_positions(text)
        if of_inputs[at]:
            run = Run(lineage.input[at], lineage.start[at], lineage.rows[at], dropped)
            moves.setdefault(run.file, []).append(Move(run, first + output, offset))
        offset += lineage.rows[at] - len(dropped)
    return _in_order(moves)


def moves_of_outputs(outputs: Iterable[Output]) -> dict[int, list[Move]]:
    """Return the moves of a transaction's own rewrite; outputs are `own_file` ids."""
    moves: dict[int, list[Move]] = {}
    for index, runs in outputs:
        offset = 0
        for run in runs:
            move = Move(run, own_file(index), offset)
            moves.setdefault(run.file, []).append(move)
            offset += move.rows
    return _in_order(moves)


def _in_order(moves: dict[int, list[Move]]) -> dict[int, list[Move]]:
    for each in moves.values():
        each.sort(key=lambda move: move.run.start)
    return moves


def place_all(
    entry: Entry, moves: Iterable[Move], file: int, rows: BitMap64
) -> dict[int, BitMap64]:
    """Return the new positions of live rows of one input, by output.

    Raises:
        CorruptEntryError: LIN-1, the lineage does not place one of the rows.
    """
    placed: dict[int, BitMap64] = {}
    for move in moves if rows else ():
        rows_moved = move.place(rows)
        if rows_moved:
            placed[move.output] = (
                placed[move.output] | rows_moved if move.output in placed else rows_moved
            )
    if sum(map(len, placed.values())) != len(rows):
        raise CorruptEntryError(
            f"the lineage of version {entry.version} loses rows of file {file}", rule="LIN-1"
        )
    return placed


def rewritten(runs: Iterable[Run], moves: Moves) -> tuple[Run, ...]:
    """Return the same rows in the same order, with runs of moved files replaced by runs of the
    outputs.
    """
    result: list[Run] = []
    for run in runs:
        if run.file not in moves:
            result.append(run)
            continue
        for move in moves[run.file]:
            part = _part(run, move)
            if part is not None:
                result.append(part)
    return tuple(result)


def _part(run: Run, move: Move) -> Run | None:
    """Return the rows that a run and a move share, as a run of the move's output."""
    start = max(run.start, move.run.start)
    end = min(run.start + run.rows, move.run.start + move.run.rows)
    if start >= end:
        return None
    dropped = move.run.dropped
    lead = start - move.run.start - dropped.range_cardinality(move.run.start, start)
    rows = end - start - dropped.range_cardinality(start, end)
    if rows == 0:
        return None
    inside = run.dropped & span(start, end - start)
    return Run(move.output, move.offset + lead, rows, move.place(inside))


def _numbers(positions: BitMap64) -> Ids:
    return np.frombuffer(positions.to_array(), np.uint64).astype(np.int64)
