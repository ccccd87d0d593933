"""What a statement was given, as one SHA-256: equal content, equal digest (CFL-6, CFL-7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyarrow as pa

PIECE_ROWS = 65_536
"""Rows that are hashed together: bounds memory, and makes the digest one whatever the chunks."""


class ContentDigest:
    """Of rows, however they are chunked, and of the statement's text."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def through(self, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """The same rows; they are in the digest once they were read to the end."""
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def hexdigest(self, *parameters: str) -> str:
        """64 hex digits of the rows read and the statement's text."""
        whole = self._hash.copy()
        whole.update("\0".join(parameters).encode())
        return whole.hexdigest()

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        self._take(pa.Table.from_batches([], reader.schema))
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in reader:
            yield batch
            held.append(batch)
            count += batch.num_rows
            if count < PIECE_ROWS:
                continue
            table, whole = pa.Table.from_batches(held), count - count % PIECE_ROWS
            for start in range(0, whole, PIECE_ROWS):
                self._take(table.slice(start, PIECE_ROWS))
            held, count = table.slice(whole).to_batches(), count - whole
        if count:
            self._take(pa.Table.from_batches(held))

    def _take(self, rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows.combine_chunks())
        self._hash.update(sink.getvalue())


def digest_of(rows: pa.Table | None, *parameters: str) -> str:
    """SHA-256 of Arrow rows, if the statement takes some, and of its text."""
    content = ContentDigest()
    for _ in () if rows is None else content.through(rows.to_reader()):
        pass
    return content.hexdigest(*parameters)


def digest_of_all(digests: list[str | None]) -> str | None:
    """Of several statements in their order; None if one is not known, or there is none."""
    known = [digest for digest in digests if digest is not None]
    if len(known) < len(digests) or not known:
        return None
    return known[0] if len(known) == 1 else hashlib.sha256("".join(known).encode()).hexdigest()
