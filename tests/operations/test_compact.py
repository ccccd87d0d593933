"""Compaction as people run it: what goes together, what comes of it, and what may go wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import (
    InvalidPredicateError,
    InvalidRangeError,
    SchemaMismatchError,
    TransactionStateError,
)
from tablefmt.log.object_names import entry_key
from tablefmt.operations.compact import Compaction, still_there
from tablefmt.operations.compact_plan import DELETED, LARGE, TOO_LARGE, plan_compaction
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.scheduling import examples
from tests.tables import assert_sound, behind, by_hand, handle, ids, live_files, new_table, rows

# --- which files go together ---------------------------------------------------------------------

File = tuple[str | None, int, int, int]
"""Partition, size, rows, deleted rows."""

FILES = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]), st.integers(1, 130), st.integers(1, 40), st.just(0)
    ).flatmap(lambda f: st.integers(0, f[2]).map(lambda gone: (*f[:3], gone))),
    max_size=25,
)


def expected_groups(files: list[File], kind: str, target: int) -> list[list[int]]:
    """The same by plain Python, a file at a time."""
    groups: list[list[int]] = []
    for place in dict.fromkeys(f[0] for f in files):
        bins: list[list[int]] = []
        filled = math.inf
        for number, (p, size, count, gone) in enumerate(files):
            if p != place:
                continue
            left = size * (1 - gone / count)
            if kind == "minor" and left >= LARGE * target and gone <= DELETED * count:
                continue
            if filled + left > target + 1e-9:
                bins.append([])
                filled = 0.0
            bins[-1].append(number)
            filled += left
        worth = [len(b) > 1 or any(files[n][3] > DELETED * files[n][2] for n in b) for b in bins]
        if kind == "major":
            mine = [files[n] for b in bins for n in b]
            anew = any(worth) or any(f[3] or f[1] > TOO_LARGE * target for f in mine)
            worth = [anew] * len(bins)
        groups += [b for b, is_worth in zip(bins, worth, strict=True) if is_worth]
    return groups


@pytest.mark.slow
@examples(300)
@given(FILES, st.sampled_from(["minor", "major"]), st.integers(1, 150))
def test_a_plan_is_what_packing_file_by_file_gives(
    files: list[File], kind: str, target: int
) -> None:
    """CMP-1, CMP-2: partitions by their first files, files in the order of their rows."""
    places, sizes, counts, gone = (list(c) for c in zip(*files, strict=True)) if files else [[]] * 4
    table = pa.table(
        {
            "id": pa.array([10 + n for n in range(len(files))], pa.int64()),
            "path": pa.array([f"data/{n}" for n in range(len(files))], pa.string()),
            "size": pa.array(sizes, pa.int64()),
            "rows": pa.array(counts, pa.int64()),
            "deleted": pa.array(gone, pa.int64()),
            "partition.2": pa.array(places, pa.string()),
        }
    )
    plan = plan_compaction(table, {"partition.2": "p"}, 7, kind, target)
    groups = [[int(i) - 10 for i in group.files] for group in plan.groups]
    assert groups == expected_groups(files, kind, target)
    shown = plan.to_arrow().sort_by("id")
    assert shown["path"].to_pylist() == table["path"].to_pylist()
    assert [p["p"] for p in shown["partition"].to_pylist()] == places
    of = {n: at for at, group in enumerate(groups) for n in group}
    assert shown["group"].to_pylist() == [of.get(n) for n in range(len(files))]
    assert shown["reason"].null_count == 0
    for group in plan.groups:
        left = sum(files[i - 10][2] - files[i - 10][3] for i in group.files)
        size = sum(
            files[i - 10][1] * (1 - files[i - 10][3] / files[i - 10][2]) for i in group.files
        )
        assert group.outputs == max(1, min(left, math.ceil(round(size, 6) / target)))
        rows_max = None if group.outputs == 1 else -(-left // group.outputs)
        assert group.rows_max == rows_max


# --- what comes of it ----------------------------------------------------------------------------

SCHEMA = pa.schema(
    [("id", pa.int64()), ("p", pa.string()), ("f", pa.float64()), ("l", pa.list_(pa.string()))]
)


def written(first: int, count: int, nan: bool = False) -> pa.Table:
    numbers = range(first, first + count)
    floats = [float("nan") if nan and n == first else n / 2 for n in numbers]
    lists = [None if n % 3 == 0 else [str(n), None] for n in numbers]
    places = ["a" if n % 2 else None for n in numbers]
    return pa.table([list(numbers), places, floats, lists], schema=SCHEMA)


def in_order(table: Table, place: str | None) -> list[Any]:
    """The rows of a partition in the order in which a scan gives them; NaN by its text."""
    found = table.to_arrow().to_pylist()
    return [str(row) for row in found if row["p"] == place]


@pytest.mark.parametrize("kind", ["minor", "major"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_rows_keep_values_and_order_and_only_the_files_change(
    kind: str, mode: str, tmp_path: Path
) -> None:
    """CMP-1, CMP-2, LIN-1, TIM-2: files are rewritten by partition, without the deleted rows."""
    properties = {"deleteMode": mode}
    table = tablefmt.create(tmp_path, SCHEMA, partition_by=["p"], properties=properties)
    for n in range(5):
        table.append(written(20 * n, 20, nan=n == 3))
    table.delete("id % 7 = 0")
    before = [in_order(table, place) for place in ("a", None)]
    time = table.history(1)["timeVersion"][0].as_py()
    commit = table.compact(kind)  # type: ignore[call-overload]
    assert commit.operation == f"COMPACT {kind.upper()}"
    assert (commit.version, commit.no_op) == (7, False)
    assert commit.metrics["numRemovedFiles"] >= 10
    assert commit.metrics["numAddedFiles"] == 2
    assert [in_order(table, place) for place in ("a", None)] == before
    files = table.scan().files()
    assert files["deleted"].to_pylist() == [0, 0]
    assert sorted(files["rows"].to_pylist()) == sorted(map(len, before))
    assert table.history(1)["timeVersion"][0].as_py() == time
    assert table.to_arrow(version=6).num_rows == sum(map(len, before))
    assert_sound(table.context.store)
    again = table.compact(kind)  # type: ignore[call-overload]
    assert (again.version, again.no_op) == (7, True)


@pytest.mark.parametrize("groups", [1, 3])
def test_a_long_file_is_written_row_group_by_row_group(
    groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-9, DAT-16, ADD-7, PRN-12: bounds, counts of NaN, checksum and rows of all row groups."""
    table = tablefmt.create(tmp_path, SCHEMA)
    sizes = [100, 1, 57, 200, 3]
    for n, count in enumerate(sizes):
        table.append(written(1000 * n, count, nan=groups == 3 and n == 1))
    expected = table.to_arrow()
    length = 1000 if groups == 1 else 150
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", length)
    table.compact()
    assert str(table.to_arrow().to_pylist()) == str(expected.to_pylist())
    (path,) = table.scan().files()["path"].to_pylist()
    file = pq.ParquetFile(tmp_path / path)
    lengths = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert lengths == ([361] if groups == 1 else [150, 150, 61])
    live = handle(table.context.store).context.view.snapshot().files
    assert live["lower.1"].to_pylist() == [0]
    assert live["upper.1"].to_pylist() == [4002]
    assert live["nans.3"].to_pylist() == [1 if groups == 3 else 0]
    assert live["lower.3"].to_pylist() == [None if groups == 3 else 0.0] if groups == 3 else [0.0]
    assert_sound(table.context.store)


def test_nan_that_the_log_does_not_know_of_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-9, PRN-13: a deleted row held the only NaN, so the new file has bounds again."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 4)
    table = tablefmt.create(tmp_path, SCHEMA)
    table.append(written(0, 10, nan=True))
    table.append(written(10, 10))
    table.delete("id = 0")
    table.compact()
    live = handle(table.context.store).context.view.snapshot().files
    assert live.select(["nans.3", "lower.3", "upper.3"]).to_pylist() == [
        {"nans.3": 0, "lower.3": 0.5, "upper.3": 9.5}
    ]


@pytest.mark.parametrize("verb", ["compact", "cluster"])
def test_nan_in_a_column_without_bounds_leaves_no_statistics(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-9: Spark orders NaN above all values, and would skip a row group by its maximum."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 4)
    table = tablefmt.create(tmp_path, SCHEMA, properties={"statsColumns": "id"})
    table.append(written(0, 10, nan=True))
    table.append(written(10, 10))
    table.cluster(["id"]) if verb == "cluster" else table.compact()
    (path,) = table.scan().files()["path"].to_pylist()
    footer = pq.read_metadata(tmp_path / path)
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [4] * 5
    assert {group.column(2).path_in_schema for group in groups} == {"f"}
    assert not any(group.column(2).is_stats_set for group in groups)
    assert all(group.column(0).is_stats_set for group in groups)


def test_a_file_that_is_too_large_is_split_by_a_major_alone(tmp_path: Path) -> None:
    """CMP-1, CMP-2: a minor leaves it; parts are about alike."""
    table = tablefmt.create(tmp_path, SCHEMA)
    table.append(written(0, 1000))
    table.append(written(1000, 1))
    sizes = table.scan().files()["size"].to_pylist()
    assert table.compact(target_file_size=sizes[0] // 2).no_op
    expected = table.to_arrow()
    assert table.compact("major", target_file_size=sizes[0] // 2 + 1).no_op
    table.compact("major", target_file_size=sizes[0] // 2 - 1)
    assert table.scan().files()["rows"].to_pylist() == [334, 334, 332, 1]
    assert table.to_arrow().equals(expected)
    assert_sound(table.context.store)


def test_the_property_says_how_large_files_are_to_be() -> None:
    """CMP-1: the property is targetFileSize. An argument of the call overrides it."""
    table = new_table(targetFileSize="1")
    for n in range(3):
        table.append(rows(n))
    assert table.compact().no_op
    assert table.compact(target_file_size=1 << 20).version == 4
    parameters = dict(table.history(1)["operationParameters"][0].as_py())
    assert parameters == {"targetFileSize": "1048576"}


def test_a_condition_chooses_the_files_that_may_hold_such_rows() -> None:
    """CMP-3: partitions decide exactly, bounds as in a scan."""
    table = new_table(partitioned=True)
    for n in range(4):
        table.append(rows(n, n + 10, p=["a", "b"]))
    plan = table.compact(where="p = 'a'", dry_run=True)
    assert {r["partition"]["p"] for r in plan.to_arrow().to_pylist()} == {"a"}
    table.compact(where=[("p", "=", "a"), ("id", "<", 2)])
    files = table.scan().files().sort_by("id")
    assert files["rows"].to_pylist() == [1, 1, 1, 1, 1, 1, 2]
    assert ids(table) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert table.compact(where="p = 'c'").no_op


def test_a_dry_run_tells_and_writes_nothing() -> None:
    """CMP-4: it probes the log once and sends no other request."""
    table = new_table()
    for n in range(3):
        table.append(rows(n))
    table.delete("id = 1")
    counting = CountingStore(table.context.store)
    plan = behind(table, counting).compact(dry_run=True)
    assert counting.requests == [("get", entry_key(5))]
    assert plan.version == 4
    assert str(plan).splitlines()[1:] == ["  group 0: 2 files into 1", "  2 files: small"]
    assert str(plan).startswith("version 4: COMPACT MINOR would rewrite 2 of 2 files (")
    assert table.refresh().version == 4


def test_groups_that_are_done_are_committed_while_others_are_not() -> None:
    """CMP-4: each batch is a version; what fails later leaves it, and is done by another run."""
    table = new_table(partitioned=True)
    places = ["a", "b", "c"]
    for n in range(3):
        table.append(rows(n, n + 10, n + 20, p=places))
    told: list[tuple[int, int]] = []
    commit = table.compact(commit_every=2, progress=lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2), (1, 1)]
    assert commit.version == 5
    assert commit.metrics["numRemovedFiles"] == 9
    assert ids(table) == by_hand(table.context.store) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    for n in range(3, 5):
        table.append(rows(n, n + 10, n + 20, p=places))

    def stop(done: int, of: int) -> None:
        if table.version == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.compact(commit_every=1, progress=stop)
    assert table.refresh().version == 8
    assert table.compact(commit_every=5).metrics["numRemovedFiles"] == 6
    assert table.scan().files().num_rows == 3
    assert table.compact(commit_every=1).no_op
    assert_sound(table.context.store)


def test_files_without_live_rows_leave_no_file() -> None:
    """LIN-1, CFL-14: two deletes emptied the only file of a partition at once."""
    table = new_table(partitioned=True)
    table.append(rows(1, 2))
    first = table.transaction().delete("id = 1")
    second = table.transaction().delete("id = 2")
    first.commit()
    second.commit()
    late = table.transaction().delete("p = 'a'")
    assert table.scan().files()["deleted"].to_pylist() == [2]
    commit = table.compact()
    assert commit.metrics["numRemovedFiles"] == 1
    assert table.refresh().scan().files().num_rows == 0
    late.commit()
    assert ids(table.refresh()) == []
    assert_sound(table.context.store)


def test_an_application_version_is_applied_once_by_a_compaction_too() -> None:
    """CFL-6, CFL-7."""
    table = new_table()
    for n in range(2):
        table.append(rows(n))
    assert table.compact(application=("c", 1)).version == 3
    assert table.compact(application=("c", 1)).already_applied
    assert table.compact(application=("c", 2)).version == 4


def test_a_transaction_stages_a_compaction_by_itself() -> None:
    """CMP-4: the table is unchanged before the commit."""
    table = new_table()
    for n in range(3):
        table.append(rows(n))
    with table.transaction() as txn:
        assert txn.compact() is txn
        table.delete("id = 1")
        with pytest.raises(TransactionStateError):
            txn.append(rows(9))
    assert txn.commit_result is not None
    assert txn.commit_result.rebased_over == (4,)
    assert ids(table.refresh()) == [0, 2]
    assert table.scan().files().num_rows == 1
    assert_sound(table.context.store)


@pytest.mark.parametrize("verb", ["minor", "major", "cluster"])
def test_readers_of_changes_do_not_see_it(verb: str) -> None:
    """CMP-4, CFL-8, INC-1: between changes, as the end of a range, and by itself."""
    table = new_table()
    for n in range(4):
        table.append(rows(n, n + 10))
    table.delete("id IN (2, 11)")
    commit = table.cluster("id") if verb == "cluster" else table.compact(verb)  # type: ignore[call-overload]
    assert commit.version == 6
    table.delete("id = 3")
    table.append(rows(20))
    for content in ("changes", "net", "append"):
        assert (
            table.changes(after_version=5, ending_version=6, content=content).to_arrow().num_rows
            == 0
        )
    changes = table.changes(after_version=0).to_arrow().to_pylist()
    seen = [(c["_commit_version"], c["_change_type"], c["id"]) for c in changes]
    inserted = [(n + 1, "insert", i) for n in range(4) for i in (n, n + 10)]
    gone = [(5, "delete", 2), (5, "delete", 11), (7, "delete", 3), (8, "insert", 20)]
    assert sorted(seen) == sorted([*inserted, *gone])
    net = table.changes(after_version=0, ending_version=6, content="append").to_arrow()
    assert sorted(net["id"].to_pylist()) == [0, 1, 3, 10, 12, 13]


def test_requests_are_the_files_once_and_the_new_one() -> None:
    """CMP-4: the ends of all files and their rows in one round each, however many there are."""
    table = new_table()
    for n in range(20):
        table.append(rows(n))
    counting = CountingStore(table.context.store)
    commit = behind(table, counting).compact()
    data, entry = live_files(table.context.store), entry_key(21)
    assert [verb for verb, key in counting.requests if key in data] == ["put"]
    others = [r for r in counting.requests if r[1] not in data]
    assert others[0] == ("get", entry)
    assert others[-1] == ("put_if_absent", entry)
    assert {verb for verb, _ in others[1:-1]} <= {"get_range", "get_ranges", "open_file"}
    assert commit.metrics["numPutRequests"] == 2


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("verb", ["compact", "cluster"])
def test_a_far_store_gets_a_long_file_in_parts(verb: str, s3_server: Any, s3_uri: str) -> None:
    """STO-7, ADD-5, ADD-7: row group by row group, by an upload of several parts."""
    random = np.random.default_rng(5)
    table = tablefmt.create(s3_uri, "id BIGINT, p STRING", storage_options=s3_server.options)
    for n in range(3):
        numbers = random.integers(0, 1 << 62, 300_000)
        table.append(pa.table({"id": numbers, "p": [f"{n}"] * len(numbers)}))
    before = table.to_arrow().sort_by("id")
    commit = table.compact() if verb == "compact" else table.cluster("id")
    assert (commit.metrics["numRemovedFiles"], commit.metrics["numAddedFiles"]) == (3, 1)
    assert table.to_arrow().sort_by("id").equals(before)
    assert_sound(table.context.store)


# --- what makes no sense -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -1, "128mb", 1.5, True, float("nan"), 1 << 60])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    """CMP-4."""
    with pytest.raises(InvalidRangeError, match="target_file_size"):
        new_table().compact(target_file_size=size)


@pytest.mark.parametrize("kind", ["", "MINOR", "full", None, 1])
def test_a_kind_that_is_none_is_refused(kind: Any) -> None:
    """CMP-4."""
    with pytest.raises(InvalidRangeError, match="minor, major"):
        new_table().compact(kind)


@pytest.mark.parametrize("every", [0, -1, "2", 1.5])
def test_a_number_of_groups_that_is_none_is_refused(every: Any) -> None:
    """CMP-4."""
    with pytest.raises(InvalidRangeError, match="commit_every"):
        new_table().compact(commit_every=every)


def test_what_cannot_be_done_is_said_before_anything_is() -> None:
    """CMP-3, CMP-4: an empty table refuses it too."""
    table = new_table()
    with pytest.raises(InvalidRangeError, match="application"):
        table.compact(commit_every=1, application=("a", 1))
    with pytest.raises(InvalidRangeError, match="unknown argument"):
        table.compact(max_groups=1)  # type: ignore[call-overload]
    with pytest.raises((InvalidPredicateError, SchemaMismatchError), match="nope"):
        table.compact(where="nope = 1")
    with pytest.raises(InvalidPredicateError, match="cannot choose files by the condition"):
        table.compact(where="length(p) = 3")
    assert table.compact().no_op
    assert table.compact("major", dry_run=True).to_arrow().num_rows == 0
    assert table.refresh().version == 0


def test_how_much_is_in_memory_does_not_grow_with_the_files() -> None:
    """CMP-4: Arrow's own count of bytes, for a group of 24 MB in one file and more."""
    table = new_table()
    noise = np.random.default_rng(1)
    for _ in range(24):
        numbers = noise.integers(0, 1 << 62, 128 << 10)
        table.append(pa.table({"id": numbers, "p": pa.nulls(len(numbers), pa.string())}))
    peak = 0

    def look(done: int, of: int) -> None:
        nonlocal peak
        peak = pa.total_allocated_bytes()

    before = pa.total_allocated_bytes()
    table.compact(progress=look)
    assert table.scan().files().num_rows == 1
    assert peak - before < 16 << 20


def test_groups_of_which_a_file_went_are_left_out() -> None:
    """CMP-4: only complete groups of an older plan are kept."""
    table = new_table(partitioned=True)
    for number in range(12):
        table.append(rows(number, p=f"{number % 4}"))
    context = table.context
    groups = Compaction().plan(context.pin()).groups
    assert [len(group.files) for group in groups] == [3] * 4
    assert still_there(context.pin(), groups) == groups
    assert still_there(context.pin(), ()) == ()
    table.delete("id IN (4, 9)")
    # Files 5 and 10 are removed: one file of each of two groups.
    left = still_there(context.pin(), groups)
    gone = {5, 10}
    assert left == tuple(group for group in groups if not gone & {*group.files.tolist()})
    assert 0 < len(left) < 4
