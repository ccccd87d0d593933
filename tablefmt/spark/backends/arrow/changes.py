"""Row changes read by Arrow in Spark's workers, as a data source hands them out. Spec: INC-3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tablefmt.changes.answer import Answer
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.net import may_cancel, together
from tablefmt.spark.backends.arrow.tasks import groups_of
from tablefmt.spark.runtime.failures import carrying

Part = list[FileChanges]


def parts_of(changes: Sequence[FileChanges]) -> list[Part]:
    """What tasks read: some files of one change, or a whole run of which rows cancel."""
    parts: list[Part] = []
    for run in together(changes):
        if may_cancel(run):
            parts.append(run)
            continue
        for change in run:
            parts += [[replace(change, files=group)] for group in groups_of(change.files)]
    return parts


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads parts of row changes; travels to the workers."""

    answer: Answer

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Raises CorruptDataError, with a record that `recovered` finds."""
        with carrying():
            yield from self.answer.batches(part)
