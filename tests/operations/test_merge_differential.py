"""Random MERGEs beside plain Python: the rows afterwards, or the refusal, are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import MergeCardinalityError
from tablefmt.operations.merge_builder import MergeBuilder
from tablefmt.testing.reference_model import (
    CardinalityError,
    State,
    Values,
    appended,
    counted,
    merged,
)
from tests.operations.random_merges import COLUMNS, NAMES, Maker, Merge

SHAPE = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.int64()), ("w", pa.string())])
DDL = ", ".join(f"{c.name} {c.kind}" for c in COLUMNS)
MERGES_A_TABLE = 8
COUNTS = ("Inserted", "Updated", "Deleted")


def data(rows: Sequence[Values]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SHAPE)


def rows_of(table: tablefmt.Table) -> Counter[str]:
    found = table.to_arrow()
    return counted(zip(*(found[name].to_pylist() for name in NAMES), strict=True))


def built(table: tablefmt.Table, merge: Merge) -> MergeBuilder[tablefmt.Commit]:
    """The statement as a user writes it."""
    builder = table.merge(data(merge.source), merge.on.sql)
    for when in merge.whens:
        condition = None if when.condition is None else when.condition.sql
        verb = f"when_{when.side}"
        if when.sets is None:
            builder = getattr(builder, f"{verb}_delete")(condition)
            continue
        act = f"{verb}_insert" if when.side == "not_matched" else f"{verb}_update"
        if when.by_name:
            builder = getattr(builder, f"{act}_all")(condition)
        else:
            values = {name: term.sql for name, term in when.sets.items()}
            builder = getattr(builder, act)(values, condition)
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
    state = State(COLUMNS)
    for _ in range(3):
        new = maker.rows(8)
        table.append(data(new))
        state = appended(state, new).state
    refused = 0
    for _ in range(MERGES_A_TABLE):
        merge = maker.merge()
        told = (seed, merge.on.sql, merge.source, built(table, merge).statement.clauses)
        try:
            outcome = merged(state, merge.source, merge.on, merge.whens)
        except CardinalityError:
            refused += 1
            with pytest.raises(MergeCardinalityError):
                built(table, merge).execute()
            assert rows_of(table) == state.counted(), told
            continue
        commit = built(table, merge).execute()
        state = outcome.state
        assert rows_of(table) == state.counted(), told
        assert commit.no_op is not outcome.changes
        if outcome.changes:
            assert {name: commit.metrics[f"numTargetRows{name}"] for name in COUNTS} == {
                name: getattr(outcome, name.lower()) for name in COUNTS
            }, told
    assert table.verify().findings == ()
    return MERGES_A_TABLE - refused, refused


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("part", range(4))
def test_random_merges_do_what_plain_python_does(part: int) -> None:
    """MRG-1, MRG-2, MRG-3, MRG-4: both delete modes, partitioned or not, NULL keys too."""
    done = [run(seed) for seed in range(part * 8, part * 8 + 8)]
    assert sum(went for went, _ in done) > 40
    assert sum(refused for _, refused in done) > 0


@pytest.mark.soak
@pytest.mark.parametrize("number", range(400))
def test_many_more_random_merges(number: int, first_seed: int) -> None:
    """MRG-1, MRG-2, MRG-3, MRG-4: 3,200 statements."""
    run(first_seed + number)
