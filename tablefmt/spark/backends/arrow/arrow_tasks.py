"""Tasks that Spark's workers run for Arrow: read files or row changes, and write rows.

Tasks travel to the workers pickled, so a store's credentials are in no plan. Spec: DAT-1 .. DAT-7,
INC-3.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.change_reader import Answer
from tablefmt.changes.changed_rows import may_cancel, together
from tablefmt.changes.commit_rows import FileChanges, Uses, first_uses, masks_of, shared_files
from tablefmt.data.arrow_scanner import columns_read
from tablefmt.data.column_cast import match_columns
from tablefmt.data.data_writer import write_data
from tablefmt.data.row_reader import locate_rows, read_files
from tablefmt.expressions.generated_columns import generated_columns
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.identity_columns import identity_ids
from tablefmt.model.import_layouts import LAYOUT
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Field, Schema
from tablefmt.session.identity_claims import WorkerClaims
from tablefmt.session.table_scan import explain_given_up_version
from tablefmt.session.transaction_snapshot import TransactionFiles
from tablefmt.spark.backends.backend_protocol import FILE, ROW
from tablefmt.spark.runtime.failures import carrying
from tablefmt.store.object_store import Store

TASK_BYTES_MIN = 4 << 20
TASK_BYTES_MAX = 128 << 20
TASKS_WANTED = 64
"""Approximate number of tasks of a read, if the size of a task is between the two limits."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads files of one version. One instance serves all tasks."""

    store: Store
    schema: Schema
    version: int

    def batches(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `files` with every column.

        Raises:
            CorruptDataError, VersionNotFoundError, with a record that `recovered` finds.
        """
        with carrying(), explain_given_up_version(self.store, self.version):
            yield from read_files(self.store, files, self.schema, self.schema.fields)


@dataclass(frozen=True, slots=True)
class LocateTask:
    """Reads files of one version with the position of every row. One instance serves all tasks."""

    store: Store
    table: Schema
    schema: Schema
    """Columns of the table to read."""

    def batches(self, files: pa.Table, first: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `files`, with the file's index (int32) and the row's position (int64).

        Args:
            files: as `read_files` takes them.
            first: the index of the first file.

        Raises:
            CorruptDataError, with a record that `recovered` finds.
        """
        with carrying():
            for located in locate_rows(self.store, files, self.table, self.schema.fields):
                rows = located.rows
                file = pa.repeat(
                    pa.scalar(first + located.file, pa.int32()), len(located.positions)
                )
                columns = [*rows.columns, file, pa.array(located.positions, pa.int64())]
                names = [*rows.schema.names, FILE, ROW]
                yield pa.RecordBatch.from_arrays(columns, names=names)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes rows under a transaction's folder, under names that no other attempt uses."""

    store: Store
    transaction: str
    metadata: Metadata
    stats: tuple[Field, ...]
    columns: tuple[str, ...]
    """Names of the columns of the rows, in their order."""
    compression: str = "zstd"
    rows_max: int | None = None
    """Most rows per file."""
    claim: WorkerClaims | None = None
    """Claims numbers for identity columns. Each attempt of a task claims its own (IDN-2)."""
    updates: bool = False
    """The rows are new versions of rows of the table."""

    def write(self, batches: Iterable[pa.RecordBatch], partition: int) -> AddedFiles | None:
        """Write the rows of one attempt of the task for `partition`. Durable on return.

        Raises:
            SchemaMismatchError, ConstraintViolationError, CommitRejectedError, with a record that
            `recovered` finds. Files written so far are removed.
        """
        prefix = f"{partition:05d}-{secrets.token_hex(8)}-"
        files = TransactionFiles(self.store, self.transaction, shared=True)
        with carrying(), files.removed_on_failure((prefix,)):
            return self._write(iter(batches), prefix)

    def _write(self, batches: Iterator[pa.RecordBatch], prefix: str) -> AddedFiles | None:
        first = next(batches, None)
        if first is None:
            return None

        def renamed() -> Iterator[pa.RecordBatch]:
            yield first
            yield from batches

        named = (b.rename_columns(list(self.columns)) for b in renamed())
        shape = first.rename_columns(list(self.columns)).schema
        reader = pa.RecordBatchReader.from_batches(shape, named)
        return write_data(
            self.store,
            self.transaction,
            reader,
            self.metadata,
            self.stats,
            prefix=prefix,
            # Arrow has only the newer format, and calls it lz4.
            compression="lz4" if self.compression == "lz4_raw" else self.compression,
            rows_max=self.rows_max,
            claim=self.claim,
            updates=self.updates,
        )


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Writes the rows of a task, and returns their positions, which are the last columns."""

    rows: WriteTask
    places: tuple[str, ...]
    action: str | None = None
    """Column of `places`. Rows with another value than `written` are not written."""
    written: int = 0

    def write(
        self, batches: Iterable[pa.RecordBatch], partition: int
    ) -> tuple[AddedFiles | None, bytes]:
        """Write as `WriteTask.write`. Also return the positions of all rows, as from `packed`."""
        width = len(self.rows.columns)
        kept: list[pa.RecordBatch] = []

        def without() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                places = pa.RecordBatch.from_arrays(batch.columns[width:], names=[*self.places])
                kept.append(places)
                rows = batch.select(list(range(width)))
                if self.action is not None:
                    rows = rows.filter(pc.equal(places.column(self.action), self.written))
                if rows.num_rows:
                    yield rows

        added = self.rows.write(without(), partition)
        return added, packed(pa.Table.from_batches(kept)) if kept else b""


def check_columns(given: Schema, metadata: Metadata) -> None:
    """Check before any task runs that columns fit the table. Raises SchemaMismatchError (DAT-2)."""
    generated = frozenset(each.field.id for each in generated_columns(metadata))
    match_columns(to_arrow(given), metadata.schema, generated | identity_ids(metadata))


def groups_of(files: pa.Table) -> list[pa.Table]:
    """Return files in their order, in groups of a suitable size for a task. No group is empty."""
    vector = [name for name in ("vector",) if name in files.column_names]
    files = files.select(columns_read(files) + vector).combine_chunks()
    sizes = files["size"].to_pylist()
    task_bytes = min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, sum(sizes) // TASKS_WANTED))
    groups, start, held = [], 0, 0
    for at, size in enumerate(sizes):
        if held and held + size > task_bytes:
            groups.append(files.slice(start, at - start))
            start, held = at, 0
        held += size
    if start < len(sizes):
        groups.append(files.slice(start))
    return groups


def packed(files: pa.Table) -> bytes:
    """Return a small table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as stream:
        stream.write_table(files)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def unpacked(body: bytes) -> pa.Table:
    """Return the table of bytes from `packed`."""
    with pa.ipc.open_stream(body) as stream:
        return stream.read_all()


Part = list[FileChanges]

_ALL = 1 << 62
"""No limit of rows. Files that exceed a task's memory are read once for every commit."""

_READ = ("id", "path", "size", "rows", "footer", "deleted", "vector", LAYOUT)


def parts_of(changes: Sequence[FileChanges]) -> list[Part]:
    """Return the parts that tasks read.

    A part is one of these:

    - some files of one change,
    - files in which several commits deleted rows, with all these changes,
    - a whole run in which rows cancel.
    """
    parts: list[Part] = []
    for run in together(changes):
        run = [replace(change, files=_columns_read(change.files)) for change in run]
        if may_cancel(run):
            parts.append(run)
            continue
        shared = shared_files(run, _ALL, lambda *_: 0)
        masks = masks_of(run, shared)
        for at, change in enumerate(run):
            files = change.files
            if at in masks:
                files = files.filter(pa.array(~masks[at]))
            parts += [[replace(change, files=group)] for group in groups_of(files)]
        uses = iter([each for _, each in sorted(shared.items())])
        for group in groups_of(first_uses(run, shared)) if shared else ():
            parts.append(_uses_of(run, list(itertools.islice(uses, group.num_rows))))
    return parts


def _columns_read(files: pa.Table) -> pa.Table:
    names = files.column_names
    return files.select([n for n in names if n in _READ or n.startswith("partition.")])


def _uses_of(run: Sequence[FileChanges], uses: Sequence[Uses]) -> Part:
    """Return each change with those of these files that it uses."""
    places: dict[int, list[int]] = {}
    for index, place in itertools.chain.from_iterable(uses):
        places.setdefault(index, []).append(place)
    return [
        replace(run[index], files=run[index].files.take(pa.array(each)))
        for index, each in sorted(places.items())
    ]


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads parts of row changes. Travels to the workers."""

    answer: Answer

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part.

        Raises:
            CorruptDataError, VersionNotFoundError, with a record that `recovered` finds.
        """
        # Rows that a commit removed were live at the version before.
        before = min((change.version for change in part), default=0) - 1
        with carrying(), explain_given_up_version(self.answer.store, before):
            yield from self.answer.batches(part)
