"""Rows written again: Spark writes new versions together with where the old ones are.

The places ride in the data files as columns that no schema names (DAT-11), so that the table is
passed over once, whatever tasks are tried twice; or, on the Arrow plane, in what the tasks answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.bounds import stats_of
from tablefmt.data.fetch import open_data_file
from tablefmt.data.footer import describe_files
from tablefmt.errors import CorruptDataError
from tablefmt.log.names import data_folder
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.schema import Field
from tablefmt.session.context import discard
from tablefmt.session.measurements import REWRITE
from tablefmt.session.snapshot import TransactionSnapshot, joined
from tablefmt.spark.backends.arrow.plane import located_files_arrow
from tablefmt.spark.backends.arrow.tasks import remove_losers
from tablefmt.spark.backends.choice import plane_for
from tablefmt.spark.backends.native.writer import check_published, layout, remove_folder, write_more
from tablefmt.spark.backends.row_positions import FILE, ROW
from tablefmt.spark.runtime.options import WriteOptions
from tablefmt.store.protocol import Store

SOURCE = "__tablefmt_source"
"""The number of the source row that a row of the table matched: a long."""

ACTION = "__tablefmt_action"
"""What becomes of a row: an int."""

KEPT, DELETED, UPDATED = range(3)
"""Values of ACTION."""

THREADS = 8

_FIELDS = {
    FILE: pa.field(FILE, pa.int32()),
    ROW: pa.field(ROW, pa.int64()),
    SOURCE: pa.field(SOURCE, pa.int64()),
    ACTION: pa.field(ACTION, pa.int32()),
}

_KINDS = {pa.int32(): "integer", pa.int64(): "long"}


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """What came of a query of rows with their places."""

    files: AddedFiles | None
    """Of the rows written; with ACTION of those with UPDATED there."""
    places: pa.Table
    """The columns with places of all rows of the query."""

    def column(self, name: str) -> Any:
        """One of them, as numbers; NULL is -1."""
        values = self.places[name]
        if values.null_count:
            values = values.fill_null(-1)
        return values.to_numpy().astype(np.int64)


def rewrite(
    spark: Any,
    pinned: TransactionSnapshot,
    frame: Any,
    names: Sequence[str],
    options: WriteOptions,
    part: str = "u",
) -> Rewritten:
    """Run a query; its rows go to files under the transaction's folder, durably (ADD-5).

    Args:
        spark: the session.
        pinned: the version, and where the files go.
        frame: the table's columns by name, and those of `names`.
        names: of FILE, ROW, SOURCE, ACTION, those there are.
        options: how the files are written.
        part: names the folder below the transaction's: one for every call.

    Raises:
        SchemaMismatchError: DAT-2. ConstraintViolationError: DAT-3. CommitRejectedError: the files
        are not all that Spark wrote. Spark's own exceptions if the query fails. The files stay.
    """
    under = pinned.target
    rows = int(spark.conf.get("spark.sql.files.maxRecordsPerFile", "0"))
    spread = layout(options.files, under, pinned.view.head, rows)
    stats = stats_of(under)
    shape = pa.schema([_FIELDS[name] for name in names])
    more = [
        {"name": field.name, "type": _KINDS[field.type], "nullable": True, "metadata": {}}
        for field in shape
    ]
    store = pinned.store
    if plane_for(spark, store).kind == "arrow":
        kept = UPDATED if ACTION in names else None
        with pinned.measured.timed(REWRITE):
            done = located_files_arrow(
                frame, store, pinned.transaction, under, stats, spread, more, shape, (ACTION, kept)
            )
        return Rewritten(*done)
    folder = f"{data_folder(pinned.transaction)}{part}/"
    apart = ACTION if ACTION in names else None
    with pinned.measured.timed(REWRITE):
        said, written = write_more(frame, store, folder, under, spread, more, apart)
    if not names:
        files = _described(store, written, under, stats)
        check_published(said, 0 if files is None else files.rows)
        return Rewritten(files, shape.empty_table())
    found = _read_back(store, written, shape)
    check_published(said, sum(table.num_rows for table in found))
    pairs = list(zip(written, found, strict=True))
    wanted = [file for file, table in pairs if table.num_rows and _is_written(table)]
    for (key, size), _ in pairs:
        if (key, size) not in wanted:
            store.delete(key)
    files = _described(store, wanted, under, stats)
    return Rewritten(files, pa.concat_tables([shape.empty_table(), *found]))


def _described(
    store: Store, written: Sequence[tuple[str, int]], under: Metadata, stats: Sequence[Field]
) -> AddedFiles | None:
    """The files, durable from now on; those without rows are removed."""
    files = describe_files(store, written, under, stats) if written else None
    kept = frozenset() if files is None else frozenset(files.columns["path"])
    for key, _ in written:
        if key not in kept:
            store.delete(key)
    if files is not None:
        store.sync(files.columns["path"])
    return files


def _is_written(places: pa.Table) -> bool:
    return ACTION not in places.column_names or places[ACTION][0].as_py() == UPDATED


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


def finish(spark: Any, pinned: TransactionSnapshot, parts: Sequence[AddedFiles | None]) -> None:
    """Remove what attempts wrote that lost: everything of the transaction's but these files."""
    if plane_for(spark, pinned.store).kind == "arrow":
        remove_losers(pinned.store, pinned.transaction, joined(parts))


def forget(spark: Any, pinned: TransactionSnapshot) -> None:
    """Remove whatever the transaction wrote: its statement failed, or changed nothing."""
    if plane_for(spark, pinned.store).kind == "native":
        remove_folder(spark, pinned.store, pinned.transaction)
    else:
        discard(pinned.store, pinned.transaction)
