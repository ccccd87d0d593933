"""Entries many at a time: runs of them as one object, in powers of 16. Spec: HIS-1 .. HIS-3.

The bytes are those of the entries, so whoever reads them checks what it would check of the entries,
and the chain from the last one back.
"""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Iterator, Sequence, Set

from tablefmt.errors import CorruptEntryError, TablefmtError, VersionNotFoundError
from tablefmt.log.codec import decode, digest
from tablefmt.log.gaps import gap_error
from tablefmt.log.header import follows
from tablefmt.log.names import HISTORY, block_key, block_range, entry_key
from tablefmt.log.reader import read_range
from tablefmt.model.entry import StoredEntry
from tablefmt.store.protocol import Store

logger = logging.getLogger(__name__)

SIZES = (4096, 256, 16)
"""Entries of a block, the largest first."""

WASTE = 8
"""A block is read if at least one in so many of its entries is wanted."""

BLOCK_BYTES_MAX = 64 << 20
"""Of entries together; a run of longer ones is not packed."""

AT_ONCE = 256
"""Entries that are got at once, where no block of them is sound."""

PACKED_MAX = 1 << 24
"""Versions got from blocks, at most: a hint may name a number far beyond the log."""

FEW = 4
"""So many entries are got one by one."""


def pack(bodies: Sequence[bytes]) -> bytes:
    """The bytes of a block, the same whoever makes it."""
    squeeze = zlib.compressobj(6, zlib.DEFLATED, 31)
    return squeeze.compress(b"".join(body + b"\n" for body in bodies)) + squeeze.flush()


def unpack(block: bytes, count: int) -> list[bytes]:
    """The reverse. Raises CorruptEntryError: HIS-1, it does not hold so many entries."""
    grow = zlib.decompressobj(31)
    try:
        whole = grow.decompress(block, BLOCK_BYTES_MAX + count)
    except zlib.error as error:
        raise CorruptEntryError(f"a block of entries is damaged: {error}", rule="HIS-1") from None
    # Counted first: a block of nothing but line ends would be as many objects.
    sound = grow.eof and not grow.unused_data and whole.count(b"\n") == count
    bodies = whole.split(b"\n") if sound else [whole]
    if bodies.pop() != b"" or not sound:
        raise CorruptEntryError("a block does not hold the entries it should", rule="HIS-1")
    return bodies


def cover(first: int, last: int, packed_to: int) -> Iterator[tuple[int, int]]:
    """Blocks and single versions that hold a range, as pairs of first and last. Pure.

    Args:
        first: the first version wanted.
        last: the last one.
        packed_to: blocks that end up to this version are there, probably.
    """
    while first <= last:
        for size in SIZES:
            start = first - first % size
            end = start + size - 1
            used = min(end, last) - first + 1
            if end <= packed_to and used * WASTE >= size:
                yield start, end
                first = end + 1
                break
        else:
            yield first, first
            first += 1


def read_entries(store: Store, first: int, last: int, packed_to: int) -> list[StoredEntry]:
    """Versions in order, both ends inclusive; from blocks where that takes fewer requests.

    Raises: as `read_range`.
    """
    read = read_packed(store, first, last, packed_to)
    return list(read_range(store, first, last)) if read is None else read


def read_packed(store: Store, first: int, last: int, packed_to: int) -> list[StoredEntry] | None:
    """The same; None where blocks are not worth it, or one is missing or damaged."""
    objects = list(cover(first, last, packed_to)) if FEW <= last - first < PACKED_MAX else []
    if len(objects) + 1 >= last - first + 1 or not objects:
        return None
    anchored = [entry_key(last)] if objects[-1][0] < objects[-1][1] else []
    keys = [entry_key(a) if a == b else block_key(a, b) for a, b in objects]
    try:
        bodies = store.get_many([*keys, *anchored])
        anchor = decode(bodies[-1] or b"", last).digest if anchored else None
        entries = list(_chained(objects, bodies[: len(keys)], range(first, last + 1), anchor))
        return entries[::-1]
    except TablefmtError as error:
        # They are copies: what the entries themselves are, only they say.
        logger.info("entries %d to %d are read one by one: %s", first, last, error)
        return None


def _chained(
    objects: Sequence[tuple[int, int]],
    bodies: Sequence[bytes | None],
    wanted: range,
    known: str | None,
) -> Iterator[StoredEntry]:
    """HIS-2: the last one is the entry of its name, and each one names the one before.

    The newest first: nothing of a block is held that the log's own entries do not vouch for.

    Args:
        objects: first and last version of each.
        bodies: theirs.
        wanted: the versions.
        known: the digest of the newest; None: it is an object of its own.

    Raises:
        CorruptEntryError: HIS-1, HIS-2.
    """
    for (start, end), body in zip(reversed(objects), reversed(bodies), strict=True):
        if body is None:
            raise CorruptEntryError("a block is missing", key=block_key(start, end), rule="HIS-2")
        parts = [body] if start == end else unpack(body, end - start + 1)
        for version in range(min(end, wanted[-1]), max(start, wanted[0]) - 1, -1):
            stored = decode(parts[version - start], version)
            if known is not None and stored.digest != known:
                raise CorruptEntryError("a block has other entries than the log", rule="HIS-2")
            known = stored.entry.previous
            yield stored


def write_blocks(store: Store, since: int, last: int) -> int:
    """Write the blocks that end with versions after one up to another; how many are new.

    Args:
        store: the table's root.
        since: blocks that end up to this version are there, as far as anybody cares.
        last: a version that is in the log.

    Raises:
        StoreError: the store does not do it. CorruptTableError: an entry is not there.
    """
    wanted = [
        (end - size + 1, end)
        for size in reversed(SIZES)
        for end in range((since + 1) // size * size + size - 1, last + 1, size)
    ]
    if not wanted:
        return 0
    lowest = min(start for start, _ in wanted)
    after = block_key(lowest, lowest) if lowest else None
    there = {block_range(each.key) for each in store.list_after(HISTORY, after)}
    written = 0
    for start, end in wanted:
        if (start, end) in there:
            continue
        try:
            block = _block_of(store, start, end, there)
        except VersionNotFoundError as gone:
            logger.info("entries %d to %d are not put together: %s", start, end, gone)
            continue
        if block is not None:
            store.put_if_absent(block_key(start, end), block)
            there.add((start, end))
            written += 1
    return written


def _block_of(
    store: Store, start: int, end: int, there: Set[tuple[int, int] | None]
) -> bytes | None:
    """A block, a large one from the smaller ones in it.

    Returns:
        Its bytes; None if there is none: it would be too large, or a smaller one is not there.

    Raises:
        VersionNotFoundError: entries of it were given up. CorruptTableError: one is not there.
        StoreError: the store does not do it.
    """
    size = (end - start + 1) // 16
    if size > 1:
        ranges = [(at, at + size - 1) for at in range(start, end + 1, size)]
        if not there >= set(ranges):
            return None
        bodies: list[bytes] = []
        try:
            for block in store.get_many([block_key(*each) for each in ranges]):
                bodies += unpack(block or b"", size)
                if sum(map(len, bodies)) > BLOCK_BYTES_MAX:
                    return None
            (anchor,) = store.get_many([entry_key(end)])
            if bodies[-1] == anchor and _are_chained(bodies, start):
                return pack(bodies)
            logger.info("a block is made of the entries anew: smaller ones hold other bytes")
        except CorruptEntryError as error:
            logger.info("a block is made of the entries anew: %s", error)
    return _packed_entries(store, start, end)


def _are_chained(bodies: Sequence[bytes], first: int) -> bool:
    """HIS-2: each names the digest of the one before, so the last one vouches for every byte.

    What else is in them is checked by who reads them.
    """
    pairs = enumerate(itertools.pairwise(bodies), first + 1)
    return all(follows(after, version, digest(before)) for version, (before, after) in pairs)


def _packed_entries(store: Store, start: int, end: int) -> bytes | None:
    bodies: list[bytes] = []
    for at in range(start, end + 1, AT_ONCE):
        versions = range(at, min(at + AT_ONCE, end + 1))
        for version, body in zip(
            versions, store.get_many(list(map(entry_key, versions))), strict=True
        ):
            if body is None:
                raise gap_error(store, version, end)
            if b"\n" in body:
                # Lines tell the entries of a block apart, and another writer's has several.
                return None
            bodies.append(body)
        if sum(map(len, bodies)) > BLOCK_BYTES_MAX:
            return None
    return pack(bodies)
