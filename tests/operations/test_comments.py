"""Comments: text for people on a table, its columns and their fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tablefmt.errors import MetadataChangedException, SchemaMismatchError, TableExistsError
from tablefmt.operations.create import create
from tablefmt.table import Table
from tests.tables import Clock, assert_sound, handle, memory

HOSTILE = "'); DROP TABLE t; --\x00\x1b[2J\u202e\\\n\U0001f600\""


def table_of(ddl: Any, **more: Any) -> Table:
    return Table(create(memory(), ddl, environment=Clock().environment(), **more))


def comments(schema: pa.Schema | pa.DataType) -> dict[str, str]:
    """Return the comments by name from Arrow's fields, structs included."""
    found = {}
    for field in schema:
        if field.metadata:
            found[field.name] = field.metadata[b"comment"].decode()
        if pa.types.is_struct(field.type):
            found.update(comments(field.type))
    return found


def test_comments_are_given_in_every_way_and_come_back() -> None:
    """ENT-11."""
    ddl = "id INT COMMENT 'it\\'s', s STRUCT<f: INT COMMENT 'inner', g: INT> COMMENT 'outer', n INT"
    by_ddl = table_of(ddl, comment=HOSTILE)
    said = {"id": "it's", "s": "outer", "f": "inner"}
    assert handle(by_ddl.context.store).comment == HOSTILE
    assert comments(by_ddl.schema) == said
    by_arrow = table_of(by_ddl.schema)
    assert (by_arrow.schema.equals(by_ddl.schema, check_metadata=True), by_arrow.comment) == (
        True,
        None,
    )
    assert comments(by_arrow.to_arrow().schema) == said
    by_arrow.append(pa.table({"n": pa.array([1], pa.int32())}))
    assert comments(by_arrow.refresh().to_arrow(columns=["s", "n"]).schema) == {
        "s": "outer", "f": "inner"}  # fmt: skip
    assert_sound(by_ddl.context.store)


def test_comments_change_and_go_and_the_columns_keep_theirs() -> None:
    """ENT-11: through renames, moves, wider types and replaced columns."""
    table = table_of("id INT, s STRUCT<f: INT>, `a.b` INT", partition_by=["id"])
    table.append(pa.Table.from_pylist([{"id": 1, "s": {"f": 2}, "a.b": 3}], table.schema))
    first = table.alter.set_comment("sales")
    assert (first.version, table.alter.set_comment("sales").no_op) == (2, True)
    table.alter.set_comment(HOSTILE, column="S.f")
    table.alter.set_comment("dots", column="a.b")
    table.alter.set_comment("gone soon", column="id")
    table.alter.set_comment(None, column="id")
    table.alter.widen_column("s.f", "BIGINT")
    table.alter.rename_column("s", "t")
    table.alter.move_column("a.b", first=True)
    now = handle(table.context.store)
    assert (now.comment, comments(now.schema)) == ("sales", {"f": HOSTILE, "a.b": "dots"})
    data = pa.table({"t": pa.array([{"f": 5}]), "id": [9], "new": [1]})
    table.overwrite(data, overwrite_schema=True)
    now = handle(table.context.store)
    assert (now.comment, comments(now.schema)) == ("sales", {"f": HOSTILE})
    said = pa.field("id", pa.int64(), metadata={b"comment": b"said"})
    table.overwrite(pa.table({"id": [1], "x": [2]}, pa.schema([said, ("x", "int64")])),
                    overwrite_schema=True)  # fmt: skip
    table.append(
        pa.table({"y": [3], "id": [4]}, pa.schema([pa.field("y", "int64", metadata={
            b"comment": b"\xff why"}), ("id", "int64")])), merge_schema=True,
    )  # fmt: skip
    table.alter.set_comment("")
    now = handle(table.context.store)
    assert (now.comment, comments(now.schema)) == (None, {"id": "said", "y": "\ufffd why"})
    assert now.to_arrow().num_rows == 2
    assert_sound(table.context.store)


@pytest.mark.parametrize("text", ["c" * 4001, 7, b"bytes", "\ud800"])
def test_what_is_no_comment_is_refused(text: Any) -> None:
    """ENT-11."""
    table = table_of("id INT, s STRUCT<f: INT>")
    for column in (None, "id", "s.f"):
        with pytest.raises(SchemaMismatchError, match="comment"):
            table.alter.set_comment(text, column=column)
    with pytest.raises(SchemaMismatchError, match="comment"):
        table_of("id INT", comment=text)
    with pytest.raises(SchemaMismatchError, match="no column 'x'"):
        table.alter.set_comment("c", column="x")
    long = pa.schema([pa.field("id", pa.int32(), metadata={b"comment": b"c" * 4001})])
    with pytest.raises(SchemaMismatchError, match="comment of column 'id'"):
        table_of(long)
    # The comment of an existing column is ignored.
    table.append(pa.table({"id": pa.array([1], pa.int32())}, long))
    assert handle(table.context.store).to_arrow().to_pylist() == [{"id": 1, "s": None}]


def test_a_comment_is_a_change_of_metadata_and_no_other_table() -> None:
    """CFL-5, CFL-4: a staged write does not rebase onto it. An equal definition joins."""
    store = memory()
    table = Table(create(store, "id INT COMMENT 'a'", comment="one"))
    staged = table.transaction().append(pa.table({"id": pa.array([1], pa.int32())}))
    handle(store).alter.set_comment("two")
    with pytest.raises(MetadataChangedException):
        staged.commit()
    assert create(store, "id INT COMMENT 'b'", exist_ok=True).version == 1
    with pytest.raises(TableExistsError):
        create(store, "id BIGINT COMMENT 'a'", exist_ok=True)


def test_an_overwrite_of_the_schema_partitions_anew() -> None:
    """SCH-8, CFL-3: the new version has other partitions or none. Old versions keep their own."""
    table = table_of("id INT, p STRING, q STRING", partition_by=["p"])
    rows = [{"id": 1, "p": "a", "q": "x"}, {"id": 2, "p": "b", "q": "x"}]
    table.append(pa.Table.from_pylist(rows, table.schema))
    by_q = pa.Table.from_pylist(
        [{"id": 3, "q": "y"}], pa.schema([("id", "int32"), ("q", "string")])
    )
    table.overwrite(by_q, overwrite_schema=True, partition_by=["Q"])
    table.append(pa.table({"id": pa.array([4], pa.int32()), "q": ["z"]}))
    now = handle(table.context.store)
    assert (now.partition_by, now.to_arrow(where="q = 'z'").to_pylist()) == (
        ["q"], [{"id": 4, "q": "z"}])  # fmt: skip
    now.overwrite(by_q, where="q = 'z' OR q = 'y'")
    staged = now.refresh().transaction().overwrite(by_q, overwrite_schema=True, partition_by=())
    handle(table.context.store).append(by_q)
    staged.commit()
    now = handle(table.context.store)
    assert (now.partition_by, now.to_arrow().to_pylist()) == ([], [{"id": 3, "q": "y"}])
    assert now.to_arrow(version=1).sort_by("id").to_pylist() == rows
    assert now.to_arrow(version=1, where="p = 'b'").to_pylist() == rows[1:]
    for wrong, why in ((["x"], "'x'"), (["q", "Q"], "twice"), (["id", "q"], "every column")):
        with pytest.raises(SchemaMismatchError, match=why):
            now.overwrite(by_q, overwrite_schema=True, partition_by=wrong)
    with pytest.raises(SchemaMismatchError, match="overwrite_schema=True"):
        now.overwrite(by_q, partition_by=["q"])
    assert_sound(table.context.store)
