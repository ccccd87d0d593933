"""Reading one version: plan from metadata, then Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.batch_source import BatchSource
from tablefmt.data.read import answer_schema, count_rows, read_files
from tablefmt.data.selection import Condition, chosen_columns, select_rows
from tablefmt.expressions.predicate import to_sql
from tablefmt.model.arguments import checked_limit
from tablefmt.model.cached import cached_property
from tablefmt.session.given_up import told_if_given_up
from tablefmt.snapshot.state import Snapshot
from tablefmt.store.protocol import Store


class Scan(BatchSource):
    """A read of one snapshot. Nothing is read until one of the methods asks for it.

    What reads rows raises CorruptDataError (DAT-5) if a data file is not what was written.
    """

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        limit: int | None = None,
        asked: bool = False,
    ) -> None:
        self.store = store
        self.snapshot = snapshot
        self.asked = asked
        """Somebody asked for this version, by number or time: its rows are a constant (CFL-22)."""
        self.columns = chosen_columns(snapshot.schema, columns)
        self.limit = checked_limit(limit)
        self.selection = select_rows(where, snapshot.schema)
        """The rows asked for, as the condition was then: a list may be another one later."""
        self.predicate, self._condition = self.selection.predicate, self.selection.rows

    @property
    def version(self) -> int:
        """The ID version that is read."""
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """Of the answer."""
        return answer_schema(self.columns)

    @cached_property
    def survivors(self) -> pa.Table:
        """The live files that may hold matching rows, with the log's columns."""
        return self.snapshot.matching(self.predicate)

    @cached_property
    def _readable(self) -> pa.Table:
        return self.snapshot.with_vectors(self.survivors)

    def files(self) -> pa.Table:
        """The files that would be read: id, path, size, rows, deleted, version, partition values.

        `rows` is as written, `deleted` how many of them are gone, `version` the one that added the
        file; `partition` is a struct with the partition columns' names, absent if unpartitioned.
        """
        return describe_files(self.survivors, self.snapshot)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches in the order of the files' ids; at most `limit` rows in all."""
        return self._batches()

    def to_arrow(self) -> pa.Table:
        """All rows as one table."""
        return pa.Table.from_batches(list(self._batches(kept=True)), self.schema)

    def _batches(self, kept: bool = False) -> Iterator[pa.RecordBatch]:
        left = self.limit
        if left == 0:
            return
        files, schema = self._readable, self.snapshot.schema
        if left is not None and self._condition is None:
            files = first_files(files, left)
        # Where a condition decides, how many files it takes to have so many rows is not known.
        eager = left is None or self._condition is None
        batches = read_files(
            self.store,
            files,
            schema,
            self.columns,
            self._condition,
            eager=eager,
            first=left,
            kept=kept,
        )
        with told_if_given_up(self.store, self.version):
            for batch in batches:
                if left is None:
                    yield batch
                    continue
                yield batch if left >= batch.num_rows else batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return

    def count(self) -> int:
        """Rows; without a condition from metadata alone."""
        files = self.survivors if self._condition is None else self._readable
        with told_if_given_up(self.store, self.version):
            rows = count_rows(self.store, files, self.snapshot.schema, self._condition)
        return rows if self.limit is None else min(rows, self.limit)

    def explain(self) -> str:
        """What would be read, of how much, and why."""
        total, rows, size = self.snapshot.totals
        kept = self.survivors
        sums = (int(pc.sum(kept[c]).as_py() or 0) for c in ("rows", "deleted", "size"))
        kept_rows, kept_gone, kept_bytes = sums
        if self.predicate is not None:
            why = f"pruned by {to_sql(self.predicate)}"
        elif self._condition is not None:
            why = "a pyarrow expression filters rows; it does not prune files"
        else:
            why = "no condition"
        return (
            f"version {self.version}: {kept.num_rows} of {total} files, "
            f"{kept_rows - kept_gone} of {rows} rows, {kept_bytes} of {size} bytes; {why}; "
            f"columns {', '.join(f.name for f in self.columns)}"
        )


def first_files(files: pa.Table, rows: int) -> pa.Table:
    """As many files as hold so many rows, or all of them."""
    live = files["rows"].to_numpy() - files["deleted"].to_numpy()
    return files.slice(0, int(np.searchsorted(np.cumsum(live), rows)) + 1)


def describe_files(files: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Files for people: see `Scan.files`."""
    columns = {name: files[name] for name in ("id", "path", "size", "rows", "deleted")}
    columns["version"] = files["added"]
    if snapshot.metadata.partition_by:
        values = [files[f"partition.{i}"].combine_chunks() for i in snapshot.metadata.partition_by]
        names = snapshot.metadata.partition_names
        columns["partition"] = pa.StructArray.from_arrays(values, names=names)
    return pa.table(columns)
