"""Random rows, conditions, values and MERGE clauses over columns. Needs hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tablefmt.testing.reference_model import (
    SIDES,
    Column,
    Term,
    Values,
    When,
    both,
    column,
    compared,
    constant,
    either,
    is_in,
    is_null,
    literal,
    opposite,
    quoted,
)

KINDS = ("INT", "BIGINT", "STRING")
"""Types of columns."""

VALUES = {
    "INT": st.integers(-2, 3),
    "BIGINT": st.integers(-2, 3),
    "STRING": st.sampled_from(["", "a", "b", "%", "ü", "it's", "; DROP"]),
}

SOURCE = (Column("k", "BIGINT"), Column("v", "BIGINT"), Column("s", "STRING"))
"""Columns of every source of a MERGE."""


def values(kind: str) -> st.SearchStrategy[Any]:
    """Return values of a column of that type, None included."""
    return st.none() | VALUES[kind]


def rows(columns: Sequence[Column]) -> st.SearchStrategy[list[Values]]:
    """Return at most six rows, by column name."""
    row = st.fixed_dictionaries({c.name: values(c.kind) for c in columns})
    return st.lists(row, max_size=6)


@st.composite
def leaf(draw: Any, columns: Sequence[Column], alias: str = "") -> Term:
    """Draw a condition on one column."""
    c = draw(st.sampled_from(columns))
    name = column(c.name, alias)
    form = draw(st.sampled_from(["null", "<=>", "in", "=", "<", ">=", "!="]))
    if form == "null":
        return is_null(name)
    if form == "in":
        return is_in(name, draw(st.lists(values(c.kind), min_size=1, max_size=3)))
    value = draw(values(c.kind) if form == "<=>" else VALUES[c.kind])
    return compared(name, form, constant(value))


@st.composite
def condition(draw: Any, columns: Sequence[Column], alias: str = "") -> Term:
    """Draw a condition on one or two columns."""
    one: Term = draw(leaf(columns, alias))
    form = draw(st.sampled_from(["one", "one", "not", "and", "or"]))
    if form == "one":
        return one
    if form == "not":
        return opposite(one)
    other: Term = draw(leaf(columns, alias))
    return both(one, other) if form == "and" else either(one, other)


@st.composite
def expression(draw: Any, columns: Sequence[Column], kind: str, alias: str = "") -> Term:
    """Draw a new value: a literal, a column of the same type, or a computation from one."""
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
    return column(c.name, alias)


@st.composite
def assignments(draw: Any, columns: Sequence[Column], alias: str = "") -> dict[str, Term]:
    """Draw the assignments of SET, by column name."""
    chosen = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique=True))
    return {c.name: draw(expression(columns, c.kind, alias)) for c in chosen}


@st.composite
def whens(draw: Any, columns: Sequence[Column]) -> list[When]:
    """Draw clauses that Spark accepts: no clause follows an unconditional one of its kind."""
    clauses: list[When] = []
    for side in SIDES:
        count = draw(st.integers(0, 2))
        for at in range(count):
            bare = at == count - 1 and draw(st.booleans())
            given = condition(SOURCE, "s") if side == "not_matched" else condition(columns, "t")
            when = None if bare else draw(given)
            clauses.append(When(side, when, draw(_sets(columns, side))))
    return clauses or [When("matched", None, None)]


@st.composite
def _sets(draw: Any, columns: Sequence[Column], side: str) -> dict[str, Term] | None:
    if side != "not_matched" and draw(st.booleans()):
        return None
    if side == "not_matched_by_source":
        sets: dict[str, Term] = draw(assignments(columns, "t"))
        return sets
    takes = {"BIGINT": "v", "STRING": "s"}
    fitting = [c for c in columns if c.kind in takes and c.name != "k"]
    chosen = draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2, unique=True))
    sets = {c.name: column(takes[c.kind], "s") for c in chosen}
    return {**sets, "k": column("k", "s")} if side == "not_matched" else sets
