"""Choice of the manifests that a snapshot keeps, writes again and merges. Pure.

The manifests of data files have disjoint ranges of file ids. A commit adds one manifest, and writes
those again that list a removed file. When there are many small manifests, the newest ones become
one: each is written again a number of times that grows with the logarithm. Spec: XPT-25.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tablefmt.export.iceberg_manifests import Manifest

FULL = 16_384
"""Maximum number of data files in a manifest."""

SMALL_MAX = 32
"""Maximum number of manifests that are less than half full."""

DELETES_FULL = 1000
"""Maximum number of delete files in a manifest: format 3 writes one again for each new vector."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """Manifests of the next snapshot."""

    kept: list[Manifest]
    ranges: list[tuple[int, int]]
    """Ranges of file ids whose manifests are written, ascending and disjoint."""


def plan_data(old: Sequence[Manifest], added: Ids, removed: Ids) -> ManifestPlan:
    """Return the manifests of data files of the next snapshot.

    Args:
        old: the manifests of data files of the snapshot before.
        added: ids of the files that come, above all that the manifests list.
        removed: ids of the files that go.
    """
    old = sorted((m for m in old if m.live), key=lambda m: m.low)
    again = [_has(manifest, removed) for manifest in old]
    spans = [(m.low, m.high, m.live, hit) for m, hit in zip(old, again, strict=True)]
    if len(added):
        spans.append((int(added.min()), int(added.max()), len(added), True))
    small = [span for span in spans if span[2] < FULL // 2]
    if len(small) > SMALL_MAX:
        start = _merge_from([span[2] for span in spans])
        spans = [
            (low, high, live, hit or at >= start) for at, (low, high, live, hit) in enumerate(spans)
        ]
        if sum(not hit and live < FULL // 2 for _, _, live, hit in spans) > SMALL_MAX:
            spans = [(low, high, live, True) for low, high, live, _ in spans]
    ranges: list[tuple[int, int]] = []
    joins = False
    for low, high, _, hit in spans:
        if hit:
            ranges = [*ranges[:-1], (ranges[-1][0], high)] if joins else [*ranges, (low, high)]
        joins = hit
    kept = [m for m, span in zip(old, spans, strict=False) if not span[3]]
    return ManifestPlan(kept, ranges)


def _has(manifest: Manifest, ids: Ids) -> bool:
    first, last = np.searchsorted(ids, [manifest.low, manifest.high + 1])
    return bool(last > first)


def _merge_from(sizes: Sequence[int]) -> int:
    """Return the place from which on manifests become one.

    At least half of the allowed number goes, and then each one that is not much larger than all
    later ones together. A full one stays.
    """
    at, total = len(sizes), 0
    while at > 0 and sizes[at - 1] < FULL // 2:
        if len(sizes) - at >= SMALL_MAX // 2 and sizes[at - 1] > 2 * total:
            break
        at -= 1
        total += sizes[at]
    return at


def chunks(ids: Ids, most: int) -> list[Ids]:
    """Return ids in parts of at most `most`, of about the same size."""
    if not len(ids):
        return []
    return np.array_split(ids, -(-len(ids) // most))


def plan_deletes(old: Sequence[Manifest], touched: Ids) -> tuple[list[Manifest], list[Manifest]]:
    """Return the manifests of delete files that stay, and those to read and write again.

    Args:
        old: the manifests of delete files of the snapshot before.
        touched: ids of data files whose delete files are replaced or go, ascending.
    """
    old = [manifest for manifest in old if manifest.live]
    again = [manifest for manifest in old if _has(manifest, touched)]
    kept = [manifest for manifest in old if not _has(manifest, touched)]
    if len(kept) > SMALL_MAX:
        kept.sort(key=lambda m: m.live)
        again += kept[: SMALL_MAX // 2 + len(kept) - SMALL_MAX]
        kept = kept[SMALL_MAX // 2 + len(kept) - SMALL_MAX :]
    return kept, again
