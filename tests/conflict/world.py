"""A table in memory: transactions staged on a version and committed by the conflict rules alone.

Rows are tuples (k, p, v, w); p is the partition. Files hold rows in an order, entries hold
positions, and nothing here looks at a row once a transaction is staged: what a commit does to the
table comes from `check` and `follow`.

So the rows of a version here are what the rules under test lead to, by files and positions: what is
compared, not what it is compared with. That are the functions of rows in `histories`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from tablefmt.conflict import conflict_check as rules
from tablefmt.conflict import rebase
from tablefmt.conflict.read_write_sets import (
    ConcurrentCommit,
    DeletionVector,
    Group,
    Keys,
    Output,
    PendingCommit,
    Read,
    Run,
    own_file,
)
from tablefmt.conflict.verdict import Conflict, RebasedOver
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.predicate import Predicate
from tablefmt.model.content_hashes import encode_hashes, hash_keys
from tablefmt.model.log_entry import (
    AddedFiles,
    Basis,
    Entry,
    Lineage,
    Metadata,
    Operation,
    OperationClass,
    PartitionScope,
    RowUpdate,
    Scope,
    Totals,
)
from tablefmt.model.positions import encode_positions, row_deletes
from tablefmt.model.schema import Field, Primitive

SCHEMA = schema_from("k BIGINT, p BIGINT, v BIGINT, w BIGINT")
METADATA = Metadata(SCHEMA, partition_by=(SCHEMA.fields[1].id,))
COLUMNS: dict[str, Field] = {f.name: f for f in SCHEMA.fields}
K, P, V, W = (COLUMNS[name].id for name in "kpvw")

Row = tuple[int, int, int, int]
Rows = list[Row]
Where = Callable[[Row], bool]


@dataclass(frozen=True)
class Level:
    """The properties that decide."""

    granularity: str = "row"
    isolation: str = "WriteSerializable"
    delete_mode: str = "merge-on-read"


@dataclass
class NewFile:
    rows: Rows
    updated: bool = False
    keys: bool = False
    """The hashes of its keys are in the entry."""


@dataclass
class Staged:
    """One transaction between its reads and its commit."""

    mine: PendingCommit
    files: list[NewFile] = field(default_factory=list)
    replaces: frozenset[int] | None = None
    """Partitions that an OVERWRITE replaces, decided when it commits."""
    set_columns: tuple[int, ...] | None = None
    read_version: int = 0
    name: str = ""
    done: int = 0
    """Number of concurrent commits already rebased over."""
    passed: list[RebasedOver] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        mine = self.mine
        gone = len(mine.removes) or mine.deletes or mine.groups
        return not (self.files or gone or self.replaces is not None)


@cache
def hashes_of(keys: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return hash_keys([pa.array(keys, pa.int64())], [Primitive("long")])


class World:
    """A log of concurrent commits and the files they name."""

    def __init__(self, level: Level, base: Iterable[Rows] = ()) -> None:
        self.level = level
        self.data: dict[int, Rows] = {}
        self.log: list[ConcurrentCommit] = []
        self.states: list[tuple[dict[int, None], dict[int, BitMap64]]] = [({}, {})]
        self.next_ids = [1]
        self.ids = 1
        for rows in base:
            assert self.commit(self.insert(rows)) is None
        self.base = len(self.log)

    @property
    def version(self) -> int:
        """Return the number of entries. It is also the index of the newest state."""
        return len(self.log)

    def rows(self, version: int | None = None) -> Rows:
        """The live rows at a version, sorted."""
        files, vectors = self.states[self.version if version is None else version]
        return sorted(row for f in files for _, row in live(self.data[f], vectors.get(f)))

    def files(self, version: int) -> list[int]:
        return list(self.states[version][0])

    def vector(self, file: int, version: int) -> BitMap64:
        return self.states[version][1].get(file, BitMap64())

    # -- staging

    def insert(self, rows: Rows, version: int | None = None) -> Staged:
        """A blind append."""
        return self.staged(OperationClass.INSERT, new_files(rows), version, touched(rows))

    def overwrite(
        self,
        partitions: set[int] | None,
        rows: Rows,
        version: int | None = None,
        scope: Scope | str = "",
    ) -> Staged:
        given = touched_of(partitions) if scope == "" else scope
        staged = self.staged(OperationClass.OVERWRITE, new_files(rows), version, given)  # type: ignore[arg-type]
        staged.replaces = frozenset({0, 1, 2} if partitions is None else partitions)
        return staged

    def change(
        self,
        where: Where,
        predicate: Predicate | None,
        columns: frozenset[int] | None,
        new: Callable[[Row], Row] | None,
        *,
        set_columns: tuple[int, ...] = (),
        scope: Scope = None,
        keys: tuple[int, ...] | None = None,
        by_row: bool = True,
        whole_read: bool = False,
        inserts: Callable[[Rows], Rows] | None = None,
        version: int | None = None,
        partitions: frozenset[int] | None = None,
    ) -> Staged:
        """DELETE (`new` is None), UPDATE, MERGE, or INSERT from a read (`inserts`)."""
        at = self.version if version is None else version
        opened = [
            f
            for f in self.files(at)
            if self.data[f] and (partitions is None or self.data[f][0][1] in partitions)
        ]
        found = {
            f: [i for i, row in live(self.data[f], self.vector(f, at)) if where(row)]
            for f in opened
        }
        found = {f: positions for f, positions in found.items() if positions}
        matched = [self.data[f][i] for f, positions in found.items() for i in positions]
        read = Read(
            predicate=predicate,
            by_row=by_row,
            files=np.array(opened, np.int64),
            rows=None if whole_read else {f: BitMap64(i) for f, i in found.items()},
            columns=columns,
            keys=None if keys is None else Keys((K,), hashes_of(keys)),
        )
        inserted = inserts(matched) if inserts is not None else []
        changes = new is not None or inserts is None
        updated = [new(row) for row in matched] if new is not None else []
        files = [*new_files(updated, updated=True), *new_files(inserted, keys=keys is not None)]
        staged = self.staged(OperationClass.UPDATE, files, at, scope)
        staged.set_columns = set_columns
        mine = replace(staged.mine, reads=(read,))
        staged.mine = mine
        if changes:
            self._take_out(staged, found, updated=new is not None)
        return staged

    def _take_out(self, staged: Staged, found: dict[int, list[int]], updated: bool) -> None:
        mine, at = staged.mine, staged.read_version
        marks = {
            f: DeletionVector(
                BitMap64() if updated else BitMap64(i), BitMap64(i) if updated else BitMap64()
            )
            for f, i in found.items()
        }
        if mine.delete_mode != "copy-on-write":
            whole = [
                f for f, i in found.items() if len(i) + len(self.vector(f, at)) == len(self.data[f])
            ]
            said = {f: m for f, m in marks.items() if updated or f not in whole}
            staged.mine = replace(mine, deletes=said, removes=np.array(sorted(whole), np.int64))
            return
        copied: list[Output] = []
        for f, positions in found.items():
            dropped = self.vector(f, at) | BitMap64(positions)
            kept = [row for i, row in enumerate(self.data[f]) if i not in dropped]
            if kept:
                run = Run(f, 0, len(self.data[f]), dropped)
                copied.append((len(staged.files), (run,)))
                staged.files.append(NewFile(kept))
        removes = np.array(sorted(found), np.int64)
        staged.mine = replace(mine, deletes=marks, removes=removes, copied=tuple(copied))

    def scan(
        self, predicate: Predicate | None, partitions: frozenset[int] | None, version: int
    ) -> Read:
        """All live rows of the files of some partitions."""
        opened = [
            f
            for f in self.files(version)
            if self.data[f] and (partitions is None or self.data[f][0][1] in partitions)
        ]
        return Read(predicate=predicate, files=np.array(opened, np.int64))

    def drop_partition(self, p: int, predicate: Predicate, version: int | None = None) -> Staged:
        """DELETE of a whole partition, decided on metadata."""
        at = self.version if version is None else version
        gone = [f for f in self.files(at) if self.data[f] and self.data[f][0][1] == p]
        staged = self.staged(OperationClass.UPDATE, [], at, touched_of({p}))
        read = Read(predicate=predicate, rows={}, columns=frozenset({P}))
        staged.mine = replace(staged.mine, reads=(read,), removes=np.array(gone, np.int64))
        return staged

    def compact(
        self,
        cls: OperationClass,
        groups: Sequence[Sequence[int]],
        version: int | None = None,
        splits: Sequence[int] = (),
        order: Callable[[Rows], Rows] | None = None,
    ) -> Staged:
        """Rewrite groups of files; `splits` cuts a group's rows into several outputs."""
        at = self.version if version is None else version
        partitions = {self.data[f][0][1] for g in groups for f in g if self.data[f]}
        staged = self.staged(cls, [], at, touched_of(partitions))
        made: list[Group] = []
        for number, group in enumerate(groups):
            inputs = [(f, self.data[f], self.vector(f, at)) for f in group]
            cut = splits[number] if number < len(splits) else 0
            outputs = []
            for runs, rows in parts_of(inputs, cut):
                if order is not None:
                    rows, runs = order(rows), ()  # type: ignore[assignment]
                outputs.append((len(staged.files), tuple(runs)))
                staged.files.append(NewFile(rows))
            made.append(Group(np.array(sorted(group), np.int64), tuple(outputs)))
        staged.mine = replace(staged.mine, groups=tuple(made))
        return staged

    def staged(
        self, cls: OperationClass, files: list[NewFile], version: int | None, scope: Scope
    ) -> Staged:
        at = self.version if version is None else version
        mine = PendingCommit(
            cls=cls,
            granularity=self.level.granularity,
            isolation=self.level.isolation,
            delete_mode=self.level.delete_mode,
            scope=scope,
            metadata=METADATA,
            read_version=at - 1,
            next_id=self.next_ids[at],
        )
        return Staged(mine, files, read_version=at, done=at, name=cls.value)

    # -- committing

    def commit(self, staged: Staged) -> Conflict | None:
        """Rebase over every concurrent commit, then commit. Stop at the first conflict."""
        found = self.follow(staged)
        if found is None and not self.is_nothing(staged):
            self.append(self.entry_of(staged))
        return found

    def is_nothing(self, staged: Staged) -> bool:
        compaction = staged.mine.cls.value in ("MINOR_COMPACT", "MAJOR_COMPACT", "CLUSTER")
        return staged.is_empty or (compaction and not staged.mine.groups)

    def follow(self, staged: Staged) -> Conflict | None:
        while staged.done < self.version:
            concurrent = self.log[staged.done]
            verdict = rules.check(concurrent, staged.mine)
            if verdict is not None:
                assert isinstance(verdict, Conflict)
                return verdict
            staged.mine, allowed = rebase.rebase_onto(concurrent, staged.mine)
            staged.passed.append(allowed)
            staged.done += 1
        return None

    def entry_of(self, staged: Staged) -> ConcurrentCommit:
        """Return the entry above the newest version."""
        mine = staged.mine
        kept = list(range(len(staged.files)))
        if mine.groups:
            kept = sorted(i for g in mine.groups for i, _ in g.outputs)
        ids = {own_file(index): self.ids + at for at, index in enumerate(kept)}
        files = [staged.files[i] for i in kept]
        live_now = self.files(self.version)
        if staged.replaces is None:
            removed = sorted(
                {*mine.removes.tolist(), *(f for g in mine.groups for f in g.inputs.tolist())}
            )
        else:
            removed = sorted(
                f for f in live_now if self.data[f] and self.data[f][0][1] in staged.replaces
            )
        for file, new in zip(ids.values(), files, strict=True):
            self.data[file] = new.rows
        deletes = {ids.get(file, file): marks for file, marks in mine.deletes.items()}
        outputs = [*mine.copied, *(o for g in mine.groups for o in g.outputs)]
        lines = [
            (kept.index(i), run) for i, runs in sorted(outputs, key=lambda o: o[0]) for run in runs
        ]
        first = self.ids
        self.ids += len(files)
        entry = Entry(
            table="ab" * 16,
            version=self.version,
            timestamp=self.version,
            time_version=self.version,
            transaction=f"{self.version:032x}",
            previous=None,
            operation=Operation(name=staged.name, cls=mine.cls),
            basis=Basis(
                read_version=mine.read_version,
                isolation=mine.isolation,
                granularity=mine.granularity,
                blind=mine.cls is OperationClass.INSERT,
                scope=mine.scope,
            ),
            totals=Totals(files=0, rows=0, bytes=0, next_id=first + len(files), metadata_version=0),
            add=added(first, files) if files else None,
            remove=removed,
            delete=row_deletes(deletes),
            lineage=lineage_of(lines),
            update=None
            if mine.cls is not OperationClass.UPDATE
            else RowUpdate(set=staged.set_columns, keys=(K,)),
        )
        return ConcurrentCommit(entry, typed(files) if files else None, deletes)

    def append(self, concurrent: ConcurrentCommit) -> None:
        """Take an entry in; what a reader would refuse fails here."""
        entry = concurrent.entry
        files, vectors = (dict(part) for part in self.states[-1])
        for file in entry.remove:
            assert file in files, f"version {entry.version} removes {file}, which is not live"
            del files[file]
            vectors.pop(file, None)
        count = len(entry.add) if entry.add is not None else 0
        files.update(dict.fromkeys(range(entry.totals.next_id - count, entry.totals.next_id)))
        for file, marks in concurrent.deletes.items():
            if file in entry.remove:
                continue
            assert file in files, f"version {entry.version} deletes in {file}, which is not live"
            before, rows = vectors.get(file, BitMap64()), marks.all
            assert before.isdisjoint(rows), f"version {entry.version} deletes rows twice"
            assert not rows or rows.max() < len(self.data[file])
            vectors[file] = before | rows  # type: ignore[operator]
        self.log.append(concurrent)
        self.states.append((files, vectors))  # type: ignore[arg-type]
        self.next_ids.append(entry.totals.next_id)


def live(rows: Rows, vector: BitMap64 | None) -> list[tuple[int, Row]]:
    if not vector:
        return list(enumerate(rows))
    return [(i, row) for i, row in enumerate(rows) if i not in vector]


def new_files(rows: Rows, *, updated: bool = False, keys: bool = False) -> list[NewFile]:
    """One file a partition."""
    return [
        NewFile([row for row in rows if row[1] == p], updated, keys)
        for p in sorted({row[1] for row in rows})
    ]


def touched(rows: Rows) -> Scope:
    return touched_of({row[1] for row in rows})


def touched_of(partitions: Iterable[int] | None) -> Scope:
    if partitions is None:
        return None
    return PartitionScope(tuple((p,) for p in sorted(partitions)))


def parts_of(
    inputs: Sequence[tuple[int, Rows, BitMap64]], cut: int
) -> list[tuple[list[Run], Rows]]:
    """Runs and rows of one output, or of two if the first gets `cut` rows."""
    parts: list[tuple[list[Run], Rows]] = [([], [])]
    left = cut
    for file, rows, vector in inputs:
        start = 0
        while start < len(rows) or (start == 0 and not rows):
            end, kept = start, 0
            limit = left if cut and len(parts) == 1 else len(rows) + 1
            while end < len(rows) and (kept < limit or end in vector):
                kept += end not in vector
                end += 1
            dropped = BitMap64(i for i in vector if start <= i < end)
            if end > start:
                parts[-1][0].append(Run(file, start, end - start, dropped))
                parts[-1][1].extend(rows[i] for i in range(start, end) if i not in vector)
            if cut and len(parts) == 1:
                left -= kept
                if left <= 0:
                    parts.append(([], []))
            if end == len(rows):
                break
            start = end
    return [part for part in parts if part[1]] or parts[:1]


def added(first: int, files: Sequence[NewFile]) -> AddedFiles:
    columns: dict[str, list[Any]] = {
        "path": [f"data/x/{first + i}.parquet" for i in range(len(files))],
        "size": [1] * len(files),
        "rows": [len(f.rows) for f in files],
        f"partition.{P}": [f.rows[0][1] if f.rows else None for f in files],
    }
    if any(f.updated for f in files):
        columns["updated"] = [f.updated for f in files]
    if any(f.keys for f in files):
        columns["keys"] = [
            encode_hashes(hashes_of(tuple(sorted({r[0] for r in f.rows})))) if f.keys else None
            for f in files
        ]
    return AddedFiles(columns)


def typed(files: Sequence[NewFile]) -> pa.Table:
    """The columns by which files are pruned."""
    columns: dict[str, list[Any]] = {
        "rows": [len(f.rows) for f in files],
        f"partition.{P}": [f.rows[0][1] if f.rows else None for f in files],
    }
    for at, column in ((0, K), (2, V), (3, W)):
        values = [[row[at] for row in f.rows] for f in files]
        columns[f"lower.{column}"] = [min(v) if v else None for v in values]
        columns[f"upper.{column}"] = [max(v) if v else None for v in values]
        columns[f"nulls.{column}"] = [0] * len(files)
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def lineage_of(lines: Sequence[tuple[int, Run]]) -> Lineage | None:
    if not lines:
        return None
    return Lineage(
        output=[output for output, _ in lines],
        input=[run.file for _, run in lines],
        start=[run.start for _, run in lines],
        rows=[run.rows for _, run in lines],
        dropped=[encode_positions(run.dropped) if run.dropped else None for _, run in lines],
    )
