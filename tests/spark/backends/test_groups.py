"""Partition values as the text that goes to the JVM. No session."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from tablefmt.expressions.ddl import schema_from
from tablefmt.model.arrow_types import arrow_type
from tablefmt.spark.backends.native.relation_columns import partition_groups, single_groups

SCHEMA = schema_from("id BIGINT, s STRING, b BINARY, d DOUBLE, n INT")
TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(
    ["", "\\N", "\\", "\t", "\n", "\\t", "a\r\nb", "\0"]
)  # fmt: skip
ROW = st.tuples(
    TEXT, st.none() | st.binary(max_size=3), st.none() | st.floats(), st.none() | st.integers(-9, 9)
)


def files(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns: dict[str, Any] = {"path": [f"data/{at}" for at in range(len(rows))]}
    for at, field in enumerate(SCHEMA.fields[1:]):
        columns[f"partition.{field.id}"] = pa.array([r[at] for r in rows], arrow_type(field.type))
    return pa.table(columns)


def read(cell: str, kind: str) -> Any:
    """A cell by the rules of `cells`, one character after the other."""
    if cell == "\\N":
        return None
    if kind == "binary":
        return bytes.fromhex(cell)
    if kind == "integer":
        return int(cell)
    text, rest = "", iter(cell)
    for character in rest:
        text += {"t": "\t", "n": "\n", "\\": "\\"}[next(rest)] if character == "\\" else character
    return text


@pytest.mark.slow
@hypothesis.given(st.lists(ROW, min_size=1, max_size=8))
def test_every_file_finds_its_values_again(rows: list[tuple[Any, ...]]) -> None:
    """VAL-2, DAT-8: exact, NULL is not empty text, floats are left to the files."""
    groups = partition_groups(files(rows), SCHEMA, frozenset({2, 3, 4, 5}))
    assert groups is not None
    columns = json.loads(groups.columns)["fields"]
    assert [c["name"] for c in columns] == ["s", "b", "n"]
    lines = groups.values.split("\n")
    assert len(lines) == len({(s, b, n) for s, b, _, n in rows})
    found = [
        tuple(read(c, k["type"]) for c, k in zip(lines[g].split("\t"), columns, strict=True))
        for g in groups.of_file.to_pylist()
    ]
    assert found == [(s, b, n) for s, b, _, n in rows]


@hypothesis.given(st.lists(ROW, max_size=6))
def test_every_file_has_its_place_beside_its_values(rows: list[tuple[Any, ...]]) -> None:
    """VAL-2: every file is a group of its own, in the order of the files."""
    for by in (frozenset({2, 3, 5}), frozenset({4})):
        alone = single_groups(files(rows), SCHEMA, by, "place")
        names = [c["name"] for c in json.loads(alone.columns)["fields"]]
        exact = by - {4} and rows
        assert names == (["s", "b", "n", "place"] if exact else ["place"])
        assert alone.of_file.to_pylist() == list(range(len(rows)))
        cells = [line.split("\t") for line in alone.values.split("\n")] if rows else []
        assert [line[-1] for line in cells] == [str(at) for at in range(len(rows))]
        if exact:
            assert [read(line[0], "string") for line in cells] == [r[0] for r in rows]


def test_without_values_to_go_by_there_are_no_groups() -> None:
    one = files([("a", b"", 1.0, 1)])
    assert partition_groups(one, SCHEMA, frozenset()) is None
    assert partition_groups(one, SCHEMA, frozenset({4})) is None
    assert partition_groups(one.slice(0, 0), SCHEMA, frozenset({2})) is None
    assert partition_groups(one.drop_columns(["partition.2"]), SCHEMA, frozenset({2})) is None
