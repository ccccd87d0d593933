"""Parser of SQL text in Spark's dialect, to a tree whose literals have Spark's meaning.

Pure. All text is parsed here first; later steps use only the tree. The tree is sqlglot's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Token, TokenType

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.literals import text_to_decimal, unescape
from tablefmt.expressions.parse_problems import expression_problem
from tablefmt.expressions.words import with_names

TEXT_MAX = 1_000_000
"""Maximum characters. Parsing this many takes about a second."""

TOKENS_MAX = 200_000

DEPTH_MAX = 64
"""Maximum nested parentheses. The parser is recursive, and Python's stack ends soon after."""

KEPT_MAX = 4_096
"""Maximum characters of a text whose tree is cached. One statement reads its text several times: as
a predicate, for its columns, and for an engine.
"""

_SPARK = Dialect.get_or_raise("spark")


class _Words(_SPARK.tokenizer_class):  # type: ignore[misc, name-defined]
    """Tokenizer of Spark. The parser's own one swallows the text after SHOW, which may be a
    column.
    """

    COMMANDS: ClassVar[set[TokenType]] = set()


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text. Raises the parser's errors."""
    tokens: list[Token] = _Words(dialect=_SPARK).tokenize(text)
    return tokens


def parse_tree(text: str) -> exp.Expression:
    """Return the expression as a sqlglot tree whose literals have Spark's meaning.

    Callers must not change the tree, because it is cached.

    Raises:
        InvalidPredicateError: it cannot be parsed, or is too long or too deep.
    """
    return _kept(text) if len(text) <= KEPT_MAX else _parsed(text)


def _parsed(text: str) -> exp.Expression:
    if len(text) > TEXT_MAX:
        raise InvalidPredicateError(
            f"the condition has {len(text)} characters; at most {TEXT_MAX} are allowed"
        )
    tokens: list[Token] = []
    try:
        tokens = with_names(_exact_tokens(tokens_of(text), text))
        trees = _SPARK.parser().parse_into(exp.Condition, tokens, text)
    except sqlglot.errors.SqlglotError as error:
        problem = expression_problem(error, text, tokens)
        raise InvalidPredicateError(f"cannot read {text[:200]!r}: {problem}") from None
    except RecursionError:
        raise too_deep() from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
        problem = "it has several expressions" if len(trees) > 1 else "it is empty"
        raise InvalidPredicateError(f"cannot read {text[:200]!r} as an expression: {problem}")
    return trees[0]


_kept = lru_cache(maxsize=32)(_parsed)


def too_deep() -> InvalidPredicateError:
    """Return the error for text that nests deeper than the parser, or a reader of its tree, can
    follow.
    """
    return InvalidPredicateError(
        f"the condition nests too deeply; use fewer than {DEPTH_MAX} levels"
    )


def _exact_tokens(tokens: list[Token], text: str) -> list[Token]:
    """Return tokens whose literals have Spark's meaning, after a check of the limits."""
    if len(tokens) > TOKENS_MAX:
        raise InvalidPredicateError(f"the condition has more than {TOKENS_MAX} words")
    depth = 0
    exact: list[Token] = []
    for token in tokens:
        kind = token.token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth > DEPTH_MAX:
            raise too_deep()
        source = text[token.start : token.end + 1]
        last = exact[-1] if exact else None
        if kind == TokenType.STRING:
            body = unescape(source[1:-1])
            if last is not None and last.token_type == TokenType.STRING:
                # Adjacent literals that touch are one with a quote inside; others are concatenated.
                touch = last.end + 1 == token.start and source[0] == text[last.end]
                exact.pop()
                body = last.text + (source[0] if touch else "") + body
            token = _token(TokenType.STRING, body, token)
        elif kind == TokenType.HEX_STRING and source[:1] not in "xX":
            raise InvalidPredicateError(f"{source!r} is not a number in Spark")
        elif last is not None and last.start == token.start and source[-2:].upper() == "BD":
            # The suffix becomes a separate cast. Drop it, since the number alone has the type.
            if kind != TokenType.DCOLON:
                exact.append(_token(TokenType.NUMBER, _decimal_text(source[:-2]), token))
                continue
            exact.pop()
            exact.append(_token(TokenType.DCOLON, "", token))
            continue
        exact.append(token)
    return [t for t in exact if t.token_type != TokenType.DCOLON or t.text]


def _token(kind: TokenType, text: str, where: Token) -> Token:
    return Token(kind, text, where.line, where.col, where.start, where.end)


def _decimal_text(number: str) -> str:
    try:
        plain = format(text_to_decimal(number), "f")
    except ValueError as error:
        raise InvalidPredicateError(f"{number}BD: {error}") from None
    return plain if "." in plain else plain + "."


def operands_of(
    node: exp.Expression, kind: type[exp.Expression], *, through_parentheses: bool = False
) -> Iterator[exp.Expression]:
    """Yield the operands of a run of AND or OR, in order."""
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, kind):
            pending += (node.expression, node.this)
        elif through_parentheses and isinstance(node, exp.Paren):
            pending.append(node.this)
        else:
            yield node


def conjuncts_of(tree: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the AND-ed parts of a condition, in order."""
    return operands_of(tree, exp.And, through_parentheses=True)
