"""Result rows of a change read: the table's columns and the change columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablefmt.changes.columns import CHANGE_COLUMNS, KIND
from tablefmt.changes.commit_rows import INSERT, FileChanges
from tablefmt.changes.net import difference, lost_of, may_cancel, together
from tablefmt.changes.rows import RowReader
from tablefmt.data.matching import RowFilter
from tablefmt.data.read import answer_schema
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import Store


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Columns of a result row. `append` contains inserts only. Spec: INC-3, INC-6."""

    store: Store
    schema: Schema
    """All columns of the table."""
    columns: tuple[Field, ...]
    """Requested columns, in order."""
    marks: pa.Schema
    """Change columns of the result, or KIND. Without `_change_type` and KIND, it contains inserts
    only.
    """
    condition: RowFilter | None = None

    @property
    def shape(self) -> pa.Schema:
        """Return the Arrow schema of every batch."""
        return pa.schema([*answer_schema(self.columns), *self.marks])

    def batches(self, changes: Sequence[FileChanges]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of changes in their order, without rows that cancel. Raises as
        `read_files`.
        """
        shape = self.shape
        everything = any(name in self.marks.names for name in (CHANGE_COLUMNS.names[0], KIND))
        for run in together(changes):
            # Files cannot filter by lost columns, nor before equal rows have cancelled.
            late = self.condition is not None and bool(lost_of(run))
            # Rows are equal only if all of their columns are equal.
            columns = self.schema.fields if late or may_cancel(run) else self.columns
            places = [columns.index(column) for column in self.columns]
            condition = None if late else self.condition
            for change, rows in difference(
                RowReader(self.store, self.schema, columns, condition), run
            ):
                if late:
                    rows = self._selected(rows)
                if rows.num_rows and (everything or change.change == INSERT):
                    values = dict(zip(CHANGE_COLUMNS.names, change.marks, strict=True))
                    values[KIND] = change.change
                    marks = [
                        pa.repeat(pa.scalar(values[mark.name], mark.type), rows.num_rows)
                        for mark in self.marks
                    ]
                    arrays = [rows.column(at) for at in places]
                    yield pa.RecordBatch.from_arrays([*arrays, *marks], schema=shape)

    def _selected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true. `rows` has all columns."""
        assert self.condition is not None
        named = rows.rename_columns([field.physical for field in self.schema.fields])
        return self.condition.of_rows(named).rename_columns(rows.schema.names)
