"""What a table should hold, in plain Python: rows are tuples, a table is a multiset of them.

Nothing here uses what it is meant to test. A statement is a function from one state to an outcome;
conditions and values are terms, SQL text beside what it means (`tablefmt.testing.terms`).

    state = State((Column("k", "BIGINT"), Column("v", "STRING")))
    state = appended(state, [{"k": 1, "v": "a"}]).state
    deleted(state, compared(column("k"), "=", constant(1))).state.rows  # ()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tablefmt.testing.terms import Term, Values

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Column:
    """A column, and the value of rows that say none."""

    name: str
    kind: str
    """Its type in SQL."""
    default: Any = None


@dataclass(frozen=True)
class State:
    """One version: rows have a value for each column, in order."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(c for c in self.columns if c.name == name)

    def named(self, row: Row) -> Values:
        """A row by column name."""
        return dict(zip(self.names, row, strict=True))

    def row(self, values: Mapping[str, Any]) -> Row:
        """A row of values by column name."""
        return tuple(values.get(c.name, c.default) for c in self.columns)

    def counted(self) -> Counter[str]:
        """The rows as a multiset that can be compared."""
        return counted(self.rows)

    def added(self, column: Column, after: str | None = None) -> State:
        """With a column more, behind all or behind the one named; rows there have its default."""
        at = len(self.columns) if after is None else self.names.index(after) + 1
        rows = tuple((*row[:at], column.default, *row[at:]) for row in self.rows)
        return State((*self.columns[:at], column, *self.columns[at:]), rows)

    def dropped(self, name: str) -> State:
        """Without a column."""
        at = self.names.index(name)
        rows = tuple((*row[:at], *row[at + 1 :]) for row in self.rows)
        return State((*self.columns[:at], *self.columns[at + 1 :]), rows)

    def renamed(self, old: str, new: str) -> State:
        """With another name of a column."""
        return self._with(replace(c, name=new) if c.name == old else c for c in self.columns)

    def widened(self, name: str, kind: str) -> State:
        """With a wider type of a column, in which its values are the same."""
        return self._with(replace(c, kind=kind) if c.name == name else c for c in self.columns)

    def _with(self, columns: Iterable[Column]) -> State:
        return replace(self, columns=tuple(columns))


@dataclass
class Outcome:
    """What a statement did."""

    state: State
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def changes(self) -> bool:
        """Whether any row."""
        return bool(self.inserted or self.updated or self.deleted)


def counted(rows: Iterable[Sequence[Any]]) -> Counter[str]:
    """A multiset of rows in which NaN equals itself and 1 is not TRUE."""
    return Counter(repr(tuple(row)) for row in rows)


def after(rows: Iterable[Row], removed: Iterable[Row], added: Iterable[Row]) -> tuple[Row, ...]:
    """The rows once some of them have gone, which have to be there, and others have come."""
    left = Counter(rows)
    left.subtract(removed)
    assert all(count >= 0 for count in left.values()), "a row is removed that is not there"
    return (*left.elements(), *added)


def appended(state: State, rows: Iterable[Values]) -> Outcome:
    """INSERT."""
    new = [state.row(values) for values in rows]
    return Outcome(replace(state, rows=(*state.rows, *new)), inserted=len(new))


def overwritten(state: State, rows: Iterable[Values], where: Term | None = None) -> Outcome:
    """The rows for which a condition is true, or all, make way for others."""
    emptied = replace(state, rows=()) if where is None else deleted(state, where).state
    outcome = appended(emptied, rows)
    outcome.deleted = len(state.rows) - len(emptied.rows)
    return outcome


def deleted(state: State, where: Term) -> Outcome:
    """DELETE."""
    kept = tuple(r for r in state.rows if where.of(state.named(r), {}) is not True)
    return Outcome(replace(state, rows=kept), deleted=len(state.rows) - len(kept))


def updated(state: State, sets: Mapping[str, Term], where: Term) -> Outcome:
    """UPDATE. Values are worked out from the row as it was."""
    result, count = [], 0
    for row in state.rows:
        named = state.named(row)
        if where.of(named, {}) is True:
            count += 1
            named = {**named, **{name: term.of(named, {}) for name, term in sets.items()}}
        result.append(state.row(named))
    return Outcome(replace(state, rows=tuple(result)), updated=count)


SIDES = ("matched", "not_matched", "not_matched_by_source")


@dataclass(frozen=True)
class When:
    """A clause of a MERGE."""

    side: str
    """One of SIDES."""
    condition: Term | None
    sets: Mapping[str, Term] | None
    """By column name; None is a delete."""
    by_name: bool = False
    """All columns from those of the source: SET *, INSERT *."""

    def holds(self, row: Values, source: Values) -> bool:
        """Whether it applies."""
        return self.condition is None or self.condition.of(row, source) is True


class CardinalityError(Exception):
    """Several source rows would change one row."""


def merged(state: State, source: Sequence[Values], on: Term, whens: Sequence[When]) -> Outcome:
    """MERGE: of each side the first clause that applies. Raises CardinalityError."""
    by_side = {side: [w for w in whens if w.side == side] for side in SIDES}
    with_partner: set[int] = set()
    done = Outcome(state)
    rows: list[Row] = []
    for row in state.rows:
        named = state.named(row)
        partners = [i for i, s in enumerate(source) if on.of(named, s) is True]
        with_partner.update(partners)
        side = by_side["matched"] if partners else by_side["not_matched_by_source"]
        changes = [
            (when, s)
            for s in ([source[i] for i in partners] or [{}])
            if (when := _first(side, named, s)) is not None
        ]
        if len(changes) > 1 and not _is_lone_delete(side):
            raise CardinalityError
        if not changes:
            rows.append(row)
            continue
        when, partner = changes[0]
        if when.sets is None:
            done.deleted += 1
        else:
            done.updated += 1
            new = {name: term.of(named, partner) for name, term in when.sets.items()}
            rows.append(state.row({**named, **new}))
    for i, partner in enumerate(source):
        clause = None if i in with_partner else _first(by_side["not_matched"], {}, partner)
        if clause is not None:
            assert clause.sets is not None
            done.inserted += 1
            rows.append(state.row({n: term.of({}, partner) for n, term in clause.sets.items()}))
    done.state = replace(state, rows=tuple(rows))
    return done


def _first(whens: Sequence[When], row: Values, source: Values) -> When | None:
    return next((when for when in whens if when.holds(row, source)), None)


def _is_lone_delete(whens: Sequence[When]) -> bool:
    return [(when.condition, when.sets) for when in whens] == [(None, None)]


# --- versions in time ----------------------------------------------------------------------------

Change = tuple[Row, str, int, int]
"""Row, `insert` or `delete`, version, commit timestamp in µs."""


@dataclass(frozen=True)
class Version:
    """What one commit left behind. Times are µs."""

    timestamp: int
    time_version: int
    rows: tuple[Row, ...]
    removed: tuple[Row, ...] = ()
    added: tuple[Row, ...] = ()


@dataclass
class Versions:
    """The versions of one table, from 0 to the newest."""

    all: list[Version] = field(default_factory=list)

    @classmethod
    def of_an_empty_table(cls, now: int) -> Versions:
        """Version 0."""
        return cls([Version(now, now, ())])

    @property
    def head(self) -> int:
        """The newest."""
        return len(self.all) - 1

    @property
    def rows(self) -> tuple[Row, ...]:
        """Of the newest."""
        return self.all[-1].rows

    def commit(self, removed: Sequence[Row], added: Sequence[Row], now: int) -> bool:
        """A version in which some rows have gone and others have come; none if there are none.

        Returns:
            True if a version was made.
        """
        before = self.all[-1]
        if not removed and not added:
            return False
        time = max(now, before.timestamp + 1)
        rows = after(before.rows, removed, added)
        self.all.append(Version(time, time, rows, tuple(removed), tuple(added)))
        return True

    def moved(self, now: int) -> None:
        """A version in which rows lie elsewhere: no time version of its own (TIM-2)."""
        before = self.all[-1]
        self.all.append(Version(max(now, before.timestamp + 1), before.time_version, before.rows))

    def at_time(self, micros: int) -> int | None:
        """The largest version whose time version is <= `micros`."""
        versions = [v for v, known in enumerate(self.all) if known.time_version <= micros]
        return max(versions, default=None)

    def changes(self, versions: Iterable[int]) -> list[Change]:
        """In order; within a version deletes first."""
        row_changes: list[Change] = []
        for version in versions:
            known = self.all[version]
            for kind, rows in (("delete", known.removed), ("insert", known.added)):
                row_changes.extend((row, kind, version, known.timestamp) for row in rows)
        return row_changes


def with_changes(rows: Iterable[Row], changes: Iterable[Change]) -> Counter[Row]:
    """The rows after the changes, as a multiset."""
    result = Counter(rows)
    for row, kind, _, _ in changes:
        result[row] += 1 if kind == "insert" else -1
    assert all(count >= 0 for count in result.values()), "a row is deleted that is not there"
    return +result
