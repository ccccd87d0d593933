"""What the next run of a pipe takes: decided from both logs. Pure. Spec: PIP-1, PIP-2, PIP-7."""

from __future__ import annotations

from dataclasses import dataclass

from tablefmt.changes.beginning import begins_with
from tablefmt.errors import ChangesExpiredError, InvalidRangeError, TableReplacedError
from tablefmt.log.cursors_json import LOCATION_BYTES_MAX
from tablefmt.model.entry import DerivedFrom
from tablefmt.session.context import TableContext
from tablefmt.snapshot.cursors import Cursor, Cursors
from tablefmt.snapshot.head import Head

ANEW = (
    "To begin again, fill an empty target under another name, "
    'tablefmt.pipe(…, name="…"): what this one holds stays as it is'
)


@dataclass(frozen=True, slots=True)
class Left:
    """Where a pipe was left, in the words of its source."""

    source: Head
    """The newest version of the source."""
    location: str
    """Where it is."""
    cursor: Cursor | None
    """Of the target; None: it never took anything of this source."""

    @property
    def start(self) -> int | None:
        """The last version that was taken; None: nothing was."""
        return None if self.cursor is None else self.cursor.to

    @property
    def is_current(self) -> bool:
        """Whether there is nothing new."""
        return self.start == self.source.version

    def taking(self, name: str) -> DerivedFrom:
        """All that is new, as the target's entry says it (ENT-15): it names no place that is longer
        than an entry has room for.
        """
        head = self.source
        fits = 0 < len(self.location.encode(errors="replace")) <= LOCATION_BYTES_MAX
        location = self.location if fits else None
        return DerivedFrom(head.table, name, self.start, head.version, head.digest, location)


def left_at(source: Head, location: str, cursors: Cursors, name: str) -> Left:
    """Where a pipe into a table was left.

    Args:
        source: the newest version of the table that rows come from.
        location: where it is.
        cursors: of the table that they go into.
        name: of the pipe.

    Raises:
        TableReplacedError: PIP-7, another table stands where the source was, or its log ends before
            what was taken. ChangesExpiredError: PIP-7, what is new is not kept any more.
    """
    cursor = cursors.get((source.table, name))
    if cursor is None:
        _check_same_table(source, location, cursors, name)
    left = Left(source, location, cursor)
    start, oldest = left.start, source.totals.oldest
    if start is None:
        return left
    if start > source.version:
        raise _other_log(f"it ends at version {source.version}, and {start} was taken")
    if start < oldest:
        raise ChangesExpiredError(
            start + 1,
            oldest + 1,
            f"The target has what came up to version {start}, and what came then is lost to it. "
            f"{ANEW}.",
        )
    return left


def check_digest(left: Left, digest: str | None) -> None:
    """Refuse a log that is not the one that was taken from.

    Args:
        left: where the pipe was left.
        digest: of the source's entry of that version, as its log is now.

    Raises:
        TableReplacedError: PIP-7.
    """
    if left.cursor is not None and left.cursor.digest != digest:
        raise _other_log(f"its version {left.start} is not the one that was taken")


def check_apart(source: Head, place: str, target: Head, other: str) -> None:
    """Refuse a table that would feed itself.

    Args:
        source: where rows come from.
        place: its address.
        target: where they go.
        other: its address.

    Raises:
        InvalidRangeError: PIP-7.
    """
    if source.table == target.table or place == other:
        raise InvalidRangeError(
            f"a pipe leads from {place} into {other}, which is the same table, or a copy of it "
            "with its id. Make the target with tablefmt.create, or let the pipe make it."
        )


def _check_same_table(source: Head, location: str, cursors: Cursors, name: str) -> None:
    for (table, other), cursor in cursors.items():
        if table != source.table and other == name and cursor.location == location:
            raise TableReplacedError(
                f"the target took rows of table {table} at {location}, and another one is there "
                f"now, {source.table}",
                rule="PIP-7",
                advice=f"{ANEW}.",
            )


def _other_log(how: str) -> TableReplacedError:
    return TableReplacedError(
        f"the source's log is not the one that rows were taken from: {how}. It was set back to an "
        f"older state, or is a copy that went its own way",
        rule="PIP-7",
        advice=f"{ANEW}.",
    )


def first_taken(source: TableContext, derived: DerivedFrom) -> int:
    """The first version that a run takes: of a first one that with which the source begins, or 0
    where that is not known any more.
    """
    if derived.start is not None:
        return derived.start + 1
    oldest = source.view.head.totals.oldest
    return oldest if begins_with(source.view, oldest) else 0
