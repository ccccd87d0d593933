"""Messages for text that the parser refuses: the word and its place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import sqlglot.errors
from sqlglot.tokens import Token, TokenType

from tablefmt.expressions.words import first_misplaced
from tablefmt.model.near_names import did_you_mean

OPERATORS = ("AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "DIV")
"""Words that may follow a value, for suggestions."""

TYPES = (
    *("BIGINT", "BINARY", "BOOLEAN", "BYTE", "CHAR", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT"),
    *("INTEGER", "LONG", "NUMERIC", "SHORT", "SMALLINT", "STRING", "TIMESTAMP", "TIMESTAMP_NTZ"),
    *("TINYINT", "VARCHAR", "VARIANT", "ARRAY", "MAP", "STRUCT", "NOT", "NULL", "COMMENT"),
)
"""Words that may follow a column's name, for suggestions."""

_WORD = re.compile(r"[^\W\d]\w*")
_PIECE = re.compile(
    r"""--[^\r\n]* | /\*.*?\*/ | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
      | (?P<open>['"`]|/\*) | .""",
    re.DOTALL | re.VERBOSE,
)
_CLOSING = {")": "(", "]": "["}


def expression_problem(
    error: sqlglot.errors.SqlglotError, text: str, tokens: Sequence[Token]
) -> str:
    """Return the problem of an expression, for people.

    Args:
        error: the parser's or the tokenizer's error.
        text: the expression.
        tokens: of the text; empty if the tokenizer failed.
    """
    if not tokens:
        return _unclosed(text)
    found = _unbalanced(tokens, 0)
    if found is not None:
        return found
    if not isinstance(error, sqlglot.errors.TokenError):
        misplaced = first_misplaced(tokens)
        if misplaced is not None and misplaced[1]:
            return _missing(tokens, misplaced[0])
        at = _stop(error, tokens) if misplaced is None else misplaced[0]
        if at < len(tokens):
            in_cast = at > 0 and tokens[at - 1].text.upper() in ("AS", "::")
            return _unexpected(tokens[at], 0, TYPES if in_cast else OPERATORS)
    return f"something is missing after {tokens[-1].text[:80]!r} at its end"


def ddl_problem(
    error: sqlglot.errors.SqlglotError, text: str, tokens: Sequence[Token], skipped: int
) -> str:
    """Return the problem of a list of columns, for people.

    Args:
        error: as of `expression_problem`.
        text: the list.
        tokens: the tokens of the statement that contains the list.
        skipped: characters of the statement before the list.
    """
    if not tokens:
        return _unclosed(text)
    own = [token for token in tokens if skipped <= token.start < skipped + len(text)]
    found = _unbalanced(own, skipped)
    if found is not None or not own:
        return found or "it is empty"
    for before, token in pairwise(own):
        # For nested types, the parser reports the start of the outer type.
        of_part = before.text in ("<", ":") and token.token_type == TokenType.VAR
        if of_part and did_you_mean(token.text, TYPES):
            return _unexpected(token, skipped, TYPES)
    at = _stop(error, tokens)
    if at < len(tokens) and tokens[at] in own:
        return _unexpected(tokens[at], skipped, TYPES)
    return f"something is missing after {own[-1].text[:80]!r} at its end"


def misplaced_comma(tokens: Sequence[Token], skipped: int) -> str | None:
    """Return the problem of the commas of a list of columns; None if there is none."""
    comma = TokenType.COMMA
    for at, token in enumerate(tokens):
        beside = at == 0 or tokens[at - 1].token_type == comma or at == len(tokens) - 1
        if token.token_type == comma and beside:
            return _unexpected(token, skipped, ())
    return None


def _missing(tokens: Sequence[Token], at: int) -> str:
    if at == len(tokens):
        return f"a value is missing after {tokens[-1].text[:80]!r} at its end"
    return f"a value is missing before {_place(tokens[at], 0)}"


def _unexpected(token: Token, skipped: int, expected: Iterable[str]) -> str:
    hint = did_you_mean(token.text, expected) if _WORD.fullmatch(token.text) else ""
    return f"did not expect {_place(token, skipped)}{hint}"


def _place(token: Token, skipped: int) -> str:
    return f"{token.text[:80]!r} at character {token.start + 1 - skipped}"


def _stop(error: sqlglot.errors.SqlglotError, tokens: Sequence[Token]) -> int:
    """Return the index of the token at which the parser stopped; the number of tokens for the
    end.
    """
    details = (getattr(error, "errors", None) or [{}])[0]
    line, column = details.get("line"), details.get("col")
    places = (at for at, each in enumerate(tokens) if (each.line, each.col) == (line, column))
    return next(places, len(tokens))


def _unbalanced(tokens: Sequence[Token], skipped: int) -> str | None:
    """Return the problem of the brackets; None if there is none."""
    opened: list[Token] = []
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            opened.append(token)
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            if not opened or opened[-1].text != _CLOSING[token.text]:
                return f"{_place(token, skipped)} closes no open bracket"
            opened.pop()
    return f"{_place(opened[-1], skipped)} is not closed" if opened else None


def _unclosed(text: str) -> str:
    """Return the quote or comment that the text does not close."""
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            what = "comment" if piece["open"] == "/*" else "quote"
            return f"the {what} {piece['open']} at character {piece.start() + 1} is not closed"
    return "it contains a character that is not part of a word, number or sign of SQL"
