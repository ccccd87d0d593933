"""Data files that exist but that no entry names.

Spec: STO-22 (spec/store.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.log.names import guest_of
from tablefmt.maintenance.listing import listed
from tablefmt.snapshot.load import LogView


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files of one transaction that no entry names."""

    folder: str
    """`data/<transaction>`, or the path of a single file in a shared data folder (DAT-1)."""
    files: int
    bytes: int
    modified_us: int
    """Last write time of the files, in µs since 1970 UTC by the store's clock."""


def unnamed_files(view: LogView) -> tuple[Unnamed, ...]:
    """List the table's data files, and return those that no entry up to the newest one names.

    If there are any, the log is read again after the listing, so concurrent commits are found.
    `view` is then at the newest version. The result is ordered by folder.

    Args:
        view: view of the whole log (`LogView.open(whole=True)`).

    Raises:
        CorruptTableError: one of the concurrent entries is damaged.
    """
    suspects = _not_named(view, listed(view.store, ["data/"]))
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
    return key if guest_of(key) else "/".join(key.split("/")[:2])


def _not_named(view: LogView, objects: pa.Table) -> pa.Table:
    keys = objects["key"]
    known = pa.array(np.zeros(objects.num_rows, bool))
    for segment in view.snapshot().history.segments:
        known = pc.or_(known, pc.is_in(keys, value_set=segment.files.table["path"]))
    return objects.filter(pc.invert(known))
