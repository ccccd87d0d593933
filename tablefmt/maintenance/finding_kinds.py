"""Kinds of findings of `verify`: severity, consequence, remedy. Pure.

Spec: VFY-1, VFY-3 (spec/verify.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["error", "warning", "note"]
"""error: rows or versions cannot be read, or may be wrong. warning: reads are right, but slower, or
another format's copy is wrong. note: no problem of the table.
"""

Remedy = Literal["derived", "loss", "manual", "none"]
"""derived: `repair` mends it, and nothing is lost. loss: `repair` gives up the file if the caller
names it. manual: a person decides. none: there is nothing to mend.
"""


@dataclass(frozen=True, slots=True)
class FindingKind:
    """Severity and remedy of one kind."""

    severity: Severity
    remedy: Remedy
    meaning: str
    """Consequence, as a clause."""
    action: str
    """The remedy, as a sentence."""


_BACKUP = "Restore the object from a backup or from the bucket's object versions."

_WITHOUT = (
    "If there is none, copy the table to another place without the entries from this one on. The "
    "copy has all versions before it."
)

KINDS: dict[str, FindingKind] = {
    "damaged-entry": FindingKind(
        "error",
        "manual",
        "versions from this entry on cannot be read without a later checkpoint",
        f"{_BACKUP} {_WITHOUT}",
    ),
    "missing-entry": FindingKind(
        "error",
        "manual",
        "versions from the missing entry on cannot be read without a later checkpoint",
        f"{_BACKUP} {_WITHOUT}",
    ),
    "restorable-entry": FindingKind(
        "error",
        "derived",
        "versions from this entry on cannot be read, but a compacted log segment has its bytes",
        "Run `verify --repair`: it writes the entry again. The chain of digests proves the bytes.",
    ),
    "damaged-overflow": FindingKind(
        "error",
        "manual",
        "versions from the entry that names it cannot be read without a later checkpoint",
        f"{_BACKUP} {_WITHOUT}",
    ),
    "wrong-rows": FindingKind(
        "error",
        "manual",
        "the entry contradicts itself about deleted or moved rows, so rows may be wrong",
        "Compare the rows with those of the version before. Restore that version, or mend the rows "
        "by an overwrite.",
    ),
    "missing-file": FindingKind(
        "error",
        "loss",
        "the rows of this file cannot be read",
        f"{_BACKUP} If there is none, name the file: `verify --repair --accept-loss FILE` removes "
        "it from the table by a commit.",
    ),
    "damaged-file": FindingKind(
        "error",
        "loss",
        "rows of this file cannot be read",
        f"{_BACKUP} If there is none, name the file: `verify --repair --accept-loss FILE` removes "
        "it from the table by a commit.",
    ),
    "wrong-bounds": FindingKind(
        "error",
        "manual",
        "queries with a condition may skip rows of this file",
        "Rewrite the file: `compact` of its partition writes new bounds.",
    ),
    "missing-old-file": FindingKind(
        "error",
        "manual",
        "older versions that have this file cannot be read; the newest version does not need it",
        f"{_BACKUP} Or run `vacuum` with a retention that gives these versions up.",
    ),
    "given-up-file": FindingKind(
        "note",
        "none",
        "older versions that have this file cannot be read; a repair gave it up",
        "None. The finding ends when these versions expire.",
    ),
    "wrong-hint": FindingKind(
        "warning",
        "derived",
        "opening the table takes more requests",
        "Run `verify --repair`: it writes the hint again.",
    ),
    "damaged-checkpoint": FindingKind(
        "warning",
        "derived",
        "readers skip this checkpoint, and opening the table takes longer",
        "Run `verify --repair`: it removes the checkpoint, and writes one of the newest version.",
    ),
    "damaged-history": FindingKind(
        "warning",
        "derived",
        "readers read the entries one by one, so a long history takes longer",
        "Run `verify --repair`: it writes the compacted log segment again.",
    ),
    "wrong-copy": FindingKind(
        "warning",
        "derived",
        "readers of the copy's format see other rows than this table has",
        "Run `verify --repair`: it removes the copy's metadata, and exports again. Register the "
        "new copy in your catalogs, and start streams that read the copy anew.",
    ),
    "unusable-property": FindingKind(
        "warning",
        "manual",
        "the property is ignored",
        "Set a valid value with `alter.set_properties`.",
    ),
    "expired-tag": FindingKind(
        "error",
        "manual",
        "the tag names a version that is no longer kept",
        "Drop the tag. Find the program that removes versions without regard to tags.",
    ),
    "lost-hold": FindingKind(
        "warning",
        "manual",
        "a vacuum of the source removes files that this clone reads",
        "Set a tag of the source at the version of the clone, if it still has that version. Or "
        "make a deep clone of this table.",
    ),
    "clone-hold": FindingKind(
        "note",
        "manual",
        "the table keeps old files that only a shallow clone reads",
        "Keep the tag while the clone is used. If the clone no longer exists, drop the tag.",
    ),
    "not-checked": FindingKind(
        "warning",
        "none",
        "nothing is known about this object, because the store did not answer",
        "Check the rights and the network, and run `verify` again.",
    ),
    "orphan-files": FindingKind(
        "note",
        "none",
        "no entry names these files; a write failed, was abandoned, or still runs",
        "Run `vacuum`: it removes them when they are old enough.",
    ),
    "orphan-log-object": FindingKind(
        "note",
        "none",
        "no entry and no checkpoint names this object; its writer failed, or still runs",
        "Run `vacuum`: it removes the object when it is old enough.",
    ),
}
"""All kinds by name."""


def _check_table() -> None:
    severities, remedies = set(get_args(Severity)), set(get_args(Remedy))
    assert {kind.severity for kind in KINDS.values()} == severities
    assert {kind.remedy for kind in KINDS.values()} == remedies


_check_table()
