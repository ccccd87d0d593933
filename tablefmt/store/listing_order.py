"""Put the listings of servers in the order of STO-9. Pure.

S3 lists keys by UTF-8 bytes; servers written in Java list by UTF-16 units. The two orders differ
only for characters from U+E000 on, because UTF-16 writes characters beyond U+FFFF with units below
U+E000.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tablefmt.errors import StoreError
from tablefmt.store.object_store import StoredObject

_FIRST_DOUBTFUL = "\ud800"
_FIRST_DOUBTFUL_BYTE = 0xEE
"""First UTF-8 byte of U+E000. Every later character begins with this byte or a greater one."""


def start_after(after: str) -> str:
    """Return a `StartAfter` value that misses no key greater than `after` in either order."""
    doubtful = (place for place, character in enumerate(after) if character >= _FIRST_DOUBTFUL)
    return after[: next(doubtful, len(after))]


def in_order(
    objects: Iterable[StoredObject], after: str | None, uri: str
) -> Iterator[StoredObject]:
    """Yield the objects whose key is greater than `after`, ascending by bytes, each once.

    Lazy up to the first key whose place depends on the server's order. The rest is collected.

    Raises:
        StoreError: the server uses neither of the two orders.
    """
    floor = last = b"" if after is None else after.encode("utf-8", "surrogatepass")
    rest: list[tuple[bytes, StoredObject]] = []
    for one in objects:
        encoded = one.key.encode("utf-8")
        # Some servers repeat a key or start too early. Folder markers are not objects.
        if encoded <= floor or encoded == last or one.key.endswith("/"):
            continue
        if rest or max(encoded) >= _FIRST_DOUBTFUL_BYTE:
            rest.append((encoded, one))
            continue
        if encoded < last:
            raise StoreError(
                f"the store at {uri} lists {one.key!r} after {last.decode()!r}. The keys are "
                "out of order, so the reader would miss some. Use another store."
            )
        last = encoded
        yield one
    for encoded, one in sorted(rest, key=lambda pair: pair[0]):
        if encoded != last:
            last = encoded
            yield one
