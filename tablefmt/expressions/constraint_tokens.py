"""Tokens of a CHECK's text, and a cursor over them with open brackets and the written text. Pure.

The grammar decides which token may follow. Spec: SQL-6.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NoReturn

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.literals import literal_sql, literal_text
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.name_matching import folded

TEXT_MAX = 100_000
"""Maximum characters."""

_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\n\r\f\v]+ )
    | (?P<comment> --[^\r\n\\]*(?:\r?\n|\Z) | /\*(?!\+)(?:(?!\*/|/\*).)*\*/ )
    | (?P<odd> -- | /\* )
    | (?P<raw> [rR](?:'[^']*'|"[^"]*") )
    | (?P<string> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<quoted> `(?:[^`]|``)+` )
    | (?P<number> (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?
                  (?:BD|[LSYFD]|bd|[lsyfd])?(?![A-Za-z0-9_.]) )
    | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign> <=> | == | != | <> | <= | >= | \|\| | -> | :: | [-+*/%&|^~!=<>(),.\[\]] )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token."""

    kind: str
    """Kind of the token. `raw` and `string` become `string`; `end` is after the last token."""
    text: str
    """Content of a string or a name; a word in upper case."""
    source: str = ""


END = Token("end", "", "the end")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens without blanks and comments, with the content of literals.

    Raises:
        InvalidPredicateError: it is too long. UnsupportedFeatureError: a character or a comment
            that is not allowed.
    """
    if len(text) > TEXT_MAX:
        raise InvalidPredicateError(
            f"the condition has {len(text)} characters; at most {TEXT_MAX} are allowed"
        )
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup == "odd":
            raise UnsupportedFeatureError(
                f"{text[at : at + 40]!r} is not allowed in the condition of a constraint",
                ["sql:character"],
            )
        at = match.end()
        kind, source = str(match.lastgroup), match[0]
        if kind in ("blank", "comment"):
            continue
        if kind == "raw":
            tokens.append(Token("string", source[2:-1], source))
        elif kind == "string":
            tokens.append(Token(kind, literal_text(source), source))
        elif kind == "quoted":
            tokens.append(Token(kind, source[1:-1].replace("``", "`"), source))
        else:
            tokens.append(Token(kind, source.upper() if kind == "word" else source, source))
    return tokens


DEPTH_MAX = 64
"""Maximum depth of parentheses and brackets."""


@dataclass(slots=True)
class Cursor:
    """Position in the tokens, the open brackets there, and the written text."""

    tokens: list[Token]
    names: tuple[str, ...]
    """Names of the columns."""
    columns: frozenset[str]
    """Names of the columns, case-folded."""
    at: int = 0
    written: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    """Open brackets: the function's name, or `(`, or `[`."""
    scopes: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    """Scopes of lambda functions: first token, the token after the last, and the parameters."""

    def next_token(self, ahead: int = 0) -> Token:
        """Return the next token, or one further ahead; END after the last."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else END

    def sees(self, *signs: str, ahead: int = 0) -> bool:
        """Return True if the token is one of these signs."""
        token = self.next_token(ahead)
        return token.kind == "sign" and token.text in signs

    def sees_word(self, words: Collection[str], ahead: int = 0) -> bool:
        """Return True if the token is one of these words."""
        token = self.next_token(ahead)
        return token.kind == "word" and token.text in words

    def take(self, text: str | None = None) -> None:
        """Write the next token, unchanged or as `text`."""
        self.write(self.next_token().text if text is None else text)
        self.at += 1

    def write(self, text: str) -> None:
        """Write a word, with a blank before it where needed."""
        gap = "" if not self.written or self.written[-1][-1:] in ("(", "[") else " "
        self.written.append(gap + text)

    def refuse(self, token: Token) -> NoReturn:
        """Raise UnsupportedFeatureError, because the token is not allowed at this place."""
        before = " ".join(t.source for t in self.tokens[max(0, self.at - 3) : self.at])[-60:]
        raise UnsupportedFeatureError(
            f"{token.source[:80]} after {before!r} is not allowed in the condition of a constraint",
            [f"sql:{token.text.lower()[:40] or 'end'}"],
        )

    def count_arguments(self) -> int:
        """Return the number of arguments of the call whose first argument is next."""
        depth, count = 0, 1
        for token in self.tokens[self.at :]:
            if token.kind == "sign":
                depth += (token.text in "([") - (token.text in ")]")
                if depth < 0:
                    break
                count += token.text == "," and depth == 0
        return count

    def open(self, what: str) -> bool:
        """Open a call, a parenthesis or a bracket; return False, because a value must follow."""
        self.opened.append(what)
        if len(self.opened) > DEPTH_MAX:
            raise InvalidPredicateError(
                f"the condition nests too deeply; use fewer than {DEPTH_MAX} levels"
            )
        if what == "(":
            self.write(what)
        else:
            self.written.append("[" if what == "[" else "(")
        self.at += 1
        return False

    def close(self, sign: str) -> bool:
        """Close the open bracket; return True, because a value is complete."""
        if not self.opened or (self.opened[-1] == "[") != (sign == "]"):
            self.refuse(self.next_token())
        self.opened.pop()
        self.written.append(sign)
        self.at += 1
        return True

    def find_lambdas(self) -> None:
        """Record the parameters of lambda functions and their scopes."""
        for at, token in enumerate(self.tokens):
            if token.kind != "sign" or token.text != "->":
                continue
            first, names = at, []
            while first > 0:
                first -= 1
                before = self.tokens[first]
                if before.kind in ("word", "quoted"):
                    names.append(folded(before.text))
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
    """Return a text as a new literal."""
    return literal_sql(value, "string")


def identifier(name: str) -> str:
    """Return a name in backticks. Raises UnsupportedFeatureError if Spark would not read it as a
    name.
    """
    if "${" in name:
        # Spark replaces it by settings and environment variables before it parses the text.
        raise UnsupportedFeatureError(
            f"a condition cannot use column {name!r:.100}: its name contains ${{", ["sql:variable"]
        )
    return quote_name(name)
