"""A name before a column that is no name of the table: a misspelt struct, for one. Refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import InvalidPredicateError
from tablefmt.table import Table
from tests.tables import memory

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int32()),
        "address": pa.array([{"id": 7}, {"id": 1}], pa.struct([("id", pa.int32())])),
    }
)


@pytest.fixture(params=["with rows", "empty"])
def table(request: pytest.FixtureRequest) -> Table:
    made = tablefmt.create(memory().uri, "id INT, address STRUCT<id: INT>", partition_by=["id"])
    if request.param == "with rows":
        made.append(ROWS)
    return made


TEXTS = [
    "adress.id = 1",
    "wrong.id = 1 AND id = 1",
    "wrong.id + 0 = 1",
    "id.id = 1",
    "a.b.id = 1",
    "`adress`.`id` IN (1)",
    "upper(adress.id) IS NULL",
    "t.id = 1",
]

USES: dict[str, Callable[[Table, str], Any]] = {
    "scan": lambda table, text: table.scan(where=text).to_arrow(),
    "changes": lambda table, text: table.changes(starting_version=0, where=text).to_arrow(),
    "delete": lambda table, text: table.delete(text),
    "update": lambda table, text: table.update({"address": "NULL"}, where=text),
    "value": lambda table, text: table.update({"address": f"if({text}, NULL, address)"}),
    "truncate": lambda table, text: table.truncate(text),
    "overwrite": lambda table, text: table.overwrite(ROWS, where=text),
    "constraint": lambda table, text: table.alter.add_constraint("c", text),
    "on": lambda table, text: (
        table.merge(ROWS, f"g.id = s.id AND {text}", target_alias="g").when_matched_delete()
    ).execute(),
    "clause": lambda table, text: (
        table.merge(ROWS, "g.id = s.id", target_alias="g").when_matched_delete(text).execute()
    ),
}


@pytest.mark.parametrize("use", USES)
def test_an_unknown_qualifier_is_refused(table: Table, use: str) -> None:
    """SQL-7: each use of a condition refuses it, also without rows to check."""
    version = table.version
    for text in TEXTS:
        with pytest.raises(InvalidPredicateError, match=r"adress\.id|wrong\.id|id\.id|a\.b|t\.id"):
            USES[use](table, text)
    assert table.refresh().version == version


def test_a_struct_and_the_aliases_of_a_merge_are_known() -> None:
    """SQL-7: the table's name in ON and in all clauses, in conditions on partitions too."""
    made = tablefmt.create(memory().uri, "id INT, address STRUCT<id: INT>", partition_by=["id"])
    made.append(ROWS)
    assert made.to_arrow(where="address.id = 1")["id"].to_pylist() == [2]
    merge = made.merge(ROWS.slice(0, 1), "T.id = S.id AND T.id < 5", target_alias="t")
    merge = merge.when_matched_update({"address": "NULL"}, "T.address.id = S.address.id")
    merge.when_not_matched_by_source_delete("t.id > 1").execute()
    assert made.refresh().to_arrow().to_pylist() == [{"id": 1, "address": None}]
