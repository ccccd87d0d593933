"""A source of a MERGE that differs each time it is computed, and stored rows that are lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

KEYS = 20
"""Number of keys in the table: 0 and up, five in a file."""


def differing(spark: Any, folder: Path, waits: bool) -> Any:
    """Two partitions. The first holds keys 5 n to 5 n + 4 when it is computed for the n-th time;
    the second holds a new key.

    Args:
        folder: where readings are counted, as files that hold the pid of the executor.
        waits: the second partition ends only when the file `go` is there.
    """
    place = str(folder)

    def reading(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time

        from tests.python_forks import executor

        first = next(iter(batches)).column(0)[0].as_py() == 0
        for _ in batches:
            pass
        keys = [1000]
        number = 0
        while first:
            try:
                file = os.open(f"{place}/reading{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                number += 1
            else:
                os.write(file, str(executor()).encode())
                os.close(file)
                keys = [5 * number + i for i in range(5)]
                break
        deadline = time.monotonic() + 60
        while waits and not first and not os.path.exists(f"{place}/go"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        values = [f"reading {number}"] * len(keys)
        yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], ["k", "w"])

    return spark.range(0, 2, 1, 2).mapInArrow(reading, "k long, w string")


def model(number: int) -> list[tuple[int, str]]:
    """The table after a MERGE of the n-th reading."""
    read = range(5 * number, 5 * number + 5)
    rows = [(i, f"reading {number}" if i in read else "old") for i in range(KEYS)]
    return [*rows, (1000, "reading 0")]


class Dropping:
    """Lets go of what is stored of RDDs, as executors do that die."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._known = {info.id() for info in self._context.getRDDStorageInfo()}

    def drop(self, *, oldest: bool = False) -> bool:
        """Drop what is stored since, or the `oldest` of it; False: there is nothing yet."""
        stored = {i.id() for i in self._context.getRDDStorageInfo() if i.numCachedPartitions() > 0}
        found = sorted(stored - self._known)
        for number in found[:1] if oldest else found:
            self._context.unpersistRDD(number, True)
        return bool(found)
