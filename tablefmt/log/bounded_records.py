"""Rows of untrusted Parquet with nested columns as Python values, with memory bounds.

A text in a dictionary is stored once, and can stand on any number of lines and in any number of
list elements. So texts are read as dictionaries, and their lengths are added up before any text is
copied.
Spec: STO-25.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablefmt.log.bounded_parquet import (
    BATCH_BYTES,
    check_pages,
    footer_of,
    most_expanded,
)
from tablefmt.store.buffers import reader_of

LINES = 1024
"""Lines of a batch that becomes Python values."""

_VALUE_BYTES = 64
"""Bytes of a value in Python, without the bytes of a text."""


def records_of(body: bytes, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file. Arguments and errors are those of `batches_of`."""
    for batch in batches_of(body, names, LINES):
        yield from batch.to_pylist()


def batches_of(body: bytes, names: Sequence[str], lines: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file: the columns among `names` that it has. Texts are dictionaries.

    Args:
        body: the file.
        names: names of top-level columns.
        lines: maximum lines of a batch.

    Raises:
        ValueError: it needs more memory than STO-25 allows, or records impossible lengths.
        pyarrow.ArrowException, OSError: it is damaged.
    """
    footer = footer_of(body)
    found = [name for name in footer.schema.to_arrow_schema().names if name in names]
    if len(set(found)) < len(found):
        raise ValueError("it has two columns of one name")
    texts = check_pages(reader_of(body), footer, found)
    with pq.ParquetFile(
        reader_of(body),
        metadata=footer,
        page_checksum_verification=True,
        pre_buffer=False,
        read_dictionary=texts,
    ) as file:
        held, most = 0, most_expanded(len(body))
        # Arrow joins no nested rows of two dictionaries, and each row group has its own.
        groups = range(footer.num_row_groups)
        batches = (file.iter_batches(lines, row_groups=[at], columns=found) for at in groups)
        for batch in chain.from_iterable(batches):
            taken = sum(map(_value_bytes, batch.columns))
            held += taken
            if taken > BATCH_BYTES or held > most:
                raise ValueError(f"its {len(body)} bytes would take {held} bytes of memory or more")
            yield batch


def _value_bytes(array: pa.Array) -> int:
    """Return an estimate of the bytes of the values of an array in Python."""
    kind = array.type
    if array.null_count == len(array):
        return 0
    if pa.types.is_struct(kind):
        return sum(map(_value_bytes, array.flatten()))
    if pa.types.is_map(kind):
        return _value_bytes(array.keys) + _value_bytes(array.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _value_bytes(array.flatten())
    if pa.types.is_dictionary(kind):
        lengths = pc.cast(pc.binary_length(array.dictionary), pa.int64())
        text = pc.sum(lengths.take(array.indices)).as_py() or 0
    else:
        text = array.nbytes
    return int(text) + _VALUE_BYTES * len(array)
