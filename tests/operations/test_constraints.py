"""CHECK and NOT NULL: verified when they are added, held by every writer through Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import (
    ConcurrentAppendException,
    ConstraintViolationError,
    InvalidPredicateError,
    MetadataChangedException,
    SchemaMismatchError,
    TablefmtError,
)
from tablefmt.expressions.check_constraints import violation
from tablefmt.log.codec import encode
from tablefmt.model.log_entry import OperationClass
from tablefmt.table import Table
from tests.scheduling import examples
from tests.tables import assert_sound, data_files, handle, ids, memory, new_table, rows


def checked(condition: str = "id > 0", **properties: Any) -> Table:
    table = new_table(**properties)
    table.append(rows(1, 2))
    table.alter.add_constraint("right", condition)
    return table


def test_a_constraint_is_kept_told_and_dropped() -> None:
    """ENT-10: a version has the constraints of its metadata. The history has the change."""
    table = checked()
    commit_result = table.alter.add_constraint("p known", "p IN ('a', 'b') ")
    assert (commit_result.version, commit_result.operation) == (3, "ADD CONSTRAINT")
    wanted = {"right": "id > 0", "p known": "p IN ('a', 'b')"}
    assert table.constraints == handle(table.context.store).constraints == wanted
    entry = table.context.view.entries_after(2)[0].entry
    assert entry.operation.cls is OperationClass.METADATA
    assert entry.operation.parameters == {"name": "p known", "condition": "p IN ('a', 'b') "}
    assert entry.metadata is not None
    assert entry.metadata.constraints["p known"].columns == (2,)
    assert b'"constraints":{"p known":{"columns":[2],"condition":' in encode(entry)
    assert table.alter.drop_constraint("RIGHT").operation == "DROP CONSTRAINT"
    table.append(rows(-1))
    assert handle(table.context.store).constraints == {"p known": "p IN ('a', 'b')"}
    assert_sound(table.context.store)


WRITES: dict[str, Callable[[Table, pa.Table], Any]] = {
    "append": lambda table, data: table.append(data),
    "overwrite": lambda table, data: table.overwrite(data),
    "transaction": lambda table, data: table.transaction().append(data).commit(),
    "transaction overwrite": lambda table, data: table.transaction().overwrite(data).commit(),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("condition", ["id > 0", "id % 7 <> 6 AND id <> -1"])
def test_a_row_that_breaks_it_stops_every_writer(name: str, condition: str) -> None:
    """DAT-13: the last of many rows; nothing is visible, and no file stays."""
    table = checked(condition)
    files = data_files(table.context.store)
    with pytest.raises(ConstraintViolationError, match=r"1 of 10001 rows.*'right'") as caught:
        WRITES[name](table, rows(*(7 * i + 1 for i in range(10_000)), -1))
    assert caught.value.constraint == "right"
    assert caught.value.row == {"id": -1, "p": "a"}
    store = table.context.store
    assert data_files(store) == files
    assert (handle(store).version, ids(handle(store))) == (2, [1, 2])
    WRITES[name](table, rows(8))
    assert 8 in ids(handle(store))


def test_null_passes_a_check_as_in_sql() -> None:
    """DAT-13: three-valued logic; FALSE alone is refused."""
    table = new_table()
    table.alter.add_constraint("c", "id > 0 AND p <> 'x'")
    null = pa.nulls(1, pa.string())
    good = [(1, "a"), (None, "a"), (1, None), (None, None)]
    bad = [(0, "a"), (0, None), (None, "x"), (1, "x")]
    for pairs, fits in ((good, True), (bad, False)):
        for number, text in pairs:
            data = pa.table({"id": pa.array([number], pa.int64()), "p": [text] if text else null})
            if fits:
                table.append(data)
            else:
                with pytest.raises(ConstraintViolationError):
                    table.append(data)
    assert table.scan().count() == len(good)


@examples(30)
@given(
    values=st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=6),
    low=st.integers(-3, 3),
    form=st.sampled_from(["id >= {}", "NOT (id < {})", "id BETWEEN {} AND 3", "id + 0 >= {}"]),
)
def test_what_is_refused_is_exactly_what_makes_it_false(
    values: list[int | None], low: int, form: str
) -> None:
    """DAT-13: against plain Python."""
    table = new_table()
    table.alter.add_constraint("c", form.format(low))
    data = pa.table({"id": pa.array(values, pa.int64())})
    if any(v is not None and v < low for v in values):
        with pytest.raises(ConstraintViolationError):
            table.append(data)
    else:
        table.append(data)
        assert table.scan().count() == len(values)


def test_live_rows_prevent_a_constraint_and_deleted_ones_do_not() -> None:
    """ENT-10: verified on live rows of the version it reads."""
    table = new_table()
    table.append(rows(1, -5, 2))
    with pytest.raises(ConstraintViolationError, match=r"'right'.*-5") as caught:
        table.alter.add_constraint("right", "id > 0")
    assert caught.value.row == {"id": -5, "p": "a"}
    assert (table.refresh().version, table.constraints) == (1, {})
    table.delete("id = -5")
    table.alter.add_constraint("right", "id > 0")
    assert table.constraints == {"right": "id > 0"}


def test_files_that_cannot_break_it_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """ENT-10: bounds and null counts of the log decide for most files."""
    table = new_table()
    table.append(rows(1, 2))
    read: list[str] = []
    store = table.context.store
    monkeypatch.setattr(
        type(store), "get_ranges", lambda self, wanted: read.append(self.uri) or 1 / 0
    )
    table.alter.add_constraint("right", "id > 0")
    table.alter.set_not_null("id")
    assert read == []
    with pytest.raises(ZeroDivisionError):
        table.alter.add_constraint("wrong", "id > 1")


@pytest.mark.parametrize("added_constraint", ["check", "not null"])
def test_rows_added_since_stop_a_constraint(added_constraint: str) -> None:
    """CFL-12, ENT-10: rows that satisfy it count too, because they were not checked."""
    table = new_table()
    table.append(rows(1))
    txn = table.transaction()
    if added_constraint == "check":
        txn.alter.add_constraint("right", "id > 0")
    else:
        txn.alter.set_not_null("p")
    handle(table.context.store).append(rows(2))
    with pytest.raises(ConcurrentAppendException):
        txn.commit()
    assert handle(table.context.store).constraints == {}


def test_a_writer_that_began_before_it_is_stopped() -> None:
    """CFL-5, DAT-13: no row that breaks the constraint gets in."""
    table = new_table()
    txn = table.transaction().append(rows(-1))
    table.alter.add_constraint("right", "id > 0")
    with pytest.raises(MetadataChangedException):
        txn.commit()
    warm = handle(table.context.store)
    table.alter.add_constraint("small", "id < 100")
    with pytest.raises(ConstraintViolationError, match="small"):
        warm.append(rows(200))
    assert ids(handle(table.context.store)) == []


NO_CONDITIONS: list[tuple[str, type[TablefmtError], str]] = [
    ("", InvalidPredicateError, "cannot read"),
    ("id >", InvalidPredicateError, "cannot read"),
    ("id", InvalidPredicateError, "condition|boolean"),
    ("nosuch > 1", InvalidPredicateError, "nosuch"),
    ("t.id > 1", InvalidPredicateError, r"t\.id"),
    ("id > 1) OR (id < 5", InvalidPredicateError, "cannot read"),
    ("id > 1; DROP TABLE t", InvalidPredicateError, "cannot read"),
    ("id IN (SELECT 1)", InvalidPredicateError, "one row"),
    ("EXISTS (SELECT 1)", InvalidPredicateError, "one row"),
    ("max(id) > 1", InvalidPredicateError, "one row"),
    ("row_number() OVER (ORDER BY id) > 1", InvalidPredicateError, "one row"),
    ("id > rand()", InvalidPredicateError, "must not change over time"),
    ("current_date() > DATE'2020-01-01'", InvalidPredicateError, "must not change over time"),
    ("now() IS NOT NULL", InvalidPredicateError, "must not change over time"),
    ("uuid() <> p", InvalidPredicateError, "must not change over time"),
    ("id > ?", InvalidPredicateError, "one row|parse"),
    ("v IS NOT NULL", SchemaMismatchError, "variant"),
]


@pytest.mark.parametrize(("condition", "error", "words"), NO_CONDITIONS)
def test_what_is_no_condition_of_a_row_is_refused(
    condition: str, error: type[TablefmtError], words: str
) -> None:
    """ENT-10."""
    table = new_table()
    table.alter.add_column("v", "VARIANT")
    with pytest.raises(error, match=words):
        table.alter.add_constraint("c", condition)
    assert table.refresh().version == 1


def test_a_comment_in_a_condition_hides_nothing() -> None:
    """ENT-10: a quote, or a backtick in a column's name, hides nothing either."""
    table = tablefmt.create(memory().uri, "`a``b` INT, `c.d` STRING")
    table.alter.add_constraint("commented", "`a``b` > 0 -- positive")
    table.alter.add_constraint("it's", "`c.d` <> 'it''s'")
    for bad in ({"a`b": 0}, {"c.d": "it's"}):
        with pytest.raises(ConstraintViolationError):
            table.append(pa.Table.from_pylist([bad], table.schema))
    table.append(pa.Table.from_pylist([{"a`b": 1, "c.d": "its"}], table.schema))
    schema = table.context.view.head.metadata.schema
    assert violation("`a``b` > 0 -- y", schema) == "NOT (`a``b` > 0)"


def test_names_are_told_apart_and_there() -> None:
    """ENT-10."""
    table = checked()
    for name in ("", " ", "x" * 256, 7):
        with pytest.raises(SchemaMismatchError, match="is not a constraint name"):
            table.alter.add_constraint(name, "id > 0")  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatchError, match="already"):
        table.alter.add_constraint("Right", "id > 5")
    with pytest.raises(SchemaMismatchError, match=r"'left'.*'right'"):
        table.alter.drop_constraint("left")


ALTERATIONS: dict[str, Callable[[Table], Any]] = {
    "rename": lambda table: table.alter.rename_column("id", "key"),
    "drop": lambda table: table.alter.drop_column("id"),
    "widen": lambda table: table.alter.widen_column("id", "DECIMAL(20,0)"),
    "overwrite": lambda table: table.overwrite(
        pa.table({"id": ["x"], "p": ["a"]}), overwrite_schema=True
    ),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_a_column_that_a_constraint_looks_at_stays_as_it_is(name: str) -> None:
    """ENT-10: other columns may change. The column may change after the constraint is dropped."""
    table = checked()
    with pytest.raises(SchemaMismatchError, match=r"'right'.*drop the constraint") as caught:
        ALTERATIONS[name](table)
    assert caught.value.columns == ["id"]
    table.alter.rename_column("p", "q")
    with pytest.raises(ConstraintViolationError):
        table.append(pa.table({"id": [-1], "q": ["a"]}))
    table.alter.drop_constraint("right")
    table.alter.rename_column("q", "p")
    ALTERATIONS[name](table)


def test_not_null_is_verified_held_and_dropped() -> None:
    """ENT-10, DAT-3: NULL in a deleted row does not count."""
    table = new_table()
    table.append(rows(1, 2, p=["a", "b"]))
    table.append(pa.table({"id": [3]}))
    with pytest.raises(ConstraintViolationError, match=r"'p'.*3"):
        table.alter.set_not_null("p")
    table.append(rows(4))
    table.delete("p IS NULL")
    commit_result = table.alter.set_not_null("P")
    assert commit_result.operation == "CHANGE COLUMN"
    assert not handle(table.context.store).schema.field("p").nullable
    assert ids(handle(table.context.store)) == [1, 2, 4]
    for name in WRITES:
        with pytest.raises((ConstraintViolationError, SchemaMismatchError), match="'p'"):
            WRITES[name](table, pa.table({"id": [5]}))
        with pytest.raises(ConstraintViolationError, match="'p'"):
            WRITES[name](table, pa.table({"id": [5], "p": pa.nulls(1, pa.string())}))
    assert table.alter.set_not_null("p").no_op
    table.alter.drop_not_null("p")
    table.append(pa.table({"id": [6]}))
    assert table.to_arrow(where="p IS NULL")["id"].to_pylist() == [6]
    with pytest.raises(SchemaMismatchError, match="nosuch"):
        table.alter.set_not_null("nosuch")
    assert_sound(table.context.store)


def test_not_null_of_a_file_that_lacks_the_column_is_verified() -> None:
    """ENT-10: a file without the column has NULL in every row."""
    table = new_table()
    table.append(rows(1))
    table.alter.add_column("x", "STRUCT<a: INT>")
    with pytest.raises(ConstraintViolationError, match="'x'"):
        table.alter.set_not_null("x")


CHANGES: dict[str, Callable[[Table], Any]] = {
    "update": lambda table: table.update({"id": "-id"}, where="id = 2"),
    "update in a transaction": lambda table: (
        table.transaction().update({"id": "-id"}, where="id = 2").commit()
    ),
    "merge update": lambda table: (
        table.merge(rows(2), "s.id = t.id").when_matched_update({"id": "-s.id"}).execute()
    ),
    "merge insert": lambda table: (
        table.merge(rows(-7), "s.id = t.id").when_not_matched_insert_all().execute()
    ),
    "merge by source": lambda table: (
        table.merge(rows(2), "s.id = t.id")
        .when_not_matched_by_source_update({"id": "-t.id"})
        .execute()
    ),
}


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("name", CHANGES)
def test_new_values_are_held_to_it_and_rows_that_stay_are_not_asked(name: str, mode: str) -> None:
    """DAT-13: a refused UPDATE or MERGE leaves no file."""
    table = checked(deleteMode=mode)
    files = data_files(table.context.store)
    with pytest.raises(ConstraintViolationError, match="'right'"):
        CHANGES[name](table)
    store = table.context.store
    assert data_files(store) == files
    assert (handle(store).version, ids(handle(store))) == (2, [1, 2])
    table.update({"id": "id + 10"}, where="id = 2")
    assert ids(handle(store)) == [1, 12]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("delete", lambda table: table.delete("id = 1")),
        ("update", lambda table: table.update({"p": "'b'"})),
        ("overwrite", lambda table: table.overwrite(rows(9))),
        ("truncate", lambda table: table.truncate()),
        ("merge", lambda table: (
            table.merge(rows(1), "s.id = t.id").when_matched_delete().execute()
        )),
        ("merge of both", lambda table: (
            table.merge(rows(5), "s.id = t.id")
            .when_not_matched_insert_all()
            .when_not_matched_by_source_delete()
            .execute()
        )),
    ],
)  # fmt: skip
def test_an_append_only_table_loses_no_row(name: str, change: Callable[[Table], Any]) -> None:
    """appendOnly: what only adds rows goes on, a MERGE that inserts too."""
    table = new_table(appendOnly="true")
    table.append(rows(1, 2))
    with pytest.raises(ConstraintViolationError, match="append-only"):
        change(table)
    assert (table.refresh().version, ids(table)) == (1, [1, 2])
    table.merge(rows(2, 3), "s.id = t.id").when_not_matched_insert_all().execute()
    table.alter.add_constraint("right", "id > 0")
    assert ids(table.refresh()) == [1, 2, 3]
    table.alter.set_properties({"appendOnly": False})
    change(table)
