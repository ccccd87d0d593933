"""The rows of live files that a condition selects: where they are, and the rows themselves.

Read at the pinned version; nothing is written. Spec: DEL-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablefmt.conflict.facts import Ids
from tablefmt.data.read import locate_rows
from tablefmt.data.scanner import READAHEAD
from tablefmt.model.positions import row_span
from tablefmt.model.schema import Field
from tablefmt.session.condition import AnalyzedCondition
from tablefmt.session.measurements import SCAN
from tablefmt.session.snapshot import TransactionSnapshot

AHEAD_BYTES = 64 << 20
"""Of files, as they are stored, that are decoded ahead."""


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Live rows that a condition selects, found by reading."""

    target: AnalyzedCondition
    files: pa.Table
    """Every file opened, with the snapshot's columns."""
    rows: Mapping[int, BitMap64]
    """By file id; files without such rows are not there."""


def select(pinned: TransactionSnapshot, target: AnalyzedCondition) -> Selected:
    """The live rows for which the condition is true; reads the files that may hold some.

    Raises:
        CorruptDataError: DAT-5. InvalidPredicateError: Arrow cannot evaluate the condition.
    """
    snapshot = pinned.snapshot
    files = snapshot.matching(target.predicate)
    if target.rows is None:
        counts = zip(files["id"].to_pylist(), files["rows"].to_pylist(), strict=True)
        live = {file: row_span(rows) - snapshot.positions(file) for file, rows in counts}
        return Selected(target, files, {file: rows for file, rows in live.items() if rows})
    rows: dict[int, BitMap64] = {}
    with pinned.measured.timed(SCAN):
        for _ in _located(pinned, files, target, [], rows):
            pass
    return Selected(target, files, rows)


def select_and_read(
    pinned: TransactionSnapshot, target: AnalyzedCondition, columns: Sequence[Field]
) -> tuple[Selected, Iterator[pa.RecordBatch]]:
    """The same, and the rows themselves, in order.

    Args:
        pinned: the version.
        target: the condition.
        columns: of the rows.

    Returns:
        What is selected, which is known when the last of the rows has come; and the rows.
    """
    if target.rows is None or pinned.store.remote:
        # Bytes are dear: files without such rows give no more than what the condition looks at.
        selected = select(pinned, target)
        files = live_files(pinned, sorted(selected.rows))
        return selected, _located(pinned, files, target, columns, {})
    files = pinned.snapshot.matching(target.predicate)
    rows: dict[int, BitMap64] = {}
    return Selected(target, files, rows), _located(pinned, files, target, columns, rows)


def _located(
    pinned: TransactionSnapshot,
    files: pa.Table,
    target: AnalyzedCondition,
    columns: Sequence[Field],
    rows: dict[int, BitMap64],
) -> Iterator[pa.RecordBatch]:
    """The rows of files that are selected; `rows` gets where they are."""
    ids, looked = files["id"].to_pylist(), pinned.snapshot.with_vectors(files)
    parts = locate_rows(
        pinned.store,
        looked,
        pinned.snapshot.schema,
        columns,
        target.rows,
        readahead=files_ahead(files) if columns else READAHEAD,
    )
    for part in pinned.measured.reported(parts, "rows of a condition", len(ids)):
        rows.setdefault(ids[part.file], BitMap64()).update(part.positions)
        yield part.rows


def files_ahead(files: pa.Table) -> int:
    """How many files are decoded ahead where whole rows are read: wide ones take much memory."""
    largest = pc.max(files["size"]).as_py() or 1
    return max(1, min(READAHEAD, AHEAD_BYTES // largest))


def live_files(pinned: TransactionSnapshot, ids: Ids | Sequence[int]) -> pa.Table:
    """The live files of those ids, in that order."""
    files = pinned.snapshot.files
    known, wanted = files["id"].to_numpy(), np.asarray(ids, np.int64)
    places = np.searchsorted(known, wanted)
    assert np.array_equal(known.take(places, mode="clip"), wanted), "every file is live"
    return files.take(pa.array(places))
