"""Batch range of the next run of a pipe, decided from both logs. Pure.

Spec: PIP-1, PIP-2, PIP-7.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablefmt.changes.beginning import begins_with
from tablefmt.errors import ChangesExpiredError, InvalidArgumentError, TableReplacedError
from tablefmt.log.cursors_json import LOCATION_BYTES_MAX
from tablefmt.model.entry import DerivedFrom
from tablefmt.session.context import TableContext
from tablefmt.snapshot.cursors import Cursor, Cursors
from tablefmt.snapshot.head import Head

ANEW = (
    "To start over, fill an empty target under another name, "
    'tablefmt.pipe(…, name="…"); this target stays unchanged'
)


@dataclass(frozen=True, slots=True)
class Left:
    """The cursor of a pipe, together with its source."""

    source: Head
    """The newest version of the source."""
    location: str
    """Address of the source."""
    cursor: Cursor | None
    """The target's cursor; None if it never copied from this source."""

    @property
    def start(self) -> int | None:
        """The last version that was copied; None if there is none."""
        return None if self.cursor is None else self.cursor.to

    @property
    def is_current(self) -> bool:
        """True if nothing is new."""
        return self.start == self.source.version

    def taking(self, name: str) -> DerivedFrom:
        """Return the new versions, in the form of the target's entry (ENT-15).

        An address that is too long for an entry is left out.
        """
        head = self.source
        fits = 0 < len(self.location.encode(errors="replace")) <= LOCATION_BYTES_MAX
        location = self.location if fits else None
        return DerivedFrom(head.table, name, self.start, head.version, head.digest, location)


def left_at(source: Head, location: str, cursors: Cursors, name: str) -> Left:
    """Return the cursor of a pipe into a table.

    Args:
        source: the newest version of the source.
        location: address of the source.
        cursors: cursors of the target.
        name: name of the pipe.

    Raises:
        TableReplacedError: PIP-7, another table is at the source's address, or its log ends before
            the cursor.
        ChangesExpiredError: PIP-7, new versions are no longer kept.
    """
    cursor = cursors.get((source.table, name))
    if cursor is None:
        _check_same_table(source, location, cursors, name)
    left = Left(source, location, cursor)
    start, oldest = left.start, source.totals.oldest
    if start is None:
        return left
    if start > source.version:
        raise _other_log(f"it ends at version {source.version}, but version {start} was copied")
    if start < oldest:
        raise ChangesExpiredError(
            start + 1,
            oldest + 1,
            f"The target has changes up to version {start}. The changes after it are lost. {ANEW}.",
        )
    return left


def check_digest(left: Left, digest: str | None) -> None:
    """Refuse a log that differs from the log that was copied.

    Args:
        left: the cursor.
        digest: digest of the source's entry at the cursor, in its current log.

    Raises:
        TableReplacedError: PIP-7.
    """
    if left.cursor is not None and left.cursor.digest != digest:
        raise _other_log(f"its version {left.start} is not the version that was copied")


def check_apart(source: Head, place: str, target: Head, other: str) -> None:
    """Refuse a table that would feed itself.

    Args:
        source: head of the source.
        place: address of the source.
        target: head of the target.
        other: address of the target.

    Raises:
        InvalidArgumentError: PIP-7.
    """
    if source.table == target.table or place == other:
        raise InvalidArgumentError(
            f"a pipe cannot copy from {place} into {other}: both are the same table, or a copy "
            "with its id. Make the target with tablefmt.create, or let the pipe make it."
        )


def _check_same_table(source: Head, location: str, cursors: Cursors, name: str) -> None:
    for (table, other), cursor in cursors.items():
        if table != source.table and other == name and cursor.location == location:
            raise TableReplacedError(
                f"the target copied rows of table {table} at {location}, but another table is "
                f"there "
                f"now: {source.table}",
                rule="PIP-7",
                advice=f"{ANEW}.",
            )


def _other_log(how: str) -> TableReplacedError:
    return TableReplacedError(
        f"the source's log is not the log that was copied: {how}. It was restored to an "
        f"older state, or it is a diverged copy",
        rule="PIP-7",
        advice=f"{ANEW}.",
    )


def first_taken(source: TableContext, derived: DerivedFrom) -> int:
    """Return the first version that a run copies.

    For a first run, it is the version with which the source begins, or 0 if that is unknown.
    """
    if derived.start is not None:
        return derived.start + 1
    oldest = source.view.head.totals.oldest
    return oldest if begins_with(source.view, oldest) else 0
