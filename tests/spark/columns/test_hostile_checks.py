"""Text in the log that would run code: no engine gets it, on either backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.constraint_grammar import rewritten
from tablefmt.expressions.sql_vocabulary import PURE_FUNCTIONS
from tests.hostile import HOSTILE, PROPERTY, poisoned
from tests.spark.looking import rows_of


@pytest.fixture(autouse=True)
def traps(spark: Any) -> Iterator[None]:
    """A function and a variable of this session, which text of the log must not reach."""
    tablefmt.spark.register(spark)
    spark._jvm.java.lang.System.clearProperty(PROPERTY)
    in_task(spark, "clearProperty")
    spark.udf.register("counted", lambda k: 1, "int")
    spark.sql("DECLARE OR REPLACE VARIABLE hostile_variable INT DEFAULT 5")
    yield
    spark.sql("DROP TEMPORARY VARIABLE hostile_variable")
    spark.sql("DROP TEMPORARY FUNCTION counted")


def in_task(spark: Any, method: str) -> str | None:
    """Call a method on the property in the JVM of a task, and return what it answers."""
    call = f"reflect('java.lang.System', '{method}', '{PROPERTY}')"
    answer: str = spark.range(1).selectExpr(call).first()[0]
    return None if answer == "null" else answer


def properties(spark: Any) -> set[str | None]:
    """Return the values of the property in the driver and in the executor."""
    return {spark._jvm.java.lang.System.getProperty(PROPERTY), in_task(spark, "getProperty")}


def is_clean(spark: Any, marker: Path) -> bool:
    return properties(spark) == {None} and not marker.exists()


def test_the_traps_work(spark: Any) -> None:
    """The tests below would notice a trap that runs."""
    spark.sql(f"SELECT {HOSTILE[0].partition(' IS ')[0]}").collect()
    assert "y" in properties(spark)
    assert spark.sql("SELECT counted(1), hostile_variable").collect() == [(1, 5)]


def test_text_of_the_log_runs_nothing(spark: Any, tmp_path: Path) -> None:
    """SQL-6: every writer refuses, by name; readers read; who owns the table drops it."""
    marker = tmp_path / "marker"
    frame = spark.sql("SELECT 2 AS k, 'b' AS t")
    rows = pa.table({"k": pa.array([2], pa.int32()), "t": ["b"]})
    for number, text in enumerate(HOSTILE):
        uri = str(tmp_path / f"hostile {number}")
        condition = text.replace("{marker}", str(marker))
        table = poisoned(uri, condition)
        opened = tablefmt.spark.open(spark, uri)
        writes = [
            lambda table=table: table.append(rows),
            lambda uri=uri: tablefmt.spark.write(frame, uri),
            lambda opened=opened: opened.update({"k": "k + 1"}),
        ]
        if number < 3:
            writes += [
                lambda table=table: table.update({"k": "k + 1"}),
                lambda table=table: table.overwrite(rows),
                lambda uri=uri: frame.write.format("tablefmt").mode("append").save(uri),
                lambda opened=opened: (
                    opened.merge(frame, "s.k = t.k").when_not_matched_insert_all().execute()
                ),
            ]
        for write in writes:
            with pytest.raises(UnsupportedFeatureError, match="'c'"):
                write()
        assert opened.to_df().collect() == [(1, "a")]
        assert table.to_arrow().to_pylist() == [{"k": 1, "t": "a"}]
        assert table.constraints == {"c": condition}
        for alter in (opened.alter, table.alter):
            with pytest.raises((UnsupportedFeatureError, InvalidPredicateError)):
                alter.add_constraint("mine", condition)
        table.alter.drop_constraint("c")
        assert is_clean(spark, marker)
    tablefmt.spark.write(frame, uri)
    assert rows_of(opened.to_df()) == rows_of(pa.table({"k": [1, 2], "t": ["a", "b"]}))


def test_a_default_of_the_log_is_a_value_and_no_text(spark: Any, uri: str) -> None:
    """SCH-7: text that Spark would replace or unescape comes back unchanged."""
    texts = ["${env:HOME}", "${spark.app.name}", "it's ' OR \\' '", "`k` -- \n", "\\u0041 \\"]
    table = tablefmt.create(uri, "k INT")
    table.append(pa.table({"k": pa.array([0], pa.int32())}))
    for number, text in enumerate(texts):
        table.alter.add_column(f"t{number}", "STRING", default=text)
    tablefmt.spark.write(spark.sql("SELECT 1 AS k"), uri)
    table.append(pa.table({"k": pa.array([2], pa.int32())}))
    spark.sql(f"CREATE TABLE of_texts USING tablefmt OPTIONS (path '{uri}')")
    try:
        spark.sql("INSERT INTO of_texts (k) VALUES (3)")
    finally:
        spark.sql("DROP TABLE of_texts")
    found = tablefmt.spark.read(spark, uri).orderBy("k").collect()
    assert [tuple(row) for row in found] == [(k, *texts) for k in range(4)]
    where = " AND ".join(f"t{n} = {json.dumps(text)}" for n, text in enumerate(texts[2:3], 2))
    assert tablefmt.spark.open(spark, uri).delete(where).metrics["numDeletedRows"] == 4


FINE = """
k > 0 AND (t IS NULL OR t <> '') | k BETWEEN -5 AND 5 OR k IS NULL | k IN (1, 2, NULL)
k % 2 <> 1 | abs(k) + 1 >= 1 AND -k <> 7
k / 2 > 0 OR k DIV 2 = 0 OR k & 1 = 1 OR k ^ 1 = 0 OR ~k < 0 OR !(k = 1)
t LIKE 'a%' OR t ILIKE '_B%' OR t NOT LIKE '%!%%' ESCAPE '!' | t RLIKE '^[a-z]+$'
t REGEXP r'^\\w' | t LIKE ANY ('a%', 'b%') | upper(t) = 'AB' OR Lower ( t ) = t
length(trim(t)) <= 3 | t || 'x' <> 'x' | trim(BOTH 'a' FROM t) <> ''
substring(t FROM 1 FOR 1) = 'a' | position('b' IN t) > 0 | left(t, 1) = 'a'
substr(t, 1, 1) = "a" | concat(t, 'it''s', "q") <> '' | t <> 'a\\\\b' | t <> 'a\\tb' | t = 'a' 'b'
t != R"\\" | coalesce(t, 'x') <> 'x' AND ifnull(k, 0) = 0 OR nvl2(k, true, false)
nullif(k, 1) IS NULL | CASE WHEN k > 0 THEN t = 'ab' WHEN k IS NULL THEN NULL ELSE TRUE END
CASE k WHEN 1 THEN TRUE END | CASE WHEN(k > 1) THEN(true) ELSE(false) END
if(k > 0, t, 'no') = 'ab' | greatest(k, 1) > least(k, 2) | k IS DISTINCT FROM 1
k IS NOT DISTINCT FROM NULL | (k > 0) IS TRUE | (k > 0) IS NOT FALSE | k <=> NULL
(k > 0) IS UNKNOWN | CAST(k AS DECIMAL(10, 2)) < 5.5BD | k::STRING = '1'
try_cast(t AS INT) IS NULL | int('12') > k | k < 10L AND k < 1e3 AND k < 2.5D AND k < 100S
d > DATE '2020-01-01' | d < "2030-01-01" | ts > TIMESTAMP '2024-01-01 00:00:00'
ts >= TIMESTAMP_NTZ '2020-01-01' | year(d) = 2024 | month(ts) = 5
extract(YEAR FROM d) = 2024 AND EXTRACT(day FROM ts) < 32 | date_add(d, 1) > d
datediff(d, d) = 0 | d - INTERVAL '1' DAY < d | ts + INTERVAL 1 DAY 2 HOURS > ts
ts < ts + INTERVAL '1-2' YEAR TO MONTH | timestampdiff(DAY, ts, ts) = 0
date_trunc('MONTH', ts) <= ts | date_format(d, 'yyyy') = '2024' | unix_timestamp(ts) > 0
to_date('2024-01-01') < d | s.x > 0 AND s.`y.z` = 'q' | s['x'] = 1 | tags[0] = 1
size(tags) > 1 AND array_contains(tags, 1) | element_at(tags, 1) = 1 | m['a'] = 1
map_keys(m)[0] = 'a' | exists(tags, x -> x > 1) | forall(tags, e -> e > k - 5)
filter(tags, (x, i) -> i > 0)[0] = 2 | aggregate(tags, 0, (acc, x) -> acc + x, acc -> acc * 2) = 6
transform(tags, x -> x + k)[0] > 1 | sha2(t, 256) <> '' AND md5(t) <> crc32(t)::STRING
get_json_object('{"a": 1}', '$.a') = '1' | regexp_replace(t, '(a)', '$1$1') = 'aab'
split(t, 'b')[0] = 'a' | format_string('%s-%d', t, k) = 'ab-1'
`end` = 7 AND end = 7 AND `from` = 'f' AND from = 'f' | b = X'0A0b'
isnan(f) OR f > 0 OR f = double('NaN') | round(f, 1) = 1.5 OR floor(f) = 1
named_struct('a', k).a = 1 | struct(k, t).t = 'ab' | k /* c */ > 0 -- x
"""


def test_what_users_write_means_the_same_to_spark(spark: Any) -> None:
    """SQL-6: the original and the rewritten condition select the same rows."""
    rows = spark.sql(
        """
        SELECT CAST(k AS INT) AS k, t, DATE '2024-05-06' + k AS d, f, X'0A0B' AS b, 7 AS `end`,
          timestamp_seconds(1714953600 + 40000 * k) AS ts, 'f' AS `from`, map('a', k) AS m,
          named_struct('x', k, 'y.z', 'q') AS s, if(k IS NULL, NULL, array(1, 2)) AS tags
        FROM VALUES (1, 'ab', 1.5D), (0, '', 0.0D), (-3, 'B%', double('NaN')), (7, NULL, -1.0D),
          (NULL, 'a\\\\b', NULL), (2, 'a\\tb', 1.45D) AS v(k, t, f)
        """
    )
    texts = [text.strip() for line in FINE.strip().splitlines() for text in line.split(" | ")]
    pairs = {}
    for number, text in enumerate(texts):
        comparison = f"(\n{text}\n) <=> (\n{rewritten(text, rows.columns)}\n)"
        pairs[f"c{number}"] = comparison
    listed = ", ".join(f"bool_and({sql}) AS {name}" for name, sql in pairs.items())
    rows.createOrReplaceTempView("fine_rows")
    (found,) = spark.sql(f"SELECT {listed} FROM fine_rows").collect()
    assert [texts[n] for n, same in enumerate(found) if not same] == []
    assert len(texts) > 80


def test_the_functions_are_spark_s_own_and_of_one_row(spark: Any) -> None:
    """SQL-6: none is an aggregate, a window function or a generator, or made by the session."""
    registry = spark._jsparkSession.sessionState().functionRegistry()
    listed = registry.listFunction().iterator()
    groups = {}
    while listed.hasNext():
        name = listed.next()
        groups[name.funcName()] = registry.lookupFunction(name).get().getGroup()
    # The parser itself replaces these calls.
    known = PURE_FUNCTIONS - {"try_cast", "timestampadd", "timestampdiff"}
    assert known - groups.keys() == set()
    wrong = {"agg_funcs", "window_funcs", "generator_funcs", "misc_funcs", "xml_funcs", None}
    assert {name: groups[name] for name in known if groups[name] in wrong} == {}
