"""A store that races break. Processes of a check import this module, so it imports little."""

from __future__ import annotations

import time

from tablefmt.store.object_store import Exists, PutReply, Written
from tablefmt.store.store_wrappers import ForwardingStore


class InTurnOnly(ForwardingStore):
    """Looks first and writes then: correct for creators one after another."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        if self.inner.get_many([key]) != [None]:
            return Exists()
        time.sleep(0.02)
        self.inner.put(key, body)
        return Written()
