"""Files and columns to read for each content of a result. Spec: INC-3 .. 7

A restore can bring back a dropped column. In between, some files may hold its values, but a
compaction leaves them out. So these values are NULL, to make the result independent of compactions.
"""

from __future__ import annotations

from tablefmt.changes.commit_rows import DELETE, INSERT, WENT, FileChanges
from tablefmt.changes.net import net_files
from tablefmt.changes.plan import plan_changes, rows_at
from tablefmt.changes.range import Covered
from tablefmt.changes.schema import dropped_columns, lost_columns, without_columns
from tablefmt.errors import InvalidArgumentError
from tablefmt.model.schema import Schema
from tablefmt.snapshot.load import LogView

CONTENTS = ("changes", "net", "append")


def known_content(content: str) -> str:
    """Return one of CONTENTS. Raises InvalidArgumentError."""
    if content not in CONTENTS:
        raise InvalidArgumentError(
            f"content {content!r} is unknown; expected one of {', '.join(CONTENTS)}"
        )
    return content


def planned(
    view: LogView, range_: Covered, content: str, schema: Schema, *, whole: bool = False
) -> list[FileChanges]:
    """Return the changes to read, in order. They may contain equal rows that cancel.

    Args:
        view: the log, at or after the end of the range.
        range_: the versions.
        content: one of CONTENTS.
        whole: for "net", return all rows of both ends, without cancelling.
        schema: the schema of the result.

    Raises:
        CorruptTableError: as `plan_changes`. UnsupportedFeatureError: as `lost_columns`.
    """
    if not range_.is_kept:
        end = rows_at(view, range_.last, INSERT, range_.last)
        then = view.metadata_at(range_.last).schema
        return [without_columns(end, dropped_columns(schema, then))]
    if range_.empty:
        return []
    lost = lost_columns(view, range_, schema, ends=content != "changes")
    before = range_.before
    if whole:
        changes = _both_ends(view, range_)
        versions = [before if c.change in WENT else range_.last for c in changes]
    elif content == "changes":
        changes = plan_changes(view, range_)
        versions = [c.version - (c.change in WENT) for c in changes]
    else:
        # A commit can delete rows of files without the column, so it does not show their values.
        every = _both_ends(view, range_) if lost else plan_changes(view, range_)
        changes = net_files(every, range_.last, view.timestamp_at(range_.last))
        versions = [before if c.change in WENT else range_.last for c in changes]
    if not lost:
        return changes
    ids = [dropped_columns(schema, view.metadata_at(max(0, v)).schema) for v in versions]
    return [without_columns(*each) for each in zip(changes, ids, strict=True)]


def _both_ends(view: LogView, range_: Covered) -> list[FileChanges]:
    """Return a deletion of every row before the range, and an insertion of every row at its end."""
    came = rows_at(view, range_.last, INSERT, range_.last)
    if range_.before < 0:
        return [came]
    return [rows_at(view, range_.before, DELETE, range_.last), came]
