"""Changes of columns that were dropped at the commit but exist in the answer's schema.

A restore brings such a column back, so a range over it has rows without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.changes.feed_plan import planned
from tablefmt.changes.version_range import Covered
from tablefmt.errors import UnsupportedFeatureError

COLUMNS = "k INT, x INT, f DOUBLE, s STRUCT<a: INT, b: STRING>"

NULLS = {"x": None, "f": None, "s": None}


def row(key: int, value: int) -> dict[str, Any]:
    """Return a row with a value in every column."""
    return {"k": key, "x": value, "f": value / 2, "s": {"a": value, "b": str(value)}}


def without(key: int) -> dict[str, Any]:
    """Return a row with the key alone."""
    return {"k": key, **NULLS}


def dropped(table: tablefmt.Table) -> None:
    """Three versions."""
    for name in NULLS:
        table.alter.drop_column(name)


def appended(table: tablefmt.Table, *rows: dict[str, Any]) -> None:
    names = table.refresh().schema.names
    data = [{name: values[name] for name in names} for values in rows]
    table.append(pa.Table.from_pylist(data, table.schema))


@dataclass(frozen=True)
class Case:
    """A table, a range, and the rows of it as (version, type, row)."""

    make: Callable[[tablefmt.Table, bool], object]
    """Makes the table. The flag chooses if files are compacted while the columns are dropped."""
    asked: dict[str, Any]
    rows: list[tuple[int, str, dict[str, Any]]]
    properties: dict[str, str] = field(default_factory=dict)


def _deleted(table: tablefmt.Table, compacted: bool) -> None:
    appended(table, row(1, 5), row(2, 6))
    appended(table, row(3, 7), row(4, 8))
    dropped(table)  # 3 to 5
    if compacted:
        table.compact("major")
    else:
        table.alter.set_properties({"targetFileSize": "1000000"})
    table.delete("k = 3")
    appended(table, {"k": 9})
    table.restore(version=2)


def _one_file(table: tablefmt.Table, compacted: bool) -> None:
    appended(table, *(row(k, 100 + k) for k in range(5)))
    table.delete("k = 0")
    dropped(table)  # 3 to 5
    table.delete("k = 1")
    table.delete("k = 2")
    table.restore(version=2)


def _came_back(table: tablefmt.Table, compacted: bool) -> None:
    appended(table, row(1, 5), row(2, 6))
    dropped(table)  # 2 to 4
    if compacted:
        table.compact("major")
    else:
        table.overwrite(pa.table({"k": pa.array([1, 2], pa.int32())}))
    table.restore(version=1)


def _twins(table: tablefmt.Table, compacted: bool) -> None:
    appended(table, row(1, 5), row(1, 6))
    table.truncate()
    appended(table, row(2, 0))
    dropped(table)  # 4 to 6
    table.restore(version=1)


def _all_dropped(table: tablefmt.Table, compacted: bool) -> None:
    appended(table, row(1, 5), row(2, 6))
    dropped(table)  # 2 to 4
    table.delete("k = 1")


def _more_and_more(table: tablefmt.Table, compacted: bool) -> None:
    appended(table, *(row(k, 10 + k) for k in range(4)))
    table.alter.drop_column("x")
    table.delete("k = 0")
    table.alter.drop_column("f")
    table.delete("k = 1")
    table.restore(version=1)


CASES: dict[str, Case] = {
    "deletes of one file while more and more is dropped": Case(
        _more_and_more,
        {"after_version": 2},
        [
            (3, "delete", {**row(0, 10), "x": None}),
            (5, "delete", {**row(1, 11), "x": None, "f": None}),
            (6, "insert", row(0, 10)),
            (6, "insert", row(1, 11)),
        ],
    ),
    "a delete between drop and restore": Case(
        _deleted,
        {"after_version": 6},
        [
            (7, "delete", without(3)),
            (8, "insert", without(9)),
            (9, "delete", without(9)),
            (9, "insert", row(3, 7)),
        ],
    ),
    "deletes of one file before and after": Case(
        _one_file,
        {"after_version": 1},
        [
            (2, "delete", row(0, 100)),
            (6, "delete", without(1)),
            (7, "delete", without(2)),
            (8, "insert", row(1, 101)),
            (8, "insert", row(2, 102)),
        ],
    ),
    "equal rows but for what was dropped": Case(_came_back, {"after_version": 5}, []),
    "the same, at the ends of a range": Case(
        _came_back, {"after_version": 4, "content": "net"}, []
    ),
    "two rows that differ in what was dropped": Case(
        _twins,
        {"after_version": 6},
        [(7, "delete", without(2)), (7, "insert", row(1, 5)), (7, "insert", row(1, 6))],
    ),
    "in the schema of the start": Case(
        _all_dropped,
        {"after_version": 1, "schema": "start"},
        [(5, "delete", without(1))],
    ),
}

CONDITIONS: Sequence[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("x > 5", lambda r: r["x"] is not None and r["x"] > 5),
    ("x IS NULL", lambda r: r["x"] is None),
    ("f = 2.5 OR k = 3", lambda r: r["f"] == 2.5 or r["k"] == 3),
    ("f * 2 > 0 AND k < 9", lambda r: r["f"] is not None and r["f"] > 0 and r["k"] < 9),
    ("s IS NULL AND k > 1", lambda r: r["s"] is None and r["k"] > 1),
]


def table_of(case: Case, uri: str, compacted: bool) -> tablefmt.Table:
    """The table of a case."""
    table = tablefmt.create(uri, COLUMNS)
    case.make(table, compacted)
    return table.refresh()


def as_text(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of an answer as text, in no order, without the times."""
    values = [
        (r["_commit_version"], r["_change_type"], *(r[n] for n in ("k", *NULLS))) for r in rows
    ]
    return sorted(map(repr, values))


def expected(case: Case, test: Callable[[dict[str, Any]], bool]) -> list[str]:
    """Return these rows of a case as `as_text` renders them."""
    rows = [(v, kind, *values.values()) for v, kind, values in case.rows if test(values)]
    return sorted(map(repr, rows))


@pytest.mark.share(2)
@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("name", CASES)
def test_a_column_that_was_dropped_then_is_null(name: str, compacted: bool, tmp_path: Path) -> None:
    """INC-4, INC-6: files may still hold the column.

    The answer is the same, for every condition.
    """
    case = CASES[name]
    check_case(case, table_of(case, str(tmp_path / "t"), compacted))


def check_case(case: Case, table: tablefmt.Table) -> None:
    """Refuse another answer, with a condition or without."""
    answer = table.changes(**case.asked).to_arrow()
    assert as_text(answer.to_pylist()) == expected(case, lambda _: True)
    for text, test in CONDITIONS:
        some = table.changes(**case.asked, where=text).to_arrow()
        assert as_text(some.to_pylist()) == expected(case, test), text
        narrow = table.changes(**case.asked, where=text, columns=["k"]).to_arrow()
        assert narrow.equals(some.select(narrow.schema.names)), text


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
def test_a_field_that_was_dropped_for_a_time_is_nothing_to_both_ends(
    compacted: bool, tmp_path: Path
) -> None:
    """INC-4, INC-6: a range over versions without the field is refused."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS)
    appended(table, row(1, 5), row(2, 6))
    appended(table, row(3, 7))
    table.alter.drop_column("s.b")  # 3
    table.append({"k": [9], "x": [9]})
    if compacted:
        table.compact("major")
    table.delete("k = 1")
    table.restore(version=2)
    table.refresh().delete("k = 2")
    appended(table, row(4, 8))
    came, went = row(4, 8), row(2, 6)
    for after in (2, 1, 0):
        net = table.changes(after_version=after, content="net").to_arrow()
        net = net.select(["_change_type", "k", *NULLS])
        then = table.to_arrow(version=after).to_pylist()
        now = table.to_arrow().to_pylist()
        expected = [{"_change_type": "delete", **r} for r in then if r not in now]
        expected += [{"_change_type": "insert", **r} for r in now if r not in then]
        assert sorted(map(sorted_text, net.to_pylist())) == sorted(map(sorted_text, expected))
        new = table.changes(after_version=after, content="append").to_arrow()
        rows = new.select(["k", *NULLS]).to_pylist()
        assert sorted(rows, key=str) == sorted((r for r in now if r not in then), key=str)
        with pytest.raises(UnsupportedFeatureError, match="struct field"):
            table.changes(after_version=after).to_arrow()
    assert came in now
    assert went not in now
    with pytest.raises(UnsupportedFeatureError, match="struct field"):
        table.changes(after_version=4, content="net").to_arrow()


def test_each_end_of_a_range_lacks_what_its_own_version_had_dropped(tmp_path: Path) -> None:
    """INC-4, PIP-5: rows before the range have the column, rows at its end do not."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS)
    appended(table, row(1, 5), row(2, 6))
    schema = table.context.view.metadata_at(1).schema
    table.alter.drop_column("x")
    table.refresh().delete("k = 1")
    appended(table, {"k": 3, "f": 1.0, "s": None})
    view = tablefmt.open(table.uri).context.view
    dropped_id = {schema.fields[1].id}
    range_ = Covered(first=2, last=view.head.version, settled=True)
    for whole in (False, True):
        ends = planned(view, range_, "net", schema, whole=whole)
        lost = {one.change: one.lost for one in ends}
        assert lost == {"delete": set(), "insert": dropped_id}


def sorted_text(values: dict[str, Any]) -> str:
    """Return a row as text. The order of its columns makes no difference."""
    return repr(sorted(values.items()))
