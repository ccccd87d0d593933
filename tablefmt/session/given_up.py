"""Data that cannot be read because its version was given up: told as that, and not as damage.

The one place where that is decided. Reads pass through it, and so does all work of a statement on
the version that it is pinned to, by whatever engine. Spec: DAT-5, ENT-13, ENT-14.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tablefmt.errors import (
    CorruptDataError,
    TablefmtError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store


@contextmanager
def told_if_given_up(store: Store, version: int) -> Iterator[None]:
    """What is read inside is of a version that was kept when it was chosen.

    Args:
        store: the table's root. Asked for the log only where a file cannot be read.
        version: the one read; of a range the first.

    Raises:
        VersionNotFoundError: ENT-13, a vacuum gave the version up meanwhile.
        TableNotFoundError: ENT-14, the table was dropped meanwhile, with its data.
        CorruptDataError: DAT-5, it is damage.
    """
    try:
        yield
    except CorruptDataError:
        try:
            head = LogView.open(store).head
        except TableNotFoundError as dropped:
            raise dropped from None
        except TablefmtError:
            head = None
        if head is not None and max(version, 0) < head.totals.oldest:
            raise VersionNotFoundError(
                f"version {version}", head.totals.oldest, head.version
            ) from None
        raise
