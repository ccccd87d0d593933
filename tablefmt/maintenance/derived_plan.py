"""Rules for removing checkpoints and compacted log segments. Pure. Spec: RET-10.

They are derived objects: a reader that loses one reads another one, or entries. So an object may go
once every reader that may use it has ended. Enough checkpoints stay to open any version fast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablefmt.log.names import block_range, is_part_key, root_version
from tablefmt.maintenance.vacuum_plan import were_old

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
    replaced, distance, standing = False, 1, False
    for name in ours:
        # The first old root superseded the ones before it long ago.
        if not replaced:
            stay.add(name)
            replaced = roots[name] <= needed.before_us
        behind = versions[ours[0]] - versions[name]
        if not standing and behind >= distance:
            stay.add(name)
            distance = 2 * behind
        if not standing and versions[name] <= needed.oldest:
            stay.add(name)
            standing = True
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
        block = block_range(key)
        if root_version(key) is not None and key not in stay:
            roots.append((at, "superseded by newer checkpoints"))
        elif is_part_key(key) and parts is not None and key not in parts:
            others.append((at, "no kept checkpoint names it"))
        elif block is not None and block[1] < needed.log_start:
            others.append((at, f"entries below version {needed.log_start} have expired"))
    return roots + others
