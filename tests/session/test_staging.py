"""State of a transaction after a failed statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.commit.transaction_plan import Replacing, Staged
from tablefmt.errors import MetadataChangedException, StoreError
from tablefmt.model.log_entry import Operation, OperationClass
from tablefmt.operations.append import append_files
from tablefmt.session.staging import ATTEMPTS, _discarded_on_failure, commit_with_retries
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.snapshot.head import Head, check_writable
from tablefmt.snapshot.log_view import LogView
from tablefmt.table import open_at
from tablefmt.testing.faults import Killed
from tests.tables import data_files, handle, live_files, new_table, rows

WIDER = pa.schema([("id", pa.int64()), ("more", pa.int64())])


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, ValueError])
def test_a_statement_that_is_broken_off_leaves_no_columns(failure: type[BaseException]) -> None:
    """The transaction goes on with the columns that it had."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1], "more": [2]})
        raise failure

    table = new_table()
    before = table.schema
    transaction = table.transaction()
    given = pa.RecordBatchReader.from_batches(WIDER, broken())
    with pytest.raises((failure, tablefmt.errors.TablefmtError)):
        transaction.append(given, merge_schema=True)
    transaction.append(pa.table({"id": [5]}))
    transaction.commit()
    assert table.schema == before
    assert table.to_arrow()["id"].to_pylist() == [5]


@pytest.mark.parametrize("alone", [True, False])
def test_an_application_version_is_looked_for_in_entries_that_another_thread_skipped(
    monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """CFL-7: an append of another thread went by, and read none of them."""
    table = new_table()
    table.append(rows(0))
    other = open_at(table.context.store, table.context.environment)
    later = [1]

    def meanwhile(head: Head) -> None:
        if later:
            later.clear()
            other.append(rows(1), application=("job", 1))
            other.append(rows(2))
            table.append(rows(3))
        check_writable(head)

    monkeypatch.setattr("tablefmt.session.table_context.check_writable", meanwhile)
    if alone:
        done = table.append(rows(1), application=("job", 1))
    else:
        transaction = table.transaction()
        transaction.append(rows(1))
        done = transaction.commit(application=("job", 1))
    assert done.already_applied
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


class Interrupted(BaseException):
    """Stands for `asyncio.CancelledError` and similar exceptions of other libraries."""


def _staged(txn: TransactionSnapshot) -> Staged:
    written = txn.write(rows(1).to_reader())
    return append_files(txn.transaction, written, txn.metadata, read_version=txn.version)


@pytest.mark.parametrize(("failure", "files"), [(Interrupted, 0), (Killed, 1)])
@pytest.mark.parametrize("where", ["stage", "commit", "retries"])
def test_only_a_kill_leaves_files(where: str, failure: type[BaseException], files: int) -> None:
    """CMT-1: a simulated kill leaves what a real one leaves; nothing else leaves anything."""
    table = new_table()
    context = table.context

    def broken(txn: TransactionSnapshot) -> Staged:
        _staged(txn)
        raise failure

    def run() -> None:
        if where == "stage":
            table.transaction().stage(broken)
        elif where == "retries":
            commit_with_retries(context, lambda head, txn: broken(txn))
        else:
            with _discarded_on_failure(context, _staged(context.pin())):
                raise failure

    with pytest.raises(failure):
        run()
    assert len(data_files(context.store)) == files


def test_a_commit_is_attempted_so_often_and_no_more() -> None:
    """ATTEMPTS counts the first one."""
    table = new_table()
    context, attempts = table.context, []

    def stage(head: Head, txn: TransactionSnapshot) -> Staged:
        attempts.append(head.version)
        number = len(attempts)
        handle(context.store).alter.set_properties({"user.a": str(number)})
        return Staged(
            transaction=txn.transaction,
            operation=Operation(name="TRUNCATE", cls=OperationClass.OVERWRITE),
            written_under=txn.metadata,
            read_version=txn.version,
            replacing=Replacing(None),
        )

    with pytest.raises(MetadataChangedException):
        commit_with_retries(context, stage)
    assert attempts == list(range(ATTEMPTS))


@pytest.mark.parametrize("alone", [True, False])
def test_files_go_if_a_commit_fails_before_the_log_is_asked(
    monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """CMT-1: it certainly is not in the table."""
    table = new_table()
    table.append(rows(1))
    store = table.context.store

    def fails(*_: object) -> None:
        raise StoreError("what was skipped cannot be read")

    monkeypatch.setattr("tablefmt.session.staging.plan_of_staged", fails)
    work: Callable[[], Any] = partial(table.append, rows(2))
    if not alone:
        work = table.transaction().append(rows(2)).commit
    with pytest.raises(StoreError):
        work()
    assert data_files(store) == live_files(store)
    assert handle(store).to_arrow()["id"].to_pylist() == [1]


def test_a_handle_never_steps_back() -> None:
    """A commit of another thread between a probe of the log and its end is not forgotten."""
    table = new_table()
    looked = type(table.context.view).refresh

    def overtaken(view: LogView) -> None:
        looked(view)
        table.context.version = 7

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogView, "refresh", overtaken)
        table.refresh()
    assert table.version == 7
