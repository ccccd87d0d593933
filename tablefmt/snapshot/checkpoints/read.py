"""Checkpoint as the base of a log: find it, check it against the log, read parts on demand.

Spec: CKP-5, CKP-6.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.codec import decode, digest
from tablefmt.log.names import CHECKPOINTS, entry_key, root_version
from tablefmt.snapshot.base import Base
from tablefmt.snapshot.checkpoints.checks import Limits
from tablefmt.snapshot.checkpoints.parts import PartFile
from tablefmt.snapshot.checkpoints.root import Root, decode_root
from tablefmt.snapshot.checkpoints.stored import StoredColumns, StoredDeletes
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.segments import NEVER, Segment
from tablefmt.store.protocol import Store

logger = logging.getLogger(__name__)

TRIED_MAX = 8
"""Maximum number of checkpoints to try before reading the log from its beginning, if it has one.
There may be many of an earlier log at this location.
"""


def sound_root(root_body: bytes | None, entry_body: bytes | None, key: str) -> Root:
    """Return the root if it belongs to this log: it names the bytes of its version's entry (CKP-5).

    Args:
        root_body: the root's bytes; None: there is none.
        entry_body: the bytes of the entry of the version in the root's name.
        key: the root's name.

    Raises:
        CorruptTableError: CKP-2, CKP-5. UnsupportedFeatureError: as the entry.
    """
    if root_body is None or entry_body is None:
        raise CorruptTableError("the checkpoint, or its entry, is missing", key=key, rule="CKP-5")
    root = decode_root(root_body, key)
    head = root.head
    if head.version != root_version(key) or digest(entry_body) != head.digest:
        raise CorruptTableError("the checkpoint belongs to another log", key=key, rule="CKP-5")
    entry = decode(entry_body, head.version).entry
    same = (entry.table, entry.timestamp, entry.time_version, entry.totals)
    if same != (head.table, head.timestamp, head.time_version, head.totals):
        raise CorruptTableError("the checkpoint differs from its entry", key=key, rule="CKP-5")
    return replace(root, head=replace(head, ended=entry.ends))


def base_of(store: Store, root: Root, key: str) -> Base:
    """Return the content of a root as the base of a log. This reads nothing."""
    head = root.head
    metadata = head.metadata
    fields = {field.id: field for field in metadata.schema.fields}
    limits = Limits(
        version=head.version,
        next_id=head.totals.next_id,
        deleted=head.totals.deleted,
        last_id=metadata.schema.last_id,
        fields=fields,
        partition_ids=frozenset(metadata.partition_by),
    )
    segments = []
    for part in root.segments:
        files = StoredColumns(PartFile(store, part), part, limits)
        # A broadcast value uses no memory: the count is not trusted until the part is read.
        live = np.broadcast_to(np.int64(NEVER), len(files))
        segments.append(Segment(files, live, None))
    stored = [segment.files for segment in segments]
    deletes = StoredDeletes([PartFile(store, part) for part in root.deletes], stored, limits)
    return Base(
        head=head,
        created=root.created,
        described=root.described,
        files=FileHistory(
            first=head.version,
            version=head.version,
            metadata_version=root.described,
            segments=tuple(segments),
            deltas=deletes.parts,
            types={i: field.type for i, field in fields.items()},
            partition_columns=frozenset(f"partition.{i}" for i in metadata.partition_by),
            live=head.totals.files,
            rows=head.totals.rows,
            bytes=head.totals.bytes,
            deleted=head.totals.deleted,
            distinct_below=head.totals.next_id,
            checkpoint=key,
        ),
        root=root,
        key=key,
    )


def read_base(store: Store, key: str) -> Base:
    """Return the base of a checkpoint.

    Raises:
        CorruptTableError, UnsupportedFeatureError: as `sound_root`. StoreError: no answer.
    """
    version = root_version(key)
    if version is None:
        raise CorruptTableError("this is not the name of a checkpoint", key=key, rule="KEY-1")
    root_body, entry_body = store.get_many([key, entry_key(version)])
    return base_of(store, sound_root(root_body, entry_body, key), key)


def listed_roots(store: Store) -> list[str]:
    """Return the names of the roots in a listing, newest first."""
    listed = [(root_version(each.key), each.key) for each in store.list_after(f"{CHECKPOINTS}0")]
    return [key for version, key in sorted(listed, reverse=True) if version is not None]


def usable_bases(
    store: Store, last: int, without: frozenset[str] = frozenset(), tries: float = math.inf
) -> Iterator[Base]:
    """Yield the sound checkpoints of versions up to `last`, newest first.

    Args:
        store: the table's root.
        last: the version.
        without: names of roots to skip.
        tries: the maximum number of roots to try.
    """
    tried = 0
    for key in listed_roots(store):
        version = root_version(key)
        if version is None or version > last or key in without:
            continue
        if tried >= tries:
            return
        tried += 1
        try:
            yield read_base(store, key)
        except (CorruptTableError, UnsupportedFeatureError) as error:
            logger.warning("skipping a checkpoint: %s", error)
