"""Rows of data files without Arrow's scanner, where its own columns are in the way.

The scanner adds columns called as in SCANNER_COLUMNS to every schema, and refuses a table that has
one by such a name; and it decodes a row group at a time, however few rows are asked for. Here files
are read one after the other, page by page. Spec: DAT-4, DAT-12, SCH-2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tablefmt.data.known_values import known_values
from tablefmt.data.scanner import POSITION
from tablefmt.log.bounded_parquet import THRIFT_LIMITS
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.positions import live_mask
from tablefmt.model.schema import Schema

SCANNER_COLUMNS = frozenset(
    {"__filename", "__fragment_index", "__batch_index", "__last_in_fragment"}
)


BATCH_ROWS = 1 << 16
"""Decoded at once."""


def needs_plain(schema: Schema) -> bool:
    """Whether Arrow's scanner cannot read tables of this schema."""
    return any(field.physical in SCANNER_COLUMNS for field in schema.fields)


def plain_batches(
    files: ds.FileSystemDataset,
    schema: Schema,
    rows: Sequence[int],
    vectors: Sequence[bytes | None],
    names: Sequence[str],
    pushed: pc.Expression | None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `live_batches`, for files of that schema; at most `batch_rows` are decoded at once."""
    physical = file_schema(schema)
    read = None if pushed is not None else list(names)
    if read is not None:
        physical = pa.schema([physical.field(name) for name in names])
    for place, fragment in enumerate(files.get_fragments()):
        with files.filesystem.open_input_file(fragment.path) as source:
            # Or Arrow would fetch all of the file before the first rows.
            file = pq.ParquetFile(
                source, pre_buffer=False, page_checksum_verification=True, **THRIFT_LIMITS
            )
            if file.metadata.num_rows != rows[place]:
                raise ValueError("there are other rows than the log says")
            live = live_mask(vectors[place], rows[place])
            start, known = 0, known_values(fragment)
            for batch in file.iter_batches(batch_rows, columns=read):
                positions = np.arange(start, start + batch.num_rows, dtype=np.int64)
                start += batch.num_rows
                columns = [shaped_column(batch, column, known) for column in physical]
                shaped = pa.RecordBatch.from_arrays(
                    [*columns, pa.array(positions)], names=[*physical.names, POSITION]
                ).filter(pa.array(live[positions]))
                if pushed is not None:
                    shaped = shaped.filter(pushed)
                if shaped.num_rows:
                    yield place, shaped.select([*names, POSITION])


def shaped_column(batch: pa.RecordBatch, target: pa.Field, known: Mapping[str, object]) -> pa.Array:
    """A column in its type of the schema, where a file may lack it or have it narrower (DAT-12).

    Args:
        batch: rows as a file has them.
        target: the column.
        known: as of `known_values`.
    """
    at = batch.schema.get_field_index(target.name)
    if at >= 0:
        return batch.column(at).cast(target.type)
    value = pa.scalar(known.get(target.name), target.type)
    return pa.repeat(value, batch.num_rows)
