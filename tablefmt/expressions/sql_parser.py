"""Parser of SQL text in Spark's dialect, and resolution of the column names in its tree. Pure.

All text is parsed here first; later steps use only the tree, whose literals have Spark's meaning.
The tree is sqlglot's. A message for text that is refused has the word and its place. Spec: SQL-7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Token, TokenType

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError
from tablefmt.expressions.literals import text_to_decimal, unescape
from tablefmt.expressions.sql_vocabulary import first_misplaced, with_names
from tablefmt.model.name_matching import did_you_mean, folded, there_are
from tablefmt.model.schema import Field, Schema, is_nested

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


_SPARKS_OWN = frozenset({"_metadata", "session", "system"})
"""Names that Spark adds: a column of every file, and the namespaces of session variables."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation whose columns an expression may name."""

    schema: Schema
    prefix: str = "t"
    """Prefix of the generated names: column i is `<prefix><i>`."""
    alias: str | None = None
    """Name in the statement. None: no name, and its columns have no qualifier (SQL-7)."""
    refused: tuple[tuple[str, str], ...] = ()
    """Names of columns that no expression may read, and why."""

    def handle(self, at: int) -> str:
        """Return the generated name of a column."""
        return f"{self.prefix}{at}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """Column of a relation, or a field inside it."""

    relation: Relation
    at: int
    """Position of the column in the relation's schema."""
    path: tuple[str, ...]
    """Field names from the column down; empty for the column itself."""

    @property
    def field(self) -> Field:
        """Return the column."""
        return self.relation.schema.fields[self.at]


def resolve(column: exp.Column, relations: Sequence[Relation]) -> list[Resolved]:
    """Return all possible meanings of a name: none if it is unknown, several if it is ambiguous.

    Args:
        column: the parser's column. Its first part is a relation's name if one matches.
        relations: their names match the first part before any column does.

    Raises:
        SchemaMismatchError: it names a column of `Relation.refused`.
    """
    parts = [part.name for part in column.parts]
    meanings: list[Resolved] = []
    if len(parts) > 1:
        for relation in relations:
            if relation.alias is not None and folded(relation.alias) == folded(parts[0]):
                meanings += _at(relation, parts[1:])
    if not meanings:
        for relation in relations:
            meanings += _at(relation, parts)
    return meanings


_WITHOUT_PARENTHESES: Mapping[str, type[exp.Expression]] = {
    "current_date": exp.CurrentDate,
    "current_timestamp": exp.CurrentTimestamp,
    "current_user": exp.CurrentUser,
    "session_user": exp.SessionUser,
    "user": exp.CurrentUser,
}


def function_named(column: exp.Column) -> exp.Expression | None:
    """Return the function that Spark calls by a name alone, if there is no column of that name."""
    made = _WITHOUT_PARENTHESES.get(column.name.lower()) if len(column.parts) == 1 else None
    return None if made is None else made()


def check_refused(refused: Sequence[tuple[str, str]], names: Sequence[str]) -> None:
    """Raise SchemaMismatchError if one of the names is among the refused columns."""
    for name, why in refused:
        if folded(name) in map(folded, names):
            raise SchemaMismatchError(why, [name])


def _at(relation: Relation, parts: Sequence[str]) -> list[Resolved]:
    column = relation.schema.find(parts[0])
    if column is None:
        check_refused(relation.refused, parts[:1])
    if column is None or (len(parts) > 1 and not is_nested(column.type)):
        return []
    return [Resolved(relation, relation.schema.fields.index(column), tuple(parts[1:]))]


def no_column(path: Sequence[str], names: Sequence[str]) -> InvalidPredicateError:
    """Return the error for an unknown column.

    Args:
        path: the written name, part by part.
        names: the existing columns.
    """
    return InvalidPredicateError(f"no column {'.'.join(path)!r}; {there_are(path[-1], names)}")


def check_qualifiers(text: str, schema: Schema, alias: str | None = None) -> None:
    """Refuse a column whose qualifier is neither the table nor a nested column.

    Text that cannot be parsed here is left to the engine. So is text with sub-queries, which define
    names of their own.

    Args:
        text: a condition over the table.
        schema: the table's schema.
        alias: the table's name in the statement; None: it has none.

    Raises:
        InvalidPredicateError: it names the column.
    """
    try:
        tree = parse_tree(text)
    except InvalidPredicateError:
        return
    if tree.find(exp.Query) is not None:
        return
    known = {folded(p.name) for each in tree.find_all(exp.Lambda) for p in each.expressions}
    known |= _SPARKS_OWN if alias is None else {*_SPARKS_OWN, folded(alias)}
    for column in tree.find_all(exp.Column):
        names = [part.name for part in column.parts]
        outer = schema.find(names[0])
        nested = outer is not None and is_nested(outer.type)
        if len(names) > 1 and not nested and folded(names[0]) not in known:
            raise no_column(names, schema.names)
