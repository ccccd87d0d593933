"""Arguments of a wrong kind are refused by the errors of the package, and change nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    InvalidArgumentError,
    InvalidRangeError,
    SchemaMismatchError,
    StoreError,
    TableNotFoundError,
    UnknownArgumentError,
)
from tablefmt.model.argument_names import ELSEWHERE
from tablefmt.session.commit_options import CommitKeywords
from tablefmt.session.table_scan import ReadableTable
from tablefmt.table import Table
from tests.tables import ids, new_table, rows

_numbers = count()

Call = Callable[[Any], object]


def made(**definition: Any) -> Table:
    return tablefmt.create(f"memory://arguments-{next(_numbers)}", "id INT, p INT", **definition)


MISNAMED: dict[str, tuple[Call, str]] = {
    "Delta": (
        lambda t: tablefmt.create(t.uri, "id INT", partitionBy="id"),  # type: ignore[call-arg]
        "create(): unknown argument 'partitionBy'; did you mean 'partition_by'?",
    ),
    "delta-rs": (
        lambda t: tablefmt.write(rows(1), t.uri, schema_mode="merge"),  # type: ignore[call-arg]
        "write(): unknown argument 'schema_mode'; did you mean 'merge_schema'?",
    ),
    "an option of Spark": (
        lambda t: t.append(rows(1), userMetadata={}),
        "append(): unknown argument 'userMetadata'; did you mean 'user_metadata'?",
    ),
    "further keywords": (
        lambda t: t.to_arrow(predicate="id = 1"),
        "to_arrow(): unknown argument 'predicate'; did you mean 'where'?",
    ),
    "the first that fits": (
        lambda t: t.merge(rows(1), predicate="s.id = t.id"),
        "merge(): unknown argument 'predicate'; did you mean 'on'?",
    ),
    "misspelled": (
        lambda t: t.transaction().commit(deadlin=1),
        "commit(): unknown argument 'deadlin'; did you mean 'deadline'?",
    ),
    "alter": (
        lambda t: t.alter.set_properties({}, txnVersion=1),
        "set_properties(): unknown argument 'txnVersion'; did you mean 'application'?",
    ),
    "a version of a handle": (
        lambda t: tablefmt.open(t.uri, versionAsOf=1),  # type: ignore[call-arg]
        "open(): unknown argument 'versionAsOf'; a handle reads every version: use "
        "scan(version=…), or to_arrow(timestamp=…)",
    ),
    "a part of a table": (
        lambda t: tablefmt.write(rows(1), t.uri, replaceWhere="id = 1"),  # type: ignore[call-arg]
        "write(): unknown argument 'replaceWhere'; to replace the rows of a condition, use "
        "Table.overwrite(data, where)",
    ),
    "unlike all": (
        lambda t: t.history(xyz=1),
        "history(): unknown argument 'xyz'; it takes limit",
    ),
}


@pytest.mark.parametrize("name", MISNAMED)
def test_a_name_of_another_library_gets_advice(name: str) -> None:
    table = new_table()
    call, message = MISNAMED[name]
    with pytest.raises(UnknownArgumentError) as info:
        call(table)
    assert str(info.value) == message
    assert table.refresh().version == 0


def test_every_advice_names_an_argument_that_exists() -> None:
    """An argument that is renamed is renamed in ELSEWHERE too."""
    public: list[Any] = [
        tablefmt.create, tablefmt.write, tablefmt.open, tablefmt.import_table, tablefmt.maintain,
        tablefmt.pipe, tablefmt.duckdb.attach, tablefmt.duckdb.relation, tablefmt.polars.scan,
    ]  # fmt: skip
    public += [vars(Table)[name] for name in vars(Table) if not name.startswith("_")]
    public += [ReadableTable.scan]
    takes = {
        name for call in public if callable(call) for name in inspect.signature(call).parameters
    }
    takes |= CommitKeywords.__annotations__.keys()
    assert {name for names in ELSEWHERE.values() for name in names} <= takes
    # The suggestion would be shadowed by the argument itself.
    assert not ELSEWHERE.keys() & takes - {"filter", "path"}


NO_DATA: dict[str, Call] = {
    "whole": lambda t: t.overwrite(None),
    "where": lambda t: t.overwrite(None, where="id = 1"),
    "partitions": lambda t: t.overwrite(None, dynamic_partitions=True),
    "schema": lambda t: t.overwrite(None, overwrite_schema=True),
    "transaction": lambda t: t.transaction().overwrite(None),
    "write": lambda t: tablefmt.write(None, t.uri, mode="overwrite"),
}


@pytest.mark.parametrize("name", NO_DATA)
def test_nothing_is_no_data_for_an_overwrite(name: str) -> None:
    """A variable that was forgotten does not empty a table: truncate() does."""
    table = new_table()
    table.append(rows(1, 2))
    with pytest.raises(SchemaMismatchError, match="tabular data"):
        NO_DATA[name](table)
    assert (table.refresh().version, ids(table)) == (1, [1, 2])
    table.transaction().truncate(where="id = 1").commit()
    assert ids(table) == [2]
    table.truncate()
    assert ids(table) == []
    operations = table.history().column("operation").to_pylist()
    assert operations == ["TRUNCATE", "TRUNCATE", "WRITE", "CREATE TABLE"]


NOT_YES_OR_NO: dict[str, Call] = {
    "vacuum": lambda v: table_of_one().vacuum(retention=0, dry_run=v),
    "vacuum breaks": lambda v: table_of_one().vacuum(breaks_running_transactions=v),
    "expire_log": lambda v: table_of_one().expire_log(dry_run=v),
    "expire_log breaks": lambda v: table_of_one().expire_log(breaks_running_transactions=v),
    "maintain": lambda v: table_of_one().maintain(dry_run=v),
    "maintain by address": lambda v: tablefmt.maintain(table_of_one().uri, dry_run=v),
    "compact": lambda v: table_of_one().compact(dry_run=v),
    "cluster": lambda v: table_of_one().cluster("id", dry_run=v),
    "drop": lambda v: tablefmt.drop(table_of_one().uri, delete_data=v),
    "append": lambda v: table_of_one().append(rows(2), merge_schema=v),
    "overwrite": lambda v: table_of_one().overwrite(rows(2), overwrite_schema=v),
    "overwrite dynamic": lambda v: table_of_one().overwrite(rows(2), dynamic_partitions=v),
    "merge": lambda v: (
        table_of_one()
        .merge(rows(2), "t.id = s.id", merge_schema=v)
        .when_not_matched_insert_all()
        .execute()
    ),
    "write": lambda v: tablefmt.write(rows(2), table_of_one().uri, merge_schema=v),
    "create": lambda v: tablefmt.create(
        f"memory://arguments-{next(_numbers)}", "x INT", exist_ok=v
    ),
    "create with rows": lambda v: tablefmt.create(
        f"memory://arguments-{next(_numbers)}", {"x": [1]}, exist_ok=v
    ),
}

last: list[Table] = []


def table_of_one() -> Table:
    table = new_table()
    table.append(rows(1))
    last[:] = [table]
    return table


@pytest.mark.parametrize("given", [None, 0, 1, "false"], ids=repr)
@pytest.mark.parametrize("name", NOT_YES_OR_NO)
def test_yes_and_no_are_true_and_false(name: str, given: Any) -> None:
    """`dry_run=None` is no leave to remove files, and `"false"` no yes."""
    last.clear()
    with pytest.raises(InvalidRangeError, match="expected True or False"):
        NOT_YES_OR_NO[name](given)
    for table in last:
        assert (tablefmt.open(table.uri).version, ids(table)) == (1, [1])


MISFIT, ARGUMENT, STORE = SchemaMismatchError, InvalidArgumentError, StoreError

# fmt: off
OF_THE_TREE: dict[str, tuple[type[Exception], str, Call]] = {
    "partition by a number": (MISFIT, "partition_by", lambda t: made(partition_by=5)),
    "partition by numbers": (MISFIT, "partition_by", lambda t: made(partition_by=[1])),
    "partitions of a write": (MISFIT, "partition_by", lambda t: write(t, partition_by=[1])),
    "partitions of other columns": (MISFIT, "partition_by", lambda t: replace(t, [1])),
    "properties as pairs": (MISFIT, "properties", lambda t: made(properties=[("a", 1)])),
    "properties as text": (MISFIT, "properties", lambda t: made(properties="x")),
    "properties without a name": (MISFIT, "properties", lambda t: made(properties={None: 1})),
    "no properties": (MISFIT, "properties", lambda t: t.alter.set_properties(None)),
    "a property of nothing": (MISFIT, "unset", lambda t: made(properties={"user.a": None})),
    "a property of several": (MISFIT, "text", lambda t: made(properties={"user.a": ["b"]})),
    "names of properties": (MISFIT, "names", lambda t: t.alter.unset_properties(5)),
    "options of a number": (STORE, "storage_options", lambda t: opened(t, 5)),
    "options of text": (STORE, "storage_options", lambda t: opened(t, "x")),
    "options without a name": (STORE, "storage_options", lambda t: opened(t, {5: "x"})),
    "options of a pipe": (
        STORE, "storage_options", lambda t: tablefmt.pipe(t).into("memory://no", **options(5))
    ),
    "cluster by nothing": (MISFIT, "at least", lambda t: t.cluster([])),
    "cluster without an order": (MISFIT, "no clustering order", lambda t: t.cluster()),
    "an order of a number": (MISFIT, "by=5", lambda t: t.alter.set_clustering(5)),
    "an order twice": (
        MISFIT, "one of them", lambda t: made(cluster_by="id", properties={"clusterBy": "id"})
    ),
    "cluster by a number": (MISFIT, "by=5", lambda t: t.cluster(5)),
    "a column": (MISFIT, "not a column name", lambda t: t.alter.add_column(None, "INT")),
    "a wider column": (MISFIT, "not a column name", lambda t: t.alter.widen_column(None, "INT")),
    "after": (MISFIT, "not a column name", lambda t: t.alter.add_column("x", "INT", after=5)),
    "moved after": (MISFIT, "not a column name", lambda t: t.alter.move_column("id", after=5)),
    "a default": (MISFIT, "not a column name", lambda t: t.alter.set_default(5, 5)),
    "NOT NULL": (MISFIT, "not a column name", lambda t: t.alter.set_not_null(None)),
    "a constraint": (MISFIT, "None", lambda t: t.alter.drop_constraint(None)),
    "limit of a scan": (ARGUMENT, "limit", lambda t: t.scan(limit=-1)),
    "limit of a history": (ARGUMENT, "limit", lambda t: t.history(limit=-1)),
}
# fmt: on


def write(table: Table, **more: Any) -> object:
    return tablefmt.write(rows(1), table.uri, **more)


def replace(table: Table, partition_by: Any) -> object:
    return table.overwrite(rows(1), overwrite_schema=True, partition_by=partition_by)


def options(given: Any) -> dict[str, Any]:
    return {"storage_options": given}


def opened(table: Table, given: Any) -> object:
    return tablefmt.open(table.uri, **options(given))


@pytest.mark.parametrize("name", OF_THE_TREE)
def test_a_wrong_kind_is_an_error_of_the_tree(name: str) -> None:
    expected, text, call = OF_THE_TREE[name]
    table = table_of_one()
    with pytest.raises(expected, match=text) as caught:
        call(table)
    assert type(caught.value) is expected
    assert (table.refresh().version, table.schema.names) == (1, ["id", "p"])


def test_partitioned_by_nothing_may_be_said_in_three_ways() -> None:
    assert [made(partition_by=by).partition_by for by in (None, (), [])] == [[], [], []]
    assert made(partition_by="p").partition_by == ["p"]


def test_below_a_file_there_is_no_table(tmp_path: Path) -> None:
    """LOG-7: reads find no table. A create gets an error that names the file."""
    place = tmp_path / "file"
    place.write_text("x")
    for uri in (place, place / "below" / "t"):
        assert tablefmt.exists(uri) is False
        with pytest.raises(TableNotFoundError) as caught:
            tablefmt.open(uri)
        assert caught.value.uri == str(uri)
        with pytest.raises(CommitRejectedError, match="is a file"):
            tablefmt.create(uri, "x INT")
    assert place.read_text() == "x"
