"""CHAR(n) and VARCHAR(n): every writer without Spark gives values the length that was declared."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import ConstraintViolationError, CorruptEntryError, SchemaMismatchError
from tablefmt.expressions.ddl import from_spark_json, schema_from, to_ddl
from tablefmt.log.metadata_json import schema_from_json, schema_to_json
from tablefmt.operations.create import create
from tablefmt.table import Table
from tests.lengths import BAD, GOOD, stored
from tests.scheduling import examples
from tests.tables import assert_sound, memory, sorted_rows

TABLE = "id BIGINT, c CHAR(3), v VARCHAR(4)"


def table_of(tmp_path: Any) -> Any:
    return tablefmt.create(str(tmp_path / "t"), TABLE)


def given_rows(pairs: list[tuple[str | None, str | None]]) -> pa.Table:
    columns = {
        "id": pa.array(range(len(pairs)), pa.int64()),
        "c": pa.array([c for c, _ in pairs], pa.string()),
        "v": pa.array([v for _, v in pairs], pa.string()),
    }
    return pa.table(columns)


def expected(pairs: list[tuple[str | None, str | None]]) -> list[tuple[int, Any, Any]]:
    return [(i, stored(c, "char", 3), stored(v, "varchar", 4)) for i, (c, v) in enumerate(pairs)]


def update(table: Any, rows: pa.Table) -> None:
    table.append(pa.table({"id": rows["id"]}))
    for row in rows.to_pylist():
        for name in ("c", "v"):
            value = row[name]
            text = "NULL" if value is None else "'" + value + "'"
            table.update({name: text}, where=f"id = {row['id']}")


def merge(table: Any, rows: pa.Table) -> None:
    table.append(rows.slice(0, 1).select(["id"]))
    merged(table, rows)


def merged(table: Any, rows: pa.Table) -> None:
    (
        table.merge(rows, "t.id = s.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


WRITES: dict[str, Callable[[Any, pa.Table], Any]] = {
    "append": lambda table, rows: table.append(rows),
    "overwrite": lambda table, rows: table.overwrite(rows),
    "replace": lambda table, rows: table.overwrite(rows, where="id >= 0"),
    "update": update,
    "merge": merge,
    "transaction": lambda table, rows: table.transaction().append(rows).commit(),
}
REFUSED: dict[str, Callable[[Any, pa.Table], Any]] = {
    "update": lambda table, rows: table.update(
        {n: f"'{x}'" for n, x in rows.to_pylist()[1].items() if n != "id" and x is not None}
    ),
    "merge": merged,
}


@pytest.mark.parametrize("name", WRITES)
def test_every_writer_pads_and_cuts(tmp_path: Any, name: str) -> None:
    """DAT-14: the plain model agrees."""
    table = table_of(tmp_path)
    WRITES[name](table, given_rows(GOOD))
    assert sorted_rows(table) == expected(GOOD)
    assert_sound(table.context.store)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", WRITES)
def test_every_writer_refuses_what_is_too_long(
    tmp_path: Any, name: str, bad: tuple[str | None, str | None]
) -> None:
    """DAT-14: the error names the column, its type and the length; there is no commit."""
    table = table_of(tmp_path)
    table.append(given_rows(GOOD[:2]))
    before, rows = sorted_rows(table), given_rows([GOOD[0], bad])
    kind = "CHAR" if bad[0] else "VARCHAR"
    length = len(bad[0] or bad[1] or "")
    message = rf"column '[cv]' is {kind}\([34]\), and a value has {length} characters"
    with pytest.raises(ConstraintViolationError, match=message) as caught:
        REFUSED.get(name, WRITES[name])(table, rows)
    assert caught.value.row in ({"c": bad[0]}, {"v": bad[1]})
    assert table.refresh().version == 1
    assert sorted_rows(table) == before
    assert_sound(table.context.store)


texts = st.none() | st.text("a \u00e9\U0001f600\t\u00a0", max_size=7)


@examples(60)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_text_is_stored_as_the_model_has_it(pairs: list[tuple[str | None, str | None]]) -> None:
    """DAT-14: lengths are in code points, and only U+0020 is a space."""
    table = Table(create(memory(), TABLE))
    try:
        wanted = expected(pairs)
    except ValueError:
        with pytest.raises(ConstraintViolationError):
            table.append(given_rows(pairs))
        assert table.refresh().version == 0
    else:
        table.append(given_rows(pairs))
        assert sorted_rows(table) == wanted


def test_partitions_constraints_and_defaults_see_the_stored_value(tmp_path: Any) -> None:
    """DAT-14: the entry, a CHECK and readers of old files see the padded value."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT, c CHAR(3)", partition_by=["c"])
    table.alter.add_constraint("padded", "c = 'ab '")
    table.append(pa.table({"id": [1, 2], "c": ["ab", "ab    "]}))
    files = table.refresh().scan().files().to_pylist()
    assert [f["rows"] for f in files] == [2]
    table.alter.add_column("d", "CHAR(2)", default="x")
    table.append(pa.table({"id": [3], "c": ["ab"]}))
    rows = table.refresh().scan(where="c = 'ab ' AND d = 'x '").to_arrow()
    assert sorted(rows["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(SchemaMismatchError, match=r"CHAR\(2\)"):
        table.alter.set_default("d", "xyz")
    assert_sound(table.context.store)


def test_a_length_grows_or_goes_and_nothing_else(tmp_path: Any) -> None:
    """SCH-10: a rename and a drop keep the length."""
    table = table_of(tmp_path)
    table.append(given_rows([("ab", "abcd")]))
    for name, kind in [
        ("v", "VARCHAR(3)"),
        ("v", "CHAR(9)"),
        ("c", "CHAR(4)"),
        ("c", "VARCHAR(2)"),
    ]:
        with pytest.raises(SchemaMismatchError, match="change it to a longer VARCHAR"):
            table.alter.widen_column(name, kind)
    table.alter.add_column("s", "STRUCT<a: INT>")
    with pytest.raises(SchemaMismatchError, match="inside"):
        table.alter.add_column("s.b", "CHAR(2)")
    table.alter.drop_column("s")
    table.alter.widen_column("v", "VARCHAR(5)")
    table.alter.rename_column("v", "w")
    table.append(pa.table({"id": [1], "w": ["abcde"]}))
    table.alter.widen_column("c", "VARCHAR(3)")
    table.alter.widen_column("w", "STRING")
    table.append(pa.table({"id": [2], "c": ["x"], "w": ["abcdefghi"]}))
    assert (
        to_ddl(table.refresh().context.view.head.metadata.schema)
        == "`id` BIGINT, `c` VARCHAR(3), `w` STRING"
    )
    rows = [tuple(r.values()) for r in table.to_arrow().sort_by("id").to_pylist()]
    assert rows == [(0, "ab ", "abcd"), (1, None, "abcde"), (2, "x", "abcdefghi")]
    table.alter.drop_column("c")
    assert_sound(table.context.store)


def test_a_schema_and_its_texts_keep_the_length() -> None:
    """SCH-10: the log, DDL and Spark's metadata of its own columns keep the length."""
    schema = schema_from("a CHAR(3) NOT NULL, b VARCHAR(2147483647), c STRING")
    assert [f.text for f in schema.fields] == ["char(3)", "varchar(2147483647)", None]
    assert schema_from_json(schema_to_json(schema)) == schema == schema_from(to_ddl(schema))
    kept = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(7)"}
    inside = {"__CHAR_VARCHAR_TYPE_STRING": "array<char(3)>"}
    array = {"type": "array", "elementType": "string", "containsNull": True}
    fields = [
        {"name": "x", "type": "char(4)", "nullable": True, "metadata": {}},
        {"name": "y", "type": "string", "nullable": True, "metadata": kept},
        {"name": "z", "type": array, "nullable": True, "metadata": inside},
    ]
    found = from_spark_json({"type": "struct", "fields": fields})
    assert to_ddl(found) == "`x` CHAR(4), `y` VARCHAR(7), `z` ARRAY<STRING>"


@pytest.mark.parametrize(
    "text", ["char(0)", "char(1\u0663)", "varchar(2147483648)", "char(03)", "text", 3, None]
)
def test_a_length_that_is_none_is_no_schema(text: Any) -> None:
    document = json.loads(json.dumps(schema_to_json(schema_from("a CHAR(3)"))))
    document["fields"][0]["text"] = text
    with pytest.raises(CorruptEntryError):
        schema_from_json(document)


def test_the_entry_has_the_length_as_an_attribute_of_the_field(tmp_path: Any) -> None:
    table_of(tmp_path)
    entry = (tmp_path / "t" / "_log" / f"{0:020}.json").read_bytes()
    assert b'"physical":"c","text":"char(3)","type":"string"' in entry
