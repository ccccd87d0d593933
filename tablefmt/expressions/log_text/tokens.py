"""Tokens of a CHECK's text, for the grammar. Pure. Spec: SQL-6."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.literals import unescape

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
            tokens.append(Token(kind, _said(source), source))
        elif kind == "quoted":
            tokens.append(Token(kind, source[1:-1].replace("``", "`"), source))
        else:
            tokens.append(Token(kind, source.upper() if kind == "word" else source, source))
    return tokens


def _said(source: str) -> str:
    quote = source[0]
    # A doubled quote is one quote; after a backslash it is an ordinary character.
    body = re.sub(
        r"\\.|" + quote * 2,
        lambda m: "\\" + quote if m[0] == quote * 2 else m[0],
        source[1:-1],
        flags=re.DOTALL,
    )
    return unescape(body)
