"""The commit driver on stores that fail: outcomes are honest, and every row is there once."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from tablefmt.commit.commit_protocol import Committed
from tablefmt.commit.driver import commit
from tablefmt.commit.transaction_plan import Plan, Replacing, Staged
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    ConcurrentModificationException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    CorruptEntryError,
    IdempotenceError,
    InvalidRangeError,
    LogGapError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
    StoreError,
    TableExistsError,
    TableReplacedError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.log import codec
from tablefmt.log.codec import decode, digest
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Metadata, Operation, OperationClass
from tablefmt.model.schema import Field, Primitive, Schema
from tablefmt.model.times import MICROS_MAX, from_micros, to_micros
from tablefmt.operations.create import create
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import NoAnswer, Store, Written
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table, open_at
from tablefmt.testing.faults import FaultyStore
from tests.log.test_codec import signed
from tests.tables import (
    Clock,
    assert_sound,
    behind,
    by_hand,
    data_files,
    extend,
    handle,
    ids,
    live_files,
    memory,
    new_table,
    rows,
    with_history,
)

pytestmark = pytest.mark.broken_tables


def at_log_puts(*faults: str | None) -> Callable[[int, str, str], Any]:
    """Inject these faults at the log puts of an operation, in order. The last one repeats."""
    left = list(faults)

    def plan(index: int, verb: str, key: str) -> str | None:
        if verb != "put_if_absent" or not key.endswith(".json"):
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    return plan


def faulty(table: Table, *faults: str | None) -> tuple[Table, FaultyStore]:
    store = FaultyStore(table.context.store, at_log_puts(*faults))
    return behind(table, store), store


def one_row() -> tuple[Table, Store, Clock]:
    clock = Clock()
    table = new_table(clock=clock)
    table.append(rows(1))
    return table, table.context.store, clock


@pytest.mark.parametrize(
    "faults",
    [
        ["lost_request", None],
        ["lost_answer", None],
        ["sdk_retry", None],
        ["late", None],
        ["lost_request", "lost_answer", None],
        ["late", "lost_answer", None],
        ["late", "sdk_retry", None],
        ["lost_answer", "lost_request", "late", None],
        ["lost_request"] * 12 + [None],
    ],
)
@pytest.mark.parametrize("raced", [False, True])
def test_a_silent_store_is_asked_again_till_the_commit_is_decided(
    faults: list[str | None], raced: bool
) -> None:
    """CMT-3, CMT-4, CMT-5: the entry is in the log once. A concurrent commit may be before it."""
    table, store, _ = one_row()
    late, failing = faulty(table, *faults)
    if raced:
        table.append(rows(2))
    commit_result = late.append(rows(3))
    failing.deliver_late()
    assert failing.fired == Counter(filter(None, faults))
    wanted = [1, 2, 3] if raced else [1, 3]
    assert commit_result.version == len(wanted)
    assert commit_result.rebased_over == ((2,) if raced else ())
    assert ids(handle(store)) == by_hand(store) == wanted
    assert data_files(store) == live_files(store)
    assert_sound(store)


@pytest.mark.parametrize("fault", ["refused", "no_space"])
def test_a_refused_commit_leaves_nothing(fault: str) -> None:
    """CMT-1, CMT-7."""
    table, store, _ = one_row()
    late, _ = faulty(table, fault)
    with pytest.raises(CommitRejectedError, match=f"injected: {fault}.*run the operation again"):
        late.append(rows(3))
    assert ids(handle(store)) == [1]
    assert data_files(store) == live_files(store)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("local", [False, True])
def test_an_entry_that_cannot_be_made_leaves_nothing(
    silent: bool, local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMT-1, CMT-7, ENT-2, STO-15: its files and their folder go, for nothing of it was sent."""
    table = new_table(LocalStore(tmp_path / "t") if local else None)
    table.append(rows(1))
    store = table.context.store
    monkeypatch.setattr(codec, "ENTRY_BYTES_MAX", 3_000)
    late, _ = faulty(table, "lost_request", None) if silent else (table, None)
    notes = {"long": "x" * 4_000}
    with pytest.raises(UnsupportedFeatureError, match="commit in smaller pieces") as caught:
        late.append(rows(3), user_metadata=notes)
    assert caught.value.features == ["entry-size"]
    with pytest.raises(UnsupportedFeatureError):
        late.transaction().append(rows(3)).commit(user_metadata=notes)
    late.transaction().append(rows(3)).abort()
    assert late.append(rows(4)).version == 2
    assert ids(handle(store)) == [1, 4]
    assert data_files(store) == live_files(store)
    if local:
        # A handle of its own has a folder of its own.
        assert len(os.listdir(tmp_path / "t/data")) == (2 if silent else 1)


def test_no_commit_is_made_after_the_last_time_there_is() -> None:
    """ENT-3, TIM-1, CMT-7: an entry that readers would refuse is not sent."""
    table, store, clock = one_row()
    clock.micros = MICROS_MAX
    table.append(rows(2))
    table.append(rows(3))
    clock.micros = MICROS_MAX + 1
    with pytest.raises(CommitRejectedError, match="year 9999"):
        table.append(rows(4))
    assert ids(handle(store)) == [1, 2, 3]
    assert data_files(store) == live_files(store)
    assert handle(store).timestamp == from_micros(MICROS_MAX)


@pytest.mark.parametrize("fault", ["refused", "no_space"])
def test_a_refused_data_file_leaves_nothing(fault: str) -> None:
    """CMT-1: the entry is not put."""
    puts: list[str] = []

    def plan(index: int, verb: str, key: str) -> Any:
        puts.append(key)
        return fault if verb == "put" and key.endswith("2.parquet") else None

    partitioned = new_table(partitioned=True)
    store = partitioned.context.store
    late = behind(partitioned, FaultyStore(store, plan))
    with pytest.raises(CommitRejectedError, match=fault):
        late.append(rows(1, 2, 3, 4, p=["a", "b", "c", "d"]))
    assert data_files(store) == []
    assert entry_key(1) not in puts
    assert handle(store).version == 0


@pytest.mark.parametrize("first", ["lost_answer", "lost_request", "late"])
def test_a_refusal_after_silence_is_unknown_and_keeps_the_files(first: str) -> None:
    """CMT-7, CMT-9: `resolve` answers yes, no or still unknown, and only final answers stay."""
    table, store, _ = one_row()
    late, failing = faulty(table, first, "refused")
    with pytest.raises(CommitUnknownError) as caught:
        late.append(rows(3))
    unknown = caught.value
    assert unknown.version == 2
    assert len(data_files(store)) == 2

    judge = handle(store)
    if first == "lost_answer":
        found = judge.resolve(unknown.transaction, 2)
        assert found is not None
        assert (found.version, found.transaction) == (2, unknown.transaction)
        assert judge.version == 2
        assert ids(judge) == [1, 3]
        return
    if first == "lost_request":
        for version in (2, None):
            with pytest.raises(CommitUnknownError):
                judge.resolve(unknown.transaction, version)
        table.append(rows(4))
        assert judge.resolve(unknown.transaction, 2) is None
        with pytest.raises(CommitUnknownError):
            judge.resolve(unknown.transaction)
        return
    failing.deliver_late()
    found = judge.resolve(unknown.transaction)
    assert found is not None
    assert found.version == 2


def test_a_lookup_that_gets_no_answer_is_still_unknown() -> None:
    """CMT-9."""
    table, store, _ = one_row()
    silent = FaultyStore(store, lambda index, verb, key: "lost_request")
    with pytest.raises(
        CommitUnknownError, match="the outcome of the commit at version 2 is unknown"
    ):
        behind(table, silent).resolve("0f" * 16, 2)


@pytest.mark.parametrize(
    "arguments", [("x",), ("0F" * 16,), ("0f" * 16, -1), ("0f" * 16, 1.0), ("0f" * 16, True)]
)
def test_a_lookup_of_what_is_no_transaction_says_so(arguments: Any) -> None:
    """CMT-9."""
    with pytest.raises(InvalidRangeError):
        one_row()[0].resolve(*arguments)


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer"])
def test_silence_ends_at_the_deadline_as_unknown(fault: str) -> None:
    """CMT-8, CMT-10: waits with jitter, bounded, in the clock that never jumps."""
    table, store, clock = one_row()
    start = clock.seconds
    late, failing = faulty(table, fault)
    why = r"is unknown \(the deadline of 30 s passed\): the commit may be"
    with pytest.raises(CommitUnknownError, match=why) as caught:
        late.append(rows(3), deadline=30)
    assert caught.value.version == 2
    assert clock.seconds - start == pytest.approx(30)
    assert max(clock.sleeps) <= 2
    assert clock.sleeps[:4] == [0.005, 0.01, 0.02, 0.04]
    assert failing.fired[fault] <= 60
    assert len(data_files(store)) == 2


def test_a_writer_that_only_loses_ends_at_the_deadline_as_rejected() -> None:
    """CMT-8: it sent no entry for the version that it contests."""
    table, store, clock = one_row()

    class AlwaysFirst(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            if key.endswith(".json"):
                extend(store, table, 1)
            return super().put_if_absent(key, body)

        def get_many(self, keys: Any) -> Any:
            clock.forward(1)
            return super().get_many(keys)

    with pytest.raises(CommitRejectedError, match="rejected: the deadline of 5 s passed"):
        behind(table, AlwaysFirst(store)).append(rows(3), deadline=5)
    assert data_files(store) == live_files(store)


def test_an_entry_that_went_stale_is_made_anew_or_not_sent() -> None:
    """CMT-8, INC-2: stamped ten minutes ago is too old, whether time passed or the clock jumped."""
    table, store, clock = one_row()

    class SlowPut(ForwardingStore):
        puts = 0

        def put_if_absent(self, key: str, body: bytes) -> Any:
            self.puts += 1
            clock.micros += 601_000_000
            return NoAnswer("slow")

    slow = SlowPut(store)
    with pytest.raises(CommitUnknownError):
        behind(table, slow).append(rows(3))
    assert slow.puts == 1


def test_a_clock_far_ahead_of_the_stores_is_refused() -> None:
    """TIM-3."""
    table, store, clock = one_row()

    class Timed(ForwardingStore):
        behind_us = 600_000_000

        def server_time_us(self) -> int:
            return clock.micros - self.behind_us

    timed = Timed(store)
    late = behind(table, timed)
    assert late.append(rows(2)).version == 2
    timed.behind_us += 1_000_000
    with pytest.raises(CommitRejectedError, match=r"clock is 601 s ahead.*correct it"):
        late.append(rows(3))
    timed.behind_us = -(10**15)
    assert late.append(rows(4)).version == 3
    assert data_files(store) == live_files(store)


def test_times_rise_though_the_clock_goes_back_or_stands_still() -> None:
    """TIM-1."""
    table, store, clock = one_row()
    first = clock.micros
    for n, jump in enumerate([-3_600_000_000, 0, 0, -1, 7_200_000_000], 2):
        clock.micros += jump
        table.append(rows(n))
    stamps = list(handle(store).context.view.timeline.timestamps)
    assert stamps[:6] == [first + n for n in range(6)]
    assert stamps[6] == clock.micros
    assert_sound(store)


def test_damage_above_an_own_entry_hides_no_commit() -> None:
    """CMT-1, CMT-4: the answer was lost, and somebody spoilt the log above."""
    table, store, _ = one_row()

    class SpoiltAbove(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            reply = super().put_if_absent(key, body)
            self.inner.put(entry_key(3), b"garbage")
            return NoAnswer("lost") if reply == Written() else reply

    assert behind(table, SpoiltAbove(store)).append(rows(3)).version == 2


GARBAGE, NEWER = "garbage", "newer"


def unreadable(kind: str, above: bytes) -> bytes:
    """Return an entry above another that this version cannot read."""
    if kind == GARBAGE:
        return b"garbage"
    document = orjson.loads(above)
    del document["checksum"]
    later = {"version": document["version"] + 1, "previous": digest(above), "transaction": "e" * 32}
    return signed({**document, **later, "zebra": 1})


WHY = {GARBAGE: (CorruptEntryError, "is torn"), NEWER: (UnsupportedFeatureError, "field:zebra")}


@pytest.mark.parametrize("kind", [GARBAGE, NEWER])
@pytest.mark.parametrize("before", [0, 1, 5])
def test_an_entry_that_cannot_be_judged_ends_the_commit_and_its_files_go(
    kind: str, before: int
) -> None:
    """ENT-1, CMT-6, CMT-12: the readable entries below it make no difference."""
    table, store, _ = one_row()
    late = behind(table, store)
    extend(store, table, before)
    top = entry_key(1 + before)
    store.put(entry_key(2 + before), unreadable(kind, store.get(top)))
    files = data_files(store)
    error, why = WHY[kind]
    with pytest.raises(error, match=why):
        late.append(rows(3))
    assert data_files(store) == files


@pytest.mark.parametrize("kind", [GARBAGE, NEWER])
@pytest.mark.parametrize("fault", ["lost_answer", "lost_request", "late"])
def test_files_stay_if_what_cannot_be_judged_may_be_ones_own(kind: str, fault: str) -> None:
    """CMT-1, CMT-12: a put had no answer, so the commit is unknown; the entry is the cause."""
    table, store, _ = one_row()

    class SpoiltAfter(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            reply = super().put_if_absent(key, body)
            if isinstance(reply, NoAnswer):
                store.put(key, unreadable(kind, store.get(entry_key(1))))
            return reply

    late, failing = faulty(table, fault, None)
    late.context.store = late.context.view.store = SpoiltAfter(failing)
    error, why = WHY[kind]
    with pytest.raises(CommitUnknownError, match=why) as caught:
        late.append(rows(3))
    assert isinstance(caught.value.__cause__, error)
    assert (len(caught.value.transaction), caught.value.version) == (32, 2)
    assert len(data_files(store)) == 2


@pytest.mark.parametrize("kind", [GARBAGE, NEWER])
def test_what_cannot_be_judged_hides_no_conflict_below_it(kind: str) -> None:
    """CMT-6, CMT-12: the first conflict in version order decides."""
    table, store, _ = one_row()
    late = behind(table, store).transaction()
    late.delete("id = 1")
    table.update({"p": "'z'"}, "id = 1")
    store.put(entry_key(3), unreadable(kind, store.get(entry_key(2))))
    files = data_files(store)
    with pytest.raises(ConcurrentModificationException):
        late.commit()
    assert data_files(store) == files


def test_an_entry_of_another_table_stops_the_commit() -> None:
    """LOG-3, CMT-12: it cannot be judged, so the outcome is rejected."""
    table, store, _ = one_row()
    other = new_table()
    other.append(rows(9))
    other.append(rows(9))
    table.context.store.put(entry_key(2), other.context.store.get(entry_key(2)))
    files = data_files(store)
    with pytest.raises(TableReplacedError, match="now holds table"):
        table.append(rows(3))
    assert data_files(store) == files


def test_an_application_version_is_applied_once() -> None:
    """CFL-7, RPL-5: a repeated version, an older version, and a version with other content."""
    table, store, _ = one_row()
    first = table.append(rows(2), application=("job", 7), user_metadata={"a": [1]})
    assert not first.already_applied
    for other in (table, handle(store)):
        again = other.append(rows(2), application=("job", 7))
        assert (again.already_applied, again.version) == (True, 2)
        back = other.append(rows(5), application=("job", 6))
        assert (back.already_applied, back.version) == (True, 2)
        with pytest.raises(IdempotenceError, match="new application version"):
            other.append(rows(3), application=("job", 7))
    assert table.append(rows(3), application=("other", 7)).version == 3
    assert table.append(rows(4), application=("job", 8)).version == 4
    assert ids(handle(store)) == [1, 2, 3, 4]
    assert data_files(store) == live_files(store)


@pytest.mark.parametrize("same", [True, False])
def test_a_race_of_one_application_version_commits_it_once(same: bool) -> None:
    """CFL-6: the concurrent commit decides again, by id, version and content."""
    table, store, _ = one_row()

    class Beaten(ForwardingStore):
        beaten = False

        def put_if_absent(self, key: str, body: bytes) -> Any:
            if not self.beaten:
                self.beaten = True
                handle(store).append(rows(2), application=("job", 1))
            return super().put_if_absent(key, body)

    late = behind(table, Beaten(store))
    if same:
        commit_result = late.append(rows(2), application=("job", 1))
        assert (commit_result.already_applied, commit_result.version) == (True, 2)
    else:
        with pytest.raises(ConcurrentTransactionException, match="job"):
            late.append(rows(3), application=("job", 1))
    assert ids(handle(store)) == [1, 2]
    assert data_files(store) == live_files(store)


def test_threads_of_one_handle_apply_an_application_version_once() -> None:
    """CMT-6, CFL-6: commits that the handle read while the data was written are checked too."""
    table, store, _ = one_row()
    together = threading.Barrier(2)

    class Together(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            together.wait(10)
            super().put(key, body)

    shared = behind(table, Together(store))
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(shared.append, rows(2), application=("job", 1)) for _ in range(2)]
        commits = [w.result() for w in work]
    assert sorted(r.already_applied for r in commits) == [False, True]
    assert ids(handle(store)) == [1, 2]


def test_threads_of_one_handle_lose_nothing() -> None:
    """CMT-1: 8 threads, 50 appends."""
    clock = Clock()
    table = new_table(clock=clock)
    with ThreadPoolExecutor(8) as pool:
        commits = list(pool.map(lambda n: table.append(rows(n)), range(50)))
    assert sorted(r.version for r in commits) == list(range(1, 51))
    assert ids(table) == by_hand(table.context.store) == list(range(50))
    assert_sound(table.context.store)


@pytest.mark.slow
def test_a_handle_5000_versions_behind_appends_and_reads_each_entry_once() -> None:
    """CMT-2, CMT-5, CMT-6."""
    store = with_history(2)
    table = handle(store)
    other = handle(store)
    view = other.context.view
    for n in range(5000):
        plan = Plan.of(
            Staged(
                transaction=f"{n:032x}",
                operation=Operation(name="WRITE", cls=OperationClass.INSERT),
                written_under=view.head.metadata,
            )
        )
        assert isinstance(commit(store, plan, other.context.environment, view).outcome, Committed)
    counting = CountingStore(store)
    table.context.store = table.context.view.store = counting
    commit_result = table.append(rows(1))
    assert commit_result.version == 5002
    assert commit_result.rebased_over == tuple(range(2, 5002))
    asked = [key for verb, key in counting.requests if verb == "get"]
    assert all(count == 1 for count in map(asked.count, map(entry_key, range(2, 5002, 97))))
    assert len(asked) < 5002 + 512 + 8
    assert counting.counts["put_if_absent"] == 2


COLUMNS = schema_from("id BIGINT, p STRING")


def changed(name: str) -> Metadata:
    first, second = COLUMNS.fields
    new = Field(3, "new", "new", Primitive("long"))
    schemas = {
        "renamed": (replace(first, name="key"), second),
        "widened by a column": (first, second, new),
        "dropped": (first,),
        "NOT NULL": (first, replace(second, nullable=False)),
        "new and NOT NULL": (first, second, replace(new, nullable=False)),
        "partitioned": (first, second),
    }
    partition_by = (2,) if name == "partitioned" else ()
    # SCH-8: the name in files is remembered.
    dropped = ("p",) if name == "dropped" else ()
    return Metadata(Schema(schemas[name], 3, dropped), partition_by)


def change_metadata(store: Store, metadata: Metadata) -> None:
    table = handle(store)
    anew = metadata.partition_by != table.context.view.head.metadata.partition_by
    cls = OperationClass.OVERWRITE if anew else OperationClass.METADATA
    plan = Plan.of(
        Staged(
            transaction=table.context.environment.nonce(),
            operation=Operation(name="SET", cls=cls),
            # ENT-8: no file of another partitioning stays.
            replacing=Replacing(None) if anew else None,
            written_under=table.context.view.head.metadata,
            read_version=table.version,
            metadata=metadata,
        )
    )
    done = commit(store, plan, table.context.environment, table.context.view)
    assert isinstance(done.outcome, Committed)


def test_an_append_rebases_onto_metadata_that_its_files_fit() -> None:
    """CFL-5: it depends on nothing that it read."""
    table, store, _ = one_row()
    change_metadata(store, changed("widened by a column"))
    commit_result = table.append(rows(3))
    assert commit_result.rebased_over == (2,)
    now = handle(store).to_arrow()
    assert sorted(now[now.schema.names[0]].to_pylist()) == [1, 3]


@pytest.mark.parametrize(
    "name",
    ["renamed", "dropped", "NOT NULL", "new and NOT NULL", "partitioned"],
)
@pytest.mark.parametrize("taken_in", [False, True])
def test_an_append_that_began_from_the_head_is_refused_by_metadata_that_it_does_not_fit(
    name: str, taken_in: bool
) -> None:
    """CFL-5, CMT-6: this holds also if the handle read the change while the data was written."""
    table, store, _ = one_row()

    class ChangedMeanwhile(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            super().put(key, body)
            change_metadata(store, changed(name))
            if taken_in:
                late.refresh()

    late = behind(table, ChangedMeanwhile(store))
    with pytest.raises(MetadataChangedException) as caught:
        late.append(rows(3), application=("job", 1))
    assert (caught.value.winner_version, caught.value.rule) == (2, "CFL-5")
    assert len(data_files(store)) == 1


FITS_NOW = {
    "dropped": SchemaMismatchError,
    "new and NOT NULL": SchemaMismatchError,
    "renamed": SchemaMismatchError,
    "NOT NULL": None,
    "partitioned": None,
}


@pytest.mark.parametrize("name", FITS_NOW)
@pytest.mark.parametrize("taken_in", [False, True])
def test_an_append_from_a_head_that_was_only_remembered_begins_again(
    name: str, taken_in: bool
) -> None:
    """CFL-5: once; the schema of now decides, and what was written under the other one goes."""
    table, store, _ = one_row()
    before = data_files(store)

    class ChangedMeanwhile(ForwardingStore):
        left = 1

        def put(self, key: str, body: bytes) -> None:
            super().put(key, body)
            if self.left:
                self.left -= 1
                change_metadata(store, changed(name))
                if taken_in:
                    late.refresh()

    late = behind(table, ChangedMeanwhile(store))
    error = FITS_NOW[name]
    if error is not None:
        with pytest.raises(error):
            late.append(rows(3))
    else:
        kept = [] if name == "partitioned" else [1]
        assert (late.append(rows(3)).version, ids(late)) == (3, [*kept, 3])
    assert data_files(store) == sorted({*before, *live_files(store)})


def test_an_append_that_began_again_fails_by_a_change_that_comes_then() -> None:
    """CFL-5: the second attempt knows its read version, so the change is concurrent."""
    table, store, _ = one_row()
    before = data_files(store)
    names = iter(["partitioned", "NOT NULL", "renamed"])

    class ChangedMeanwhile(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            super().put(key, body)
            change_metadata(store, changed(next(names)))

    with pytest.raises(MetadataChangedException) as caught:
        behind(table, ChangedMeanwhile(store)).append(rows(3))
    assert (caught.value.winner_version, next(names)) == (3, "renamed")
    assert data_files(store) == before


def test_an_overwrite_is_refused_by_any_change_of_metadata() -> None:
    """CFL-5."""
    table, store, _ = one_row()

    class ChangedMeanwhile(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            super().put(key, body)
            change_metadata(store, changed("renamed"))

    with pytest.raises(MetadataChangedException):
        behind(table, ChangedMeanwhile(store)).overwrite(rows(3))
    assert len(data_files(store)) == 1


class Meanwhile(ForwardingStore):
    """Somebody else commits right before the entry is put."""

    def __init__(self, inner: Store, work: Callable[[], object]) -> None:
        super().__init__(inner)
        self.work: Callable[[], object] | None = work

    def put_if_absent(self, key: str, body: bytes) -> Any:
        work, self.work = self.work, None
        if work is not None:
            work()
        return super().put_if_absent(key, body)


def test_insert_and_overwrite_race_in_either_order() -> None:
    """CFL-3: granularity `row`; the versions hold what was committed in the order of commit."""
    table, store, _ = one_row()
    late = behind(table, Meanwhile(store, lambda: handle(store).append(rows(2))))
    assert late.overwrite(rows(3)).rebased_over == (2,)
    late = behind(handle(store), Meanwhile(store, lambda: handle(store).overwrite(rows(4))))
    assert late.append(rows(5)).rebased_over == (4,)
    late = behind(handle(store), Meanwhile(store, lambda: handle(store).overwrite(rows(6))))
    assert late.overwrite(rows(7)).rebased_over == (6,)
    now = handle(store)
    wanted = [[], [1], [1, 2], [3], [4], [4, 5], [6], [7]]
    assert [ids(now, v) for v in range(8)] == wanted
    assert_sound(store)


def test_overwritten_partitions_take_what_came_meanwhile_with_them() -> None:
    """CFL-3: other partitions stay."""
    table = new_table(partitioned=True)
    store = table.context.store
    table.append(rows(1, 2, p=["a", "b"]))
    insert = rows(3, 4, p=["a", "b"])
    late = behind(table, Meanwhile(store, lambda: handle(store).append(insert)))
    late.overwrite(rows(5, p="a"), dynamic_partitions=True)
    late = behind(handle(store), Meanwhile(store, lambda: handle(store).append(insert)))
    late.truncate(where="p = 'b'")
    now = handle(store)
    assert [ids(now, v) for v in (3, 4, 5)] == [[2, 4, 5], [2, 3, 4, 4, 5], [3, 5]]
    assert_sound(store)


TRANSACTION_CELLS = [
    ("INSERT", "INSERT", "fail"),
    ("OVERWRITE", "INSERT", "fail"),
    ("INSERT", "OVERWRITE", "replace"),
    ("OVERWRITE", "OVERWRITE", "replace"),
]


@pytest.mark.parametrize(("earlier", "later", "outcome"), TRANSACTION_CELLS)
@pytest.mark.parametrize("disjoint", [False, True])
def test_granularity_transaction_goes_by_scope(
    earlier: str, later: str, outcome: str, disjoint: bool
) -> None:
    """CFL-2."""

    def work(table: Table, verb: str, data: pa.Table) -> object:
        if verb == "INSERT":
            return table.append(data)
        return table.overwrite(data, dynamic_partitions=True)

    table = new_table(partitioned=True, conflictGranularity="transaction")
    store = table.context.store
    table.append(rows(1, 2, p=["a", "b"]))
    theirs = rows(3, p="b" if disjoint else "a")
    late = behind(table, Meanwhile(store, lambda: work(handle(store), earlier, theirs)))
    if outcome == "fail" and not disjoint:
        with pytest.raises(ConcurrentWriteException) as caught:
            work(late, later, rows(4, p="a"))
        assert caught.value.rule == "CFL-2"
        assert caught.value.evidence["partitions"] == [["a"]]
        assert handle(store).version == 2
        assert len(data_files(store)) == 3
    else:
        work(late, later, rows(4, p="a"))
        kept = {1, 2, 3, 4}
        if later == "OVERWRITE":
            kept -= {1} if disjoint else {1, 3}
        if earlier == "OVERWRITE":
            kept -= {2} if disjoint else {1}
        assert ids(handle(store)) == sorted(kept)
    assert_sound(store)


def test_the_whole_table_overlaps_every_partition() -> None:
    """CFL-2: an unpartitioned scope meets everything."""
    table = new_table(partitioned=True, conflictGranularity="transaction")
    store = table.context.store
    table.append(rows(1, 2, p=["a", "b"]))
    late = behind(table, Meanwhile(store, lambda: handle(store).overwrite(rows(3, p="b"))))
    with pytest.raises(ConcurrentWriteException):
        late.append(rows(4, p="a"))


def test_of_many_creators_one_makes_the_table() -> None:
    """CFL-4: the other creators get an error, or join if they asked for the same table."""
    for exist_ok in (False, True):
        store = memory()
        start = threading.Barrier(8)

        class Together(ForwardingStore):
            def put_if_absent(self, key: str, body: bytes, start: Any = start) -> Any:
                if key == entry_key(0):
                    start.wait(10)
                return super().put_if_absent(key, body)

        creating = Together(store)

        def make(n: int, store: Store = creating, ok: bool = exist_ok) -> str:
            try:
                return create(store, "id BIGINT, p STRING", exist_ok=ok).view.head.table
            except (ProtocolChangedException, TableExistsError) as error:
                return error.kind

        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(make, range(8)))
        concurrent = handle(store)
        others = [m for m in made if m != concurrent.id]
        assert concurrent.version == 0
        assert others == ([] if exist_ok else ["protocol_changed"] * 7)


def test_a_table_that_is_there_is_joined_only_if_it_is_the_same() -> None:
    """CFL-4."""
    table = new_table()
    store = table.context.store
    with pytest.raises(TableExistsError, match=r"Open it with tablefmt\.open"):
        create(store, "id BIGINT, p STRING")
    assert create(store, "id BIGINT, p STRING", exist_ok=True).view.head.table == table.id
    for schema, partition_by in (("id BIGINT", []), ("id BIGINT, p STRING", ["p"])):
        with pytest.raises(TableExistsError, match="a different schema"):
            create(store, schema, partition_by=partition_by, exist_ok=True)

    raced = memory()
    other = Meanwhile(raced, lambda: None)

    def first() -> None:
        create(raced, "x STRING")

    class Raced(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            if key == entry_key(0):
                first()
            return super().put_if_absent(key, body)

    with pytest.raises(TableExistsError, match="a different schema"):
        create(Raced(other), "id BIGINT", exist_ok=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"application": ("a",)},
        {"application": "ab"},
        {"application": (1, 1)},
        {"application": ("a", 1.0)},
        {"application": ("a", True)},
        {"application": ("a", 2**63)},
        {"application": ("\ud800", 1)},
        {"user_metadata": 5},
        {"user_metadata": {1: 2}},
        {"user_metadata": {"a": {1, 2}}},
        {"user_metadata": {"a": 2**63}},
        {"user_metadata": {"a": "\ud800"}},
        {"deadline": "soon"},
        {"deadline": -1},
        {"deadline": float("nan")},
        {"dedline": 1},
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_written(wrong: Any) -> None:
    """ENT-2, ENT-3."""
    table, store, _ = one_row()
    with pytest.raises(InvalidRangeError):
        table.append(rows(2), **wrong)
    assert len(data_files(store)) == 1


def test_user_metadata_that_nests_as_deep_as_an_entry_may_is_read_again() -> None:
    """ENT-2."""
    deep: Any = 1
    for _ in range(126):
        deep = [deep]
    table, store, _ = one_row()
    table.append(rows(2), user_metadata={"a": deep})
    assert handle(store).version == 2
    with pytest.raises(InvalidRangeError, match="nests deeper"):
        table.append(rows(2), user_metadata={"a": [deep]})


def test_an_unreadable_overflow_file_rejects_an_overwrite() -> None:
    """CMT-1: no request was sent. A store error never leaves unconverted."""
    table, store, _ = one_row()

    class NoSnapshots(ForwardingStore):
        pass

    late = behind(table, NoSnapshots(store))

    def silent(version: int | None = None) -> Any:
        raise StoreError("the store is away", retryable=True)

    late.context.view.snapshot = silent  # type: ignore[method-assign]
    with pytest.raises(CommitRejectedError, match="away"):
        late.overwrite(rows(3))
    assert data_files(store) == live_files(store)


def test_a_slow_clock_does_not_write_into_the_past() -> None:
    """TIM-1, INC-2: a settled range does not grow if the store reports its time."""
    clock = Clock()

    class Telling(ForwardingStore):
        def server_time_us(self) -> int | None:
            return clock.micros + 3_600_000_000

    table = new_table(clock=clock)
    slow = open_at(Telling(table.context.store), clock.environment())
    commit_result = slow.append(rows(1))
    assert to_micros(commit_result.timestamp) == clock.micros + 3_600_000_000


def test_an_append_reads_few_concurrent_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMT-6: the last one of each window; all are named with the rule that reading would name."""
    table, store, _ = one_row()
    late = behind(table, store)
    reading = behind(table, store).transaction().append(rows(10))
    for n in range(2, 9):
        (table.overwrite if n == 5 else table.append)(rows(n))
    decoded: list[int] = []

    def counted(body: bytes, version: int) -> Any:
        decoded.append(version)
        return decode(body, version)

    for module in (
        "tablefmt.commit.concurrent_commits",
        "tablefmt.snapshot.version_history",
        "tablefmt.log.log_reader",
    ):
        monkeypatch.setattr(f"{module}.decode", counted)
    commit_result = late.append(rows(9))
    assert decoded == [2, 6, 8]
    assert ids(late) == [5, 6, 7, 8, 9]
    assert decoded == [2, 6, 8, 3, 4, 5, 7]

    read = [passed.as_dict() for passed in reading.commit().rebased_over]
    assert [passed.as_dict() for passed in commit_result.rebased_over] == read[:7]
    assert [passed["version"] for passed in read] == list(range(2, 10))


@pytest.mark.parametrize("name", ["widened by a column", "dropped"])
def test_metadata_among_many_concurrent_commits_is_not_skipped(name: str) -> None:
    """CFL-5: an append whose files do not fit begins again, one whose files fit goes on."""
    table, store, _ = one_row()
    late = behind(table, store)
    for n in range(2, 5):
        table.append(rows(n))
    change_metadata(store, changed(name))
    extend(store, table, 3)
    if name == "widened by a column":
        assert late.append(rows(9)).rebased_over == tuple(range(2, 9))
        assert late.schema.names == ["id", "p", "new"]
        return
    commit_result = late.append(rows(9).select(["id"]))
    assert (commit_result.version, commit_result.rebased_over) == (9, ())
    assert ids(late) == ids(table.refresh())


def test_after_a_lost_race_the_next_commits_probe_first_until_one_is_alone() -> None:
    """CMT-2: the commit after that is one put again."""
    table, store, _ = one_row()
    counting = CountingStore(store)
    late = behind(table, counting)
    table.append(rows(2))
    seen = []
    for n in range(3, 6):
        counting.reset()
        late.append(rows(n))
        seen.append([verb for verb, key in counting.requests if key.startswith("_log")])
    assert seen[1:] == [["get", "get", "put_if_absent"], ["put_if_absent"]]
    assert seen[0][0] == "put_if_absent"


def test_a_writer_that_keeps_losing_waits_looks_and_puts_once_more() -> None:
    """CMT-10: no put loses after a probe that found the version free."""
    table, store, clock = one_row()

    class TwiceFirst(CountingStore):
        left = 2

        def put_if_absent(self, key: str, body: bytes) -> Any:
            if self.left and key.endswith(".json"):
                self.left -= 1
                extend(store, table, 1)
            return super().put_if_absent(key, body)

        def get_many(self, keys: Any) -> Any:
            if clock.sleeps and keys == [entry_key(4)]:
                extend(store, table, 1)
            return super().get_many(keys)

    racing = TwiceFirst(store)
    late = behind(table, racing)
    assert late.append(rows(3)).rebased_over == (2, 3, 4)
    assert clock.sleeps == [0.005]
    puts = [key for verb, key in racing.requests if verb == "put_if_absent"]
    assert puts == [entry_key(2), entry_key(3), entry_key(5)]


def test_the_place_of_a_missing_entry_is_not_taken() -> None:
    """LOG-2, CMT-12: a writer that lost a race finds the gap, and removes its files."""
    table, store, _ = one_row()
    late = behind(table, store)
    extend(store, table, 5)
    store.delete(entry_key(3))
    files = data_files(store)
    with pytest.raises(LogGapError, match="not version 3"):
        late.append(rows(3))
    assert (data_files(store), store.get_many([entry_key(3)])) == (files, [None])
