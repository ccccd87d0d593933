"""Facts read from a syntax tree, compared with the engine's result for the same text."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.duckdb_functions import FUNCTIONS
from tablefmt.expressions.expression_analysis import Kind, analyze, depends_on_zone, kind_of
from tablefmt.expressions.sql_parser import Relation, parse_tree
from tablefmt.expressions.sql_to_duckdb import translate
from tablefmt.expressions.sql_vocabulary import CHANGING_FUNCTIONS

SCHEMA = schema_from(
    "i INT, l BIGINT, s STRING, d DATE, ts TIMESTAMP, n DECIMAL(10,2), g DOUBLE, t BOOLEAN,"
    " st STRUCT<i: INT, s: STRING>, li ARRAY<INT>, `odd name` INT"
)
TARGET = Relation(SCHEMA, "t", "target")
SOURCE = Relation(schema_from("i INT, k STRING, z DOUBLE"), "s", "src")

ROW = {
    "i = 1": "i",
    "i + l > g AND s LIKE 'a%'": "i l g s",
    "upper(s) = 'A' OR coalesce(i, l, 0) IN (1, 2)": "s i l",
    "target.i = 1 AND `ODD NAME` IS NULL": "i 'odd name'",
    "CASE WHEN t THEN year(d) ELSE i END = 1": "t d i",
    "CAST(s AS INT) = 1 OR TRY_CAST(s AS INT) IS NULL": "s",
    "date_add(d, 1) < DATE '2024-01-01' AND isnotnull(n)": "d n",
    "ts < current_timestamp() AND d <= current_date() AND ts < now()": "ts d",
    "s = 'rand() (SELECT 1) uuid()'": "s",
    "1 = 1": "",
}


def ids(names: str) -> frozenset[int]:
    words = ["odd name" if w == "odd" else w for w in names.replace("'odd name'", "odd").split()]
    return frozenset(SCHEMA.fields[SCHEMA.names.index(name)].id for name in words)


@pytest.mark.parametrize("text", ROW)
def test_what_goes_by_named_columns_is_known_by_exactly_these(text: str) -> None:
    """CFL-21: the conflict rules may evaluate the condition on rows. A literal is no code."""
    found = analyze(text, TARGET)
    assert found.columns == (ids(ROW[text]),)
    assert found.follows_from_columns
    assert (found.may_query, found.may_be_chance) == (False, False)


OTHER = {
    "i = (SELECT 1)": Kind.SUBQUERY,
    "i IN (SELECT i FROM x WHERE rand() > 1)": Kind.SUBQUERY,
    "EXISTS (SELECT 1)": Kind.SUBQUERY,
    "i IN (1, 2) OR NOT EXISTS(SELECT nothing.there FROM x)": Kind.SUBQUERY,
    "rand() > 0.5": Kind.CHANCE,
    "random(1) > i": Kind.CHANCE,
    "uuid() = s": Kind.CHANCE,
    "monotonically_increasing_id() = l": Kind.CHANCE,
    "input_file_name() = s": Kind.CHANCE,
    "current_user() = s": Kind.SESSION,
    "current_timezone() = s": Kind.SESSION,
    "max(i) > 1": Kind.SEVERAL_ROWS,
    "count(*) > 1": Kind.SEVERAL_ROWS,
    "max(i) OVER (PARTITION BY t) = 1": Kind.SEVERAL_ROWS,
    "explode(li) = 1": Kind.SEVERAL_ROWS,
    "posexplode(li) = 1": Kind.SEVERAL_ROWS,
    "my_function(i) = 1": Kind.UNKNOWN,
    "sha2(s, 256) = 'a'": Kind.UNKNOWN,
    "li[0] = 1": Kind.UNKNOWN,
    "exists(li, x -> x > 1)": Kind.SUBQUERY,
    "transform(li, x -> x + 1) IS NULL": Kind.UNKNOWN,
    "ts + INTERVAL 1 DAY > ts": Kind.UNKNOWN,
    ":p = i": Kind.UNKNOWN,
    "this is no text": Kind.UNKNOWN,
}


@pytest.mark.parametrize("text", OTHER)
def test_what_goes_by_more_than_the_row_says_so(text: str) -> None:
    """CFL-21: this expression is never evaluated row by row."""
    found = analyze(text, TARGET)
    kind = OTHER[text]
    assert kind in found.kinds
    assert not found.follows_from_columns
    unknown = kind is Kind.UNKNOWN
    assert found.may_query == (kind is Kind.SUBQUERY or unknown)
    assert found.may_be_chance == (kind in (Kind.CHANCE, Kind.SUBQUERY) or unknown)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("(i + 1) * 2 > -l OR NOT t", False),
        ("CASE WHEN t THEN CAST(s AS INT) ELSE (i) END BETWEEN 1 AND 2", False),
        ("s || 'upper(x)' LIKE '%' AND d > DATE '2024-01-01'", False),
        ("upper(s) = 'A'", True),
        ("coalesce(i, 0) = 1", True),
        ("i = (SELECT 1)", True),
        ("mine(i)", True),
        ("current_date > d", True),
    ],
)
def test_functions_that_a_session_may_have_put_in_place_of_sparks_own(
    text: str, calls: bool
) -> None:
    """Grammar is Spark's alone, brackets or not."""
    assert analyze(text, TARGET).calls is calls


@pytest.mark.parametrize("text", ["st.i = 1", "st IS NULL", "li = li", "x.i = 1", "nothing = 1"])
def test_names_inside_columns_and_of_nothing_are_not_reasoned_about(text: str) -> None:
    """CFL-21, SQL-7."""
    assert not analyze(text, TARGET).follows_from_columns


def test_columns_are_told_by_relation() -> None:
    """In a MERGE an unqualified name is a column if only one relation has it."""
    found = analyze("target.i = src.i AND k = s AND z > 1", TARGET, SOURCE)
    of_source = {SOURCE.schema.fields[at].id for at in (0, 1, 2)}
    assert found.columns == (ids("i s"), of_source)  # type: ignore[comparison-overlap]
    assert found.follows_from_columns
    assert analyze("i = 1", TARGET, SOURCE).unresolved == (("i",),)


def test_every_function_that_changes_by_itself_is_known_to_do_so() -> None:
    """The class that the parser gives it makes no difference."""
    for name in sorted(CHANGING_FUNCTIONS):
        if name in ("user", "version"):  # words that the parser may take for names of columns
            continue
        given = {"randstr": "3", "uniform": "1, 2", "shuffle": "li"}.get(name, "")
        kinds = analyze(f"{name}({given})", TARGET).kinds
        assert kinds & {Kind.CHANCE, Kind.CLOCK, Kind.SESSION}, name


def test_what_the_engine_carries_out_is_of_one_row() -> None:
    """SQL-1: the expression has columns that decide it."""
    assert {kind_of(made()) for made in FUNCTIONS if made is not exp.Anonymous} == {Kind.ROW}
    for text in ROW:
        made = analyze(text, TARGET)
        try:
            translated = translate(text, (TARGET,))
        except (UnsupportedFeatureError, InvalidPredicateError):
            continue
        handles = {TARGET.handle(at): f.id for at, f in enumerate(SCHEMA.fields)}
        assert made.columns == (frozenset(handles[h] for h in translated.columns),)


@pytest.mark.parametrize("text", OTHER)
def test_what_is_not_of_one_row_is_never_carried_out(text: str) -> None:
    """SQL-2: it is not executed by accident either."""
    with pytest.raises((UnsupportedFeatureError, InvalidPredicateError)):
        translate(text, (TARGET,))


@pytest.mark.parametrize(
    ("text", "depends"),
    [
        ("i = 1", False),
        ("sha2(s, 256) = 'a'", None),
        ("g = CAST('NaN' AS DOUBLE)", False),
        ("ts > '2024-01-01 00:00:00'", True),
        ("ts > TIMESTAMP '2024-01-01 00:00:00'", True),
        ("ts > TIMESTAMP '2024-01-01 00:00:00Z'", False),
        ("ts > DATE '2024-01-01'", True),
        ("d > DATE '2024-01-01'", False),
        ("s = '2024-01-01 00:00:00'", False),
    ],
)
def test_conditions_that_mean_something_else_in_another_zone(
    text: str, depends: bool | None
) -> None:
    """SQL-4: text that is not understood is an error here."""
    if depends is None:
        with pytest.raises(UnsupportedFeatureError):
            depends_on_zone(text, SCHEMA)
    else:
        assert depends_on_zone(text, SCHEMA) is depends


@pytest.mark.slow
def test_a_deep_tree_is_walked_without_recursion() -> None:
    """A chain of 5,000 comparisons, which the parser takes."""
    tree = parse_tree(" OR ".join(["i = 1"] * 5_000))
    assert isinstance(tree, exp.Or)
    assert analyze(" OR ".join(["i = 1"] * 5_000), TARGET).follows_from_columns
