"""VARIANT on the native backend: Spark writes and reads it, and Arrow copies it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import SchemaMismatchError
from tests.spark.looking import data_files, everything, frame_from

pytestmark = pytest.mark.usefixtures("catalog")

VALUES = ['{"a": 1, "b": {"c": [1, "x", null]}}', "[1.5, true]", "null", None, '"text"', "7"]
QUERY = """
    SELECT id, parse_json(j) AS v, array(parse_json(j), NULL) AS a,
           named_struct('w', parse_json(j)) AS s, map('k', parse_json(j)) AS m
    FROM VALUES {} AS t(id, j)
"""
LOOK = ["id", "to_json(v)", "v IS NULL", "to_json(a[0])", "to_json(s.w)", "to_json(m['k'])"]


def given(spark: Any) -> Any:
    rows = [f"({i}, {'NULL' if j is None else repr(j)})" for i, j in enumerate(VALUES)]
    return spark.sql(QUERY.format(", ".join(rows)))


def looked(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.selectExpr(*LOOK).collect()))


def test_variants_make_a_round_trip_on_both_backends(spark: Any, uri: str) -> None:
    """SCH-6, DAT-10: this holds at every depth, by functions, by format() and from Arrow's rows."""
    frame = given(spark)
    wanted = looked(frame)
    assert wanted[0][1:3] == ('{"a":1,"b":{"c":[1,"x",null]}}', False)
    assert wanted[2][1:3] == ("null", False)
    assert wanted[3][1:3] == (None, True)
    tablefmt.spark.write(frame, uri)
    read = tablefmt.spark.read(spark, uri)
    assert looked(read) == wanted
    assert read.schema["v"].dataType.simpleString() == "variant"
    read.write.format("tablefmt").mode("append").save(uri)
    assert looked(spark.read.format("tablefmt").load(uri)) == sorted(wanted * 2)
    rows = tablefmt.open(uri).to_arrow(version=1)
    copied = tablefmt.create(uri + " copy", rows.schema)
    copied.append(rows)
    assert looked(tablefmt.spark.read(spark, copied.uri)) == wanted


def test_files_of_spark_hold_variants_whole(spark: Any, uri: str) -> None:
    """DAT-10: although Spark shreds by itself, and the session is left as it was."""
    tablefmt.spark.write(given(spark).coalesce(1), uri)
    (path,) = data_files(uri)
    leaves = pq.ParquetFile(path).schema
    paths = {leaves.column(i).path for i in range(len(leaves))}
    assert {"v.value", "v.metadata", "s.w.value", "s.w.metadata"} <= paths
    assert not any("typed_value" in path for path in paths)
    assert spark.conf.get("spark.sql.variant.writeShredding.enabled") == "true"
    said = tablefmt.open(uri).context.view.snapshot().files.column_names
    assert {n for n in said if n.startswith(("lower.", "upper."))} == {"lower.1", "upper.1"}


def test_sql_asks_for_paths_inside_of_a_variant(spark: Any, uri: str) -> None:
    """Spark pushes these paths into its scan of Parquet."""
    spark.sql(f"CREATE TABLE variants (id INT, p INT, v VARIANT) USING tablefmt "
              f"PARTITIONED BY (p) OPTIONS (path '{uri}')")  # fmt: skip
    objects = """parse_json(concat('{"n": ', id, ', "t": "x"}'))"""
    spark.sql(f"INSERT INTO variants SELECT id, id % 2, {objects} FROM range(6)")
    spark.sql("INSERT INTO variants VALUES (9, 1, NULL), (10, 0, parse_json('[5]'))")
    by_path = "SELECT id, variant_get(v, '$.n', 'int') FROM variants WHERE v:t::string = 'x' "
    assert sorted(map(tuple, spark.sql(by_path + "AND v:n::int >= 4 AND p = 0").collect())) == [
        (4, 4)
    ]
    assert spark.sql("SELECT id FROM variants WHERE v IS NULL").collect() == [(9,)]
    assert spark.sql("SELECT try_variant_get(v, '$[0]', 'int') FROM variants WHERE id = 10"
                     ).collect() == [(5,)]  # fmt: skip
    self_join = "SELECT count(*) FROM variants a JOIN variants b ON a.v:n::int = b.v:n::int"
    assert spark.sql(self_join).collect() == [(6,)]


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_rows_with_variants_are_deleted_updated_and_merged(spark: Any, uri: str, mode: str) -> None:
    """DAT-10, DEL-4: rows that stay keep their values when they are written again."""
    ddl = "id INT, v VARIANT, a ARRAY<VARIANT>, s STRUCT<w: VARIANT>, m MAP<STRING, VARIANT>"
    table = tablefmt.spark.create(spark, uri, ddl, properties={"deleteMode": mode})
    table.append(given(spark).coalesce(1))
    table.delete("id = 1")
    table.update({"v": "parse_json('[\"new\"]')"}, where="id = 2")
    source = spark.sql("SELECT 4 AS id, parse_json('{}') AS v UNION ALL SELECT 9, parse_json('9')")
    merge = table.merge(source, "s.id = t.id").when_matched_update({"v": "s.v"})
    merge.when_not_matched_insert({"id": "s.id", "v": "s.v"}).execute()
    table.table.delete("id = 5")
    found = {row[0]: row[1] for row in looked(table.to_df())}
    old = {row[0]: row[1] for row in looked(given(spark))}
    assert found == {0: old[0], 2: '["new"]', 3: None, 4: "{}", 9: "9"}
    rest = {row[0]: row[3] for row in looked(table.to_df())}
    assert rest == {0: old[0], 2: old[2], 3: None, 4: old[4], 9: None}


def test_where_a_variant_cannot_be(spark: Any, uri: str) -> None:
    """SCH-6."""
    with pytest.raises(SchemaMismatchError, match="'v'"):
        tablefmt.spark.write(given(spark).select("id", "v"), uri, partition_by=["v"])
    assert everything(uri) == []
    tablefmt.create(uri, "id INT, v VARIANT")
    text = frame_from(spark, pa.table({"id": pa.array([1], pa.int32()), "v": ["{}"]}))
    with pytest.raises(SchemaMismatchError, match="v") as caught:
        tablefmt.spark.write(text, uri)
    assert caught.value.columns == ["v"]
