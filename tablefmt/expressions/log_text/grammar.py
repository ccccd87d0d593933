"""The text of a CHECK, checked word by word and written anew for engines. Pure.

A condition in the log was written by somebody else. What an engine gets is built here, from words
that are all known: names of columns in backticks, functions of `PURE_FUNCTIONS`, literals written
anew, and a few words of grammar where an expression may have them. Nothing of the original passes
through, so no two parsers have to agree on it. Spec: SQL-6, spec/decisions/0010.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.functions import CHANGING_FUNCTIONS, PURE_FUNCTIONS, words
from tablefmt.expressions.literals import literal_sql
from tablefmt.expressions.log_text.tokens import END, Token, tokens_of
from tablefmt.expressions.predicate import quote_name

DEPTH_MAX = 64
"""Of parentheses and brackets."""

_JOINING = frozenset({"AND", "OR", "DIV", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP"})
_BRANCHES = frozenset({"WHEN", "THEN", "ELSE"})
_NEGATED = frozenset({"IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP"})
_STATES = frozenset({"NULL", "TRUE", "FALSE", "UNKNOWN"})
_CONSTANTS = frozenset({"NULL", "TRUE", "FALSE"})
_QUANTIFIERS = frozenset({"ANY", "ALL", "SOME"})
_TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X"})
_TYPES = frozenset(
    {"BIGINT", "BINARY", "BOOLEAN", "BYTE", "DATE", "DEC", "DECIMAL", "DOUBLE", "FLOAT", "INT",
     "INTEGER", "LONG", "NUMERIC", "REAL", "SHORT", "SMALLINT", "STRING", "TIMESTAMP",
     "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TINYINT"}
)  # fmt: skip
_WITH_DIGITS = frozenset({"DEC", "DECIMAL", "NUMERIC"})
_UNITS = words("""
    YEAR YEARS QUARTER QUARTERS MONTH MONTHS WEEK WEEKS DAY DAYS HOUR HOURS MINUTE MINUTES SECOND
    SECONDS MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS DAYOFYEAR DOY DAYOFWEEK DOW
    DAYOFWEEK_ISO DOW_ISO YEAROFWEEK
""")
_SIDES = frozenset({"BOTH", "LEADING", "TRAILING"})
_CASTS = frozenset({"cast", "try_cast"})
_WITH_FROM = frozenset({"extract", "trim", "substr", "substring", "overlay"})
_WITH_FOR = frozenset({"substr", "substring", "overlay"})
_WITH_UNIT = frozenset(
    {"dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff"}
)
_INFIX = words("+ - * / % & | ^ = == != <> < <= > >= <=> ||")
_PREFIX = words("+ - ~ !")
_FIRST_OF_TIME = re.compile(r"\s*[+-]?[0-9]")
"""So that it is no word like `today`."""


def rewritten(text: str, columns: Sequence[str]) -> str:
    """The condition as the text that engines get; it means the same to Spark.

    Args:
        text: Spark SQL, at most `pure_words.TEXT_MAX` characters.
        columns: names of the table's top-level columns; case is ignored.

    Raises:
        InvalidPredicateError: it names what is no column, or is no expression of one row.
        UnsupportedFeatureError: a function that is not among `PURE_FUNCTIONS`, or a construct that
            a condition in the log may not have; `features` names it.
    """
    return _rewritten(text, tuple(columns))


@lru_cache(maxsize=256)
def _rewritten(text: str, names: tuple[str, ...]) -> str:
    writer = _Writer(tokens_of(text), names, frozenset(name.casefold() for name in names))
    writer.expression()
    return "".join(writer.made)


@dataclass(slots=True)
class _Writer:
    """Writes tokens anew, one after another; a token that may not come where it is, is refused."""

    tokens: list[Token]
    names: tuple[str, ...]
    """Of the columns."""
    columns: frozenset[str]
    """The same without their case."""
    at: int = 0
    made: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    """What is open: the function's name, or `(`, or `[`."""
    scopes: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    """Of lambda functions: from the first token to the one behind the last, and the parameters."""

    def expression(self) -> None:
        """The whole text."""
        self._find_lambdas()
        if not self.tokens:
            raise InvalidPredicateError("the condition is empty")
        operand = False
        while self.at < len(self.tokens):
            operand = self._behind_operand() if operand else self._operand()
        if not operand or self.opened:
            self._refuse(END)

    # --- looking ---

    def _next(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else END

    def _sees(self, *signs: str, ahead: int = 0) -> bool:
        token = self._next(ahead)
        return token.kind == "sign" and token.text in signs

    def _sees_word(self, words: Collection[str], ahead: int = 0) -> bool:
        token = self._next(ahead)
        return token.kind == "word" and token.text in words

    def _take(self, text: str | None = None) -> None:
        """Write the next token, as it is or as `text`."""
        self._write(self._next().text if text is None else text)
        self.at += 1

    def _write(self, text: str) -> None:
        gap = "" if not self.made or self.made[-1][-1:] in ("(", "[") else " "
        self.made.append(gap + text)

    def _refuse(self, token: Token) -> NoReturn:
        before = " ".join(t.source for t in self.tokens[max(0, self.at - 3) : self.at])[-60:]
        raise UnsupportedFeatureError(
            f"{token.source[:80]} after {before!r}: a condition in the log cannot have it there",
            [f"sql:{token.text.lower()[:40] or 'end'}"],
        )

    # --- where a value has to come ---

    def _operand(self) -> bool:
        """One token or a few that begin a value; whether the value is complete."""
        token = self._next()
        if token.kind == "number":
            self._take()
            return True
        if token.kind == "string":
            self._take(_string(token.text))
            return True
        if token.kind == "quoted":
            return self._name()
        if token.kind == "word":
            return self._word(token)
        if self._sees(*_PREFIX):
            self._take("NOT" if token.text == "!" else None)
            return False
        if self._sees("("):
            return self._open("(")
        if (
            self._sees(")")
            and self.made
            and self.made[-1] == "("
            and self.opened[-1] not in ("(", "[")
        ):
            return self._close(")")
        self._refuse(token)

    def _word(self, token: Token) -> bool:
        word = token.text
        before = self.made[-1].strip() if self.made else ""
        if (
            word in ("NOT", "CASE")
            or (word == "WHEN" and before == "CASE")
            or (word in _QUANTIFIERS and before in ("LIKE", "ILIKE"))
        ):
            self._take()
            return False
        if self._sees("(", ahead=1):
            return self._call(token)
        if word in _CONSTANTS:
            self._take()
            return True
        if word in _TYPED and self._next(1).kind == "string":
            return self._typed(word)
        if word == "INTERVAL" and self._begins_interval():
            return self._interval()
        return self._name()

    def _begins_interval(self) -> bool:
        ahead = 2 if self._sees("+", "-", ahead=1) else 1
        kind = self._next(ahead).kind
        return kind == "string" or (kind == "number" and self._sees_word(_UNITS, ahead + 1))

    def _name(self) -> bool:
        """A column, or a parameter of a lambda function."""
        token = self._next()
        name = token.text if token.kind == "quoted" else token.source
        if self._sees("(", ahead=1):
            self._refuse(token)
        known = name.casefold() in self.columns or any(
            first <= self.at < end and name.casefold() in names for first, end, names in self.scopes
        )
        if not known:
            path = name
            if self._sees(".", ahead=1):
                behind = self._next(2)
                path += "." + (behind.text if behind.kind == "quoted" else behind.source)
            shown = ", ".join(map(repr, self.names[:20]))
            raise InvalidPredicateError(
                f"a constraint cannot look at {path!r:.100}; there are columns {shown}"
            )
        self._take(_identifier(name))
        return True

    def _call(self, token: Token) -> bool:
        name = token.source.lower()
        if name in CHANGING_FUNCTIONS:
            raise InvalidPredicateError(
                f"{name}(): a constraint that holds today has to hold tomorrow"
            )
        nothing = self._sees(")", ahead=2)
        if name not in PURE_FUNCTIONS or (name == "unix_timestamp" and nothing):
            raise UnsupportedFeatureError(
                f"function {name}() is none that the condition of a constraint may call",
                [f"sql:{name}"],
            )
        self._write(name)
        self.at += 1
        self._open(name)
        if name == "trim" and self._sees_word(_SIDES) and not self._sees(")", ahead=1):
            self._take()
            if self._sees_word({"FROM"}):
                self._take()
        elif name == "extract" and self._sees_word({"FROM"}, ahead=1):
            if not self._sees_word(_UNITS):
                self._refuse(self._next())
            self._take()
            return True
        elif name in _WITH_UNIT and self._sees_word(_UNITS) and self._arguments() == 3:
            self._take()
            return True
        return False

    def _arguments(self) -> int:
        """How many the call has whose first one is next."""
        depth, count = 0, 1
        for token in self.tokens[self.at :]:
            if token.kind == "sign":
                depth += (token.text in "([") - (token.text in ")]")
                if depth < 0:
                    break
                count += token.text == "," and depth == 0
        return count

    def _open(self, what: str) -> bool:
        self.opened.append(what)
        if len(self.opened) > DEPTH_MAX:
            raise InvalidPredicateError(
                f"the condition nests too deep; write it with fewer than {DEPTH_MAX} levels"
            )
        if what == "(":
            self._write(what)
        else:
            self.made.append("[" if what == "[" else "(")
        self.at += 1
        return False

    def _close(self, sign: str) -> bool:
        if not self.opened or (self.opened[-1] == "[") != (sign == "]"):
            self._refuse(self._next())
        self.opened.pop()
        self.made.append(sign)
        self.at += 1
        return True

    def _typed(self, word: str) -> bool:
        value = self._next(1)
        if word == "X":
            if not re.fullmatch("[0-9A-Fa-f]*", value.text):
                self._refuse(value)
        elif not _FIRST_OF_TIME.match(value.text):
            raise InvalidPredicateError(
                f"{word} {value.text[:40]!r} is no time that stays the same"
            )
        self._take()
        self._take(_string(value.text))
        return True

    def _interval(self) -> bool:
        self._take()
        while self._next().kind in ("number", "string") or self._sees("+", "-"):
            if self._sees("+", "-"):
                self._take()
            value = self._next()
            if value.kind not in ("number", "string"):
                self._refuse(value)
            self._take(_string(value.text) if value.kind == "string" else None)
            if not self._sees_word(_UNITS):
                break
            self._take()
            if self._sees_word({"TO"}) and self._sees_word(_UNITS, ahead=1):
                self._take()
                self._take()
            # What follows with a sign is arithmetic, unless a unit follows that.
            if self._sees("+", "-") or not self._sees_word(_UNITS, ahead=1):
                break
        return True

    # --- behind a value ---

    def _behind_operand(self) -> bool:
        """What may follow a value; whether a value is complete again."""
        token = self._next()
        if token.kind == "string" and self.tokens[self.at - 1].kind == "string":
            # Spark joins texts that follow each other.
            self._take(_string(token.text))
            return True
        if token.kind == "word":
            return self._joining(token.text)
        if self._sees(*_INFIX):
            self._take()
            return False
        if self._sees(")", "]"):
            return self._close(token.text)
        if self._sees(",") and self.opened and self.opened[-1] != "[":
            self.made.append(",")
            self.at += 1
            return False
        if self._sees("["):
            return self._open("[")
        if self._sees("."):
            return self._field()
        if self._sees("->") and any(first - 1 == self.at for first, _, _ in self.scopes):
            self._take()
            return False
        if self._sees("::"):
            self._take()
            return self._type()
        self._refuse(token)

    def _joining(self, word: str) -> bool:
        if word in _JOINING or word in _BRANCHES:
            self._take()
            return False
        if word == "END":
            self._take()
            return True
        if word == "NOT" and self._sees_word(_NEGATED, ahead=1):
            self._take()
            return True
        if word == "IS":
            return self._is()
        if word == "ESCAPE" and self._next(1).kind == "string":
            self._take()
            self._take(_string(self._next().text))
            return True
        inside = self.opened[-1] if self.opened else ""
        if word == "AS" and inside in _CASTS:
            self._take()
            return self._type()
        if (word == "FROM" and inside in _WITH_FROM) or (word == "FOR" and inside in _WITH_FOR):
            self._take()
            return False
        self._refuse(self._next())

    def _is(self) -> bool:
        self._take()
        if self._sees_word({"NOT"}):
            self._take()
        if self._sees_word({"DISTINCT"}) and self._sees_word({"FROM"}, ahead=1):
            self._take()
            self._take()
            return False
        if not self._sees_word(_STATES):
            self._refuse(self._next())
        self._take()
        return True

    def _type(self) -> bool:
        if not self._sees_word(_TYPES):
            raise UnsupportedFeatureError(
                f"a cast to {self._next().source[:40]}: the condition of a constraint casts to "
                f"{', '.join(sorted(_TYPES))}",
                ["sql:cast"],
            )
        digits = self._sees_word(_WITH_DIGITS)
        self._take()
        if digits and self._sees("("):
            body = [self._next(ahead).text for ahead in range(1, 5)]
            count = 3 if body[1:2] == [")"] else 5
            text = "".join(t.text for t in self.tokens[self.at : self.at + count])
            if not re.fullmatch(r"\([0-9]{1,2}(,[0-9]{1,2})?\)", text):
                self._refuse(self._next(1))
            self.made.append(text)
            self.at += count
        return True

    def _field(self) -> bool:
        """A point and the name of a field."""
        self.at += 1
        token = self._next()
        if token.kind not in ("word", "quoted") or self._sees("(", ahead=1):
            self._refuse(token)
        self.made.append("." + _identifier(token.text if token.kind == "quoted" else token.source))
        self.at += 1
        return True

    def _find_lambdas(self) -> None:
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


def _string(value: str) -> str:
    return literal_sql(value, "string")


def _identifier(name: str) -> str:
    if "${" in name:
        # Spark puts settings and the environment in its place before it reads the text.
        raise UnsupportedFeatureError(f"a condition over column {name!r:.100}", ["sql:variable"])
    return quote_name(name)
