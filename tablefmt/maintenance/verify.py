"""Verification of a table: reads everything it can, and reports each problem with its reason.

Deletion vectors and lineage are checked beyond what reading a version checks.
Spec: DAT-5, DEL-1, DEL-2, DEL-4, LIN-2, PTY-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.data.column_bounds import stats_problem
from tablefmt.data.file_checksum import file_digest
from tablefmt.data.file_verification import MISSING, check_file
from tablefmt.data.imported_files import missing_in
from tablefmt.errors import CorruptEntryError, CorruptTableError, TablefmtError
from tablefmt.export.export_check import copy_problems
from tablefmt.log.log_reader import read_range
from tablefmt.log.object_names import entry_key
from tablefmt.maintenance.manual_checkpoint import checkpoint_problems
from tablefmt.maintenance.stored_objects import Unnamed, unnamed_files
from tablefmt.model.import_layouts import LAYOUT, layout_of
from tablefmt.model.log_entry import Entry, Lineage
from tablefmt.model.positions import decode_positions, row_span
from tablefmt.model.times import show_time
from tablefmt.printable import number_of, printable_lines
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.import_roots import folder_of
from tablefmt.store.object_store import Store


def row_problems(view: LogView, snapshot: Snapshot) -> list[CorruptEntryError]:
    """Return the problems of position sets, also of removed files, and of lineage.

    Args:
        view: the whole log (`LogView.open(whole=True)`).
        snapshot: the snapshot of its head.

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
        (stored,) = read_range(view.store, version, version)
        assert stored.entry.lineage is not None
        problem = _lineage_problem(stored.entry, stored.entry.lineage, snapshot)
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
        if outside or not dropped.issubset(_gone_by(entry, snapshot, file)):
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
            message = f"it accounts for {rows} rows of output {output}, which has another number"
            return CorruptEntryError(message, key=key, rule="LIN-2")
    return None


def _gone_by(entry: Entry, snapshot: Snapshot, file: int) -> BitMap64:
    """Return rows that are deleted after an entry, or that it deletes from a file it removes."""
    removed = snapshot.positions(file, entry.version)
    deltas = snapshot.deltas
    own = ~deltas.takes & (deltas.file == file) & (deltas.version == entry.version)
    for place in np.flatnonzero(own).tolist():
        removed |= deltas.taken(place, snapshot.history.rows_of(file))
    return removed


THREADS = 8
"""Files checked in parallel."""

_SCHEMA = pa.schema([("object", pa.string()), ("rule", pa.string()), ("problem", pa.string())])


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem."""

    object: str
    """The key of the object, or the table's address."""
    rule: str
    problem: str


@dataclass(frozen=True, slots=True)
class Report(ArrowReport):
    """The objects checked, and their problems."""

    uri: str
    version: int | None
    """The head; None if the log cannot be replayed."""
    files: int
    """Number of live files checked."""
    deep: bool
    findings: tuple[Finding, ...]
    unnamed: tuple[Unnamed, ...] = ()
    """Transactions whose data files no entry names. They alone are no problem of the table
    (STO-22).
    """

    @property
    def ok(self) -> bool:
        """True if there is no problem."""
        return not self.findings

    def to_arrow(self) -> pa.Table:
        """Return the findings: object, rule, problem."""
        return pa.Table.from_pylist(
            [{"object": f.object, "rule": f.rule, "problem": f.problem} for f in self.findings],
            _SCHEMA,
        )

    def __str__(self) -> str:
        how = "every page read" if self.deep else "lengths and footers"
        head = f"{self.uri}: version {self.version}, {number_of(self.files, 'live file')} ({how})"
        end = ": sound" if self.ok else f": {number_of(len(self.findings), 'finding')}"
        lines = [f"  {f.object}: {f.problem} (rule {f.rule})" for f in self.findings]
        return printable_lines([head + end, *lines, *_told(self.unnamed)])


def verify(
    store: Store, *, deep: bool = False, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Replay the log from the store, then check its deletion vectors and every live file.

    Args:
        store: the table's root.
        deep: read every page of every live file and verify its checksum.
        progress: called with files done, and their total.

    Returns:
        A report. Damage is in the report, not raised.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table needs a newer reader.
    """
    try:
        view = LogView.open(store, whole=True)
        snapshot = view.snapshot()
        problems: list[CorruptTableError] = [*row_problems(view, snapshot)]
        problems += checkpoint_problems(view, every=deep)
        problems += copy_problems(view)
        unnamed = unnamed_files(view)
    except CorruptTableError as error:
        finding = Finding(error.key or store.uri, error.rule, error.detail)
        return Report(store.uri, None, 0, deep, (finding,))
    findings = [Finding(error.key, error.rule, error.detail) for error in problems]
    unusable = stats_problem(snapshot.schema, snapshot.metadata.properties)
    if unusable is not None:
        findings.append(
            Finding(store.uri, "PTY-1", f"{unusable}. The property is ignored; set a valid one")
        )
    files = snapshot.files
    if "footer" not in files.column_names:
        files = files.append_column("footer", pa.nulls(files.num_rows, pa.int64()))
    for name, kind in ((LAYOUT, pa.string()), ("digest", pa.binary())):
        if name not in files.column_names:
            files = files.append_column(name, pa.nulls(files.num_rows, kind))
    files = files.select(["path", "size", "rows", "footer", LAYOUT, "digest"])
    done = 0
    for batch in files.to_batches(max_chunksize=1024):
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        with ThreadPoolExecutor(THREADS) as pool:
            looks = list(pool.map(lambda row: _look(store, row, deep), rows))
        findings.extend(
            Finding(row[0], "DAT-5", problem)
            for row, problem in zip(rows, looks, strict=True)
            if problem is not None
        )
        done += len(rows)
        if progress is not None:
            progress(done, files.num_rows)
    return Report(store.uri, snapshot.version, files.num_rows, deep, tuple(findings), unnamed)


def _told(unnamed: Sequence[Unnamed]) -> list[str]:
    if not unnamed:
        return []
    shown = [
        f"  {one.folder}: {one.files} files, {one.bytes} bytes, last "
        f"written at {show_time(one.modified_us)}"
        for one in unnamed
    ]
    return [
        f"no entry names the data files of {len(unnamed)} transactions. Their writes failed, were "
        "abandoned or are still running. Or they were acknowledged and then overwritten, if the "
        "store was ever written without put-if-absent (STO-22)",
        *shown,
    ]


_Row = tuple[str, int, int, "int | None", "str | None", "bytes | None"]


def _look(store: Store, row: _Row, deep: bool) -> str | None:
    path, size, rows, footer, layout, digest = row
    root = "" if layout is None else layout_of(layout)[0]
    try:
        folder = folder_of(store, root)
        problem = check_file(folder, path, size, rows, deep=deep, footer=footer)
        if root and problem == MISSING:
            return missing_in(root)
        if problem is None and deep and digest is not None:
            # Its pages have no checksums (IMP-6).
            same = file_digest(folder, path, size) == digest
            problem = None if same else "its bytes do not match the digest in the log (IMP-6)"
        return problem
    except TablefmtError as error:
        return str(error)
