"""A table whose rows and columns both change, as plain Python: what the real one is compared with.

Rows are dicts by column key, which a rename does not change and a new column never has again.
Conditions and values come as pairs: SQL text, and what it means in Python with NULL as None.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

Values = dict[str, Any]
"""A row by column name."""

KINDS = ("INT", "BIGINT", "STRING")


@dataclass(frozen=True)
class Column:
    key: int
    name: str
    kind: str
    default: Any = None
    """What rows have that were there before the column."""


@dataclass(frozen=True)
class Term:
    """SQL text, and its value for a row of the table `t` and one of the source `s`."""

    sql: str
    of: Callable[[Values, Values], Any]


@dataclass(frozen=True)
class When:
    """A clause of a MERGE. `sets` is by column name; None is a delete."""

    side: str
    condition: Term | None
    sets: dict[str, Term] | None

    def holds(self, row: Values, source: Values) -> bool:
        return self.condition is None or self.condition.of(row, source) is True


@dataclass(frozen=True)
class State:
    """One version."""

    columns: tuple[Column, ...]
    rows: tuple[dict[int, Any], ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def named(self, row: dict[int, Any]) -> Values:
        return {c.name: row.get(c.key, c.default) for c in self.columns}

    def counted(self) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(self.named(row).values()) for row in self.rows)

    def keyed(self, values: Values) -> dict[int, Any]:
        """A row; a column that is not said has its default."""
        return {c.key: values.get(c.name, c.default) for c in self.columns}

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)


class CardinalityError(Exception):
    """Several source rows would change one row."""


@dataclass
class Outcome:
    """What a statement did."""

    state: State
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def changes(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)


_keys = itertools.count(1)


def column(name: str, kind: str, default: Any = None) -> Column:
    return Column(next(_keys), name, kind, default)


def appended(state: State, rows: Iterable[Values]) -> Outcome:
    new = [state.keyed(row) for row in rows]
    return Outcome(replace(state, rows=(*state.rows, *new)), inserted=len(new))


def deleted(state: State, where: Term) -> Outcome:
    kept = tuple(r for r in state.rows if where.of(state.named(r), {}) is not True)
    return Outcome(replace(state, rows=kept), deleted=len(state.rows) - len(kept))


def updated(state: State, sets: dict[str, Term], where: Term) -> Outcome:
    result, count = [], 0
    for row in state.rows:
        named = state.named(row)
        if where.of(named, {}) is True:
            count += 1
            named = {**named, **{name: term.of(named, {}) for name, term in sets.items()}}
        result.append(state.keyed(named))
    return Outcome(replace(state, rows=tuple(result)), updated=count)


def merged(state: State, source: Sequence[Values], on: Term, whens: Sequence[When]) -> Outcome:
    """Raises CardinalityError."""
    by_side = {side: [w for w in whens if w.side == side] for side in SIDES}
    matched_sources: set[int] = set()
    done = Outcome(state)
    rows: list[dict[int, Any]] = []
    first = by_side["matched"]
    lone_delete = len(first) == 1 and first[0].condition is None and first[0].sets is None
    for row in state.rows:
        named = state.named(row)
        partners = [i for i, s in enumerate(source) if on.of(named, s) is True]
        matched_sources.update(partners)
        changes = []
        for i in partners:
            when = next((w for w in first if w.holds(named, source[i])), None)
            if when is not None:
                changes.append((when, source[i]))
        if len(changes) > 1 and not lone_delete:
            raise CardinalityError
        if not partners:
            lonely = by_side["not_matched_by_source"]
            when = next((w for w in lonely if w.holds(named, {})), None)
            changes = [] if when is None else [(when, {})]
        if not changes:
            rows.append(row)
        elif changes[0][0].sets is None:
            done.deleted += 1
        else:
            when, partner = changes[0]
            done.updated += 1
            new = {name: term.of(named, partner) for name, term in when.sets.items()}
            rows.append(state.keyed({**named, **new}))
    for i, partner in enumerate(source):
        if i in matched_sources:
            continue
        when = next((w for w in by_side["not_matched"] if w.holds({}, partner)), None)
        if when is not None:
            done.inserted += 1
            rows.append(state.keyed({n: term.of({}, partner) for n, term in when.sets.items()}))
    done.state = replace(state, rows=tuple(rows))
    return done


SIDES = ("matched", "not_matched", "not_matched_by_source")


def quoted(name: str, alias: str = "") -> str:
    return (alias + "." if alias else "") + "`" + name.replace("`", "``") + "`"


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)


VALUES = {
    "INT": st.integers(-2, 3),
    "BIGINT": st.integers(-2, 3),
    "STRING": st.sampled_from(["", "a", "b", "%", "ü", "it's", "; DROP"]),
}


def values(kind: str) -> st.SearchStrategy[Any]:
    return st.none() | VALUES[kind]


def rows(columns: Sequence[Column]) -> st.SearchStrategy[list[Values]]:
    row = st.fixed_dictionaries({c.name: values(c.kind) for c in columns})
    return st.lists(row, max_size=6)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "!=": lambda a, b: a != b,
}


@st.composite
def leaf(draw: Any, columns: Sequence[Column], alias: str = "", source: bool = False) -> Term:
    """A condition on one column."""
    c = draw(st.sampled_from(columns))
    name = quoted(c.name, alias)

    def get(row: Values, partner: Values) -> Any:
        return (partner if source else row)[c.name]

    form = draw(st.sampled_from(["null", "<=>", "in", *_COMPARE]))
    if form == "null":
        return Term(f"{name} IS NULL", lambda t, s: get(t, s) is None)
    if form == "<=>":
        value = draw(values(c.kind))
        return Term(f"{name} <=> {literal(value)}", lambda t, s: get(t, s) == value)
    if form == "in":
        several = draw(st.lists(values(c.kind), min_size=1, max_size=3))
        text = ", ".join(map(literal, several))
        return Term(f"{name} IN ({text})", lambda t, s: _is_in(get(t, s), several))
    value = draw(VALUES[c.kind])
    compare = _COMPARE[form]
    return Term(
        f"{name} {form} {literal(value)}",
        lambda t, s: None if get(t, s) is None else compare(get(t, s), value),
    )


def _is_in(value: Any, several: Sequence[Any]) -> bool | None:
    if value is None:
        return None
    return True if value in several else (None if None in several else False)


def _and(parts: Sequence[bool | None]) -> bool | None:
    return False if False in parts else (None if None in parts else True)


def _not(part: bool | None) -> bool | None:
    return None if part is None else not part


@st.composite
def condition(draw: Any, columns: Sequence[Column], alias: str = "", source: bool = False) -> Term:
    """A condition of one or two columns."""
    one = draw(leaf(columns, alias, source))
    form = draw(st.sampled_from(["one", "one", "not", "and", "or"]))
    if form == "one":
        return one
    if form == "not":
        return Term(f"NOT ({one.sql})", lambda t, s: _not(one.of(t, s)))
    other = draw(leaf(columns, alias, source))
    if form == "and":
        both = f"({one.sql}) AND ({other.sql})"
        return Term(both, lambda t, s: _and([one.of(t, s), other.of(t, s)]))
    # Either is what is left when not both fail.
    either = f"({one.sql}) OR ({other.sql})"
    return Term(either, lambda t, s: _not(_and([_not(one.of(t, s)), _not(other.of(t, s))])))


@st.composite
def expression(draw: Any, columns: Sequence[Column], kind: str, alias: str = "") -> Term:
    """A new value: a literal, a column of the same kind, or something worked out from one."""
    same = [c for c in columns if c.kind == kind]
    if not same or draw(st.booleans()):
        value = draw(values(kind))
        return Term(literal(value), lambda t, s: value)
    c = draw(st.sampled_from(same))
    name = quoted(c.name, alias)
    if kind == "STRING":
        return Term(f"{name} || 'x'", lambda t, s: None if t[c.name] is None else t[c.name] + "x")
    if draw(st.booleans()):
        return Term(f"coalesce({name}, 0) - 1", lambda t, s: (t[c.name] or 0) - 1)
    return Term(name, lambda t, s: t[c.name])


@st.composite
def assignments(draw: Any, columns: Sequence[Column], alias: str = "") -> dict[str, Term]:
    chosen = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique=True))
    return {c.name: draw(expression(columns, c.kind, alias)) for c in chosen}


SOURCE = (Column(-1, "k", "BIGINT"), Column(-2, "v", "BIGINT"), Column(-3, "s", "STRING"))


def from_source(name: str) -> Term:
    return Term(quoted(name, "s"), lambda t, s: s[name])


@st.composite
def whens(draw: Any, columns: Sequence[Column]) -> list[When]:
    """Clauses that Spark takes: none comes after one of its kind without a condition."""
    found: list[When] = []
    for side in SIDES:
        count = draw(st.integers(0, 2))
        for at in range(count):
            bare = at == count - 1 and draw(st.booleans())
            if side == "not_matched":
                given = condition(SOURCE, "s", True)
            else:
                given = condition(columns, "t")
            when = None if bare else draw(given)
            found.append(When(side, when, draw(_sets(columns, side))))
    return found or [When("matched", None, None)]


@st.composite
def _sets(draw: Any, columns: Sequence[Column], side: str) -> dict[str, Term] | None:
    if side != "not_matched" and draw(st.booleans()):
        return None
    if side == "not_matched_by_source":
        return draw(assignments(columns, "t"))
    takes = {"BIGINT": "v", "STRING": "s"}
    fitting = [c for c in columns if c.kind in takes and c.name != "k"]
    chosen = draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2, unique=True))
    sets = {c.name: from_source(takes[c.kind]) for c in chosen}
    return {**sets, "k": from_source("k")} if side == "not_matched" else sets
