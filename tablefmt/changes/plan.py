"""Which files' rows a range of versions inserted and deleted. Pure. Spec: INC-3, INC-4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.changes.range import Covered
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.snapshot.load import LogView
from tablefmt.snapshot.state import Snapshot

DELETE = "delete"
INSERT = "insert"

CHANGE_COLUMNS = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Files whose rows one commit inserted, or deleted, as a whole."""

    version: int
    timestamp: int
    """The entry's commit timestamp, µs UTC."""
    change: str
    """INSERT or DELETE."""
    files: pa.Table
    """As `read_files` takes them: those deleted have the rows that were live till then."""


def plan_changes(view: LogView, snapshot: Snapshot, range_: Covered) -> list[FileChanges]:
    """Changes in the order of versions; within one, deletes first.

    Args:
        view: the log, at or after the end of the range.
        snapshot: of the end of the range.
        range_: the versions.

    Raises:
        UnsupportedFeatureError: INC-4, a commit in the range changed rows otherwise.
        CorruptEntryError: DEL-1, DEL-2, DEL-4.
    """
    if range_.empty:
        return []
    beyond = [v for v in view.beyond_files if range_.first <= v <= range_.last]
    if beyond:
        raise UnsupportedFeatureError(
            f"version {beyond[0]} changed single rows, and this version cannot read such changes "
            "yet; read up to the version before it, or read whole snapshots",
            ["changes:row-deletes"],
        )
    logical = np.frombuffer(bytes(view.timeline.logical), np.uint8).astype(bool)
    gone = _by_version(snapshot.removed, range_, logical)
    came = _by_version(snapshot.added, range_, logical)
    found = []
    for version in sorted(gone.keys() | came.keys()):
        timestamp = view.timeline.timestamps[version]
        for change, places in ((DELETE, gone), (INSERT, came)):
            if version in places:
                files = _files(snapshot, places[version], version - (change == DELETE))
                found.append(FileChanges(version, timestamp, change, files))
    return found


def _files(snapshot: Snapshot, places: NDArray[np.int64], version: int) -> pa.Table:
    """Files with the rows they had at a version: those that went before came and went earlier."""
    ids = snapshot.ids[places]
    files = snapshot.columns.take(pa.array(places)).append_column("id", pa.array(ids))
    gone = pa.array(snapshot.deltas.counts(ids, version))
    return snapshot.with_vectors(files.append_column("deleted", gone), version)


def _by_version(
    versions: NDArray[np.int64], range_: Covered, logical: NDArray[np.bool_]
) -> dict[int, NDArray[np.int64]]:
    """Places of files by the version that touched them, for logical versions in the range."""
    at = np.flatnonzero((versions >= range_.first) & (versions <= range_.last))
    at = at[logical[versions[at]]]
    order = at[np.argsort(versions[at], kind="stable")]
    return dict(_runs(order, versions[order]))


def _runs(
    places: NDArray[np.int64], versions: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    starts = np.flatnonzero(np.diff(versions, prepend=-1))
    ends = np.append(starts[1:], len(versions))[: len(starts)]
    for start, end in zip(starts, ends, strict=True):
        yield int(versions[start]), places[start:end]
