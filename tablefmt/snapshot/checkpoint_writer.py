"""Checkpoint writer: first the parts, then the root that names them. Spec: CKP-1 .. CKP-7.

Every object has a name of its own, so concurrent writers do not collide. No root names the objects
of an interrupted writer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import CorruptTableError, StoreError
from tablefmt.log.codec import digest
from tablefmt.log.object_names import entry_key, root_key
from tablefmt.model.log_entry import Metadata
from tablefmt.model.positions import DELETE_COLUMNS
from tablefmt.model.scalar_values import encode
from tablefmt.model.schema import Field, is_nested
from tablefmt.snapshot.checkpoint_parts import StoredColumns
from tablefmt.snapshot.checkpoint_root import Part, Root, SegmentPart, encode_root
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_columns import of_partitioning, typed_bounds
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.part_file import write_part
from tablefmt.snapshot.segment_reuse import (
    Kept,
    KnownSegment,
    among,
    in_order,
    kept_segments,
    members,
)
from tablefmt.snapshot.segments import SEGMENT_FILES, summary, total_rows
from tablefmt.store.object_store import Store, Written

DELETE_PARTS_MAX = 8
"""Maximum number of parts of deleted rows. Beyond it, they are rewritten as one."""


@dataclass(frozen=True, slots=True)
class Known:
    """Earlier checkpoint of the same log whose parts the next one reuses."""

    root: Root
    segments: tuple[KnownSegment, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint that was written, as a retention horizon names it (ENT-13), and its reusable
    parts.
    """

    path: str
    size: int
    sha256: str
    version: int
    files: int
    parts: int
    """Number of parts that it names."""
    written_parts: int
    """Number of these parts that were newly written."""
    written_bytes: int
    """Bytes written, including the root."""
    known: Known = field(repr=False)


@dataclass(frozen=True, slots=True)
class State:
    """Content of a checkpoint."""

    head: Head
    """Head with the applications of its version."""
    created: int
    described: int
    files: FileHistory
    """History that includes the version."""


def write_checkpoint(
    store: Store, state: State, nonce: Callable[[], str], before: Known | None = None
) -> Checkpoint:
    """Write the new parts and a root.

    Args:
        store: the table's root.
        state: the state of the version.
        nonce: returns 32 unique hex digits.
        before: an earlier checkpoint of the same log, whose parts are reused.

    Raises:
        StoreError: the store fails. CorruptTableError: the files cannot be read.
    """
    head, files = state.head, state.files
    version = head.version
    live = [segment.live(version) for segment in files.segments]
    ids = [s.files.ids[mask] for s, mask in zip(files.segments, live, strict=True)]
    all_ids = np.concatenate([np.zeros(0, np.int64), *ids])
    if len(all_ids) != head.totals.files:
        raise _wrong(version, "the number of its files differs from its `totals`")
    kept = kept_segments(before.segments if before else (), all_ids)
    old = np.concatenate([np.zeros(0, np.int64), *(one.known.ids for one in kept)])
    is_kept = among(old, sum(map(len, files.segments)))
    rest = []
    for segment, mask in zip(files.segments, live, strict=True):
        moves = mask & ~is_kept(segment.files.ids)
        # Do not read the columns of a segment that is kept unchanged.
        if moves.any():
            rest.append(segment.only(moves))
    parts = [_again(one, head.metadata, before) for one in kept]
    known = [KnownSegment(p, k.known.ids) for p, k in zip(parts, kept, strict=True)]
    fresh = []
    for columns in _new_segments(rest, head.metadata):
        part = _write_segment(store, nonce(), columns, head.metadata)
        fresh.append(part)
        known.append(KnownSegment(part, columns["id"].to_numpy()))
    deletes, fresh_deletes = _deletes(store, state, all_ids, nonce, before)
    root = Root(
        head=head,
        created=state.created,
        described=state.described,
        segments=(*parts, *fresh),
        deletes=deletes,
    )
    body = encode_root(root)
    key = root_key(version, nonce())
    reply = store.put_if_absent(key, body)
    if not isinstance(reply, Written):
        raise StoreError(f"the root of a checkpoint was not written: {reply}")
    return Checkpoint(
        path=key,
        size=len(body),
        sha256=digest(body),
        version=version,
        files=len(all_ids),
        parts=len(root.segments) + len(deletes),
        written_parts=len(fresh) + len(fresh_deletes),
        written_bytes=len(body) + sum(part.size for part in (*fresh, *fresh_deletes)),
        known=Known(root, tuple(known)),
    )


def known_of(files: FileHistory, root: Root) -> Known:
    """Return the reusable parts of the checkpoint that a base was made of. This reads its file
    ids.
    """
    stored = {
        segment.files.path: segment.files
        for segment in files.segments
        if isinstance(segment.files, StoredColumns)
    }
    segments = [KnownSegment(part, stored[part.path].all_ids) for part in root.segments]
    return Known(root, tuple(segments))


def _again(kept: Kept, metadata: Metadata, before: Known | None) -> SegmentPart:
    """Return the root's description of a kept manifest segment, with bounds in the current
    types.
    """
    part = kept.known.part
    assert before is not None
    if before.root.head.metadata == metadata:
        return replace(part, gone=kept.gone)
    fields = {f.id: f for f in before.root.head.metadata.schema.with_hidden}
    bounds = {}
    for column in metadata.schema.with_hidden:
        older = fields.get(column.id)
        known = part.bounds.get(str(column.id))
        if known is None or older is None:
            continue
        bounds[str(column.id)] = known if older.type == column.type else _counts_of(known)
    return replace(part, gone=kept.gone, bounds=bounds)


def _counts_of(known: Any) -> dict[str, Any]:
    return {name: known[name] for name in ("nulls", "nans") if name in known}


def _new_segments(segments: Sequence[Any], metadata: Metadata) -> list[pa.Table]:
    """Return files as the columns of parts, sorted."""
    if not segments:
        return []
    tables = []
    for segment in segments:
        table = of_partitioning(segment.files.table, metadata.all_partition_ids)
        table = typed_bounds(table, metadata.schema.fields)
        numbers = {"id": pa.array(segment.files.ids), "added": pa.array(segment.files.added)}
        for at, (name, values) in enumerate(numbers.items()):
            table = table.add_column(at, name, values)
        tables.append(table)
    whole = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    # A NULL partition value is known; a null bound is unknown.
    kept = [
        name
        for name in whole.column_names
        if name.startswith("partition.") or whole[name].null_count < len(whole)
    ]
    whole = in_order(whole.select(kept), metadata.partition_by)
    parts = -(-whole.num_rows // SEGMENT_FILES)
    each = -(-whole.num_rows // parts)
    return [whole.slice(at, each).combine_chunks() for at in range(0, whole.num_rows, each)]


def _write_segment(store: Store, nonce: str, columns: pa.Table, metadata: Metadata) -> SegmentPart:
    part = write_part(store, nonce, columns)
    ids, added = columns["id"].to_numpy(), columns["added"].to_numpy()
    partition_ids = metadata.partition_ids
    bounds = {}
    for column in metadata.schema.with_hidden:
        if is_nested(column.type):
            continue
        known = bounds_of(summary(columns, column.id, column.id in partition_ids), column)
        if known:
            bounds[str(column.id)] = known
    return SegmentPart(
        path=part.path,
        size=part.size,
        sha256=part.sha256,
        footer=part.footer,
        footer_sha256=part.footer_sha256,
        files=part.files,
        gone=None,
        rows=total_rows(columns),
        ids=(int(ids.min()), int(ids.max())),
        added=int(added.max()),
        bounds=bounds,
    )


def bounds_of(known: dict[str, Any], column: Field) -> dict[str, Any]:
    """Return the summary of a column in the form of a root (CKP-4)."""
    bounds = {}
    for name, values in known.items():
        side = name.partition(".")[0]
        array = values if isinstance(values, pa.Array) else values.combine_chunks()
        is_count = side in ("nulls", "nans")
        bounds[side] = array.to_pylist()[0] if is_count else encode(array, column.type)[0]
    return {side: value for side, value in bounds.items() if value is not None}


def _deletes(
    store: Store,
    state: State,
    ids: NDArray[np.int64],
    nonce: Callable[[], str],
    before: Known | None,
) -> tuple[tuple[Part, ...], list[Part]]:
    """Return the parts with the deleted rows of live files, and the new ones among them."""
    if state.head.totals.deleted == 0:
        return (), []
    deltas, version = state.files.all_deltas, state.head.version
    old = before.root.deletes if before is not None else ()
    since = -1 if before is None else before.root.head.version
    says = deltas.takes & (deltas.version <= version)
    fresh = says & (deltas.version > since)
    fresh[fresh] = members(deltas.file[fresh], ids)
    count, held = int(np.count_nonzero(fresh)), sum(part.files for part in old)
    if old and count == 0:
        return old, []
    if not old or len(old) >= DELETE_PARTS_MAX or 2 * count > held:
        fresh = says
        fresh[fresh] = members(deltas.file[fresh], ids)
        old = ()
        if int(np.sum(deltas.rows[fresh])) != state.head.totals.deleted:
            raise _wrong(version, "the number of its deleted rows differs from its `totals`")
    part = write_part(store, nonce(), _delta_columns(deltas.only(fresh)))
    return (*old, part), [part]


def _wrong(version: int, message: str) -> CorruptTableError:
    return CorruptTableError(message, key=entry_key(version), rule="RPL-3")


def _delta_columns(deltas: Deltas) -> pa.Table:
    columns = deltas.maps.select(DELETE_COLUMNS.names)
    return columns.append_column("version", pa.array(deltas.version))
