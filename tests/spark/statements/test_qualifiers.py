"""Names before columns, and times that Python does not have, where Spark runs a statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    MergeCardinalityError,
)
from tests.spark.looking import rows_of


@pytest.mark.parametrize("filled", [True, False])
def test_an_unknown_qualifier_is_refused(spark: Any, tmp_path: Path, filled: bool) -> None:
    """SQL-7: this holds without rows to check, and if the new rows have that name."""
    tablefmt.spark.register(spark)
    uri = str(tmp_path / "t")
    table = tablefmt.spark.create(spark, uri, "id INT, address STRUCT<id: INT>")
    rows = spark.sql("SELECT 1 AS id, named_struct('id', 7) AS address")
    if filled:
        table.append(rows)
    version = table.table.refresh().version
    named = rows.alias("wrong").alias("adress")
    for text in ("adress.id = 1", "wrong.id + 0 = 1", "id.id = 1", "upper(adress.id) = '1'"):
        for use in (
            lambda text=text: table.delete(text),
            lambda text=text: table.update({"address": "NULL"}, where=text),
            lambda text=text: table.truncate(text),
            lambda text=text: table.overwrite(named, where=text),
            lambda text=text: (
                named.write.format("tablefmt")
                .mode("overwrite")
                .option("replaceWhere", text)
                .save(uri)
            ),
            lambda text=text: table.alter.add_constraint("c", text),
        ):
            with pytest.raises(InvalidPredicateError, match=r"adress|wrong|id\.id"):
                use()
    with pytest.raises(InvalidPredicateError, match="nope") as said:
        table.overwrite(rows, where="nope = 1")
    assert "__tablefmt" not in str(said.value)
    assert table.table.refresh().version == version
    if filled:
        assert table.delete("address.id = 8 OR address.id + 0 = 9").no_op
        assert table.delete("exists(array(address), x -> x.id = 7)").metrics["numDeletedRows"] == 1


def test_errors_show_times_that_python_does_not_have(spark: Any, tmp_path: Path) -> None:
    """ENT-10, MRG-4, DAT-13: the message has the time as text, and the exception is one of ours."""
    uri = str(tmp_path / "t")
    table = tablefmt.spark.create(spark, uri, "id INT, d DATE, tn TIMESTAMP_NTZ, n INT")
    far = "DATE '+15659-07-15' AS d, TIMESTAMP_NTZ '+14645-06-30 15:06:40' AS tn, NULL AS n"
    rows = spark.sql(f"SELECT 1 AS id, {far}")
    table.append(rows)
    for use in (
        lambda: table.alter.add_constraint("c", "d < DATE '2024-01-01'"),
        lambda: table.alter.set_not_null("n"),
    ):
        with pytest.raises(ConstraintViolationError, match="15659-07-15"):
            use()
    table.alter.add_constraint("small", "id < 2")
    with pytest.raises(ConstraintViolationError, match="15659-07-15"):
        table.append(spark.sql(f"SELECT 2 AS id, {far}"))
    merge = table.merge(rows.union(rows), "t.d = s.d").when_matched_update_all()
    with pytest.raises(MergeCardinalityError, match="15659-07-15"):
        merge.execute()
    assert rows_of(table.to_df().selectExpr("id", "CAST(d AS STRING) AS d")) == rows_of(
        rows.selectExpr("id", "CAST(d AS STRING) AS d")
    )
