"""Steps of a campaign's writers on their own rows, and the rows after each step. Pure.

A writer changes rows with its own number alone. So whatever order the commits of all writers have,
its rows at any version are those after one of its steps.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Row = tuple[int, int, str | None, str]
"""k, n, t, and the repr of x, so that NaN equals itself."""
COLUMNS: Final = ("w", "k", "n", "t", "x")
_FLOATS = (0.0, -1.5, 2.25, float("nan"), float("inf"), 1e300)
_TEXTS = (None, "", "a", "b" * 40, "O'Brien", "ü\U0010ffff", "%_\\")
KINDS: Final = {
    "append": 6,
    "several appends": 2,
    "update": 4,
    "delete": 3,
    "merge": 4,
    "overwrite": 1,
    "truncate": 1,
}
"""Kinds of steps, and how often they come."""
MOST_ROWS: Final = 120


@dataclass(frozen=True)
class Step:
    """One step: its kind, what it is told, and the rows of the writer after it."""

    kind: str
    rows: tuple[Row, ...] = ()
    """New rows, or those of a source."""
    condition: str = ""
    by: int = 0
    after: Mapping[int, Row] = field(default_factory=dict)


def start_of(writer: int) -> Mapping[int, Row]:
    """Return the rows of a writer before its first step."""
    return {k: (k, writer, "start", repr(0.0)) for k in range(4)}


def next_step(seed: str, writer: int, number: int, before: Mapping[int, Row]) -> Step:
    """Return a writer's step, which its number, the seed and its rows decide."""
    chance = random.Random(f"{seed} {writer} {number}")
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    if len(before) > MOST_ROWS:
        kind = "truncate"
    after = dict(before)
    first = max(before, default=0) + 1
    own = f"w = {writer}"
    if kind in ("append", "several appends"):
        rows = _rows(chance, range(first, first + chance.randint(1, 12)))
        return Step(kind, rows, after={**after, **_keyed(rows)})
    if kind == "overwrite":
        rows = _rows(chance, range(first, first + chance.randint(1, 12)))
        return Step(kind, rows, own, after=_keyed(rows))
    if kind == "truncate":
        below = chance.randint(0, first)
        # TRUNCATE removes whole files without reading their rows only if all match, so any
        # condition is right.
        return Step(kind, (), f"{own} AND k < {below}", after=_without(after, lambda k: k < below))
    if kind == "merge":
        return _merge(chance, after, first)
    condition, matches = _condition(chance, first)
    if kind == "delete":
        return Step(kind, (), f"{own} AND {condition}", after=_without(after, matches))
    by = chance.randint(1, 9)
    for k, (_, n, t, x) in before.items():
        if matches(k):
            after[k] = (k, n + by, t, x)
    return Step(kind, (), f"{own} AND {condition}", by, after)


def state_after(seed: str, writer: int, steps: int) -> list[Mapping[int, Row]]:
    """Return the rows after each number of steps, from 0."""
    states = [start_of(writer)]
    for number in range(steps):
        states.append(next_step(seed, writer, number, states[-1]).after)
    return states


def value_of(row: Row) -> dict[str, Any]:
    """Return the columns of a row but for the writer's."""
    k, n, t, x = row
    return {"k": k, "n": n, "t": t, "x": float(x)}


def _rows(chance: random.Random, keys: Any) -> tuple[Row, ...]:
    return tuple(
        (k, chance.randrange(1000), chance.choice(_TEXTS), repr(chance.choice(_FLOATS)))
        for k in keys
    )


def _keyed(rows: tuple[Row, ...]) -> dict[int, Row]:
    return {row[0]: row for row in rows}


def _without(rows: Mapping[int, Row], matches: Any) -> dict[int, Row]:
    return {k: row for k, row in rows.items() if not matches(k)}


def _condition(chance: random.Random, first: int) -> tuple[str, Any]:
    low = chance.randrange(first + 1)
    high = low + chance.randrange(12)
    parts, rest = chance.randint(2, 5), chance.randrange(2)
    some = sorted(chance.sample(range(first + 6), chance.randint(1, 5)))
    return chance.choice(
        [
            (f"k BETWEEN {low} AND {high}", lambda k: low <= k <= high),
            (f"k % {parts} = {rest}", lambda k: k % parts == rest),
            (f"k IN ({', '.join(map(str, some))})", lambda k: k in some),
            (f"NOT (k < {high})", lambda k: k >= high),
        ]
    )


def _merge(chance: random.Random, after: dict[int, Row], first: int) -> Step:
    """A source of old and new keys. Matched rows with an even n go, others take the source's."""
    keys = sorted(chance.sample(range(first + 8), chance.randint(1, min(10, first + 8))))
    rows = _rows(chance, keys)
    for row in rows:
        if row[0] in after and row[1] % 2 == 0:
            del after[row[0]]
        else:
            after[row[0]] = row
    return Step("merge", rows, after=after)
