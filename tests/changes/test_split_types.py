"""Ranges in which a restore split the history of a type, against values that Python has exactly.

Spec: INC-4, INC-6, RET-3, SCH-9, VAL-4.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal as Number
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import InvalidRangeError
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Type
from tests.model.test_common_types import narrowest

_numbers = itertools.count()

WIDER = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(10, 0)", "DECIMAL(14, 4)"),
    "SMALLINT": ("INT", "BIGINT", "DOUBLE", "DECIMAL(12, 2)"),
    "INT": ("BIGINT", "DOUBLE", "DECIMAL(11, 1)", "DECIMAL(14, 4)", "DECIMAL(28, 18)"),
    "BIGINT": ("DECIMAL(20, 0)", "DECIMAL(38, 18)"),
    "DECIMAL(10, 0)": ("DECIMAL(12, 2)", "DECIMAL(38, 0)"),
    "DECIMAL(5, 2)": ("DECIMAL(10, 2)", "DECIMAL(8, 5)", "DECIMAL(38, 2)", "DECIMAL(38, 30)"),
    "DECIMAL(12, 2)": ("DECIMAL(22, 2)", "DECIMAL(38, 28)"),
    "FLOAT": ("DOUBLE",),
    "DATE": ("TIMESTAMP_NTZ",),
}
"""For some types: the types that a column may be widened to."""

STARTS = ["TINYINT", "SMALLINT", "INT", "INT", "INT", "DECIMAL(5, 2)", "FLOAT", "DATE"]

WHOLE = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def type_of(text: str) -> Type:
    return schema_from(f"v {text}").fields[0].type


def limits(kind: str) -> list[Any]:
    """Values at the limits of a type, and some between."""
    if kind in WHOLE:
        most = 2 ** WHOLE[kind] - 1
        return [0, 7, most, -most - 1, most - 1]
    if kind == "FLOAT":
        return [0.5, *(float(np.float32(v)) for v in (0.1, 3.4e38, 1.2e-38)), float("inf")]
    if kind == "DOUBLE":
        return [0.12345, 0.1, 2.0**53, 1.7e308, 5e-324, float("-inf"), -3.5]
    if kind == "DATE":
        return [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]
    if kind == "TIMESTAMP_NTZ":
        return [datetime(1, 1, 1), datetime(2020, 2, 29, 1, 2, 3, 4), datetime(9999, 12, 31, 23)]
    precision, scale = map(int, re.findall(r"\d+", kind))
    one = Number((0, (1,), -scale))
    return [one, one * 0, *(Number((sign, (9,) * precision, -scale)) for sign in (0, 1))]


def exact(value: Any) -> Any:
    """A value as one that is equal to those of other types if they are the same number or time."""
    if isinstance(value, datetime) or value is None:
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return value if value in (float("inf"), float("-inf")) else Fraction(value)


SHAPES = {
    "plain": ("v {0}", "v", lambda v: v, lambda v: v),
    "field": ("v STRUCT<b: STRING, a: {0}>", "v.a", lambda v: {"b": "x", "a": v}, lambda v: v["a"]),
    "element": ("v ARRAY<{0}>", "v.element", lambda v: [v], lambda v: v[0]),
    "key": ("v MAP<{0}, STRING>", "v.key", lambda v: [(v, "x")], lambda v: v[0][0]),
    "value": ("v MAP<STRING, {0}>", "v.value", lambda v: [("x", v)], lambda v: v[0][1]),
}
"""For each place of the changed type: column, path, and functions to wrap and unwrap a value."""

Row = tuple[int, int, Any]
"""The key, another column, and the value."""

Change = tuple[str, Row]


class History:
    """One table, and what its versions hold: rows as a model has them, and their changes."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        column, self.path, self.put, self.taken = SHAPES[chance.choice(list(SHAPES))]
        kind = chance.choice(STARTS)
        self.table = tablefmt.create(
            f"memory://split-{next(_numbers)}",
            f"k INT, w INT, {column.format(kind)}",
            properties={"deleteMode": chance.choice(["merge-on-read", "copy-on-write"])},
        )
        self.types = [kind]
        self.rows: list[tuple[Row, ...]] = [()]
        self.changes: list[tuple[Change, ...]] = [()]
        self.keys = itertools.count()

    def run(self, steps: int) -> History:
        self.append()
        for _ in range(steps):
            self.chance.choice(
                [self.append, self.append, self.widen, self.restore, self.update, self.delete]
            )()
        self.table.refresh()
        assert self.table.version == len(self.rows) - 1
        return self

    def _note(self, changes: Sequence[Change], kind: str | None = None) -> None:
        left = list(self.rows[-1])
        for what, row in changes:
            left.remove(row) if what in WENT else left.append(row)
        self.rows.append(tuple(left))
        self.changes.append(tuple(changes))
        self.types.append(kind or self.types[-1])

    def append(self) -> None:
        kind = self.types[-1]
        values = [self.chance.choice(limits(kind)) for _ in range(self.chance.randint(1, 3))]
        rows = [(next(self.keys), 0, value) for value in values]
        data = {
            "k": pa.array([k for k, _, _ in rows], pa.int32()),
            "w": pa.array([w for _, w, _ in rows], pa.int32()),
            "v": pa.array(
                [self.put(v) for v in values], self.table.refresh().schema.field("v").type
            ),
        }
        self.table.append(pa.table(data))
        self._note([("insert", (k, w, exact(v))) for k, w, v in rows])

    def widen(self) -> None:
        wider = WIDER.get(self.types[-1])
        if wider:
            kind = self.chance.choice(wider)
            self.table.alter.widen_column(self.path, kind)
            self._note([], kind)

    def update(self) -> None:
        chosen = [row for row in self.rows[-1] if self.chance.random() < 0.3]
        if chosen:
            keys = ", ".join(str(row[0]) for row in chosen)
            self.table.update({"w": "w + 1"}, f"k IN ({keys})")
            after = [(k, w + 1, v) for k, w, v in chosen]
            self._note(
                [("update_preimage", row) for row in chosen]
                + [("update_postimage", row) for row in after]
            )

    def delete(self) -> None:
        chosen = [row for row in self.rows[-1] if self.chance.random() < 0.3]
        if chosen:
            self.table.delete(f"k IN ({', '.join(str(row[0]) for row in chosen)})")
            self._note([("delete", row) for row in chosen])

    def restore(self) -> None:
        version = self.chance.randrange(len(self.rows))
        if self.table.restore(version=version).no_op:
            return
        now, then = Counter(self.rows[-1]), Counter(self.rows[version])
        went = [("delete", row) for row in (now - then).elements()]
        self._note(
            [*went, *(("insert", row) for row in (then - now).elements())], self.types[version]
        )

    def type_inside(self, kind: pa.DataType) -> pa.DataType:
        """Return the type of the values inside a column type."""
        if self.path == "v":
            return kind
        word = self.path.removeprefix("v.")
        if word == "a":
            return kind.field("a").type
        return getattr(
            kind, {"element": "value_type", "key": "key_type", "value": "item_type"}[word]
        )

    def read(self, rows: pa.Table) -> list[Row]:
        values = zip(*(rows[name].to_pylist() for name in "kwv"), strict=True)
        return [(k, w, exact(self.taken(v))) for k, w, v in values]

    def read_changes(self, **asked: Any) -> list[tuple[int, str, Row]]:
        rows = self.table.changes(**asked).to_arrow()
        stamps = (rows[name].to_pylist() for name in ("_commit_version", "_change_type"))
        return [(*each, row) for *each, row in zip(*stamps, self.read(rows), strict=True)]

    def wanted(self, content: str, after: int, ending: int) -> Counter[tuple[int, str, Row]]:
        if content == "changes":
            found = ((v, self.changes[v]) for v in range(after + 1, ending + 1))
            return Counter((v, kind, row) for v, changes in found for kind, row in changes)
        before, end = Counter(self.rows[after]), Counter(self.rows[ending])
        net = Counter({(ending, "insert", row): n for row, n in (end - before).items()})
        net.update({(ending, "delete", row): n for row, n in (before - end).items()})
        return net


WENT = ("delete", "update_preimage")

PART = re.compile(r"changes\(after_version=(\d+), ending_version=(\d+)\)")

ALONE = re.compile(r"Version (\d+) must be read separately. That read fails too")


def check(history: History) -> None:
    """Every version, and ranges of all contents in the columns of either end."""
    last = len(history.rows) - 1
    for version, rows in enumerate(history.rows):
        assert Counter(history.read(history.table.to_arrow(version=version))) == Counter(rows)
    ranges = [sorted(history.chance.sample(range(last + 1), 2)) for _ in range(5)] + [[0, last]]
    for (after, ending), content, end in itertools.product(
        ranges, ("changes", "net"), ("start", "end")
    ):
        wanted = history.wanted(content, after, ending)
        kinds = set(history.types[after : ending + 1])
        common = narrowest(tuple(map(type_of, kinds)))
        asked: dict[str, Any] = {
            "after_version": after,
            "ending_version": ending,
            "content": content,
        }
        try:
            changes = history.table.changes(**asked, schema=end)  # type: ignore[arg-type]
        except InvalidRangeError as error:
            refused = str(error)
        else:
            refused = ""
        if refused:
            assert common is None, refused
            assert all(str(type_of(kind)) in refused for kind in kinds), refused
            check_parts(history, refused, after, ending)
            continue
        assert Counter(history.read_changes(**asked, schema=end)) == wanted
        if common is not None:
            kind = history.type_inside(changes.schema.field("v").type)
            assert kind == arrow_type(common)


def check_parts(history: History, message: str, after: int, ending: int) -> None:
    """Check that the parts an error names return all changes but the unavailable ones."""
    found = [tuple(map(int, part)) for part in PART.findall(message)]
    alone = [(int(version) - 1, int(version)) for version in ALONE.findall(message)]
    at = after
    for part in sorted([*found, *alone]):
        assert part[0] == at, message
        at = part[1]
        try:
            read = history.read_changes(after_version=part[0], ending_version=part[1])
        except InvalidRangeError:
            assert part in alone
        else:
            assert Counter(read) == history.wanted("changes", *part)
    assert at == ending, message


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(16))
def test_rows_are_exact_or_the_range_is_refused(seed: int) -> None:
    """INC-4, INC-6, RET-3: the parts that the error names have all rows."""
    check(History(seed).run(9))


@pytest.mark.soak
def test_long_histories_are_exact_too(first_seed: int) -> None:
    """INC-4, INC-6, RET-3."""
    for seed in range(first_seed, first_seed + 400):
        check(History(seed).run(16))


@pytest.mark.parametrize(
    ("first", "second", "value", "where"),
    [
        ("DOUBLE", "DECIMAL(14, 4)", 0.12345, "v <= 0.12345D"),
        ("DECIMAL(14, 4)", "DOUBLE", Number("1234567890.1234"), "v >= 1234567890.1234"),
        ("BIGINT", "DOUBLE", 2**62 + 1, "v > 4611686018427387904"),
    ],
)
def test_bounds_that_another_type_does_not_hold_leave_no_file_out(
    first: str, second: str, value: Any, where: str
) -> None:
    """VAL-4, SCH-9: the bounds are from versions before a restore of a narrower type."""
    table = tablefmt.create(f"memory://split-{next(_numbers)}", "k INT, v INT")
    table.alter.widen_column("v", first)
    wide = table.append([{"k": 1, "v": value}]).version
    table.restore(version=0)
    table.alter.widen_column("v", second)
    row = {"k": 1, "v": value}
    assert table.to_arrow(version=wide, where=where).to_pylist() == [row]
    asked: dict[str, Any] = {"after_version": 1, "ending_version": wide, "where": where}
    asked["columns"] = ["k", "v"]
    fresh = tablefmt.open(table.uri)
    (change,) = fresh.changes(**asked).to_arrow().to_pylist()
    assert {name: change[name] for name in row} == row


def test_bounds_of_times_that_a_restore_made_dates_are_kept() -> None:
    """VAL-4: a date would cut the hours off."""
    table = tablefmt.create(f"memory://split-{next(_numbers)}", "v DATE")
    table.alter.widen_column("v", "TIMESTAMP_NTZ")
    late = datetime(2020, 1, 1) + timedelta(hours=5)
    wide = table.append([{"v": late}]).version
    table.restore(version=0)
    rows = table.to_arrow(version=wide, where="v >= TIMESTAMP_NTZ '2020-01-01 04:00:00'")
    assert rows.to_pylist() == [{"v": late}]


def test_bounds_that_a_restore_made_floats_are_not_rounded() -> None:
    """VAL-4: the nearest FLOAT is above the value, and a reader from then on has such columns."""
    table = tablefmt.create(f"memory://split-{next(_numbers)}", "v FLOAT")
    table.alter.widen_column("v", "DOUBLE")
    wide = table.append([{"v": 0.1}]).version
    table.restore(version=0)
    for reader in (table, tablefmt.open(table.uri)):
        rows = reader.to_arrow(version=wide, where="v <= 0.1D")
        assert rows.to_pylist() == [{"v": 0.1}]


def test_types_of_no_row_refuse_nothing() -> None:
    """INC-4: the column was widened by mistake, and no row was written before it was restored."""
    table = tablefmt.create(f"memory://split-{next(_numbers)}", "v INT")
    table.append([{"v": 1}])
    table.alter.widen_column("v", "BIGINT")
    table.delete("v = 1")
    table.restore(version=1)
    table.alter.widen_column("v", "DOUBLE")
    table.append([{"v": 0.5}])
    rows = table.changes(starting_version=0).to_arrow()
    assert rows.select(["_commit_version", "_change_type", "v"]).to_pylist() == [
        {"_commit_version": 1, "_change_type": "insert", "v": 1.0},
        {"_commit_version": 3, "_change_type": "delete", "v": 1.0},
        {"_commit_version": 4, "_change_type": "insert", "v": 1.0},
        {"_commit_version": 6, "_change_type": "insert", "v": 0.5},
    ]


def test_a_commit_that_takes_one_type_and_brings_another_is_refused_alone() -> None:
    """INC-4: a restore from BIGINT to DOUBLE is refused, before any row is returned."""
    table = tablefmt.create(f"memory://split-{next(_numbers)}", "k INT, s STRUCT<a: ARRAY<INT>>")
    table.alter.widen_column("s.a.element", "DOUBLE")
    table.append([{"k": 1, "s": {"a": [0.5]}}])
    table.restore(version=0)
    table.alter.widen_column("s.a.element", "BIGINT")
    table.append([{"k": 2, "s": {"a": [2**62 + 1]}}])
    table.restore(version=2)
    for content in ("changes", "net", "append"):
        with pytest.raises(InvalidRangeError) as caught:
            table.changes(after_version=5, content=content)
        assert str(caught.value) == (
            "column 's.a.element' was long at version 5, double at version 6, and no type can "
            "hold all of these values (INC-4). Version 6 must be read separately. That read fails "
            "too if the version deleted rows of one type and added rows of the other: read the "
            "table at that version instead"
        )
    with pytest.raises(InvalidRangeError, match="after_version=3, ending_version=5"):
        next(iter(table.changes(starting_version=0).follow()))
