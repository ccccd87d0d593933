"""A grammar in the notation of ISO 14977: sentences of it, and whether a text is one.

Of the notation there is what the specification uses: `=`, `,`, `|`, `[ ]`, `{ }`, `( )`, terminals
between quotes, `? … ?` and comments. What stands in `? … ?` is given by the caller.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

TOKEN = re.compile(r"""\s*(\(\*.*?\*\)|"[^"]*"|'[^']*'|\?[^?]*\?|\w+|[=,|;{}()\[\]])""", re.DOTALL)
NO_BLANKS = "no blanks inside these"


@dataclass(frozen=True)
class Node:
    """`kind`: word, special, name, all (of `items`), any, maybe, many."""

    kind: str
    text: str = ""
    items: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Special:
    """A `? … ?` of the grammar: a function that makes one, and a regular expression for it."""

    make: Callable[[random.Random], str]
    pattern: str


@dataclass(frozen=True)
class Grammar:
    """Rules by name; in those of `tight` no blanks are allowed between symbols."""

    rules: Mapping[str, Node]
    tight: frozenset[str]
    specials: Mapping[str, Special]

    def sentence(self, name: str, chance: random.Random, depth: int = 0) -> str:
        """One sentence of a rule; fewer branches are taken the deeper it goes."""
        between = "" if name in self.tight else " "
        return between.join(self._made(self.rules[name], chance, depth))

    def _made(self, node: Node, chance: random.Random, depth: int) -> Iterator[str]:
        if node.kind == "word":
            yield node.text
        elif node.kind == "special":
            yield self.specials[node.text].make(chance)
        elif node.kind == "name":
            yield self.sentence(node.text, chance, depth + 1)
        elif node.kind == "any":
            items = node.items
            if depth > 12:
                items = tuple(i for i in items if "condition" not in str(i)) or items
            yield from self._made(chance.choice(items), chance, depth)
        else:
            most = {"all": 1, "maybe": 1, "many": 2 if depth < 8 else 1}[node.kind]
            least = 1 if node.kind == "all" else 0
            for _ in range(chance.randint(least, most)):
                for item in node.items:
                    yield from self._made(item, chance, depth)

    def holds(self, name: str, text: str) -> bool:
        """Return True if the whole text is a sentence of the rule."""

        @cache
        def of_rule(rule: str, at: int) -> frozenset[int]:
            return ends(self.rules[rule], at, rule not in self.tight)

        def ends(node: Node, at: int, blanks: bool) -> frozenset[int]:
            if blanks:
                at += len(text[at:]) - len(text[at:].lstrip(" "))
            if node.kind == "word":
                there = text[at : at + len(node.text)].casefold() == node.text.casefold()
                return frozenset({at + len(node.text)} if there else ())
            if node.kind == "special":
                match = re.compile(self.specials[node.text].pattern, re.DOTALL).match(text, at)
                return frozenset() if match is None else frozenset({match.end()})
            if node.kind == "name":
                return of_rule(node.text, at)
            if node.kind == "any":
                return frozenset().union(*(ends(item, at, blanks) for item in node.items))
            found = frozenset({at})
            if node.kind == "all":
                for item in node.items:
                    found = frozenset().union(*(ends(item, place, blanks) for place in found))
                return found
            reached = found
            while reached:
                more = frozenset().union(*(ends(node.items[0], p, blanks) for p in reached))
                reached = frozenset() if node.kind == "maybe" else more - found
                found |= more
            return found

        return len(text) in of_rule(name, 0)


def read_grammar(text: str, specials: Mapping[str, Special]) -> Grammar:
    """The grammar that `text` publishes. ValueError if it is none."""
    tokens = TOKEN.findall(text)
    rules: dict[str, Node] = {}
    tight: set[str] = set()
    blanks = True
    while tokens:
        if tokens[0].startswith("(*"):
            blanks = blanks and NO_BLANKS not in tokens.pop(0)
            continue
        name, equals = tokens.pop(0), tokens.pop(0)
        if equals != "=" or name in rules:
            raise ValueError(f"{name} {equals}")
        rules[name] = _alternatives(tokens)
        if not blanks:
            tight.add(name)
        if tokens.pop(0) != ";":
            raise ValueError(f"rule {name} has no end")
    named = {n for rule in rules.values() for n in _names(rule)}
    if named - set(rules):
        raise ValueError(f"no rule for {sorted(named - set(rules))}")
    return Grammar(rules, frozenset(tight), specials)


def _names(node: Node) -> Iterator[str]:
    if node.kind == "name":
        yield node.text
    for item in node.items:
        yield from _names(item)


def _alternatives(tokens: list[str]) -> Node:
    items = [_sequence(tokens)]
    while tokens[0] == "|":
        tokens.pop(0)
        items.append(_sequence(tokens))
    return items[0] if len(items) == 1 else Node("any", items=tuple(items))


def _sequence(tokens: list[str]) -> Node:
    items = [_symbol(tokens)]
    while tokens[0] == ",":
        tokens.pop(0)
        items.append(_symbol(tokens))
    return items[0] if len(items) == 1 else Node("all", items=tuple(items))


def _symbol(tokens: list[str]) -> Node:
    token = tokens.pop(0)
    kind = {"(": "", "[": "maybe", "{": "many"}.get(token)
    if kind is None:
        if token[0] in "\"'":
            return Node("word", token[1:-1])
        if token[0] == "?":
            return Node("special", token[1:-1].strip())
        return Node("name", token)
    inner = _alternatives(tokens)
    if tokens.pop(0) != {"(": ")", "[": "]", "{": "}"}[token]:
        raise ValueError(f"{token} is not closed")
    return Node(kind, items=(inner,)) if kind else inner
