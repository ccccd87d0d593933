"""Blame report: which commits inserted or deleted rows of a file, a partition or a condition."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.model.times import show_time
from tablefmt.printable import number_of, printable_lines

BLAME = pa.schema(
    [
        pa.field("version", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("operation", pa.string()),
        pa.field("change", pa.string(), nullable=False),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("rows", pa.int64()),
        pa.field("rows_max", pa.int64(), nullable=False),
        pa.field("paths", pa.list_(pa.string()), nullable=False),
        pa.field("read_version", pa.int64()),
        pa.field("transaction", pa.string()),
        pa.field("application", pa.string()),
        pa.field("condition", pa.string()),
        pa.field("user_metadata", pa.string()),
        pa.field("derived_from", pa.string()),
    ]
)
"""Columns about each change of a commit."""

CHANGES = (
    *("present", "delete", "update_preimage", "update_postimage", "insert"),
    *("rewritten_out", "rewritten_in"),
)
"""Kinds of changes, in the order of the rows of one commit. The names of changed rows are those of
the change feed.
"""

PATHS = 10
"""Files that a row names."""
SHOWN = 50
"""Changes that the printed report lists."""

_VERBS = {
    "present": "there before:",
    "delete": "deleted",
    "update_preimage": "took old values of",
    "update_postimage": "brought new values of",
    "insert": "inserted",
    "rewritten_out": "moved out",
    "rewritten_in": "moved in",
}
assert tuple(_VERBS) == CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameReport(ArrowReport):
    """Commits that inserted or deleted the rows of a file, a partition or a condition.

    `to_arrow` has a row for each kind of change of each commit. `change` is insert, delete,
    update_preimage, update_postimage, as in the change feed. It is `rewritten_out` or
    `rewritten_in` for rows that moved to another file unchanged, and `present` for rows that are
    older than `first_version`. `rows` is their number, null if it is unknown, and `rows_max` is
    the most that it can be. `paths` has at most ten of the `files`. `version` and what follows
    it are about the commit.
    """

    uri: str
    target: str
    """The file, the partition or the condition, in words."""
    first_version: int
    """First version whose commit is covered."""
    last_version: int
    complete: bool
    """False if the table has commits before `first_version`."""
    expired: bool
    """True if these commits are no longer in the log, so no more can be known."""
    traced: tuple[str, ...] = ()
    """For a file: paths of at most ten older files whose rows were moved into it."""
    commits: pa.Table = field(repr=False)

    def to_arrow(self) -> pa.Table:
        """Return a row for each change, in the order of versions."""
        return self.commits

    def summary(self) -> list[str]:
        """Return the lines that sum up the report."""
        count = len(set(self.commits["version"].drop_null().to_pylist()))
        lines = [
            f"{self.uri}: {number_of(count, 'commit')} of versions {self.first_version} to "
            f"{self.last_version} inserted or deleted rows of {self.target}"
        ]
        if self.traced:
            lines.append(f"  its rows came from {', '.join(self.traced)}")
        if self.expired:
            lines.append(
                f"  commits before version {self.first_version} have expired: the log no longer "
                "tells which of them brought the older rows"
            )
        elif not self.complete:
            lines.append(f"  commits before version {self.first_version} were not asked for")
        if self.commits["rows"].null_count:
            lines.append(
                "  rows of files that a vacuum may have removed cannot be counted; the number "
                "after `at most` is that of all rows of such files"
            )
        return lines

    def __str__(self) -> str:
        lines = self.summary()
        for row in self.commits.slice(0, SHOWN).to_pylist():
            count = number_of(row["rows_max"], "row")
            count = f"at most {count}" if row["rows"] is None else count
            head = ""
            if row["version"] is not None:
                head = f"version {row['version']}"
                if row["timestamp"] is not None:
                    micros = int(row["timestamp"].timestamp() * 1_000_000)
                    head += f", {show_time(micros)}, {row['operation']}"
                head += ": "
            facts = [f"{name} {row[name]}" for name in
                     ("condition", "application", "user_metadata", "derived_from")
                     if row[name] is not None]  # fmt: skip
            tail = f" ({'; '.join(facts)})" if facts else ""
            lines.append(
                f"  {head}{_VERBS[row['change']]} {count} in "
                f"{number_of(row['files'], 'file')}{tail}"
            )
        if self.commits.num_rows > SHOWN:
            lines.append(f"  and {self.commits.num_rows - SHOWN} more changes")
        return printable_lines(lines)
