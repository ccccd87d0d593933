"""Names on a disk that a store does not list: links, pipes, and names that no key can have.

A reader of a whole folder must know of them, because it would leave them out silently. Spec: STO-2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tablefmt.store.object_store import Store


def unlisted_names(store: Store) -> Iterator[str]:
    """Yield each name below the root that the store does not list. A link's target is not opened.

    Bytes that are not UTF-8 are escaped. A store that is not on a disk lists every object.
    """
    if store.traits.on_disk:
        yield from _unlisted(os.fsencode(store.traits.path), b"")


def _unlisted(root: bytes, folder: bytes) -> Iterator[str]:
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in children:
        path = folder + entry.name
        shown = path.decode("utf-8", "backslashreplace")
        is_folder = entry.is_dir(follow_symlinks=False)
        if b"\\" in entry.name or shown.encode("utf-8") != path:
            yield shown
        elif is_folder:
            yield from _unlisted(root, path + b"/")
        elif not entry.is_file(follow_symlinks=False):
            yield shown
