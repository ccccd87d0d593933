"""Checks of the hint and of compacted log segments against the entries. Spec: LOG-6, HIS-1, HIS-2.

Checkpoints and copies have their checks in `manual_checkpoint` and `export.export_check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.codec import digest
from tablefmt.log.compacted_log import SIZES, unpack
from tablefmt.log.log_reader import has_entry, read_hint
from tablefmt.log.object_names import (
    ENTRIES,
    HINT,
    HISTORY,
    entry_key,
    entry_version,
    log_segment_range,
)
from tablefmt.snapshot.checkpoint_reader import read_base
from tablefmt.store.object_store import KeyNotFoundError, Store


def hint_problem(store: Store, head: int, deep: bool) -> CorruptTableError | None:
    """Return the problem of the hint, if it costs readers requests. A missing hint is none.

    Args:
        store: the table's root.
        head: the newest version. A hint of an older one is right, since writers renew it rarely.
        deep: read the checkpoint that it names.
    """
    (body,) = store.get_many([HINT])
    if body is None:
        return None
    hint = read_hint(body)
    if hint is None:
        return CorruptTableError("it is no hint", key=HINT, rule="LOG-6")
    if hint.version > head and not has_entry(store, hint.version):
        message = f"it names version {hint.version}, above the newest version {head}"
        return CorruptTableError(message, key=HINT, rule="LOG-6")
    if hint.checkpoint is None:
        return None
    try:
        if not deep:
            store.size(hint.checkpoint)
        else:
            read_base(store, hint.checkpoint)
    except (CorruptTableError, KeyNotFoundError, UnsupportedFeatureError) as error:
        message = f"the checkpoint that it names cannot be used: {error}"
        return CorruptTableError(message, key=HINT, rule="CKP-8")
    return None


def history_problems(
    store: Store, digests: Mapping[int, str], oldest: int
) -> Iterator[tuple[str, CorruptTableError]]:
    """Yield the problems of compacted log segments, and of the entries that they hold.

    The objects are read one at a time. Entries are compared with a listing, by their lengths.

    Args:
        store: the table's root.
        digests: SHA-256 of the log's entries by version.
        oldest: the first version that the log must have. Older segments are not compared.

    Yields:
        The kind of finding, and the problem.

    Raises:
        StoreError: the store does not answer.
    """
    head = max(digests, default=-1)
    sizes: dict[int, int] | None = None
    seen: set[int] = set()
    for one in store.list_after(HISTORY):
        span = log_segment_range(one.key)
        if span is None or span[1] - span[0] + 1 not in SIZES or span[0] < oldest:
            continue
        if span[1] > head and has_entry(store, span[1]):
            continue  # a commit after the entries were read
        try:
            bodies = unpack(store.get(one.key), span[1] - span[0] + 1)
        except KeyNotFoundError:
            # An expiry removed it meanwhile. No answer of the store is no damage: it is raised.
            continue
        except CorruptTableError as error:
            yield "damaged-history", CorruptTableError(error.detail, key=one.key, rule="HIS-1")
            continue
        wrong = [v for v, b in enumerate(bodies, span[0]) if digests.get(v) != digest(b)]
        if wrong:
            what = "which the log does not have" if wrong[0] > head else "with other bytes"
            message = f"it has version {wrong[0]}, {what}"
            yield "damaged-history", CorruptTableError(message, key=one.key, rule="HIS-2")
            continue
        if sizes is None:
            sizes = entry_sizes(store)
        for version, body in enumerate(bodies, span[0]):
            if version not in seen and sizes.get(version) != len(body):
                yield "restorable-entry", _wrong_entry(version, sizes.get(version), len(body))
        seen.update(range(span[0], span[1] + 1))


def entry_sizes(store: Store) -> dict[int, int]:
    """Return the lengths of the entries in a listing, by version."""
    listed = ((entry_version(one.key), one.size) for one in store.list_after(ENTRIES))
    return {version: size for version, size in listed if version is not None}


def _wrong_entry(version: int, size: int | None, expected: int) -> CorruptTableError:
    key = entry_key(version)
    if size is None:
        return CorruptTableError("the entry is missing", key=key, rule="LOG-2")
    message = f"it is {size} bytes long, but the compacted log segment has {expected} bytes of it"
    return CorruptTableError(message, key=key, rule="ENT-1")
