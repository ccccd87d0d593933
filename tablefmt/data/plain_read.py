"""Reads of data files without Arrow's scanner, for schemas and row counts that do not suit it.

The scanner adds the columns of SCANNER_COLUMNS to every schema, and refuses a table with a column
of the same name. It also decodes whole row groups, however few rows are requested. This module
reads one file after another, page by page. Spec: DAT-4, DAT-12, SCH-2.
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
"""Rows decoded at once."""


def needs_plain(schema: Schema) -> bool:
    """Return whether Arrow's scanner cannot read tables of this schema."""
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
    """Yield rows as `live_batches` does; at most `batch_rows` are decoded at once."""
    physical = file_schema(schema)
    read = None if pushed is not None else list(names)
    if read is not None:
        physical = pa.schema([physical.field(name) for name in names])
    for place, fragment in enumerate(files.get_fragments()):
        with files.filesystem.open_input_file(fragment.path) as source:
            # With pre_buffer, Arrow would fetch the whole file before the first rows.
            file = pq.ParquetFile(
                source, pre_buffer=False, page_checksum_verification=True, **THRIFT_LIMITS
            )
            if file.metadata.num_rows != rows[place]:
                raise ValueError("the file has another number of rows than the log says")
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
    """Return a column in its type of the schema, though the file may lack it or be narrower
    (DAT-12).

    Args:
        batch: rows in the file's own types.
        target: the column.
        known: as `known_values` returns them.
    """
    at = batch.schema.get_field_index(target.name)
    if at >= 0:
        return batch.column(at).cast(target.type)
    value = pa.scalar(known.get(target.name), target.type)
    return pa.repeat(value, batch.num_rows)
