"""What a statement that fails leaves of a transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import tablefmt
from tests.tables import new_table

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
    rows = pa.RecordBatchReader.from_batches(WIDER, broken())
    with pytest.raises((failure, tablefmt.errors.TablefmtError)):
        transaction.append(rows, merge_schema=True)
    transaction.append(pa.table({"id": [5]}))
    transaction.commit()
    assert table.schema == before
    assert table.to_arrow()["id"].to_pylist() == [5]
