"""Runs of rows: the origin of the rows of a rewrite."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tablefmt.model.log_entry import AddedFiles
from tablefmt.session.row_changes import runs_of
from tablefmt.session.transaction_snapshot import joined

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


def test_joined_files_keep_their_order_and_know_no_more_than_before() -> None:
    """ADD-1, VAL-4, ENT-9: unknown facts of one part are unknown in the result.

    New versions of rows keep their mark.
    """
    one = AddedFiles({"path": ["a", "b"], "size": [1, 2], "rows": [3, 4], "lower.1": [5, 6]})
    two = AddedFiles({"path": ["c"], "size": [7], "rows": [8], "updated": [True]})
    both = joined([None, one, two])
    assert both == AddedFiles(
        {
            "path": ["a", "b", "c"],
            "size": [1, 2, 7],
            "rows": [3, 4, 8],
            "lower.1": [5, 6, None],
            "updated": [False, False, True],
        }
    )
    assert joined([None, one]) is one
    assert joined([None]) is None
