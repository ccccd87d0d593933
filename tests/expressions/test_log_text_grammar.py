"""The text of a CHECK is rewritten for engines and holds only known words."""

from __future__ import annotations

import re

import pytest

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.constraint_grammar import rewritten
from tablefmt.expressions.sql_parser import parse_tree
from tablefmt.expressions.sql_vocabulary import BY_KIND
from tests.places import ROOT

COLUMNS = ["k", "t", "ts", "s", "tags", "m", "end", "from", "Map", "select", "value one", "a`b"]

REFUSED = {
    "reflect('java.lang.System', 'setProperty', 'x', 'y') IS NULL OR k > -100": "reflect",
    "java_method('java.lang.System', 'exit', 0) = 0": "java_method",
    "try_reflect('java.lang.System', 'getenv') IS NULL": "try_reflect",
    "Reflect ( 'a', 'b' ) = ''": "reflect",
    "ref/**/lect('a')": "ref",
    "`reflect`('a', 'b') = ''": "`reflect`",
    "system.builtin.reflect('a', 'b') = ''": "system",
    "k.reflect('a') = 1": "reflect",
    "IDENTIFIER('reflect')('a', 'b') = ''": "identifier",
    "IDENTIFIER('k') > 0": "identifier",
    "myudf(k) > 0": "myudf",
    "assert_true(k > 0) IS NULL": "assert_true",
    "raise_error('x') IS NULL": "raise_error",
    "k = (SELECT 1)": "select",
    "k IN (SELECT 1)": "select",
    "k = (select)": None,
    "EXISTS (SELECT 1)": "select",
    "k = (FROM t)": "t",
    "k = (FROM t |> SELECT k)": "t",
    "k = (TABLE t)": "table",
    "k = (VALUES (1))": "values",
    "k = (MAP 1 USING 'touch x' AS y)": "1",
    "k = (REDUCE 1 USING 'touch x' AS y)": "reduce",
    "k = (WITH a AS (SELECT 1) SELECT * FROM a)": "with",
    "sum(k) > 1": "sum",
    "row_number() OVER (ORDER BY k) > 1": "row_number",
    "upper(t) OVER () > 1": "OVER",
    "explode(tags) > 1": "explode",
    "current_user() = 'a'": "must not change over time",
    "current_user = 'a'": "current_user",
    "current_date > DATE '2020-01-01'": "current_date",
    "version() <> ''": "must not change over time",
    "input_file_name() = ''": "must not change over time",
    "unix_timestamp() > 1": "unix_timestamp",
    "ts > TIMESTAMP 'now'": "not a fixed time",
    "ts > DATE 'today'": "not a fixed time",
    "rand() > 0": "must not change over time",
    "session_variable > 1": "session_variable",
    "system.session.v > 1": "system",
    "@@v > 1": "@@",
    "k > :p": ":p",
    "k > ?": r"\?",
    "k > ${spark.app.name}": "{spark",
    "/*+ BROADCAST(k) */ k > 0": "BROADCAST",
    "k > 0 /* a /* b */ OR k > 1 */": "a",
    "k > 0 -- \\\n OR k > 1": "OR k",
    "t > 0 -- 'a\\'": "--",
    "k > 0 -- \r OR k > 1": "OR k",
    "k /*+ x */ > 0": r"\+ x",
    "k > 0; DROP TABLE t": "; DROP",
    "struct(*) IS NULL": r"\*",
    "count(*) > 0": "count",
    "xpath(t, 'a') IS NULL": "xpath",
    "from_xml(t, 'a INT') IS NULL": "from_xml",
    "aes_encrypt(t, t) IS NULL": "aes_encrypt",
    "ſubstring(t, 1) = 'a'": "ſ",
    "k\u00a0> 0": "xa0",
    "k => 1": "=",
    "upper(t => 'a') = 'A'": "t",
    "upper(named => 'a') = 'A'": "named",
    "exists(tags, x -> reflect(x) > 0)": "reflect",
    "exists(tags, x -> x > 0) AND x > 0": "'x'",
    "exists(tags, x -> y > 0)": "'y'",
    "k > 0) OR (k < 0": r"\)",
    "(k > 0": "the end",
    "k >": "the end",
    "": "empty",
    "k COLLATE UTF8_LCASE = 'a'": "COLLATE",
    "CAST(k AS ARRAY<INT>) IS NULL": "cast",
    "k AS x": "AS",
    "X 'zz' = t": "zz",
    "T'2020' = t": "2020",
    "k = 1abc": "1abc",
    "t LIKE 'a' ESCAPE k": "ESCAPE",
    "'a' 'b' k": "k",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_known_is_refused_by_name(text: str) -> None:
    """SQL-6: no part of it gets to an engine."""
    words = REFUSED[text]
    if words is None:
        # A column that is called so.
        assert rewritten(text, COLUMNS) == "`k` = (`select`)"
        return
    with pytest.raises((UnsupportedFeatureError, InvalidPredicateError), match=f"(?i){words}"):
        rewritten(text, COLUMNS)


WRITTEN = {
    "k>0 And\n t is Not null": "`k` > 0 AND `t` IS NOT NULL",
    "end > 1 and from = 'a'": "`end` > 1 AND `from` = 'a'",
    "CASE WHEN k > 1 THEN Map ELSE end END IS NULL": (
        "CASE WHEN `k` > 1 THEN `Map` ELSE `end` END IS NULL"
    ),
    "case when(k > 1) then(1) else(2) end = 1": "CASE WHEN (`k` > 1) THEN (1) ELSE (2) END = 1",
    "t = 'it''s' OR t = \"a'b\" OR t = r'\\d'": "`t` = 'it\\'s' OR `t` = 'a\\'b' OR `t` = '\\\\d'",
    "t = 'a' 'b'": "`t` = 'a' 'b'",
    "t <> '${env:HOME}'": "`t` <> '\\u0024{env:HOME}'",
    "t <> '-- x' -- y": "`t` <> '-- x'",
    "t /* x */ <> '/* x */'": "`t` <> '/* x */'",
    "`value one` > 0 AND `a``b` = 1": "`value one` > 0 AND `a``b` = 1",
    "s.a.`b.c` = tags[0].x[k + 1]": "`s`.`a`.`b.c` = `tags`[0].`x`[`k` + 1]",
    "UPPER (t) = upper('a')": "upper(`t`) = upper('a')",
    "exists(tags, x -> x > k)": "exists(`tags`, `x` -> `x` > `k`)",
    "aggregate(tags, 0, (acc, x) -> acc + x) > 0": (
        "aggregate(`tags`, 0, (`acc`, `x`) -> `acc` + `x`) > 0"
    ),
    "ts > TIMESTAMP '2024-01-01' - INTERVAL 1 DAY 2 hours": (
        "`ts` > TIMESTAMP '2024-01-01' - INTERVAL 1 DAY 2 HOURS"
    ),
    "extract(year FROM ts) = 1": "extract(YEAR FROM `ts`) = 1",
    "trim(both 'x' from t) = ''": "trim(BOTH 'x' FROM `t`) = ''",
    "substring(t from 1 for 2) = ''": "substring(`t` FROM 1 FOR 2) = ''",
    "timestampdiff(day, ts, ts) = 0": "timestampdiff(DAY, `ts`, `ts`) = 0",
    "CAST(k AS decimal(10, 2))::string = ''": "cast(`k` AS DECIMAL(10,2)) :: STRING = ''",
    "k is distinct from 1 and not k not in (1, 2)": (
        "`k` IS DISTINCT FROM 1 AND NOT `k` NOT IN (1, 2)"
    ),
    "t like any ('a', 'b') or t not like 'a!%' escape '!'": (
        "`t` LIKE ANY ('a', 'b') OR `t` NOT LIKE 'a!%' ESCAPE '!'"
    ),
    "k between -1 and 10L and ! (k = 1e3)": "`k` BETWEEN - 1 AND 10L AND NOT (`k` = 1e3)",
    "pi() > 3.": "pi() > 3.",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_known_is_written_anew(text: str) -> None:
    """SQL-6: names in backticks, words in capitals, texts by their escapes, no comments."""
    made = rewritten(text, COLUMNS)
    assert made == WRITTEN[text]
    parse_tree(made)
    assert rewritten(made, COLUMNS) == made


def test_the_page_and_the_code_list_the_same_functions() -> None:
    """SQL-6: the list of the specification."""
    page = ROOT / "spec" / "changing.md"
    _, _, rule = page.read_text(encoding="utf-8").partition("### SQL-6")
    rows = re.findall(r"^- ([^:\n]+): `([^`]+)`$", rule, re.MULTILINE)
    assert {kind: set(names.split()) for kind, names in rows} == {
        kind: set(names.split()) for kind, names in BY_KIND.items()
    }
    assert all(names.split() == sorted(names.split()) for _, names in rows)
