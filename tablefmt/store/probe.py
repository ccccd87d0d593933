"""Does this store honour put-if-absent? Asked before the first write to a table.

Spec: STO-12 (spec/store.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from tablefmt.errors import CommitRejectedError, StoreError, UnsafeStoreError
from tablefmt.store.protocol import (
    Exists,
    KeyNotFoundError,
    NoAnswer,
    PutReply,
    Refused,
    Store,
    Written,
    check_key,
)

_log = logging.getLogger(__name__)
_ATTEMPTS = 5
_FIRST_WAIT_SECONDS = 0.05
_LOCK = threading.Lock()
_SAFE: set[str] = set()


def ensure_safe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Probe `store` unless a store of the same `identity` passed in this process."""
    with _LOCK:
        if store.identity in _SAFE:
            return
    probe(store, nonce, sleep)
    with _LOCK:
        _SAFE.add(store.identity)


def probe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Create `_log/.probe-<nonce>` twice: the second must be refused and the first body stay.

    `nonce` is new for every call: 1 to 64 characters fit for a key. The key is deleted again; a
    failure of that is logged, since credentials without the right to delete may still commit.

    Raises:
        UnsafeStoreError: the condition is ignored, and the store is not `unsafe_single_writer`.
        CommitRejectedError: the store refuses writes, or gave no answer 5 times.
    """
    key = check_key(f"_log/.probe-{nonce}")
    first, second = f"first {nonce}".encode(), f"second {nonce}".encode()
    try:
        honest = _create(store, key, first, sleep) and _refuses(store, key, first, second, sleep)
    finally:
        _remove(store, key)
    if honest:
        return
    danger = (
        f"the store at {store.uri} ignores the condition of put-if-absent: two writers would "
        "overwrite each other's commits"
    )
    if not store.unsafe_single_writer:
        raise UnsafeStoreError(
            f"{danger}. Use a store that honours If-None-Match, or pass the storage option "
            "unsafe_single_writer=True if there is never more than one writer."
        )
    _log.warning("%s. Going on, because unsafe_single_writer is set.", danger)


def _create(store: Store, key: str, body: bytes, sleep: Callable[[float], None]) -> bool:
    reply = _insist(store, key, body, sleep)
    # Exists after a lost answer or an SDK's re-send is one's own object: the nonce is new.
    return isinstance(reply, Written) or _read(store, key) == body


def _refuses(
    store: Store, key: str, first: bytes, second: bytes, sleep: Callable[[float], None]
) -> bool:
    reply = _insist(store, key, second, sleep)
    return isinstance(reply, Exists) and _read(store, key) == first


def _insist(store: Store, key: str, body: bytes, sleep: Callable[[float], None]) -> PutReply:
    reason = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            sleep(_FIRST_WAIT_SECONDS * 2**attempt)
        reply = store.put_if_absent(key, body)
        if isinstance(reply, Refused):
            raise CommitRejectedError(reply.reason)
        if not isinstance(reply, NoAnswer):
            return reply
        reason = reply.reason
    raise CommitRejectedError(f"the store gave no answer {_ATTEMPTS} times: {reason}")


def _read(store: Store, key: str) -> bytes | None:
    try:
        return store.get(key)
    except KeyNotFoundError:
        return None
    except StoreError as error:
        raise CommitRejectedError(f"what was written cannot be read: {error}") from None


def _remove(store: Store, key: str) -> None:
    try:
        store.delete(key)
    except StoreError as error:
        _log.warning("the probe %s stays: %s", key, error)
