"""The side file: the `add` columns of an entry too large to hold them. Spec: ADD-6."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import CorruptEntryError, CorruptTableError
from tablefmt.log.codec import digest
from tablefmt.log.names import path_problem, side_key
from tablefmt.model.entry import SideFile
from tablefmt.store.protocol import KeyNotFoundError, Store

SIDE_ABOVE_BYTES = 1 << 20
"""Entries whose `add` columns are larger than this in JSON keep them in a side file (ENT-2)."""


def write_side(store: Store, transaction: str, columns: pa.Table) -> SideFile:
    """Store the columns durably under the transaction's name."""
    sink = pa.BufferOutputStream()
    pq.write_table(columns, sink, compression="zstd", write_page_checksum=True)
    body = sink.getvalue().to_pybytes()
    key = side_key(transaction)
    store.put(key, body)
    return SideFile(key, columns.num_rows, len(body), digest(body))


def read_side(store: Store, side: SideFile) -> pa.Table:
    """The columns a side file holds, checked against what the entry says of it.

    Raises:
        CorruptTableError: ADD-6, missing, of another length, or not of that SHA-256.
        CorruptEntryError: KEY-2.
    """
    try:
        body = store.get(side.path)
    except KeyNotFoundError:
        raise CorruptTableError("the side file is missing", key=side.path, rule="ADD-6") from None
    if len(body) != side.size or digest(body) != side.sha256:
        raise CorruptTableError(
            "the side file is not what the entry says", key=side.path, rule="ADD-6"
        )
    try:
        columns = pq.read_table(pa.BufferReader(body), page_checksum_verification=True)
        paths = columns.select(["path"])
    except (pa.ArrowException, OSError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise CorruptTableError(
            f"the side file cannot be read: {reason}", key=side.path, rule="ADD-6"
        ) from None
    for batch in paths.to_batches(max_chunksize=65_536):
        for path in batch.column(0).to_pylist():
            problem = path_problem(path)
            if problem:
                raise CorruptEntryError(
                    f"the path {str(path)[:100]!r} is refused: {problem}",
                    key=side.path,
                    rule="KEY-2",
                )
    return columns
