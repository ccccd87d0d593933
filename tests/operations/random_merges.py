"""Random MERGEs from a seed: conditions over both sides, NULL keys, every kind of clause."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tablefmt.testing.reference_model import (
    OPERATORS,
    Column,
    Term,
    Values,
    When,
    both,
    column,
    compared,
    constant,
    either,
    is_null,
    opposite,
    plus,
)

COLUMNS = (
    Column("p", "STRING"),
    Column("k", "INT"),
    Column("v", "BIGINT"),
    Column("w", "STRING"),
)
NAMES = tuple(c.name for c in COLUMNS)
NUMBERS = (None, 0, 1, 2, 3, 4)
WORDS = (None, "", "a", "b'", "`c", "é")
PLACES = ("x", "y", None)

ALIASES = {"matched": ("t", "s"), "not_matched": ("s",), "not_matched_by_source": ("t",)}
"""Aliases that a clause may use."""


@dataclass(frozen=True)
class Merge:
    """A statement with its source."""

    on: Term
    source: list[Values]
    whens: list[When] = field(default_factory=list)


class Maker:
    """Makes them from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def row(self) -> Values:
        """Any row."""
        pick = self.rng.choice
        row = (pick(PLACES), pick(NUMBERS), pick(NUMBERS), pick(WORDS))
        return dict(zip(NAMES, row, strict=True))

    def rows(self, most: int) -> list[Values]:
        """Some of them."""
        return [self.row() for _ in range(self.rng.randint(0, most))]

    def merge(self) -> Merge:
        """A statement: at times one that has to be refused for its source."""
        source = self.rows(6)
        if self.rng.random() < 0.6:
            # One row a key, so that most statements go through.
            source = list({row["k"]: row for row in source}.values())
        whens: list[When] = []
        while not whens:
            for side, most in (("matched", 3), ("not_matched", 2), ("not_matched_by_source", 2)):
                whens += self._whens(side, most)
        return Merge(self._on(), source, whens)

    def _on(self) -> Term:
        equal = compared(column("k", "t"), "=", column("k", "s"))
        roll = self.rng.random()
        if roll < 0.35:
            return equal
        if roll < 0.45:
            return both(equal, compared(column("p", "s"), "=", column("p", "t")))
        if roll < 0.6:
            return both(equal, self.condition(("t",)))
        if roll < 0.7:
            return both(compared(column("p", "t"), "<=>", column("p", "s")), equal)
        if roll < 0.75:
            return compared(column("k", "t"), "=", plus(column("v", "s"), constant(1)))
        if roll < 0.8:
            return compared(column("k", "t"), "<=>", column("k", "s"))
        if roll < 0.9:
            return both(equal, self.condition(("t", "s")))
        return self.condition(("t", "s"))

    def _whens(self, side: str, most: int) -> list[When]:
        count = self.rng.choice([0, *range(most + 1)])
        whens = []
        for at in range(count):
            last = at == count - 1
            bare = last and self.rng.random() < 0.6
            condition = None if bare else self.condition(ALIASES[side])
            if (
                side != "not_matched"
                and self.rng.choice(["update", "update", "delete"]) == "delete"
            ):
                whens.append(When(side, condition, None))
            elif side != "not_matched_by_source" and self.rng.random() < 0.4:
                everything = {name: column(name, "s") for name in NAMES}
                whens.append(When(side, condition, everything, by_name=True))
            else:
                whens.append(When(side, condition, self._sets(ALIASES[side])))
        return whens

    def _sets(self, aliases: Sequence[str]) -> dict[str, Term]:
        names = self.rng.sample(NAMES, self.rng.randint(1, 3))
        return {name: self._value(name, aliases) for name in names}

    def _value(self, name: str, aliases: Sequence[str]) -> Term:
        numbers, words = ("k", "v"), ("p", "w") if name == "w" else ("p",)
        alias = self.rng.choice(aliases)
        if name in numbers:
            plain = column(self.rng.choice(numbers), alias)
            options = [plain, constant(self.rng.choice(NUMBERS)), plus(plain, constant(1))]
            return self.rng.choice(options)
        chosen = PLACES if name == "p" else WORDS
        plain = column(self.rng.choice(words), alias)
        return self.rng.choice([plain, constant(self.rng.choice(chosen))])

    def condition(self, aliases: Sequence[str], depth: int = 2) -> Term:
        """A random condition."""
        roll = self.rng.random()
        if depth and roll < 0.35:
            make = self.rng.choice([both, either])
            return make(self.condition(aliases, depth - 1), self.condition(aliases, depth - 1))
        if depth and roll < 0.45:
            return opposite(self.condition(aliases, depth - 1))
        one, two = self.rng.choice(aliases), self.rng.choice(aliases)
        if roll < 0.55:
            return is_null(column(self.rng.choice(NAMES), one))
        op = self.rng.choice(OPERATORS)
        if self.rng.random() < 0.3:
            name, words = self.rng.choice([("p", PLACES), ("w", WORDS)])
            right = constant(self.rng.choice(words[:2])) if one == two else column(name, two)
            return compared(column(name, one), op, right)
        left = column(self.rng.choice(("k", "v")), one)
        right = constant(self.rng.randint(0, 4))
        if one != two or self.rng.random() < 0.3:
            right = column(self.rng.choice(("k", "v")), two)
        return compared(left, op, right)
