"""VARIANT through Arrow: a struct of two binary fields, whole and unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError, TablefmtError
from tests.spark.looking import data_files

METADATA = b"\x01\x00\x00"
ONE, NULL, TEXT = (
    {"value": value, "metadata": METADATA} for value in (b"\x0c\x01", b"\x00", b"\x05x")
)
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), False),
        pa.field("metadata", pa.binary(), False, {b"variant": b"true"}),
    ]
)
ROWS = [
    {"id": 1, "v": ONE, "a": [TEXT, None], "s": {"w": NULL, "n": 5}, "m": [("k", ONE)]},
    {"id": 2, "v": None, "a": None, "s": None, "m": []},
    {"id": 3, "v": NULL, "a": [], "s": {"w": None, "n": None}, "m": [("k", None)]},
]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("v", VARIANT),
        pa.field("a", pa.list_(VARIANT)),
        pa.field("s", pa.struct([("w", VARIANT), ("n", pa.int64())])),
        pa.field("m", pa.map_(pa.string(), VARIANT)),
    ]
)
DDL = (
    "id BIGINT, v VARIANT, a ARRAY<VARIANT>, s STRUCT<w: VARIANT, n: BIGINT>, "
    "m MAP<STRING, VARIANT>"
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.mark.parametrize("schema", [DDL, SCHEMA], ids=["ddl", "arrow"])
def test_variants_come_back_as_given_and_say_what_they_are(uri: str, schema: Any) -> None:
    """SCH-6, DAT-10: this holds at every depth.

    Read rows can be written to a table of the same schema.
    """
    table = tablefmt.create(uri, schema)
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))
    got = tablefmt.open(uri).to_arrow()
    assert got.to_pylist() == ROWS
    assert got.schema.equals(SCHEMA)
    assert got.schema.field("v").type.field("metadata").metadata == {b"variant": b"true"}
    again = tablefmt.create(uri + "2", got.schema)
    again.append(got)
    assert again.to_arrow().to_pylist() == ROWS
    assert str(again.context.view.head.metadata.schema.fields[1].type) == "variant"


def test_a_file_has_the_two_fields_and_no_bounds(uri: str) -> None:
    """DAT-10, SCH-6: the log has no bounds of the column."""
    table = tablefmt.create(uri, DDL)
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))
    (path,) = data_files(uri)
    written = pq.read_schema(path).field("v")
    assert written.metadata == {b"PARQUET:field_id": b"2"}
    assert [written.type.field(i).name for i in range(2)] == ["value", "metadata"]
    assert written.type.field(0).type == written.type.field(1).type == pa.binary()
    said = table.context.view.snapshot().files.column_names
    assert {n for n in said if n.startswith(("lower.", "upper."))} == {"lower.1", "upper.1"}


def test_a_plain_struct_of_the_two_fields_in_any_order_fits(uri: str) -> None:
    """DAT-10: another reader's variant has neither the type's mark nor NOT NULL."""
    table = tablefmt.create(uri, "v VARIANT")
    plain = pa.struct([("metadata", pa.large_binary()), ("value", pa.binary_view())])
    table.append(pa.table({"v": pa.array([ONE, None], plain)}))
    assert table.to_arrow()["v"].to_pylist() == [ONE, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (VARIANT, ONE),
        (pa.struct([pa.field("d", pa.decimal128(5, 2), False)]), {"d": 1}),
        (pa.struct([pa.field("l", pa.list_(pa.int8()), False)]), {"l": []}),
        (pa.struct([pa.field("s", VARIANT, False), ("x", pa.int8())]), {"s": ONE, "x": None}),
    ],
)
def test_null_hidden_below_a_null_struct_is_no_null(
    uri: str, kind: pa.StructType, value: Any
) -> None:
    """DAT-3: Spark's own Arrow data has it; it is refused where the struct is there."""
    inner = [kind.field(i) for i in range(kind.num_fields)]
    free = pa.struct([f.with_nullable(True) for f in inner])
    given = pa.array([value, {f.name: None for f in inner}, value], free)
    children = [given.field(i) for i in range(len(inner))]
    hidden = pa.StructArray.from_arrays(children, fields=inner, mask=pa.array([False, True, False]))
    assert hidden.field(0).null_count == 1
    table = tablefmt.create(uri, pa.schema([("c", kind), ("l", pa.list_(kind))]))
    lists = pa.ListArray.from_arrays([0, 2, 3, 3], hidden)
    table.append(pa.table({"c": hidden, "l": lists}))
    assert table.to_arrow().to_pydict() == {"c": hidden.to_pylist(), "l": lists.to_pylist()}
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        table.append(pa.table({"c": given}))


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize(
    "kind", ["VARIANT", "STRUCT<a: INT NOT NULL>", "STRUCT<v: VARIANT, l: ARRAY<VARIANT>>"]
)
def test_a_column_that_rows_lack_is_null_whatever_is_not_null_inside(
    uri: str, kind: str, mode: str
) -> None:
    """DAT-2, SCH-7: the column is missing, added later, set to NULL, or left out by INSERT."""
    table = tablefmt.create(uri, f"id INT, v {kind}", properties={"deleteMode": mode})
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int32())}))
    table.append(pa.table({"id": pa.array([4], pa.int32()), "v": pa.nulls(1)}))
    table.alter.add_column("w", kind)
    table.update({"v": "NULL", "id": "id + 10"}, "id = 1")
    table.update({"id": "id + 10"}, "id = 2")
    table.delete("id = 3")
    merge = table.merge(pa.table({"id": [4, 5]}), "t.id = s.id")
    merge = merge.when_matched_update({"w": "t.v", "id": "14"})
    merge.when_not_matched_insert({"id": "CAST(s.id AS INT)"}).execute()
    found = table.to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": n, "v": None, "w": None} for n in (5, 11, 12, 14)]
    assert table.verify(deep=True).findings == ()


NOT_VARIANTS: list[tuple[pa.DataType, Any, type[TablefmtError], str]] = [
    (pa.string(), "{}", SchemaMismatchError, "the table has variant"),
    (pa.int64(), 1, SchemaMismatchError, "the table has variant"),
    (pa.binary(), b"\x0c\x01", SchemaMismatchError, "the table has variant"),
    (pa.struct([("value", pa.binary())]), {"value": b"\0"}, SchemaMismatchError, "metadata"),
    (
        pa.struct([("value", pa.binary()), ("metadata", pa.binary()), ("x", pa.int8())]),
        {**ONE, "x": 1},
        SchemaMismatchError,
        "'x'",
    ),
    (VARIANT, {"value": b"", "metadata": METADATA}, SchemaMismatchError, "not a valid VARIANT"),
    (VARIANT, {"value": b"\0", "metadata": b""}, SchemaMismatchError, "not a valid VARIANT"),
    (VARIANT, {"value": b"\0", "metadata": b"{}"}, SchemaMismatchError, "not a valid VARIANT"),
    (
        pa.struct([("value", pa.binary()), ("metadata", pa.binary())]),
        {"value": None, "metadata": METADATA},
        ConstraintViolationError,
        "NOT NULL",
    ),
]


@pytest.mark.parametrize(("kind", "value", "error", "words"), NOT_VARIANTS)
def test_what_is_no_variant_is_refused_and_nothing_is_written(
    uri: str, kind: pa.DataType, value: Any, error: type[TablefmtError], words: str
) -> None:
    """SCH-6, DAT-10: the bad value is beside a good one, at the top and inside a list."""
    table = tablefmt.create(uri, "v VARIANT, a ARRAY<VARIANT>")
    for data in (
        pa.table({"v": pa.array([value, None], kind)}),
        pa.table({"a": pa.array([[value], None], pa.list_(kind))}),
    ):
        with pytest.raises(error, match=words):
            table.append(data)
    assert data_files(uri) == []
    assert table.refresh().version == 0


@pytest.mark.broken_tables
def test_a_shredded_variant_is_refused_and_not_read_wrong(uri: str) -> None:
    """DAT-10: a writer that breaks the rule is found out."""
    table = tablefmt.create(uri, "v VARIANT")
    table.append(pa.table({"v": pa.array([ONE, TEXT], VARIANT)}))
    (path,) = data_files(uri)
    shredded = pa.struct(
        [("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())]
    )
    values = [
        {"metadata": METADATA, "value": None, "typed_value": 1},
        {"metadata": METADATA, "value": b"\x05x", "typed_value": None},
    ]
    pq.write_table(pa.table({"v": pa.array(values, shredded)}), path)
    with pytest.raises(tablefmt.errors.CorruptDataError):
        table.to_arrow()


def test_variants_of_the_rows_that_a_delete_leaves(uri: str) -> None:
    """DAT-10, DEL-4."""
    table = tablefmt.create(uri, DDL)
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))
    table.delete("id = 2")
    assert table.to_arrow().to_pylist() == [ROWS[0], ROWS[2]]
    table.alter.set_properties({"deleteMode": "copy-on-write"})
    table.delete("v IS NULL OR id = 1")
    assert tablefmt.open(uri).to_arrow().to_pylist() == [ROWS[2]]


def test_variants_neither_partition_nor_bound_nor_compare(uri: str) -> None:
    """SCH-6."""
    with pytest.raises(SchemaMismatchError, match=r"'v'.*variant"):
        tablefmt.create(uri, "id INT, v VARIANT", partition_by=["v"])
    table = tablefmt.create(uri, "id INT, v VARIANT")
    with pytest.raises(SchemaMismatchError, match="'v'"):
        tablefmt.create(uri + "2", "id INT, v VARIANT", properties={"statsColumns": "v"})
    table.append(pa.table({"id": [1, 2], "v": pa.array([ONE, None], VARIANT)}))
    with pytest.raises(TablefmtError, match="'v'"):
        table.to_arrow(where="v = 1")
    assert table.to_arrow(where="v IS NULL")["id"].to_pylist() == [2]
    assert table.to_arrow(where=pc.field("v").is_valid())["id"].to_pylist() == [1]
