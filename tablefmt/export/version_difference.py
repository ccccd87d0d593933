"""Difference between two versions of a table, as Arrow columns: the plan that all targets share.

A first export uses the difference between nothing and a version, so there is one path for both.
The history is only read; no object per file is made. Spec: XPT-2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablefmt.conflict.read_write_sets import Ids
from tablefmt.expressions.file_pruning import Mask
from tablefmt.model.log_entry import PARTITIONING, Metadata
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_columns import numbers_of, of_partitioning, typed_bounds
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot

NOTHING = -1
"""The version before version 0: no metadata, no file."""


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Files that differ between two versions of a table.

    Each table has the ADD-1 columns, in the types of its metadata, and these columns:

    - `id`, `added`: the file's id, and the version that added it.
    - `deleted`: the number of rows that its deletion vector deletes; 0 if it has none.
    - `vector`: the last version that deleted rows from it; NOTHING if it has no vector.
    - `partitioning`: the number of its partitioning (EVO-2), if its metadata has several.

    The files are in the order of their ids. RESTORE adds a file's path again under a new id, so
    `added` and `removed` may share paths: see `same_paths`.
    """

    base: int
    """Version before; NOTHING for the difference from nothing."""
    version: int
    """Version after."""
    before: Metadata | None
    """Metadata in force at `base`; None for NOTHING."""
    after: Metadata
    added: pa.Table
    """Files that are live at `version` only."""
    removed: pa.Table
    """Files that are live at `base` only, with the vectors of `base`."""
    changed: pa.Table
    """Files that are live at both versions and lost rows in between. `deleted` and `vector` are
    those of `version`. `deleted_before` and `vector_before` are those of `base`.
    """
    deltas: Deltas
    """Deletion vectors of these files."""

    def positions(self, file: int, rows: int, version: int) -> BitMap64:
        """Return the positions that are deleted from one of these files at a version.

        Args:
            file: its id.
            rows: the number of its rows.
            version: at least `base`, at most `version`.

        Raises:
            CorruptEntryError: DEL-1, DEL-2, DEL-4.
        """
        return self.deltas.union(file, rows, version)

    def same_paths(self) -> tuple[Ids, Ids]:
        """Return the files of `removed` whose path `added` has too, and those of `added`: places.

        The same path is the same object with the same rows. Its vectors may differ.
        """
        at = pc.index_in(self.added["path"], value_set=self.removed["path"])
        places = np.flatnonzero(np.asarray(at.is_valid(), np.bool_))
        return at.drop_null().to_numpy().astype(np.int64), places.astype(np.int64)


def difference(view: LogView, base: int, version: int) -> Difference:
    """Return the difference between two known versions of a log.

    Args:
        view: the log.
        base: the version before, or NOTHING.
        version: a later version.

    Raises:
        VersionNotFoundError: a version is not in the history, or has expired.
        CorruptTableError: the log is damaged.
    """
    assert NOTHING <= base < version, (base, version)
    was = None if base == NOTHING else view.snapshot(base)
    now = view.snapshot(version)
    if was is None:
        return from_nothing(now)

    def compare(was: Snapshot, now: Snapshot) -> Difference:
        between = _Between(was.history, now.history, base, version)
        return between.difference(was.metadata, now.metadata)

    return was.read(lambda one: now.read(lambda other: compare(one, other)))


def from_nothing(now: Snapshot) -> Difference:
    """Return the difference between nothing and a snapshot."""
    return now.read(lambda one: _from_nothing(one.history, one.metadata, one.version))


def _from_nothing(history: FileHistory, metadata: Metadata, version: int) -> Difference:
    live = [segment.live(version) for segment in history.segments]
    chosen = _Chosen(history, metadata, version, live)
    nothing = chosen.none()
    return Difference(
        base=NOTHING,
        version=version,
        before=None,
        after=metadata,
        added=chosen.table(chosen.deltas),
        removed=nothing,
        changed=nothing,
        deltas=chosen.deltas,
    )


class _Between:
    """Comparison of two states of one log."""

    def __init__(self, was: FileHistory, now: FileHistory, base: int, version: int) -> None:
        self._now, self._base, self._version = now, base, version
        is_live = [segment.live(version) for segment in now.segments]
        if now.first <= base:
            self._older = now
            was_live = [segment.live(base) for segment in now.segments]
            self._went = [old & ~new for old, new in zip(was_live, is_live, strict=True)]
        else:
            # A later base of the log has no files that were removed before it. An older history
            # does not know the later removals.
            self._older = was
            old_ids, new_ids = _live_ids(was, base), _live_ids(now, version)
            was_live = [np.isin(segment.files.ids, old_ids) for segment in now.segments]
            self._went = [
                segment.live(base) & ~np.isin(segment.files.ids, new_ids)
                for segment in was.segments
            ]
        self._came = [new & ~old for old, new in zip(was_live, is_live, strict=True)]
        self._stayed = [new & old for old, new in zip(was_live, is_live, strict=True)]

    def difference(self, before: Metadata, after: Metadata) -> Difference:
        """Return the difference, with the metadata of both versions."""
        added = _Chosen(self._now, after, self._version, self._came)
        removed = _Chosen(self._older, before, self._base, self._went)
        changed = _Chosen(self._now, after, self._version, self._lost_rows())
        deltas = Deltas.joined([one.deltas for one in (added, removed, changed)])
        both = changed.table(changed.deltas)
        ids = both["id"].to_numpy()
        both = both.append_column(
            "deleted_before", pa.array(changed.deltas.counts(ids, self._base))
        ).append_column("vector_before", pa.array(last_deletes(changed.deltas, ids, self._base)))
        return Difference(
            base=self._base,
            version=self._version,
            before=before,
            after=after,
            added=added.table(added.deltas),
            removed=removed.table(removed.deltas),
            changed=both,
            deltas=deltas,
        )

    def _lost_rows(self) -> list[Mask]:
        """Return masks of the files that are live at both versions and lost rows in between."""
        touched = self._touched()
        if not len(touched):
            return [np.zeros(len(stayed), bool) for stayed in self._stayed]
        masks = self._now.marked(touched)
        return [mask & stayed for mask, stayed in zip(masks, self._stayed, strict=True)]

    def _touched(self) -> Ids:
        """Return the ids of files that lost rows between the versions, ascending."""
        some = [
            part.file[part.takes & (part.version > self._base) & (part.version <= self._version)]
            for part in self._now.deltas
        ]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *some]))


class _Chosen:
    """Files of a history that masks select, one for each manifest segment."""

    def __init__(
        self,
        history: FileHistory,
        metadata: Metadata,
        version: int,
        masks: Sequence[Mask],
    ) -> None:
        self._metadata, self._version = metadata, version
        marked = zip(history.segments, masks, strict=True)
        self._segments = [segment.only(mask) for segment, mask in marked if mask.any()]
        ids = [segment.files.ids for segment in self._segments]
        self._ids = np.sort(np.concatenate([np.zeros(0, np.int64), *ids]))
        self.deltas = _deltas_of(history, self._ids)

    def none(self) -> pa.Table:
        """Return no file, with the columns that every table has."""
        return _no_files(self._metadata.all_partition_ids, self._metadata.is_evolved)

    def table(self, deltas: Deltas) -> pa.Table:
        """Return the files with all columns, in the order of their ids."""
        if not self._segments:
            return self.none()
        partition_ids = self._metadata.all_partition_ids
        tables = []
        for segment in self._segments:
            known = of_partitioning(segment.files.table, partition_ids)
            known = typed_bounds(known, self._metadata.schema.fields)
            numbers = numbers_of(known)
            if PARTITIONING in known.column_names:
                known = known.drop_columns([PARTITIONING])
            if self._metadata.is_evolved:
                known = known.append_column(PARTITIONING, pa.array(numbers))
            known = known.append_column("id", pa.array(segment.files.ids))
            tables.append(known.append_column("added", pa.array(segment.files.added)))
        files = pa.concat_tables(tables, promote_options="permissive")
        ids = files["id"].to_numpy()
        if np.any(ids[1:] <= ids[:-1]):
            files = files.sort_by("id")
            ids = files["id"].to_numpy()
        return files.append_column(
            "deleted", pa.array(deltas.counts(ids, self._version))
        ).append_column("vector", pa.array(last_deletes(deltas, ids, self._version)))


@lru_cache(maxsize=16)
def _no_files(partition_ids: frozenset[int], evolved: bool) -> pa.Table:
    plain = {"path": pa.string(), "size": pa.int64(), "rows": pa.int64()}
    numbers = dict.fromkeys(("id", "added", "deleted", "vector"), pa.int64())
    partitions = {f"partition.{i}": pa.null() for i in sorted(partition_ids)}
    if evolved:
        partitions[PARTITIONING] = pa.int64()
    return pa.schema({**plain, **partitions, **numbers}).empty_table()


def _live_ids(history: FileHistory, version: int) -> Ids:
    ids = [segment.files.ids[segment.live(version)] for segment in history.segments]
    return np.concatenate([np.zeros(0, np.int64), *ids])


def _deltas_of(history: FileHistory, ids: Ids) -> Deltas:
    """Return the deletion vectors of some files; `ids` ascend."""
    parts = []
    for part in history.deltas:
        places = np.minimum(np.searchsorted(ids, part.file), max(0, len(ids) - 1))
        known = ids[places] == part.file if len(ids) else np.zeros(len(part), bool)
        if known.any():
            parts.append(part.only(known))
    return Deltas.joined(parts)


def last_deletes(deltas: Deltas, ids: Ids, version: int) -> Ids:
    """Return the last version, up to `version`, that deleted rows from each file; NOTHING if none.

    Args:
        deltas: deletion vectors that include those of the files.
        ids: the files, each once.
        version: the version of the state.
    """
    last = np.full(len(ids), NOTHING, np.int64)
    if len(deltas) and len(ids):
        places, own = deltas.deleting_from(ids, version)
        np.maximum.at(last, places, deltas.version[own])
    return last
