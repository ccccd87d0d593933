"""Checks of deletion vectors and lineage beyond those of a read. Pure but for entries it reads.

Spec: DEL-1, DEL-2, DEL-4, LIN-2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError
from tablefmt.log.log_reader import read_range
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Entry, Lineage
from tablefmt.model.positions import decode_positions, row_span
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot


def row_problems(
    view: LogView, snapshot: Snapshot, entries: Mapping[int, Entry] | None = None
) -> list[CorruptEntryError]:
    """Return the problems of position sets, also of removed files, and of lineage.

    Args:
        view: the whole log (`LogView.open(whole=True)`).
        snapshot: the snapshot of its head.
        entries: those with lineage; None: they are read again.

    Raises:
        CorruptTableError: an entry no longer exists.
    """
    problems: list[CorruptEntryError] = []
    deltas = snapshot.deltas
    for file in np.unique(deltas.file).tolist():
        if file not in snapshot.history:
            # A checkpoint may mention removed files without effect (CKP-3).
            continue
        try:
            removed = snapshot.positions(file)
            for place in np.flatnonzero(~deltas.takes & (deltas.file == file)).tolist():
                if not removed.isdisjoint(deltas.taken(place, snapshot.history.rows_of(file))):
                    raise deltas.bad(
                        place, "DEL-4", f"it deletes a row of file {file} that was already deleted"
                    )
        except CorruptEntryError as error:
            problems.append(error)
    for version in view.versions.with_lineage:
        if entries is None:
            (stored,) = read_range(view.store, version, version)
            entry = stored.entry
        else:
            entry = entries[version]
        assert entry.lineage is not None
        problem = _lineage_problem(entry, entry.lineage, snapshot)
        if problem is not None:
            problems.append(problem)
    return problems


def _lineage_problem(
    entry: Entry, lineage: Lineage, snapshot: Snapshot
) -> CorruptEntryError | None:
    """Return why the runs do not add up to the outputs, if they do not."""
    key = entry_key(entry.version)
    assert entry.add is not None
    first = entry.totals.next_id - len(entry.add)
    kept = dict.fromkeys(lineage.output, 0)
    lines = (lineage.output, lineage.input, lineage.start, lineage.rows, lineage.dropped)
    for output, file, start, rows, text in zip(*lines, strict=True):
        try:
            dropped = BitMap64() if text is None else decode_positions(text)
        except CorruptEntryError as error:
            return CorruptEntryError(error.detail, key=key, rule=error.rule)
        if file not in snapshot.history:
            # The file was removed before the first state of the log (LOG-8), and so were its rows
            # (CFL-14).
            end = min(kept[output] + rows - len(dropped), snapshot.history.rows_of(first + output))
            copies = row_span(kept[output], end)
            if copies - snapshot.positions(first + output, entry.version):
                message = f"rows of removed file {file} are live in output {output}"
                return CorruptEntryError(message, key=key, rule="LIN-2")
            kept[output] += rows - len(dropped)
            continue
        outside = start + rows > snapshot.history.rows_of(file)
        outside |= bool(dropped) and (dropped.min() < start or dropped.max() >= start + rows)
        if outside or not dropped.issubset(_deleted_by(entry, snapshot, file)):
            message = f"a run of file {file} exceeds its rows, or drops live rows"
            return CorruptEntryError(message, key=key, rule="LIN-2")
        moved = row_span(start, start + rows) - dropped
        live_till = snapshot.history.removed_at(file)
        if live_till > entry.version:
            # The file stays, so the moved rows must be deleted from it (CFL-13).
            doubled = moved - snapshot.positions(file, entry.version)
        elif live_till < entry.version:
            # The file was removed before, so its rows must be deleted from the output (CFL-14).
            copies = row_span(kept[output], kept[output] + len(moved))
            doubled = copies - snapshot.positions(first + output, entry.version)
        else:
            doubled = BitMap64()
        if doubled:
            message = f"{len(doubled)} rows of file {file} are live in it and in output {output}"
            return CorruptEntryError(message, key=key, rule="LIN-2")
        kept[output] += len(moved)
    for output, rows in kept.items():
        if snapshot.history.rows_of(first + output) != rows:
            message = (
                f"its lineage gives output {output} {rows} rows, but the file has another number"
            )
            return CorruptEntryError(message, key=key, rule="LIN-2")
    return None


def _deleted_by(entry: Entry, snapshot: Snapshot, file: int) -> BitMap64:
    """Return rows that are deleted after an entry, or that it deletes from a file it removes."""
    removed = snapshot.positions(file, entry.version)
    deltas = snapshot.deltas
    own = ~deltas.takes & (deltas.file == file) & (deltas.version == entry.version)
    for place in np.flatnonzero(own).tolist():
        removed |= deltas.taken(place, snapshot.history.rows_of(file))
    return removed
