"""What a statement that fails leaves of a transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.snapshot.head import Head, check_writable
from tablefmt.table import open_at
from tests.tables import new_table, rows

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

    monkeypatch.setattr("tablefmt.session.context.check_writable", meanwhile)
    if alone:
        done = table.append(rows(1), application=("job", 1))
    else:
        transaction = table.transaction()
        transaction.append(rows(1))
        done = transaction.commit(application=("job", 1))
    assert done.already_applied
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
