"""The rows of a range of versions, with what happened to them and when. Spec: INC-1 .. INC-4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tablefmt.changes.plan import CHANGE_COLUMNS, FileChanges, plan_changes
from tablefmt.changes.range import Bounds, covered
from tablefmt.commit.environment import Environment
from tablefmt.data.batch_source import BatchSource
from tablefmt.data.read import answer_schema, read_files
from tablefmt.data.selection import Condition, chosen_columns, select_rows
from tablefmt.errors import InvalidRangeError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.prune import may_match
from tablefmt.model.cached import cached_property
from tablefmt.model.schema_views import nullable
from tablefmt.snapshot.load import LogView

CONTENTS = ("changes", "net", "append")


class Changes(BatchSource):
    """Row changes of versions `first_version` to `last_version`, both inclusive.

    An empty range has `last_version == first_version - 1`. Pass `last_version` on as the next
    `after_version`, and nothing is lost or doubled. Rows are read when they are asked for; what
    reads them raises UnsupportedFeatureError (INC-4) and CorruptDataError (DAT-5).
    """

    def __init__(
        self,
        view: LogView,
        environment: Environment,
        bounds: Bounds,
        *,
        content: str = "changes",
        columns: Sequence[str] | None = None,
        where: Condition = None,
    ) -> None:
        if content not in CONTENTS:
            raise InvalidRangeError(f"content {content!r} is not one of {', '.join(CONTENTS)}")
        if content != "changes":
            raise UnsupportedFeatureError(
                f"content {content!r} is not supported yet; content='changes' is",
                [f"changes:{content}"],
            )
        view.refresh()
        self.view = view
        now = view.store.server_time_us() or environment.now_us()
        self.range = covered(bounds, view.timeline, now)
        metadata = view.metadata_at(max(view.first, self.range.last))
        self.table_schema = nullable(metadata.schema)
        """The table's columns at the end of the range. Rows of before may be NULL in columns that
        are NOT NULL by then."""
        self.columns = chosen_columns(self.table_schema, columns)
        clash = [f.name for f in self.columns if f.name.casefold() in CHANGE_COLUMNS.names]
        if clash:
            raise SchemaMismatchError(
                f"the table's own columns {', '.join(map(repr, clash))} are called like the change "
                "columns; leave them out with `columns`",
                clash,
            )
        selection = select_rows(where, self.table_schema)
        self.predicate, self._condition = selection.predicate, selection.rows

    @property
    def first_version(self) -> int:
        """The first ID version covered."""
        return self.range.first

    @property
    def last_version(self) -> int:
        """The last ID version covered."""
        return self.range.last

    @property
    def settled(self) -> bool:
        """False while a commit in flight may still land in the range (INC-2)."""
        return self.range.settled

    @property
    def schema(self) -> pa.Schema:
        """The table's columns and the three change columns."""
        return pa.schema([*answer_schema(self.columns), *CHANGE_COLUMNS])

    @cached_property
    def file_changes(self) -> list[FileChanges]:
        """What is read, file by file. Raises UnsupportedFeatureError (INC-4)."""
        return plan_changes(self.view, self.range)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in the order of versions, of one version deletes before inserts (INC-3)."""
        for change in self.file_changes:
            files = change.files
            if self.predicate is not None:
                mask = may_match(self.predicate, files, change.partition_ids)
                files = files.filter(pa.array(mask))
            batches = read_files(
                self.view.store, files, self.table_schema, self.columns, self._condition
            )
            for batch in batches:
                yield self._marked(batch, change)

    def _marked(self, batch: pa.RecordBatch, change: FileChanges) -> pa.RecordBatch:
        values = (change.change, change.version, change.timestamp)
        marks = [
            pa.repeat(pa.scalar(value, column.type), batch.num_rows)
            for value, column in zip(values, CHANGE_COLUMNS, strict=True)
        ]
        return pa.RecordBatch.from_arrays([*batch.columns, *marks], schema=self.schema)
