"""Stores that break the rule of a create: STO-3, STO-12."""

from __future__ import annotations

from tablefmt.store.object_store import PutReply, Written
from tablefmt.store.store_wrappers import ForwardingStore


class Overwriting(ForwardingStore):
    """Ignores the condition of a create, as old stores do: says Written always, and means it."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        self.inner.put(key, body)
        return Written()


class OverwritingQuietly(ForwardingStore):
    """Refuses the second create, and has replaced the object all the same."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        reply = self.inner.put_if_absent(key, body)
        self.inner.put(key, body)
        return reply
