"""Predicates, their text, and what literals of another type become."""

from __future__ import annotations

import decimal
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import sql_parser
from tablefmt.expressions.literals import DAY
from tablefmt.expressions.predicate import (
    OPERATORS,
    And,
    Comparison,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    fields,
    normalise,
    to_comparisons,
    to_sql,
)
from tablefmt.expressions.sql_to_predicate import parse_conjuncts, parse_predicate
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Array, Decimal, Field, Primitive, Schema, Struct
from tablefmt.testing.random_conditions import evaluate, predicates, schemas, values
from tests.scheduling import examples

SCHEMA = Schema(
    (
        Field(1, "bo", "bo", Primitive("boolean")),
        Field(2, "y", "y", Primitive("byte")),
        Field(3, "i", "i", Primitive("integer")),
        Field(4, "l", "l", Primitive("long")),
        Field(5, "f", "f", Primitive("float")),
        Field(6, "d", "d", Primitive("double")),
        Field(7, "m", "m", Decimal(5, 2)),
        Field(8, "s", "s", Primitive("string")),
        Field(9, "b", "b", Primitive("binary")),
        Field(10, "dt", "dt", Primitive("date")),
        Field(11, "ts", "ts", Primitive("timestamp")),
        Field(12, "tn", "tn", Primitive("timestamp_ntz")),
        Field(13, "st", "st", Struct((Field(14, "x", "x", Primitive("integer")),))),
        Field(15, "ar", "ar", Array(Primitive("integer"))),
        Field(16, "A.b`c", "p", Primitive("integer")),
    ),
    16,
)


@st.composite
def conditions(draw: st.DrawFn) -> tuple[Schema, Predicate]:
    schema = draw(schemas())
    return schema, draw(predicates(schema))


@pytest.mark.slow
@examples(100)
@given(conditions(), st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York", "-03:00"]))
def test_the_text_of_a_predicate_is_read_back_as_the_same_tree(
    case: tuple[Schema, Predicate], time_zone: str
) -> None:
    """PRN-1: names and values may hold any text, in any time zone. NaN is compared by its text."""
    schema, predicate = case

    again = parse_predicate(to_sql(predicate), schema, time_zone)

    assert repr(again) == repr(predicate)
    assert fields(again) == fields(predicate)


@pytest.mark.slow
@examples(100)
@given(conditions(), st.data())
def test_conjuncts_are_together_the_whole(
    case: tuple[Schema, Predicate], data: st.DataObject
) -> None:
    """PRN-3: a row that makes the whole TRUE makes every part TRUE, and the reverse."""
    schema, predicate = case
    row = {f.id: data.draw(st.none() | values(f.type)) for f in schema.fields}

    parts, unknown = parse_conjuncts(to_sql(predicate), schema)

    assert unknown == 0
    assert all(evaluate(p, row) is True for p in parts) == (evaluate(predicate, row) is True)
    assert evaluate(normalise(predicate), row) == evaluate(predicate, row)


def _never(name: str) -> str:
    return f"`{name}` IS NULL AND NULL"


def _always(name: str) -> str:
    return f"(NOT `{name}` IS NULL) OR NULL"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i > 1.5", "`i` >= 2"),
        ("1.5 > i", "`i` < 2"),
        ("i <= 1.5", "`i` < 2"),
        ("i = 1.5", _never("i")),
        ("i <> 1.5", _always("i")),
        ("i <=> 1.5", "FALSE"),
        ("i = 1.0", "`i` = 1"),
        ("i = 1e0", "`i` = 1"),
        ("i = ' 1 '", "`i` = 1"),
        ("y = 128", _never("y")),
        ("y < 128", _always("y")),
        ("y >= 128", _never("y")),
        ("y > -129", _always("y")),
        ("y = -128Y", "`y` = -128"),
        ("NOT y = 300", f"NOT ({_never('y')})"),
        ("i = 99999999999999999999", _never("i")),
        ("i < CAST('NaN' AS DOUBLE)", _always("i")),
        ("i >= CAST('Infinity' AS DOUBLE)", _never("i")),
        ("l = 9007199254740992D", "`l` >= 9007199254740992L AND `l` <= 9007199254740993L"),
        ("l = 9007199254740993", "`l` = 9007199254740993L"),
        ("l = -9223372036854775808", "`l` = -9223372036854775808L"),
        ("l = 1.5F", _never("l")),
        ("i IN (1, 2.5, NULL)", "`i` IN (1, NULL)"),
        ("i IN (2.5)", _never("i")),
        ("i IN (2.5, NULL)", "`i` IN (NULL)"),
        ("i NOT IN (1, NULL)", "NOT `i` IN (1, NULL)"),
        ("i IN (1, '2')", "`i` IN (1, 2)"),
        ("f = 1.1", "`f` = 1.1D"),
        ("f = 1.1F", "`f` = 1.100000023841858D"),
        ("d = 'nan'", "`d` = CAST('NaN' AS DOUBLE)"),
        ("d = '1.5f'", "`d` = 1.5D"),
        ("d > -0.0D", "`d` > -0.0D"),
        ("m = 1.005", _never("m")),
        ("m < 1.005", "`m` < 1.01BD"),
        ("m = 1.5BD", "`m` = 1.50BD"),
        ("m < 1000", _always("m")),
        ("m = '1.1'", "`m` = 1.10BD"),
        ("m = CAST(1.005 AS DECIMAL(5, 2))", "`m` = 1.01BD"),
        ("CAST(m AS DOUBLE) > 1.005D", "`m` >= 1.01BD"),
        ("CAST(i AS BIGINT) = 5L", "`i` = 5"),
        ("i BETWEEN 1.5 AND 2", "`i` >= 2 AND `i` <= 2"),
        ("dt = '2020-1-2'", "`dt` = DATE '2020-01-02'"),
        ("dt = '2020'", "`dt` = DATE '2020-01-01'"),
        ("dt > DATE '+10000-01-01'", "`dt` > DATE '+10000-01-01'"),
        ("dt < TIMESTAMP '2020-01-01 10:00:00'", "`dt` < DATE '2020-01-02'"),
        ("dt = TIMESTAMP '2020-01-01'", "`dt` = DATE '2020-01-01'"),
        ("dt = TIMESTAMP '2020-01-01 00:00:00Z'", _never("dt")),
        ("dt >= TIMESTAMP_NTZ '2020-01-01 00:00:00.000001'", "`dt` >= DATE '2020-01-02'"),
        ("ts = DATE '2020-01-01'", "`ts` = TIMESTAMP '2019-12-31 23:00:00.000000Z'"),
        ("ts = '2020-07-01 02:00'", "`ts` = TIMESTAMP '2020-07-01 00:00:00.000000Z'"),
        ("ts = '2020-07-01 02:00:00+05:30'", "`ts` = TIMESTAMP '2020-06-30 20:30:00.000000Z'"),
        ("ts = TIMESTAMP '2020-03-29 02:30:00'", "`ts` = TIMESTAMP '2020-03-29 01:30:00.000000Z'"),
        ("ts = TIMESTAMP '2020-10-25 02:30:00'", "`ts` = TIMESTAMP '2020-10-25 00:30:00.000000Z'"),
        ("ts = TIMESTAMP_NTZ '2020-01-01'", "`ts` = TIMESTAMP '2019-12-31 23:00:00.000000Z'"),
        ("tn = TIMESTAMP_NTZ '1969-12-31 23:59:59.9999999'",
         "`tn` = TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'"),
        ("tn = DATE '2020-01-01'", "`tn` = TIMESTAMP_NTZ '2020-01-01 00:00:00.000000'"),
        ("bo", "`bo` = TRUE"),
        ("NOT bo", "NOT `bo` = TRUE"),
        ("bo IS NOT TRUE", "NOT `bo` <=> TRUE"),
        ("bo = 'yes'", "`bo` = TRUE"),
        ("b = 'é'", "`b` = X'C3A9'"),
        ("b = X'1'", "`b` = X'01'"),
        ("s = 'O''Brien'", "`s` = 'O\\'Brien'"),
        ("s = 'O' 'Brien'", "`s` = 'OBrien'"),
        ("s = 'a\\u0041\\101\\n'", "`s` = 'aAA\\n'"),
        ("s = r'\\n'", "`s` = '\\\\n'"),
        ('s = "x"', "`s` = 'x'"),
        ("s LIKE 'a/%%' ESCAPE '/'", "`s` LIKE 'a\\\\%%'"),
        ("startswith(s, 'a%')", "`s` LIKE 'a\\\\%%'"),
        ("s NOT LIKE 'a_'", "NOT `s` LIKE 'a_'"),
        ("`a.B``c` = 1", "`A.b``c` = 1"),
        ("I = 1 -- end", "`i` = 1"),
        ("i IS NULL OR i IS NOT NULL", "`i` IS NULL OR (NOT `i` IS NULL)"),
        ("i = NULL", "NULL"),
        ("i <=> NULL", "`i` IS NULL"),
        ("i IS DISTINCT FROM 1", "NOT `i` <=> 1"),
        ("isnan(i)", "FALSE"),
        ("1 = 1", "TRUE"),
        ("i = 1 OR i = 2 AND bo", "`i` = 1 OR (`i` = 2 AND `bo` = TRUE)"),
    ],
)  # fmt: skip
def test_a_literal_of_another_type_is_rewritten_exactly(text: str, expected: str) -> None:
    """PRN-3: the result equals Spark's in ANSI mode, in the zone Europe/Paris."""
    assert to_sql(parse_predicate(text, SCHEMA, "Europe/Paris")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "i", "i = ", "i = 1 b", "i = 1; DROP TABLE t", "nope = 1", "upper(nope) = 'x'",
        "i = '1.5'", "i = 'x'", "i = TRUE", "bo = 1", "i = DATE '2020-01-01'", "dt = 1", "ts = 1",
        "dt = 'x'", "dt = '2020-13-01'", "dt = DATE '2020-02-30'", "ts = '2020-01-01 25:00:00'",
        "ts = TIMESTAMP '2020-01-01 00:00:00 Mars/Base'", "y = 128Y", "i = 0x10", "b = 1",
        "d = 'abc'", "bo = 'maybe'", "isnan(s)", "s LIKE 'a\\\\b'", "i IN ()", "1", "'x'",
        "i = 1e400", "i = " + "9" * 39, "(" * 100 + "bo" + ")" * 100, "NOT " * 5000 + "bo",
        "m = CAST('x' AS DECIMAL(5,2))", "ts = DATE '+999999-01-01'", "s = '\\ud800'",
    ],
    ids=lambda t: t[:40] or "nothing",
)  # fmt: skip
def test_what_spark_refuses_is_refused(text: str) -> None:
    """PRN-3."""
    with pytest.raises(InvalidPredicateError):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("i + 1 = 2", "sql:arithmetic"),
        ("-i = 1", "sql:arithmetic"),
        ("upper(s) = 'x'", "sql:function"),
        ("coalesce(i, 1) = 1", "sql:function"),
        ("i = l", "sql:column-comparison"),
        ("i IN (SELECT 1)", "sql:subquery"),
        ("EXISTS (SELECT 1)", "sql:subquery"),
        ("st.x = 1", "sql:nested-field"),
        ("st = 1", "sql:nested-field"),
        ("ar[0] = 1", "sql:nested-field"),
        ("s = 1", "sql:cast"),
        ("CAST(i AS STRING) = '1'", "sql:cast"),
        ("CAST(l AS INT) = 1", "sql:cast"),
        ("(i = 1) = TRUE", "sql:eq"),
        ("i = ?", "sql:placeholder"),
        ("s RLIKE 'x'", "sql:function"),
        ("i = TRY_CAST('1' AS INT)", "sql:try_cast"),
        ("i BETWEEN SYMMETRIC 2 AND 1", "sql:between-symmetric"),
    ],
)
def test_what_cannot_be_reasoned_about_is_named(text: str, feature: str) -> None:
    """PRN-3."""
    with pytest.raises(UnsupportedFeatureError) as caught:
        parse_predicate(text, SCHEMA)

    assert caught.value.features == [feature]


def test_an_unknown_column_names_those_there_are() -> None:
    with pytest.raises(InvalidPredicateError, match=r"no column 'x'; there are 'bo', 'y', 'i'"):
        parse_predicate("x = 1", SCHEMA)


@pytest.mark.slow
def test_text_over_the_limits_is_refused() -> None:
    for text in ("x" * (sql_parser.TEXT_MAX + 1), "i=1 OR " * 60_000 + "i=1"):
        with pytest.raises(InvalidPredicateError, match=r"at most|more than"):
            parse_predicate(text, SCHEMA)


def test_parts_not_understood_are_counted_and_the_rest_is_kept() -> None:
    """PRN-3: the text has the form that Spark writes for its own filters."""
    text = (
        "(((i IS NOT NULL) AND (CAST(i AS BIGINT) = 5L)) AND (upper(s) = 'X'))"
        " AND nope = 1 AND startswith(s, 'a')"
    )

    parts, unknown = parse_conjuncts(text, SCHEMA)

    assert [to_sql(p) for p in parts] == ["NOT `i` IS NULL", "`i` = 5", "`s` LIKE 'a%'"]
    assert unknown == 2
    assert parse_conjuncts("not ) SQL", SCHEMA) == ([], 1)


def test_values_are_of_the_columns_own_type() -> None:
    """PRN-1."""
    cases: dict[str, Any] = {
        "m = 1": decimal.Decimal("1.00"),
        "dt = '1969-12-31'": -1,
        "ts = '1970-01-02Z'": DAY,
        "b = X'00'": b"\0",
        "f = 1": 1.0,
        "y = '7'": 7,
    }
    for text, value in cases.items():
        predicate = parse_predicate(text.replace("-02Z", "-02 00:00:00Z"), SCHEMA)
        assert isinstance(predicate, Comparison)
        assert (predicate.value, type(predicate.value)) == (value, type(value))


def test_a_long_chain_does_not_end_the_stack() -> None:
    text = " AND ".join(["i IS NULL"] * 3000)

    predicate = parse_predicate(text, SCHEMA)

    assert to_sql(predicate).count("IS NULL") == 3000
    assert normalise(predicate) == predicate


def test_hostile_values_stay_inside_their_literals() -> None:
    """PRN-1."""
    name = SCHEMA.fields[7]
    for value in (
        "x' OR 1=1 --",
        "\\' OR TRUE --",
        "`",
        "/*",
        "\\",
        "'",
        "\0\n\r\x1a",
        "%_",
        "\\%",
    ):
        for predicate in (Comparison(name, "=", value), Like(name, "'" + value.replace("\\", ""))):
            assert parse_predicate(to_sql(predicate), SCHEMA) == predicate
    assert fields(IsNull(name)) == {8}


TEXT = """
    i s ts dt m bo st x 1 1.5 - 'a' '' NULL TRUE = < <=> ( ) , AND OR NOT IN IS LIKE BETWEEN
    CAST AS INT DATE X'0' DECIMAL(2,1) TIMESTAMP '2020-01-01' 1BD 2L 1e9D ` " ; -- ESCAPE isnan
    + * :: . [0] CASE SELECT INTERVAL 1e999BD '\\u12' \\ \0 é SHOW SET
"""
WORDS = st.sampled_from(TEXT.split())


@examples(150)
@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_is_read_or_refused_with_our_errors(text: str) -> None:
    """PRN-3: no foreign error escapes, and what is read can be written and read again."""
    assert parse_conjuncts(text, SCHEMA)[1] >= 0
    try:
        predicate = parse_predicate(text, SCHEMA)
    except (InvalidPredicateError, UnsupportedFeatureError):
        return

    assert repr(parse_predicate(to_sql(predicate), SCHEMA)) == repr(predicate)


COMPARED: dict[int, list[Any]] = {
    2: [-128, 0, 7],
    3: [-5, 0, 1 << 30],
    4: [-(1 << 62), 3, 4],
    7: [decimal.Decimal("-1.25"), decimal.Decimal("0.00"), decimal.Decimal("999.99")],
    8: ["", "a", "é"],
    9: [b"", b"\x00", b"\xff"],
    10: [-400, 0, 20_000],
    11: [-1, 0, 1 << 50],
    12: [-1, 0, 1 << 50],
}
"""Values of the columns that are compared as whole columns, by field id."""


def test_comparisons_of_whole_columns_are_those_of_each_row() -> None:
    """PRN-1: every type and operator, with NULLs, alone, negated and in conjunctions."""
    chance = random.Random(11)
    rows = [{i: chance.choice([None, *some]) for i, some in COMPARED.items()} for _ in range(60)]
    batch = pa.RecordBatch.from_pydict(
        {
            SCHEMA.by_id(i).name: pa.array(
                [row[i] for row in rows], arrow_type(SCHEMA.by_id(i).type)
            )
            for i in COMPARED
        }
    )
    leaves: list[Predicate] = [
        Comparison(SCHEMA.by_id(i), op, value)
        for i, some in COMPARED.items()
        for op in OPERATORS
        for value in some
    ]
    pairs = [And((chance.choice(leaves), chance.choice(leaves))) for _ in range(200)]
    matched = 0
    for predicate in [*leaves, *map(Not, leaves), *pairs]:
        test = to_comparisons(predicate, SCHEMA)
        if test is None:
            # NOT of <=> is no comparison.
            assert isinstance(predicate, Not)
            continue
        found = [value is True for value in test(batch).to_pylist()]
        assert found == [evaluate(predicate, row) is True for row in rows], predicate
        matched += sum(found)
    assert matched > 1000


def test_other_conditions_are_left_to_expressions() -> None:
    """Arrow orders floats in another way (PRN-1)."""
    one, two = SCHEMA.by_id(3), SCHEMA.by_id(6)
    whole = Comparison(one, "=", 1)
    others: list[Predicate] = [
        Comparison(two, ">", 1.0),
        IsNull(one),
        Or((whole, Comparison(one, "=", 2))),
    ]
    others.append(Comparison(SCHEMA.by_id(1), "=", True))
    for other in others:
        assert to_comparisons(other, SCHEMA) is None
        assert to_comparisons(And((whole, other)), SCHEMA) is None
