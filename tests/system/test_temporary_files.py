"""Files outside of the table: no other user of the machine can read them."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.data import sql_evaluation
from tablefmt.data.spill_buffers import Kept, RangeSpill, spilled
from tablefmt.store import shared_commit_queue

MANY = pa.table({"k": pa.array(range(1_000_000), pa.int64())})
FEW = pa.table({"k": pa.array(range(1000), pa.int64())})


def open_to_others(folder: Path) -> list[str]:
    """Return the names that another user could open, by their modes and all folders above."""
    found = []
    for path in sorted(folder.iterdir()):
        if stat.S_IMODE(path.lstat().st_mode) & 0o077:
            found.append(path.name)
    return found


@contextmanager
def spilled_by_the_engine() -> Iterator[None]:
    """DuckDB holds 64 MB, and the rows of a sort are more: it writes them to its folder."""
    sql_evaluation._opened.cache_clear()
    used = sql_evaluation.Engine(64 << 20)
    text = "SELECT k, repeat('x', 90) || k AS t FROM rows ORDER BY t"
    counted = used.query(f"SELECT count(*) AS n, max(t) AS m FROM ({text})", rows=MANY)
    assert counted["n"].to_pylist() == [MANY.num_rows]
    folder = used.query("SELECT current_setting('temp_directory') AS t")["t"][0].as_py()
    assert Path(folder).is_dir()
    yield
    used.close()
    sql_evaluation._opened.cache_clear()


@contextmanager
def rows_of_a_stream() -> Iterator[None]:
    with spilled(FEW.to_reader(max_chunksize=100), 10) as rows:
        assert rows.num_rows == FEW.num_rows
        yield


@contextmanager
def rows_that_are_kept() -> Iterator[None]:
    with Kept(FEW.to_reader(max_chunksize=100), 10) as kept:
        assert kept.reader().read_all() == FEW
        yield


@contextmanager
def rows_of_ranges() -> Iterator[None]:
    with RangeSpill(2, 10) as spill:
        spill.put(FEW.to_batches()[0], np.arange(FEW.num_rows) % 2)
        yield


@contextmanager
def turns_of_a_machine() -> Iterator[None]:
    with shared_commit_queue.join_shared_queue("s3://bucket/table", 1.0) as shared:
        assert shared is not None
        yield


DOORS: list[Callable[[], Any]] = [
    spilled_by_the_engine,
    rows_of_a_stream,
    rows_that_are_kept,
    rows_of_ranges,
    turns_of_a_machine,
]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_temporary_files_are_the_users_own(
    door: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-3: with umask 0 only the requested mode keeps other users out."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shared_commit_queue, "MEMORY", str(tmp_path))
    before = os.umask(0)
    try:
        with door():
            assert list(tmp_path.iterdir()) != []
            assert open_to_others(tmp_path) == []
    finally:
        os.umask(before)
