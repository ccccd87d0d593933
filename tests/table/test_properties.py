"""Properties as Python's values, and the one that names columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from itertools import count
from typing import Any

import numpy as np
import pytest

import tablefmt
from tablefmt.errors import SchemaMismatchError
from tablefmt.maintenance.verify import Finding
from tablefmt.model.log_entry import Operation, OperationClass
from tablefmt.model.properties import check_properties
from tests.tables import extend, handle, new_table, rows

_numbers = count()


def made(schema: str = "id INT, `a,b` INT, `c``d` INT, s STRUCT<x: INT>", **properties: Any) -> Any:
    uri = f"memory://properties-{next(_numbers)}"
    return tablefmt.create(uri, schema, properties=properties)


@pytest.mark.parametrize(
    ("given", "kept", "bounded"),
    [
        (["id"], "id", ["id"]),
        (("ID", "a,b"), "ID, `a,b`", ["id", "a,b"]),
        (["c`d"], "`c``d`", ["c`d"]),
        ([], "", []),
        ("`a,b`,id", "`a,b`,id", ["id", "a,b"]),
    ],
    ids=repr,
)
def test_names_of_columns_may_be_a_list(given: Any, kept: str, bounded: list[str]) -> None:
    """PTY-2, PRN-11: text that means the same names; bounds of those and no others are kept."""
    table = made(statsColumns=given)
    table.append([{"id": 1, "a,b": 1, "c`d": 1}])
    table.alter.unset_properties("statsColumns")
    table.alter.set_properties({"statsColumns": given})
    table.append([{"id": 1, "a,b": 1, "c`d": 1}])
    assert table.refresh().properties == {"statsColumns": kept}
    for name in ("id", "a,b", "c`d"):
        where = "`" + name.replace("`", "``") + "` = 5"
        assert table.scan(where=where).files().num_rows == (0 if name in bounded else 2)


@pytest.mark.parametrize("names", ["nope", "id, nope", "s", "['id']", ["nope"]], ids=repr)
def test_names_that_are_no_columns_are_refused(names: Any) -> None:
    """PTY-1: the error comes when they are set, not when rows are written."""
    refused = r"statsColumns: column .*Name some of the columns 'id', "
    with pytest.raises(SchemaMismatchError, match=refused):
        made(statsColumns=names)
    table = made()
    with pytest.raises(SchemaMismatchError, match="statsColumns: column"):
        table.alter.set_properties({"user.a": "b", "statsColumns": names})
    assert (table.refresh().version, table.properties) == (0, {})


def test_a_table_that_names_no_column_can_be_written_and_says_so() -> None:
    """PTY-1, PRN-11: older releases accepted these values. They are ignored."""
    table = new_table()
    head = table.context.view.head
    metadata = replace(head.metadata, properties={"statsColumns": "['id']"})
    operation = Operation(name="SET TBLPROPERTIES", cls=OperationClass.METADATA)
    totals = replace(head.totals, metadata_version=1)
    extend(table.context.store, table, 1, metadata=metadata, operation=operation, totals=totals)
    table = handle(table.context.store)
    table.append(rows(1, 2))
    assert table.scan(where="id = 5").files().num_rows == 0
    table.alter.add_column("x", "INT")
    table.alter.rename_column("p", "place")
    table.alter.set_properties({"user.a": "b"})
    assert table.refresh().properties == {"statsColumns": "['id']", "user.a": "b"}
    (finding,) = table.verify().findings
    assert (finding.object, finding.rule) == (table.context.store.uri, "PTY-1")
    assert "column \"['id']\" does not exist" in finding.problem
    assert isinstance(finding, Finding)
    table.alter.set_properties({"statsColumns": ["place"]})
    assert table.verify().ok


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (timedelta(days=30), "30 days"),
        (timedelta(days=14), "2 weeks"),
        (timedelta(hours=36), "36 hours"),
        (timedelta(minutes=90), "90 minutes"),
        (timedelta(seconds=61), "61 seconds"),
        (timedelta(0), "0 weeks"),
        ("interval 5 days", "interval 5 days"),
    ],
    ids=str,
)
def test_a_duration_may_be_a_timedelta(given: Any, kept: str) -> None:
    """PTY-3: `vacuum(retention=…)` accepts the same."""
    table = made(deletedFileRetentionDuration=given)
    assert table.properties == {"deletedFileRetentionDuration": kept}
    expected = given.total_seconds() if isinstance(given, timedelta) else 432_000
    assert table.vacuum().retention_seconds == expected


@pytest.mark.parametrize(
    "given", [timedelta(seconds=0.5), timedelta(days=-1), timedelta(days=10**8, seconds=1), 5, None]
)
def test_what_is_no_duration_is_refused(given: Any) -> None:
    with pytest.raises(SchemaMismatchError, match="deletedFileRetentionDuration is"):
        made(deletedFileRetentionDuration=given)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"targetFileSize": np.int64(5)}, {"targetFileSize": "5"}),
        ({"appendOnly": np.bool_(True)}, {"appendOnly": "true"}),
        ({"user.day": date(2026, 1, 2), "user.x": np.str_("y")},
         {"user.day": "2026-01-02", "user.x": "y"}),
    ],
)  # fmt: skip
def test_what_has_a_text_is_kept_as_that(given: Any, kept: dict[str, str]) -> None:
    """PTY-2."""
    assert check_properties(given) == kept


@pytest.mark.parametrize("given", [None, b"x", [1], {"a": 1}])
def test_what_has_none_is_refused(given: Any) -> None:
    """PTY-2."""
    with pytest.raises(SchemaMismatchError, match="expected text"):
        check_properties({"user.x": given})
