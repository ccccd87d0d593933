"""Which checkpoints and blocks of entries may go, and why. Pure. Spec: RET-10.

They are derived: who loses one reads another, or entries. So it is enough that whoever began with
one has long ended, and that enough of them stay for any version to be had fast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablefmt.log.names import block_range, is_part_key, root_version
from tablefmt.maintenance.vacuum_plan import were_old

NEWEST = 2
"""So many of the newest checkpoints stay: one may turn out to be damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What decides about what is derived from entries."""

    head: int
    oldest: int
    """The earliest version that is kept."""
    log_start: int
    """Entries below it were given up (ENT-13), but for a few; 0: none were."""
    named: frozenset[str]
    """Roots that stay whatever there is: those of the newest horizon, and the hint's."""
    before_us: int
    """What was written since may be in somebody's hands, µs UTC."""


def roots_that_stay(roots: Mapping[str, int], needed: Needed) -> frozenset[str]:
    """The names of checkpoints that are of use.

    Beside those that have to stay: the newest, whatever took the place of another one a short time
    ago, and of the rest one in each doubling of the distance to the newest, down to the one that
    the oldest version stands on.

    Args:
        roots: by name, when each was written, µs UTC.
        needed: what is kept.
    """
    versions = {name: root_version(name) or 0 for name in roots}
    ours = [name for name in roots if versions[name] <= needed.head]
    ours.sort(key=lambda name: (versions[name], roots[name], name), reverse=True)
    stay = {name for name in roots if roots[name] > needed.before_us} | needed.named
    stay.update(ours[:NEWEST])
    replaced, distance, standing = False, 1, False
    for name in ours:
        # The first one that is old enough took the place of those before it long ago.
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
    """The objects that may go: lines of the listing with the reason, roots before their parts.

    Args:
        listing: of `_log/checkpoints/` and `_log/history/`.
        stay: names of roots.
        parts: names of all parts that these need; None: that cannot be told, so all parts stay.
        needed: what is kept.
    """
    keys: Sequence[str] = listing["key"].to_pylist()
    old = were_old(listing["modified_us"].to_numpy(), needed.before_us)
    roots, others = [], []
    for at in np.flatnonzero(old).tolist():
        key = keys[at]
        block = block_range(key)
        if root_version(key) is not None and key not in stay:
            roots.append((at, "newer checkpoints took its place"))
        elif is_part_key(key) and parts is not None and key not in parts:
            others.append((at, "no checkpoint that stays names it"))
        elif block is not None and block[1] < needed.log_start:
            others.append((at, f"entries below version {needed.log_start} were given up"))
    return roots + others
