"""Verification of a table: reads what it can, and reports each problem with what to do.

On a damaged table, the report says which versions can still be read, and since when it is damaged.
Spec: VFY-1, VFY-2, VFY-3 (spec/verify.md), DAT-5, DEL-1, DEL-2, DEL-4, LIN-2, PTY-1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.data.column_bounds import stats_problem
from tablefmt.errors import CorruptTableError
from tablefmt.export.export_check import copy_problems
from tablefmt.log.object_names import entry_version
from tablefmt.maintenance.derived_checks import hint_problem, history_problems
from tablefmt.maintenance.file_checks import FileProblem, live_problems, old_problems
from tablefmt.maintenance.finding_kinds import KINDS
from tablefmt.maintenance.hold_checks import hold_problems
from tablefmt.maintenance.log_damage import DamagedLog, inspect_log
from tablefmt.maintenance.manual_checkpoint import checkpoint_problems
from tablefmt.maintenance.position_checks import row_problems
from tablefmt.maintenance.stored_objects import (
    Unnamed,
    listed,
    unnamed_files,
    unnamed_log_objects,
)
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.tags import PREFIX, tags_of
from tablefmt.model.times import show_time
from tablefmt.printable import number_of, printable_lines
from tablefmt.snapshot.log_opening import check_not_ended, open_log
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store, StoredObject

SHOWN = 200
"""Findings that the text of a report shows. `to_arrow` has all of them."""

REPAIR, GIVEN_UP = "REPAIR", "acceptedLoss"
"""Operation of a commit that gives up files, and its parameter with their paths."""

_SCHEMA = pa.schema(
    [
        ("object", pa.string()),
        ("rule", pa.string()),
        ("problem", pa.string()),
        ("kind", pa.string()),
        ("severity", pa.string()),
        ("since", pa.int64()),
        ("until", pa.int64()),
        ("action", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem."""

    object: str
    """The key of the object, or the table's address."""
    rule: str
    problem: str
    kind: str
    """A kind of `finding_kinds.KINDS`."""
    since: int | None = None
    """First version that it affects; None: no version, or it is not known."""
    until: int | None = None
    """Last version that it affects; None: also the newest."""

    @property
    def severity(self) -> str:
        """error: rows are at risk. warning: a derived object is wrong. note: neither."""
        return KINDS[self.kind].severity

    @property
    def action(self) -> str:
        """The remedy, as a sentence."""
        return KINDS[self.kind].action

    def record(self) -> dict[str, Any]:
        """Return all fields by name."""
        return {**asdict(self), "severity": self.severity, "action": self.action}


@dataclass(frozen=True, slots=True)
class Report(ArrowReport):
    """The objects checked, and their problems."""

    uri: str
    version: int | None
    """The head; None if it cannot be replayed."""
    files: int
    """Number of live files checked."""
    deep: bool
    findings: tuple[Finding, ...]
    unnamed: tuple[Unnamed, ...] = ()
    """Transactions whose data files no entry names. They alone are no problem of the table
    (STO-22).
    """
    newest_readable: int | None = None
    """Newest version that can be read whole; None if there is none."""
    first_damaged: int | None = None
    """Oldest version that cannot be read whole; None if there is none."""

    @property
    def ok(self) -> bool:
        """True if there is no error and no warning."""
        return all(one.severity == "note" for one in self.findings)

    def record(self) -> dict[str, Any]:
        """Return the document that `tablefmt verify --json` prints."""
        findings = [one.record() for one in self.findings]
        return {**asdict(self), "findings": findings, "ok": self.ok}

    def to_arrow(self) -> pa.Table:
        """Return a row for each finding, and for each transaction with orphan files."""
        orphans = [
            Finding(one.folder, "STO-22", f"{one.files} files, {one.bytes} bytes", "orphan-files")
            for one in self.unnamed
        ]
        return pa.Table.from_pylist([one.record() for one in (*self.findings, *orphans)], _SCHEMA)

    def __str__(self) -> str:
        how = "every page read" if self.deep else "lengths and footers"
        head = f"{self.uri}: version {self.version}, {number_of(self.files, 'live file')} ({how})"
        end = ": sound" if self.ok else f": {number_of(len(self.findings), 'finding')}"
        lines = [
            f"  {f.severity}: {f.object}: {f.problem} (rule {f.rule})"
            for f in self.findings[:SHOWN]
        ]
        if len(self.findings) > SHOWN:
            lines.append(f"  and {len(self.findings) - SHOWN} more")
        return printable_lines(
            [head + end, *lines, *self._readable(), *self._advice(), *_told(self.unnamed)]
        )

    def _readable(self) -> list[str]:
        if self.first_damaged is None:
            return []
        best = "no version can be read whole"
        if self.newest_readable is not None:
            best = f"the newest version that can be read whole is {self.newest_readable}"
        return [f"damaged since version {self.first_damaged}; {best}"]

    def _advice(self) -> list[str]:
        kinds = dict.fromkeys(one.kind for one in self.findings)
        return [f"{name}: {KINDS[name].meaning}. {KINDS[name].action}" for name in kinds]


def verify(
    store: Store, *, deep: bool = False, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Replay the log from the store, then check everything that it names and what is derived.

    Args:
        store: the table's root.
        deep: read every entry, checkpoint and page, and compare rows with bounds.
        progress: called with files done, and their total.

    Returns:
        A report. Damage is in the report, not raised.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table needs a newer reader.
    """
    log: DamagedLog | None = None
    entries: list[StoredEntry] = []
    damage: Finding | None = None
    try:
        view, entries = _opened(store, deep)
        findings = list(_log_findings(view, entries, deep))
    except CorruptTableError as error:
        # The error itself holds what its reader had decoded, which may be much.
        damage = Finding(error.key or store.uri, error.rule, error.detail, "damaged-entry")
    if damage is not None:
        log = inspect_log(store)
        findings = [Finding(d.key, d.rule, d.detail, d.kind, d.version) for d in log.damage]
        if not log.damage:
            findings = [damage]
        if not log.runs:
            first = _first_of(log, findings)
            return Report(store.uri, None, 0, deep, tuple(findings), first_damaged=first)
        view = log.runs[-1]
        findings += _safely(_row_findings(view, None), store)
    if log is None:
        # The parts that a damaged root names are unknown.
        parts = deep and all(one.kind != "damaged-checkpoint" for one in findings)
        findings += [
            Finding(one.key, "RET-6", _orphan(one), "orphan-log-object")
            for one in unnamed_log_objects(view, parts=parts)
        ]
    listing = listed(store, ["data/"])
    unnamed = () if log is not None else unnamed_files(view, listing)
    snapshot = view.snapshot()
    schema = snapshot.schema
    problems = [*live_problems(store, snapshot.files, schema, deep=deep, progress=progress)]
    problems += _accepted(old_problems(view, listing), entries)
    findings += map(_of_file, problems)
    oldest = view.timeline.oldest if log is None else log.oldest
    head = view.head.version if log is None else log.head
    newest, first = readable(findings, oldest, head, _replayed(view, log))
    version = view.head.version if view.head.version == head else None
    files = snapshot.files.num_rows
    found = tuple(findings)
    return Report(store.uri, version, files, deep, found, tuple(unnamed), newest, first)


def _opened(store: Store, deep: bool) -> tuple[LogView, list[StoredEntry]]:
    """Return a view of the whole log, and its entries; from compacted segments unless `deep`."""
    opened = open_log(store, whole=True, compacted=not deep, explain=True)
    view = LogView(store, opened.entries, opened.base, whole=True, asked=opened.asked)
    check_not_ended(store, view.head, False)
    view.snapshot()
    return view, opened.entries


def _log_findings(view: LogView, entries: Sequence[StoredEntry], deep: bool) -> Iterator[Finding]:
    """Yield the findings about rows, tags and derived objects of a log that can be replayed."""
    store, head = view.store, view.head
    yield from _row_findings(view, entries)
    hint = hint_problem(store, head.version, deep)
    if hint is not None:
        yield _of_error(hint, "wrong-hint")
    for problem in checkpoint_problems(view, every=deep):
        yield _of_error(problem, "damaged-checkpoint")
    digests = {stored.version: stored.digest for stored in entries}
    for kind, problem in history_problems(store, digests, min(digests, default=0)):
        yield _of_error(problem, kind, entry_version(problem.key))
    for problem in copy_problems(view):
        yield _of_error(problem, "wrong-copy")
    unusable = stats_problem(view.snapshot().schema, head.metadata.properties)
    if unusable is not None:
        problem_ = f"{unusable}. The property is ignored; set a valid one"
        yield Finding(store.uri, "PTY-1", problem_, "unusable-property")
    for name, tag in tags_of(head.metadata).items():
        # The version of a tag with an end may go after it (TAG-2).
        if tag.until is None and tag.version < head.totals.oldest:
            message = f"it names version {tag.version}; the oldest kept is {head.totals.oldest}"
            yield Finding(PREFIX + name, "TAG-2", message, "expired-tag")
    for kind, problem in hold_problems(view, entries):
        yield _of_error(problem, kind)


def _row_findings(view: LogView, entries: Sequence[StoredEntry] | None) -> Iterator[Finding]:
    known = None if entries is None else {s.version: s.entry for s in entries if s.entry.lineage}
    for error in row_problems(view, view.snapshot(), known):
        yield _of_error(error, "wrong-rows", entry_version(error.key))


def _safely(findings: Iterable[Finding], store: Store) -> list[Finding]:
    """Return findings, up to the first entry that can no longer be read."""
    found: list[Finding] = []
    try:
        found.extend(findings)
    except CorruptTableError as error:
        found.append(Finding(error.key or store.uri, error.rule, error.detail, "damaged-entry"))
    return found


def _accepted(
    problems: Iterable[FileProblem], entries: Sequence[StoredEntry]
) -> Iterator[FileProblem]:
    """Yield the problems; those of files that a repair gave up are notes."""
    repairs = (s.entry.operation for s in entries if s.entry.operation.name == REPAIR)
    given_up = {
        path
        for operation in repairs
        if isinstance(paths := operation.parameters.get(GIVEN_UP), list)
        for path in paths
        if isinstance(path, str)
    }
    for one in problems:
        yield replace(one, kind="given-up-file") if one.path in given_up else one


def _of_error(error: CorruptTableError, kind: str, since: int | None = None) -> Finding:
    return Finding(error.key, error.rule, error.detail, kind, since)


def _of_file(one: FileProblem) -> Finding:
    until = None if one.removed is None else one.removed - 1
    return Finding(one.path, "DAT-5", one.problem, one.kind, one.added, until)


def _replayed(view: LogView, log: DamagedLog | None) -> list[tuple[int, int]]:
    """Return the versions that can be replayed, as pairs of first and last."""
    views = [view] if log is None else log.runs
    return [(max(one.base.first, one.timeline.oldest), one.head.version) for one in views]


def _orphan(one: StoredObject) -> str:
    when = show_time(one.modified_us) if one.modified_us else "an unknown time"
    return f"it is {number_of(one.size, 'byte')} long, written at {when}"


def _first_of(log: DamagedLog, findings: Sequence[Finding]) -> int | None:
    known = [one.since for one in findings if one.since is not None]
    return max(min(known, default=log.oldest), log.oldest)


def readable(
    findings: Iterable[Finding], oldest: int, head: int, replayed: Sequence[tuple[int, int]]
) -> tuple[int | None, int | None]:
    """Return the newest version that can be read whole, and the oldest that cannot. Pure.

    Args:
        findings: those with severity error affect the versions `since` to `until`.
        oldest: the oldest version that is kept.
        head: the newest version.
        replayed: versions that the log can give, as pairs of first and last.
    """
    bad = [
        (max(one.since, oldest), head if one.until is None else min(one.until, head))
        for one in findings
        if one.severity == "error" and one.since is not None and _of_files(one)
    ]
    at = oldest
    for first, last in sorted(replayed):
        bad += [(at, first - 1)] if at < first else []
        at = max(at, last + 1)
    bad += [(at, head)] if at <= head else []
    bad = sorted(span for span in bad if span[0] <= span[1])
    first_damaged = bad[0][0] if bad else None
    newest = head
    for first, last in sorted(bad, key=lambda span: span[1], reverse=True):
        if last >= newest >= first:
            newest = first - 1
    return (newest if newest >= oldest else None), first_damaged


def _of_files(one: Finding) -> bool:
    """Return whether the versions of a finding are those that cannot be read.

    Damage of entries is in the runs of versions instead: a checkpoint may follow it.
    """
    return one.kind not in (
        "damaged-entry",
        "missing-entry",
        "restorable-entry",
        "damaged-overflow",
    )


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
