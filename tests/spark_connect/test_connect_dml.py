"""DELETE, UPDATE and MERGE in a Spark Connect session: no JVM at hand, rows through Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidPredicateError, MergeCardinalityError

ROWS = [(i, f"n{i % 3}", None if i % 4 == 0 else i * 1.5) for i in range(12)]


@pytest.fixture
def table(connect: Any, tmp_path: Path) -> Any:
    place = str(tmp_path / "t")
    columns = [list(c) for c in zip(*ROWS, strict=True)]
    data = pa.table(columns, pa.schema([("id", "int64"), ("s", "string"), ("v", "double")]))
    made = tablefmt.create(place, data.schema)
    made.append(data.slice(0, 6))
    made.append(data.slice(6))
    return tablefmt.spark.open(connect, place)


def rows(table: Any) -> list[tuple[Any, ...]]:
    found = table.table.refresh().to_arrow().to_pydict().values()
    return sorted(zip(*found, strict=True))


def test_one_statement_after_the_other(connect: Any, table: Any) -> None:
    table.delete("id % 5 = 0")
    table.update({"v": "id + 0.5", "s": "upper(s)"}, "v IS NULL")
    expected = {r[0]: r for r in ROWS if r[0] % 5}
    expected = {
        i: (i, s.upper(), i + 0.5) if v is None else (i, s, v) for i, s, v in expected.values()
    }
    assert rows(table) == sorted(expected.values())
    source = connect.createDataFrame(
        [(1, "m", 1.0), (2, "x", 2.0), (20, "m", 3.0)], "id long, s string, v double"
    )
    merge = table.merge(source, "t.id = s.id").when_matched_delete("s.s = 'x'")
    merge = merge.when_matched_update({"v": "t.v + s.v"}).when_not_matched_insert_all()
    done = merge.when_not_matched_by_source_delete("t.id > 10").execute()
    expected[1] = (1, "n1", 2.5)
    del expected[2], expected[11]
    assert rows(table) == sorted([*expected.values(), (20, "m", 3.0)])
    assert done.metrics["numTargetRowsUpdated"] == 1


def test_what_is_refused(connect: Any, table: Any) -> None:
    twice = connect.createDataFrame([(3, "a", 1.0), (3, "b", 2.0)], "id long, s string, v double")
    with pytest.raises(MergeCardinalityError, match="id=3"):
        table.merge(twice, "t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(InvalidPredicateError):
        table.delete("nope = 1")
    assert rows(table) == sorted(ROWS)
