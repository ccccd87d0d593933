"""Checks of a location before the first write: no foreign files, and a safe put-if-absent.

Delta, Iceberg and Hudi tables and plain data files belong to others. A program that cleans up its
own table deletes every file that it does not know, ours too. The check runs before a table is
created, and after an open has found no table. Spec: STO-23.

Sequential creates do not prove that a store honours put-if-absent. A server that checks and then
writes without a lock passes them. It still tells several simultaneous writers that each of them
created the object. Spec: STO-12 (spec/store.md).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, product
from threading import Barrier, BrokenBarrierError

from tablefmt.errors import (
    CommitRejectedError,
    ForeignTableError,
    StoreError,
    TableNotFoundError,
    UnsafeStoreError,
)
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import (
    Exists,
    NoAnswer,
    PutReply,
    Refused,
    Store,
    Written,
    check_key,
)
from tablefmt.store.store_traits import Traits
from tablefmt.telemetry import log_event, span

LISTED_MAX = 1000
"""Most keys to examine: one page of an S3 listing."""

TABLE_FORMATS = {
    "_delta_log/": ("a Delta table", re.compile(r"_delta_log/.+")),
    "metadata/": (
        "an Iceberg table",
        re.compile(r"metadata/([^/]+\.metadata\.json|version-hint\.text)"),
    ),
    ".hoodie/": ("a Hudi table", re.compile(r"\.hoodie/.+")),
}
"""For each metadata folder: the name of the format, and the files that identify it."""

COPY_STARTS = {
    "_delta_log/": "_delta_log/_tablefmt_start.json",
    "metadata/": "metadata/tablefmt-start.json",
}
"""For each metadata folder: the object by which it is a copy that tablefmt exported (XPT-4)."""

FILE_FORMATS = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}

_DATA_FOLDER = r"(?:data/)?(?:[^/=._][^/=]*=[^/]*/)*"
"""The root, `data`, and folders named after a partition value."""
_DATA_FILE = re.compile(_DATA_FOLDER + r"[^/._][^/]*\.(parquet|orc|avro)", re.IGNORECASE)
_PART_FILE = re.compile(_DATA_FOLDER + r"part-\d{5}[^/]*")
"""Names that Spark, Hive and Hadoop tasks give to their files."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A table or data file of another program."""

    found: str
    """A clause for messages: "a Delta table is there"."""
    where: str
    """The file that identifies it."""
    is_copy: bool = False
    """True for a copy that a table exported. The table was dropped."""


def refuse_foreign_files(store: Store) -> None:
    """Refuse to create a table among files of other programs.

    Costs one listing. On a local disk it also lists the metadata folders of each parent folder.

    Raises:
        ForeignTableError: other files are at the place (STO-23).
    """
    foreign = foreign_at(store)
    if foreign is not None:
        raise ForeignTableError(store.uri, foreign.found, foreign.where, is_copy=foreign.is_copy)


def not_found(store: Store) -> TableNotFoundError:
    """Return the error for an open that found no table.

    It names any foreign table or files there.
    """
    try:
        foreign = foreign_at(store)
    except StoreError:
        # A caller without the right to list still gets the plain answer.
        foreign = None
    if foreign is None:
        return TableNotFoundError(store.uri)
    return TableNotFoundError(store.uri, foreign.where, foreign.found)


def foreign_at(store: Store) -> Foreign | None:
    """Return the foreign table or files at the root of a store, or in a local parent folder."""
    if store.traits.on_disk:
        # List each metadata folder by name, because one page of the root may end before it.
        found = _table_format(_first_keys(store, prefix) for prefix in TABLE_FORMATS)
        if found is not None:
            return _there(store, *found)
    keys = list(_first_keys(store, ""))
    found = _table_format([keys]) if not store.traits.on_disk else None
    if found is not None:
        return _there(store, *found)
    files = _data_files(keys)
    if files is not None:
        return Foreign(f"{files[0]} are there", files[1])
    for folder in _folders_above(store.traits):
        above = LocalStore(folder)
        found = _table_format(_first_keys(above, prefix) for prefix in TABLE_FORMATS)
        if found is not None:
            return Foreign(f"it lies in {found[0]} at {folder}", found[1])
    return None


def _there(store: Store, name: str, key: str) -> Foreign:
    start = COPY_STARTS.get(key.split("/")[0] + "/")
    if start is not None and store.get_many([start])[0] is not None:
        return Foreign(f"{name} that a tablefmt table exported is there", key, is_copy=True)
    return Foreign(f"{name} is there", key)


def _first_keys(store: Store, prefix: str) -> Iterator[str]:
    try:
        for one in islice(store.list_after(prefix), LISTED_MAX):
            yield one.key
    except StoreError:
        # A parent folder may be unreadable for this user. The root itself must be readable.
        if prefix == "" or not store.traits.on_disk:
            raise


def _table_format(keys: Iterable[Iterable[str]]) -> tuple[str, str] | None:
    """Return the first table format that the keys identify, with its key. Pure."""
    for some in keys:
        for key in some:
            for name, pattern in TABLE_FORMATS.values():
                if pattern.fullmatch(key):
                    return name, key
    return None


def _data_files(keys: Iterable[str]) -> tuple[str, str] | None:
    """Return the kind of the first foreign data file, with its key. Pure."""
    for key in keys:
        match = _DATA_FILE.fullmatch(key)
        if match is not None:
            return f"plain {FILE_FORMATS[match[1].lower()]} files", key
        if _PART_FILE.fullmatch(key) and not key.endswith(".crc"):
            return "data files", key
    return None


def _folders_above(traits: Traits) -> Iterator[str]:
    """Yield the parents of a local folder, nearest first, without the root of the disk.

    Yields nothing for other stores. Pure.
    """
    above = traits.path.rpartition("/")[0] if traits.on_disk else ""
    while above:
        yield above
        above = above.rpartition("/")[0]


CREATORS = 4
ROUNDS = 5
BODY_BYTES = (100, 100_000)
"""Lengths of the bodies. A server may handle a body larger than its first read differently."""

_SERVER_RACES = tuple(product(range(ROUNDS), BODY_BYTES))
_DISK_RACES = ((0, BODY_BYTES[0]),)
"""A kernel serializes the creation of names in one directory, for any body length. More races
within one machine show nothing more, and each create waits for the disk.
"""

_log = logging.getLogger(__name__)
_ATTEMPTS = 5
_FIRST_WAIT_SECONDS = 0.05
_SAFE: set[str] = set()
"""Scopes that passed in this process. A forked child inherits them."""


def ensure_safe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Probe `store`, unless a store of the same `probe_scope` passed in this process."""
    if store.probe_scope not in _SAFE:
        with span("probe", store.uri):
            probe(store, nonce, sleep)
        _SAFE.add(store.probe_scope)


def probe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Check put-if-absent with 4 creators that race for each key `_log/.probe-<nonce>-…`.

    They race for 10 keys, half of them with a large body; on a file system for one key. At most one
    creator may win a key, its body must stay, and a later create must be refused. A lost answer, or
    an answer that asks for a retry, counts neither as a win nor as a proof.

    The cost is 10 rounds of 4 creates, one create, 10 reads and 10 deletes, in 13 round trips. On a
    file system it is one round of 4 creates, one create, one read and one delete. `nonce` must be
    new for every call: 1 to 58 characters that are valid in a key. A key that cannot be deleted is
    logged, because credentials without the right to delete may still commit.

    Raises:
        UnsafeStoreError: the store ignores the condition, and is not `unsafe_single_writer`.
        CommitRejectedError: the store refuses writes, or gave no answer 5 times.
    """
    contests: list[Contest] = []
    with ThreadPoolExecutor(max(CREATORS, len(_races(store)))) as pool:
        try:
            fault = _fault(store, nonce, contests, pool, sleep)
        finally:
            touched = [one.key for one in contests if one.may_exist()]
            list(pool.map(lambda key: _remove(store, key), touched))
    log_event(_log, "probe", store.uri, safe=not fault)
    if not fault:
        return
    danger = f"the store at {store.uri} {fault}: two writers could overwrite each other's commits"
    if not store.unsafe_single_writer:
        raise UnsafeStoreError(
            f"{danger}. Use a store that honours If-None-Match, or pass the storage option "
            "unsafe_single_writer=True if there is only ever one writer."
        )
    _log.warning("%s. Continuing because unsafe_single_writer is set.", danger)


@dataclass(slots=True)
class Contest:
    """The race for one key.

    Attributes:
        key: the key.
        bodies: the body that each creator sends.
        replies: the replies by creator, for all rounds of the race.
    """

    key: str
    bodies: tuple[bytes, ...]
    replies: list[tuple[int, PutReply]] = field(default_factory=list)

    def confirmed(self) -> list[int]:
        """Return the creators that the store confirmed."""
        return [creator for creator, reply in self.replies if isinstance(reply, Written)]

    def is_decided(self) -> bool:
        """Return whether the replies prove that the object exists."""
        return any(isinstance(reply, (Written, Exists)) for _, reply in self.replies)

    def may_exist(self) -> bool:
        """Return whether the object may exist."""
        return any(not isinstance(reply, Refused) for _, reply in self.replies)

    def fault(self, kept: bytes | None) -> str:
        """Return how the stored body `kept` shows a violation of STO-3; "" if it does not."""
        confirmed = self.confirmed()
        if len(confirmed) > 1:
            return f"confirmed one object to {len(confirmed)} of {CREATORS} simultaneous writers"
        # No creator may be confirmed: its answer was lost, or its own re-send was refused. Then any
        # of the bodies is correct.
        expected = [self.bodies[confirmed[0]]] if confirmed else self.bodies
        return "" if kept in expected else "ignores the put-if-absent condition"


def _fault(
    store: Store,
    nonce: str,
    contests: list[Contest],
    pool: ThreadPoolExecutor,
    sleep: Callable[[float], None],
) -> str:
    # One key at a time: eight simultaneous creates spread too far apart in time.
    for number, size in _races(store):
        contest = _contest(f"_log/.probe-{nonce}-{number}-{size}", size)
        contests.append(contest)
        _race(store, contest, pool, sleep)
        if len(contest.confirmed()) > 1:
            return contest.fault(None)
    late = b"late"
    if not isinstance(_insist(lambda: store.put_if_absent(contests[0].key, late), sleep), Exists):
        return "ignores the put-if-absent condition"
    try:
        kept = store.get_many([one.key for one in contests])
    except StoreError as error:
        raise CommitRejectedError(f"the probe's objects cannot be read back: {error}") from None
    faults = (one.fault(body) for one, body in zip(contests, kept, strict=True))
    return next(filter(None, faults), "")


def _races(store: Store) -> Sequence[tuple[int, int]]:
    """Return the number and the body length of each race for this store."""
    return _DISK_RACES if store.traits.on_disk else _SERVER_RACES


def _contest(key: str, size: int) -> Contest:
    bodies = (f"{creator} {key} ".encode().ljust(size, b".") for creator in range(CREATORS))
    return Contest(check_key(key), tuple(bodies))


def _race(
    store: Store, contest: Contest, pool: ThreadPoolExecutor, sleep: Callable[[float], None]
) -> None:
    """Let all creators create at once, and repeat while no reply decides whether the key exists.

    Raises:
        CommitRejectedError: the store refused all creates, or gave no answer 5 times.
    """

    def once() -> PutReply:
        start = Barrier(CREATORS)

        def create(body: bytes) -> PutReply:
            with suppress(BrokenBarrierError):  # no more threads to be had: a weaker race
                start.wait(timeout=1)
            return store.put_if_absent(contest.key, body)

        asked = [pool.submit(create, body) for body in contest.bodies]
        contest.replies += enumerate(reply.result() for reply in asked)
        return Written() if contest.is_decided() else contest.replies[-1][1]

    _insist(once, sleep)


def _insist(ask: Callable[[], PutReply], sleep: Callable[[float], None]) -> PutReply:
    reason = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            sleep(_FIRST_WAIT_SECONDS * 2**attempt)
        reply = ask()
        if isinstance(reply, Refused):
            raise CommitRejectedError(reply.reason)
        if not isinstance(reply, NoAnswer):
            return reply
        reason = reply.reason
    raise CommitRejectedError(f"the store gave no answer {_ATTEMPTS} times: {reason}")


def _remove(store: Store, key: str) -> None:
    try:
        store.delete(key)
    except StoreError as error:
        _log.warning("could not delete the probe object %s: %s", key, error)
