"""Commits that met concurrent ones, by pair of operations: rebased onto them, or refused.

A refused commit has no entry. The next entry of its process reports it (ENT-17). If there is none,
only the log of that process has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import InvalidRangeError
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.refusals import Refusal, refusals_of
from tablefmt.operations.describe import kept_entries
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.table_context import TableContext

VERSIONS = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.int64()),
        ("operation", pa.string()),
        ("read_version", pa.int64()),
        ("files", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
"""Columns about commits, in the order of versions.

`timestamp` is in µs since 1970. The last three describe the table after the commit; `rows` leaves
out deleted ones.
"""

PAIRS = pa.schema(
    [
        ("operation", pa.string()),
        ("rebased_onto", pa.string()),
        ("commits", pa.int64()),
        ("times", pa.int64()),
        ("first_version", pa.int64()),
        ("last_version", pa.int64()),
    ]
)


REFUSED = pa.schema(
    [
        ("operation", pa.string()),
        ("refused_by", pa.string()),
        ("rule", pa.string()),
        ("cell", pa.string()),
        ("error", pa.string()),
        ("times", pa.int64()),
        ("last_winner", pa.int64()),
        ("first_version", pa.int64()),
        ("last_version", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class ConflictReport(ArrowReport):
    """Commits of a range of versions that met concurrent ones. `to_arrow` has a row for each pair
    of operations.
    """

    uri: str
    first: int
    """First version of the range, inclusive."""
    last: int
    """Last version of the range, inclusive."""
    commits: int
    """Number of commits in the range that were rebased."""
    pairs: pa.Table = field(repr=False)
    """Columns: `operation`, the operations it was `rebased_onto`, the number of `commits`, the
    `times` that they met such an operation, and the `first_version` and `last_version` of them.
    """
    refused: pa.Table = field(repr=False)
    """Commits that were refused, as the entries of the range report them (ENT-17). Columns:
    `operation`, the operation that it was `refused_by`, `rule`, `cell`, `error`, the number of
    `times`, `last_winner`: the newest version that refused one, and the `first_version` and
    `last_version` of the entries that report them.
    """

    @property
    def refusals(self) -> int:
        """Number of refused commits that the entries of the range report."""
        return pc.sum(self.refused["times"]).as_py() or 0

    def to_arrow(self) -> pa.Table:
        """Return a row for each pair of operations, the most frequent pair first."""
        return self.pairs

    def __str__(self) -> str:
        count = self.last - self.first + 1
        lines = [
            f"{self.uri}: {self.commits} of {count} commits (versions {self.first} to {self.last}) "
            "met concurrent commits and were rebased"
        ]
        lines += [
            f"  {row['operation']} onto {row['rebased_onto']}: "
            f"{number_of(row['times'], 'time')} in {number_of(row['commits'], 'commit')} "
            f"(versions {row['first_version']} to {row['last_version']})"
            for row in self.pairs.to_pylist()
        ]
        lines.append(f"{number_of(self.refusals, 'refused commit')} reported by later entries")
        lines += [
            f"  {row['operation']} by {row['refused_by']}: "
            f"{number_of(row['times'], 'time')} by rule "
            f"{row['rule']}{_cell(row['cell'])} (last by version {row['last_winner']})"
            for row in self.refused.to_pylist()
        ]
        return printable_lines(lines)


def _cell(text: str | None) -> str:
    return "" if text is None else f", {text}"


def versions_of(entries: Sequence[StoredEntry]) -> pa.Table:
    """Return a row for each entry: VERSIONS. Pure."""
    totals = [stored.entry.totals for stored in entries]
    columns: list[Sequence[Any]] = [
        [stored.version for stored in entries],
        [stored.entry.timestamp for stored in entries],
        [stored.entry.operation.name for stored in entries],
        [stored.entry.basis.read_version for stored in entries],
        [each.files for each in totals],
        [each.rows - each.deleted for each in totals],
        [each.bytes for each in totals],
    ]
    return pa.table(columns, schema=VERSIONS)


def rebased_pairs(versions: pa.Table, since: int = 0) -> pa.Table:
    """Return how often commits were rebased onto others: PAIRS, the most frequent first. Pure.

    A commit was rebased onto all versions between the one it read and its own.

    Args:
        versions: VERSIONS, without a gap.
        since: the first version whose commit counts.
    """
    numbers: NDArray[np.int64] = versions["version"].to_numpy()
    if not len(numbers):
        return PAIRS.empty_table()
    first = int(numbers[0])
    # The commit that made the table read no version.
    read = pc.fill_null(versions["read_version"], pc.subtract(versions["version"], 1)).to_numpy()
    start = np.maximum(read + 1 - first, 0)
    ends = numbers - first
    own, other = (versions["operation"].dictionary_encode().combine_chunks() for _ in range(2))
    codes, names = own.indices.to_numpy(), other.dictionary.to_pylist()
    rows = []
    for theirs, met in enumerate(names):
        before = np.concatenate([[0], np.cumsum(codes == theirs)])
        times = before[ends] - before[np.minimum(start, ends)]
        for ours, name in enumerate(names):
            mine = (codes == ours) & (times > 0) & (numbers >= since)
            if mine.any():
                of = numbers[mine]
                count, total = int(mine.sum()), int(times[mine].sum())
                rows.append((name, met, count, total, int(of.min()), int(of.max())))
    rows.sort(key=lambda row: (-row[3], row[:2]))
    columns = list(zip(*rows, strict=True)) or [()] * len(PAIRS)
    return pa.table([list(column) for column in columns], schema=PAIRS)


def refused_commits(entries: Iterable[StoredEntry]) -> pa.Table:
    """Return the refused commits that entries report: REFUSED, the most frequent first. Pure."""
    found: dict[tuple[str, ...], tuple[Refusal, int, int]] = {}
    for stored in entries:
        if not stored.entry.unknown:
            continue
        for one in refusals_of(stored.entry.unknown):
            before, first, _ = found.get(one.key, (None, stored.version, 0))
            both = one if before is None else before.plus(one)
            found[one.key] = (both, first, stored.version)
    rows = [
        (r.operation, r.winner, r.rule, r.cell, r.error, r.times, r.last_winner, first, last)
        for r, first, last in found.values()
    ]
    rows.sort(key=lambda row: (-row[5], row[:3]))
    columns = list(zip(*rows, strict=True)) or [()] * len(REFUSED)
    return pa.table([list(column) for column in columns], schema=REFUSED)


def conflicts(
    context: TableContext,
    starting_version: int | str | None = None,
    ending_version: int | str | None = None,
) -> ConflictReport:
    """Return the commits of a range that met concurrent ones. See `Table.conflicts`."""
    entries = kept_entries(context)
    versions = versions_of(entries)
    kept, newest = versions["version"][0].as_py(), versions["version"][-1].as_py()
    first = kept if starting_version is None else context.version_of(starting_version)
    last = newest if ending_version is None else context.version_of(ending_version)
    if not kept <= first <= last <= newest:
        raise InvalidRangeError(
            f"versions {first} to {last} are not a range in the log, which has versions {kept} to "
            f"{newest}. Choose starting_version and ending_version in between."
        )
    versions = versions.slice(0, last + 1 - kept)
    read = pc.fill_null(versions["read_version"], pc.subtract(versions["version"], 1))
    met = pc.and_(
        pc.less(read, pc.subtract(versions["version"], 1)),
        pc.greater_equal(versions["version"], first),
    )
    return ConflictReport(
        uri=context.store.uri,
        first=first,
        last=last,
        commits=pc.sum(pc.cast(met, pa.int64())).as_py() or 0,
        pairs=rebased_pairs(versions, first),
        refused=refused_commits(e for e in entries if first <= e.version <= last),
    )
