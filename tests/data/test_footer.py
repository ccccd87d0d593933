"""Files that somebody else wrote, described from their footers."""

from __future__ import annotations

import datetime as dt
import math
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data import file_verification
from tablefmt.data.column_bounds import stats_columns
from tablefmt.data.file_descriptions import describe_files
from tablefmt.errors import ConstraintViolationError, CorruptDataError
from tablefmt.expressions.ddl import schema_from
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.store.local_store import LocalStore


def describe(
    root: Path, tables: list[pa.Table], metadata: Metadata, **parquet: Any
) -> AddedFiles | None:
    store = LocalStore(root)
    (root / "data").mkdir(exist_ok=True)
    listed = []
    for at, table in enumerate(tables):
        key = f"data/{at}.parquet"
        pq.write_table(table, root / key, **parquet)
        listed.append((key, (root / key).stat().st_size))
    return describe_files(store, listed, metadata, stats_columns(metadata.schema))


def partitioned_by_p(table: pa.Table) -> Metadata:
    schema = from_arrow(table.schema)
    return Metadata(schema, (schema.fields[-1].id,))


VALUES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.string(), "", ""),
    (pa.string(), "x" * 5000, "x" * 5000),
    (pa.string(), None, None),
    (pa.binary(), b"\xff\0", "/wA="),
    (pa.bool_(), False, False),
    (pa.int8(), -128, -128),
    (pa.date32(), dt.date(1969, 12, 31), -1),
    (pa.timestamp("us", "UTC"), dt.datetime(1960, 1, 1, tzinfo=dt.timezone.utc), -315619200000000),
    (pa.decimal128(7, 2), Decimal("-0.01"), "-0.01"),
    (pa.decimal128(38, 3), Decimal("-1.500"), "-1.500"),
    (pa.float64(), -0.0, 0.0),
    (pa.float32(), math.nan, "NaN"),
]


@pytest.mark.parametrize(("kind", "value", "encoded"), VALUES)
@pytest.mark.parametrize("parquet", [{}, {"write_statistics": False}])
def test_a_partition_value_is_exact_with_and_without_statistics(
    tmp_path: Path, kind: pa.DataType, value: Any, encoded: Any, parquet: dict[str, Any]
) -> None:
    """VAL-2, DAT-8. Several row groups, so that every one of them counts."""
    table = pa.table({"id": list(range(5)), "p": pa.array([value] * 5, kind)})
    added = describe(tmp_path, [table], partitioned_by_p(table), row_group_size=2, **parquet)
    assert added is not None
    assert added.columns["partition.2"] == [encoded]
    assert added.columns["rows"] == [5]


@pytest.mark.parametrize(
    "values",
    [["a", "b"], ["a", None], [None, "a"], ["", None], ["a", "a", "a", "b"]],
)
@pytest.mark.parametrize("parquet", [{}, {"write_statistics": False}])
def test_two_partitions_in_one_file_are_an_error(
    tmp_path: Path, values: list[str | None], parquet: dict[str, Any]
) -> None:
    """ADD-4."""
    table = pa.table({"id": list(range(len(values))), "p": pa.array(values, pa.string())})
    with pytest.raises(ConstraintViolationError, match="ADD-4"):
        describe(tmp_path, [table], partitioned_by_p(table), row_group_size=2, **parquet)


def test_files_are_described_in_order_and_those_without_rows_left_out(tmp_path: Path) -> None:
    """ADD-1, ADD-7, DAT-1."""
    table = pa.table({"id": [3, 1, 2], "s": ["b", None, "a"]})
    tables = [table, table.slice(0, 0), table.slice(1, 1)]
    added = describe(tmp_path, tables, Metadata(from_arrow(table.schema)))
    assert added is not None
    bodies = [(tmp_path / f"data/{i}.parquet").read_bytes() for i in (0, 2)]
    assert dict(added.columns) == {
        "path": ["data/0.parquet", "data/2.parquet"],
        "size": [len(body) for body in bodies],
        "rows": [3, 1],
        "footer": [zlib.crc32(body) for body in bodies],
        "lower.1": [1, 1],
        "upper.1": [3, 1],
        "nulls.1": [0, 0],
        "lower.2": ["a", None],
        "upper.2": ["b", None],
        "nulls.2": [1, 1],
    }
    assert describe(tmp_path, [table.slice(0, 0)], Metadata(from_arrow(table.schema))) is None


@pytest.mark.parametrize(
    ("ddl", "good", "bad"),
    [
        ("a BIGINT NOT NULL", 1, None),
        ("a STRUCT<b: STRING NOT NULL>", {"b": "x"}, {"b": None}),
        ("a STRUCT<b: STRING NOT NULL>", None, {"b": None}),
        ("a ARRAY<STRUCT<b: INT NOT NULL>>", [{"b": 1}, None], [{"b": None}]),
        ("a MAP<STRING, INT> NOT NULL", [("k", None)], None),
    ],
)
@pytest.mark.parametrize("parquet", [{}, {"write_statistics": False}])
def test_null_where_none_may_be_is_found(
    tmp_path: Path, ddl: str, good: Any, bad: Any, parquet: dict[str, Any]
) -> None:
    """DAT-3: the files allow NULL everywhere, as an engine may write them."""
    metadata = Metadata(schema_from(ddl))
    from tablefmt.model.arrow_types import to_arrow
    from tablefmt.model.schema import nullable

    kind = to_arrow(nullable(metadata.schema)).field("a").type
    fine = pa.table({"a": pa.array([good, good], kind)})
    added = describe(tmp_path, [fine], metadata, **parquet)
    assert added is not None
    assert added.rows == 2
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        describe(tmp_path, [pa.table({"a": pa.array([good, bad], kind)})], metadata, **parquet)


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" * 9, b"\0" * 100])
def test_a_file_that_is_not_parquet_is_named(tmp_path: Path, body: bytes) -> None:
    """DAT-5."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_bytes(body)
    metadata = Metadata(schema_from("a INT"))
    with pytest.raises(CorruptDataError) as caught:
        describe_files(LocalStore(tmp_path), [("data/x", len(body))], metadata, [])
    assert (caught.value.key, caught.value.rule) == ("data/x", "DAT-5")
    with pytest.raises(CorruptDataError):
        describe_files(LocalStore(tmp_path), [("data/missing", 100)], metadata, [])


def test_footers_of_one_schema_are_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADD-7, DAT-5: the checksum vouches for the rest of a footer, and the log for its rows."""
    parsed = []
    really = footer_of
    monkeypatch.setattr(
        file_verification, "footer_of", lambda body: parsed.append(len(body)) or really(body)
    )
    table = tablefmt.create(tmp_path, "id BIGINT, name STRING")
    with table.transaction() as txn:
        for number in range(40):
            txn.append({"id": [number] * (number + 1), "name": ["a"] * (number + 1)})
    table.alter.add_column("more", "INT")
    with table.transaction() as txn:
        for number in range(40):
            txn.append({"id": [number], "name": ["b"], "more": [number]})
    scan = table.scan()
    files = scan.snapshot.with_vectors(scan.survivors)
    fields = scan.snapshot.schema.fields
    groups = file_verification.alike_files(scan.store, files, fields)
    assert [(g.files.num_rows, g.columns.names) for g in groups] == [
        (40, pq.read_schema(tmp_path / groups[0].files["path"][0].as_py()).names),
        (40, pq.read_schema(tmp_path / groups[1].files["path"][0].as_py()).names),
    ]
    assert [len(g.columns.names) for g in groups] == [2, 3]
    assert len(parsed) == 2
    counts = pc.add(files["rows"], pa.array([0] * 39 + [1] + [0] * 40))
    wrong = files.set_column(files.column_names.index("rows"), "rows", counts)
    with pytest.raises(CorruptDataError) as caught:
        file_verification.alike_files(scan.store, wrong, fields)
    assert caught.value.key == files["path"][39].as_py()
    # Without checksums in the log, every footer is parsed.
    parsed.clear()
    file_verification.alike_files(scan.store, files.drop_columns(["footer"]), fields)
    assert len(parsed) == 80
