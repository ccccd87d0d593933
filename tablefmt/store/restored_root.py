"""Removal of the directories that a check creates below a table's future root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tablefmt.store.object_store import Store


@contextmanager
def root_restored(store: Store) -> Iterator[None]:
    """Remove the root and its parents at the end, if the block created them and they are empty.

    Only a disk has directories. On other stores this does nothing.
    """
    made: list[str] = []
    folder = store.traits.path if store.traits.on_disk else ""
    while folder and not os.path.lexists(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    try:
        yield
    finally:
        for each in made:
            with suppress(OSError):
                os.rmdir(each)
