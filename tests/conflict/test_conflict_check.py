"""The conflict rules one by one: read set, effect of the concurrent commit, verdict."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from tablefmt.conflict.conflict_check import _may_have_seen, check
from tablefmt.conflict.read_write_sets import ConcurrentCommit, DeletionVector, PendingCommit, Read
from tablefmt.conflict.rebase import rebase_onto
from tablefmt.conflict.verdict import AlreadyApplied, Conflict, RebasedOver, Verdict
from tablefmt.errors import ConcurrentModificationException
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.predicate import Comparison, In
from tablefmt.model.log_entry import (
    AddedFiles,
    ApplicationTransaction,
    Metadata,
    OperationClass,
    OverflowFile,
    PartitionScope,
    PredicateScope,
    RowUpdate,
)
from tests.conflict.world import (
    COLUMNS,
    Level,
    Row,
    Rows,
    Staged,
    World,
    touched_of,
)

INS, OVR, UPD = OperationClass.INSERT, OperationClass.OVERWRITE, OperationClass.UPDATE
MINOR, MAJOR = OperationClass.MINOR_COMPACT, OperationClass.MAJOR_COMPACT
CLUSTER = OperationClass.CLUSTER
K, V, W = (COLUMNS[name].id for name in "kvw")
BASE: list[Rows] = [[(0, 0, 0, 0), (1, 0, 1, 0)], [(2, 0, 2, 0), (3, 1, 3, 0)][:1], [(5, 1, 5, 0)]]


def world(level: Level | None = None) -> World:
    return World(level or Level(), BASE)


def setting(
    on: World, k: int, column: str = "w", value: int = 9, by_row: bool = True, **given: Any
) -> Staged:
    """UPDATE of the rows of one key."""

    def new(row: Row) -> Row:
        return (*row[:3], value) if column == "w" else (*row[:2], value, row[3])

    return on.change(
        lambda row: row[0] == k,
        Comparison(COLUMNS["k"], "=", k),
        frozenset({K}) if by_row else None,
        new,
        set_columns=(COLUMNS[column].id,),
        by_row=by_row,
        **given,
    )


def looking(on: World, v: int, by_row: bool = True, **given: Any) -> Staged:
    """DELETE of the rows with one value of v."""
    return on.change(
        lambda row: row[2] == v,
        Comparison(COLUMNS["v"], "=", v),
        frozenset({V}),
        None,
        by_row=by_row,
        **given,
    )


def said(verdict: Verdict) -> tuple[str, str] | None:
    if verdict is None:
        return None
    assert isinstance(verdict, Conflict)
    return verdict.rule, verdict.exception().kind


def test_metadata_and_protocol_commit_after_data_but_a_constraint_does_not() -> None:
    """CFL-5, CFL-12: an added row was not checked; a moved or a deleted one needs no check."""
    for level in (Level(), Level("file", "Serializable"), Level("transaction")):
        on = world(level)
        plain = on.staged(OperationClass.METADATA, [], None, None)
        added_constraint = replace(plain.mine, adds_constraints=True)
        concurrent_commits = [on.compact(MINOR, [[1, 2]]), on.compact(CLUSTER, [[3]], order=sorted)]
        concurrent_commits += [
            looking(world(level), 5),
            on.insert([(7, 0, 7, 7)]),
            on.overwrite({0}, BASE[0]),
        ]
        concurrent_commits += [setting(on, 2), on.overwrite({0}, [])]
        found = [said(check(on.entry_of(w), added_constraint)) for w in concurrent_commits]
        no, append = None, ("CFL-12", "concurrent_append")
        assert found == [no, no, no, append, append, append, no]
        for concurrent in concurrent_commits:
            assert check(on.entry_of(concurrent), plain.mine) is None
            _, allowed = rebase_onto(on.entry_of(concurrent), plain.mine)
            assert (allowed.rule, allowed.cell) == ("CFL-5", None)


def test_copied_rows_break_no_constraint() -> None:
    """CFL-12: copy-on-write writes them again, unchanged."""
    on = world(Level("file", delete_mode="copy-on-write"))
    added_constraint = replace(
        on.staged(OperationClass.METADATA, [], None, None).mine, adds_constraints=True
    )
    copied, changed = looking(on, 0), setting(on, 0)
    assert check(on.entry_of(copied), added_constraint) is None
    found = check(on.entry_of(changed), added_constraint)
    assert isinstance(found, Conflict)
    # Only its file with the new version counts.
    assert found.evidence["files_count"] == 1


@pytest.mark.parametrize("isolation", ["WriteSerializable", "Serializable"])
def test_an_added_file_that_cannot_match_does_not_conflict(isolation: str) -> None:
    """CFL-8: bounds or the partition rule out a match. Without either, it conflicts."""
    on = world(Level("row", isolation))
    low = looking(on, 2).mine
    unbounded = replace(low, reads=(replace(low.reads[0], predicate=None),))
    concurrent = on.entry_of(setting(on, 5, "v", 50))
    assert said(check(concurrent, low)) is None
    assert said(check(replace(concurrent, files=None), low)) == ("CFL-8", "concurrent_append")
    assert said(check(concurrent, unbounded)) == ("CFL-8", "concurrent_append")
    near = on.entry_of(setting(on, 5, "v", 2))
    assert said(check(near, low)) == ("CFL-8", "concurrent_append")
    blind = on.entry_of(on.insert([(9, 0, 2, 0)]))
    expected = None if isolation == "WriteSerializable" else ("CFL-8", "concurrent_append")
    assert said(check(blind, low)) == expected
    assert said(check(on.entry_of(on.overwrite({1}, [(9, 1, 2, 0)])), low)) == (
        "CFL-8",
        "concurrent_append",
    )


def test_an_insert_that_is_not_blind_counts_as_an_update() -> None:
    """CFL-3: the operation class makes no difference."""
    on = world()
    concurrent = on.entry_of(on.insert([(9, 0, 2, 0)]))
    basis = replace(concurrent.entry.basis, blind=False)
    seeing = replace(concurrent, entry=replace(concurrent.entry, basis=basis))
    mine = looking(on, 2).mine
    assert check(concurrent, mine) is None
    assert said(check(seeing, mine)) == ("CFL-8", "concurrent_append")


def test_the_published_example_of_delete_and_insert() -> None:
    """CFL-8, CFL-9: t0 delete starts, t1 insert starts, t2 it commits, t3 delete tries."""
    for isolation, expected in (("WriteSerializable", True), ("Serializable", False)):
        on = world(Level("row", isolation))
        delete, insert = looking(on, 2), on.insert([(9, 0, 2, 0)])
        assert on.commit(insert) is None
        found = on.commit(delete)
        assert (found is None) is expected
        if expected:
            assert (9, 0, 2, 0) in on.rows()
            assert (2, 0, 2, 0) not in on.rows()
        else:
            assert said(found) == ("CFL-8", "concurrent_append")


def test_a_blind_insert_can_fail_an_update_through_a_third() -> None:
    """CFL-9: UPDATE A starts, INSERT commits, UPDATE B rewrites what it inserted, A fails."""
    on = world()
    first = looking(on, 2)
    assert on.commit(on.insert([(9, 0, 2, 0)])) is None
    assert on.commit(setting(on, 9)) is None
    found = on.commit(first)
    assert said(found) in {("CFL-8", "concurrent_append"), ("CFL-9", "concurrent_append")}


def test_commits_that_may_depend_on_a_skipped_blind_insert() -> None:
    """CFL-9."""

    def after(third: Any, level: Level | None = None, **given: Any) -> Verdict:
        on = world(level)
        first = looking(on, 2, **given)
        early = third(on)
        assert on.commit(on.insert([(9, 0, 2, 0)])) is None
        late = third(on)
        assert on.follow(first) is None
        assert first.mine.skipped in (None, on.version - 1)
        assert said(check(on.entry_of(early), first.mine)) in (None, ("CFL-9", "concurrent_append"))
        return check(on.entry_of(late), first.mine)

    reads = lambda on: setting(on, 5)  # noqa: E731
    found = after(reads)
    assert said(found) == ("CFL-9", "concurrent_append")
    assert isinstance(found, Conflict)
    assert found.evidence == {"skipped": 3, "read_version": 3}
    assert "version 3 inserted" in found.reason
    # It cannot depend on the insert: another scope, blind, moves rows, removes only what was known.
    assert after(lambda on: setting(on, 5, scope=touched_of({1})), scope=touched_of({0})) is None
    assert after(lambda on: on.insert([(9, 1, 7, 0)])) is None
    assert after(lambda on: on.compact(MINOR, [on.files(on.version)[:2]])) is None
    assert after(lambda on: on.overwrite({1}, [])) is None
    assert said(after(lambda on: on.overwrite({0}, []))) in {
        ("CFL-9", "concurrent_append"),
        ("CFL-10", "concurrent_delete_read"),
    }
    # An insert that cannot match is not skipped.
    on = world()
    first = looking(on, 2)
    assert on.commit(on.insert([(9, 0, 7, 0)])) is None
    assert on.commit(setting(on, 5)) is None
    assert on.follow(first) is None
    assert first.mine.skipped is None
    assert [allowed.rule for allowed in first.passed] == ["CFL-3", "CFL-3"]


def test_an_overwrite_counts_by_what_it_removes_not_by_what_it_read() -> None:
    """CFL-9: it began before the insert, and wiped what was inserted."""
    on = world()
    first = looking(on, 2, partitions=frozenset({0}))
    wipe = on.overwrite({1}, [])
    assert on.commit(on.insert([(9, 0, 2, 0), (9, 1, 2, 0)])) is None
    assert on.follow(first) is None
    assert first.mine.skipped == 3
    assert said(check(on.entry_of(wipe), first.mine)) == ("CFL-9", "concurrent_append")


def test_rows_by_row_and_files_by_file() -> None:
    """CFL-10, CFL-21: a condition that cannot be analyzed is compared by files."""
    for granularity, by_row, expected in (
        ("row", True, None),
        ("row", False, ("CFL-10", "concurrent_delete_read")),
        ("file", True, ("CFL-10", "concurrent_delete_read")),
    ):
        on = world(Level(granularity))
        mine = looking(on, 0, by_row=by_row).mine
        other, same = on.entry_of(looking(on, 1)), on.entry_of(looking(on, 0))
        assert said(check(other, mine)) == expected
        assert said(check(same, mine)) == ("CFL-10", "concurrent_delete_read")


def test_a_scan_holds_every_row_of_the_files_it_opened() -> None:
    """CFL-10: write skew by two transactions that scan and then delete different rows."""
    on = world()
    staged = []
    for v in (0, 1):
        one = looking(on, v)
        seen = on.scan(None, None, on.version)
        one.mine = replace(one.mine, reads=(seen, *one.mine.reads))
        staged.append(one)
    assert on.commit(staged[0]) is None
    found = on.commit(staged[1])
    assert said(found) == ("CFL-10", "concurrent_delete_read")
    assert found is not None
    assert found.evidence == {"files": [1], "files_count": 1, "rows": [[1, 0]], "rows_count": 1}


def test_write_skew_by_two_updates_that_read_each_others_rows() -> None:
    """CFL-8, CFL-10: both isolation levels are stronger than snapshots."""
    for isolation in ("WriteSerializable", "Serializable"):
        on = world(Level("row", isolation))
        read = In(COLUMNS["v"], (0, 1))
        staged = [
            on.change(
                lambda row, v=v: row[2] == v,
                Comparison(COLUMNS["v"], "=", v),
                frozenset({V}),
                lambda row: (*row[:2], 7, row[3]),
                set_columns=(V,),
            )
            for v in (0, 1)
        ]
        for one in staged:
            rows = {1: BitMap64([0, 1])}
            look = Read(predicate=read, files=np.array([1]), rows=rows, columns=frozenset({V}))
            one.mine = replace(one.mine, reads=(look,))
        assert on.commit(staged[0]) is None
        assert said(on.commit(staged[1])) == ("CFL-10", "concurrent_delete_read")


def test_a_delete_of_whole_partitions_read_no_data() -> None:
    """CFL-11: this holds by row and by file, after an update of a row and after one of a file."""
    for granularity in ("row", "file"):
        on = world(Level(granularity))
        mine = on.drop_partition(0, Comparison(COLUMNS["p"], "=", 0)).mine
        mine = replace(mine, reads=())
        for concurrent in (looking(on, 0), on.overwrite({0}, []), looking(on, 2)):
            assert said(check(on.entry_of(concurrent), mine)) == (
                "CFL-11",
                "concurrent_delete_delete",
            )
        assert check(on.entry_of(looking(on, 5)), mine) is None


def test_a_new_version_of_a_known_row_matches_only_if_what_decides_was_set() -> None:
    """CFL-17, CFL-20: this holds in granularity `row`. Unknown facts widen a read."""
    on = world()
    mine = looking(on, 2).mine
    other = on.entry_of(setting(on, 5, "w", 9))
    assert other.files is not None
    wide = replace(other, files=other.files.drop_columns([f"lower.{V}", f"upper.{V}"]))
    set_v = replace(wide, entry=replace(wide.entry, update=RowUpdate(set=(V,))))
    any_set = replace(wide, entry=replace(wide.entry, update=RowUpdate(set=None)))
    assert check(wide, mine) is None
    appended = ("CFL-8", "concurrent_append")
    assert said(check(set_v, mine)) == appended
    assert said(check(any_set, mine)) == appended
    assert said(check(wide, replace(mine, granularity="file"))) == appended
    unsure = replace(mine.reads[0], columns=None)
    assert said(check(wide, replace(mine, reads=(unsure,)))) == appended
    not_by_row = replace(mine.reads[0], by_row=False)
    assert said(check(wide, replace(mine, reads=(not_by_row,)))) == appended


def test_a_row_that_could_not_be_known_goes_by_bounds() -> None:
    """CFL-17: a row that a compaction of known files moved is known."""
    on = world()
    first = looking(on, 2)
    moved, strange = on.compact(MINOR, [[3]]), on.insert([(8, 1, 5, 0)])
    assert on.commit(strange) is None
    assert on.commit(moved) is None
    mixed = on.compact(MINOR, [on.files(on.version)[-2:]])
    assert on.follow(first) is None
    unbound = lambda w: replace(w, files=w.files.drop_columns([f"lower.{V}", f"upper.{V}"]))  # noqa: E731
    assert check(unbound(on.entry_of(setting(on, 5))), first.mine) is None
    late = unbound(on.entry_of(setting(on, 8)))
    assert said(check(late, first.mine)) == ("CFL-8", "concurrent_append")
    # An output with a row that the read did not know is unknown too.
    assert on.commit(mixed) is None
    assert on.follow(first) is None
    late = unbound(on.entry_of(setting(on, 5)))
    assert said(check(late, first.mine)) == ("CFL-8", "concurrent_append")


def merging(on: World, keys: tuple[int, ...], predicate: Any = None) -> Staged:
    return on.change(
        lambda row: row[0] in keys,
        predicate,
        frozenset({K}),
        lambda row: (*row[:3], 1),
        set_columns=(W,),
        keys=keys,
        inserts=lambda found: [(k, 0, 0, 0) for k in keys if k not in {r[0] for r in found}],
    )


def test_merges_that_insert_other_keys_do_not_meet() -> None:
    """CFL-18: although the bounds of their new files overlap."""
    on = world()
    concurrent = on.entry_of(merging(on, (10, 30)))
    assert check(concurrent, merging(on, (20, 40)).mine) is None
    appended = ("CFL-8", "concurrent_append")
    assert said(check(concurrent, merging(on, (20, 30)).mine)) == appended
    # The keys are unknown: no hashes, hashes of other columns, a read without keys.
    add = concurrent.entry.add
    assert isinstance(add, AddedFiles)
    plain = AddedFiles({**add.columns, "keys": [None] * len(add)})
    mine = merging(on, (20, 40)).mine
    assert (
        said(check(replace(concurrent, entry=replace(concurrent.entry, add=plain)), mine))
        == appended
    )
    columns = replace(concurrent.entry, update=RowUpdate(set=(W,), keys=(V,)))
    assert said(check(replace(concurrent, entry=columns), mine)) == appended
    read = replace(mine.reads[0], keys=None)
    assert said(check(concurrent, replace(mine, reads=(read,)))) == appended


def test_columns_of_an_overflow_file_count_like_those_of_an_entry() -> None:
    """CFL-17, CFL-18: `updated` and `keys` as its Parquet columns hold them."""
    on = world()
    concurrent = on.entry_of(merging(on, (2, 10)))
    add = concurrent.entry.add
    assert isinstance(add, AddedFiles)
    assert concurrent.files is not None
    raw = [None if k is None else base64.b64decode(k) for k in add.columns["keys"]]
    files = concurrent.files.append_column("keys", pa.array(raw, pa.binary()))
    files = files.append_column("updated", pa.array(add.columns["updated"]))
    files = files.append_column("path", pa.array(add.columns["path"]))
    overflow = OverflowFile("_log/side/x.parquet", len(add), 1, "0" * 64)
    aside = ConcurrentCommit(replace(concurrent.entry, add=overflow), files, concurrent.deletes)
    assert check(aside, merging(on, (20, 40)).mine) is None
    found = check(aside, merging(on, (10, 40)).mine)
    assert said(found) == ("CFL-8", "concurrent_append")
    assert isinstance(found, Conflict)
    assert found.evidence["paths"] == add.columns["path"][1:]
    assert found.evidence["partitions"] == [[0]]


def test_merges_bound_to_different_partitions_never_conflict() -> None:
    """CFL-8, CFL-19: the condition must have the literal. The join alone is not enough."""
    on = world(Level("file", "Serializable"))
    bound = [merging(on, (2,), Comparison(COLUMNS["p"], "=", p)) for p in (0, 1)]
    joined = merging(on, (2,))
    concurrent = on.entry_of(replace(bound[1], files=[]))
    strange = replace(concurrent, deletes={}, entry=replace(concurrent.entry, remove=[]))
    assert check(strange, bound[0].mine) is None
    added = on.entry_of(on.insert([(2, 1, 0, 0)]))
    assert check(added, bound[0].mine) is None
    assert said(check(added, replace(joined.mine))) == ("CFL-8", "concurrent_append")


def test_a_group_that_others_compacted_is_left_out_and_the_rest_commits() -> None:
    """CFL-15."""
    on = world()
    late = on.compact(MINOR, [[1, 2], [3]])
    assert on.commit(on.compact(CLUSTER, [[2]], order=sorted)) is None
    before = on.rows()
    assert on.commit(late) is None
    assert [g.inputs.tolist() for g in late.mine.groups] == [[3]]
    assert [(a.rule, a.cell) for a in late.passed] == [
        ("CFL-15", "row, deletion vectors, WriteSerializable: CLUSTER then COMPACT: never")
    ]
    assert on.rows() == before
    again = on.compact(MAJOR, [[1]])
    assert on.commit(on.compact(MINOR, [[1]])) is None
    versions = on.version
    assert on.commit(again) is None
    assert again.mine.groups == ()
    assert on.version == versions


def test_a_compaction_without_lineage_counts_as_a_clustering() -> None:
    """CFL-3, LIN-1: rows that an UPDATE deletes cannot follow, and the matrix rule says so."""
    on = world()
    late = looking(on, 2)
    known = on.entry_of(on.compact(MINOR, [[2]]))
    assert check(known, late.mine) is None
    found = check(replace(known, entry=replace(known.entry, lineage=None)), late.mine)
    assert found is not None
    assert found.cell == "row, deletion vectors, WriteSerializable: CLUSTER then UPDATE: if"


def test_a_group_with_nothing_left_is_left_out() -> None:
    """CFL-14."""
    on = world()
    late = on.compact(MINOR, [[2], [1, 3]])
    assert on.commit(on.drop_partition(1, Comparison(COLUMNS["p"], "=", 1))) is None
    assert on.commit(looking(on, 2)) is None
    before = on.rows()
    assert on.commit(late) is None
    assert [g.inputs.tolist() for g in late.mine.groups] == [[1]]
    assert [a.rule for a in late.passed] == ["CFL-14", "CFL-14"]
    assert on.rows() == before == BASE[0]


def test_groups_that_a_minor_tied_together_become_one() -> None:
    """CFL-16: a file outside of the group is a conflict."""
    on = World(Level("transaction"), [[(i, 0, 0, 0)] for i in range(4)])
    late = on.compact(MAJOR, [[1, 2], [3]])
    part = on.compact(MAJOR, [[1, 2]])
    minor = on.compact(MINOR, [[2, 3]])
    assert on.commit(minor) is None
    assert on.follow(late) is None
    assert [g.inputs.tolist() for g in late.mine.groups] == [[1, 5]]
    assert [a.rule for a in late.passed] == ["CFL-16"]
    found = on.follow(part)
    assert said(found) == ("CFL-16", "concurrent_delete_delete")
    assert found is not None
    assert found.evidence == {"files": [3], "files_count": 1}
    on.append(on.entry_of(late))
    assert on.rows() == [(i, 0, 0, 0) for i in range(4)]


def test_an_append_of_its_own_takes_a_schema_it_fits_as_its_start() -> None:
    """CFL-5: later scopes are read by the new names."""
    on = world(Level("transaction"))
    mine = replace(on.insert([(9, 0, 0, 0)]).mine, floating=True)
    grown = Metadata(schema_from("k BIGINT, p BIGINT, v BIGINT, w BIGINT, x INT"), (2,))
    concurrent = on.entry_of(on.staged(OperationClass.METADATA, [], None, None))
    concurrent = replace(concurrent, entry=replace(concurrent.entry, metadata=grown))
    assert check(concurrent, mine) is None
    after, allowed = rebase_onto(concurrent, mine)
    assert after == replace(mine, metadata=grown)
    assert (allowed.rule, allowed.cell) == ("CFL-5", None)
    assert said(check(concurrent, replace(mine, floating=False))) == ("CFL-5", "metadata_changed")


@pytest.mark.parametrize(
    ("theirs", "own", "expected"),
    [
        (("a", 1, "x"), ("a", 1, "x"), True),
        (("a", 1, None), ("a", 1, "x"), True),
        (("a", 1, "x"), ("a", 1, None), True),
        (("a", 1, "y"), ("a", 1, "x"), "CFL-6"),
        (("a", 2, "x"), ("a", 1, "x"), "CFL-6"),
        (("b", 1, "x"), ("a", 1, "x"), None),
    ],
)
def test_the_same_application_id(theirs: Any, own: Any, expected: Any) -> None:
    """CFL-6: unknown content counts as equal."""
    on = world()
    concurrent = on.entry_of(on.insert([(9, 0, 0, 0)]))
    concurrent = replace(
        concurrent, entry=replace(concurrent.entry, application=ApplicationTransaction(*theirs))
    )
    mine = replace(on.insert([(8, 0, 0, 0)]).mine, application=ApplicationTransaction(*own))
    found = check(concurrent, mine)
    same = AlreadyApplied(concurrent.entry.version) if expected is True else expected
    assert (found.rule if isinstance(found, Conflict) else found) == same


SCOPES = [
    (None, None, True),
    (None, PredicateScope("p = 1"), True),
    (PartitionScope(((0,), (1,))), PartitionScope(((1,), (2,))), True),
    (PartitionScope(((0,), (1,))), PartitionScope(((2,),)), False),
    (PredicateScope("p >= 1"), PartitionScope(((0,), (None,))), False),
    (PredicateScope("p >= 1"), PartitionScope(((0,), (1,))), True),
    (PredicateScope("p IS NULL"), PartitionScope(((None,),)), True),
    (PredicateScope("p < 1"), PredicateScope("p >= 1"), False),
    (PredicateScope("p < 1"), PredicateScope("p IN (0, 7)"), True),
    (PredicateScope("p < 1"), PredicateScope("p > -1"), True),
    (PredicateScope("p > 0 AND p < 2"), PredicateScope("p > 1"), False),
    (PredicateScope("nonsense("), PredicateScope("p > 1"), True),
    (PredicateScope("gone = 1"), PartitionScope(((0,),)), True),
]


@pytest.mark.parametrize(("one", "other", "meets"), SCOPES)
def test_scopes_that_share_nothing_never_conflict(one: Any, other: Any, meets: bool) -> None:
    """CFL-19: lists, conditions, and what cannot be read, in both directions."""
    on = world(Level("transaction"))
    for theirs, own in ((one, other), (other, one)):
        concurrent = on.entry_of(on.insert([(9, 0, 0, 0)]))
        basis = replace(concurrent.entry.basis, scope=theirs)
        concurrent = replace(concurrent, entry=replace(concurrent.entry, basis=basis))
        mine = replace(on.insert([(8, 0, 0, 0)]).mine, scope=own)
        found = check(concurrent, mine)
        assert said(found) == (("CFL-2", "concurrent_write") if meets else None)
        if not meets:
            assert rebase_onto(concurrent, mine)[1].rule == "CFL-19"


def test_evidence_names_ten_and_counts_all() -> None:
    """CFL-8, CFL-10: all evidence can be written as JSON."""
    many = [[(i, 0, 0, 0) for i in range(n, n + 5)] for n in range(0, 60, 5)]
    on = World(Level(), many)
    mine = on.change(lambda row: True, None, frozenset(), None).mine
    rows = check(on.entry_of(looking(on, 0)), replace(mine, reads=(mine.reads[0],)))
    added = check(on.entry_of(on.overwrite({1}, [(0, 1, 0, 0)])), mine)
    files = check(on.entry_of(looking(on, 0)), replace(mine, granularity="file"))
    assert isinstance(rows, Conflict)
    assert rows.evidence["rows_count"] == 60
    assert rows.evidence["files_count"] == 12
    assert [len(rows.evidence[name]) for name in ("rows", "files")] == [10, 10]
    assert isinstance(added, Conflict)
    assert added.evidence == {
        "files": [13],
        "files_count": 1,
        "paths": ["data/x/13.parquet"],
        "partitions": [[1]],
        "partitions_count": 1,
    }
    assert isinstance(files, Conflict)
    assert files.evidence == {"files": list(range(1, 11)), "files_count": 12}
    for conflict in (rows, added, files):
        error = conflict.exception()
        assert json.loads(json.dumps(error.as_dict())) == error.as_dict()


def test_an_exception_explains_itself() -> None:
    """CFL-1: the text is for people, the attributes for programs."""
    on = world()
    found = check(on.entry_of(looking(on, 0)), looking(on, 0).mine)
    assert isinstance(found, Conflict)
    error = found.exception()
    assert isinstance(error, ConcurrentModificationException)
    cell = "row, deletion vectors, WriteSerializable: UPDATE then UPDATE: if"
    assert error.as_dict() == {
        "kind": "concurrent_delete_read",
        "reason": "the winning commit removed rows that this operation read",
        "winner_version": 3,
        "winner_operation": "UPDATE",
        "rule": "CFL-10",
        "cell": cell,
        "evidence": {"files": [1], "files_count": 1, "rows": [[1, 0]], "rows_count": 1},
        "advice": "Read the table again and run the operation again.",
    }
    assert error.explain().splitlines() == [
        "ConcurrentDeleteReadException: the winning commit removed rows that this operation read.",
        "  winning commit  version 3, UPDATE",
        "  rule            CFL-10 (spec/conflicts.md)",
        f"  matrix rule     {cell}",
        "  files           1",
        "  rows            [1, 0]",
        "  advice          Nothing was committed. Read the table again and run the operation "
        "again.",
    ]


def test_a_commit_that_was_rebased_over_is_its_version_and_says_why() -> None:
    """CFL-1: equal to the plain number, also after a copy."""
    passed = RebasedOver(7, "WRITE", "CFL-3", "a cell")
    assert (passed, RebasedOver(9, "DELETE", "CFL-13", None)) == (7, 9)
    again = copy.deepcopy(passed)
    assert again.as_dict() == {
        "version": 7,
        "operation": "WRITE",
        "rule": "CFL-3",
        "cell": "a cell",
    }
    assert f"{passed}" == "7"


def test_one_row_taken_out_by_a_range_that_moved_is_taken_out_once() -> None:
    """CFL-13: two reads of one file, one by row and one by file, both move along."""
    on = world()
    staged = looking(on, 0)
    read = replace(staged.mine.reads[0], by_row=False)
    mine: PendingCommit = replace(staged.mine, reads=(*staged.mine.reads, read))
    concurrent = on.entry_of(on.compact(MINOR, [[2, 1]]))
    after, _ = rebase_onto(concurrent, mine)
    assert after.deletes == {4: DeletionVector(BitMap64([1]), BitMap64())}
    assert [r.files.tolist() for r in after.reads] == [[3, 4], [3, 4]]
    assert after.reads[0].rows == {4: BitMap64([1])}


def test_an_overwrite_of_a_part_keeps_no_file_outside_of_it() -> None:
    """CFL-9: only a restore, which selects by no scope, keeps files that the insert added."""
    on = world()
    first = looking(on, 2)
    part, whole = on.overwrite({1}, []), on.overwrite(None, BASE[0])
    assert on.commit(on.insert([(9, 0, 2, 0)])) is None
    assert on.follow(first) is None
    assert first.mine.skipped == 3
    for staged in (part, whole):
        concurrent = on.entry_of(staged)
        known = replace(concurrent, entry=replace(concurrent.entry, remove=(1,)))
        assert not _may_have_seen(known, first.mine, 3)
        seen = replace(known, entry=replace(known.entry, remove=(first.mine.next_id,)))
        assert _may_have_seen(seen, first.mine, 3)
