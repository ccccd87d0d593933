"""Tables that are partitioned by transforms such as `days(ts)` (spec/hidden.md)."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg import transforms, types

import tablefmt
from tablefmt.errors import (
    ConcurrentModificationException,
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.partition_transforms import PartitionTransform
from tablefmt.operations.create import create
from tablefmt.spark.spark_options import pop_partition_by
from tablefmt.store.store_wrappers import CountingStore
from tests.oracle import assert_agrees
from tests.tables import memory

UTC = dt.timezone.utc
BY = ["days(ts)", "bucket(4, id)", "truncate(2, s)"]
COLUMNS = "id BIGINT, s STRING, ts TIMESTAMP"


def row(number: int | None, day: int = 1, text: str | None = "abc") -> dict[str, Any]:
    when = None if number is None else dt.datetime(2026, 1, day, 5, tzinfo=UTC)
    return {"id": number, "s": text, "ts": when}


DAY_2, DAY_3 = (f"TIMESTAMP '2026-01-0{day} 00:00:00Z'" for day in (2, 3))
ROWS = [row(n, 1 + n % 3, "ab" if n % 2 else "xyz") for n in range(12)] + [row(None, text=None)]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[tablefmt.Table]:
    made = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=BY)
    made.append(ROWS)
    yield made
    assert_agrees(made)


def rows_of(table: tablefmt.Table, **given: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow(**given).to_pylist(), key=str)


def by_iceberg(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """Return the number of rows of each partition, as PyIceberg computes its values."""
    day = transforms.DayTransform().transform(types.TimestamptzType())
    bucket = transforms.BucketTransform(4).transform(types.LongType())
    cut = transforms.TruncateTransform(2).transform(types.StringType())
    counts: dict[tuple[Any, ...], int] = {}
    for each in rows:
        micros = None if each["ts"] is None else round(each["ts"].timestamp() * 1e6)
        days = None if micros is None else dt.date(1970, 1, 1) + dt.timedelta(day(micros))
        key: tuple[Any, ...] = (days, None if each["id"] is None else bucket(each["id"]))
        key += (None if each["s"] is None else cut(each["s"]),)
        counts[key] = counts.get(key, 0) + 1
    return counts


def partitions(table: tablefmt.Table) -> dict[tuple[Any, ...], int]:
    found = table.scan().partitions().to_pylist()
    return {tuple(each["partition"].values()): each["rows"] for each in found}


def test_no_reader_sees_the_fields(table: tablefmt.Table) -> None:
    """HID-1, HID-3."""
    assert table.schema.names == ["id", "s", "ts"] == table.to_arrow().column_names
    assert table.partition_by == BY
    assert rows_of(table) == sorted(ROWS, key=str)
    assert table.changes(after_version=0).to_arrow().column_names[:3] == ["id", "s", "ts"]
    assert partitions(table) == by_iceberg(ROWS)
    first = table.scan().files().to_pylist()[0]
    assert list(first["partition"]) == ["ts_day", "id_bucket", "s_trunc"]
    for word in ("ts_day", "id_bucket"):
        with pytest.raises(tablefmt.errors.TablefmtError, match=f"no column '{word}'"):
            table.to_arrow(where=f"{word} IS NULL")


@pytest.mark.slow
@pytest.mark.parametrize("checkpointed", [False, True])
def test_conditions_on_columns_skip_partitions(table: tablefmt.Table, checkpointed: bool) -> None:
    """HID-4."""
    if checkpointed:
        table.checkpoint()
        table = tablefmt.open(table.uri)
    buckets = {key[1] for key in by_iceberg([row(1), row(2)])}
    cases = {
        "ts >= TIMESTAMP '2026-01-03 00:00:00Z'": lambda d, b, s: d and d.day >= 3,
        "ts < TIMESTAMP '2026-01-01 04:00:00Z'": lambda d, b, s: False,
        "ts = TIMESTAMP '2026-01-02 05:00:00Z'": lambda d, b, s: d and d.day == 2,
        "ts IS NULL": lambda d, b, s: d is None,
        "id IN (1, 2)": lambda d, b, s: b in buckets,
        "s LIKE 'x%'": lambda d, b, s: s is not None and s.startswith("x"),
        "s LIKE 'xyz%' OR s = 'ab'": lambda d, b, s: s in ("xy", "ab"),
        "s > 'b'": lambda d, b, s: s is not None and s >= "b",
    }
    for where, holds in cases.items():
        files = table.scan(where=where).files().to_pylist()
        found = {tuple(each["partition"].values()) for each in files}
        assert found <= {key for key in by_iceberg(ROWS) if holds(*key)}, where
    for where in [*cases, "id = 5", "NOT (id = 5)", "id IN (1, 2, 3)", "id > 4", "s IS NOT NULL"]:
        # The scan of a table without partitions is independent of any pruning by them.
        plain = tablefmt.create(f"memory://hidden-{checkpointed}-{hash(where)}", COLUMNS)
        plain.append(ROWS)
        assert rows_of(table, where=where) == rows_of(plain, where=where), where
    only = {
        each["partition"]["id_bucket"] for each in table.scan(where="id = 5").files().to_pylist()
    }
    assert only == {key[1] for key in by_iceberg([row(5)])}


def test_writers_move_rows_between_partitions(table: tablefmt.Table) -> None:
    want = {each["id"]: each for each in ROWS}
    table.update({"ts": "TIMESTAMP '2026-02-01 00:00:00Z'"}, "id = 3")
    want[3] = {**want[3], "ts": dt.datetime(2026, 2, 1, tzinfo=UTC)}
    table.delete("id = 4")
    del want[4]
    merge = table.merge([row(5, 9, "merged"), row(77, 9, "new")], "t.id = s.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    want |= {5: row(5, 9, "merged"), 77: row(77, 9, "new")}
    assert rows_of(table) == sorted(want.values(), key=str)
    table.compact()
    assert rows_of(table) == sorted(want.values(), key=str)
    assert partitions(table) == by_iceberg(list(want.values()))
    table.cluster(by=["ts"])
    assert partitions(table) == by_iceberg(list(want.values()))
    assert_agrees(table)
    table.restore(version=1)
    assert partitions(table) == by_iceberg(ROWS)


def test_overwrites_by_partition(table: tablefmt.Table) -> None:
    """HID-5."""
    whole = "ts >= TIMESTAMP '2026-01-02 00:00:00Z' AND ts < TIMESTAMP '2026-01-03 00:00:00Z'"
    table.overwrite([row(50, 2)], where=whole)
    kept = [each for each in ROWS if each["ts"] is None or each["ts"].day != 2]
    assert rows_of(table) == sorted([*kept, row(50, 2)], key=str)
    assert table.history().to_pylist()[0]["operation"] == "OVERWRITE"
    with pytest.raises(ConstraintViolationError):
        table.overwrite([row(51, 3)], where=whole)
    part = "ts >= TIMESTAMP '2026-01-03 05:00:00Z'"
    table.delete(part)
    kept = [each for each in [*kept, row(50, 2)] if each["ts"] is None or each["ts"].day != 3]
    assert rows_of(table) == sorted(kept, key=str)
    table.overwrite([row(50, 2, "abz"), row(90, 20)], dynamic_partitions=True)
    kept = [each for each in kept if each["id"] != 50]
    assert rows_of(table) == sorted([*kept, row(50, 2, "abz"), row(90, 20)], key=str)


def test_commits_in_other_partitions_do_not_conflict(table: tablefmt.Table) -> None:
    other = tablefmt.open(table.uri)
    mine = table.transaction()
    mine.delete("ts >= TIMESTAMP '2026-01-03 00:00:00Z'")
    other.overwrite(
        [row(1, 1)],
        where="ts >= TIMESTAMP '2026-01-01 00:00:00Z' AND ts < TIMESTAMP '2026-01-02 00:00:00Z'",
    )
    mine.commit()
    again = table.transaction()
    again.delete("ts >= TIMESTAMP '2026-01-01 06:00:00Z'")
    other.update({"s": "'moved'"}, "id = 1")
    other.delete("ts > TIMESTAMP '2026-01-02 00:00:00Z'")
    with pytest.raises(ConcurrentModificationException):
        again.commit()


def test_changes_of_columns(table: tablefmt.Table) -> None:
    """HID-2, HID-6."""
    table.alter.rename_column("ts", "at")
    assert table.partition_by == ["days(at)", *BY[1:]]
    assert table.scan(where="at >= TIMESTAMP '2026-01-03 00:00:00Z'").files().num_rows == 3
    for name in ("at", "id", "s"):
        with pytest.raises(
            SchemaMismatchError, match=f"partitioned by .*{name}.* cannot be dropped"
        ):
            table.alter.drop_column(name)
    for name in ("ts_day", "TS_DAY", "days(at)"):
        with pytest.raises(SchemaMismatchError, match=r"partition field of days\(at\)"):
            table.alter.add_column(name, "DATE")
    with pytest.raises(SchemaMismatchError, match="ts_day"):
        table.append([{**row(1), "at": None, "ts_day": 1}], merge_schema=True)
    table.alter.add_column("more", "INT")
    table.append([{"id": 1, "s": "a", "at": None, "more": 1}])
    assert table.scan(where="at IS NULL").count() == 2


def test_widening_where_no_value_changes(tmp_path: Path) -> None:
    """HID-6."""
    by = ["bucket(3, i)", "days(d)", "truncate(10, n)"]
    table = tablefmt.create(str(tmp_path / "t"), "i INT, d DATE, n INT", partition_by=by)
    table.append([{"i": 34, "d": dt.date(1969, 12, 31), "n": -1}])
    table.alter.widen_column("i", "BIGINT")
    table.alter.widen_column("d", "TIMESTAMP_NTZ")
    with pytest.raises(SchemaMismatchError, match=r"partitioned by truncate\(10, n\)"):
        table.alter.widen_column("n", "BIGINT")
    table.append([{"i": 34, "d": dt.datetime(1969, 12, 31, 23), "n": -10}])
    (only,) = table.scan().partitions().to_pylist()
    assert only["partition"] == {"i_bucket": 1, "d_day": dt.date(1969, 12, 31), "n_trunc": -10}
    assert only["rows"] == 2 == table.scan(where="i = 34 AND d < DATE '1970-01-01'").count()
    assert_agrees(table)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (["days(s)"], "column 's' is string"),
        (["bucket(0, id)"], "0 is not a number from 1"),
        (["truncate(0, s)"], "0 is not a number from 1"),
        (["bucket(4)"], "expected a number and a column"),
        (["weeks(ts)"], "there is no transform 'weeks'"),
        (["days(ts)", "day(ts)"], "twice"),
        (["bucket(2, id)", "bucket(4, id)"], r"bucket\(2, id\) and bucket\(4, id\) would both"),
        (["bucket(-1, id)"], "-1 is not a number from 1"),
        (["bucket(9, id.x)"], "id.x is inside a column"),
        (["days(now())"], "no such column"),
        (["identity(id)"], "there is no transform 'identity'"),
        (["days(other)"], "no such column"),
    ],
)
def test_wrong_partitionings(tmp_path: Path, by: list[str], words: str) -> None:
    with pytest.raises(SchemaMismatchError, match=words):
        tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=by)
    assert not (tmp_path / "t" / "_log").exists() or not list((tmp_path / "t" / "_log").iterdir())


def test_a_catalog_lists_columns_before_transforms(tmp_path: Path) -> None:
    """Spark's catalog does. The order among columns, and among transforms, still counts."""
    row = [{"id": 1, "k": 2, "p": 3}]
    by = ["bucket(2, id)", "p", "truncate(5, k)"]
    made = tablefmt.create(tmp_path / "t", "id BIGINT, k BIGINT, p INT", partition_by=by)
    tablefmt.write(row, tmp_path / "t", partition_by=["p", "bucket(2, id)", "truncate(5, k)"])
    assert (made.refresh(), made.partition_by, made.count()) == (made, by, 1)
    with pytest.raises(SchemaMismatchError, match="partitioned by"):
        tablefmt.write(row, tmp_path / "t", partition_by=["p", "truncate(5, k)", "bucket(2, id)"])


def test_a_column_has_the_name_of_a_field(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="column 'TS_Day' has the name"):
        tablefmt.create(str(tmp_path / "t"), f"{COLUMNS}, TS_Day DATE", partition_by=["days(ts)"])


def test_several_transforms_of_one_column(tmp_path: Path) -> None:
    by = ["years(ts)", "bucket(2, ts)"]
    tablefmt.write(ROWS, str(tmp_path / "t"), partition_by=by)
    table = tablefmt.open(str(tmp_path / "t"))
    assert (table.partition_by, table.count()) == (by, len(ROWS))
    tablefmt.write(ROWS, table.uri, mode="append", partition_by=["YEAR( `ts` )", "bucket(ts, 2)"])
    with pytest.raises(SchemaMismatchError, match="the table is partitioned by"):
        tablefmt.write(ROWS, table.uri, mode="append", partition_by=["years(ts)"])
    assert tablefmt.open(table.uri).count() == 2 * len(ROWS)


def test_another_partitioning_replaces_the_table(tmp_path: Path) -> None:
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS)
    table.append(ROWS)
    table.overwrite(iter_batches(ROWS), overwrite_schema=True, partition_by=["days(ts)"])
    assert (table.partition_by, rows_of(table)) == (["days(ts)"], sorted(ROWS, key=str))
    before = table.version
    table.overwrite(pa.Table.from_pylist(ROWS), overwrite_schema=True, partition_by=BY)
    table.overwrite(pa.Table.from_pylist(ROWS[:3]), overwrite_schema=True)
    assert partitions(table) == by_iceberg(ROWS[:3])
    table.overwrite(pa.Table.from_pylist(ROWS), overwrite_schema=True, partition_by=[])
    assert (table.partition_by, table.count()) == ([], len(ROWS))
    table.restore(version=before)
    assert (table.partition_by, rows_of(table)) == (["days(ts)"], sorted(ROWS, key=str))
    table.append([row(99, 9)])
    assert table.scan(where="ts > TIMESTAMP '2026-01-09 00:00:00Z'").files().num_rows == 1
    assert_agrees(table)
    plain = tablefmt.create(str(tmp_path / "p"), COLUMNS)
    txn = plain.transaction()
    rows = pa.Table.from_pylist(ROWS)
    txn.overwrite(rows, overwrite_schema=True, partition_by=["days(ts)"])
    with pytest.raises(UnsupportedFeatureError, match="hiddenPartitions"):
        txn.commit()


def iter_batches(rows: list[dict[str, Any]]) -> pa.RecordBatchReader:
    table = pa.Table.from_pylist(rows)
    return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches()))


def test_clones_keep_the_partitioning(table: tablefmt.Table, tmp_path: Path) -> None:
    for shallow in (True, False):
        made = table.clone(str(tmp_path / f"c{shallow}"), shallow=shallow)
        assert (made.partition_by, rows_of(made)) == (BY, sorted(ROWS, key=str))
        made.append([row(200, 20)])
        assert partitions(made) == by_iceberg([*ROWS, row(200, 20)])
        assert_agrees(made)
    other = tablefmt.create(str(tmp_path / "other"), "ts BIGINT, z INT", partition_by=["z"])
    other.append([{"ts": 1, "z": 1}])
    made = table.clone(other.uri, shallow=False, replace=True)
    assert (made.partition_by, partitions(made)) == (BY, by_iceberg(ROWS))


def test_a_value_without_a_multiple_is_refused(tmp_path: Path) -> None:
    table = tablefmt.create(str(tmp_path / "t"), "i INT, x INT", partition_by=["truncate(10, i)"])
    with pytest.raises(ConstraintViolationError, match=r"truncate\(10, i\) has no value"):
        table.append([{"i": -(2**31), "x": 1}])
    table.append([{"i": -(2**31) + 8, "x": 1}])
    assert table.scan(where=f"i = {-(2**31)}").count() == 0
    assert table.scan(where=f"i >= {-(2**31)}").count() == 1


@pytest.mark.slow
def test_pruning_loses_no_row(tmp_path: Path) -> None:
    """Random rows and conditions: as a table without partitions."""
    rng = random.Random(7)
    columns = "i INT, m DECIMAL(9,2), s STRING, b BINARY, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ"
    by = [
        "truncate(5, i)", "truncate(7, m)", "truncate(2, b)", "months(d)", "hours(t)", "years(n)",
    ]  # fmt: skip

    def value(name: str) -> Any:
        if rng.random() < 0.1:
            return None
        days = dt.timedelta(rng.randrange(-900, 900), rng.randrange(86400))
        return {
            "i": rng.randrange(-30, 30),
            "m": Decimal(rng.randrange(-5000, 5000)).scaleb(-2),
            "s": "".join(rng.choice("aé%_b") for _ in range(rng.randrange(4))),
            "b": bytes(rng.choice(b"ab") for _ in range(rng.randrange(4))),
            "d": dt.date(1970, 1, 1) + days,
            "t": dt.datetime(1970, 1, 1, tzinfo=UTC) + days,
            "n": dt.datetime(1970, 1, 1) + days,
        }[name]

    rows = [{name: value(name) for name in "imsbdtn"} for _ in range(150)]
    hidden = tablefmt.create(str(tmp_path / "h"), columns, partition_by=by)
    plain = tablefmt.create(str(tmp_path / "p"), columns)
    for each in (hidden, plain):
        each.append(rows)
    literal: dict[str, Any] = {
        "i": str, "m": str, "d": "DATE '{}'".format, "t": "TIMESTAMP '{}'".format,
        "n": "TIMESTAMP_NTZ '{}'".format,
    }  # fmt: skip
    pruned = 0
    for _ in range(25):
        name = rng.choice("imdtn")
        shown = [literal[name](value(name) or rows[0][name] or 0) for _ in range(2)]
        if "None" in "".join(shown) or "'0'" in "".join(shown):
            continue
        op = rng.choice(["=", "<", "<=", ">", ">=", "<>", "<=>"])
        where = rng.choice(
            [f"{name} {op} {shown[0]}", f"{name} IN ({shown[0]}, {shown[1]})",
             f"NOT ({name} {op} {shown[0]}) OR {name} IS NULL",
             f"{name} BETWEEN {shown[0]} AND {shown[1]}"]
        )  # fmt: skip
        assert rows_of(hidden, where=where) == rows_of(plain, where=where), where
        pruned += hidden.scan(where=where).files().num_rows < hidden.scan().files().num_rows
    assert pruned > 10


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (f"ts >= {DAY_2} AND ts < {DAY_3}", {1, 3, None}),
        (f"ts < {DAY_3} OR ts IS NULL", {3}),
        (f"NOT (ts < {DAY_2})", {1, None}),
    ],
)
def test_deletes_of_whole_partitions_read_no_file(where: str, kept: set[int | None]) -> None:
    """HID-5: entries and lists alone; deleted rows of the files count once."""
    store = CountingStore(memory())
    table = tablefmt.Table(create(store, COLUMNS, partition_by=["days(ts)"]))
    table.append([row(None, 1, None) | {"id": 100}, *(row(n, 1 + n % 3) for n in range(9))])
    table.delete("id = 4")
    files = table.scan().files().column("path").to_pylist()
    store.reset()
    commit = table.delete(where)
    assert [key for _, key in store.requests if key.startswith("data/")] == []
    left = rows_of(table)
    assert {None if each["ts"] is None else each["ts"].day for each in left} == kept
    assert (commit.operation, commit.metrics["numDeletedRows"]) == ("DELETE", 9 - len(left))
    assert set(table.scan().files().column("path").to_pylist()) < set(files)
    assert commit.metrics["numAddedFiles"] == 0


def test_blame_of_hidden_partitions(table: tablefmt.Table) -> None:
    """HID-2: each commit that brought or took rows of the partition, by the name of the field."""
    table.delete(f"ts >= {DAY_2} AND ts < {DAY_3}")
    table.append([row(50, 2)])
    table.update({"ts": DAY_2}, "id = 3")
    day = dt.date(2026, 1, 2)
    want = [(1, "insert", 4), (2, "delete", 4), (3, "insert", 1), (4, "update_postimage", 1)]
    names = ("version", "change", "rows")
    for value in (day, "2026-01-02"):
        found = table.blame(partition={"ts_day": value}).to_arrow().to_pylist()
        assert [tuple(each[name] for name in names) for each in found] == want
    found = table.blame(partition={"ts_day": day, "id_bucket": None}).to_arrow()
    assert found.num_rows == 0
    with pytest.raises(InvalidArgumentError, match="'ts' is not a partition column"):
        table.blame(partition={"ts": day})
    table.overwrite(pa.Table.from_pylist(ROWS), overwrite_schema=True, partition_by=["days(ts)"])
    with pytest.raises(InvalidArgumentError, match="the partitioning changed"):
        table.blame(partition={"ts_day": day})


def test_verify_compares_rows_with_their_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HID-3: a writer put rows into the files of other partitions."""
    table = tablefmt.create(
        str(tmp_path / "t"), COLUMNS, partition_by=["days(ts)", "bucket(4, id)"]
    )
    table.append([row(1, 1), row(None)])
    right = PartitionTransform.values

    def next_day(made: PartitionTransform, column: pa.Array) -> pa.Array:
        found = right(made, column)
        if made.kind != "days":
            return found
        return pc.add(found.view(pa.int32()), pa.scalar(1, pa.int32())).cast(pa.date32())

    with monkeypatch.context() as patch:
        patch.setattr(PartitionTransform, "values", next_day)
        table.append([row(2, 5)])
    assert table.verify().ok
    (found,) = table.verify(deep=True).findings
    (path,) = set(table.scan(version=2).files()["path"].to_pylist()) - set(
        table.scan(version=1).files()["path"].to_pylist()
    )
    assert (found.object, found.kind, found.severity) == (path, "wrong-bounds", "error")
    assert "row of another partition: days(ts) is 2026-01-06 in the log" in found.problem


def test_text_has_the_order_of_its_bytes(tmp_path: Path) -> None:
    """SCH-3: accept the words that SHOW CREATE TABLE of Spark adds, and no other collation."""
    plain = tablefmt.create(str(tmp_path / "t"), "s STRING COLLATE UTF8_BINARY NOT NULL, n INT")
    assert plain.schema == pa.schema(
        [pa.field("s", pa.string(), nullable=False), ("n", pa.int32())]
    )
    with pytest.raises(SchemaMismatchError, match="UTF8_LCASE"):
        tablefmt.create(str(tmp_path / "u"), "s STRING COLLATE UTF8_LCASE")


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("days(ts), bucket(4, id),region", ["days(ts)", "bucket(4, id)", "region"]),
        ("a,`b,c`", ["a", "`b,c`"]),
        ("", []),
    ],
)
def test_names_in_an_option(option: str, names: list[str]) -> None:
    assert pop_partition_by({"partitionBy": option}) == names
    assert pop_partition_by({"__partition_columns": json.dumps(names)}) == names
    quoted = [quote_name(name) if "(" in name else name for name in names]
    assert pop_partition_by({"__partition_columns": json.dumps(quoted)}) == names
