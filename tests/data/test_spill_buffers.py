"""Spill buffers on a full disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.data.spill_buffers import spilled
from tablefmt.errors import CommitRejectedError, StoreError
from tests.tables import data_files, live_files, new_table, rows

ROWS = pa.table({"id": list(range(10_000))})


def test_a_table_without_a_folder_for_its_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the folder and the remedy."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match=r"nowhere.*TMPDIR"), spilled(ROWS.to_reader(), 10):
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
def test_a_full_disk_is_an_error_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the same for every write."""

    class Full:
        name = "/dev/full"

        def __init__(self, **_: Any) -> None:
            pass

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", Full)
    for source in (ROWS, ROWS.slice(0, 2)):
        reader = source.to_reader(max_chunksize=100)
        with pytest.raises(StoreError, match=r"No space left.*TMPDIR"), spilled(reader, 1):
            pass


@pytest.mark.parametrize("at", [0, 5])
def test_an_error_of_the_stream_stays_as_it_is(at: int) -> None:
    """The disk is not to blame."""

    def broken() -> Iterator[pa.RecordBatch]:
        for number in range(at):
            yield pa.record_batch({"id": [number]})
        raise ValueError("the source is broken")

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, broken())
    with pytest.raises(ValueError, match="the source is broken"), spilled(reader, 1):
        pass


def test_a_merge_whose_source_does_not_fit_on_disk_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MRG-3: by an error of this package, and no file stays."""
    table = new_table()
    table.append(rows(1, 2))
    builder = table.merge(rows(*range(1000)), "t.id = s.id", memory_limit=1 << 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(tablefmt.errors.TablefmtError, match="TMPDIR") as caught:
        builder.when_not_matched_insert_all().execute()
    assert isinstance(caught.value, CommitRejectedError)
    store = table.context.store
    assert data_files(store) == live_files(store)
