"""Random MERGEs, and what they come to by plain Python over lists of rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
"""p, k, v, w: text, number, number, text; each may be None."""

COLUMNS = ("p", "k", "v", "w")
NUMBERS = (None, 0, 1, 2, 3, 4)
WORDS = (None, "", "a", "b'", "`c", "é")
PLACES = ("x", "y", None)

Sides = dict[str, Row]
"""The rows that an expression is over, by alias."""


@dataclass(frozen=True)
class Text:
    """An expression: how SQL says it, and its value for given rows; None is NULL."""

    sql: str
    value: Callable[[Sides], Any]


@dataclass(frozen=True)
class When:
    """A clause. `values` of None are all columns by name."""

    side: str
    action: str
    condition: Text | None = None
    values: dict[str, Text] | None = None


@dataclass(frozen=True)
class Merge:
    """A statement with its source."""

    on: Text
    source: list[Row]
    clauses: list[When] = field(default_factory=list)


class TwoMatches(Exception):
    """Several source rows would change one row."""


# --- what a MERGE means --------------------------------------------------------------------------


def merged(rows: Sequence[Row], merge: Merge) -> list[Row]:
    """The rows afterwards, sorted."""
    left: list[Row] = []
    taken: set[int] = set()
    by_side = {s: [c for c in merge.clauses if c.side == s] for s in ("both", "source", "target")}
    for row in rows:
        found = [
            at for at, s in enumerate(merge.source) if merge.on.value({"t": row, "s": s}) is True
        ]
        taken.update(found)
        if not found:
            clause = _first(by_side["target"], {"t": row})
            left += [row] if clause is None else _changed(clause, {"t": row})
            continue
        changes = []
        for at in found:
            sides = {"t": row, "s": merge.source[at]}
            clause = _first(by_side["both"], sides)
            if clause is not None:
                changes.append((clause, sides))
        lone_delete = [(c.action, c.condition) for c in by_side["both"]] == [("delete", None)]
        if len(changes) > 1 and not lone_delete:
            raise TwoMatches
        left += _changed(*changes[0]) if changes else [row]
    for at, s in enumerate(merge.source):
        if at not in taken:
            clause = _first(by_side["source"], {"s": s})
            if clause is not None:
                left.append(_inserted(clause, s))
    return sorted(left, key=repr)


def _first(clauses: Sequence[When], sides: Sides) -> When | None:
    for clause in clauses:
        if clause.condition is None or clause.condition.value(sides) is True:
            return clause
    return None


def _changed(clause: When, sides: Sides) -> list[Row]:
    if clause.action == "delete":
        return []
    if clause.values is None:
        return [sides["s"]]
    old = dict(zip(COLUMNS, sides["t"], strict=True))
    return [tuple({**old, **{n: e.value(sides) for n, e in clause.values.items()}}.values())]


def _inserted(clause: When, s: Row) -> Row:
    if clause.values is None:
        return s
    return tuple(clause.values[n].value({"s": s}) if n in clause.values else None for n in COLUMNS)


# --- random ones ---------------------------------------------------------------------------------


def column(alias: str, name: str) -> Text:
    """`alias.name`."""
    at = COLUMNS.index(name)
    return Text(f"{alias}.{name}", lambda sides: sides[alias][at])


def constant(value: Any) -> Text:
    """A literal."""
    said = "NULL" if value is None else repr(value)
    if isinstance(value, str):
        said = "'" + value.replace("'", "\\'") + "'"
    return Text(said, lambda sides: value)


def compared(one: Text, op: str, two: Text) -> Text:
    """`one op two`, of three values."""

    def value(sides: Sides) -> bool | None:
        a, b = one.value(sides), two.value(sides)
        if op == "<=>":
            return bool(a == b)
        if a is None or b is None:
            return None
        tests = (
            {"=": a == b, "<": a < b, ">=": a >= b, "<>": a != b} if op != "=" else {"=": a == b}
        )
        return bool(tests[op])

    return Text(f"{one.sql} {op} {two.sql}", value)


def both(one: Text, two: Text) -> Text:
    """AND."""

    def value(sides: Sides) -> bool | None:
        a, b = one.value(sides), two.value(sides)
        if a is False or b is False:
            return False
        return None if a is None or b is None else True

    return Text(f"({one.sql}) AND ({two.sql})", value)


def either(one: Text, two: Text) -> Text:
    """OR."""

    def value(sides: Sides) -> bool | None:
        a, b = one.value(sides), two.value(sides)
        if a is True or b is True:
            return True
        return None if a is None or b is None else False

    return Text(f"({one.sql}) OR ({two.sql})", value)


def opposite(one: Text) -> Text:
    """NOT."""

    def value(sides: Sides) -> bool | None:
        a = one.value(sides)
        return None if a is None else not a

    return Text(f"NOT ({one.sql})", value)


def is_null(one: Text) -> Text:
    """IS NULL."""
    return Text(f"{one.sql} IS NULL", lambda sides: one.value(sides) is None)


def plus(one: Text, two: Text) -> Text:
    """The sum."""

    def value(sides: Sides) -> Any:
        a, b = one.value(sides), two.value(sides)
        return None if a is None or b is None else a + b

    return Text(f"{one.sql} + {two.sql}", value)


class Maker:
    """Makes them from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def row(self) -> Row:
        """Any row."""
        pick = self.rng.choice
        return pick(PLACES), pick(NUMBERS), pick(NUMBERS), pick(WORDS)

    def rows(self, most: int) -> list[Row]:
        """Some of them."""
        return [self.row() for _ in range(self.rng.randint(0, most))]

    def merge(self) -> Merge:
        """A statement: at times one that has to be refused for its source."""
        source = self.rows(6)
        if self.rng.random() < 0.6:
            # One row a key, so that most statements go through.
            source = list({row[1]: row for row in source}.values())
        clauses: list[When] = []
        while not clauses:
            for side, most in (("both", 3), ("source", 2), ("target", 2)):
                clauses += self._clauses(side, most)
        return Merge(self._on(), source, clauses)

    def _on(self) -> Text:
        equal = compared(column("t", "k"), "=", column("s", "k"))
        roll = self.rng.random()
        if roll < 0.45:
            return equal
        if roll < 0.6:
            return both(equal, self.condition(("t",)))
        if roll < 0.7:
            return both(compared(column("t", "p"), "<=>", column("s", "p")), equal)
        if roll < 0.75:
            return compared(column("t", "k"), "=", plus(column("s", "v"), constant(1)))
        if roll < 0.8:
            return compared(column("t", "k"), "<=>", column("s", "k"))
        if roll < 0.9:
            return both(equal, self.condition(("t", "s")))
        return self.condition(("t", "s"))

    def _clauses(self, side: str, most: int) -> list[When]:
        aliases = {"both": ("t", "s"), "source": ("s",), "target": ("t",)}[side]
        count = self.rng.choice([0, *range(most + 1)])
        made = []
        for at in range(count):
            last = at == count - 1
            wanted = None if last and self.rng.random() < 0.6 else self.condition(aliases)
            if side == "source":
                action = "insert"
            else:
                action = self.rng.choice(["update", "update", "delete"])
            everything = side != "target" and self.rng.random() < 0.4
            values = None if everything or action == "delete" else self._values(aliases)
            made.append(When(side, action, wanted, values))
        return made

    def _values(self, aliases: Sequence[str]) -> dict[str, Text]:
        names = self.rng.sample(COLUMNS, self.rng.randint(1, 3))
        return {name: self._value(name, aliases) for name in names}

    def _value(self, name: str, aliases: Sequence[str]) -> Text:
        numbers, words = ("k", "v"), ("p", "w") if name == "w" else ("p",)
        alias = self.rng.choice(aliases)
        if name in numbers:
            plain = column(alias, self.rng.choice(numbers))
            options = [plain, constant(self.rng.choice(NUMBERS)), plus(plain, constant(1))]
            return self.rng.choice(options)
        chosen = PLACES if name == "p" else WORDS
        plain = column(alias, self.rng.choice(words))
        return self.rng.choice([plain, constant(self.rng.choice(chosen))])

    def condition(self, aliases: Sequence[str], depth: int = 2) -> Text:
        """A random condition."""
        roll = self.rng.random()
        if depth and roll < 0.35:
            make = self.rng.choice([both, either])
            return make(self.condition(aliases, depth - 1), self.condition(aliases, depth - 1))
        if depth and roll < 0.45:
            return opposite(self.condition(aliases, depth - 1))
        one, two = self.rng.choice(aliases), self.rng.choice(aliases)
        if roll < 0.55:
            return is_null(column(one, self.rng.choice(COLUMNS)))
        op = self.rng.choice(["=", "<>", "<", ">=", "<=>"])
        if self.rng.random() < 0.3:
            words = self.rng.choice([("p", PLACES), ("w", WORDS)])
            right = constant(self.rng.choice(words[1][:2])) if one == two else column(two, words[0])
            return compared(column(one, words[0]), op, right)
        left = column(one, self.rng.choice(("k", "v")))
        right = constant(self.rng.randint(0, 4))
        if one != two or self.rng.random() < 0.3:
            right = column(two, self.rng.choice(("k", "v")))
        return compared(left, op, right)
