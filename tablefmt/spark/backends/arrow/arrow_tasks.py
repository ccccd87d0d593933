"""What Spark's workers do for Arrow: read files or row changes, write the rows of a task.

They are values that travel to the workers pickled, so what a store needs to be opened with is in no
plan. Spec: DAT-1 .. DAT-7, INC-3.
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
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Field, Schema
from tablefmt.session.table_scan import told_if_given_up
from tablefmt.session.transaction_snapshot import TransactionFiles
from tablefmt.spark.backends.backend_protocol import FILE, ROW
from tablefmt.spark.runtime.failures import carrying
from tablefmt.store.object_store import Store

TASK_BYTES_MIN = 4 << 20
TASK_BYTES_MAX = 128 << 20
TASKS_WANTED = 64
"""A read makes about that many tasks, if they come out between the two sizes."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads files of one version, whatever the tasks that it is handed to."""

    store: Store
    schema: Schema
    version: int

    def batches(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of `files`, every column.

        Raises:
            CorruptDataError, VersionNotFoundError, with a record that `recovered` finds.
        """
        with carrying(), told_if_given_up(self.store, self.version):
            yield from read_files(self.store, files, self.schema, self.schema.fields)


@dataclass(frozen=True, slots=True)
class LocateTask:
    """Reads files of one version with the place of every row, whatever the tasks."""

    store: Store
    table: Schema
    schema: Schema
    """The columns wanted, of those of the table."""

    def batches(self, files: pa.Table, first: int) -> Iterator[pa.RecordBatch]:
        """The rows of `files`; then the place of the file, int32, and of the row in it, int64.

        Args:
            files: as `read_files` takes them.
            first: the place of the first of them.

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
    """Writes rows under one transaction's folder, under names that no other attempt has."""

    store: Store
    transaction: str
    metadata: Metadata
    stats: tuple[Field, ...]
    columns: tuple[str, ...]
    """Names of the columns of the rows, in their order."""
    compression: str = "zstd"
    rows_max: int | None = None
    """Rows a file."""

    def write(self, batches: Iterable[pa.RecordBatch], partition: int) -> AddedFiles | None:
        """Write the rows of one attempt of the task for `partition`; durable when it returns.

        Raises:
            SchemaMismatchError, ConstraintViolationError, CommitRejectedError, with a record that
            `recovered` finds. The files written so far are removed.
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
            # Arrow never had the older kind, so its name is shorter.
            compression="lz4" if self.compression == "lz4_raw" else self.compression,
            rows_max=self.rows_max,
        )


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Writes the rows of a task, and keeps their places: columns that come last."""

    rows: WriteTask
    places: tuple[str, ...]
    action: str | None = None
    """One of `places`; rows in which it is another than `written` are not written."""
    written: int = 0

    def write(
        self, batches: Iterable[pa.RecordBatch], partition: int
    ) -> tuple[AddedFiles | None, bytes]:
        """As `WriteTask.write`; and the places of all rows, as `packed` has them."""
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


def check_columns(given: Schema, schema: Schema) -> None:
    """Refuse rows that do not fit before any task runs. Raises SchemaMismatchError (DAT-2)."""
    match_columns(to_arrow(given), schema)


def groups_of(files: pa.Table) -> list[pa.Table]:
    """Files in their order, in groups that are each worth a task. At least one file a group."""
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
    """A table of a few columns as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as stream:
        stream.write_table(files)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def unpacked(body: bytes) -> pa.Table:
    """The reverse of `packed`."""
    with pa.ipc.open_stream(body) as stream:
        return stream.read_all()


Part = list[FileChanges]

_ALL = 1 << 62
"""Room for any rows: what is too much for the memory of a task is read once for every commit."""

_READ = ("id", "path", "size", "rows", "footer", "deleted", "vector")


def parts_of(changes: Sequence[FileChanges]) -> list[Part]:
    """What tasks read: some files of one change, files out of which several commits took rows with
    all of these, or a whole run of which rows cancel.
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
    """Each change with those of these files that are in it."""
    places: dict[int, list[int]] = {}
    for index, place in itertools.chain.from_iterable(uses):
        places.setdefault(index, []).append(place)
    return [
        replace(run[index], files=run[index].files.take(pa.array(each)))
        for index, each in sorted(places.items())
    ]


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads parts of row changes; travels to the workers."""

    answer: Answer

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part.

        Raises:
            CorruptDataError, VersionNotFoundError, with a record that `recovered` finds.
        """
        # What a commit took away was live before it.
        before = min((change.version for change in part), default=0) - 1
        with carrying(), told_if_given_up(self.answer.store, before):
            yield from self.answer.batches(part)
