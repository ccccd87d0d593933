"""Reasons for which a scan reads a file or leaves it out.

The decision is that of the scan itself: `Snapshot.candidates` and `Snapshot.survivors`. The reasons
come from the evaluator that made it (`file_pruning.exclusions`), condition by condition.
Spec: PRN-4 .. PRN-9, PRN-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import InvalidArgumentError
from tablefmt.expressions.file_pruning import exclusions
from tablefmt.expressions.implied_conditions import implied
from tablefmt.expressions.predicate import Predicate, fields, quoted_path, to_sql
from tablefmt.model.schema import Field, is_float
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.table_scan import Scan
from tablefmt.snapshot.file_columns import of_partitioning
from tablefmt.snapshot.segments import ManifestSegment
from tablefmt.snapshot.table_state import Snapshot

FILES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("read", pa.bool_(), nullable=False),
        pa.field("decided_by", pa.string()),
        pa.field("bounds", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""Columns about each live file. `rows` counts rows as written."""

SHOWN = 20
"""Files that the printed report lists."""
TEXT_MAX = 300
"""Most characters of a condition, because every file that it excludes repeats it."""
VALUE_MAX = 60
"""Most characters of a bound."""

NO_CONDITION = "there is no condition"
UNKNOWN = "bounds cannot decide the condition"
ALLOWED = "its bounds allow a matching row"
EXCLUDED = "its bounds exclude every row"
BY_SUMMARY = "the common bounds of its manifest segment exclude every row"


@dataclass(frozen=True, slots=True)
class PruningReport(ArrowReport):
    """Reasons for which a scan reads each live file, or leaves it out.

    `to_arrow` has a row for each file: id, path, size, rows, `read`, `decided_by`, `bounds`,
    `reason`.
    """

    uri: str
    version: int
    condition: str | None
    """The part of the condition that can prune, in SQL. None: no part can."""
    files: pa.Table = field(repr=False)

    def to_arrow(self) -> pa.Table:
        """Return a row for each file, in the order of ids."""
        return self.files

    @property
    def read(self) -> int:
        """Number of files that the scan reads."""
        return int(pc.sum(self.files["read"]).as_py() or 0)

    @property
    def left_out(self) -> dict[str, int]:
        """Number of files that are left out, by the condition that excludes them."""
        out = self.files.filter(pc.invert(self.files["read"]))
        counts = pc.value_counts(pc.fill_null(out["decided_by"], BY_SUMMARY)).to_pylist()
        return {each["values"]: each["counts"] for each in counts}

    def summary(self) -> list[str]:
        """Return the lines that sum up all files."""
        count, mine = self.files.num_rows, self.files.filter(self.files["read"])
        sums = (pc.sum(each[name]).as_py() or 0
                for name in ("rows", "size") for each in (mine, self.files))  # fmt: skip
        rows, all_rows, size, all_size = sums
        asked = self.files["reason"][0].as_py() if count else NO_CONDITION
        asked = asked if self.condition is None else f"condition {self.condition}"
        lines = [
            f"{self.uri}: version {self.version}, {asked}: reads {self.read} of "
            f"{number_of(count, 'file')}, {rows} of {all_rows} rows, {size} of {all_size} bytes"
        ]
        lines += [
            f"  left out by {part}: {number_of(files, 'file')}"
            for part, files in self.left_out.items()
        ]
        return lines

    def __str__(self) -> str:
        lines = self.summary()
        for row in self.files.slice(0, SHOWN).to_pylist():
            verb = "read" if row["read"] else "left out"
            known = "" if row["bounds"] is None else f" ({row['bounds']})"
            by = "" if row["decided_by"] is None else f" for {row['decided_by']}"
            lines.append(f"  {row['path']}: {verb}, {row['reason']}{by}{known}")
        if self.files.num_rows > SHOWN:
            lines.append(f"  and {self.files.num_rows - SHOWN} more")
        return printable_lines(lines)


def pruning_report(scan: Scan, file: int | str | None = None) -> PruningReport:
    """Return the reasons for all live files of a scan, or for one.

    Args:
        scan: the read to explain. No data file is read.
        file: id or path of a live file; None: all.

    Raises:
        InvalidArgumentError: no live file has this id or path.
        CorruptTableError: as `Scan.files`.
    """
    snapshot, predicate = scan.snapshot, scan.predicate
    conditional = scan.selection.rows is not None or predicate is not None
    decided = snapshot.read(lambda one: _decided(one, predicate, conditional, file))
    files = decided.sort_by("id")
    if file is not None:
        files = files.filter(pc.equal(files["id" if isinstance(file, int) else "path"], file))
        if not files.num_rows:
            raise InvalidArgumentError(
                f"no file {file!r:.200} is live at version {snapshot.version}. Choose an id or a "
                "path of Table.scan().files(); Table.blame(file=…) tells what became of a file."
            )
    condition = None if predicate is None else _cut(to_sql(predicate))
    return PruningReport(scan.store.uri, snapshot.version, condition, files)


def _decided(
    snapshot: Snapshot,
    predicate: Predicate | None,
    conditional: bool,
    file: int | str | None,
) -> pa.Table:
    """Return FILES of all live files; if `file` is given, of the segments that may hold it."""
    tables = [FILES.empty_table()]
    wanted = None if predicate is None else implied(predicate, snapshot.metadata)
    candidates = set(map(id, snapshot.candidates(wanted)))
    for segment in snapshot.history.segments:
        live = segment.live(snapshot.version)
        if not live.any() or not _may_hold(segment, file):
            continue
        if wanted is None:
            reason = UNKNOWN if conditional else NO_CONDITION
            tables.append(_rows(segment, live, live, None, None, reason))
            continue
        read = np.zeros(len(segment), bool)
        if id(segment) in candidates:
            read = snapshot.survivors(segment, wanted)
        columns = snapshot.deciding(segment, wanted)
        parts = exclusions(wanted, columns, snapshot.partition_ids)
        decider = np.full(len(segment), -1)
        for at, (_, excluded) in reversed(list(enumerate(parts))):
            decider[excluded & ~read] = at
        decided_by = pa.array([_cut(to_sql(part)) for part, _ in parts], pa.string()).take(
            pa.array(decider, mask=decider < 0)
        )
        bounds = _bounds(columns, wanted, parts, decider, snapshot)
        tables.append(_rows(segment, live, read, decided_by, bounds, ALLOWED))
    return pa.concat_tables(tables)


def _may_hold(segment: ManifestSegment, file: int | str | None) -> bool:
    """Return whether a segment may hold the file with this id or path. None: any file."""
    if file is None:
        return True
    if isinstance(file, int):
        ids = segment.files.ids
        return bool(ids[0] <= file <= ids[-1])
    return bool(pc.any(pc.equal(segment.files.columns(["path"])["path"], file)).as_py())


def _rows(
    segment: ManifestSegment,
    live: NDArray[np.bool_],
    read: NDArray[np.bool_],
    decided_by: pa.Array | None,
    bounds: pa.Array | None,
    allowed: str,
) -> pa.Table:
    known = segment.files.columns(["path", "size", "rows"])
    nothing = pa.nulls(len(segment), pa.string())
    decided_by = nothing if decided_by is None else decided_by
    out = pc.if_else(pc.is_valid(decided_by), EXCLUDED, BY_SUMMARY)
    columns = [
        pa.array(segment.files.ids),
        known["path"],
        known["size"],
        known["rows"],
        pa.array(read),
        decided_by,
        nothing if bounds is None else bounds,
        pc.if_else(pa.array(read), allowed, out),
    ]
    return pa.table(columns, schema=FILES).filter(pa.array(live))


def _bounds(
    columns: pa.Table,
    wanted: Predicate,
    parts: Sequence[tuple[Predicate, Any]],
    decider: NDArray[np.int64],
    snapshot: Snapshot,
) -> pa.Array:
    """Return what is known of each file: of the columns that decided, else of all asked for."""
    texts: dict[int, pa.Array] = {}
    for field_id in sorted(fields(wanted)):
        column = snapshot.schema.by_id(field_id)
        texts[field_id] = _known(columns, column, column.id in snapshot.partition_ids)

    def together(ids: set[int]) -> pa.Array:
        some = [texts[each] for each in sorted(ids)]
        if not some:
            return pa.nulls(len(decider), pa.string())
        return some[0] if len(some) == 1 else pc.binary_join_element_wise(*some, "; ")

    result = together(fields(wanted))
    for at in np.unique(decider[decider >= 0]).tolist():
        result = pc.if_else(pa.array(decider == at), together(fields(parts[at][0])), result)
    return result


def _known(columns: pa.Table, column: Field, is_partition: bool) -> pa.Array:
    """Return the value or the bounds and counts of a column in each file, as text."""
    columns = of_partitioning(columns, {column.id} if is_partition else ())
    name = quoted_path(column.name)

    def text(group: str, unknown: str) -> pa.Array:
        held = f"{group}.{column.id}"
        if held not in columns.column_names:
            return pa.repeat(unknown, columns.num_rows)
        return pc.fill_null(_text(columns[held].combine_chunks()), unknown)

    if f"partition.{column.id}" in columns.column_names:
        return pc.binary_join_element_wise(name, " = ", text("partition", "NULL"), "")
    pieces = [name, ": ", text("lower", "unknown"), " to ", text("upper", "unknown")]
    pieces += [", NULLs ", text("nulls", "unknown")]
    if is_float(column.type):
        pieces += [", NaN ", text("nans", "unknown")]
    return pc.binary_join_element_wise(*pieces, "")


def _text(values: pa.Array) -> pa.Array:
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return pa.array(
            [v if v is None else f"X'{v.hex()[:VALUE_MAX]}'" for v in values.to_pylist()]
        )
    return pc.utf8_slice_codeunits(values.cast(pa.string()), 0, VALUE_MAX)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
