"""In whose folder the only file of a small write goes, on stores where a folder is work (DAT-1).

The folder of a transaction that was committed through the same handle: it is there, with its name
durable, and no failure removes it. A write that finds it gone makes it again.
"""

from __future__ import annotations

from tablefmt.log.names import data_folder, guest_of
from tablefmt.model.entry import AddedFiles

GUESTS_MAX = 1000
"""Files in the folder of another transaction; then the next one has a folder of its own."""


class Hosts:
    """What one handle remembers of the folders that its commits made."""

    def __init__(self) -> None:
        self.open: str | None = None
        """The transaction whose folder takes more files; None: the next one makes its own."""
        self._guests = 0

    def take(self, transaction: str, added: AddedFiles) -> None:
        """Learn of files that were committed. Of threads at once any may be the one counted."""
        first = added.columns["path"][0]
        if guest_of(first) == transaction:
            self._guests += 1
            if self._guests >= GUESTS_MAX:
                self.open = None
        elif self.open is None and first.startswith(data_folder(transaction)):
            self.open, self._guests = transaction, 0
