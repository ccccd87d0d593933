"""Data files that are there, and in no entry.

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
    """The files of one transaction that no entry names."""

    folder: str
    """`data/<transaction>`, or the path of a lone file in the folder of another one (DAT-1)."""
    files: int
    bytes: int
    modified_us: int
    """When the last of them was written, µs UTC by the store's clock."""


def unnamed_files(view: LogView) -> tuple[Unnamed, ...]:
    """List the table's data files and tell those that no entry up to the newest one names.

    What lands meanwhile is found by one look at the log after the listing, if need be; `view` is at
    the newest version then. In the order of the folders' names.

    Args:
        view: of the whole log (`LogView.open(whole=True)`).

    Raises:
        CorruptTableError: in the entries that came meanwhile.
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
    """What a transaction's files have in common."""
    return key if guest_of(key) else "/".join(key.split("/")[:2])


def _not_named(view: LogView, objects: pa.Table) -> pa.Table:
    keys = objects["key"]
    known = pa.array(np.zeros(objects.num_rows, bool))
    for segment in view.snapshot().history.segments:
        known = pc.or_(known, pc.is_in(keys, value_set=segment.files.table["path"]))
    return objects.filter(pc.invert(known))
