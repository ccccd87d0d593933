"""Selection of checkpoints and compacted log segments that are no longer needed. Spec: RET-10."""

from __future__ import annotations

import logging
from collections.abc import Collection
from itertools import islice

import pyarrow as pa

from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.codec import unseal
from tablefmt.log.hint import read_hint
from tablefmt.log.names import CHECKPOINTS, HINT, HISTORY, root_version
from tablefmt.maintenance.ages import before_us
from tablefmt.maintenance.derived_plan import Needed, roots_that_stay, superseded
from tablefmt.maintenance.named import Named
from tablefmt.maintenance.vacuum_plan import DOOMED, Limits
from tablefmt.snapshot.checkpoints.root import decode_root
from tablefmt.snapshot.load import LogView
from tablefmt.store.lengths import ROOT_BYTES_MAX
from tablefmt.store.protocol import Store

logger = logging.getLogger(__name__)

FOLDERS = (CHECKPOINTS, HISTORY)

SECONDS = 7200.0
"""Age in seconds at which unneeded checkpoint objects may go. A writer of a checkpoint reuses no
part whose newest checkpoint is older than half of this.
"""

MANY = 40
"""Number of old checkpoints that makes a vacuum due. A vacuum leaves about half as many, even of
the longest log.
"""


def many_checkpoints(store: Store, now_us: int) -> bool:
    """Return whether there are many old checkpoints. Takes one page of a listing."""
    roots = (one for one in store.list_after(f"{CHECKPOINTS}0") if root_version(one.key))
    before = before_us(now_us, SECONDS)
    return sum(0 < one.modified_us <= before for one in islice(roots, 2 * MANY)) >= MANY


def unneeded(view: LogView, listing: pa.Table, named: Named, limits: Limits) -> pa.Table:
    """Return the vacuum candidates in the listing: `DOOMED`, roots before their parts.

    Args:
        view: a view at the head.
        listing: listing of FOLDERS, made before the view.
        named: objects that entries name.
        limits: the limits of what is kept.

    Raises:
        StoreError: the store does not answer.
    """
    (hint_body,) = view.store.get_many([HINT])
    hint = read_hint(hint_body)
    hinted = () if hint is None or hint.checkpoint is None else (hint.checkpoint,)
    log = named.log_horizon
    needed = Needed(
        head=view.head.version,
        oldest=limits.oldest,
        log_start=0 if log is None else log.version,
        named=frozenset((*hinted, *(() if log is None else (k.path for k in log.checkpoints)))),
        before_us=before_us(limits.now_us, SECONDS),
    )
    times = zip(listing["key"].to_pylist(), listing["modified_us"].to_pylist(), strict=True)
    # A root without a time counts as young.
    roots = {k: modified or limits.now_us for k, modified in times if root_version(k) is not None}
    stay = roots_that_stay(roots, needed)
    lines = superseded(listing, stay, _parts_of(view.store, sorted(stay)), needed)
    chosen = listing.take(pa.array([at for at, _ in lines], pa.int64()))
    columns = [
        chosen["key"],
        chosen["size"],
        chosen["modified_us"].cast(pa.timestamp("us", "UTC")),
        pa.nulls(len(lines), pa.int64()),
        pa.array([reason for _, reason in lines], pa.string()),
    ]
    return pa.table(columns, schema=DOOMED)


def _parts_of(store: Store, roots: Collection[str]) -> frozenset[str] | None:
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
