"""Verification of a table: reads everything it can, and reports each problem with its reason.

Spec: DAT-5, DEL-1, DEL-2, DEL-4, LIN-2 (maintenance/rows.py), PTY-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from tablefmt.data.arrow_report import ArrowReport
from tablefmt.data.bounds import stats_problem
from tablefmt.data.damage import check_file
from tablefmt.errors import CorruptTableError, TablefmtError
from tablefmt.maintenance.checkpoint import checkpoint_problems
from tablefmt.maintenance.rows import row_problems
from tablefmt.maintenance.unnamed import Unnamed, unnamed_files
from tablefmt.model.times import show_time
from tablefmt.printable import printable_lines
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store

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
        head = f"{self.uri}: version {self.version}, {self.files} live files ({how})"
        end = ": sound" if self.ok else f": {len(self.findings)} findings"
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
    files = files.select(["path", "size", "rows", "footer"])
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


def _look(store: Store, row: tuple[str, int, int, int | None], deep: bool) -> str | None:
    path, size, rows, footer = row
    try:
        return check_file(store, path, size, rows, deep=deep, footer=footer)
    except TablefmtError as error:
        return str(error)
