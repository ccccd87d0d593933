"""Alter: properties and columns, by metadata alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    InvalidRangeError,
    MetadataChangedException,
    SchemaMismatchError,
)
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import OperationClass
from tablefmt.store.store_wrappers import CountingStore
from tests.tables import assert_sound, by_hand, handle, ids, memory, new_table, rows


def test_properties_are_set_and_unset_one_by_one() -> None:
    """ENT-8: others stay; a version keeps the properties it had."""
    table = new_table(isolationLevel="Serializable")
    commit_result = table.alter.set_properties({"user.a": 1, "appendOnly": True})
    assert (commit_result.version, commit_result.operation) == (1, "SET TBLPROPERTIES")
    wanted = {"isolationLevel": "Serializable", "user.a": "1", "appendOnly": "true"}
    assert table.properties == handle(table.context.store).properties == wanted
    commit_result = table.alter.unset_properties(["isolationLevel", "user.a", "checkpointInterval"])
    assert (commit_result.version, commit_result.operation) == (2, "UNSET TBLPROPERTIES")
    assert handle(table.context.store).properties == {"appendOnly": "true"}
    first, second = table.context.view.entries_after(0)
    assert first.entry.operation.cls is OperationClass.METADATA
    assert second.entry.operation.parameters == {
        "properties": ["isolationLevel", "user.a", "checkpointInterval"]
    }
    assert first.entry.time_version == first.entry.timestamp
    assert_sound(table.context.store)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"isolationLevel": "SnapshotIsolation"}, "WriteSerializable or Serializable"),
        ({"conflictGranularity": "column"}, "row or file or transaction"),
        ({"deleteMode": "merge"}, "merge-on-read or copy-on-write"),
        ({"appendOnly": "yes"}, "true or false"),
        ({"deletedFileRetentionDuration": "a week"}, "a duration"),
        ({"checkpointInterval": 0}, "a whole number"),
        ({"noSuchProperty": "1"}, "unknown table property"),
    ],
)
def test_values_that_are_none_are_refused_by_name(properties: dict[str, Any], said: str) -> None:
    """ENT-8: the values are refused in `create`, `alter`, and `alter` in a transaction."""
    table = new_table()
    with pytest.raises(SchemaMismatchError, match=said):
        table.alter.set_properties(properties)
    with pytest.raises(SchemaMismatchError, match=said):
        table.transaction().alter.set_properties(properties)
    with pytest.raises(SchemaMismatchError, match=said):
        new_table(**properties)
    with pytest.raises(SchemaMismatchError, match="unknown table property"):
        table.alter.unset_properties(["noSuchProperty"])
    assert handle(table.context.store).version == 0


def test_what_changes_nothing_makes_no_version() -> None:
    """PTY-1: a property that has the value."""
    table = new_table(appendOnly="false")
    assert table.alter.set_properties({"appendOnly": False}).no_op
    assert table.alter.unset_properties(["user.never"]).no_op
    with pytest.raises(InvalidRangeError):
        table.alter.set_properties({}, retries=3)  # type: ignore[call-arg]
    assert handle(table.context.store).version == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INT", pa.int32()),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("ARRAY<STRUCT<a: INT, b: STRING>>", None),
        (pa.float64(), pa.float64()),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.list_(pa.string()), None),
    ],
)
def test_a_column_is_added_as_null(kind: Any, expected: Any) -> None:
    """SCH-3, SCH-4, RPL-4: old versions do not have it, new rows may."""
    table = new_table(partitioned=True)
    table.append(rows(1, 2))
    commit_result = table.alter.add_column("x", kind, after="id")
    assert (commit_result.version, commit_result.operation) == (2, "ADD COLUMNS")
    now = handle(table.context.store)
    assert now.schema.names == ["id", "x", "p"]
    if expected is not None:
        assert now.schema.field("x").type == expected
    assert now.to_arrow()["x"].to_pylist() == [None, None]
    assert now.to_arrow(version=1).schema.names == ["id", "p"]
    fields = now.context.view.head.metadata.schema
    assert [f.id for f in fields.fields][1] == 3
    assert fields.last_id >= 3
    assert now.append(rows(3)).version == 3
    assert now.delete("x IS NULL AND id = 1" if expected is not None else "id = 1").version == 4
    assert ids(now) == [2, 3]
    assert_sound(table.context.store)


def test_columns_added_one_after_the_other_have_ids_of_their_own() -> None:
    """SCH-4: nested ones too; and what is written finds its place by name."""
    table = new_table()
    table.alter.add_column("s", "STRUCT<a: INT, b: STRUCT<c: INT>>")
    table.alter.add_column("Z", "BIGINT", after="ID")
    schema = table.context.view.head.metadata.schema
    assert [(f.name, f.id) for f in schema.fields] == [("id", 1), ("Z", 7), ("p", 2), ("s", 3)]
    assert schema.last_id == 7
    row = pa.table({"s": [{"a": 1, "b": {"c": 2}}], "z": [5], "p": ["q"], "id": [9]})
    table.append(row)
    assert handle(table.context.store).to_arrow().to_pylist() == [
        {"id": 9, "Z": 5, "p": "q", "s": {"a": 1, "b": {"c": 2}}}
    ]
    assert table.scan(where="z = 5").count() == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("id", "INT"), SchemaMismatchError),
        (("ID", "INT"), SchemaMismatchError),
        (("", "INT"), SchemaMismatchError),
        (("x", "NOTHING"), SchemaMismatchError),
        (("x", "INT, y INT"), SchemaMismatchError),
        (("x", "INT NOT NULL"), SchemaMismatchError),
        (("x", 3), SchemaMismatchError),
        (("x", pa.duration("s")), SchemaMismatchError),
        (("s.A", "INT"), SchemaMismatchError),
        (("s.a.b", "INT"), SchemaMismatchError),
        (("s.b", "INT NOT NULL"), SchemaMismatchError),
    ],
)
def test_a_column_that_cannot_be_added_changes_nothing(
    arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    """SCH-2, SCH-5, SCH-7."""
    store = memory()
    table = new_table(store)
    table.alter.add_column("s", "STRUCT<a: INT>")
    with pytest.raises(error):
        table.alter.add_column(*arguments)
    with pytest.raises(error):
        table.transaction().alter.add_column(*arguments)
    with pytest.raises(SchemaMismatchError, match="to come after"):
        table.alter.add_column("x", "INT", after="nothing")
    for kind, default in (("INT", "3"), ("INT", True), ("BYTE", 200), ("STRUCT<a: INT>", {"a": 1})):
        with pytest.raises(SchemaMismatchError, match="default"):
            table.alter.add_column("x", kind, default=default)
    with pytest.raises(SchemaMismatchError, match="default"):
        table.alter.add_column("s.b", "INT", default=3)
    assert handle(store).version == 1


def test_two_alters_conflict() -> None:
    """CFL-5."""
    table = new_table()
    first = table.transaction().alter.add_column("x", "INT")
    second = handle(table.context.store).transaction().alter.add_column("y", "INT")
    second.commit()
    with pytest.raises(MetadataChangedException) as caught:
        first.commit()
    assert caught.value.winner_operation == "ADD COLUMNS"
    assert handle(table.context.store).schema.names == ["id", "p", "y"]


def test_a_warm_append_that_floats_takes_the_new_schema() -> None:
    """CFL-5: a handle that did not hear of the column still appends."""
    table = new_table()
    table.append(rows(1))
    handle(table.context.store).alter.add_column("x", "INT")
    commit_result = table.append(rows(2))
    assert commit_result.rebased_over == (2,)
    assert commit_result.rebased_over[0].rule == "CFL-5"
    assert by_hand(table.context.store) == [1, 2]
    assert handle(table.context.store).to_arrow()["x"].to_pylist() == [None, None]


def test_an_alter_asks_for_the_head_and_writes_the_entry() -> None:
    """CMT-2: no data file is looked at, nor the state of files."""
    counting = CountingStore(memory())
    table = new_table(counting)
    table.append(rows(1))
    counting.reset()
    table.alter.set_properties({"user.a": "b"})
    assert counting.requests == [("get", entry_key(2)), ("put_if_absent", entry_key(2))]


def test_a_table_made_by_hand_is_altered_too(tmp_path: Any) -> None:
    """SCH-3: the table is on a disk, opened by path."""
    table = tablefmt.create(tmp_path / "t", pa.schema([("a b", pa.int64()), ("c", pa.string())]))
    table.append(pa.table({"a b": [1], "c": ["x"]}))
    table.alter.add_column("d`e", "DATE", after="a b")
    assert tablefmt.open(tmp_path / "t").to_arrow().to_pylist() == [
        {"a b": 1, "d`e": None, "c": "x"}
    ]


def test_a_field_of_a_column_that_is_not_there_is_no_column() -> None:
    """SCH-11: a letter that is wrong makes no column called `adress.zip`; backticks make one."""
    table = tablefmt.create("memory://alter-address", "id INT, address STRUCT<zip: STRING>")
    table.append([{"id": 1, "address": {"zip": "z"}}])
    for name in ("adress.zip", "adress.`zip`", "`adress`.zip", "x.y.z"):
        with pytest.raises(SchemaMismatchError, match="enclose it in backticks") as caught:
            table.alter.add_column(name, "STRING")
        assert caught.value.columns == [name]
    assert table.refresh().version == 1
    table.alter.add_column("Address.street", "STRING")
    table.alter.add_column("`adress.zip`", "STRING", default="d")
    table.append([{"id": 2, "address": {"zip": "z", "street": "s"}, "adress.zip": "e"}])
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "address": {"zip": "z", "street": None}, "adress.zip": "d"},
        {"id": 2, "address": {"zip": "z", "street": "s"}, "adress.zip": "e"},
    ]
    with pytest.raises(SchemaMismatchError, match="already"):
        table.alter.add_column("`adress.ZIP`", "STRING")


@pytest.mark.parametrize(
    ("text", "name"),
    [("`a b`", "a b"), ("`x.y`", "x.y"), ("`a``b`", "a`b"), ("a`b", "a`b"), ("```a```", "`a`")],
)
def test_backticks_enclose_a_name_in_every_change(text: str, name: str) -> None:
    """One rule for all calls, with and without a dot in the name."""
    uri = f"memory://alter-quoted-{text.encode().hex()}"
    table = tablefmt.create(uri, "id INT, s STRUCT<f: INT>")
    table.alter.add_column(text, "INT")
    assert table.schema.names == ["id", "s", name]
    if text[0] == "`":
        table.alter.add_column(f"s.{text}", "INT")
        assert [field.name for field in table.schema.field("s").type] == ["f", name]
    with pytest.raises(SchemaMismatchError, match="already exists"):
        table.alter.add_column(text, "INT")
    table.alter.set_default(text, 5)
    table.alter.set_not_null(text)
    table.alter.drop_not_null(text)
    table.alter.set_comment("said", column=text)
    table.alter.widen_column(text, "BIGINT")
    table.alter.move_column(text, first=True)
    assert table.schema.names == [name, "id", "s"]
    assert table.schema.field(name).type == pa.int64()
    table.append([{"id": 1}])
    assert table.to_arrow(columns=[name])[name].to_pylist() == [5]
    table.alter.rename_column(text, "plain")
    table.alter.rename_column("`plain`", name)
    table.alter.drop_column(text)
    assert table.schema.names == ["id", "s"]


@pytest.mark.parametrize("text", ["`a", "``", "`a`b", "s.`a", "`a``", "`"])
def test_an_unclosed_backtick_is_no_name(text: str) -> None:
    """A slip of the pen makes no column."""
    table = tablefmt.create(
        f"memory://alter-open-{text.encode().hex()}", "id INT, s STRUCT<f: INT>"
    )
    with pytest.raises(SchemaMismatchError, match="backticks enclose a name"):
        table.alter.add_column(text, "INT")
    assert table.version == 0
