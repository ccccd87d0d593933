"""Row changes of every kind of commit, by Spark: those of a plain model, as Arrow's are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt.spark
from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.errors import InvalidRangeError, VersionNotFoundError
from tablefmt.spark.jvm import java_classes
from tests.changes.histories import History
from tests.changes.test_dropped_columns import CASES, CONDITIONS, as_text, expected, table_of


def found(frame: Any) -> dict[int, Counter[Any]]:
    """Change rows as (type, row), by version."""
    rows: dict[int, Counter[Any]] = {}
    for row in frame.collect():
        given = row.asDict()
        values = tuple(v for n, v in given.items() if n not in CHANGE_COLUMNS.names)
        change = (given.get("_change_type", "insert"), values)
        rows.setdefault(given["_commit_version"], Counter())[change] += 1
    return rows


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("seed", "backend"),
    [
        (3, "native"),
        (8, "native"),
        (3, "arrow"),
        pytest.param(2, "native", marks=pytest.mark.soak),
        pytest.param(2, "arrow", marks=pytest.mark.soak),
    ],
)
def test_windows_of_a_history_have_the_rows_of_the_model(
    spark: Any, uri: str, seed: int, backend: str, use_backend: Any
) -> None:
    """INC-3 .. INC-6: any commits in any order, for each content."""
    use_backend(backend)
    history = History(seed, uri).run(11)
    table = tablefmt.spark.open(spark, uri)
    head = len(history.versions) - 1
    for a, b in ((0, head), (2, head - 1), (head // 2, head)):
        asked: Any = {"after_version": a, "ending_version": b}
        changes, expected = found(table.changes(**asked)), history.changes(a, b)
        for each in expected:
            each.check(changes.get(each.version, Counter()))
        assert changes.keys() <= {each.version for each in expected}
        net = found(table.changes(**asked, content="net"))
        history.net(a, b).check(net.get(b, Counter()))
        assert net.keys() <= {b}
        new = table.changes(**asked, content="append")
        assert new.columns[-2:] == ["_commit_version", "_commit_timestamp"]
        history.net(a, b).check(found(new).get(b, Counter()), only="insert")


@pytest.mark.share(14)
@pytest.mark.parametrize("backend", ["native", "arrow"])
@pytest.mark.parametrize("name", CASES)
def test_a_column_that_was_dropped_then_is_null(
    spark: Any, uri: str, name: str, backend: str, use_backend: Any
) -> None:
    """INC-4, INC-6: no column of files that the schema lost, in what cancels or a condition."""
    use_backend(backend)
    case = CASES[name]
    table_of(case, uri, compacted=False)
    changes = tablefmt.spark.open(spark, uri).changes
    for text, test in [("TRUE", lambda _: True), *CONDITIONS]:
        rows = [row.asDict(True) for row in changes(**case.asked, where=text).collect()]
        assert as_text(rows) == expected(case, test), text


def changed(uri: str) -> tablefmt.Table:
    """Versions 1 to 5: an append, an update and a delete of the same file, an append, a restore."""
    table = tablefmt.create(uri, "id BIGINT, f DOUBLE, m MAP<STRING, DOUBLE>")
    rows = {
        "id": list(range(6)),
        "f": [0.0, -0.0, math.nan, None, 1.0, 2.0],
        "m": [[("a", -0.0)]] * 6,
    }
    table.append(pa.table(rows, table.schema))
    table.update({"f": "0.5"}, "id < 2")
    table.delete("id > 3")
    table.append(pa.table({"id": [9], "f": [1.0], "m": [None]}, table.schema))
    table.restore(version=1)
    return table


def rows_by_text(rows: Iterable[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


FORMATS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"startingVersion": 0}, {"starting_version": 0}),
    ({"startingVersion": 2, "endingVersion": 3}, {"starting_version": 2, "ending_version": 3}),
    (
        {"startingVersion": "1", "startingBoundInclusive": "false", "changeContent": "net"},
        {"after_version": 1, "content": "net"},
    ),
    (
        {"startingVersion": 1, "endingVersion": 5, "endingBoundInclusive": "FALSE"},
        {"starting_version": 1, "ending_version": 4},
    ),
    (
        {"startingVersion": 2, "changeContent": "append", "changeSchema": "start"},
        {"starting_version": 2, "content": "append", "schema": "start"},
    ),
    (
        {"startingVersion": 5, "startingBoundInclusive": "false"},
        {"after_version": 5},
    ),
]


CHOSEN = [("native", *each) for each in FORMATS] + [("arrow", *each) for each in FORMATS[1:3]]


@pytest.mark.share(4)
@pytest.mark.parametrize(("backend", "options", "asked"), CHOSEN, ids=str)
def test_the_format_reads_changes_by_options(
    spark: Any, uri: str, options: Any, asked: Any, backend: str, use_backend: Any
) -> None:
    """INC-1, INC-3, INC-6: each content as by the verb; a filter and a join see the same rows."""
    use_backend(backend)
    tablefmt.spark.register(spark)
    table = changed(uri)
    reader = spark.read.format("tablefmt").option("readChangeFeed", "true").options(**options)
    frame = reader.load(uri)
    wanted = table.changes(**asked)
    assert frame.columns == wanted.schema.names
    plain = [{**r, "m": r["m"] and dict(r["m"])} for r in wanted.to_arrow().to_pylist()]
    found = [{**row.asDict(), "m": row.m} for row in frame.collect()]
    drop = "_commit_timestamp"
    expected = rows_by_text(tuple(v for k, v in r.items() if k != drop) for r in plain)
    assert rows_by_text(tuple(v for k, v in r.items() if k != drop) for r in found) == expected
    assert frame.where("id = 9").count() == sum(r["id"] == 9 for r in plain)
    pairs = frame.alias("a").join(frame.alias("b"), "id").count()
    assert pairs == sum(a["id"] == b["id"] for a in plain for b in plain)


def test_an_analyzer_that_takes_no_rule_leaves_it_to_the_optimizer(
    spark: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INC-3: the optimizer's rule gives the changes, also in a self-join and with a condition."""
    from py4j.protocol import Py4JError

    new_instance = java_classes.new_instance

    def refusing(session: Any, name: str, *values: Any) -> Any:
        if name == "RowCommands":
            raise Py4JError("it has no such field")
        return new_instance(session, name, *values)

    monkeypatch.setattr(java_classes, "new_instance", refusing)
    session = spark.newSession()
    tablefmt.spark.register(session)
    table = changed(uri)
    reader = session.read.format("tablefmt").option("readChangeFeed", True)
    frame = reader.option("startingVersion", 1).load(uri)
    wanted = [r["id"] for r in table.changes(starting_version=1).to_arrow().to_pylist()]
    assert sorted(row.id for row in frame.collect()) == sorted(wanted)
    assert sorted(row.id for row in frame.where("id > 3").collect()) == sorted(
        i for i in wanted if i > 3
    )
    assert frame.alias("a").join(frame.alias("b"), "id").count() == sum(
        a == b for a in wanted for b in wanted
    )


def test_times_are_bounds_too(spark: Any, uri: str) -> None:
    """INC-2: inclusive, and exclusive on request."""
    tablefmt.spark.register(spark)
    when = {r["version"]: r["timestamp"].isoformat() for r in changed(uri).history().to_pylist()}
    reader = spark.read.format("tablefmt").option("readChangeFeed", True)
    reader = reader.option("startingTimestamp", when[2]).option("endingTimestamp", when[4])

    def versions(frame: Any) -> set[int]:
        return {row[0] for row in frame.select("_commit_version").distinct().collect()}

    assert versions(reader.load(uri)) == {2, 3, 4}
    assert versions(reader.option("startingBoundInclusive", False).load(uri)) == {3, 4}
    assert versions(reader.option("endingBoundInclusive", False).load(uri)) == {3}
    spark.sql(
        "CREATE TEMPORARY VIEW feed USING tablefmt OPTIONS "
        f"(path '{uri}', readChangeFeed 'true', startingVersion '2', endingVersion '2')"
    )
    kinds = spark.sql("SELECT _change_type, count(*) FROM feed GROUP BY 1 ORDER BY 1").collect()
    assert [tuple(row) for row in kinds] == [("update_postimage", 2), ("update_preimage", 2)]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"startingVersion": 1}, "readChangeFeed"),
    ({"readChangeFeed": True}, "exactly one"),
    ({"readChangeFeed": True, "startingVersion": 1, "endingVersion": 0}, "after its end"),
    (
        {
            "readChangeFeed": True,
            "startingVersion": 0,
            "endingVersion": 0,
            "endingBoundInclusive": False,
        },
        "endingVersion=0 and endingBoundInclusive=false",
    ),
    ({"readChangeFeed": True, "startingVersion": 1, "versionAsOf": 1}, "versionAsOf"),
    ({"readChangeFeed": True, "startingTimestamp": "later"}, "later"),
    ({"readChangeFeed": True, "startingVersion": 1, "changeContent": "all"}, "all"),
    ({"readChangeFeed": True, "startingVersion": 1, "changeSchema": "new"}, "new"),
    (
        {"readChangeFeed": True, "startingVersion": 1, "startingTimestamp": "2020-01-01"},
        "exactly one",
    ),
    ({"readChangeFeed": "perhaps", "startingVersion": 1}, "true or false"),
]


@pytest.mark.parametrize(("options", "match"), REFUSED, ids=str)
def test_options_that_make_no_sense_are_refused(
    spark: Any, uri: str, options: Any, match: str
) -> None:
    """INC-1, INC-2."""
    tablefmt.spark.register(spark)
    tablefmt.create(uri, "id BIGINT").append(pa.table({"id": [1]}))
    with pytest.raises(InvalidRangeError, match=match):
        spark.read.format("tablefmt").options(**options).load(uri)
    for version in (-1, 7, "soon"):  # Text is the name of a tag, and there is none.
        reader = spark.read.format("tablefmt").option("readChangeFeed", True)
        with pytest.raises(VersionNotFoundError):
            reader.option("startingVersion", version).load(uri)


def test_conditions_and_columns_of_the_verb_reach_the_rows(spark: Any, uri: str) -> None:
    """INC-3: text, filter tuples or a Column; columns in the order asked for."""
    table = changed(uri)
    wanted = table.changes(starting_version=1, columns=["f", "id"], where="id > 2").to_arrow()
    expected = rows_by_text(
        r.values() for r in wanted.drop_columns("_commit_timestamp").to_pylist()
    )
    from pyspark.sql.functions import col

    for where in ("id > 2", [("id", ">", 2)], col("id") > 2):
        frame = tablefmt.spark.open(spark, uri).changes(
            starting_version=1, columns=["f", "id"], where=where
        )
        assert frame.columns == wanted.schema.names
        assert rows_by_text(frame.drop("_commit_timestamp").collect()) == expected
