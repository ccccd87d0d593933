"""Selection of what vacuum removes: from a listing, and of checkpoints and log segments. Pure.

An object may go if no kept version needs it. Either entries say so, by their ages. Or no entry
names the object, and it is too old for a running transaction. Objects outside the naming scheme of
writers stay, and so does another table below this one.

Checkpoints and compacted log segments are derived objects: a reader that loses one reads another
one, or entries. So an object may go once every reader that may use it has ended. Enough checkpoints
stay to open any version fast. Spec: RET-5, RET-6, RET-10.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.log.object_names import is_part_key, log_segment_range, root_version
from tablefmt.maintenance.retention import before_us
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import Metadata
from tablefmt.snapshot.file_history import FileHistory

FOLDERS = ("data/", "deletes/", "_log/side/", "_log/.probe-", "_log/.tmp-")
"""Prefixes of all keys that vacuum examines."""

OWN = (
    r"^data/[0-9a-f]{32}/.+\.parquet$"
    r"|^data/[0-9a-f]{32}/(.*/)?\.tmp-[^/]+$"
    r"|^deletes/[0-9a-f]{32}\.parquet$"
    r"|^_log/side/[0-9a-f]{32}\.parquet$"
    r"|^_log/\.(probe|tmp)-[^/]+$"
)
"""Keys that writers use, by KEY-1."""

_OTHER_TABLE = r"^(data/[0-9a-f]{32}/(?:.*/)?)_log/[0-9]{20}\.json$"

CANDIDATES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("removed_version", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""Vacuum candidates: `modified` by the store; `removed_version` is null if no entry names the
object.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """The limits of what is kept."""

    oldest: int
    """The earliest version that is kept."""
    now_us: int
    """The store's clock, which dates the objects of the listing."""
    unnamed_seconds: float
    """Least age of a candidate that no entry names."""
    adopted: frozenset[int] = frozenset()
    """Numbers of imports whose files may be removed (IMP-2). Other imported files always stay."""


def vacuum_candidates(
    listing: pa.Table, history: FileHistory, named_sides: pa.Array, limits: RetentionLimits
) -> pa.Table:
    """Return the vacuum candidates, as `CANDIDATES`, in the order of the listing.

    Args:
        listing: as `listing.listed` returns it, made before `history` was read.
        history: history of the whole log, at least from `limits.oldest` to its head.
        named_sides: keys of overflow metadata files that an entry in the log names.
        limits: the limits of what is kept.
    """
    found = classified(listing, history, named_sides, limits)
    goes = found.goes
    chosen, removed = listing.filter(pa.array(goes)), found.removed[goes]
    modified = chosen["modified_us"].cast(pa.timestamp("us", "UTC"))
    versions = pa.array(removed, pa.int64(), mask=removed < 0)
    reasons = pa.chunked_array([_reasons(removed, chosen["modified_us"].to_numpy(), limits)])
    columns = [chosen["key"], chosen["size"], modified, versions, reasons]
    return pa.table(columns, schema=CANDIDATES)


@dataclass(frozen=True, slots=True, eq=False)
class ClassifiedObjects:
    """Facts that decide about each object of a listing (RET-6)."""

    removed: NDArray[np.int64]
    """Last version that removed a file of this path; NEVER while it is live, -1 if no file has
    it."""
    oldest: int
    """The earliest version that is kept."""
    is_side: NDArray[np.bool_]
    """An entry names it as an overflow metadata file."""
    is_old: NDArray[np.bool_]
    """It is too old for a running transaction."""
    is_own: NDArray[np.bool_]
    """Writers of this table make such names, and it is in no other table's folder."""
    is_foreign: NDArray[np.bool_]
    """It is an imported file that vacuum never removes (IMP-2)."""
    is_adopted: NDArray[np.bool_]
    """It is an imported file that vacuum may remove."""

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Return a mask of the objects that a kept version or an entry needs."""
        return (self.removed > self.oldest) | self.is_side

    @property
    def goes(self) -> NDArray[np.bool_]:
        """Return a mask of the vacuum candidates."""
        # Without an entry that names it, only the naming scheme and the age of an object tell.
        named = self.removed >= 0
        ours = self.is_own & ~self.is_foreign
        return ~self.needed & ((ours & (named | self.is_old)) | (self.is_adopted & named))


def classified(
    listing: pa.Table, history: FileHistory, named_sides: pa.Array, limits: RetentionLimits
) -> ClassifiedObjects:
    """Return the facts about each object. Args: as `vacuum_candidates`."""
    assert history.first <= limits.oldest, (history.first, limits.oldest)
    keys = listing["key"]
    cutoff_us = before_us(limits.now_us, limits.unnamed_seconds)
    foreign, adopted = _imported(keys, history, limits.adopted)
    return ClassifiedObjects(
        removed=_removed_versions(keys, history),
        oldest=limits.oldest,
        is_side=_mask(pc.is_in(keys, value_set=named_sides)),
        is_old=were_old(listing["modified_us"].to_numpy(), cutoff_us),
        is_own=_mask(pc.match_substring_regex(keys, OWN)) & ~_of_other_tables(keys),
        is_foreign=foreign,
        is_adopted=adopted,
    )


def _removed_versions(keys: pa.ChunkedArray, history: FileHistory) -> NDArray[np.int64]:
    """Return the last version that removed a file of each key's path.

    NEVER while a file is live, and -1 if no file has the path.
    """
    removed = np.full(len(keys), -1, np.int64)
    if not len(keys):
        return removed
    for segment in history.segments:
        paths = segment.files.table["path"]
        # A path may be twice in a manifest segment: removed, and restored under another id.
        order = np.argsort(segment.removed, kind="stable")[::-1]
        at = pc.index_in(keys, value_set=paths.take(pa.array(order)))
        known = np.flatnonzero(_mask(at.is_valid()))
        places = order[at.drop_null().to_numpy()]
        removed[known] = np.maximum(removed[known], segment.removed[places])
    return removed


def _imported(
    keys: pa.ChunkedArray, history: FileHistory, adopted: frozenset[int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the keys of imported files: those that stay, and those of adopted imports."""
    foreign, ours = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
    known = pa.array(sorted(adopted), pa.int64())
    for segment in history.segments:
        if NUMBER not in segment.files.names or not len(keys):
            continue
        files = segment.files.columns(["path", NUMBER])
        files = files.filter(pc.is_valid(files[NUMBER]))
        mine = pc.is_in(files[NUMBER], value_set=known)
        ours |= _mask(pc.is_in(keys, value_set=files["path"].filter(mine).combine_chunks()))
        rest = files["path"].filter(pc.invert(mine)).combine_chunks()
        foreign |= _mask(pc.is_in(keys, value_set=rest))
    return foreign, ours & ~foreign


def adopted_imports(metadata: Metadata) -> frozenset[int]:
    """Return the numbers of the imports whose files may be removed."""
    return frozenset(number for number, each in metadata.imports.items() if each.adopt)


def were_old(modified_us: NDArray[np.int64], cutoff_us: int) -> NDArray[np.bool_]:
    """Return which objects were written that early; objects without a time are young (RET-6)."""
    return (modified_us > 0) & (modified_us <= cutoff_us)


def last_removal(history: FileHistory, after: int, last: int) -> int:
    """Return the newest version in a range that removed a path for good; 0 for none.

    Arguments as for `removals`.
    """
    return int(removals(history, after, last).max(initial=0))


def removals(history: FileHistory, after: int, last: int) -> NDArray[np.int64]:
    """Return the versions in a range that were the last to remove a path, one for each path.

    Args:
        history: history of the whole log.
        after: lower bound, exclusive.
        last: upper bound, inclusive.
    """
    removed = [
        segment.files.columns(["path"]).append_column("removed", pa.array(segment.removed))
        for segment in history.segments
    ]
    if not removed:
        return np.empty(0, np.int64)
    last_ones = pa.concat_tables(removed).group_by("path").aggregate([("removed", "max")])
    versions = last_ones["removed_max"].to_numpy()
    chosen: NDArray[np.int64] = versions[(versions > after) & (versions <= last)]
    return chosen


def _of_other_tables(keys: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return which keys are in the folder of another table."""
    logs = keys.filter(pc.match_substring_regex(keys, _OTHER_TABLE))
    roots = pc.unique(pc.replace_substring_regex(logs, _OTHER_TABLE, r"\1")).to_pylist()
    mask = np.zeros(len(keys), np.bool_)
    for root in roots:
        mask |= _mask(pc.starts_with(keys, root))
    return mask


def _reasons(
    removed: NDArray[np.int64], modified: NDArray[np.int64], limits: RetentionLimits
) -> pa.Array:
    versions, places = np.unique(removed, return_inverse=True)
    texts = [f"removed by version {v}, longer ago than the retention" for v in versions.tolist()]
    named = pa.array(texts, pa.string()).take(pa.array(places.reshape(-1)))
    times = pc.strftime(pa.array(modified, pa.timestamp("us")), "%Y-%m-%dT%H:%M:%SZ")
    allowed = f"; a file not committed within {limits.unnamed_seconds:.0f} s is never committed"
    unnamed = pc.binary_join_element_wise("no entry names it, written ", times, allowed, "")
    return pc.if_else(pa.array(removed >= 0), named, unnamed)


def _mask(values: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    return np.asarray(values, np.bool_)


NEWEST = 2
"""Number of newest checkpoints that stay, because one may be damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Facts that decide which derived objects may go."""

    head: int
    oldest: int
    """The earliest version that is kept."""
    log_start: int
    """Entries below it have expired (ENT-13), except a few; 0 if none have."""
    named: frozenset[str]
    """Roots that always stay: those of the newest retention horizon, and the hint's."""
    before_us: int
    """Objects written later may be in use, µs since 1970 UTC."""


def roots_that_stay(roots: Mapping[str, int], needed: Needed) -> frozenset[str]:
    """Return the keys of checkpoints that stay.

    They are the required ones, the newest, and any that was superseded only recently. Of the rest,
    one stays in each doubling of the distance to the newest, down to the base of the oldest
    version.

    Args:
        roots: write time of each root by key, in µs since 1970 UTC.
        needed: the facts about what is kept.
    """
    versions = {name: root_version(name) or 0 for name in roots}
    ours = [name for name in roots if versions[name] <= needed.head]
    ours.sort(key=lambda name: (versions[name], roots[name], name), reverse=True)
    stay = {name for name in roots if roots[name] > needed.before_us} | needed.named
    stay.update(ours[:NEWEST])
    replaced, distance, found_usable = False, 1, False
    for name in ours:
        # The first old root superseded the ones before it long ago.
        if not replaced:
            stay.add(name)
            replaced = roots[name] <= needed.before_us
        behind = versions[ours[0]] - versions[name]
        if not found_usable and behind >= distance:
            stay.add(name)
            distance = 2 * behind
        if not found_usable and versions[name] <= needed.oldest:
            stay.add(name)
            found_usable = True
    return frozenset(stay)


def superseded(
    listing: pa.Table, stay: Collection[str], parts: Collection[str] | None, needed: Needed
) -> list[tuple[int, str]]:
    """Return the objects that may go: listing rows with the reason, roots before their parts.

    Args:
        listing: listing of `_log/checkpoints/` and `_log/history/`.
        stay: keys of roots that stay.
        parts: keys of all parts that these need; None if unknown, so that all parts stay.
        needed: the facts about what is kept.
    """
    keys: Sequence[str] = listing["key"].to_pylist()
    old = were_old(listing["modified_us"].to_numpy(), needed.before_us)
    roots, others = [], []
    for at in np.flatnonzero(old).tolist():
        key = keys[at]
        block = log_segment_range(key)
        if root_version(key) is not None and key not in stay:
            roots.append((at, "superseded by newer checkpoints"))
        elif is_part_key(key) and parts is not None and key not in parts:
            others.append((at, "no kept checkpoint names it"))
        elif block is not None and block[1] < needed.log_start:
            others.append((at, f"entries below version {needed.log_start} have expired"))
    return roots + others
