"""DELETE, UPDATE and MERGE by Spark, on both backends, beside a model in plain Python."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConcurrentModificationException,
    ConstraintViolationError,
    InvalidPredicateError,
    InvalidRangeError,
    MergeCardinalityError,
    SchemaMismatchError,
)
from tablefmt.snapshot.log_view import LogView
from tablefmt.spark.backends import row_level_operations
from tablefmt.spark.backends.backend_protocol import FILE, ROW
from tablefmt.spark.entry.spark_table import SparkTable

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])

Row = tuple[Any, ...]


def start(count: int = 40) -> list[Row]:
    return [(i, "ab"[i % 2], i * 0.5 if i % 7 else None) for i in range(count)]


def arrow(rows: list[Row]) -> pa.Table:
    return pa.table([list(c) for c in zip(*rows, strict=True)], SCHEMA)


@pytest.fixture
def table(spark: Any, uri: str, backend: str) -> SparkTable:
    """Return a table with forty rows in four files. Rows 3 and 13 are deleted already."""
    made = tablefmt.create(uri, SCHEMA)
    rows = start()
    for at in range(0, 40, 10):
        made.append(arrow(rows[at : at + 10]))
    made.delete("id IN (3, 13)")
    return tablefmt.spark.open(spark, uri)


def live(where: Callable[[Row], Any] = lambda row: True) -> list[Row]:
    return [row for row in start() if row[0] not in (3, 13) and where(row)]


def key(row: Row) -> list[tuple[bool, Any]]:
    return [(value is not None, value) for value in row]


def same(table: SparkTable, expected: list[Row]) -> None:
    """Spark and Arrow both see exactly these rows."""
    wanted = sorted(expected, key=key)
    assert sorted((tuple(r) for r in table.to_df().collect()), key=key) == wanted
    columns = table.table.refresh().to_arrow().to_pydict().values()
    assert sorted(zip(*columns, strict=True), key=key) == wanted


def data_files(table: SparkTable) -> set[str]:
    root = Path(table.table.uri) / "data"
    return {str(p.relative_to(root.parent)) for p in root.rglob("*") if p.is_file()}


def named_files(table: SparkTable) -> set[str]:
    """Data files that some version names."""
    history = LogView.open(table.table.context.store, whole=True).snapshot().history
    return {p for s in history.segments for p in s.files.table["path"].to_pylist()}


def source(spark: Any, rows: list[Row]) -> Any:
    return spark.createDataFrame(rows, "id long, p string, v double")


@pytest.mark.share(2)
@pytest.mark.parametrize("listed", [row_level_operations.LISTED_MAX, 1])
def test_delete_takes_out_the_rows_for_which_the_condition_is_true(
    table: SparkTable, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    """DEL-1: NULL is not true; positions come as a list or as bits."""
    monkeypatch.setattr(row_level_operations, "LISTED_MAX", listed)
    done = table.delete("v > 4 AND id % 3 = 0")
    gone = live(lambda r: r[2] is not None and r[2] > 4 and r[0] % 3 == 0)
    same(table, [r for r in live() if r not in gone])
    assert done.metrics["numDeletedRows"] == len(gone)


@pytest.mark.share(2)
@pytest.mark.share(2)
@pytest.mark.share(2)
def test_filter_tuples_are_conditions_too(spark: Any, table: SparkTable) -> None:
    """They mean the same as in `Table`, and the entry has the same text.

    NULL is outside of a set that does not name it, and `!=` leaves it out.
    """
    outside: list[tuple[str, str, Any]] = [("v", "not in", [0.5]), ("id", "<", 9)]
    table.delete(outside)
    text = table.table.history(1)["operationParameters"].to_pylist()
    rest = live(lambda row: not (row[2] != 0.5 and row[0] < 9))
    same(table, rest)

    either: list[list[tuple[str, str, Any]]] = [
        [("v", "!=", 10.0), ("id", ">=", 20)],
        [("id", "=", 1)],
    ]
    table.update({"p": "'z'"}, either)
    changes = [
        (i, "z" if i == 1 or (i >= 20 and v not in (None, 10.0)) else p, v) for i, p, v in rest
    ]
    same(table, changes)
    table.overwrite(source(spark, [(1, "y", None)]), where=[("id", "in", [1])])
    same(table, [row if row[0] != 1 else (1, "y", None) for row in changes])

    other = tablefmt.create(f"memory://filters-{id(table)}", SCHEMA)
    other.append(arrow(start()))
    other.delete(outside)
    assert other.history(1)["operationParameters"].to_pylist() == text
    for verb in (table.delete, table.truncate):
        with pytest.raises(InvalidPredicateError, match="filters have an empty list"):
            verb([])


def test_a_file_of_which_every_row_goes_is_removed(table: SparkTable) -> None:
    done = table.delete("id BETWEEN 10 AND 19 OR id = 20")
    same(table, live(lambda r: not 10 <= r[0] <= 20))
    assert (done.metrics["numRemovedFiles"], done.metrics["numDeletionVectorsAdded"]) == (1, 1)


def test_nothing_to_delete_makes_no_version(table: SparkTable) -> None:
    before = table.table.version
    assert table.delete("id = 3").no_op
    assert table.update({"v": "1"}, "id > 1000").no_op
    assert table.table.refresh().version == before


def test_update_gives_new_values_computed_from_old_rows(table: SparkTable) -> None:
    """ENT-9: types follow the rules of INSERT. The old rows count as updated, not deleted."""
    done = table.update({"v": "id + 1", "p": "concat(p, '!')"}, "id % 4 = 1")
    hit = live(lambda r: r[0] % 4 == 1)
    after = [(i, p + "!", float(i + 1)) for i, p, _ in hit]
    same(table, [r for r in live() if r not in hit] + after)
    assert done.metrics["numUpdatedRows"] == len(hit)
    marked = table.table.context.view.snapshot(done.version).deltas
    maps = marked.maps.filter(pa.array(marked.version == done.version))
    assert maps["deleted"].null_count == maps.num_rows == 4
    assert maps["updated"].null_count == 0


def test_every_row_can_be_updated_and_updated_again(table: SparkTable) -> None:
    table.update({"p": "'x'"})
    table.update({"v": "v + 1", "p": "p || id"})
    same(table, [(i, f"x{i}", None if v is None else v + 1) for i, _, v in live()])


def test_files_of_the_table_hold_the_places_and_no_reader_sees_them(
    table: SparkTable, backend: str
) -> None:
    """DAT-11: hidden columns are neither in the schema nor in any answer."""
    before = data_files(table)
    table.update({"v": "0"}, "id < 5")
    assert table.to_df().columns == ["id", "p", "v"]
    assert table.table.to_arrow().column_names == ["id", "p", "v"]
    assert table.table.verify(deep=True).ok
    (made,) = sorted(data_files(table) - before)
    names = pq.read_schema(Path(table.table.uri) / made).names
    assert names == ([*SCHEMA.names, FILE, ROW] if backend == "native" else SCHEMA.names)


def test_all_clauses_of_a_merge_apply_in_order(spark: Any, table: SparkTable) -> None:
    """MRG-1: the first that holds; rows that none applies to stay as they are."""
    rows = [(i, "s", float(i)) for i in range(30, 50)] + [(None, "null", 0.0)]
    done = (
        table.merge(source(spark, rows), "t.id = s.id")
        .when_matched_delete("s.id % 5 = 0")
        .when_matched_update({"v": "t.v + s.v"}, "s.id < 36")
        .when_matched_update({"p": "s.p"}, "s.id > 37")
        .when_not_matched_insert_all("s.id < 45")
        .when_not_matched_insert({"id": "s.id"}, "s.id > 46")
        .when_not_matched_by_source_update({"p": "'old'"}, "t.id < 5")
        .when_not_matched_by_source_delete("id < 8")
        .execute()
    )
    expected: list[Row] = []
    for i, p, v in live():
        if i >= 30:
            if i % 5 == 0:
                continue
            if i < 36:
                v = None if v is None else v + i
            elif i > 37:
                p = "s"
        elif i < 5:
            p = "old"
        elif i < 8:
            continue
        expected.append((i, p, v))
    expected += [(i, "s", float(i)) for i in range(40, 45)]
    expected += [(i, None, None) for i in range(47, 50)]
    same(table, expected)
    counted = {n: done.metrics[f"numTargetRows{n}"] for n in ("Inserted", "Updated", "Deleted")}
    assert counted == {"Inserted": 8, "Updated": 10, "Deleted": 5}
    assert done.metrics["numSourceRows"] == 21


@pytest.mark.share(2)
def test_a_merge_of_keys_opens_the_files_that_can_hold_them(spark: Any, table: SparkTable) -> None:
    """MRG-3: the source's values decide. A range is enough for too many values."""
    merge = table.merge(source(spark, [(12, "m", 1.0), (77, "m", 2.0)]), "t.id = s.id")
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    assert "1 of 4 files" in merge.explain()
    merge.execute()
    same(table, [*live(lambda r: r[0] != 12), (12, "m", 1.0), (77, "m", 2.0)])


@pytest.mark.share(2)
def test_insert_only_and_delete_only_merges(spark: Any, table: SparkTable) -> None:
    rows = source(spark, [(5, "n", 0.0), (5, "n", 1.0), (99, "n", 2.0), (99, "n", 3.0)])
    table.merge(rows, "t.id = s.id").when_not_matched_insert_all().execute()
    same(table, [*live(), (99, "n", 2.0), (99, "n", 3.0)])
    table.merge(rows, "t.id = s.id").when_matched_delete().execute()
    same(table, live(lambda r: r[0] != 5))


@pytest.mark.share(2)
def test_several_source_rows_for_one_row_are_refused_by_their_keys(
    spark: Any, table: SparkTable
) -> None:
    """MRG-2: no file stays."""
    before = data_files(table)
    rows = source(spark, [(7, "a", 0.0), (7, "b", 1.0), (8, "c", 2.0)])
    with pytest.raises(MergeCardinalityError, match="id=7") as caught:
        table.merge(rows, "t.id = s.id").when_matched_update_all().execute()
    assert caught.value.keys == [{"id": 7}]
    same(table, live())
    assert data_files(table) == before
    only_one = table.merge(rows, "t.id = s.id").when_matched_update({"p": "s.p"}, "s.p <> 'a'")
    only_one.execute()
    same(table, [(i, {7: "b", 8: "c"}.get(i, p), v) for i, p, v in live()])


@pytest.mark.share(2)
def test_a_source_that_chance_decides_is_read_once(spark: Any, table: SparkTable) -> None:
    """Every source row is matched or inserted, never both and never neither."""
    rows = spark.range(60).selectExpr(
        "if(rand() < 0.5, id, id + 1000) AS id", "'r' AS p", "id * 1.0D AS v"
    )
    merge = table.merge(rows, "t.id = s.id").when_matched_update({"p": "s.p", "v": "s.v"})
    merge.when_not_matched_insert_all().execute()
    found = [tuple(r) for r in table.to_df().where("p = 'r'").collect()]
    assert sorted(v for _, _, v in found) == [float(n) for n in range(60)]
    assert len({i for i, _, _ in found}) == 60


@pytest.mark.share(2)
def test_the_source_may_be_the_table_at_another_version(table: SparkTable) -> None:
    table.update({"v": "-1"})
    old = table.to_df(version=5).where("id < 20")
    table.merge(old, "t.id = s.id").when_matched_update_all().execute()
    same(table, [(i, p, v if i < 20 else -1.0) for i, p, v in live()])


@pytest.mark.share(2)
def test_null_keys_never_match_unless_they_are_asked_to(spark: Any, table: SparkTable) -> None:
    table.table.append(arrow([(None, "n", 0.0)]))
    rows = source(spark, [(None, "new", 1.0)])
    assert table.merge(rows, "t.id = s.id").when_matched_delete().execute().no_op
    table.merge(rows, "t.id <=> s.id").when_matched_update_all().execute()
    same(table, [*live(), (None, "new", 1.0)])


def test_a_column_that_one_of_several_inserts_leaves_out_has_its_default(
    spark: Any, table: SparkTable
) -> None:
    """MRG-2, SCH-7."""
    table.alter.set_default("v", 7.5)
    merge = table.merge(source(spark, [(100, "x", 1.0), (101, "y", 2.0)]), "t.id = s.id")
    merge = merge.when_not_matched_insert({"id": "s.id", "v": "s.v"}, "s.id = 100")
    merge.when_not_matched_insert({"id": "s.id", "p": "s.p"}).execute()
    same(table, [*live(), (100, None, 1.0), (101, "y", 7.5)])


def test_a_row_moves_to_the_partition_of_its_new_value(spark: Any, uri: str, backend: str) -> None:
    """ADD-4: files hold rows of one partition; conditions on partitions take whole files."""
    tablefmt.create(uri, SCHEMA, partition_by=["p"]).append(arrow(start()))
    table = tablefmt.spark.open(spark, uri)
    table.update({"p": "'b'"}, "id < 10")
    same(table, [(i, "b" if i < 10 else p, v) for i, p, v in start()])
    before = {r[0] for r in start() if r[1] == "a" and r[0] >= 10}
    done = table.delete("p = 'a'")
    assert done.metrics["numDeletedRows"] == len(before)
    assert done.metrics["numDeletionVectorsAdded"] == 0
    same(table, [(i, "b" if i < 10 else p, v) for i, p, v in start() if i not in before])


@pytest.mark.share(2)
def test_copy_on_write_leaves_no_deletion_vector(spark: Any, uri: str, backend: str) -> None:
    tablefmt.create(uri, SCHEMA, properties={"deleteMode": "copy-on-write"}).append(arrow(start()))
    table = tablefmt.spark.open(spark, uri)
    table.delete("id % 2 = 0")
    table.update({"v": "1"}, "id = 5")
    rows = source(spark, [(7, "m", 7.0), (50, "m", 8.0)])
    merge = table.merge(rows, "t.id = s.id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    changed = {5: (5, "b", 1.0), 7: (7, "m", 7.0)}
    same(table, [changed.get(r[0], r) for r in start() if r[0] % 2] + [(50, "m", 8.0)])
    snapshot = table.table.context.view.snapshot(table.table.refresh().version)
    assert set(snapshot.files["deleted"].to_pylist()) == {0}


def flaky_in(spark: Any, folder: Path) -> None:
    """A function `flaky`, id + 1000: the first attempt of a task fails at an id that ends in 9."""
    marks = str(folder)

    def flaky(value: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        stage = f"{context.stageId()}-{context.partitionId()}" if context else "none"
        mark = os.path.join(marks, f"failed-{stage}")
        if value % 10 == 9 and not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("the first attempt")
        return value + 1000

    spark.udf.register("flaky", flaky, "long")


def flaky_merge(spark: Any, table: SparkTable) -> list[Row]:
    rows = source(spark, [(i, "s", float(i)) for i in (8, 9, 19, 49, 59)]).repartition(2)
    merge = table.merge(rows, "t.id = s.id AND flaky(t.id) > 0")
    merge = merge.when_matched_update({"v": "flaky(t.id)"}, "flaky(s.id) <> 1019")
    merge = merge.when_matched_delete()
    merge.when_not_matched_insert({"id": "s.id", "v": "flaky(s.id)"}).execute()
    kept = [(i, p, i + 1000.0 if i in (8, 9) else v) for i, p, v in live() if i != 19]
    return [*kept, (49, None, 1049.0), (59, None, 1059.0)]


def flaky_update(spark: Any, table: SparkTable) -> list[Row]:
    table.update({"v": "flaky(id)"}, "id >= 5")
    return [(i, p, float(i + 1000) if i >= 5 else v) for i, p, v in live()]


def flaky_delete(spark: Any, table: SparkTable) -> list[Row]:
    table.delete("flaky(id) % 3 = 0")
    return live(lambda r: (r[0] + 1000) % 3 != 0)


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("statement", "mode"),
    [
        (flaky_update, "merge-on-read"),
        (flaky_delete, "copy-on-write"),
        (flaky_merge, "merge-on-read"),
        pytest.param(flaky_update, "copy-on-write", marks=pytest.mark.soak),
        pytest.param(flaky_delete, "merge-on-read", marks=pytest.mark.soak),
        pytest.param(flaky_merge, "copy-on-write", marks=pytest.mark.soak),
    ],
)
def test_a_task_that_fails_once_leaves_no_row_twice(
    spark: Any, table: SparkTable, tmp_path: Path, statement: Any, mode: str
) -> None:
    """Exactly the files that winning attempts wrote are in the table and on disk."""
    table.alter.set_properties({"deleteMode": mode})
    flaky_in(spark, tmp_path)
    before = data_files(table), named_files(table)
    expected = statement(spark, table)
    assert [name for name in os.listdir(tmp_path) if name.startswith("failed-")] != []
    same(table, expected)
    assert data_files(table) - before[0] == named_files(table) - before[1]
    assert table.table.verify(deep=True).ok


@pytest.mark.share(2)
def test_a_query_that_fails_leaves_the_table_and_no_file(spark: Any, table: SparkTable) -> None:
    before = data_files(table)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        table.update({"v": "1 div (id - 7)"})
    same(table, live())
    assert data_files(table) == before


@pytest.mark.share(2)
def test_statements_on_other_rows_of_one_file_both_commit(spark: Any, table: SparkTable) -> None:
    """CFL-10: a change of other rows is rebased. A change of a row that was read is a conflict."""
    other = tablefmt.open(table.table.uri).transaction()
    same_row = tablefmt.open(table.table.uri).transaction()
    table.update({"v": "100"}, "id = 21")
    other.delete("id = 22").commit()
    same(table, [(i, p, 100.0 if i == 21 else v) for i, p, v in live(lambda r: r[0] != 22)])
    with pytest.raises(ConcurrentModificationException):
        same_row.delete("id = 21").commit()


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (lambda t, s: t.delete("nope = 1"), InvalidPredicateError),
        (lambda t, s: t.delete("id = 1; DROP TABLE x"), InvalidPredicateError),
        (lambda t, s: t.update({"nope": "1"}), SchemaMismatchError),
        (lambda t, s: t.update({"id": "1", "`id`": "2"}), SchemaMismatchError),
        (lambda t, s: t.update({}), InvalidPredicateError),
        (lambda t, s: t.update({"v": 1}), InvalidPredicateError),
        (lambda t, s: t.delete(1), InvalidPredicateError),
        (lambda t, s: t.merge(s, 1).when_matched_delete().execute(), InvalidPredicateError),
        (
            lambda t, s: (
                t.merge(s, "t.id = s.id").when_not_matched_by_source_update({"v": "s.v"}).execute()
            ),
            InvalidPredicateError,
        ),
        (
            lambda t, s: (
                t.merge(s, "t.id = s.id")
                .when_not_matched_by_source_delete("s.id IS NULL")
                .execute()
            ),
            InvalidPredicateError,
        ),
        (lambda t, s: t.update({"id": "array(1)"}), SchemaMismatchError),
        (lambda t, s: t.merge(s, "t.id = s.id").execute(), InvalidPredicateError),
        (lambda t, s: t.merge(s, "id = 1").when_matched_delete().execute(), InvalidPredicateError),
        (
            lambda t, s: (
                t.merge(s, "t.id = s.id").when_matched_delete().when_matched_update_all().execute()
            ),
            InvalidPredicateError,
        ),
        (
            lambda t, s: t.merge(s, "t.id = s.x").when_matched_delete().execute(),
            InvalidPredicateError,
        ),
        (
            lambda t, s: (
                t.merge(s, "t.id = s.id")
                .when_matched_update({"v": "array(1)"}, "s.id = 1")
                .when_matched_delete()
                .execute()
            ),
            SchemaMismatchError,
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    spark: Any, uri: str, statement: Any, error: type[Exception]
) -> None:
    tablefmt.create(uri, SCHEMA).append(arrow(start()))
    table = tablefmt.spark.open(spark, uri)
    with pytest.raises(error):
        statement(table, source(spark, [(1, "x", 1.0)]))
    assert table.table.refresh().version == 1


CHANCE = {
    "delete": lambda t, s, c: t.delete(c),
    "update": lambda t, s, c: t.update({"v": "1"}, f"id > 3 AND {c}"),
    "on": lambda t, s, c: t.merge(s, f"t.id = s.id AND {c}").when_matched_delete().execute(),
    "matched": lambda t, s, c: (
        t.merge(s, "t.id = s.id").when_matched_delete("s.id = 1").when_matched_delete(c).execute()
    ),
    "not matched": lambda t, s, c: (
        t.merge(s, "t.id = s.id").when_not_matched_insert_all(c).execute()
    ),
    "by source": lambda t, s, c: (
        t.merge(s, "t.id = s.id").when_not_matched_by_source_delete(c).execute()
    ),
    "replaceWhere": lambda t, s, c: t.overwrite(s, where=c),
}
"""Statements with a condition, over a table and a source."""


@pytest.mark.share(2)
@pytest.mark.parametrize("name", CHANCE)
def test_a_condition_that_chance_decides_is_refused(spark: Any, uri: str, name: str) -> None:
    tablefmt.create(uri, SCHEMA).append(arrow(start()))
    table = tablefmt.spark.open(spark, uri)
    given = source(spark, [(1, "x", 1.0), (99, "y", 2.0)])
    with pytest.raises(InvalidPredicateError, match=r"(?i)deterministic"):
        CHANCE[name](table, given, "rand() < 0.5")
    assert table.table.refresh().version == 1
    assert data_files(table) == named_files(table)


def test_nothing_is_taken_out_of_a_table_that_only_grows(spark: Any, uri: str) -> None:
    tablefmt.create(uri, SCHEMA, properties={"appendOnly": True}).append(arrow(start()))
    table = tablefmt.spark.open(spark, uri)
    with pytest.raises(ConstraintViolationError):
        table.delete("id = 1")
    with pytest.raises(ConstraintViolationError):
        table.update({"v": "1"}, "id = 1")
    rows = source(spark, [(1, "x", 1.0), (100, "x", 1.0)])
    with pytest.raises(ConstraintViolationError):
        table.merge(rows, "t.id = s.id").when_matched_delete().execute()
    table.merge(rows, "t.id = s.id").when_not_matched_insert_all().execute()
    same(table, [*start(), (100, "x", 1.0)])


@pytest.mark.share(2)
def test_replace_where_replaces_rows_that_only_a_look_at_them_tells(
    spark: Any, table: SparkTable
) -> None:
    """MRG-6: rows outside the condition stay; a new row outside it is refused."""
    new = source(spark, [(200, "r", 99.0), (201, "r", 98.5)])
    tablefmt.spark.write(new, table.table.uri, mode="overwrite", replaceWhere="v > 15 OR id = 0")
    kept = live(lambda r: not (r[0] == 0 or (r[2] is not None and r[2] > 15)))
    same(table, [*kept, (200, "r", 99.0), (201, "r", 98.5)])
    before = data_files(table)
    with pytest.raises(ConstraintViolationError, match="does not match"):
        tablefmt.spark.write(
            source(spark, [(300, "r", 20.0), (301, "r", None)]),
            table.table.uri,
            mode="overwrite",
            replaceWhere="v > 15",
        )
    assert data_files(table) == before
    same(table, [*kept, (200, "r", 99.0), (201, "r", 98.5)])


def test_files_are_left_out_by_the_times_that_spark_understands(spark: Any, uri: str) -> None:
    """MRG-6: in New York 2020-01-01 begins five hours later, so 03:00 UTC is before it."""
    early = dt.datetime(2020, 1, 1, 3, tzinfo=dt.timezone.utc)
    table = tablefmt.create(uri, "s string, c timestamp")
    table.append(pa.table({"s": ["a"], "c": [early]}))
    where = "upper(s) = 'A' AND c < '2020-01-01 00:00:00'"
    new = spark.createDataFrame([("a", early - dt.timedelta(1))], "s string, c timestamp")
    tablefmt.spark.write(new, uri, mode="overwrite", replaceWhere=where)
    assert tablefmt.open(uri).to_arrow()["c"].to_pylist() == [early - dt.timedelta(1)]


def test_two_ways_to_say_what_is_replaced_are_an_error(spark: Any, table: SparkTable) -> None:
    with pytest.raises(InvalidRangeError):
        tablefmt.spark.write(
            source(spark, [(1, "a", 0.0)]),
            table.table.uri,
            mode="overwrite",
            replaceWhere="v > 15",
            partitionOverwriteMode="dynamic",
        )


def test_an_empty_frame_replaces_no_partition_dynamically(
    spark: Any, uri: str, backend: str
) -> None:
    tablefmt.create(uri, SCHEMA, partition_by=["p"]).append(arrow(start()))
    table = tablefmt.spark.open(spark, uri)
    done = table.overwrite(source(spark, []), dynamic_partitions=True)
    assert done.no_op
    same(table, start())


@pytest.mark.parametrize("plane", ["native", pytest.param("arrow", marks=pytest.mark.soak)])
def test_a_value_beyond_its_column_is_refused_by_every_statement(
    spark: Any, uri: str, plane: str, use_backend: Any
) -> None:
    """SQL-3, DAT-2: UPDATE, MERGE, and a pipe with keys."""
    use_backend(plane)
    tablefmt.spark.register(spark)
    table = tablefmt.create(uri, "id BIGINT, n INT")
    table.append(pa.table({"id": [1], "n": pa.array([1], pa.int32())}))
    before = sorted(os.walk(uri))
    opened = tablefmt.spark.open(spark, uri)
    source = spark.range(1, 2).selectExpr("id", "id + 3000000000 AS n")
    spark.sql(f"CREATE TABLE beyond USING tablefmt OPTIONS (path '{uri}')")
    wide = tablefmt.create(f"{uri}-source", "id BIGINT, n BIGINT")
    wide.append({"id": [2], "n": [2**40]})
    pipe = tablefmt.spark.pipe(spark, wide)
    for change in (
        lambda: opened.update({"n": "n + 3000000000"}),
        lambda: opened.merge(source, "t.id = s.id").when_matched_update_all().execute(),
        lambda: spark.sql("UPDATE beyond SET n = n + 3000000000").collect(),
        lambda: pipe.into(uri, keys="id"),
    ):
        with pytest.raises(SchemaMismatchError, match="does not fit column 'n'") as caught:
            change()
        assert caught.value.columns == ["n"]
    spark.sql("DROP TABLE beyond")
    assert sorted(os.walk(uri)) == before


def test_swapped_arguments_are_refused_with_what_was_expected(spark: Any, uri: str) -> None:
    """A MERGE that is never executed warns."""
    tablefmt.create(uri, SCHEMA)
    table: Any = tablefmt.spark.open(spark, uri)
    rows = spark.range(1)
    for change, said in (
        (lambda: table.update("id = 2", {"id": "3"}), "expected a dict of column -> SQL text"),
        (lambda: table.update({"id": "3"}, {"id": "2"}), "expected SQL text, .* got dict"),
        (lambda: table.delete({"id": "2"}), "expected SQL text, .* got dict"),
        (lambda: table.truncate(5), "expected SQL text, .* got int"),
        (lambda: table.overwrite(rows, 5), "expected SQL text, .* got int"),
        (lambda: table.append("id = 2"), "pass the rows before the condition"),
        (lambda: table.merge("s.id = t.id", rows).when_matched_delete().execute(), "expected rows"),
        (lambda: table.restore("2024-01-01"), "pass a time as a timestamp"),
    ):
        with pytest.raises(tablefmt.errors.TablefmtError, match=said):
            change()
    with pytest.warns(UserWarning, match="never executed"):
        table.merge(rows, "s.id = t.id").when_matched_delete()
    assert table.table.refresh().version == 0


@pytest.mark.share(2)
def test_columns_that_only_the_source_has_come_into_the_table(
    spark: Any, uri: str, backend: str
) -> None:
    """MRG-2, SCH-8: one commit of columns and rows; older versions stay as they were."""
    tablefmt.create(uri, SCHEMA).append(arrow(start(4)))
    table = tablefmt.spark.open(spark, uri)
    source = spark.sql("SELECT * FROM VALUES (1L, 'n1', 10), (9L, 'n9', 90) AS s(id, note, many)")
    with pytest.raises(SchemaMismatchError, match="merge_schema"):
        table.merge(source, "t.id = s.id").when_matched_update_all().execute()
    merge = table.merge(source, "t.id = s.id", merge_schema=True)
    commit = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert commit.version == 2
    old = {row[0]: (*row, None, None) for row in start(4)}
    old[1] = (*old[1][:3], "n1", 10)
    expected = [*old.values(), (9, None, None, "n9", 90)]
    assert table.to_df().columns == ["id", "p", "v", "note", "many"]
    assert sorted(map(tuple, table.to_df().collect())) == sorted(expected)
    assert sorted(map(tuple, table.to_df(version=1).collect()), key=key) == sorted(
        start(4), key=key
    )
