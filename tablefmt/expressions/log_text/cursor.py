"""A walk over the tokens of a condition: what comes, what is open, what was written. Pure.

Which token may come where is for the grammar to say. Spec: SQL-6.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NoReturn

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.literals import literal_sql
from tablefmt.expressions.log_text.tokens import END, Token
from tablefmt.expressions.predicate import quote_name

DEPTH_MAX = 64
"""Of parentheses and brackets."""


@dataclass(slots=True)
class Cursor:
    """Where in the tokens it is, what is open there, and what was written."""

    tokens: list[Token]
    names: tuple[str, ...]
    """Of the columns."""
    columns: frozenset[str]
    """The same without their case."""
    at: int = 0
    written: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    """What is open: the function's name, or `(`, or `[`."""
    scopes: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    """Of lambda functions: from the first token to the one behind the last, and the parameters."""

    def next_token(self, ahead: int = 0) -> Token:
        """The token that comes, or one of those behind it; END behind the last."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else END

    def sees(self, *signs: str, ahead: int = 0) -> bool:
        """Whether one of these signs comes."""
        token = self.next_token(ahead)
        return token.kind == "sign" and token.text in signs

    def sees_word(self, words: Collection[str], ahead: int = 0) -> bool:
        """Whether one of these words comes."""
        token = self.next_token(ahead)
        return token.kind == "word" and token.text in words

    def take(self, text: str | None = None) -> None:
        """Write the next token, as it is or as `text`."""
        self.write(self.next_token().text if text is None else text)
        self.at += 1

    def write(self, text: str) -> None:
        """Write a word, with a blank before it where one belongs."""
        gap = "" if not self.written or self.written[-1][-1:] in ("(", "[") else " "
        self.written.append(gap + text)

    def refuse(self, token: Token) -> NoReturn:
        """Raise UnsupportedFeatureError: the token may not come where it is."""
        before = " ".join(t.source for t in self.tokens[max(0, self.at - 3) : self.at])[-60:]
        raise UnsupportedFeatureError(
            f"{token.source[:80]} after {before!r}: a condition in the log cannot have it there",
            [f"sql:{token.text.lower()[:40] or 'end'}"],
        )

    def count_arguments(self) -> int:
        """How many the call has whose first one is next."""
        depth, count = 0, 1
        for token in self.tokens[self.at :]:
            if token.kind == "sign":
                depth += (token.text in "([") - (token.text in ")]")
                if depth < 0:
                    break
                count += token.text == "," and depth == 0
        return count

    def open(self, what: str) -> bool:
        """Open a call, a parenthesis or a bracket; a value has to come next."""
        self.opened.append(what)
        if len(self.opened) > DEPTH_MAX:
            raise InvalidPredicateError(
                f"the condition nests too deep; write it with fewer than {DEPTH_MAX} levels"
            )
        if what == "(":
            self.write(what)
        else:
            self.written.append("[" if what == "[" else "(")
        self.at += 1
        return False

    def close(self, sign: str) -> bool:
        """Close what is open; a value is complete."""
        if not self.opened or (self.opened[-1] == "[") != (sign == "]"):
            self.refuse(self.next_token())
        self.opened.pop()
        self.written.append(sign)
        self.at += 1
        return True

    def find_lambdas(self) -> None:
        """Find what the parameters of lambda functions are, and where they are known."""
        for at, token in enumerate(self.tokens):
            if token.kind != "sign" or token.text != "->":
                continue
            first, names = at, []
            while first > 0:
                first -= 1
                before = self.tokens[first]
                if before.kind in ("word", "quoted"):
                    names.append(before.text.casefold())
                    if at - first == 1:
                        break
                elif before.text == "(" or before.text not in (",", ")"):
                    break
            depth, end = 0, at + 1
            while end < len(self.tokens):
                sign = self.tokens[end].text if self.tokens[end].kind == "sign" else ""
                depth += (sign in ("(", "[")) - (sign in (")", "]"))
                if depth < 0 or (sign == "," and depth == 0):
                    break
                end += 1
            self.scopes.append((at + 1, end, frozenset(names)))
            self.scopes.append((first, at, frozenset(names)))


def text_literal(value: str) -> str:
    """A text written anew."""
    return literal_sql(value, "string")


def identifier(name: str) -> str:
    """A name in backticks. Raises UnsupportedFeatureError for what Spark would not take as one."""
    if "${" in name:
        # Spark puts settings and the environment in its place before it reads the text.
        raise UnsupportedFeatureError(f"a condition over column {name!r:.100}", ["sql:variable"])
    return quote_name(name)
