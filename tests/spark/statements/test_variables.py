"""Names and values of a log that Spark's parser would put a setting in place of."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.log.codec import decode, encode
from tablefmt.spark.pyspark_objects import Functions
from tablefmt.spark.runtime.sql_text import parsed
from tests.spark.streams.draining import drain
from tests.tables import sorted_rows

NAMES = ("${env:HOME}", "${system:user.home}")
"""The environment and the properties of the JVM."""

SECRET = os.environ["HOME"]


def poisoned(place: Path, names: tuple[str, str] = NAMES) -> tablefmt.Table:
    """A table of `id` and names, as another program could have written its first entry."""
    tablefmt.create(place, "id BIGINT, a STRING, b VARCHAR(20)")
    path = place / "_log" / f"{0:020d}.json"
    entry = decode(path.read_bytes(), 0).entry
    assert entry.metadata is not None
    schema = entry.metadata.schema
    new = ("id", *names)
    fields = tuple(
        replace(field, name=name, physical=name)
        for field, name in zip(schema.fields, new, strict=True)
    )
    metadata = replace(entry.metadata, schema=replace(schema, fields=fields))
    path.write_bytes(encode(replace(entry, metadata=metadata)))
    table = tablefmt.open(place)
    table.append([dict(zip(new, row, strict=True)) for row in ROWS])
    return table


ROWS = [(1, "a", "b"), (2, "c", "${env:HOME}"), (3, "e", "f")]


@pytest.mark.broken_tables
def test_no_statement_replaces_a_name_of_the_log(spark: Any, tmp_path: Path) -> None:
    """SEC-4, SCH-11: UPDATE, MERGE, DELETE, appends and reads give the right rows."""
    tablefmt.spark.register(spark)
    table = poisoned(tmp_path / "t")
    opened = tablefmt.spark.open(spark, table.uri)
    first, second = NAMES
    opened.update({first: "'x'"}, where=f"`{second}` = '${{env:HOME}}'")
    assert sorted_rows(table) == [ROWS[0], (2, "x", "${env:HOME}"), ROWS[2]]
    spark.sql(f"UPDATE tablefmt.`{table.uri}` SET id = 4 WHERE abs(id) = 3")
    assert sorted_rows(table)[2] == (4, "e", "f")
    source = spark.createDataFrame([(1, "y", "z"), (5, "v", "w")], ["id", *NAMES])
    merge = opened.merge(source, "s.id = t.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    expected = [(1, "y", "z"), (2, "x", "${env:HOME}"), (4, "e", "f"), (5, "v", "w")]
    assert sorted_rows(table) == expected
    shown = opened.to_df().orderBy("id").collect()
    assert [tuple(row) for row in shown] == expected
    assert SECRET not in "".join(map(repr, sorted_rows(table)))


@pytest.mark.broken_tables
def test_hadoop_replaces_no_name_in_files(spark: Any, tmp_path: Path) -> None:
    """SEC-4: its settings carry the columns to Spark's reader and writer, and replace other text.

    Rows go through Arrow; Spark's own reader is refused where it would read NULL.
    """
    table = poisoned(tmp_path / "t", ("${env.HOME}", "${user.home}"))
    opened = tablefmt.spark.open(spark, table.uri)
    opened.update({"${user.home}": "'x'"}, where="id = 2")
    assert sorted_rows(table) == [ROWS[0], (2, "c", "x"), ROWS[2]]
    assert [tuple(row) for row in opened.to_df().select("id").orderBy("id").collect()] == [
        (1,),
        (2,),
        (3,),
    ]
    bodies = b"".join(path.read_bytes() for path in Path(table.uri).rglob("*.parquet"))
    assert SECRET.encode() not in bodies
    with pytest.raises(UnsupportedFeatureError, match=r"tablefmt\.spark\.read") as seen:
        spark.sql(f"SELECT id FROM tablefmt.`{table.uri}`").collect()
    assert seen.value.features == ["spark:column-name"]


@pytest.mark.broken_tables
def test_a_stream_keeps_the_names(spark: Any, tmp_path: Path) -> None:
    """SEC-4: the text of a batch has its column names."""
    tablefmt.spark.register(spark)
    table = poisoned(tmp_path / "t")
    stream = spark.readStream.format("tablefmt").load(table.uri)
    assert stream.columns == ["id", *NAMES]
    assert drain(stream, tmp_path / "checkpoint") == [ROWS]


def test_a_connect_server_is_asked_for_no_such_text() -> None:
    """SEC-4: it has the session's own parser. Names need none, and other text is refused."""
    from pyspark.sql.connect import functions as module

    functions = cast("Functions", module)
    assert str(parsed(functions, "`${env:HOME}` AS `a``b`")) == "Column<'`${env:HOME}` AS a`b'>"
    with pytest.raises(UnsupportedFeatureError, match=r"spark\.sql\.variable\.substitute") as seen:
        parsed(functions, "`${env:HOME}` = 1")
    assert seen.value.features == ["spark:variables"]
