"""Rows that one commit deleted and added, by file. Pure. Spec: INC-3, INC-5, INC-6.

A commit's deletion vectors identify the rows, both in files that stay and in files that it removes.
Rows that lineage moves did not change. Rows of a file that is removed and added again under another
id did not change either. A file that loses rows in several commits of the range is read once if
that is cheaper. No row is in two changes, because a row is deleted once (DEL-4).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Entry, Lineage, Metadata
from tablefmt.model.positions import (
    DeletionVector,
    decode_positions,
    own_positions,
    pack_positions,
    row_span,
)
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_columns import shared_values
from tablefmt.snapshot.segments import NEVER, ManifestSegment

DELETE = "delete"
PREIMAGE = "update_preimage"
POSTIMAGE = "update_postimage"
INSERT = "insert"

WENT = (DELETE, PREIMAGE)
"""Kinds of rows that a commit deleted, in result order. Added rows follow them."""

RESTORE = "RESTORE"
"""Name of the operation whose equal rows cancel (INC-6)."""

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class FileChanges:
    """Rows of files that one commit changed in the same way."""

    version: int
    timestamp: int
    """Commit timestamp of the entry, µs UTC."""
    change: str
    """Kind of change, as in `_change_type`."""
    partition_ids: frozenset[int]
    """Partition columns of the files when these rows were added or deleted. They may have changed
    since.
    """
    files: pa.Table
    """Files as `read_files` takes them. `vector` has the positions of all other rows, `deleted`
    their number.
    """
    cancels: bool = False
    """True if equal rows, deleted and added in this version, are no change (INC-6)."""

    lost: frozenset[int] = frozenset()
    """Ids of columns that are NULL in all of these rows, because the table had dropped them. Rows
    are compared without these columns.
    """

    @property
    def marks(self) -> tuple[str, int, int]:
        """Return the values of the change columns."""
        return self.change, self.version, self.timestamp

    def is_like(self, other: FileChanges) -> bool:
        """Return True if the files of both hold values of the same columns."""
        return self.partition_ids == other.partition_ids and self.lost == other.lost

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        columns = self.files.select(["rows", "deleted"])
        return int(np.sum(columns["rows"].to_numpy()) - np.sum(columns["deleted"].to_numpy()))


def chosen_rows(files: pa.Table, place: int) -> BitMap64:
    """Return the changed rows in one of the change's files."""
    count, vector = (files[name][place].as_py() for name in ("rows", "vector"))
    every = row_span(count)
    return every if vector is None else every - own_positions(vector)


def with_rows(files: pa.Table, chosen: Mapping[int, BitMap64]) -> pa.Table:
    """Return the files of a change with other rows, by place. Other files keep their rows, or stay
    whole.
    """
    count, places = files.num_rows, np.fromiter(chosen, np.intp, len(chosen))
    deleted, vectors = np.zeros(count, np.int64), pa.nulls(count, pa.large_binary())
    if "vector" in files.column_names:
        deleted, vectors = files["deleted"].to_numpy().copy(), files["vector"].combine_chunks()
        files = files.drop_columns(["deleted", "vector"])
    rows = files["rows"].to_numpy()[places]
    packed = []
    for of_file, meant in zip(rows.tolist(), chosen.values(), strict=True):
        others = row_span(of_file) - meant
        packed.append(pack_positions(others) if others else None)
    deleted[places] = rows - np.array([len(meant) for meant in chosen.values()], np.int64)
    source = np.arange(count)
    source[places] = count + np.arange(len(places))
    vectors = pa.concat_arrays([vectors, pa.array(packed, pa.large_binary())])
    columns = {"deleted": pa.array(deleted), "vector": vectors.take(pa.array(source))}
    for name, values in columns.items():
        files = files.append_column(name, values)
    return files


@dataclass(frozen=True, slots=True, eq=False)
class CommitFacts:
    """Facts of an entry about rows, besides its files and deletion vectors."""

    version: int
    timestamp: int
    restores: bool
    first_id: int
    """First id of the files that it adds."""
    lineage: Lineage | None

    @classmethod
    def of(cls, entry: Entry) -> CommitFacts:
        """Return the facts of an entry that changes the table logically."""
        first_id = entry.totals.next_id - (0 if entry.add is None else len(entry.add))
        restores = entry.operation.name == RESTORE
        return cls(entry.version, entry.timestamp, restores, first_id, entry.lineage)


@dataclass(slots=True, eq=False)
class _Chosen:
    """Files of one kind of change: whole files by place, and other files with their rows."""

    whole: list[Places] = field(default_factory=list)
    some: dict[int, BitMap64] = field(default_factory=dict)
    """Rows by place in the manifest segment; no set is empty."""

    @property
    def is_empty(self) -> bool:
        """Return True if there are no rows."""
        return not self.some and not any(map(len, self.whole))

    def add(self, place: int, rows: BitMap64) -> None:
        """Add rows of a file, if there are any."""
        if rows:
            self.some[place] = rows


class Touched:
    """Every file that the commits of a range touched, and all their deletes."""

    def __init__(self, files: ManifestSegment, deltas: Deltas) -> None:
        """Take the result of `fold` for the range.

        Args:
            files: they include all files that were live before the range and touched in it.
            deltas: deletion vectors of these files, from their first version on.
        """
        self._files, self._deltas = files, deltas
        ids = files.files.ids
        self._rows: NDArray[np.int64] = files.files.table["rows"].to_numpy()
        self._removed = _by_version(files.removed, ids)
        self._added = _by_version(files.files.added, ids)
        self._marked = _by_version(deltas.version, deltas.file)

    @property
    def files(self) -> ManifestSegment:
        """Return the files."""
        return self._files

    @property
    def deltas(self) -> Deltas:
        """Return the deletion vectors of the files."""
        return self._deltas

    def touching(self, mask: NDArray[np.bool_]) -> frozenset[int]:
        """Return the versions that added, removed or deleted rows from one of the masked files."""
        files, marked = self._files, self._deltas
        mine = np.zeros(len(marked), bool)
        mine[np.isin(marked.file, files.files.ids[mask])] = True
        versions = (files.files.added[mask], files.removed[mask], marked.version[mine])
        return frozenset(np.unique(np.concatenate(versions)).tolist()) - {NEVER}

    def by(self, commit: CommitFacts, before: Metadata, after: Metadata) -> list[FileChanges]:
        """Return the changes of one commit, deleted rows first.

        Args:
            commit: in the range.
            before: the metadata in force before the commit.
            after: the metadata in force after it.

        Raises:
            CorruptEntryError: DEL-1, DEL-2, DEL-4, LIN-2.
        """
        chosen = {kind: _Chosen() for kind in (DELETE, PREIMAGE, POSTIMAGE, INSERT)}
        removed, added = (x.get(commit.version, _NONE) for x in (self._removed, self._added))
        marks = self._marks(commit.version)
        copied = self._copied(commit, added)
        twins = self._twins(commit.version, removed, added, marks)
        self._went(chosen, commit.version, removed, marks, _both(copied, twins))
        self._came(chosen, added, marks, _both(self._outputs(commit), twins))
        changes = []
        for kind, rows in chosen.items():
            if rows.is_empty:
                continue
            metadata = before if kind in WENT else after
            files = self._table(rows, commit.version - (kind in WENT), metadata)
            ids = metadata.partition_ids
            changes.append(
                FileChanges(commit.version, commit.timestamp, kind, ids, files, commit.restores)
            )
        return changes

    def _id(self, place: int) -> int:
        return int(self._files.files.ids[place])

    def _places(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return the ids that are in these files, with their places."""
        asked = np.fromiter(ids, np.int64)
        places, lines = self._files.files.find(asked)
        return list(zip(asked[lines].tolist(), places.tolist(), strict=True))

    def _marks(self, version: int) -> dict[int, DeletionVector]:
        """Return the deletion vectors of the commit, by place."""
        at = self._marked.get(version, _NONE)
        files = self._deltas.file[at]
        places = dict(self._places(files.tolist()))
        return {
            places[file]: self._deltas.marks_of(line, int(self._rows[places[file]]))
            for file, line in zip(files.tolist(), at.tolist(), strict=True)
        }

    def _live(self, place: int, version: int) -> BitMap64:
        """Return the rows of a file that are live at a version."""
        rows = int(self._rows[place])
        return row_span(rows) - self._deltas.union(self._id(place), rows, version)

    def _copied(self, commit: CommitFacts, added: Places) -> dict[int, BitMap64]:
        """Return, by place, the rows of inputs that lineage copies into files of this commit
        (LIN-1).
        """
        lineage = commit.lineage
        if lineage is None:
            return {}
        kept = np.zeros(len(added), np.int64)
        copied: dict[int, BitMap64] = {}
        places = dict(self._places(sorted(set(lineage.input))))
        lines = zip(
            lineage.output, lineage.input, lineage.start, lineage.rows, lineage.dropped, strict=True
        )
        for output, file, start, count, text in lines:
            dropped = BitMap64() if text is None else decode_positions(text)
            if dropped and (dropped.min() < start or dropped.max() >= start + count):
                raise _bad(commit.version, "LIN-2", "its lineage drops rows outside the run")
            kept[output] += count - len(dropped)
            if file in places:
                if start + count > self._rows[places[file]]:
                    raise _bad(
                        commit.version, "LIN-2", f"its lineage exceeds the rows of file {file}"
                    )
                run = row_span(start, start + count) - dropped
                before = copied.get(places[file])
                copied[places[file]] = run if before is None else before | run
        outputs = np.unique(np.asarray(lineage.output))
        if np.any(kept[outputs] != self._rows[added[outputs]]):
            raise _bad(commit.version, "LIN-2", "its lineage does not match the rows it adds")
        return copied

    def _outputs(self, commit: CommitFacts) -> dict[int, BitMap64]:
        """Return, by place, the rows of files with copied rows only. None of these rows is new."""
        if commit.lineage is None:
            return {}
        ids = [commit.first_id + at for at in sorted(set(commit.lineage.output))]
        return {place: row_span(int(self._rows[place])) for _, place in self._places(ids)}

    def _twins(
        self, version: int, removed: Places, added: Places, marks: Mapping[int, DeletionVector]
    ) -> dict[int, BitMap64]:
        """Return, by place, the unchanged rows of files that are removed and added again.

        The places include those of the old and the new ids.
        """
        if not len(removed) or not len(added):
            return {}
        paths = self._files.files.table["path"]
        old, new = (paths.take(pa.array(places)) for places in (removed, added))
        found = pc.index_in(new, value_set=old)
        twins = {}
        for at in np.flatnonzero(found.is_valid().to_numpy()).tolist():
            came, went = int(added[at]), int(removed[found[at].as_py()])
            if self._rows[came] == self._rows[went]:
                stays = self._live(went, version - 1)
                if came in marks:
                    stays -= marks[came].all
                twins[came] = twins[went] = stays
        return twins

    def _went(
        self,
        chosen: Mapping[str, _Chosen],
        version: int,
        removed: Places,
        marks: Mapping[int, DeletionVector],
        stays: Mapping[int, BitMap64],
    ) -> None:
        nothing = BitMap64()
        special = _among(removed, marks, stays)
        chosen[DELETE].whole.append(removed[~special])
        for place in removed[special].tolist():
            live = self._live(place, version - 1)
            marked = marks.get(place, DeletionVector(nothing, nothing))
            if not marked.all.issubset(live):
                message = f"it deletes a row of file {self._id(place)} that was deleted before"
                raise _bad(version, "DEL-1", message)
            kept = stays.get(place, nothing)
            chosen[DELETE].add(place, live - marked.updated - kept)
            chosen[PREIMAGE].add(place, marked.updated - kept)
        added = self._added.get(version, _NONE)
        for place in sorted(marks.keys() - removed.tolist() - set(added.tolist())):
            # `union` refuses rows that were deleted before.
            self._deltas.union(self._id(place), int(self._rows[place]), version)
            kept = stays.get(place, nothing)
            chosen[DELETE].add(place, marks[place].deleted - kept)
            chosen[PREIMAGE].add(place, marks[place].updated - kept)

    def _came(
        self,
        chosen: Mapping[str, _Chosen],
        added: Places,
        marks: Mapping[int, DeletionVector],
        stays: Mapping[int, BitMap64],
    ) -> None:
        table = self._files.files.table
        updated = np.zeros(len(added), bool)
        if "updated" in table.column_names:
            updated = table["updated"].take(pa.array(added)).fill_null(False).to_numpy()
        special = _among(added, marks, stays)
        for kind, of_kind in ((POSTIMAGE, updated), (INSERT, ~updated)):
            chosen[kind].whole.append(added[of_kind & ~special])
            for place in added[of_kind & special].tolist():
                rows = row_span(int(self._rows[place]))
                rows -= stays.get(place, BitMap64())
                if place in marks:
                    rows -= marks[place].all
                chosen[kind].add(place, rows)

    def _table(self, chosen: _Chosen, version: int, metadata: Metadata) -> pa.Table:
        """Return the files in the order of ids, each with the positions of its other rows.

        Args:
            chosen: the rows. For whole files, these are the rows live at the version.
            version: the version before the rows were deleted, or after they were added.
            metadata: in force at the version.
        """
        whole = np.concatenate(chosen.whole) if chosen.whole else _NONE
        places = np.concatenate([whole, np.array(sorted(chosen.some), np.intp)])
        ids = self._files.files.ids[places]
        order = np.argsort(ids, kind="stable")
        places, ids = places[order], ids[order]
        touched = (self._deltas.counts(ids, version) > 0) | np.isin(places, list(chosen.some))
        rows = {}
        for at in np.flatnonzero(touched).tolist():
            known = chosen.some.get(int(places[at]))
            rows[at] = self._live(int(places[at]), version) if known is None else known
        files = shared_values(self._files.files.table, metadata)
        return with_rows(files.take(pa.array(places)).append_column("id", pa.array(ids)), rows)


_NONE = np.zeros(0, np.intp)


def _both(one: Mapping[int, BitMap64], other: Mapping[int, BitMap64]) -> dict[int, BitMap64]:
    """Return the union of rows by place."""
    return {at: one.get(at, BitMap64()) | other.get(at, BitMap64()) for at in {*one, *other}}


def _among(places: Places, *known: Mapping[int, object]) -> NDArray[np.bool_]:
    """Return a mask of the places that occur in one of these mappings."""
    said = {place for each in known for place in each}
    return np.isin(places, np.fromiter(said, np.intp, len(said)))


def _by_version(versions: NDArray[np.int64], ids: NDArray[np.int64]) -> dict[int, Places]:
    """Return places in the order of ids, by version. Places without an event are left out."""
    at = np.flatnonzero(versions != NEVER)
    order = at[np.lexsort((ids[at], versions[at]))]
    values = versions[order]
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    ends = np.append(starts[1:], len(values))[: len(starts)]
    return {int(values[start]): order[start:end] for start, end in zip(starts, ends, strict=True)}


def _bad(version: int, rule: str, message: str) -> CorruptEntryError:
    return CorruptEntryError(message, key=entry_key(version), rule=rule)


Uses = list[tuple[int, int]]
"""Change numbers, and the place of a file in each change."""


def shared_files(
    changes: Sequence[FileChanges], budget: int, cost: Callable[[pa.Table, int], int]
) -> dict[int, Uses]:
    """Return files that several changes deleted rows from, as many as fit into the memory limit.

    For each file, return the changes with values of the same columns as the first change.

    Args:
        changes: the changes of a range.
        budget: the memory limit, for the rows of all changes of a file except its first.
        cost: return the memory of a change's rows of a file, from its files and the file's place.
    """
    uses: dict[int, Uses] = {}
    if len(changes) == 1:
        return uses
    for index, change in enumerate(changes):
        if change.change in WENT and change.files["vector"].null_count < change.files.num_rows:
            partial = np.flatnonzero(change.files["vector"].is_valid().to_numpy())
            ids = change.files["id"].to_numpy()[partial]
            for place, file in zip(partial.tolist(), ids.tolist(), strict=True):
                each = uses.setdefault(file, [])
                if not each or changes[each[0][0]].is_like(change):
                    each.append((index, place))
    kept = {}
    for file, each in uses.items():
        if len(each) > 1:
            budget -= sum(cost(changes[index].files, place) for index, place in each[1:])
            if budget < 0:
                break
            kept[file] = each
    return kept


def masks_of(
    changes: Sequence[FileChanges], shared: Mapping[int, Uses]
) -> dict[int, NDArray[np.bool_]]:
    """Return, by change, a mask of its files that are in `shared`."""
    masks: dict[int, NDArray[np.bool_]] = {}
    for index, place in itertools.chain.from_iterable(shared.values()):
        if index not in masks:
            masks[index] = np.zeros(changes[index].files.num_rows, bool)
        masks[index][place] = True
    return masks


def rows_of_change(files: pa.Table, place: int) -> int:
    """Return the number of rows of a change in one of its files."""
    rows, others = (files[name][place].as_py() for name in ("rows", "deleted"))
    return int(rows - others)


def change_row_mapping(
    changes: Sequence[FileChanges], uses: Uses
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of a file that changes deleted, ascending, and the change of each."""
    chosen = [
        np.asarray(chosen_rows(changes[index].files, place).to_array(), np.int64)
        for index, place in uses
    ]
    positions = np.concatenate(chosen)
    of_change = np.repeat([index for index, _ in uses], [len(each) for each in chosen])
    order = np.argsort(positions)
    return positions[order], of_change[order]


def only_rows(files: pa.Table, positions: Sequence[NDArray[np.int64]]) -> pa.Table:
    """Return the files with the given positions only."""
    chosen = {at: BitMap64(each.astype(np.uint64)) for at, each in enumerate(positions)}
    return with_rows(files, chosen)


def first_uses(changes: Sequence[FileChanges], shared: Mapping[int, Uses]) -> pa.Table:
    """Return the files of `shared` in the order of their ids, as listed in the first change of
    each.
    """
    files = [changes[uses[0][0]].files.slice(uses[0][1], 1) for _, uses in sorted(shared.items())]
    return pa.concat_tables(files, promote_options="default")
