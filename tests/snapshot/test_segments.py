"""Bounds of several files together rule out nothing that one of them may hold."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import tablefmt
from tablefmt.expressions.file_pruning import may_match
from tablefmt.expressions.predicate import Predicate
from tablefmt.expressions.sql_to_predicate import parse_conjuncts
from tablefmt.model.schema import Field, Primitive, Schema
from tablefmt.snapshot import segments
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.segments import HeldColumns
from tests.expressions.test_file_pruning import Rows, cases, described, written
from tests.scheduling import examples
from tests.tables import new_table, rows

ONE = Schema((Field(id=1, name="a", physical="a", type=Primitive("long")),), 1)

_numbers = itertools.count()


def together(files: pa.Table) -> HeldColumns:
    ids = np.arange(files.num_rows)
    return HeldColumns(ids, ids, files)


@pytest.mark.slow
@examples(80)
@given(cases())
def test_a_segment_with_a_file_that_may_match_may_match(
    case: tuple[Schema, list[Rows], int | None, Predicate],
) -> None:
    """PRN-4 .. PRN-8: bounds of files that Parquet wrote, NaN, NULL and partitions among them."""
    schema, files, partition, predicate = case
    partition_ids = frozenset() if partition is None else frozenset({partition})
    bodies = [written(each, schema, 20) for each in files]
    for nans in (True, False):
        table = described(bodies, files, schema, partition, nans)
        kept = may_match(predicate, table, partition_ids)
        assert together(table).may_match(predicate, partition_ids) or not kept.any()


@pytest.mark.parametrize("condition", ["a = 7", "a IS NULL", "a IS NOT NULL", "a <> 3", "a > 100"])
@pytest.mark.parametrize(
    "files",
    [
        {"rows": [5, 5], "nulls.1": [5, 0], "lower.1": [3, 3], "upper.1": [3, 3]},
        {"rows": [1, 9], "nulls.1": [5, 5], "lower.1": [None, None], "upper.1": [None, None]},
        {"rows": [5, 5], "nulls.1": [-1, 0], "lower.1": [9, 1], "upper.1": [1, 9]},
        {"rows": [5, 5], "nulls.1": [None, 0], "lower.1": [None, 1], "upper.1": [9, 9]},
        {"rows": [0, 5], "nulls.1": [0, 5], "lower.1": [1, 1]},
        {"rows": [-3, 3], "nulls.1": [0, 0], "upper.1": [1, 1]},
    ],
)
def test_what_cannot_be_believed_of_one_file_is_not_known_of_all(
    files: dict[str, Any], condition: str
) -> None:
    """PRN-6: counts and bounds that contradict each other."""
    (predicate,), _ = parse_conjuncts(condition, ONE, "UTC")
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in files.items()})
    kept = may_match(predicate, table, frozenset())
    assert together(table).may_match(predicate, frozenset()) or not kept.any()


def test_a_condition_looks_into_the_segments_that_can_hold_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PRN-1: it finds the same files as in all segments."""
    monkeypatch.setattr(segments, "SEGMENT_FILES", 4)
    monkeypatch.setattr("tablefmt.snapshot.folding.SEGMENT_FILES", 4)
    table = new_table()
    for n in range(20):
        table.append(rows(10 * n, 10 * n + 9))
    looked: list[int] = []

    def spying(predicate: Predicate, files: pa.Table, partition_ids: frozenset[int]) -> Any:
        looked.append(files.num_rows)
        return may_match(predicate, files, partition_ids)

    view = LogView.open(table.context.store)
    snapshot = view.snapshot()
    assert [len(s) <= 4 for s in snapshot.history.segments] == [True] * 5
    monkeypatch.setattr("tablefmt.snapshot.table_state.may_match", spying)
    (predicate,), _ = parse_conjuncts("id BETWEEN 51 AND 58", snapshot.schema, "UTC")
    chosen = snapshot.matching(predicate)
    assert chosen["lower.1"].to_pylist() == [50]
    assert looked == [4]


def test_files_that_went_may_have_been_partitioned_otherwise() -> None:
    """PRN-8: the partition values of live files decide."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = tablefmt.create(f"memory://partitioned-anew-{next(_numbers)}", schema)
    for n in range(8):
        table.append(pa.table({"id": [n], "p": ["a"]}, schema))
    one, other = (pa.table({"id": [9], "p": [p]}, schema) for p in ("a", "b"))
    table.overwrite(one, overwrite_schema=True, partition_by=["p"])
    assert len(table.context.view.snapshot().history.segments) > 1
    for each in (table, tablefmt.open(table.uri)):
        each.overwrite(other, where="p = 'b'")
        each.overwrite(one, dynamic_partitions=True)
        each.delete("p = 'b'")
        assert each.to_arrow().to_pylist() == one.to_pylist()
    table.truncate("p = 'a'")
    assert table.to_arrow().num_rows == 0
