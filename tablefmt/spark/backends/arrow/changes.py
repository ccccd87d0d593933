"""Row changes read by Arrow in Spark's workers, as a data source hands them out. Spec: INC-3."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tablefmt.changes.answer import Answer
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.net import may_cancel, together
from tablefmt.changes.shared_files import Uses, first_uses, masks_of, shared_files
from tablefmt.session.given_up import told_if_given_up
from tablefmt.spark.backends.arrow.tasks import groups_of
from tablefmt.spark.runtime.failures import carrying

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
