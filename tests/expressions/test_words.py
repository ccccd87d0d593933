"""Names that are words of SQL, and errors for text that cannot be parsed."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

import tablefmt
from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.constraint_grammar import rewritten
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.sql_parser import parse_tree

PARSER = Dialect.get_or_raise("spark").parser_class
KEYWORDS = {
    word.lower()
    for words in (
        Dialect.get_or_raise("spark").tokenizer_class.KEYWORDS,
        PARSER.STATEMENT_PARSERS,
        PARSER.NO_PAREN_FUNCTION_PARSERS,
        PARSER.FUNCTION_PARSERS,
        PARSER.CONSTRAINT_PARSERS,
    )
    for word in words
    if isinstance(word, str) and re.fullmatch(r"[A-Za-z]\w*", word)
}
IN_BACKTICKS = {"case", "false", "not", "null", "true"}

SHAPES = """
{0} = 1
id = 1 AND {0} > 2
{0}
-1 * ({0} * 2) < 3
upper({0}) = 'A'
s.{0} = {0}.a
{0} IS NULL AND {0} IS DISTINCT FROM {0}
{0} IN (1, 2) OR {0} NOT IN ({0}, 2)
NOT {0}
-{0} < {0} - 1
CASE WHEN {0} THEN {0} ELSE {0} END
{0} BETWEEN {0} AND {0}
cast({0} as int) = {0}::bigint
{0} LIKE 'a' OR {0} NOT LIKE 'a' OR {0} RLIKE 'b'
{0}[0] = coalesce({0}, 1, {0})
exists(tags, {0} -> {0} > 1)
substring({0} from 1 for 2) = 'a'
{0} DIV {0} = {0} % {0}
cast({0} as decimal(10,2)) <=> {0}
CASE {0} WHEN {0} THEN 1 END
""".strip().splitlines()


def _plain(tree: exp.Expression) -> exp.Expression:
    """The tree, whether names in it were in backticks or not."""
    for each in tree.find_all(exp.Identifier):
        each.set("quoted", False)
    return tree


@pytest.mark.share(4)
@pytest.mark.parametrize("shape", SHAPES)
def test_words_are_names_where_the_reader_of_constraints_has_them_so(shape: str) -> None:
    """SQL-8: every word of the parser gives the same columns as with backticks."""
    assert len(KEYWORDS) > 250
    first = shape.startswith("CASE {0} WHEN")
    for word in sorted(KEYWORDS - IN_BACKTICKS - ({"when"} if first else set())):
        text = shape.format(word)
        quoted = parse_tree(shape.format(f"`{word}`")).copy()
        assert _plain(parse_tree(text).copy()) == _plain(quoted), text
        checked = rewritten(text, [word, "id", "s", "tags"])
        assert _plain(parse_tree(checked).copy()) == _plain(quoted), text


def test_words_are_names_of_columns_in_a_list_of_them() -> None:
    """SQL-8."""
    for word in sorted(KEYWORDS):
        schema = schema_from(f"{word} INT, s STRUCT<{word}: INT>, x BIGINT NOT NULL")
        assert [name.lower() for name in schema.names] == [word, "s", "x"]


@pytest.mark.parametrize("word", ["comment", "values", "desc", "load", "set", "show", "if", "from"])
def test_verbs_take_columns_that_are_called_like_words(tmp_path: Any, word: str) -> None:
    """SQL-8: conditions, values, MERGE and constraints."""
    tablefmt.write({"id": [1, 2, 3], word: [10, 20, 30]}, str(tmp_path))
    table = tablefmt.open(str(tmp_path))
    assert table.scan(where=f"{word} = 10").to_arrow()["id"].to_pylist() == [1]
    table.alter.add_constraint("positive", f"{word} > 0")
    table.update({word: f"{word} + 1"}, f"{word} > 20")
    source = {"id": [1, 4], word: [11, 40]}
    builder = table.merge(source, f"s.{word} = t.{word} + 1", source_alias="s")
    builder.when_matched_update({word: f"s.{word}"}).when_not_matched_insert_all().execute()
    table.delete(f"{word} = 20")
    rows = table.refresh().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, word: 11}, {"id": 3, word: 31}, {"id": 4, word: 40}]


def test_a_column_comes_before_a_function_of_its_name(tmp_path: Any) -> None:
    """SQL-8: without a column of that name it is the function."""
    days = [datetime.date(2020, 1, 1), datetime.date(2999, 1, 1)]
    tablefmt.write({"current_date": days, "d": days, "current_user": ["a", "b"]}, str(tmp_path))
    table = tablefmt.open(str(tmp_path))
    for where, rows in {
        "current_date = DATE '2020-01-01'": [0],
        "d < current_date()": [0],
        "d >= current_timestamp": [1],
        "current_user = 'a'": [0],
    }.items():
        assert table.to_arrow(where=where)["d"].to_pylist() == [days[at] for at in rows]
    with pytest.raises(UnsupportedFeatureError, match=r"(?i)current_user"):
        table.to_arrow(where="current_user() = 'a'")
    with pytest.raises(InvalidPredicateError, match=r"(?i)session_user|must not change over time"):
        table.alter.add_constraint("c", "session_user = 'a'")


@pytest.mark.parametrize(
    ("text", "problem"),
    {
        "id = = 1": "a value is missing before '=' at character 6",
        "id =": "a value is missing after '=' at its end",
        "(id = 1": r"'\(' at character 1 is not closed",
        "id = 1)": r"'\)' at character 7 closes no open bracket",
        "id BIGNT": "did not expect 'BIGNT' at character 4",
        "id = 1 AN id = 2": "did not expect 'AN' at character 8; did you mean 'AND'",
        "id LIK 'a'": "did not expect 'LIK' at character 4; did you mean 'LIKE'",
        "id = 1\n or or id = 2": "a value is missing before 'or' at character 12",
        "cast(id AS BIGNT) = 1": "'BIGNT' at character 12; did you mean 'BIGINT'",
        "id = 'abc": "the quote ' at character 6 is not closed",
        "id = 1 /* x": r"the comment /\* at character 8 is not closed",
        "id = 1; DROP TABLE t": "did not expect 'DROP' at character 9",
        "id, id": "did not expect ',' at character 3",
        "SELECT 1": "did not expect 'SELECT' at character 1",
        "": "it is empty",
    }.items(),
)
def test_text_that_cannot_be_read_is_refused_with_the_word_and_its_place(
    text: str, problem: str
) -> None:
    """The message has our own words, none of the parser's."""
    with pytest.raises(InvalidPredicateError, match=problem) as caught:
        parse_tree(text)
    assert "sqlglot" not in str(caught.value)
    assert "Line" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    {
        "id BIGNT": "did not expect 'BIGNT' at character 4; did you mean 'BIGINT'",
        "id INT, a ARRAY<ITN>": "'ITN' at character 17; did you mean 'INT'",
        "id BIGINT NOTT NULL": "'NOTT' at character 11; did you mean 'NOT'",
        "id INT,, x INT": "did not expect ',' at character 8",
        "id INT,": "did not expect ',' at character 7",
        "id DECIMAL(10": r"'\(' at character 11 is not closed",
        "id INT)": r"'\)' at character 7 closes no open bracket",
        "id INT COMMENT 'x": "the quote ' at character 16 is not closed",
        "id INT COMMENT": "something is missing after 'COMMENT' at its end",
        "id": "id has no type",
    }.items(),
)
def test_columns_that_cannot_be_read_are_refused_with_the_word_and_its_place(
    text: str, problem: str
) -> None:
    """The same for a list of columns."""
    with pytest.raises(SchemaMismatchError, match=problem) as caught:
        schema_from(text)
    assert "sqlglot" not in str(caught.value)


def test_a_near_name_is_suggested(tmp_path: Any) -> None:
    """Suggestions for columns, fields, functions and properties."""
    table = tablefmt.create(str(tmp_path), "id BIGINT, region STRING, s STRUCT<amount: INT>")
    for call, name in (
        (lambda: table.to_arrow(where="regoin = 'x'"), "'region'"),
        (lambda: table.to_arrow(where="s.amuont = 1"), "'amount'"),
        (lambda: table.to_arrow(where="uper(region) = 'x'"), "upper"),
        (lambda: table.to_arrow(columns=["regoin"]), "'region'"),
        (lambda: table.update({"regoin": "1"}), "'region'"),
        (lambda: table.alter.drop_column("regoin"), "'region'"),
        (lambda: table.alter.set_properties({"targetFileSze": "1"}), "'targetFileSize'"),
        (lambda: table.alter.add_constraint("c", "regoin = ''"), "'region'"),
    ):
        with pytest.raises(
            (InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError),
            match=f"did you mean {name}",
        ):
            call()


@pytest.mark.parametrize("value", ["-1", "+ 1D", "- x"])
def test_words_behind_a_negated_value_are_no_names(value: str) -> None:
    """SQL-8: the next value may have any sign."""
    for text in (f"a NOT BETWEEN {value} AND 3", f"NOT a BETWEEN {value} AND 3"):
        tree = parse_tree(text)
        assert tree.find(exp.Between) is not None, text
        assert {column.name for column in tree.find_all(exp.Column)} <= {"a", "x"}, text
