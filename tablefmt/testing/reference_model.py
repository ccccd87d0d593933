"""Reference model of a table in plain Python: rows are tuples, a table is a multiset of them.

No code here depends on the code under test. A statement is a function from a state to an outcome.
Conditions and values are terms, in two forms: SQL text, and their meaning in plain Python. A term
refers to a row of the table, named `t`, and to a row of a source, named `s`. NULL is None, and
conditions have SQL's three truth values.

    state = State((Column("k", "BIGINT"), Column("v", "STRING")))
    state = appended(state, [{"k": 1, "v": "a"}]).state
    deleted(state, compared(column("k"), "=", constant(1))).state.rows  # ()
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Values = dict[str, Any]
"""A row by column name."""


@dataclass(frozen=True)
class Term:
    """SQL text, and its value for a row of the table and a row of the source."""

    sql: str
    of: Callable[[Values, Values], Any]
    arrow: Any = None
    """The same as a pyarrow expression, if there is one."""


def quoted(name: str, alias: str = "") -> str:
    """Quote a name in SQL, whatever characters it has."""
    return (alias + "." if alias else "") + "`" + name.replace("`", "``") + "`"


def literal(value: Any) -> str:
    """Return a value in SQL: text, number or NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"{value}D" if isinstance(value, float) else str(value)


def column(name: str, alias: str = "") -> Term:
    """Return a column of the table, or of the source with the alias `s`."""
    if alias == "s":
        return Term(quoted(name, alias), lambda t, s: s[name])
    return Term(quoted(name, alias), lambda t, s: t[name])


def constant(value: Any) -> Term:
    """Return a literal."""
    return Term(literal(value), lambda t, s: value)


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: _key(a) < _key(b),
    ">": lambda a, b: _key(a) > _key(b),
    ">=": lambda a, b: _key(a) >= _key(b),
}
OPERATORS = ("=", "<>", "<", ">=", "<=>")


def _key(value: Any) -> tuple[bool, Any]:
    """Return a sort key in which NaN is above every number."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def compared(one: Term, operator: str, two: Term) -> Term:
    """Return `one operator two`."""

    def value(t: Values, s: Values) -> bool | None:
        a, b = one.of(t, s), two.of(t, s)
        if operator == "<=>":
            return bool(a == b)
        return None if a is None or b is None else _TESTS[operator](a, b)

    return Term(f"{one.sql} {operator} {two.sql}", value)


def is_null(one: Term) -> Term:
    """Return IS NULL."""
    return Term(f"{one.sql} IS NULL", lambda t, s: one.of(t, s) is None)


def is_in(one: Term, several: Sequence[Any]) -> Term:
    """Return IN with a list of literals."""

    def value(t: Values, s: Values) -> bool | None:
        left = one.of(t, s)
        if left is None:
            return None
        return True if left in several else (None if None in several else False)

    return Term(f"{one.sql} IN ({', '.join(map(literal, several))})", value)


def both(one: Term, two: Term) -> Term:
    """Return AND."""

    def value(t: Values, s: Values) -> bool | None:
        parts = (one.of(t, s), two.of(t, s))
        return False if False in parts else (None if None in parts else True)

    return Term(f"({one.sql}) AND ({two.sql})", value)


def either(one: Term, two: Term) -> Term:
    """Return OR."""

    def value(t: Values, s: Values) -> bool | None:
        parts = (one.of(t, s), two.of(t, s))
        return True if True in parts else (None if None in parts else False)

    return Term(f"({one.sql}) OR ({two.sql})", value)


def opposite(one: Term) -> Term:
    """Return NOT."""

    def value(t: Values, s: Values) -> bool | None:
        known = one.of(t, s)
        return None if known is None else not known

    return Term(f"NOT ({one.sql})", value)


def plus(one: Term, two: Term) -> Term:
    """Return the sum of numbers."""

    def value(t: Values, s: Values) -> Any:
        a, b = one.of(t, s), two.of(t, s)
        return None if a is None or b is None else a + b

    return Term(f"{one.sql} + {two.sql}", value)


Row = tuple[Any, ...]


@dataclass(frozen=True)
class Column:
    """A column, and its default value."""

    name: str
    kind: str
    """The column's SQL type."""
    default: Any = None


@dataclass(frozen=True)
class State:
    """One version: rows have a value for each column, in order."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        """Return the column of that name."""
        return next(c for c in self.columns if c.name == name)

    def named(self, row: Row) -> Values:
        """Return a row by column name."""
        return dict(zip(self.names, row, strict=True))

    def row(self, values: Mapping[str, Any]) -> Row:
        """Return a row from values by column name."""
        return tuple(values.get(c.name, c.default) for c in self.columns)

    def counted(self) -> Counter[str]:
        """Return the rows as a comparable multiset."""
        return counted(self.rows)

    def added(self, column: Column, after: str | None = None) -> State:
        """Add a column at the end, or after a named one; existing rows get its default."""
        at = len(self.columns) if after is None else self.names.index(after) + 1
        rows = tuple((*row[:at], column.default, *row[at:]) for row in self.rows)
        return State((*self.columns[:at], column, *self.columns[at:]), rows)

    def dropped(self, name: str) -> State:
        """Drop a column."""
        at = self.names.index(name)
        rows = tuple((*row[:at], *row[at + 1 :]) for row in self.rows)
        return State((*self.columns[:at], *self.columns[at + 1 :]), rows)

    def renamed(self, old: str, new: str) -> State:
        """Rename a column."""
        return self._with(replace(c, name=new) if c.name == old else c for c in self.columns)

    def widened(self, name: str, kind: str) -> State:
        """Widen the type of a column; its values stay the same."""
        return self._with(replace(c, kind=kind) if c.name == name else c for c in self.columns)

    def _with(self, columns: Iterable[Column]) -> State:
        return replace(self, columns=tuple(columns))


@dataclass
class Outcome:
    """The result of a statement."""

    state: State
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def changes(self) -> bool:
        """True if any row changed."""
        return bool(self.inserted or self.updated or self.deleted)


def counted(rows: Iterable[Sequence[Any]]) -> Counter[str]:
    """Return a multiset of rows in which NaN equals itself and 1 is not TRUE."""
    return Counter(repr(tuple(row)) for row in rows)


def after(rows: Iterable[Row], removed: Iterable[Row], added: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows without `removed`, which must exist, and with `added`."""
    left = Counter(rows)
    left.subtract(removed)
    assert all(count >= 0 for count in left.values()), "a row is removed that is not there"
    return (*left.elements(), *added)


def appended(state: State, rows: Iterable[Values]) -> Outcome:
    """Run INSERT."""
    new = [state.row(values) for values in rows]
    return Outcome(replace(state, rows=(*state.rows, *new)), inserted=len(new))


def overwritten(state: State, rows: Iterable[Values], where: Term | None = None) -> Outcome:
    """Replace all rows, or the rows for which a condition is true."""
    emptied = replace(state, rows=()) if where is None else deleted(state, where).state
    outcome = appended(emptied, rows)
    outcome.deleted = len(state.rows) - len(emptied.rows)
    return outcome


def deleted(state: State, where: Term) -> Outcome:
    """Run DELETE."""
    kept = tuple(r for r in state.rows if where.of(state.named(r), {}) is not True)
    return Outcome(replace(state, rows=kept), deleted=len(state.rows) - len(kept))


def updated(state: State, sets: Mapping[str, Term], where: Term) -> Outcome:
    """Run UPDATE. Values are computed from the old row."""
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
    """New values by column name; None is a delete."""
    by_name: bool = False
    """True if all columns come from the source by name: SET *, INSERT *."""

    def holds(self, row: Values, source: Values) -> bool:
        """Return whether the clause applies."""
        return self.condition is None or self.condition.of(row, source) is True


class CardinalityError(Exception):
    """Raised when several source rows would change one target row."""


def merged(state: State, source: Sequence[Values], on: Term, whens: Sequence[When]) -> Outcome:
    """Run MERGE: on each side the first clause that applies. Raises CardinalityError."""
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
    """The state after one commit. Times are µs."""

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
        """Return a history with version 0 only."""
        return cls([Version(now, now, ())])

    @property
    def head(self) -> int:
        """The newest version."""
        return len(self.all) - 1

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of the newest version."""
        return self.all[-1].rows

    def commit(self, removed: Sequence[Row], added: Sequence[Row], now: int) -> bool:
        """Add a version with rows removed and added, unless both are empty.

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
        """Add a version that only moves rows; it has no time version of its own (TIM-2)."""
        before = self.all[-1]
        self.all.append(Version(max(now, before.timestamp + 1), before.time_version, before.rows))

    def at_time(self, micros: int) -> int | None:
        """Return the largest version whose time version is <= `micros`."""
        versions = [v for v, known in enumerate(self.all) if known.time_version <= micros]
        return max(versions, default=None)

    def changes(self, versions: Iterable[int]) -> list[Change]:
        """Return the changes in order; within a version, deletes first."""
        row_changes: list[Change] = []
        for version in versions:
            known = self.all[version]
            for kind, rows in (("delete", known.removed), ("insert", known.added)):
                row_changes.extend((row, kind, version, known.timestamp) for row in rows)
        return row_changes


def with_changes(rows: Iterable[Row], changes: Iterable[Change]) -> Counter[Row]:
    """Return the rows after the changes, as a multiset."""
    result = Counter(rows)
    for row, kind, _, _ in changes:
        result[row] += 1 if kind == "insert" else -1
    assert all(count >= 0 for count in result.values()), "a row is deleted that is not there"
    return +result
