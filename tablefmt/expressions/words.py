"""Words of SQL text that are names, although SQL has another use for them. Pure. Spec: SQL-8.

The parser takes `values`, `comment` or `left` for the beginning of something else. Spark takes a
word for a name wherever a value belongs, and so does the reader of constraints. What is found to be
a name here goes to the parser as one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Token, TokenType

from tablefmt.expressions.functions import words

_WORD = re.compile(r"[^\W\d]\w*")
_NEVER = words("NOT CASE NULL TRUE FALSE")
"""Words that are never names without backticks, here and in a constraint."""

_CALLED = frozenset(Dialect.get_or_raise("spark").parser_class.NO_PAREN_FUNCTION_PARSERS)
"""Words that the parser takes for calls even where they are marked as names, unless in quotes."""

_VALUES = words("NULL TRUE FALSE END UNKNOWN ISNULL NOTNULL")
"""Words that end a value, where they are no names."""

_FOLLOWS = words("= == <> != < <= > >= <=> + - * / % & | ^ || ) ] , [ . -> :: ;")
"""Signs that may follow a value."""

_JOINS = words("""
    AND OR IS DIV LIKE ILIKE RLIKE REGEXP BETWEEN WHEN THEN ELSE END ESCAPE COLLATE ASC DESC NULLS
""")
"""Words that may follow a value."""

_JOINING = words("AND OR IN LIKE ILIKE RLIKE REGEXP BETWEEN DIV IS THEN")
_INFIX = words("= == <> != < <= > >= <=> / % & | ^ ||")
"""Words and signs that cannot be where a value belongs."""

_NEGATED = words("IN BETWEEN LIKE ILIKE RLIKE REGEXP")
_SIGNED = words("+ - *")
_LISTS = words("SELECT DISTINCT ALL")
"""Words of a sub-query or a call behind which a value may begin with a sign, or a star comes."""

_WITH_FROM = words("SUBSTR SUBSTRING OVERLAY TRIM EXTRACT")
_CASTS = words("CAST TRY_CAST")
_UNIT = re.compile(
    r"(?:YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?", re.IGNORECASE
)
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_LITERALS = frozenset(
    {
        *(TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING),
        *(TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.PLACEHOLDER),
    }
)


def with_names(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of an expression; words that are names in it have the type of names."""
    walk = _Walk(list(tokens))
    while walk.at < len(walk.tokens):
        walk.step()
    return walk.tokens


def first_misplaced(tokens: Sequence[Token]) -> tuple[int, bool] | None:
    """Return the first token that cannot be where it is, as far as one sees without a grammar.

    Returns:
        Its place, or the number of tokens for the end; and whether a value is missing before it.
        None if no such token is found.
    """
    walk = _Walk(list(tokens))
    while walk.at < len(walk.tokens):
        walk.step()
    for at, complete in walk.before.items():
        token, before = walk.tokens[at], walk.tokens[at - 1].text.upper() if at else ""
        text = token.text.upper()
        if complete and token.token_type in _NAMES | _LITERALS and not _UNIT.fullmatch(text):
            return at, False
        joins = text in (_JOINING if is_word(token) else _INFIX)
        if not complete and joins and before not in ("NOT", "IS", "DISTINCT"):
            return at, True
    return None if walk.value or not tokens else (len(tokens), True)


def is_word(token: Token) -> bool:
    """Return whether a token is a word that the parser may take for something else than a name."""
    kind = token.token_type
    if kind in _NAMES:
        return kind == TokenType.VAR and token.text.upper() in _CALLED
    return kind not in _LITERALS and _WORD.fullmatch(token.text) is not None


def as_name(token: Token) -> Token:
    """Return the token as a name."""
    if token.text.upper() in _CALLED:
        return as_quoted(token)
    kind = TokenType.VAR
    return Token(kind, token.text, token.line, token.col, token.start, token.end, token.comments)


def as_quoted(token: Token) -> Token:
    """Return the token as a name in backticks."""
    kind = TokenType.IDENTIFIER
    return Token(kind, token.text, token.line, token.col, token.start, token.end, token.comments)


def is_typed_name(token: Token, following: Token) -> bool:
    """Return whether a word of a list of columns is the name of one: a type follows it."""
    word = is_word(token) or token.token_type == TokenType.VAR
    return word and _WORD.fullmatch(following.text) is not None


@dataclass(slots=True)
class _Walk:
    """Goes through the tokens once; knows whether a value is complete, and what is open."""

    tokens: list[Token]
    at: int = 0
    value: bool = False
    before: dict[int, bool] = field(default_factory=dict)
    """By token, whether a value is complete before it. Words of types are left out."""
    opened: list[str] = field(default_factory=list)
    """By opening sign the word before it, in upper case; or nothing."""

    def step(self) -> None:
        token = self.tokens[self.at]
        kind = token.token_type
        self.before[self.at] = self.value
        if kind in _OPENING:
            before = self._token(-1)
            called = before is not None and _WORD.fullmatch(before.text) is not None
            self.opened.append(before.text.upper() if called and before is not None else "")
            self.value = False
        elif kind in _CLOSING:
            del self.opened[-1:]
            self.value = True
        elif kind == TokenType.DCOLON:
            self.at += 1
            self._pass_type()
            return
        elif is_word(token):
            self._word(token)
            if self._is_cast(token):
                self.at += 1
                self._pass_type()
                return
        else:
            self.value = kind in _NAMES or kind in _LITERALS
        self.at += 1

    def _word(self, token: Token) -> None:
        before = self._token(-1)
        part = before is not None and before.token_type == TokenType.DOT
        if part or (not self.value and self._is_name(token)):
            self.tokens[self.at] = as_name(token)
            self.value = True
        else:
            self.value = token.text.upper() in _VALUES

    def _is_name(self, token: Token) -> bool:
        word, kept = token.text.upper(), self._kept_before()
        if word in _NEVER or kept == "IS" or (kept, word) in _PAIRS:
            return False
        if kept == "NOT" and self.before.get(self.at - 1):
            # `a NOT BETWEEN -1 AND 1`: NOT comes behind a value.
            return False
        if (word == "INTERVAL" and self._begins_interval()) or (
            word in ("ROWS", "RANGE") and self._inside() == "OVER"
        ):
            return False
        following = self._token(1)
        if following is None:
            return True
        text = following.text.upper()
        if text in _SIGNED and word in _LISTS and self._may_be_list(text):
            # `(SELECT * …`, `count(DISTINCT -x)`: what comes before it decides.
            before = self._token(-1)
            opens = before is not None and before.token_type == TokenType.L_PAREN
            begins = opens and (word == "SELECT" or self._inside() != "")
            return not begins and (not kept or kept in _JOINS)
        return self._may_follow(following)

    def _may_be_list(self, sign: str) -> bool:
        """Whether a sign may begin what SELECT lists: a star only where no value follows it."""
        behind = self._token(2)
        ends = behind is None or behind.text.upper() in (")", ",", "FROM", "EXCEPT")
        return sign != "*" or ends

    def _may_follow(self, token: Token) -> bool:
        """Whether a token can come behind a value."""
        if not is_word(token):
            return token.token_type not in _LITERALS and token.text in _FOLLOWS
        text, behind = token.text.upper(), self._token(2)
        if text == "IN":
            return behind is not None and behind.token_type == TokenType.L_PAREN
        if text == "NOT":
            return behind is not None and behind.text.upper() in _NEGATED
        if text == "AS":
            return self._inside() in _CASTS
        if text in ("FROM", "FOR"):
            return self._inside() in _WITH_FROM
        return text in _JOINS

    def _token(self, ahead: int) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def _kept_before(self) -> str:
        """The word before, if it is no name: in upper case, NOT behind IS as IS."""
        before, first = self._token(-1), self._token(-2)
        if before is None or not is_word(before):
            return ""
        text = before.text.upper()
        if text == "NOT" and first is not None and is_word(first) and first.text.upper() == "IS":
            return "IS"
        return str(text)

    def _inside(self) -> str:
        return self.opened[-1] if self.opened else ""

    def _is_cast(self, token: Token) -> bool:
        """Whether a type comes next: behind AS in a cast."""
        return (
            self.tokens[self.at] is token
            and token.text.upper() == "AS"
            and self._inside() in _CASTS
        )

    def _begins_interval(self) -> bool:
        """Whether INTERVAL is one: a text follows, or a number and a unit."""
        following, ahead = self._token(1), 1
        if following is not None and following.text in ("+", "-"):
            following, ahead = self._token(2), 2
        if following is None or following.token_type != TokenType.NUMBER:
            return following is not None and following.token_type == TokenType.STRING
        unit = self._token(ahead + 1)
        return unit is not None and _UNIT.fullmatch(unit.text) is not None

    def _pass_type(self) -> None:
        """Leave a type as it is: a word, and what stands in brackets behind it."""
        self.at += 1
        self.value = True
        if self.at >= len(self.tokens) or self.tokens[self.at].text not in ("<", "("):
            return
        depth = 0
        while self.at < len(self.tokens):
            text = self.tokens[self.at].text
            depth += (text in ("<", "(")) - (text in (">", ")"))
            self.at += 1
            if depth <= 0:
                return


_PAIRS = frozenset({("CASE", "WHEN"), ("DISTINCT", "FROM")})
"""Words that are no names behind another."""
