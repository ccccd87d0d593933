"""Random MERGEs beside plain Python: the rows afterwards, or the refusal, are the same."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import MergeCardinalityError
from tablefmt.operations.merge_builder import MergeBuilder
from tests.operations.merges import COLUMNS, Maker, Merge, Row, TwoMatches, merged

SHAPE = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.int64()), ("w", pa.string())])
DDL = "p STRING, k INT, v BIGINT, w STRING"
MERGES_A_TABLE = 8


def data(rows: Sequence[Row]) -> pa.Table:
    return pa.table([list(c) for c in zip(*rows, strict=True)] or [[]] * 4, SHAPE)


def rows_of(table: tablefmt.Table) -> list[Row]:
    found = table.to_arrow()
    return sorted(zip(*(found[n].to_pylist() for n in COLUMNS), strict=True), key=repr)


def built(table: tablefmt.Table, merge: Merge) -> MergeBuilder[tablefmt.Commit]:
    """The statement as a user writes it."""
    builder = table.merge(data(merge.source), merge.on.sql)
    for clause in merge.clauses:
        said = None if clause.condition is None else clause.condition.sql
        values = {name: text.sql for name, text in (clause.values or {}).items()}
        if clause.side == "source":
            if clause.values is None:
                builder = builder.when_not_matched_insert_all(said)
            else:
                builder = builder.when_not_matched_insert(values, said)
        elif clause.action == "delete":
            if clause.side == "both":
                builder = builder.when_matched_delete(said)
            else:
                builder = builder.when_not_matched_by_source_delete(said)
        elif clause.side == "target":
            builder = builder.when_not_matched_by_source_update(values, said)
        elif clause.values is None:
            builder = builder.when_matched_update_all(said)
        else:
            builder = builder.when_matched_update(values, said)
    return builder


def run(seed: int) -> tuple[int, int]:
    """A table's life of several MERGEs; gives how many went through, and how many were refused."""
    maker = Maker(seed)
    mode = maker.rng.choice(["merge-on-read", "copy-on-write"])
    table = tablefmt.create(
        f"memory://merges/{seed}",
        DDL,
        partition_by=maker.rng.choice([(), ("p",), ("k",)]),
        properties={"deleteMode": mode},
    )
    expected: list[Row] = []
    for _ in range(3):
        new = maker.rows(8)
        table.append(data(new))
        expected = sorted([*expected, *new], key=repr)
    refused = 0
    for _ in range(MERGES_A_TABLE):
        merge = maker.merge()
        told = (seed, merge.on.sql, merge.source, built(table, merge).statement.clauses)
        try:
            after = merged(expected, merge)
        except TwoMatches:
            refused += 1
            with pytest.raises(MergeCardinalityError):
                built(table, merge).execute()
            assert rows_of(table) == expected, told
            continue
        commit = built(table, merge).execute()
        assert rows_of(table) == after, told
        if not commit.no_op:
            sums = {
                name: commit.metrics[f"numTargetRows{name}"] for name in ("Inserted", "Deleted")
            }
            assert len(after) - len(expected) == sums["Inserted"] - sums["Deleted"], told
        expected = after
    assert table.verify().findings == ()
    return MERGES_A_TABLE - refused, refused


@pytest.mark.parametrize("part", range(4))
def test_random_merges_do_what_plain_python_does(part: int) -> None:
    """MRG-1, MRG-2, MRG-3, MRG-4: in both delete modes, partitioned or not, NULL keys too."""
    done = [run(seed) for seed in range(part * 8, part * 8 + 8)]
    assert sum(went for went, _ in done) > 40
    assert sum(refused for _, refused in done) > 0


@pytest.mark.soak
@pytest.mark.parametrize("number", range(400))
def test_many_more_random_merges(number: int, first_seed: int) -> None:
    """MRG-1, MRG-2, MRG-3, MRG-4: 3,200 statements."""
    run(first_seed + number)
