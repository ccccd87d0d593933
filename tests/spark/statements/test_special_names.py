"""Columns and fields with any name that SCH-2 and SCH-11 allow, in Spark's calls."""

from __future__ import annotations

from typing import Any

import tablefmt
import tablefmt.spark
from tests.table.test_special_names import BLANK, SCANNER, all_of, by_ident, quoted, rows

# Each costs every statement: those that Spark, SQL or our own plans might take for something else.
WORDS = ["null", "true", "select", "interval", "current_date", "date", "t", "s", "value", "element"]
SIGNS = ["*", "a.b", ".a", "..", "a/b", "a=b", "a,b", "`", "a`b", "'", '"', "--", "1e3", "@x", "%"]
NAMES = [
    "_metadata",
    "_change_type",
    "__index__",
    "ß",
    "İ",
    *WORDS,
    *SIGNS,
    *BLANK[:3],
    *SCANNER[:1],
]


def test_every_verb_takes_every_name(spark: Any, uri: str) -> None:
    """SCH-2, SCH-11: all at once; a word of SQL that Spark leaves unquoted prunes no file."""
    tablefmt.spark.register(spark)
    table = tablefmt.create(uri, rows(NAMES, 1).schema)
    table.append(rows(NAMES, 1, 2))
    mine = tablefmt.spark.open(spark, uri)
    shape = mine.to_df().schema

    def frame(*ids: int) -> Any:
        return spark.createDataFrame(rows(NAMES, *ids).to_pylist(), shape)

    def got(found: Any) -> dict[int, dict[str, Any]]:
        return {row["ident"]: row.asDict(recursive=True) for row in found.collect()}

    mine.append(frame(3, 4))
    model = by_ident(rows(NAMES, 1, 2, 3, 4))
    assert got(mine.to_df().where(all_of(NAMES, 2))) == {2: model[2]}
    mine.update({quoted(n): f"{quoted(n)} + 500" for n in NAMES}, all_of(NAMES, 3))
    mine.delete(all_of(NAMES, 1))
    del model[1]
    for name in NAMES:
        model[3][name] += 500
    merge = mine.merge(
        frame(2, 9), f"t.ident = s.ident AND t.{quoted('null')} = s.{quoted('null')}"
    )
    merge = merge.when_matched_update({quoted(n): f"t.{quoted(n)} + s.ident" for n in NAMES})
    merge.when_not_matched_insert_all().execute()
    for name in NAMES:
        model[2][name] += 2
    model[9] = by_ident(rows(NAMES, 9))[9]
    assert by_ident(table.refresh().to_arrow()) == model
    assert got(spark.read.format("tablefmt").load(uri).where(all_of(NAMES, 9))) == {9: model[9]}


def test_one_word_of_sql_as_a_column_changes_the_rows_it_should(spark: Any, uri: str) -> None:
    """SCH-11, SQL-1: `null = 20` in text would be true of nothing."""
    table = tablefmt.create(uri, "ident BIGINT, `null` BIGINT, `current_date` BIGINT")
    table.append(pa_rows := rows(["null", "current_date"], 1, 2).drop_columns(["nested!"]))
    mine = tablefmt.spark.open(spark, uri)
    expected = pa_rows.to_pylist()
    frame = mine.to_df()
    assert [
        r.asDict() for r in frame.where("`null` = 2000 AND `current_date` = 2001").collect()
    ] == [expected[1]]
    mine.delete("`null` = 2000 AND `current_date` > 5")
    assert table.refresh().to_arrow().to_pylist() == expected[:1]
