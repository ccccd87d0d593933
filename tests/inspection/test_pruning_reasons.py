"""Reasons for pruning: they are the decision of the scan, and each one alone decides the same."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import InvalidArgumentError, InvalidPredicateError, VersionNotFoundError
from tablefmt.inspection.pruning_reasons import BY_SUMMARY, NO_CONDITION, UNKNOWN
from tablefmt.snapshot.table_state import Snapshot
from tests.tables import memory, new_table, rows

REGIONS = ["EU", "US", "it's", None]


@pytest.fixture(scope="module")
def table() -> tablefmt.Table:
    """Return a partitioned table of 24 files with NULLs, NaN and texts, from a checkpoint."""
    uri = memory().uri
    table = tablefmt.create(
        uri, "id BIGINT, region STRING, x DOUBLE, day DATE, s STRING", partition_by=["region"]
    )
    chance = random.Random(29)
    for number in range(12):
        rows = [
            {
                "id": None if chance.random() < 0.2 else chance.randrange(100),
                "region": REGIONS[(number + at) % 4 // 2 * 2 + number % 2],
                "x": chance.choice([None, float("nan"), chance.uniform(-5, 5)]),
                "day": None if number == 3 else 20_000 + chance.randrange(9),
                "s": chance.choice([None, "a", "ab", "b%"]),
            }
            for at in range(4)
        ]
        data = pa.Table.from_pylist(rows, table.schema.set(3, pa.field("day", pa.int32())))
        day = data["day"].cast(pa.date32())
        table.append(data.set_column(3, "day", day))
        if number == 7:
            table.checkpoint()
    return tablefmt.open(uri)


def leaf(chance: random.Random) -> str:
    number = chance.randrange(-5, 105)
    return chance.choice(
        [
            f"id {chance.choice(['<', '<=', '=', '!=', '>', '>=', '<=>'])} {number}",
            f"id in ({number}, {number + 3})",
            f"region = {chance.choice(['EU', 'US', 'none'])!r}",
            "region is null",
            "region is not null",
            f"x {chance.choice(['<', '>'])} {number / 20}",
            "isnan(x)",
            f"day = date '2024-10-{chance.randrange(1, 15):02}'",
            "day is null",
            f"s like {chance.choice(['a%', 'b', '%c'])!r}",
            "true",
            "false",
        ]
    )


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth == 0 or chance.random() < 0.3:
        return leaf(chance)
    parts = [condition(chance, depth - 1) for _ in range(2)]
    text = f"({parts[0]} {chance.choice(['and', 'and', 'or'])} {parts[1]})"
    return f"not {text}" if chance.random() < 0.2 else text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_reasons_are_the_decision(table: tablefmt.Table, seed: int) -> None:
    """PRN-4: on random conditions. The named part, as a condition of its own, excludes the file."""
    chance = random.Random(seed)
    left_out = 0
    for _ in range(40):
        where = condition(chance)
        found = table.why(where=where)
        scan = table.scan(where=where)
        rows = found.files.to_pylist()
        assert [r["id"] for r in rows] == table.scan().files()["id"].to_pylist()
        assert [r["id"] for r in rows if r["read"]] == scan.files()["id"].to_pylist(), where
        assert found.read == scan.files().num_rows
        for part in found.left_out:
            assert part != BY_SUMMARY, where
            mine = {r["id"] for r in rows if r["decided_by"] == part}
            assert len(mine) == found.left_out[part]
            assert not mine & set(table.scan(where=part).files()["id"].to_pylist()), (where, part)
            left_out += len(mine)
        assert all((r["decided_by"] is None) == r["read"] for r in rows)
    assert left_out > 200


def test_bounds_are_named() -> None:
    table = tablefmt.create(memory().uri, "id BIGINT, x DOUBLE, p STRING", partition_by=["p"])
    table.append({"id": [1, 5, None], "x": [1.5, float("nan"), 2.0], "p": ["a"] * 3})
    table.append({"id": [7], "x": [None], "p": [None]})
    rows = table.why(where="id > 5 and p = 'a'").files.to_pylist()
    assert [(r["read"], r["decided_by"], r["bounds"]) for r in rows] == [
        (False, "`id` > 5", "id: 1 to 5, NULLs 1"),
        (False, "`p` = 'a'", "p = NULL"),
    ]
    rows = table.why(where="x > 1 or id is null").files.to_pylist()
    assert [(r["read"], r["bounds"]) for r in rows] == [
        (True, "id: 1 to 5, NULLs 1; x: unknown to unknown, NULLs unknown, NaN 1"),
        (False, "id: 7 to 7, NULLs 0; x: unknown to unknown, NULLs 1, NaN 0"),
    ]


def test_conditions_that_bounds_cannot_decide_read_everything(table: tablefmt.Table) -> None:
    for where in ("upper(s) = 'A'", "id + 1 = 2"):
        found = table.why(where=where)
        assert set(found.files["reason"].to_pylist()) == {UNKNOWN}
        assert found.read == found.files.num_rows
        assert UNKNOWN in str(found)
    assert NO_CONDITION not in str(found)


def test_one_file_and_an_older_version(table: tablefmt.Table) -> None:
    files = table.scan(version=3).files().to_pylist()
    for file in (files[-1]["id"], files[-1]["path"]):
        found = table.why(where="id >= 0", file=file, version=3)
        assert found.files["path"].to_pylist() == [files[-1]["path"]]
    assert table.why(where="id >= 0", version=3).files.num_rows == len(files)
    for file in (99, "data/none"):
        with pytest.raises(InvalidArgumentError, match=r"is live at version \d+"):
            table.why(where="id >= 0", file=file)
    with pytest.raises(VersionNotFoundError):
        table.why(where="id >= 0", version=99)
    with pytest.raises(InvalidPredicateError):
        table.why(where="nope > 1")


@pytest.mark.parametrize("by", ["id", "path"])
def test_only_the_segment_of_a_file_is_explained(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PRN-16: a table of very many files has many segments."""
    monkeypatch.setattr("tablefmt.snapshot.segments.SEGMENT_FILES", 4)
    monkeypatch.setattr("tablefmt.snapshot.folding.SEGMENT_FILES", 4)
    table = new_table()
    for number in range(24):
        table.append(rows(number))
    everything = table.why(where="id = 5").files
    assert len(table.context.view.snapshot().history.segments) > 4
    asked: set[int] = set()
    deciding = Snapshot.deciding

    def noted(self: Snapshot, segment: Any, wanted: Any) -> pa.Table:
        asked.add(id(segment))
        return deciding(self, segment, wanted)

    monkeypatch.setattr(Snapshot, "deciding", noted)
    for row in everything.to_pylist():
        asked.clear()
        assert table.why(where="id = 5", file=row[by]).files.to_pylist() == [row]
        assert len(asked) == 1


def test_texts_are_cut_and_bytes_are_shown() -> None:
    table = tablefmt.create(memory().uri, "b BINARY, s STRING")
    table.append({"b": [b"\xff\x00"], "s": ["\x1b[31m"]})
    found = table.why(where=f"b = X'01' and s = '{'y' * 900}'")
    (row,) = found.files.to_pylist()
    assert row["bounds"] == "b: X'ff00' to X'ff00', NULLs 0"
    assert len(table.why(where=f"s = '{'y' * 900}'").files["decided_by"][0].as_py()) == 300
    shown = str(table.why(where="s = 'x'"))
    assert "\\u001b[31m" in shown
    assert "\x1b" not in shown
