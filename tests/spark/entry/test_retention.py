"""Restore, vacuum, expiry and drop by `SparkTable` and by what Spark reads: beside a JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import CorruptDataError, TableNotFoundError, VersionNotFoundError
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.spark.backends.backend_choice import SETTING
from tests.tables import sorted_rows


def overwritten(spark: Any, uri: str, versions: int = 3) -> Any:
    """A table whose version n has the row n."""
    frame = spark.sql("SELECT 0L AS id, 'x' AS p")
    for number in range(1, versions + 1):
        tablefmt.spark.write(frame.selectExpr(f"{number}L AS id", "p"), uri, mode="overwrite")
    return tablefmt.spark.open(spark, uri)


NOW: dict[str, Any] = {"retention": 0, "dry_run": False, "breaks_running_transactions": True}


def test_a_table_is_kept_in_order_beside_spark(spark: Any, tmp_path: Path) -> None:
    """RET-1, RET-5, RET-8, RET-9: Spark then reads the state that each call leaves."""
    uri = str(tmp_path / "t")
    table = overwritten(spark, uri)
    first = tablefmt.open(uri).version - 2
    assert table.restore(version=first).operation == "RESTORE"
    assert sorted_rows(tablefmt.spark.read(spark, uri)) == [(1, "x")]
    assert table.restore(version=first + 1).no_op is False
    planned = table.vacuum(retention=0, breaks_running_transactions=True)
    done = table.vacuum(**NOW)
    assert done.files.equals(planned.files)
    assert done.deleted == 2
    assert sorted_rows(tablefmt.spark.read(spark, uri)) == [(2, "x")]
    with pytest.raises(VersionNotFoundError):
        tablefmt.spark.read(spark, uri, version=first).collect()
    expired = table.expire_log(**NOW)
    assert expired.deleted >= 3
    assert sorted_rows(tablefmt.spark.read(spark, uri)) == [(2, "x")]
    frame = spark.sql("SELECT 7L AS id, 'y' AS p")
    tablefmt.spark.write(frame, uri, mode="append")
    assert sorted_rows(tablefmt.spark.read(spark, uri)) == [(2, "x"), (7, "y")]
    assert tablefmt.open(uri).verify(deep=True).ok
    tablefmt.drop(uri, delete_data=True)
    with pytest.raises(TableNotFoundError):
        tablefmt.spark.read(spark, uri).collect()
    assert list((tmp_path / "t" / "data").rglob("*.parquet")) == []
    tablefmt.spark.write(frame, uri, mode="error")
    assert sorted_rows(tablefmt.spark.read(spark, uri)) == [(7, "y")]


STATEMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "delete": lambda table, _: table.delete("id % 2 = 1"),
    "update": lambda table, _: table.update({"p": "concat(p, p)"}, "id % 2 = 1"),
    "merge": lambda table, frame: (
        table.merge(frame, "s.id = t.id").when_matched_delete().when_not_matched_insert_all()
    ).execute(),
    "overwrite": lambda table, frame: table.overwrite(frame, where="id % 2 = 1"),
    "compact": lambda table, _: table.compact("major"),
    "cluster": lambda table, _: table.cluster(["id"]),
}


@pytest.mark.parametrize("backend", ["native", pytest.param("arrow", marks=pytest.mark.soak)])
def test_statements_whose_version_is_vacuumed_meanwhile_say_so(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """ENT-13, DAT-5: they leave no file, also if rows are copied."""
    spark.conf.set(SETTING, backend)
    try:
        for mode in ("merge-on-read", "copy-on-write"):
            uri = str(tmp_path / mode)
            frame = spark.sql("SELECT 1L AS id, 'x' AS p UNION ALL SELECT 3L, 'y'")
            tablefmt.create(uri, "id BIGINT, p STRING", properties={"deleteMode": mode})
            verbs = STATEMENTS if mode == "merge-on-read" else {"delete": STATEMENTS["delete"]}
            for name, statement in verbs.items():
                tablefmt.write({"id": [1, 2], "p": ["a", "b"]}, uri, mode="overwrite")
                tablefmt.write({"id": [3, 4], "p": ["a", "b"]}, uri)
                table = tablefmt.spark.open(spark, uri)
                with monkeypatch.context() as patched:
                    given_up_at_the_first_read(patched, uri)
                    with pytest.raises(VersionNotFoundError):
                        statement(table, frame)
                assert sorted_rows(tablefmt.spark.read(spark, uri)) == [(100, "z")], (mode, name)
                assert left_over(uri) == [], (mode, name)
    finally:
        spark.conf.unset(SETTING)


def given_up_at_the_first_read(patched: pytest.MonkeyPatch, uri: str) -> None:
    """Overwrite and vacuum the first version that a transaction reads, at once."""
    pin = TableContext.pin

    def given_up(context: TableContext, *arguments: Any, **more: Any) -> TransactionSnapshot:
        found = pin(context, *arguments, **more)
        patched.setattr(TableContext, "pin", pin)
        tablefmt.write({"id": [100], "p": ["z"]}, uri, mode="overwrite")
        tablefmt.open(uri).vacuum(**NOW)
        return found

    patched.setattr(TableContext, "pin", given_up)


def left_over(uri: str) -> list[str]:
    """Data files that the newest version does not have."""
    live = {f"{uri}/{path}" for path in tablefmt.open(uri).scan().files()["path"].to_pylist()}
    return sorted({str(path) for path in Path(uri).rglob("*.parquet")} - live)


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", ["native", "arrow"])
def test_a_version_that_was_vacuumed_is_told_as_that(
    spark: Any, tmp_path: Path, backend: str
) -> None:
    """ENT-13, ENT-14: an older DataFrame gets the error.

    A missing file of a kept version is damage (DAT-5), one of a dropped table is not.
    """
    spark.conf.set(SETTING, backend)
    try:
        # Hadoop would escape these characters.
        uri = str(tmp_path / "a b")
        table = overwritten(spark, uri, 2)
        old = tablefmt.spark.read(spark, uri, version=tablefmt.open(uri).version - 1)
        new = tablefmt.spark.read(spark, uri)
        table.vacuum(**NOW)
        with pytest.raises(VersionNotFoundError, match=r"goes from \d+ to \d+"):
            old.collect()
        assert sorted_rows(new) == [(2, "x")]
        (path,) = tablefmt.open(uri).scan().files()["path"].to_pylist()
        lost = tmp_path / "a b" / path
        body = lost.read_bytes()
        lost.unlink()
        with pytest.raises(CorruptDataError, match="it is missing"):
            new.collect()
        lost.write_bytes(body)
        tablefmt.drop(uri, delete_data=True)
        with pytest.raises(TableNotFoundError, match="dropped it"):
            new.collect()
    finally:
        spark.conf.unset(SETTING)
