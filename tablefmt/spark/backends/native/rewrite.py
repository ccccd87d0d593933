"""Rows written again by Spark: new versions together with where the old ones are.

The positions ride in the data files as columns that no schema names (DAT-11), so that the table is
passed over once, whatever tasks are tried twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.fetch import open_data_file
from tablefmt.errors import CorruptDataError
from tablefmt.log.names import data_folder
from tablefmt.session.files import delete_keys
from tablefmt.session.merge_pairs import UPDATED
from tablefmt.spark.backends.base import (
    ACTION,
    ROW_COLUMNS,
    Destination,
    Rewritten,
    spark_fields,
)
from tablefmt.spark.backends.native.writer import check_published, described_files, write_files
from tablefmt.spark.runtime.frames import DataFrame
from tablefmt.store.protocol import Store

THREADS = 8


def rewrite_rows(
    frame: DataFrame, store: Store, to: Destination, names: Sequence[str], part: str
) -> Rewritten:
    """As of `Backend`."""
    shape = pa.schema([ROW_COLUMNS[name] for name in names])
    folder = f"{data_folder(to.transaction)}{part}/"
    apart = ACTION if ACTION in names else None
    rows, written = write_files(frame, store, folder, to, spark_fields(shape), apart)
    if not names:
        added = described_files(store, written, to)
        check_published(rows, 0 if added is None else added.rows)
        return Rewritten(added, shape.empty_table())
    positions = _read_back(store, written, shape)
    check_published(rows, sum(table.num_rows for table in positions))
    pairs = list(zip(written, positions, strict=True))
    kept = [file for file, table in pairs if table.num_rows and _is_written(table)]
    delete_keys(store, [file[0] for file in written if file not in kept])
    added = described_files(store, kept, to)
    return Rewritten(added, pa.concat_tables([shape.empty_table(), *positions]))


def _is_written(positions: pa.Table) -> bool:
    return ACTION not in positions.column_names or positions[ACTION][0].as_py() == UPDATED


def _read_back(
    store: Store, written: Sequence[tuple[str, int]], shape: pa.Schema
) -> list[pa.Table]:
    def read(written: tuple[str, int]) -> pa.Table:
        key, size = written
        try:
            with open_data_file(store, key, size) as source:
                file = pq.ParquetFile(source, page_checksum_verification=True)
                return file.read(shape.names, use_threads=False).select(shape.names).cast(shape)
        except (OSError, pa.ArrowException) as error:
            first = str(error).splitlines()[0]
            raise CorruptDataError(f"it cannot be read: {first}", key=key, rule="DAT-5") from None

    if len(written) < 2:
        return [read(file) for file in written]
    with ThreadPoolExecutor(min(THREADS, len(written))) as pool:
        return list(pool.map(read, written))
