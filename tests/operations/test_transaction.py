"""A transaction: what it reads, what it may hold, how it ends, and that it is applied once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    ConcurrentAppendException,
    ConcurrentTransactionException,
    ConstraintViolationError,
    IdempotenceError,
    InvalidPredicateError,
    InvalidRangeError,
    ProtocolChangedException,
    SchemaMismatchError,
    StoreError,
    TablefmtError,
    TransactionStateError,
    VersionNotFoundError,
)
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Operation, OperationClass, ProtocolFeatures
from tablefmt.operations.transaction import Transaction
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.store.object_store import NoAnswer
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tests.tables import (
    Clock,
    assert_sound,
    behind,
    data_files,
    handle,
    ids,
    live_files,
    memory,
    new_table,
    rows,
)

DAY = 86_400.0


def test_several_appends_are_one_version() -> None:
    """CMT-2: no row is in the table before the commit, and all rows are after it."""
    table = new_table(partitioned=True)
    txn = table.transaction()
    assert txn.append(rows(1)).append(rows()).append(rows(2, 3, p=["a", "b"])) is txn
    assert (handle(table.context.store).version, len(data_files(table.context.store))) == (0, 3)
    commit_result = txn.commit(user_metadata={"why": "two"})
    assert (commit_result.version, commit_result.operation) == (1, "WRITE")
    assert commit_result.metrics["numOutputRows"] == 3
    assert txn.commit_result is commit_result
    now = handle(table.context.store)
    assert ids(now) == ids(table) == [1, 2, 3]
    (entry,) = now.context.view.entries_after(0)
    assert (entry.entry.basis.blind, entry.entry.operation.cls) == (True, OperationClass.INSERT)
    assert entry.entry.user_metadata == {"why": "two"}
    assert_sound(table.context.store)


def test_a_transaction_reads_its_version_whatever_commits() -> None:
    """RPL-1: it does not see its own staged rows either."""
    table = new_table()
    table.append(rows(1, 2))
    txn = table.transaction()
    handle(table.context.store).append(rows(3))
    table.refresh()
    txn.append(rows(4))
    assert sorted(txn.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert txn.scan(columns=["p"], where="id = 2", limit=5).to_arrow()["p"].to_pylist() == ["a"]
    assert txn.read_version == 1
    assert repr(txn).endswith("read_version=1, staged='WRITE', open)")


def test_a_fixed_read_version_is_the_one_that_conflicts_are_checked_from() -> None:
    """CMT-6: a delete as of version 1 meets what was deleted after it."""
    table = new_table()
    table.append(rows(1, 2, 3))
    table.delete("id = 1")
    old = table.transaction(read_version=1)
    assert sorted(old.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert table.transaction(read_version=1).delete("id = 2").commit().rebased_over == (2,)
    assert ids(table) == [3]
    for version in (-1, 4):
        with pytest.raises(VersionNotFoundError):
            table.transaction(read_version=version)
    for other in (True, 1.0, "1"):
        with pytest.raises(InvalidRangeError):
            table.transaction(read_version=other)  # type: ignore[arg-type]


def test_a_block_commits_at_its_end_and_aborts_if_it_raises() -> None:
    """CMT-1."""
    table = new_table()
    with table.transaction() as txn:
        txn.append(rows(1))
    assert txn.commit_result is not None
    assert txn.commit_result.version == 1
    broken = table.transaction()

    def fail() -> None:
        with broken:
            broken.append(rows(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert broken.commit_result is None
    with table.transaction() as ended:
        ended.append(rows(3))
        ended.abort()
    with table.transaction() as made:
        made.append(rows(4))
        made.commit(application=("job", 1))
    store = table.context.store
    assert ids(handle(store)) == [1, 4]
    assert data_files(store) == live_files(store)


VERBS: dict[str, Callable[[Transaction], Any]] = {
    "append": lambda txn: txn.append(rows(9)),
    "overwrite": lambda txn: txn.overwrite(rows(9)),
    "truncate": lambda txn: txn.truncate(),
    "delete": lambda txn: txn.delete("id = 1"),
    "alter": lambda txn: txn.alter.set_properties({"user.a": "b"}),
    "scan": lambda txn: txn.scan(),
    "commit": lambda txn: txn.commit(),
    "abort": lambda txn: txn.abort(),
    "with": lambda txn: txn.__enter__(),
}


@pytest.mark.parametrize("end", ["commit", "abort", "conflict"])
@pytest.mark.parametrize("verb", VERBS)
def test_an_ended_transaction_is_of_no_use(end: str, verb: str) -> None:
    """The error names the end of the transaction, and the call changes nothing."""
    table = new_table()
    table.append(rows(1))
    txn = table.transaction()
    if end == "conflict":
        txn.delete("id = 1")
        handle(table.context.store).delete("id = 1")
        with pytest.raises(TablefmtError):
            txn.commit()
    else:
        VERBS[end](txn)
    word = {"commit": "committed", "abort": "aborted", "conflict": "rejected"}[end]
    assert f", {word})" in repr(txn)
    with pytest.raises(TransactionStateError, match=f"{word}; begin another"):
        VERBS[verb](txn)
    store = table.context.store
    assert handle(store).version == (2 if end == "conflict" else 1)


@pytest.mark.parametrize("applied", [True, False])
def test_a_transaction_of_unknown_outcome_says_so(applied: bool) -> None:
    """CMT-1: a second `commit` does not claim that the first one is in the table."""
    table = new_table()

    class Silent(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            if applied:
                super().put_if_absent(key, body)
            return NoAnswer("lost")

        def get_many(self, keys: Any) -> Any:
            raise StoreError("no answer", retryable=True)

    txn = table.transaction().append(rows(1))
    silent = Silent(table.context.store)
    table.context.store = table.context.view.store = silent
    with pytest.raises(CommitUnknownError) as caught:
        txn.commit(deadline=5)
    transaction, version = caught.value.transaction, caught.value.version
    with pytest.raises(TransactionStateError) as again:
        txn.commit()
    assert "outcome of the transaction is unknown" in str(again.value)
    assert f'resolve("{transaction}", {version})' in str(again.value)
    assert ", unknown)" in repr(txn)


@pytest.mark.parametrize("second", ["append", "overwrite", "truncate", "delete", "alter"])
@pytest.mark.parametrize("first", ["append", "overwrite", "truncate", "delete", "alter"])
def test_a_transaction_holds_several_appends_or_one_other_operation(
    first: str, second: str
) -> None:
    """The second is refused, and the first can still be committed."""
    table = new_table()
    table.append(rows(1))
    txn = table.transaction()
    VERBS[first](txn)
    if first == second == "append":
        VERBS[second](txn)
        assert txn.commit().metrics["numOutputRows"] == 2
        return
    before = data_files(table.context.store)
    with pytest.raises(TransactionStateError, match=r"holds .* already"):
        VERBS[second](txn)
    assert data_files(table.context.store) == before
    assert txn.commit().version == 2
    assert_sound(table.context.store)


def test_rows_that_do_not_fit_leave_what_was_staged_before() -> None:
    """CMT-1: no file of the bad rows stays."""
    table = new_table(partitioned=True)
    txn = table.transaction().append(rows(1))
    wrong = pa.table({"id": pa.array(["x"]), "p": ["a"]})
    missing = pa.table({"id": pa.array([1]), "q": ["a"]})
    for bad in (wrong, missing):
        with pytest.raises(SchemaMismatchError):
            txn.append(bad)

    def fails_late() -> Any:
        yield rows(5, p="late").to_batches()[0]
        raise SchemaMismatchError("no more")

    with pytest.raises(SchemaMismatchError, match="no more"):
        txn.append(pa.RecordBatchReader.from_batches(rows(5).schema, fails_late()))
    with pytest.raises(SchemaMismatchError, match="null"):
        txn.append(pa.table({"id": [2], "new": pa.nulls(1)}), merge_schema=True)
    txn.append(rows(2))
    txn.commit()
    store = table.context.store
    assert ids(handle(store)) == [1, 2]
    assert data_files(store) == live_files(store)


def test_bad_requests_are_refused_before_anything_is_written() -> None:
    """PRN-3, SQL-2: the condition does not fit this table."""
    table = new_table()
    table.append(rows(1))
    store = table.context.store
    txn = table.transaction()
    with pytest.raises(InvalidPredicateError):
        txn.delete("id =")
    with pytest.raises(InvalidPredicateError):
        txn.delete("nothing = 1")
    with pytest.raises(InvalidPredicateError, match="overwrite_schema"):
        txn.overwrite(rows(1), where="p = 'a'", overwrite_schema=True)
    with pytest.raises(InvalidRangeError, match="pass it to commit"):
        txn.alter.set_properties({"user.a": "b"}, deadline=3)
    for bad in ({"deadlin": 3}, {"deadline": -1}, {"application": ("a",)}, {"user_metadata": 3}):
        with pytest.raises(InvalidRangeError):
            txn.commit(**bad)
    assert len(data_files(store)) == 1
    assert txn.delete("id = 1").commit().version == 2
    only = new_table(appendOnly="true")
    only.append(rows(1))
    for refused in (lambda t: t.delete("id = 1"), lambda t: t.truncate(), lambda t: t.delete()):
        with pytest.raises(ConstraintViolationError, match="append-only"):
            refused(only.transaction())
        with pytest.raises(ConstraintViolationError, match="append-only"):
            refused(only)


@pytest.mark.parametrize("scans", [False, True])
def test_nothing_to_do_makes_no_version_unless_it_carries_an_application_version(
    scans: bool,
) -> None:
    """CFL-7."""
    table = new_table(partitioned=True)
    table.append(rows(1))
    idle: list[Callable[[Transaction], Any]] = [
        lambda txn: None,
        lambda txn: txn.append(rows()),
        lambda txn: txn.delete("id = 7"),
        lambda txn: txn.delete("p = 'nowhere'"),
        lambda txn: txn.truncate("p = 'nowhere'"),
        lambda txn: txn.overwrite(rows(), dynamic_partitions=True),
        lambda txn: txn.alter.set_properties({}),
        lambda txn: txn.alter.unset_properties(["isolationLevel"]),
    ]
    for number, verb in enumerate(idle):
        for application in (None, ("job", number)):
            txn = table.transaction()
            if scans:
                txn.scan()
            verb(txn)
            version = table.version
            commit_result = txn.commit(application=application)
            assert commit_result.no_op is (application is None)
            assert commit_result.version == version + (application is not None)
    assert ids(table) == [1]
    assert_sound(table.context.store)


def test_a_long_argument_is_cut_in_the_message() -> None:
    """The message stays readable."""
    table = new_table()
    for call, error in (
        (lambda: table.transaction(read_version="x" * 10_000), VersionNotFoundError),
        (lambda: table.resolve("0" * 32, "x" * 10_000), InvalidRangeError),  # type: ignore[arg-type]
    ):
        with pytest.raises(error, match=r"is not a whole number|not the name of a tag") as caught:
            call()
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("granularity", ["row", "transaction"])
def test_an_empty_dynamic_overwrite_claims_no_partition(granularity: str) -> None:
    """CFL-19, CFL-2: it replaces nothing, so an UPDATE that began before it commits."""
    table = new_table(partitioned=True)
    table.append(rows(1))
    table.alter.set_properties({"conflictGranularity": granularity})
    late = table.transaction()
    late.update({"id": "2"}, "id = 1")
    other = handle(table.context.store)
    commit_result = other.overwrite(rows(), dynamic_partitions=True, application=("job", 1))
    assert not commit_result.no_op
    assert late.commit().version == commit_result.version + 1
    assert ids(handle(table.context.store)) == [2]
    assert_sound(table.context.store)


def test_an_append_after_a_scan_is_an_update_that_read() -> None:
    """CFL-1: the scope has the scanned and the written partitions."""
    table = new_table(partitioned=True)
    table.append(rows(1, 2, p=["a", "b"]))
    txn = table.transaction()
    assert txn.scan(where="p = 'a'").count() == 1
    commit_result = txn.append(rows(3, p="c")).commit()
    (entry,) = table.context.view.entries_after(1)
    assert entry.entry.operation.cls is OperationClass.UPDATE
    assert entry.entry.basis.blind is False
    assert entry.entry.basis.scope.predicate == "`p` = 'a' OR `p` = 'c'"
    assert commit_result.rebased_over == ()


def test_an_overwrite_after_a_scan_keeps_the_removals_it_had() -> None:
    """CFL-3: rows inserted since stay. Without the scan they are removed."""
    for scans, expected in ((True, [5, 9]), (False, [9])):
        table = new_table()
        table.append(rows(1, 2))
        txn = table.transaction()
        if scans:
            txn.scan()
        txn.overwrite(rows(9))
        handle(table.context.store).append(rows(5))
        commit_result = txn.commit()
        assert commit_result.metrics["numDeletedRows"] == (2 if scans else 3)
        assert ids(handle(table.context.store)) == expected
        assert_sound(table.context.store)


@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
def test_an_overwrite_after_a_scan_has_read_what_it_replaces(level: str) -> None:
    """CFL-8: an insert there is ordered after it, or at Serializable is in its way."""
    table = new_table(partitioned=True, isolationLevel=level)
    table.append(rows(1, 2, p=["a", "b"]))
    txn = table.transaction()
    txn.scan(where="p = 'a'")
    txn.overwrite(rows(9, p="b"), where="p = 'b'")
    handle(table.context.store).append(rows(5, p="b"))
    if level == "Serializable":
        with pytest.raises(ConcurrentAppendException):
            txn.commit()
    else:
        txn.commit()
    expected = [1, 2, 5] if level == "Serializable" else [1, 5, 9]
    assert ids(handle(table.context.store)) == expected


def test_an_application_version_is_applied_once_by_transactions_too() -> None:
    """CFL-7: a repeated version, an older version, and a version with other content."""
    table = new_table()
    store = table.context.store
    table.transaction().append(rows(1)).append(rows(2)).commit(application=("job", 7))
    again = table.transaction().append(rows(1)).append(rows(2)).commit(application=("job", 7))
    assert (again.already_applied, again.version) == (True, 1)
    back = table.transaction().append(rows(5)).commit(application=("job", 6))
    assert (back.already_applied, back.version) == (True, 1)
    for other in (rows(1), rows(1, 3)):
        with pytest.raises(IdempotenceError):
            table.transaction().append(other).commit(application=("job", 7))
    with pytest.raises(IdempotenceError):
        table.transaction().delete("id = 1").commit(application=("job", 7))
    assert table.transaction().delete("id = 1").commit(application=("job", 8)).version == 2
    assert table.delete("id = 1", application=("job", 8)).already_applied
    assert table.delete("`id` = 1", application=("job", 8)).already_applied
    with pytest.raises(IdempotenceError):
        table.delete("id = 2", application=("job", 8))
    assert table.alter.set_properties({"user.a": "b"}, application=("job", 9)).version == 3
    assert table.alter.set_properties({"user.a": "b"}, application=("job", 9)).already_applied
    with pytest.raises(IdempotenceError):
        table.alter.set_properties({"user.a": "c"}, application=("job", 9))
    assert ids(handle(store)) == [2]
    assert_sound(store)
    assert len(data_files(store)) == 2


def test_an_append_and_a_transaction_of_one_append_have_one_digest() -> None:
    """CFL-7: a repetition may use either call, and any chunks."""
    table = new_table()
    whole = pa.table({"id": pa.array(range(150_000)), "p": ["a"] * 150_000})
    chunked = pa.concat_tables([whole.slice(0, 70_001), whole.slice(70_001)])
    table.append(whole, application=("job", 1))
    again = table.transaction().append(chunked).commit(application=("job", 1))
    assert again.already_applied
    assert table.append(chunked, application=("job", 1)).already_applied
    with pytest.raises(IdempotenceError):
        table.append(whole.slice(1), application=("job", 1))


STATEMENTS: dict[str, Callable[..., Any]] = {
    "append": lambda it, **commit: it.append(rows(2), **commit),
    "overwrite": lambda it, **commit: it.overwrite(rows(2), **commit),
    "overwrite some": lambda it, **commit: it.overwrite(rows(1), where="id < 2", **commit),
    "truncate": lambda it, **commit: it.truncate(**commit),
    "truncate some": lambda it, **commit: it.truncate("id = 1", **commit),
    "delete": lambda it, **commit: it.delete("id = 1", **commit),
    "update": lambda it, **commit: it.update({"p": "'z'"}, "id = 1", **commit),
    "merge": lambda it, **commit: (
        it.merge(rows(1), "t.id = s.id").when_matched_delete().execute(**commit)
    ),
    "alter": lambda it, **commit: it.alter.set_properties({"targetFileSize": "1000000"}, **commit),
}


@pytest.mark.parametrize("verb", list(STATEMENTS))
def test_a_statement_by_itself_and_one_of_a_transaction_are_one(verb: str) -> None:
    """CFL-7: the same digest, so either is known when it is repeated; and the same entry."""
    entries = []
    for alone in (True, False):
        table = new_table()
        for number in (1, 2):
            table.append(rows(number))
        if alone:
            commit_result = STATEMENTS[verb](table, application=("job", 1))
        else:
            commit_result = STATEMENTS[verb](table.transaction()).commit(application=("job", 1))
        body = orjson.loads(table.context.store.get(entry_key(commit_result.version)))
        operation, measured = body["operation"], ("Ms", "Requests", "Bytes")
        metrics = {n: v for n, v in operation["metrics"].items() if not n.endswith(measured)}
        entries.append((operation | {"metrics": metrics}, body["basis"], body.get("remove")))
        assert STATEMENTS[verb](table, application=("job", 1)).already_applied
        again = STATEMENTS[verb](table.transaction()).commit(application=("job", 1))
        assert again.already_applied
        assert table.refresh().version == commit_result.version == 3
    assert entries[0] == entries[1]


@pytest.mark.parametrize("same", [True, False])
def test_a_race_of_one_application_version_is_decided_again_at_the_rebase(same: bool) -> None:
    """CFL-6."""
    table = new_table()
    store = table.context.store
    first = table.transaction().append(rows(1))
    second = handle(store).transaction().append(rows(1 if same else 2))
    third = handle(store).transaction().append(rows(1))
    first.commit(application=("job", 1))
    if same:
        commit_result = second.commit(application=("job", 1))
        assert (commit_result.already_applied, commit_result.version) == (True, 1)
    else:
        with pytest.raises(ConcurrentTransactionException, match="job"):
            second.commit(application=("job", 1))
    with pytest.raises(ConcurrentTransactionException):
        third.commit(application=("job", 2))
    # A handle that has read the concurrent commit checks it all the same.
    for version in (0, 1):
        fourth = table.transaction(read_version=0).append(rows(7))
        with pytest.raises(ConcurrentTransactionException):
            fourth.commit(application=("job", version))
    assert ids(handle(store)) == [1]
    assert data_files(store) == live_files(store)


@pytest.mark.parametrize(("days", "refused"), [(3.4, False), (3.6, True)])
@pytest.mark.parametrize("jumps", [False, True])
def test_a_transaction_older_than_half_the_retention_is_refused(
    days: float, refused: bool, jumps: bool
) -> None:
    """CMT-1: vacuum may have taken its files; retention is 7 days by default."""
    clock = Clock()
    table = new_table(clock=clock)
    txn = table.transaction().append(rows(1))
    if jumps:
        clock.micros += int(days * DAY * 1_000_000)
    else:
        clock.forward(days * DAY)
    if refused:
        with pytest.raises(CommitRejectedError, match="half of deletedFileRetentionDuration"):
            txn.commit()
        assert data_files(table.context.store) == []
    else:
        assert txn.commit().version == 1


def test_a_shorter_retention_makes_transactions_old_sooner() -> None:
    """CMT-1."""
    clock = Clock()
    table = new_table(clock=clock, deletedFileRetentionDuration="2 hours")
    txn = table.transaction().append(rows(1))
    clock.forward(3601)
    with pytest.raises(CommitRejectedError, match="3600 s are allowed"):
        txn.commit()


@pytest.mark.parametrize("jump", [-3600, 365 * 86_400])
def test_a_clock_that_jumps_back_is_no_matter_and_a_year_ahead_ends_the_transaction(
    jump: int,
) -> None:
    """TIM-1: times rise all the same."""
    clock = Clock()
    table = new_table(clock=clock)
    table.append(rows(1))
    txn = table.transaction().append(rows(2))
    clock.micros += jump * 1_000_000
    if jump > 0:
        with pytest.raises(CommitRejectedError):
            txn.commit()
        assert table.append(rows(3)).version == 2
    else:
        assert txn.commit().version == 2
    stamps = list(handle(table.context.store).context.view.timeline.timestamps)
    assert stamps == sorted(set(stamps))


def test_an_upgrade_of_the_protocol_stops_a_running_writer() -> None:
    """CFL-4: no feature exists yet, so the entry that would bring one names none."""

    def upgrade(snapshot: TransactionSnapshot) -> Staged:
        return Staged(
            transaction=snapshot.transaction,
            operation=Operation(name="UPGRADE", cls=OperationClass.PROTOCOL),
            written_under=snapshot.metadata,
            read_version=snapshot.version,
            protocol=ProtocolFeatures(),
        )

    table = new_table()
    table.append(rows(0))
    running = [table.transaction().append(rows(1)), table.transaction().truncate()]
    handle(table.context.store).transaction().stage(upgrade).commit()
    for txn in running:
        with pytest.raises(ProtocolChangedException) as caught:
            txn.commit()
        assert (caught.value.winner_version, caught.value.rule) == (2, "CFL-4")


def test_a_commit_without_an_answer_keeps_the_files_and_ends_the_transaction() -> None:
    """CMT-1, CMT-9."""
    table = new_table()
    table.append(rows(1))
    store = table.context.store

    class Silent(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            if key == entry_key(2):
                super().put_if_absent(key, body)
                return NoAnswer("lost")
            return super().put_if_absent(key, body)

        def get_many(self, keys: Any) -> Any:
            return [None for _ in keys]

    txn = behind(table, Silent(store)).transaction().append(rows(2))
    with pytest.raises(CommitUnknownError) as caught:
        txn.commit(deadline=5)
    assert (len(data_files(store)), txn.commit_result) == (2, None)
    with pytest.raises(TransactionStateError):
        txn.abort()
    found = handle(store).resolve(caught.value.transaction, caught.value.version)
    assert found is not None
    assert found.version == 2
    assert ids(handle(store)) == [1, 2]


def test_a_warm_blind_transaction_asks_for_the_head_and_writes() -> None:
    """CMT-2: one probe at the begin, one put for each file, one put of the entry."""
    counting = CountingStore(memory())
    table = new_table(counting)
    table.append(rows(0))
    counting.reset()
    commit_result = table.transaction().append(rows(1)).append(rows(2)).commit()
    folder = f"data/{commit_result.transaction}"
    assert counting.requests == [
        ("get", entry_key(2)),
        ("put", f"{folder}/0-0.parquet"),
        ("put", f"{folder}/1-0.parquet"),
        ("put_if_absent", entry_key(2)),
    ]


def test_a_condition_that_is_not_understood_reads_by_file() -> None:
    """CFL-17: a pyarrow expression beyond what is reasoned about still selects its rows."""
    table = new_table()
    table.append(rows(1, 2, 3, 4))
    odd = pc.equal(pc.bit_wise_and(pc.field("id"), 1), 1)
    txn = table.transaction().delete(odd)
    handle(table.context.store).delete("id = 2")
    with pytest.raises(TablefmtError) as caught:
        txn.commit()
    assert caught.value.kind == "concurrent_delete_read"
    assert table.delete(odd).metrics["numDeletedRows"] == 2
    assert ids(table) == [4]
