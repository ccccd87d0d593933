"""Grammar of a CHECK's text: checked token by token and rewritten for engines. Pure.

Another writer may have written a condition of the log. The engine's text is built here from known
words only. They are column names in backticks, functions of `PURE_FUNCTIONS`, new literals, and a
few grammar words at allowed places. No original text passes through, so two parsers need not agree
on it. Spec: SQL-6, spec/decisions/0010.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.constraint_tokens import (
    END,
    Cursor,
    Token,
    identifier,
    text_literal,
    tokens_of,
)
from tablefmt.expressions.sql_vocabulary import CHANGING_FUNCTIONS, PURE_FUNCTIONS, words
from tablefmt.expressions.value_growth import check_growth
from tablefmt.model.name_matching import did_you_mean, folded, there_are

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
"""Start of a time, which excludes words such as `today`."""


def rewritten(text: str, columns: Sequence[str]) -> str:
    """Return the condition as text for engines. Spark gives it the same meaning.

    Args:
        text: Spark SQL, at most `tokens.TEXT_MAX` characters.
        columns: names of the table's top-level columns; case is ignored.

    Raises:
        InvalidPredicateError: it names an unknown column, or is not an expression of one row.
        UnsupportedFeatureError: a function that is not in `PURE_FUNCTIONS`, or a construct that is
            not allowed in the log; `features` names it.
    """
    return _rewritten(text, tuple(columns))


@lru_cache(maxsize=256)
def _rewritten(text: str, names: tuple[str, ...]) -> str:
    writer = _Writer(tokens_of(text), names, frozenset(folded(name) for name in names))
    writer.expression()
    check_growth(writer)
    return "".join(writer.written)


@dataclass(slots=True)
class _Writer(Cursor):
    """Writer that rewrites tokens one after another, and refuses tokens at a wrong place."""

    def expression(self) -> None:
        """Rewrite the whole text."""
        self.find_lambdas()
        if not self.tokens:
            raise InvalidPredicateError("the condition is empty")
        operand = False
        while self.at < len(self.tokens):
            operand = self._behind_operand() if operand else self._operand()
        if not operand or self.opened:
            self.refuse(END)

    # --- before a value ---

    def _operand(self) -> bool:
        """Rewrite the tokens that begin a value; return True if the value is complete."""
        token = self.next_token()
        if token.kind == "number":
            self.take()
            return True
        if token.kind == "string":
            self.take(text_literal(token.text))
            return True
        if token.kind == "quoted":
            return self._name()
        if token.kind == "word":
            return self._word(token)
        if self.sees(*_PREFIX):
            self.take("NOT" if token.text == "!" else None)
            return False
        if self.sees("("):
            return self.open("(")
        if (
            self.sees(")")
            and self.written
            and self.written[-1] == "("
            and self.opened[-1] not in ("(", "[")
        ):
            return self.close(")")
        self.refuse(token)

    def _word(self, token: Token) -> bool:
        word = token.text
        before = self.written[-1].strip() if self.written else ""
        if (
            word in ("NOT", "CASE")
            or (word == "WHEN" and before == "CASE")
            or (word in _QUANTIFIERS and before in ("LIKE", "ILIKE"))
        ):
            self.take()
            return False
        if self.sees("(", ahead=1):
            return self._call(token)
        if word in _CONSTANTS:
            self.take()
            return True
        if word in _TYPED and self.next_token(1).kind == "string":
            return self._typed(word)
        if word == "INTERVAL" and self._begins_interval():
            return self._interval()
        return self._name()

    def _begins_interval(self) -> bool:
        ahead = 2 if self.sees("+", "-", ahead=1) else 1
        kind = self.next_token(ahead).kind
        return kind == "string" or (kind == "number" and self.sees_word(_UNITS, ahead + 1))

    def _name(self) -> bool:
        """Rewrite a column, or a parameter of a lambda function."""
        token = self.next_token()
        name = token.text if token.kind == "quoted" else token.source
        if self.sees("(", ahead=1):
            self.refuse(token)
        known = folded(name) in self.columns or any(
            first <= self.at < end and folded(name) in names for first, end, names in self.scopes
        )
        if not known:
            path = name
            if self.sees(".", ahead=1):
                behind = self.next_token(2)
                path += "." + (behind.text if behind.kind == "quoted" else behind.source)
            raise InvalidPredicateError(
                f"a constraint cannot use {path!r:.100}; {there_are(name, self.names)}"
            )
        self.take(identifier(name))
        return True

    def _call(self, token: Token) -> bool:
        name = token.source.lower()
        if name in CHANGING_FUNCTIONS:
            raise InvalidPredicateError(
                f"{name}(): the result of a constraint must not change over time"
            )
        nothing = self.sees(")", ahead=2)
        if name not in PURE_FUNCTIONS or (name == "unix_timestamp" and nothing):
            raise UnsupportedFeatureError(
                f"a constraint may not call function {name}(){did_you_mean(name, PURE_FUNCTIONS)}",
                [f"sql:{name}"],
            )
        self.write(name)
        self.at += 1
        self.open(name)
        if name == "trim" and self.sees_word(_SIDES) and not self.sees(")", ahead=1):
            self.take()
            if self.sees_word({"FROM"}):
                self.take()
        elif name == "extract" and self.sees_word({"FROM"}, ahead=1):
            if not self.sees_word(_UNITS):
                self.refuse(self.next_token())
            self.take()
            return True
        elif name in _WITH_UNIT and self.sees_word(_UNITS) and self.count_arguments() == 3:
            self.take()
            return True
        return False

    def _typed(self, word: str) -> bool:
        value = self.next_token(1)
        if word == "X":
            if not re.fullmatch("[0-9A-Fa-f]*", value.text):
                self.refuse(value)
        elif not _FIRST_OF_TIME.match(value.text):
            raise InvalidPredicateError(f"{word} {value.text[:40]!r} is not a fixed time")
        self.take()
        self.take(text_literal(value.text))
        return True

    def _interval(self) -> bool:
        self.take()
        while self.next_token().kind in ("number", "string") or self.sees("+", "-"):
            if self.sees("+", "-"):
                self.take()
            value = self.next_token()
            if value.kind not in ("number", "string"):
                self.refuse(value)
            self.take(text_literal(value.text) if value.kind == "string" else None)
            if not self.sees_word(_UNITS):
                break
            self.take()
            if self.sees_word({"TO"}) and self.sees_word(_UNITS, ahead=1):
                self.take()
                self.take()
            # A sign that follows is arithmetic, unless a unit follows it.
            if self.sees("+", "-") or not self.sees_word(_UNITS, ahead=1):
                break
        return True

    # --- after a value ---

    def _behind_operand(self) -> bool:
        """Rewrite a token after a value; return True if a value is complete again."""
        token = self.next_token()
        if token.kind == "string" and self.tokens[self.at - 1].kind == "string":
            # Spark concatenates adjacent texts.
            self.take(text_literal(token.text))
            return True
        if token.kind == "word":
            return self._joining(token.text)
        if self.sees(*_INFIX):
            self.take()
            return False
        if self.sees(")", "]"):
            return self.close(token.text)
        if self.sees(",") and self.opened and self.opened[-1] != "[":
            self.written.append(",")
            self.at += 1
            return False
        if self.sees("["):
            return self.open("[")
        if self.sees("."):
            return self._field()
        if self.sees("->") and any(first - 1 == self.at for first, _, _ in self.scopes):
            self.take()
            return False
        if self.sees("::"):
            self.take()
            return self._type()
        self.refuse(token)

    def _joining(self, word: str) -> bool:
        if word in _JOINING or word in _BRANCHES:
            self.take()
            return False
        if word == "END":
            self.take()
            return True
        if word == "NOT" and self.sees_word(_NEGATED, ahead=1):
            self.take()
            return True
        if word == "IS":
            return self._is()
        if word == "ESCAPE" and self.next_token(1).kind == "string":
            self.take()
            self.take(text_literal(self.next_token().text))
            return True
        inside = self.opened[-1] if self.opened else ""
        if word == "AS" and inside in _CASTS:
            self.take()
            return self._type()
        if (word == "FROM" and inside in _WITH_FROM) or (word == "FOR" and inside in _WITH_FOR):
            self.take()
            return False
        self.refuse(self.next_token())

    def _is(self) -> bool:
        self.take()
        if self.sees_word({"NOT"}):
            self.take()
        if self.sees_word({"DISTINCT"}) and self.sees_word({"FROM"}, ahead=1):
            self.take()
            self.take()
            return False
        if not self.sees_word(_STATES):
            self.refuse(self.next_token())
        self.take()
        return True

    def _type(self) -> bool:
        if not self.sees_word(_TYPES):
            raise UnsupportedFeatureError(
                f"a constraint cannot cast to {self.next_token().source[:40]}; expected one of "
                f"{', '.join(sorted(_TYPES))}",
                ["sql:cast"],
            )
        digits = self.sees_word(_WITH_DIGITS)
        self.take()
        if digits and self.sees("("):
            body = [self.next_token(ahead).text for ahead in range(1, 5)]
            count = 3 if body[1:2] == [")"] else 5
            text = "".join(t.text for t in self.tokens[self.at : self.at + count])
            if not re.fullmatch(r"\([0-9]{1,2}(,[0-9]{1,2})?\)", text):
                self.refuse(self.next_token(1))
            self.written.append(text)
            self.at += count
        return True

    def _field(self) -> bool:
        """Rewrite a point and the name of a field."""
        self.at += 1
        token = self.next_token()
        if token.kind not in ("word", "quoted") or self.sees("(", ahead=1):
            self.refuse(token)
        self.written.append(
            "." + identifier(token.text if token.kind == "quoted" else token.source)
        )
        self.at += 1
        return True
