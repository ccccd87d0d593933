"""Measure the conflict rules alone: a winning commit of many files against a read set.

    python -m benchmarks.conflict_check [--rounds 20] [--files 1000]

There is no store and no data: winning commits and read sets are built in memory. A case is one
check of a winning commit without a conflict, and the rebase onto it, in milliseconds. Decoding the
needed parts of the entry's text is included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from benchmarks.harness import run_alternating, save, summary
from tablefmt.conflict.conflict_check import check
from tablefmt.conflict.read_write_sets import (
    NO_IDS,
    ConcurrentCommit,
    DeletionVector,
    Keys,
    PendingCommit,
    Read,
)
from tablefmt.conflict.rebase import rebase_onto
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.content_hashes import encode_hashes
from tablefmt.model.log_entry import (
    AddedFiles,
    Basis,
    Entry,
    Lineage,
    Metadata,
    Operation,
    OperationClass,
    RowUpdate,
    Totals,
)
from tablefmt.model.positions import encode_positions

SCHEMA = schema_from("id BIGINT, day DATE, name STRING, value DOUBLE")
METADATA = Metadata(SCHEMA, partition_by=(2,))
ROWS = 100_000
"""Rows in a file."""
GONE = 100
"""Rows of a file that each side deletes."""
NOWHERE = "day >= DATE '1970-01-05' AND (id < 0 OR name LIKE 'x%') AND value > 3"
"""No added file can match."""


def winner_of(files: int, cls: OperationClass) -> ConcurrentCommit:
    """Return a winning commit with many files: updates and inserts, or compaction outputs."""
    first = files + 1
    every = range(files)
    dropped = encode_positions(BitMap64(range(0, 1000, 7)))
    moves = cls is not OperationClass.UPDATE
    columns: dict[str, Any] = {
        "path": [f"data/x/{i}.parquet" for i in every],
        "size": [1] * files,
        "rows": [ROWS] * files,
        "partition.2": [i % 30 for i in every],
    }
    if not moves:
        columns |= {
            "updated": [i % 2 == 0 for i in every],
            "keys": [
                None if i % 2 == 0 else encode_hashes(np.arange(i, 10**6, 10**4, dtype=np.uint64))
                for i in every
            ],
        }
    entry = Entry(
        table="ab" * 16,
        version=2,
        timestamp=2,
        time_version=2,
        transaction="0f" * 16,
        previous="0" * 64,
        operation=Operation(name="BENCH", cls=cls),
        basis=Basis(read_version=1, isolation="WriteSerializable", granularity="row", blind=False),
        totals=Totals(files=0, rows=0, bytes=0, next_id=first + files, metadata_version=0),
        add=AddedFiles(columns),
        remove=list(range(1, files + 1)) if moves else [],
        lineage=Lineage(
            output=list(every),
            input=[i + 1 for i in every],
            start=[0] * files,
            rows=[ROWS + 143] * files,
            dropped=[dropped] * files,
        )
        if moves
        else None,
        update=None if moves else RowUpdate(set=(4,), keys=(1,)),
    )
    typed = pa.table(
        {
            "rows": pa.array([ROWS] * files, pa.int64()),
            "partition.2": pa.array([i % 30 for i in every], pa.int32()).view(pa.date32()),
            "lower.1": pa.array([i * 1000 for i in every], pa.int64()),
            "upper.1": pa.array([i * 1000 + 10**6 for i in every], pa.int64()),
            "lower.3": pa.array([f"n{i:09}" for i in every]),
            "upper.3": pa.array([f"n{i + 999:09}" for i in every]),
        }
    )
    lost = DeletionVector(BitMap64(range(GONE)), BitMap64(range(GONE, 2 * GONE)))
    return ConcurrentCommit(entry, typed, {} if moves else {i + 1: lost for i in every})


def mine_of(files: int, granularity: str) -> PendingCommit:
    """Return an UPDATE that read and changed other rows of the same files."""
    rows = BitMap64(range(ROWS - GONE, ROWS))
    ids = np.arange(1, files + 1)
    text = "day >= DATE '1970-01-05' AND (id > 10 OR name LIKE 'n%') AND value > 3"
    hashes = np.arange(1, 10**6, 10, dtype=np.uint64) * np.uint64(10**6) + np.uint64(3)
    read = Read(
        predicate=parse_predicate(text, SCHEMA),
        files=ids,
        rows=dict.fromkeys(ids.tolist(), rows),
        columns=frozenset({1, 2, 3}),
        keys=Keys((1,), hashes),
    )
    return PendingCommit(
        cls=OperationClass.UPDATE,
        granularity=granularity,
        isolation="WriteSerializable",
        scope=None,
        metadata=METADATA,
        read_version=1,
        next_id=files + 1,
        reads=(read,),
        deletes=dict.fromkeys(ids.tolist(), DeletionVector(BitMap64(), rows)),
    )


def timed(
    concurrent: ConcurrentCommit, mine: PendingCommit
) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return the milliseconds of a check that passes, and of the rebase."""

    def checked() -> float:
        start = time.perf_counter()
        assert check(concurrent, mine) is None
        return (time.perf_counter() - start) * 1000

    def followed() -> float:
        start = time.perf_counter()
        rebase_onto(concurrent, mine)
        return (time.perf_counter() - start) * 1000

    return checked, followed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--files", type=int, default=1000)
    options = parser.parse_args()
    mine = mine_of(options.files, "row")
    update = winner_of(options.files, OperationClass.UPDATE)
    minor = winner_of(options.files, OperationClass.MINOR_COMPACT)
    read = mine.reads[0]
    by_bounds = replace(read, keys=None, predicate=parse_predicate(NOWHERE, SCHEMA))
    update_set = replace(mine, reads=(by_bounds,))
    merge = replace(mine, deletes={}, reads=(replace(read, files=NO_IDS, rows={}),))
    cases: dict[str, Callable[[], float | None]] = {}
    for name, concurrent, which in (
        ("update of other rows of the same files", update, update_set),
        ("merge, hashes of the keys of 500 files", update, merge),
        ("compaction of every file", minor, mine),
    ):
        checked, followed = timed(concurrent, which)
        cases |= {f"check: {name}": checked, f"follow: {name}": followed}
    figures = run_alternating(cases, options.rounds, warm_up=3)
    save("conflict_check", {"options": vars(options), "milliseconds": summary(figures)})


if __name__ == "__main__":
    main()
