"""Keys in the order of their bytes, from servers that list by the units of UTF-16. Pure.

Two orders of keys are met: by bytes of UTF-8, as S3 does it, and by units of UTF-16, as servers
written in Java do it. They differ for characters from U+E000 on and nowhere else: UTF-16 spells
those beyond U+FFFF with units below U+E000.

Spec: STO-9 (spec/store.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tablefmt.errors import StoreError
from tablefmt.store.protocol import StoredObject

_FIRST_DOUBTFUL = "\ud800"
_FIRST_DOUBTFUL_BYTE = 0xEE
"""U+E000 begins with it in UTF-8, and every later character with it or a greater one."""


def start_after(after: str) -> str:
    """What to ask a server to start after, so that no key greater than `after` is left out."""
    doubtful = (place for place, character in enumerate(after) if character >= _FIRST_DOUBTFUL)
    return after[: next(doubtful, len(after))]


def in_order(
    objects: Iterable[StoredObject], after: str | None, uri: str
) -> Iterator[StoredObject]:
    """The objects whose key is greater than `after`, ascending by bytes, each once.

    Lazy up to the first key whose place depends on the server's order; the rest is collected.

    Raises:
        StoreError: the server's order is neither of the two.
    """
    floor = last = b"" if after is None else after.encode("utf-8", "surrogatepass")
    rest: list[tuple[bytes, StoredObject]] = []
    for one in objects:
        encoded = one.key.encode("utf-8")
        # Some servers repeat a key, or start where they like; folder markers are no objects.
        if encoded <= floor or encoded == last or one.key.endswith("/"):
            continue
        if rest or max(encoded) >= _FIRST_DOUBTFUL_BYTE:
            rest.append((encoded, one))
            continue
        if encoded < last:
            raise StoreError(
                f"the store at {uri} lists {one.key!r} after {last.decode()!r}: its order is not "
                "that of the keys, so that keys would be missed. Use another store."
            )
        last = encoded
        yield one
    for encoded, one in sorted(rest, key=lambda pair: pair[0]):
        if encoded != last:
            last = encoded
            yield one
