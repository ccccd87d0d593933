"""Runs of rows: what a rewrite says of where its rows came from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tablefmt.operations.rows import runs_of

INPUTS = st.lists(
    st.integers(0, 12).flatmap(
        lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, max(rows - 1, 0))))
    ),
    max_size=5,
)


@given(inputs=INPUTS, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_runs_spell_out_the_outputs_row_by_row(
    inputs: list[tuple[int, set[int]]], cuts: list[int]
) -> None:
    """LIN-1: every row that is left, in order, and every row left out in exactly one run."""
    files = [
        (at + 1, rows, BitMap64(p for p in dropped if p < rows))
        for at, (rows, dropped) in enumerate(inputs)
    ]
    left = [(file, p) for file, rows, gone in files for p in range(rows) if p not in gone]
    ends = sorted({min(cut, len(left)) for cut in cuts} - {0} | {len(left)})
    sizes = [b - a for a, b in zip([0, *ends], ends, strict=False) if b > a]

    made = runs_of(files, sizes)

    spelt = [
        [(run.file, p) for run in runs for p in range(run.start, run.start + run.rows)
         if p not in run.dropped]
        for runs in made
    ]  # fmt: skip
    assert [len(rows) for rows in spelt] == sizes
    assert [row for rows in spelt for row in rows] == left
    assert all(run.dropped <= BitMap64(range(run.start, run.start + run.rows))
               for runs in made for run in runs)  # fmt: skip
    if sizes:
        covered = sorted(
            (run.file, p) for runs in made for run in runs
            for p in range(run.start, run.start + run.rows)
        )  # fmt: skip
        assert covered == [(file, p) for file, rows, _ in files for p in range(rows)]
