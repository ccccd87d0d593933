"""Objects of a table: listings of its folders, those that entries name, and orphan data files.

Listings are Arrow columns, without a Python object for each key. Orphans are data files that exist
but that no entry names. Spec: RET-6, RET-10, STO-22 (spec/store.md).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.codec import decode, unseal
from tablefmt.log.compacted_log import read_entries
from tablefmt.log.log_reader import kept_from
from tablefmt.log.object_names import (
    CHECKPOINTS,
    ENTRIES,
    entry_key,
    entry_version,
    shared_folder_transaction,
)
from tablefmt.model.log_entry import Entry, LogRetentionHorizon, OverflowFile
from tablefmt.snapshot.checkpoint_reader import listed_roots
from tablefmt.snapshot.checkpoint_root import decode_root
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import ROOT_BYTES_MAX, Store, StoredObject

logger = logging.getLogger(__name__)

_BATCH = 1024

LISTING = pa.schema([("key", pa.string()), ("size", pa.int64()), ("modified_us", pa.int64())])


def listed(store: Store, prefixes: Sequence[str]) -> pa.Table:
    """Return the objects with one of the prefixes, as LISTING, in the order of the prefixes."""
    batches = [batch for prefix in prefixes for batch in _batches(store.list_after(prefix))]
    return pa.Table.from_batches(batches, LISTING)


def bytes_of(objects: pa.Table, without: Iterable[str] = ()) -> int:
    """Return the total bytes of objects with `path` and `size`, except some paths."""
    stay = pc.is_in(objects["path"], value_set=pa.array(without, pa.string()))
    return int(pc.sum(objects["size"].filter(pc.invert(stay))).as_py() or 0)


def _batches(objects: Iterator[StoredObject]) -> Iterator[pa.RecordBatch]:
    objects = iter(objects)
    while some := list(islice(objects, _BATCH)):
        columns = zip(*((one.key, one.size, one.modified_us) for one in some), strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTING, strict=True)]
        yield pa.record_batch(arrays, schema=LISTING)


class Named:
    """Named objects of a whole view. Entries that the view reads later count at once."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._sides: list[str] = []
        self._log_retention_horizon: LogRetentionHorizon | None = None
        for entry in _below(view):
            self._sides += (
                c.path for c in (entry.add, entry.delete) if isinstance(c, OverflowFile)
            )
            if entry.horizon is not None and entry.horizon.log is not None:
                self._log_retention_horizon = entry.horizon.log

    @property
    def sides(self) -> pa.Array:
        """Keys of overflow metadata files."""
        later = (path for _, path in self._view.versions.sides)
        return pa.array([*self._sides, *later], pa.string())

    @property
    def log_retention_horizon(self) -> LogRetentionHorizon | None:
        """The newest retention horizon. Its checkpoints are the only source of the state."""
        known = self._view.versions.log_retention_horizons
        return known[-1][1] if known else self._log_retention_horizon


def _below(view: LogView) -> Iterator[Entry]:
    """Yield existing entries below the view's checkpoint base."""
    store, last = view.store, view.base.version
    if last < 0:
        return
    first = kept_from(store, last)
    listed = (entry_version(one.key) for one in store.list_after(ENTRIES))
    apart = [version for version in listed if version is not None and version < first]
    keys = [entry_key(version) for version in apart]
    for version, body in zip(apart, store.get_many(keys), strict=True):
        if body is not None:
            yield decode(body, version).entry
    yield from (stored.entry for stored in read_entries(store, first, last, last))


LOG_PREFIXES = ("deletes/", "_log/side/", "_log/.probe-", "_log/.tmp-")
"""Prefixes of objects of the log that an entry may name, and of those that none ever names."""


def unnamed_log_objects(view: LogView, *, parts: bool) -> Iterator[StoredObject]:
    """Yield the overflow metadata files, checkpoint parts and left-overs that nothing names.

    The objects are listed before the log is read again, so that no object of a commit in between
    is among them.

    Args:
        view: view of the whole log; it is at the newest version afterwards.
        parts: also read the root of every checkpoint, and look at the parts.
    """
    store = view.store
    found = [one for prefix in LOG_PREFIXES for one in store.list_after(prefix)]
    stored = [*store.list_after(f"{CHECKPOINTS}parts/")] if parts else []
    if found:
        view.refresh()
        named = frozenset(Named(view).sides.to_pylist())
        yield from (one for one in found if one.key not in named)
    if stored:
        known = parts_of(store, listed_roots(store))
        yield from (one for one in stored if known is not None and one.key not in known)


def parts_of(store: Store, roots: Collection[str]) -> frozenset[str] | None:
    """Return all parts that checkpoints need; None if one of them has a newer form."""
    parts: set[str] = set()
    for key, body in zip(roots, store.get_many(list(roots)), strict=True):
        if body is None:
            continue
        try:
            root = decode_root(body, key)
        except (CorruptTableError, UnsupportedFeatureError) as error:
            if _is_whole(body):
                # The root is intact, but of a form that this version does not know.
                return None
            logger.info("ignoring a damaged checkpoint: %s", error)
            continue
        parts |= {part.path for part in (*root.segments, *root.deletes)}
    return frozenset(parts)


def _is_whole(body: bytes) -> bool:
    try:
        unseal(body, ROOT_BYTES_MAX)
    except CorruptTableError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files of one transaction that no entry names."""

    folder: str
    """`data/<transaction>`, or the path of a single file in a shared data folder (DAT-1)."""
    files: int
    bytes: int
    modified_us: int
    """Last write time of the files, in µs since 1970 UTC by the store's clock."""


def unnamed_files(view: LogView, listing: pa.Table | None = None) -> tuple[Unnamed, ...]:
    """List the table's data files, and return those that no entry up to the newest one names.

    If there are any, the log is read again after the listing, so concurrent commits are found.
    `view` is then at the newest version. The result is ordered by folder.

    Args:
        view: view of the whole log (`LogView.open(whole=True)`).
        listing: objects below `data/`, listed after the view was read; None: list them.

    Raises:
        CorruptTableError: one of the concurrent entries is damaged.
    """
    found = listed(view.store, ["data/"]) if listing is None else listing
    suspects = _not_named(view, found)
    if suspects.num_rows and view.refresh():
        suspects = _not_named(view, suspects)
    sums: dict[str, Unnamed] = {}
    for one in suspects.to_pylist():
        folder = _place(one["key"])
        so_far = sums.get(folder, Unnamed(folder, 0, 0, 0))
        latest = max(so_far.modified_us, one["modified_us"])
        sums[folder] = Unnamed(folder, so_far.files + 1, so_far.bytes + one["size"], latest)
    return tuple(sums.values())


def _place(key: str) -> str:
    """Return the common path of a transaction's files."""
    return key if shared_folder_transaction(key) else "/".join(key.split("/")[:2])


def _not_named(view: LogView, objects: pa.Table) -> pa.Table:
    keys = objects["key"]
    known = pa.array(np.zeros(objects.num_rows, bool))
    for segment in view.snapshot().history.segments:
        known = pc.or_(known, pc.is_in(keys, value_set=segment.files.table["path"]))
    return objects.filter(pc.invert(known))
