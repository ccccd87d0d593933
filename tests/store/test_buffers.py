"""Arrow's threads hold no Python object when a process ends. It would be aborted."""

from __future__ import annotations

import subprocess
import sys
import time

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.store import buffers
from tablefmt.store.buffers import reader_of
from tests.tables import new_table, rows


def test_bytes_are_arrows_own() -> None:
    body = bytearray(b"abcdef")
    file = reader_of(memoryview(body))
    # It could not shrink while anything refers to its bytes.
    body.clear()
    assert file.read() == b"abcdef"


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_scan_that_ended_leaves_nothing_behind(place: str, tmp_path: object) -> None:
    table = new_table() if place == "memory" else tablefmt.create(str(tmp_path), "id BIGINT")
    for number in range(3):
        table.append(rows(number) if place == "memory" else pa.table({"id": [number]}))
    table.delete("id = 1")
    assert table.to_arrow(where="id >= 0")["id"].to_pylist() == [0, 2]
    assert table.changes(after_version=0).to_arrow().num_rows == 4
    until = time.monotonic() + 30
    while buffers._lent and time.monotonic() < until:
        time.sleep(0.001)
    assert not buffers._lent


def test_a_process_waits_for_what_a_thread_still_holds() -> None:
    """The thread prints before it lets go, which takes less than the process waits."""
    program = (
        "import threading, time\n"
        "from tablefmt.store.buffers import lent\n"
        "class Thing: pass\n"
        "def hold(thing):\n"
        "    time.sleep(0.05)\n"
        "    print('let go', flush=True)\n"
        "threading.Thread(target=hold, args=[lent(Thing())], daemon=True).start()\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "let go\n", "")
