"""Rows are found again after any number of compactions, from metadata alone."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tablefmt.conflict.read_write_sets import (
    DeletionVector,
    Group,
    Output,
    PendingCommit,
    Read,
    Run,
)
from tablefmt.conflict.rebase import RowMove, place_all, rebase_onto
from tablefmt.errors import CorruptEntryError
from tablefmt.model.log_entry import OperationClass
from tests.conflict.world import Level, Row, Rows, Staged, World, live

MINOR, MAJOR = OperationClass.MINOR_COMPACT, OperationClass.MAJOR_COMPACT
UPDATE = OperationClass.UPDATE


def some_world(rng: random.Random, level: Level) -> World:
    """Return a world with files of distinct rows, some of them deleted."""
    sizes = [rng.randint(1, 8) for _ in range(rng.randint(2, 6))]
    names = iter(range(sum(sizes)))
    world = World(level, [[(next(names), 0, 0, 0) for _ in range(n)] for n in sizes])
    taken = {row for row in world.rows()[1:] if rng.random() < 0.3}
    assert world.commit(world.change(taken.__contains__, None, None, None)) is None
    return world


def some_compaction(rng: random.Random, world: World, cls: OperationClass = MINOR) -> Staged:
    files = world.files(world.version)
    rng.shuffle(files)
    chosen = files[: rng.randint(1, len(files))]
    at = rng.randint(0, len(chosen))
    groups = [g for g in (chosen[:at], chosen[at:]) if g]
    return world.compact(cls, groups, splits=[rng.randint(0, 5) for _ in groups])


def rows_at(world: World, file: int, positions: Iterable[int]) -> set[Row]:
    return {world.data[file][i] for i in positions}


def taken_out(world: World, mine: PendingCommit) -> tuple[set[Row], set[Row]]:
    """The rows that are deleted and updated, wherever they are now."""
    deleted: set[Row] = set()
    updated: set[Row] = set()
    for file, marks in mine.deletes.items():
        updated |= rows_at(world, file, marks.updated)
        if file not in mine.removes:
            deleted |= rows_at(world, file, marks.deleted)
    for file in mine.removes.tolist():
        found = {row for _, row in live(world.data[file], world.vector(file, world.version))}
        deleted |= found - updated
    return deleted, updated


def rows_of(world: World, outputs: Iterable[Output]) -> list[Rows]:
    """Return the rows that runs cover."""
    return [
        [
            world.data[run.file][i]
            for run in runs
            for i in range(run.start, run.start + run.rows)
            if i not in run.dropped
        ]
        for _, runs in outputs
    ]


SEEDS = st.integers(0, 1 << 32).map(random.Random)


@given(SEEDS)
def test_an_update_follows_its_rows_through_any_tree_of_compactions(rng: random.Random) -> None:
    """CFL-13, LIN-1: removals, reads and carried rows against the rows themselves."""
    world = some_world(rng, Level("row"))
    at = world.version
    files = world.files(at)
    gone = {row for row in world.rows() if rng.random() < 0.4}
    seen = {row for row in world.rows() if rng.random() < 0.4}
    staged = world.change(gone.__contains__, None, None, lambda row: row)
    positions = {
        f: BitMap64(i for i, row in live(world.data[f], world.vector(f, at)) if row in seen)
        for f in files
    }
    opened = [f for f in files if rng.random() < 0.5]
    whole = {row for f in opened for _, row in live(world.data[f], world.vector(f, at))}
    runs = tuple(Run(f, 0, len(world.data[f]), world.vector(f, at)) for f in files)
    staged.mine = replace(
        staged.mine,
        reads=(
            Read(files=np.array(files, np.int64), rows=positions),
            Read(files=np.array(opened, np.int64)),
        ),
        copied=((9, runs), (11, tuple(r for r in runs if rng.random() < 0.5))),
    )
    before = rows_of(world, staged.mine.copied)
    for _ in range(rng.randint(1, 5)):
        assert world.commit(some_compaction(rng, world)) is None
    assert world.follow(staged) is None

    mine = staged.mine
    now = set(world.files(world.version))
    assert set(mine.removes.tolist()) | set(mine.deletes) <= now
    deleted, updated = taken_out(world, mine)
    assert (deleted, updated) == (set(), gone)
    one, other = mine.reads
    assert one.rows is not None
    assert {row for f, at_ in one.rows.items() for row in rows_at(world, f, at_)} == seen
    found = {row for f, at_ in other.moved.items() for row in rows_at(world, f, at_)}
    for f in set(other.files.tolist()) - set(other.moved):
        found |= {row for _, row in live(world.data[f], world.vector(f, world.version))}
    assert found == whole
    assert rows_of(world, mine.copied) == before
    assert {run.file for _, runs in mine.copied for run in runs} <= now


@given(SEEDS)
def test_a_removal_of_whole_files_becomes_ranges_of_outputs(rng: random.Random) -> None:
    """CFL-13: rows that were deleted before stay deleted."""
    world = some_world(rng, Level("row"))
    at = world.version
    files = world.files(at)
    gone = [f for f in files[1:] if rng.random() < 0.5]
    wanted = {row for f in gone for _, row in live(world.data[f], world.vector(f, at))}
    staged = world.staged(UPDATE, [], at, None)
    staged.mine = replace(staged.mine, removes=np.array(gone, np.int64))
    others = {r for f in files if f not in gone for r in world.data[f]}
    for _ in range(rng.randint(1, 4)):
        late = some_compaction(rng, world)
        taken = {row for row in world.rows()[1:] if row in others and rng.random() < 0.3}
        # The concurrent commit makes the compaction move deletes into its outputs.
        assert world.commit(world.change(taken.__contains__, None, None, None)) is None
        assert world.commit(late) is None
    left = set(world.rows())
    assert world.follow(staged) is None
    assert taken_out(world, staged.mine)[0] == wanted <= left
    world.append(world.entry_of(staged))
    assert set(world.rows()) == left - wanted


@given(SEEDS)
def test_a_major_compaction_takes_over_any_number_of_minors(rng: random.Random) -> None:
    """CFL-16: its outputs hold the same rows in the same order, in terms of what is live."""
    world = some_world(rng, Level("transaction"))
    files = world.files(world.version)
    rng.shuffle(files)
    at = rng.randint(1, len(files))
    groups = [g for g in (files[:at], files[at:]) if g]
    staged = world.compact(MAJOR, groups, splits=[rng.randint(0, 5) for _ in groups])
    rows = {i: staged.files[i].rows for g in staged.mine.groups for i, _ in g.outputs}
    before = world.rows()
    for _ in range(rng.randint(1, 4)):
        assert world.commit(some_compaction(rng, world)) is None
    assert world.follow(staged) is None

    found = [output for group in staged.mine.groups for output in group.outputs]
    assert dict(zip([i for i, _ in found], rows_of(world, found), strict=True)) == rows
    inputs = [f for group in staged.mine.groups for f in group.inputs.tolist()]
    assert sorted(inputs) == sorted(world.files(world.version))
    world.append(world.entry_of(staged))
    assert world.rows() == before


@given(SEEDS, st.sampled_from(["row", "transaction"]))
def test_a_compaction_keeps_what_was_taken_out_meanwhile(
    rng: random.Random, granularity: str
) -> None:
    """CFL-14: rows, files taken whole, and groups that have nothing left."""
    world = some_world(rng, Level(granularity))
    staged = some_compaction(rng, world)
    for _ in range(rng.randint(1, 4)):
        gone = {row for row in world.rows() if rng.random() < 0.4}
        if not world.rows():
            break
        assert world.commit(world.change(gone.__contains__, None, None, None)) is None
    before = world.rows()
    assert world.commit(staged) is None
    assert world.rows() == before


def test_lineage_that_loses_a_row_is_damage() -> None:
    """LIN-1, CFL-13: a removal must not vanish silently."""
    world = World(Level("row"), [[(0, 0, 0, 0), (1, 0, 0, 0)]])
    staged = world.change(lambda row: row[0] == 1, None, None, None)
    lost = world.compact(MINOR, [[1]])
    group = lost.mine.groups[0]
    index, (run,) = group.outputs[0]
    short = Group(group.inputs, ((index, (replace(run, dropped=BitMap64([1])),)),))
    lost.mine = replace(lost.mine, groups=(short,))
    lost.files[0].rows = lost.files[0].rows[:1]
    concurrent = world.entry_of(lost)
    with pytest.raises(CorruptEntryError, match="LIN-1") as caught:
        rebase_onto(concurrent, staged.mine)
    assert caught.value.rule == "LIN-1"


@pytest.mark.parametrize("rows", [2**37, 2**63 - 1])
def test_lineage_of_more_rows_than_a_file_can_have_is_damage(rows: int) -> None:
    """LIN-1, STO-25: no set of positions is built for them."""
    world = World(Level("row"), [[(0, 0, 0, 0), (1, 0, 0, 0)]])
    staged = world.change(lambda row: row[0] == 1, None, None, None)
    compacted = world.entry_of(world.compact(MINOR, [[1]]))
    lineage = compacted.entry.lineage
    assert lineage is not None
    forged = replace(lineage, rows=[rows])
    concurrent = replace(compacted, entry=replace(compacted.entry, lineage=forged))
    mine = replace(staged.mine, reads=(Read(by_row=False, files=np.array([1], np.int64)),))
    with pytest.raises(CorruptEntryError, match=f"claims {rows} rows"):
        rebase_onto(concurrent, mine)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_concurrent_commits_leave_no_more_state_than_ten(count: int) -> None:
    """CFL-13, CFL-17: the live files bound the state that a rebase keeps."""
    world = World(Level("row"), [[(i, 0, 0, 0) for i in range(9)], [(9, 0, 0, 0)]])
    mine = world.change(lambda row: row[0] < 5, None, frozenset({1}), lambda row: row).mine
    sizes = []
    for number in range(count):
        eldest = world.files(world.version)[0]
        concurrent = world.entry_of(world.compact(MINOR, [[eldest]]))
        world.append(concurrent)
        world.states[-2] = ({}, {})
        del world.data[eldest]
        mine, allowed = rebase_onto(concurrent, mine)
        assert allowed.rule == "CFL-13"
        if number in (9, count - 1):
            read = mine.reads[0]
            assert read.rows is not None
            sizes.append((len(mine.deletes), len(read.rows), len(read.files), len(mine.known)))
    assert sizes == [(1, 1, 2, 2), (1, 1, 2, 2)]
    large = next(file for file, rows in world.data.items() if len(rows) == 9)
    assert mine.deletes == {large: DeletionVector(BitMap64(), BitMap64(range(5)))}


@pytest.mark.slow
def test_what_overwrites_wipe_is_not_remembered() -> None:
    """CFL-17: a thousand outputs that came and went leave nothing behind."""
    world = World(Level("row"), [[(0, 0, 0, 0)], [(1, 1, 0, 0)]])
    mine = world.change(lambda row: row[0] == 0, None, frozenset({1}), None).mine
    for _ in range(1000):
        other = next(f for f in world.files(world.version) if world.data[f][0][1] == 1)
        for staged in (world.compact(MINOR, [[other]]), world.overwrite({1}, [(1, 1, 0, 0)])):
            concurrent = world.entry_of(staged)
            world.append(concurrent)
            world.states[-2] = ({}, {})
            mine, _ = rebase_onto(concurrent, mine)
            assert len(mine.known) <= 1


def test_runs_of_one_input_meet_in_one_output() -> None:
    """LIN-1: rows 0 to 2 and 5 to 7 of an input are in one output, with others between."""
    first, second = Run(1, 0, 3, BitMap64([1])), Run(1, 5, 3, BitMap64())
    moves = [RowMove(first, 9, 0), RowMove(second, 9, 10)]
    entry = some_world(random.Random(1), Level("row")).log[-1].entry
    assert place_all(entry, moves, 1, BitMap64([0, 2, 6])) == {9: BitMap64([0, 1, 11])}
    for lost in (1, 3, 8):
        with pytest.raises(CorruptEntryError, match="loses rows of file 1"):
            place_all(entry, moves, 1, BitMap64([lost]))


def test_a_compaction_takes_over_outputs_of_its_own_inputs_alone() -> None:
    """CFL-16: another group of the concurrent compaction does not prevent it."""
    world = World(Level("transaction"), [[(name, 0, 0, 0)] for name in range(5)])
    files = world.files(world.version)
    mine = world.compact(MAJOR, [[files[0], files[1], files[4]]])
    assert world.commit(world.compact(MINOR, [files[:2], files[2:4]])) is None
    assert world.follow(mine) is None
    (group,) = mine.mine.groups
    assert sorted(row for _, (rows,) in [(0, rows_of(world, group.outputs))] for row in rows) == [
        (name, 0, 0, 0) for name in (0, 1, 4)
    ]
    other = world.compact(MAJOR, [[files[0], files[4]]], version=world.version - 1)
    found = world.follow(other)
    assert found is not None
    assert found.rule == "CFL-16"
