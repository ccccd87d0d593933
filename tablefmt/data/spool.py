"""Rows that have to be looked at again and again, in memory or, if they are too many, on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


@contextmanager
def spooled(reader: pa.RecordBatchReader, memory_limit: int) -> Iterator[pa.Table]:
    """The rows of a stream as a table, while the block lasts.

    Args:
        reader: read to its end, once.
        memory_limit: bytes; with more the rows are in a temporary file that is mapped.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        held.append(batch)
        size += batch.nbytes
        if size > memory_limit:
            break
    else:
        yield pa.Table.from_batches(held, reader.schema)
        return
    with tempfile.NamedTemporaryFile(prefix="tablefmt-", suffix=".arrow") as file:
        with pa.OSFile(file.name, "wb") as sink, pa.ipc.new_file(sink, reader.schema) as out:
            while held:
                out.write_batch(held.pop(0))
            for batch in reader:
                out.write_batch(batch)
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()
