"""Search for the commits that inserted or deleted the rows of a file, a partition or a condition.

The changes are those of the change feed, by commit and file. Most are known from the log: the
search skips commits whose files cannot match, and reads a data file only to count the rows of a
condition that bounds do not decide. Spec: INC-3 .. INC-6, LIN-1, PRN-4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.change_reader import Answer, begins_with, surviving_files
from tablefmt.changes.change_schema import (
    CHANGE_COLUMNS,
    dropped_columns,
    lost_columns,
    without_columns,
)
from tablefmt.changes.commit_rows import INSERT, WENT, FileChanges
from tablefmt.changes.feed_plan import TouchedRange, rows_of, touched_in
from tablefmt.changes.version_range import Covered
from tablefmt.conflict.read_write_sets import Ids
from tablefmt.data.selection import Condition, RowSelection, filter_of, select_rows
from tablefmt.errors import (
    CorruptTableError,
    InvalidArgumentError,
    InvalidRangeError,
    VersionNotFoundError,
)
from tablefmt.expressions.file_pruning import Mask, decided_by_partitions, may_match
from tablefmt.expressions.filter_tuples import filters_to_predicate
from tablefmt.expressions.literals import literal_sql
from tablefmt.expressions.predicate import Predicate, all_of, fields, quote_name
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.inspection.blame_report import BLAME, CHANGES, PATHS, BlameReport
from tablefmt.log.entry_json import derived_to_json
from tablefmt.log.log_reader import kept_from
from tablefmt.model.cached_property import cached_property
from tablefmt.model.log_entry import NOT_LOGICAL, Entry, Lineage, Metadata
from tablefmt.model.name_matching import there_are
from tablefmt.model.schema import Schema, with_hidden_columns
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.file_columns import of_partitioning, typed_bounds


@dataclass(frozen=True, slots=True)
class Target:
    """Rows to search for: those of a file, or those that a condition selects."""

    text: str
    """The rows, in words."""
    file: int | str | None = None
    selection: RowSelection | None = None

    def mask(self, files: pa.Table, ids: Ids, schema: Schema, parts: frozenset[int]) -> Mask:
        """Return a mask of the files that may hold such rows."""
        if isinstance(self.file, int):
            found: Mask = ids == self.file
            return found
        if self.file is not None:
            return np.asarray(pc.equal(files["path"], self.file), np.bool_)
        predicate = None if self.selection is None else self.selection.predicate
        if predicate is None:
            return np.ones(len(ids), np.bool_)
        if set(fields(predicate)) - {field.id for field in schema.fields} - parts:
            raise InvalidArgumentError(
                f"the partitioning changed in these versions, so {self.text} is not known for all "
                "files; give `where`, or later versions"
            )
        known = [n for n in files.column_names if "." in n
                 and int(n.partition(".")[2]) in fields(predicate)]  # fmt: skip
        columns = of_partitioning(files.select(["rows", *known]), parts)
        return may_match(predicate, typed_bounds(columns, schema.fields), parts)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts about a commit that the report shows, or that connect files."""

    row: Mapping[str, Any]
    first_id: int
    """First id of the files that it adds."""
    count: int
    """Number of files that it adds."""
    moves: bool
    """True if it only moves rows."""
    removed: Sequence[int]
    lineage: Lineage | None

    @classmethod
    def of(cls, entry: Entry) -> _Facts:
        """Return the facts of an entry."""
        count = 0 if entry.add is None else len(entry.add)
        derived, user = entry.derived_from, entry.user_metadata
        row = {
            "version": entry.version,
            "timestamp": entry.timestamp,
            "operation": entry.operation.name,
            "read_version": entry.basis.read_version,
            "transaction": entry.transaction,
            "application": None if entry.application is None else entry.application.id,
            "condition": entry.basis.predicate,
            "user_metadata": orjson.dumps(dict(user)).decode() if user else None,
            "derived_from": None if derived is None
            else orjson.dumps(derived_to_json(derived)).decode(),
        }  # fmt: skip
        moves = entry.operation.cls in NOT_LOGICAL
        return cls(row, entry.totals.next_id - count, count, moves, entry.remove, entry.lineage)

    def inputs(self, wanted: Collection[int]) -> set[int]:
        """Return the files whose rows this commit moved into the wanted files."""
        outputs = {file - self.first_id for file in wanted
                   if self.first_id <= file < self.first_id + self.count}  # fmt: skip
        if not outputs:
            return set()
        if self.lineage is not None:
            pairs = zip(self.lineage.output, self.lineage.input, strict=True)
            return {file for output, file in pairs if output in outputs}
        return set(self.removed) if self.moves else set()


@dataclass(frozen=True, slots=True)
class Blamed:
    """Result of a search."""

    commits: pa.Table
    """Columns of BLAME."""
    traced: tuple[str, ...]
    """Paths of older files whose rows were moved into the file."""


class BlameSearch:
    """One search in a range of versions."""

    def __init__(self, context: TableContext, target: Target, range_: Covered) -> None:
        self._context, self._view, self._target = context, context.view, target
        self._range = range_
        self._schema = self._view.head.metadata.schema
        self._facts: dict[int, _Facts] = {}
        self._partitionings: set[tuple[int, ...]] = set()
        self._touched: TouchedRange | None = None

    def run(self) -> Blamed:
        """Return the changes of all commits of the range.

        Raises:
            VersionNotFoundError, CorruptTableError: as `touched_in`. CorruptDataError: a data file
                that a kept version needs is damaged.
            InvalidArgumentError: no file of the range, or before it, is the one asked for.
        """
        self._touched = touched_in(self._view, self._range, self._note)
        rows: list[dict[str, Any]] = []
        ids, paths = np.zeros(0, np.int64), pa.chunked_array([[]], pa.string())
        if self._touched is not None:
            files = self._touched.touched.files.files
            mask, own = self._matching(files.table, files.ids)
            ids = files.ids[mask]
            paths = files.table["path"].filter(pa.array(mask & ~own))
            rows += self._changes(self._touched.changes(self._view, mask), ids)
            rows += list(self._rewrites(self._touched, mask, rows))
        rows += self._present(ids)
        if self._target.file is not None and not rows and not len(ids):
            raise InvalidArgumentError(
                f"no entry of versions {self._range.first} to {self._range.last} names file "
                f"{self._target.file!r:.200}. Choose a path or an id of Table.scan().files()."
            )
        rows.sort(key=lambda row: (row["version"] or -1, CHANGES.index(row["change"])))
        traced = tuple(pc.unique(paths).to_pylist()[:PATHS])
        return Blamed(pa.Table.from_pylist(rows, BLAME), traced)

    def _note(self, entry: Entry) -> None:
        self._facts[entry.version] = _Facts.of(entry)
        if entry.metadata is not None:
            self._partitionings.update(entry.metadata.numbered.values())

    @cached_property
    def _parts(self) -> frozenset[int]:
        """Partition columns whose values tell about every file; none if they changed."""
        before = self._range.before
        if before >= 0:
            self._partitionings.update(self._view.metadata_at(before).numbered.values())
        known = self._partitionings
        return frozenset(next(iter(known))) if len(known) == 1 else frozenset()

    def _matching(self, table: pa.Table, ids: Ids) -> tuple[Mask, Mask]:
        """Return masks of the files to follow, and of those among them that were asked for."""
        own = self._target.mask(table, ids, self._schema, self._parts)
        if self._target.file is None:
            return own, own
        wanted = set(ids[own].tolist())
        for version in sorted(self._facts, reverse=True):
            wanted |= self._facts[version].inputs(wanted)
        return own | np.isin(ids, list(wanted)), own

    def _changes(self, changes: Sequence[FileChanges], ids: Ids) -> list[dict[str, Any]]:
        selection = self._target.selection
        if selection is not None and lost_columns(
            self._view, self._range, self._schema, ends=False
        ):
            changes = [self._without_dropped(each) for each in changes]
        chosen = [each for each in (self._of_target(c, ids) for c in changes) if each is not None]
        counts = self._counted(chosen)
        rows = []
        for at, change in enumerate(chosen):
            count = counts[at]
            if count != 0:
                facts = self._facts[change.version].row
                rows.append(self._row(facts, change.change, change.files, count, change.rows))
        return rows

    def _without_dropped(self, change: FileChanges) -> FileChanges:
        """Return the change without values of columns that the table did not have then (INC-7)."""
        version = max(0, change.version - (change.change in WENT))
        then = self._view.metadata_at(version).schema
        return without_columns(change, dropped_columns(self._schema, then))

    def _of_target(self, change: FileChanges, ids: Ids) -> FileChanges | None:
        """Return the change with the files that may hold rows of the target."""
        mask = np.isin(change.files["id"].to_numpy(), ids)
        if not mask.any():
            return None
        change = replace(change, files=change.files.filter(pa.array(mask)))
        selection = self._target.selection
        if selection is None or selection.predicate is None:
            return change
        return surviving_files(change, selection.predicate, self._schema)

    def _counted(self, changes: Sequence[FileChanges]) -> dict[int, int | None]:
        """Return the number of rows of the target in each change, by its place; None: unknown.

        Files are read only if bounds do not decide, and if every file of the change is kept.
        """
        counts: dict[int, int | None] = {}
        to_read: dict[tuple[str, int], int] = {}
        kept = [self._are_kept(change.files["id"].to_numpy()) for change in changes]
        # Equal rows of such a commit cancel, so one side alone says nothing (INC-6).
        lost = {c.version for c, is_kept in zip(changes, kept, strict=True)
                if c.cancels and not is_kept}  # fmt: skip
        for at, change in enumerate(changes):
            cancels = change.cancels and self._target.selection is not None
            if self._are_whole(change.partition_ids) and not cancels:
                counts[at] = change.rows
            elif kept[at] and change.version not in lost:
                counts[at], to_read[change.change, change.version] = 0, at
            else:
                counts[at] = None
        if to_read:
            selection = self._target.selection
            assert selection is not None
            asked = self._context.store, self._schema, (), CHANGE_COLUMNS, selection.rows
            for batch in Answer(*asked).batches([changes[at] for at in to_read.values()]):
                at = to_read[batch.column(0)[0].as_py(), batch.column(1)[0].as_py()]
                counts[at] = (counts[at] or 0) + batch.num_rows
        return counts

    def _are_whole(self, partition_ids: frozenset[int]) -> bool:
        """Return True if all rows of a file with these partition columns are the target's."""
        selection = self._target.selection
        if selection is None or selection.rows is None:
            return True
        predicate = selection.predicate
        if predicate is None or not selection.exact:
            return False
        return decided_by_partitions(predicate, partition_ids)

    def _are_kept(self, ids: Ids) -> bool:
        """Return True if no vacuum may have removed one of the files."""
        if self._touched is None:
            return True
        files = self._touched.touched.files
        places, _ = files.files.find(ids)
        return bool(np.all(files.removed[places] > self._view.head.totals.oldest))

    def _row(
        self,
        facts: Mapping[str, Any],
        change: str,
        files: pa.Table,
        rows: int | None,
        most: int,
    ) -> dict[str, Any]:
        paths = files["path"].slice(0, PATHS).to_pylist()
        return {
            **facts,
            "change": change,
            "files": files.num_rows,
            "rows": rows,
            "rows_max": most if rows is None else rows,
            "paths": paths,
        }

    def _rewrites(
        self, found: TouchedRange, mask: Mask, changed: Sequence[Mapping[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Yield rows about files that came or went, as far as their rows are in no change.

        A condition gets none: its rows stay the same, and files would be read for nothing.
        """
        if not self._are_whole(self._parts):
            return
        files, deltas = found.touched.files, found.touched.deltas
        ids, table = files.files.ids, files.files.table
        written = table["rows"].to_numpy()
        known: dict[tuple[int, bool], int] = {}
        for row in changed:
            key = row["version"], row["change"] in WENT
            known[key] = known.get(key, 0) + row["rows_max"]
        for went, versions in ((True, files.removed), (False, files.files.added)):
            for version in np.unique(versions[mask]).tolist():
                facts = self._facts.get(version)
                if facts is None:
                    continue
                at = np.flatnonzero(mask & (versions == version))
                # A commit may delete rows of a file that it adds: those were deleted before.
                live = written[at] - deltas.counts(ids[at], version - went)
                rows = int(live.sum()) - known.get((version, went), 0)
                if rows > 0:
                    kind = "rewritten_out" if went else "rewritten_in"
                    some = table.select(["path"]).take(pa.array(at))
                    yield self._row(facts.row, kind, some, rows, rows)

    def _present(self, touched: Ids) -> list[dict[str, Any]]:
        """Return the row about rows that were there before the range, if there are any."""
        before = self._range.before
        if before < 0 or self._range.begins:
            return []
        view, target = self._view, self._target
        parts = view.metadata_at(before).partition_ids
        history, tables, added = view.files_at(before), [], []
        for segment in history.segments:
            live = segment.live(before)
            if not live.any():
                continue
            mask = live & target.mask(segment.files.table, segment.files.ids, self._schema, parts)
            if target.file is not None:
                mask |= live & np.isin(segment.files.ids, touched)
            chosen = segment.files.take(np.flatnonzero(mask), ["path", "rows"])
            if chosen.num_rows:
                ids = segment.files.ids[mask]
                deleted_before = history.all_deltas.counts(ids, before)
                left = chosen["rows"].to_numpy() - deleted_before
                tables.append(chosen.select(["path"]).append_column("left", pa.array(left)))
                added.append(segment.files.added[mask])
        if not tables:
            return []
        files = pa.concat_tables(tables)
        most, versions = int(files["left"].to_numpy().sum()), np.unique(np.concatenate(added))
        facts = {"version": int(versions[0]) if len(versions) == 1 else None}
        rows = most if self._are_whole(parts) else self._count_present(before)
        return [] if rows == 0 else [self._row(facts, "present", files, rows, most)]

    def _count_present(self, before: int) -> int | None:
        state = self._view.state_at(before)
        change: FileChanges | None = rows_of(state, INSERT, before, state.timestamp)
        selection = self._target.selection
        if change is not None and selection is not None and selection.predicate is not None:
            change = surviving_files(change, selection.predicate, self._schema)
        return 0 if change is None else self._counted([change])[0]


def blame(
    context: TableContext,
    *,
    file: int | str | None = None,
    partition: Mapping[str, Any] | None = None,
    where: Condition = None,
    starting_version: int | str | None = None,
    ending_version: int | str | None = None,
) -> BlameReport:
    """Return the commits that inserted or deleted some rows. See `Table.blame`."""
    if sum(each is not None for each in (file, partition, where)) != 1:
        raise InvalidArgumentError(
            "blame needs exactly one of file, partition and where. Pass one of them."
        )
    context.view.refresh()
    view = context.view
    target = _target(view.head.metadata, file, partition, where)
    last = view.head.version if ending_version is None else context.version_of(ending_version)
    oldest, begins = _first_of_table(context)
    first = oldest if starting_version is None else context.version_of(starting_version)
    if not oldest <= first <= last <= view.head.version:
        raise InvalidRangeError(
            f"versions {first} to {last} are not a range in the log, which has versions {oldest} "
            f"to {view.head.version}. Choose starting_version and ending_version in between."
        )
    whole = starting_version is None
    ranges = [Covered(first, last, True, begins=0 < first == oldest and begins)]
    if first == oldest and not begins:
        # The log begins in the middle of the table, so the state before it may have expired.
        later = (first + 1, view.head.totals.oldest + 1) if whole else ()
        ranges += [Covered(each, last, True) for each in dict.fromkeys(later) if each <= last]
    for range_ in ranges:
        try:
            found = BlameSearch(context, target, range_).run()
        except (VersionNotFoundError, CorruptTableError) as error:
            lost = isinstance(error, CorruptTableError) and error.rule != "LOG-8"
            if lost or range_ is ranges[-1]:
                raise
            continue
        break
    return BlameReport(
        uri=context.store.uri,
        target=target.text,
        first_version=range_.first,
        last_version=last,
        complete=begins and range_.first == oldest,
        expired=not begins and whole,
        traced=found.traced,
        commits=found.commits,
    )


def _target(
    metadata: Metadata,
    file: int | str | None,
    partition: Mapping[str, Any] | None,
    where: Condition,
) -> Target:
    """Return the rows to search for. Raises InvalidArgumentError, and as `select_rows`."""
    if file is not None:
        if isinstance(file, bool) or not isinstance(file, int | str):
            raise InvalidArgumentError(
                f"file {file!r:.200} is neither a path nor an id; both are in Table.scan().files()"
            )
        return Target(f"file {file}", file)
    if partition is None:
        text = where if isinstance(where, str) else repr(where)
        return Target(f"condition {text:.300}", None, select_rows(where, metadata.schema))
    names = [field.name for field in metadata.all_partition_fields]
    unknown = [name for name in partition if name not in names] if partition else ["{}"]
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]!r:.200} is not a partition column; {there_are(unknown[0], names)}"
        )
    columns = with_hidden_columns(metadata.schema)
    predicate = all_of([_is_value(name, value, columns) for name, value in partition.items()])
    # No row has the value of a hidden field, so files are chosen as a whole.
    hidden = {field.id for field in metadata.schema.hidden} & set(fields(predicate))
    rows = None if hidden else filter_of(predicate, metadata.schema)
    selection = RowSelection(predicate, rows)
    shown = ", ".join(f"{name} = {value}" for name, value in partition.items())
    return Target(f"partition {shown:.300}", None, selection)


def _is_value(name: str, value: Any, schema: Schema) -> Predicate:
    """Return the condition that a column has a value. Text is cast to the type of the column."""
    if value is None:
        return parse_predicate(f"{quote_name(name)} IS NULL", schema)
    if isinstance(value, str):
        return parse_predicate(f"{quote_name(name)} = {literal_sql(value, 'string')}", schema)
    return filters_to_predicate([(name, "=", value)], schema)


def _first_of_table(context: TableContext) -> tuple[int, bool]:
    """Return the first version of the log that belongs to the table, and if it created the table.

    Entries before it may belong to a dropped table.
    """
    view = context.view

    def is_own(version: int) -> bool:
        (stored,) = view.entries_after(version - 1, version)
        return stored.entry.table == view.head.table

    first = kept_from(context.store, view.head.version)
    if is_own(first):
        return first, begins_with(view, first)
    low, high = first, view.head.version
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_own(middle) else (middle, high)
    return high, True
