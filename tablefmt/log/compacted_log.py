"""Compacted log segments: runs of entries as one object, in powers of 16. Spec: HIS-1 .. HIS-3.

A segment contains the original bytes of the entries. So a reader checks the same rules as for
single entries, and the chain backwards from the last one.
"""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Iterator, Sequence, Set

from tablefmt.errors import CorruptEntryError, TablefmtError, VersionNotFoundError
from tablefmt.log.codec import decode, digest, follows
from tablefmt.log.log_reader import gap_error, read_range
from tablefmt.log.object_names import HISTORY, entry_key, log_segment_key, log_segment_range
from tablefmt.model.log_entry import StoredEntry
from tablefmt.store.object_store import Store

logger = logging.getLogger(__name__)

SIZES = (4096, 256, 16)
"""Entries per segment, the largest first."""

WASTE = 8
"""A segment is read if at least 1/WASTE of its entries are wanted."""

LOG_SEGMENT_BYTES_MAX = 64 << 20
"""Maximum bytes of all entries together. Longer runs are not compacted."""

AT_ONCE = 256
"""Entries to request at once if no sound segment contains them."""

COMPACTED_MAX = 1 << 24
"""Maximum number of versions read from segments. A hint may name a version far beyond the log."""

FEW = 4
"""Up to this many entries are requested one by one."""


def pack(bodies: Sequence[bytes]) -> bytes:
    """Return the bytes of a segment. They are deterministic."""
    squeeze = zlib.compressobj(6, zlib.DEFLATED, 31)
    return squeeze.compress(b"".join(body + b"\n" for body in bodies)) + squeeze.flush()


def unpack(segment: bytes, count: int) -> list[bytes]:
    """Return the entries of a segment. Raises CorruptEntryError: HIS-1, another number of
    entries.
    """
    grow = zlib.decompressobj(31)
    try:
        whole = grow.decompress(segment, LOG_SEGMENT_BYTES_MAX + count)
    except zlib.error as error:
        message = f"a compacted log segment is damaged: {error}"
        raise CorruptEntryError(message, rule="HIS-1") from None
    # Count first: a segment of only line ends would become as many objects.
    sound = grow.eof and not grow.unused_data and whole.count(b"\n") == count
    bodies = whole.split(b"\n") if sound else [whole]
    if bodies.pop() != b"" or not sound:
        raise CorruptEntryError(
            f"a compacted log segment does not hold {count} entries", rule="HIS-1"
        )
    return bodies


def cover(first: int, last: int, compacted_to: int) -> Iterator[tuple[int, int]]:
    """Yield segments and single versions that cover a range, as pairs of first and last. Pure.

    Args:
        first: the first version wanted.
        last: the last one.
        compacted_to: segments that end at or below this version probably exist.
    """
    while first <= last:
        for size in SIZES:
            start = first - first % size
            end = start + size - 1
            used = min(end, last) - first + 1
            if end <= compacted_to and used * WASTE >= size:
                yield start, end
                first = end + 1
                break
        else:
            yield first, first
            first += 1


def read_entries(store: Store, first: int, last: int, compacted_to: int) -> list[StoredEntry]:
    """Return versions in order, both ends inclusive; from segments if that takes fewer requests.

    Raises: as `read_range`.
    """
    read = read_compacted(store, first, last, compacted_to)
    return list(read_range(store, first, last)) if read is None else read


def read_compacted(
    store: Store, first: int, last: int, compacted_to: int
) -> list[StoredEntry] | None:
    """Return versions from segments; None if single requests are cheaper, or a segment is
    unusable.
    """
    objects = list(cover(first, last, compacted_to)) if FEW <= last - first < COMPACTED_MAX else []
    if len(objects) + 1 >= last - first + 1 or not objects:
        return None
    anchored = [entry_key(last)] if objects[-1][0] < objects[-1][1] else []
    keys = [entry_key(a) if a == b else log_segment_key(a, b) for a, b in objects]
    try:
        bodies = store.get_many([*keys, *anchored])
        anchor = decode(bodies[-1] or b"", last).digest if anchored else None
        entries = list(_chained(objects, bodies[: len(keys)], range(first, last + 1), anchor))
        return entries[::-1]
    except TablefmtError as error:
        # Segments are copies. Only the entries themselves are authoritative.
        logger.info("entries %d to %d are read one by one: %s", first, last, error)
        return None


def _chained(
    objects: Sequence[tuple[int, int]],
    bodies: Sequence[bytes | None],
    wanted: range,
    known: str | None,
) -> Iterator[StoredEntry]:
    """Yield the entries of these objects, newest first, checking the chain (HIS-2).

    The last object is the entry of its name. Each entry names the digest of the one before. In this
    order, an entry from a segment is kept only after the log's own entries confirm it.

    Args:
        objects: first and last version of each object.
        bodies: their bytes.
        wanted: the versions.
        known: the digest of the newest entry; None if that entry is an object of its own.

    Raises:
        CorruptEntryError: HIS-1, HIS-2.
    """
    for (start, end), body in zip(reversed(objects), reversed(bodies), strict=True):
        if body is None:
            key = log_segment_key(start, end)
            raise CorruptEntryError("a compacted log segment is missing", key=key, rule="HIS-2")
        parts = [body] if start == end else unpack(body, end - start + 1)
        for version in range(min(end, wanted[-1]), max(start, wanted[0]) - 1, -1):
            stored = decode(parts[version - start], version)
            if known is not None and stored.digest != known:
                raise CorruptEntryError(
                    "a compacted log segment has other entries than the log", rule="HIS-2"
                )
            known = stored.entry.previous
            yield stored


def write_log_segments(store: Store, since: int, last: int) -> int:
    """Write the segments that end after `since` and up to `last`; return the number of new ones.

    Args:
        store: the table's root.
        since: segments that end at or below this version need not be written.
        last: a version that is in the log.

    Raises:
        StoreError: the store fails. CorruptTableError: an entry is missing.
    """
    wanted = [
        (end - size + 1, end)
        for size in reversed(SIZES)
        for end in range((since + 1) // size * size + size - 1, last + 1, size)
    ]
    if not wanted:
        return 0
    lowest = min(start for start, _ in wanted)
    after = log_segment_key(lowest, lowest) if lowest else None
    there = {log_segment_range(each.key) for each in store.list_after(HISTORY, after)}
    written = 0
    for start, end in wanted:
        if (start, end) in there:
            continue
        try:
            segment = _log_segment_of(store, start, end, there)
        except VersionNotFoundError as expired:
            logger.info("entries %d to %d are not compacted: %s", start, end, expired)
            continue
        if segment is not None:
            store.put_if_absent(log_segment_key(start, end), segment)
            there.add((start, end))
            written += 1
    return written


def _log_segment_of(
    store: Store, start: int, end: int, there: Set[tuple[int, int] | None]
) -> bytes | None:
    """Return the bytes of a segment. A large one is built from the smaller ones.

    Returns:
        The bytes. None if the segment would be too large, or a smaller one is missing.

    Raises:
        VersionNotFoundError: its entries were expired. CorruptTableError: one is missing.
        StoreError: the store fails.
    """
    size = (end - start + 1) // 16
    if size > 1:
        ranges = [(at, at + size - 1) for at in range(start, end + 1, size)]
        if not there >= set(ranges):
            return None
        bodies: list[bytes] = []
        try:
            for segment in store.get_many([log_segment_key(*each) for each in ranges]):
                bodies += unpack(segment or b"", size)
                if sum(map(len, bodies)) > LOG_SEGMENT_BYTES_MAX:
                    return None
            (anchor,) = store.get_many([entry_key(end)])
            if bodies[-1] == anchor and _are_chained(bodies, start):
                return pack(bodies)
            logger.info("rebuilding a compacted log segment: smaller ones hold other bytes")
        except CorruptEntryError as error:
            logger.info("rebuilding a compacted log segment from its entries: %s", error)
    return _compacted_entries(store, start, end)


def _are_chained(bodies: Sequence[bytes], first: int) -> bool:
    """Return True if each entry names the digest of the one before (HIS-2).

    The last entry then confirms every byte. Readers check the rest of the content.
    """
    pairs = enumerate(itertools.pairwise(bodies), first + 1)
    return all(follows(after, version, digest(before)) for version, (before, after) in pairs)


def _compacted_entries(store: Store, start: int, end: int) -> bytes | None:
    bodies: list[bytes] = []
    for at in range(start, end + 1, AT_ONCE):
        versions = range(at, min(at + AT_ONCE, end + 1))
        for version, body in zip(
            versions, store.get_many(list(map(entry_key, versions))), strict=True
        ):
            if body is None:
                raise gap_error(store, version, end)
            if b"\n" in body:
                # Lines separate the entries of a segment, and this entry has several lines.
                return None
            bodies.append(body)
        if sum(map(len, bodies)) > LOG_SEGMENT_BYTES_MAX:
            return None
    return pack(bodies)
