"""Repair of a table: derived objects are written again, files are given up only by name.

Each step can be repeated. A kill between two steps leaves a table that reads as before, and a
second run does the rest. Spec: VFY-4 (spec/verify.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import (
    CorruptTableError,
    ExportBlockedError,
    InvalidArgumentError,
    UnsupportedFeatureError,
)
from tablefmt.export.copy_removal import removable_copies
from tablefmt.export.table_export import export_table
from tablefmt.log.compacted_log import write_log_segments
from tablefmt.log.log_reader import Hint, write_hint
from tablefmt.log.object_names import entry_key, entry_version, log_segment_range, root_version
from tablefmt.maintenance.derived_checks import entry_sizes
from tablefmt.maintenance.finding_kinds import KINDS
from tablefmt.maintenance.log_damage import inspect_log
from tablefmt.maintenance.stored_objects import Named
from tablefmt.maintenance.verify import GIVEN_UP, REPAIR, Finding, Report, verify
from tablefmt.model.log_entry import Metadata, Operation, OperationClass
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.checkpoint_writing import checkpoint_of
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.statement_scope import scope_of_files
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove, live_rows
from tablefmt.snapshot.checkpoint_reader import listed_roots
from tablefmt.snapshot.checkpoint_root import decode_root
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Exists, KeyNotFoundError, Store, Written

_SCHEMA = pa.schema(
    [("action", pa.string()), ("object", pa.string()), ("done", pa.bool_()), ("note", pa.string())]
)

ACTIONS = {
    "restorable-entry": "write the entry again",
    "damaged-history": "write the compacted log segment again",
    "damaged-checkpoint": "replace the checkpoint",
    "wrong-hint": "write the hint again",
    "wrong-copy": "export the copy again",
    "missing-file": "remove the file from the table",
    "damaged-file": "remove the file from the table",
}
"""Action for each kind that can be repaired, in the order of the steps."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step of a repair."""

    kind: str
    """Kind of the finding."""
    object: str
    done: bool = False
    note: str = ""
    """Reason why the step was not done; "" if it was."""

    @property
    def action(self) -> str:
        """Return the action in words."""
        return ACTIONS[self.kind]


@dataclass(frozen=True, slots=True)
class RepairReport(ArrowReport):
    """The steps of a repair, and the findings before and after it."""

    uri: str
    dry_run: bool
    steps: tuple[RepairStep, ...]
    before: Report
    after: Report | None
    """None for a dry run."""
    version: int | None = None
    """Version that removed files from the table; None if no file was given up."""

    @property
    def ok(self) -> bool:
        """True if the table has no problem now. For a dry run: if the steps would mend all."""
        if self.after is not None:
            return self.after.ok
        planned = {(step.kind, step.object) for step in self.steps}
        return all(
            (f.kind, f.object) in planned or f.severity == "note" for f in self.before.findings
        )

    def record(self) -> dict[str, Any]:
        """Return the document that `tablefmt verify --repair --json` prints."""
        return {
            "uri": self.uri,
            "dry_run": self.dry_run,
            "version": self.version,
            "steps": self.to_arrow().to_pylist(),
            "before": self.before.record(),
            "after": None if self.after is None else self.after.record(),
            "ok": self.ok,
        }

    def to_arrow(self) -> pa.Table:
        """Return a row for each step: action, object, done, note."""
        rows = [
            {"action": one.action, "object": one.object, "done": one.done, "note": one.note}
            for one in self.steps
        ]
        return pa.Table.from_pylist(rows, _SCHEMA)

    def __str__(self) -> str:
        word = "would take" if self.dry_run else "took"
        lines = [f"{self.uri}: the repair {word} {number_of(len(self.steps), 'step')}"]
        for one in self.steps:
            state = "" if self.dry_run or one.done else f" (not done: {one.note})"
            lines.append(f"  {one.action}: {one.object}{state}")
        if self.version is not None:
            lines.append(f"version {self.version} removed the named files and their rows")
        rest = self.before if self.after is None else self.after
        return printable_lines([*lines, *str(rest).splitlines()])


def repair(
    store: Store,
    *,
    dry_run: bool = True,
    accept_loss: Collection[str] = (),
    deep: bool = False,
    environment: Environment = SYSTEM,
    progress: Callable[[int, int], None] | None = None,
) -> RepairReport:
    """Verify a table, mend what is derived, and give up the named files.

    Args:
        store: the table's root.
        dry_run: only plan.
        accept_loss: paths of damaged or missing live files. A commit removes them, with their rows.
        deep: verify with `deep`, before and after.
        environment: clock and nonces.
        progress: as `verify`.

    Raises:
        InvalidArgumentError: a path of `accept_loss` is no damaged file.
        TableNotFoundError, UnsupportedFeatureError: as `verify`.
        StoreError: the store refused a step.
        ConstraintViolationError: files are given up, and the table is append-only.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError: of the commit.
    """
    if isinstance(accept_loss, str):
        raise InvalidArgumentError("accept_loss: expected a list of paths, got text")
    before = verify(store, deep=deep, progress=progress)
    entries = [one for one in before.findings if one.kind == "restorable-entry"]
    done: list[RepairStep] = []
    now = before
    if entries:
        # Entries come first: they may hide the rest of the damage.
        if dry_run:
            rest = [one.object for one in before.findings if one.object in accept_loss]
            steps = planned(before.findings, rest)
            return RepairReport(store.uri, True, steps, before, None)
        done += _restore_entries(store, planned(entries, ()), environment)
        now = verify(store, deep=deep, progress=progress)
    left = [one for one in now.findings if one.kind != "restorable-entry"]
    steps = planned(left, accept_loss)
    if dry_run:
        return RepairReport(store.uri, True, steps, before, None)
    version = None
    for kind in ACTIONS:
        some = [step for step in steps if step.kind == kind]
        if some and kind in _WORKS:
            done += _WORKS[kind](store, some, environment)
    lost = [step.object for step in steps if KINDS[step.kind].remedy == "loss"]
    if lost:
        version = _give_up(store, lost, environment)
        done += [replace(s, done=True) for s in steps if KINDS[s.kind].remedy == "loss"]
    after = verify(store, deep=deep, progress=progress)
    return RepairReport(store.uri, False, tuple(done), before, after, version)


def planned(findings: Iterable[Finding], accept_loss: Collection[str]) -> tuple[RepairStep, ...]:
    """Return the steps for some findings. Pure.

    Raises:
        InvalidArgumentError: a path of `accept_loss` is no damaged file.
    """
    findings = list(findings)
    names = set(accept_loss)
    damaged = {one.object for one in findings if KINDS[one.kind].remedy == "loss"}
    unknown = sorted(names - damaged)
    if unknown:
        raise InvalidArgumentError(
            f"accept_loss names {number_of(len(unknown), 'path')} that verify found no damage in, "
            f"such as {unknown[0]!r:.200}. Name only damaged or missing live files."
        )
    wanted = [
        RepairStep(one.kind, one.object)
        for one in findings
        if KINDS[one.kind].remedy == "derived" or one.object in names & damaged
    ]
    order = list(ACTIONS)
    return tuple(sorted(dict.fromkeys(wanted), key=lambda step: order.index(step.kind)))


def _restore_entries(
    store: Store, steps: Sequence[RepairStep], environment: Environment
) -> Iterator[RepairStep]:
    """Write entries again, from compacted log segments, with the bytes that the chain proves."""
    proven = inspect_log(store).lost
    for step in steps:
        version = entry_version(step.object)
        body = None if version is None else proven.get(version)
        if version is None or body is None:
            yield replace(step, note="the chain of digests does not prove its bytes")
            continue
        reply = store.put_if_absent(entry_key(version), body)
        if isinstance(reply, Exists):
            # The damaged entry is there. Its proven bytes replace it.
            store.put(entry_key(version), body)
        elif not isinstance(reply, Written):
            yield replace(step, note=reply.reason)
            continue
        yield replace(step, done=True)


def _rewrite_history(
    store: Store, steps: Sequence[RepairStep], environment: Environment
) -> Iterator[RepairStep]:
    """Remove damaged compacted log segments, and write them again from the entries."""
    known, oldest = entry_sizes(store), LogView.open(store).head.totals.oldest
    head = max(known)
    for step in steps:
        span = log_segment_range(step.object)
        if span is None:
            yield replace(step, note="its name is not that of a compacted log segment")
            continue
        wanted = range(max(span[0], oldest), min(span[1], head) + 1)
        absent = next((version for version in wanted if version not in known), None)
        if absent is not None:
            yield replace(step, note=f"it may be the only copy of version {absent}")
            continue
        store.delete(step.object)
        if span[1] <= head:
            write_log_segments(store, span[0] - 1, span[1])
        yield replace(step, done=True)


def _replace_checkpoints(
    store: Store, steps: Sequence[RepairStep], environment: Environment
) -> Iterator[RepairStep]:
    """Write a checkpoint from the entries alone, name it in the hint, and remove damaged roots."""
    view = LogView.open(store, whole=True)
    horizon = Named(view).log_retention_horizon
    kept = set() if horizon is None else {one.path for one in horizon.checkpoints}
    written = checkpoint_of(view, environment.nonce, afresh=True)
    write_hint(store, view.head.table, Hint(view.head.version, written.path))
    for step in steps:
        roots = {step.object} if root_version(step.object) is not None else _roots_of(store, step)
        held = sorted(roots & kept)
        for root in sorted(roots - kept):
            store.delete(root)
        note = f"the log may need {held[0]} for its oldest versions" if held else ""
        yield replace(step, done=not held, note=note)


def _roots_of(store: Store, step: RepairStep) -> set[str]:
    """Return the roots that name a damaged part."""
    found = set()
    for key in listed_roots(store):
        try:
            root = decode_root(store.get(key), key)
        except (CorruptTableError, KeyNotFoundError):
            continue
        if any(part.path == step.object for part in (*root.segments, *root.deletes)):
            found.add(key)
    return found


def _write_hint(
    store: Store, steps: Sequence[RepairStep], environment: Environment
) -> Iterator[RepairStep]:
    view = LogView.open(store)
    write_hint(store, view.head.table, Hint(view.head.version, view.base.key or None))
    for step in steps:
        yield replace(step, done=True)


def _rewrite_copies(
    store: Store, steps: Sequence[RepairStep], environment: Environment
) -> Iterator[RepairStep]:
    """Remove the metadata of wrong copies, and export the newest version again."""
    for step in steps:
        try:
            view = LogView.open(store)
            copies = removable_copies(store, view)
            copy = next(c for c in copies if step.object.startswith(f"{c.folder}/"))
            for key in chain.from_iterable(copy.steps):
                store.delete(key)
            export_table(store, view, environment, copy.target)
        except (ExportBlockedError, UnsupportedFeatureError) as error:
            yield replace(step, note=str(error))
            continue
        yield replace(step, done=True)


_WORKS: dict[str, Callable[[Store, Sequence[RepairStep], Environment], Iterator[RepairStep]]] = {
    "restorable-entry": _restore_entries,
    "damaged-history": _rewrite_history,
    "damaged-checkpoint": _replace_checkpoints,
    "wrong-hint": _write_hint,
    "wrong-copy": _rewrite_copies,
}


def _give_up(store: Store, paths: Sequence[str], environment: Environment) -> int:
    """Commit the removal of live files that cannot be read. Return the version."""
    context = TableContext(store, LogView.open(store), environment)
    wanted = pa.array(sorted(paths), pa.string())

    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_remove(metadata)
        return tuple(wanted.to_pylist())

    def stage(txn: TransactionSnapshot, _: Any) -> Staged:
        check_may_remove(txn.metadata)
        files = txn.snapshot.files
        files = files.filter(pc.is_in(files["path"], value_set=wanted))
        return Staged(
            transaction=txn.transaction,
            operation=Operation(
                name=REPAIR,
                cls=OperationClass.UPDATE,
                parameters={GIVEN_UP: files["path"].to_pylist()},
                metrics={"numRemovedFiles": files.num_rows, "numDeletedRows": live_rows(files)},
            ),
            scope=scope_of_files(files, txn.metadata),
            written_under=txn.metadata,
            read_version=txn.version,
            removes=np.sort(files["id"].to_numpy()),
        )

    return autocommit(
        context, Statement(name=REPAIR, text=text, stage=stage), CommitOptions()
    ).version


def _check_table() -> None:
    repairable = {name for name, kind in KINDS.items() if kind.remedy in ("derived", "loss")}
    assert set(ACTIONS) == repairable
    assert set(_WORKS) == {name for name in ACTIONS if KINDS[name].remedy == "derived"}


_check_table()
