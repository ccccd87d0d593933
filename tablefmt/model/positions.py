"""Row position sets: bitmaps, their bytes, and the rows that one entry deletes. Pure.

A position counts rows of a file from 0. Bytes of a log are not trusted, and the bitmap library does
not check them. So this module checks every byte before the library reads it. Spec: DEL-1, DEL-2.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError
from tablefmt.model.log_entry import RowDeletes

_NO_RUNS, _RUNS = 12346, 12347
"""Cookies of the 32-bit form: without and with run containers."""

_OFFSETS_FROM = 4
"""Containers from which a bitmap with runs has a table of offsets."""

_ARRAY_MAX = 4096
"""Maximum number of positions in an array container. A container with more is a bit set."""

_BIT_SET_BYTES = 8192

ROWS_MAX = 1 << 36
"""Maximum number of rows of a file with deleted rows. An entry may claim any number of rows. A set
of this many positions takes 14 MiB.
"""

_HIGH_MAX = (1 << 31) - 1
"""Maximum upper half of a position: positions are below 2**63."""

DELETE_COLUMNS = pa.schema(
    [
        pa.field("file", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("deleted", pa.large_binary()),
        pa.field("updated", pa.large_binary()),
    ]
)
"""Columns of `delete` with bitmaps as bytes, in memory and in an overflow metadata file (DEL-3)."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Deletion vector: positions in one file that a transaction deletes. The two sets are
    disjoint.
    """

    deleted: BitMap64
    updated: BitMap64

    @property
    def all(self) -> BitMap64:
        """Return both sets together."""
        return self.deleted | self.updated


FEW = 64
"""If fewer than one value in FEW is true, most bytes of a mask are zero."""


def true_positions(mask: pa.BooleanArray) -> NDArray[np.int64]:
    """Return the ascending indexes of the values that are true."""
    if not mask.true_count:
        return np.zeros(0, np.int64)
    if mask.offset or mask.null_count or mask.true_count * FEW > len(mask):
        return np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False))
    packed = np.frombuffer(mask.buffers()[1], np.uint8)[: -(-len(mask) // 8)]
    inhabited = np.flatnonzero(packed)
    line, bit = np.nonzero(np.unpackbits(packed[inhabited], bitorder="little").reshape(-1, 8))
    positions: NDArray[np.int64] = inhabited[line] * 8 + bit
    # The bits after the last value mean nothing.
    return positions[positions < len(mask)]


def row_span(start: int, stop: int | None = None) -> BitMap64:
    """Return the positions from `start` to before `stop`. With one number, return 0 to before it.

    Raises:
        CorruptEntryError: DEL-1, a position is beyond the maximum of a file.
    """
    first, last = (0, start) if stop is None else (start, stop)
    _check_rows(last)
    return BitMap64(range(first, last))


def _check_rows(rows: int) -> None:
    if rows > ROWS_MAX:
        message = f"a file claims {rows} rows; at most {ROWS_MAX} are supported"
        raise CorruptEntryError(message, rule="DEL-1")


def pack_positions(positions: BitMap64) -> bytes:
    """Return the bytes of the portable 64-bit form."""
    small = positions.copy()
    small.run_optimize()
    packed: bytes = small.serialize()
    return packed


def live_mask(packed: bytes | None, rows: int) -> NDArray[np.bool_]:
    """Return a mask of the rows of a file that are live.

    Args:
        packed: the deleted positions, from `pack_positions`; None: there are none.
        rows: the number of rows of the file.
    """
    deleted = BitMap64() if packed is None else own_positions(packed)
    _check_rows(rows)
    few = 2 * len(deleted) <= rows
    mask: NDArray[np.bool_] = np.full(rows, few)
    some = deleted if few else row_span(rows) - deleted
    mask[np.asarray(some.to_array(), np.int64)] = not few
    return mask


def own_positions(packed: bytes) -> BitMap64:
    """Return the bitmap of trusted bytes from `pack_positions`. They are not checked."""
    return BitMap64.deserialize(packed)


def unpack_positions(packed: bytes) -> BitMap64:
    """Return the bitmap of untrusted bytes.

    Raises:
        CorruptEntryError: DEL-2, not the portable form of a set of one position or more.
    """
    try:
        _check_form(packed)
        return BitMap64.deserialize(packed)
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptEntryError(f"a set of positions is damaged: {error}", rule="DEL-2") from None


def encode_positions(positions: BitMap64) -> str:
    """Return the base64 text of the portable form."""
    return base64.b64encode(pack_positions(positions)).decode("ascii")


def decode_positions(text: str) -> BitMap64:
    """Return the bitmap of a base64 text. Raises CorruptEntryError (DEL-2)."""
    return unpack_positions(_from_base64(text))


def delete_columns(deletes: RowDeletes) -> pa.Table:
    """Return the columns of an entry's `delete` as DELETE_COLUMNS. The bitmaps are not checked.

    Raises:
        CorruptEntryError: DEL-2, text that is not base64.
    """
    maps = (
        [None if text is None else _from_base64(text) for text in texts]
        for texts in (deletes.deleted, deletes.updated)
    )
    columns = [deletes.file, deletes.rows, *maps]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, DELETE_COLUMNS, strict=True)]
    return pa.table(arrays, DELETE_COLUMNS)


def row_deletes(marks: Mapping[int, DeletionVector]) -> RowDeletes | None:
    """Return the `delete` field of an entry for these deletion vectors by file id; None if all are
    empty.
    """
    files = sorted(file for file, mark in marks.items() if mark.deleted or mark.updated)
    if not files:
        return None
    chosen = [marks[file] for file in files]
    return RowDeletes(
        files,
        [len(mark.deleted) + len(mark.updated) for mark in chosen],
        [encode_positions(mark.deleted) if mark.deleted else None for mark in chosen],
        [encode_positions(mark.updated) if mark.updated else None for mark in chosen],
    )


def marks_of(columns: pa.Table) -> dict[int, DeletionVector]:
    """Return the deletion vectors by file id, from DELETE_COLUMNS.

    Raises:
        CorruptEntryError: DEL-1 the sets of a file overlap or are of another size, DEL-2.
    """
    rows = zip(*(columns[name].to_pylist() for name in DELETE_COLUMNS.names), strict=True)
    return {file: marks(count, deleted, updated) for file, count, deleted, updated in rows}


def marks(rows: int, deleted: bytes | None, updated: bytes | None) -> DeletionVector:
    """Return the deletion vector of one file; `rows` is the required number of positions.

    Raises:
        CorruptEntryError: DEL-1, DEL-2.
    """
    row_marks = DeletionVector(
        BitMap64() if deleted is None else unpack_positions(deleted),
        BitMap64() if updated is None else unpack_positions(updated),
    )
    if len(row_marks.deleted) + len(row_marks.updated) != rows:
        raise CorruptEntryError(
            f"its `rows` is {rows}, but its bitmaps hold "
            f"{len(row_marks.deleted) + len(row_marks.updated)} positions",
            rule="DEL-1",
        )
    if not row_marks.deleted.isdisjoint(row_marks.updated):
        raise CorruptEntryError("a row is both deleted and updated", rule="DEL-1")
    return row_marks


def _from_base64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptEntryError(f"a set of positions is damaged: {error}", rule="DEL-2") from None
    if base64.b64encode(raw).decode("ascii") != text:
        raise CorruptEntryError("a set of positions is not canonical base64", rule="DEL-2")
    return raw


def _check_form(packed: bytes) -> None:
    """Refuse bytes that are not well formed. Raises ValueError, struct.error."""
    (buckets,) = struct.unpack_from("<Q", packed)
    _require(buckets >= 1, "it is empty")
    at, before = 8, -1
    for _ in range(buckets):
        (high,) = struct.unpack_from("<I", packed, at)
        _require(before < high <= _HIGH_MAX, "upper halves are not ascending")
        at, before = _check_bucket(packed, at + 4), high
    _require(at == len(packed), "there are extra bytes after it")


def _check_bucket(packed: bytes, start: int) -> int:
    """Check the 32-bit form from `start` on; return its end."""
    (cookie,) = struct.unpack_from("<I", packed, start)
    at, flags = start + 4, 0
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        width = (count + 7) // 8
        flags = int.from_bytes(packed[at : at + width], "little")
        at += width
        offsets = count >= _OFFSETS_FROM
    else:
        _require(cookie == _NO_RUNS, "unknown cookie")
        (count,) = struct.unpack_from("<I", packed, at)
        _require(1 <= count <= 1 << 16, "wrong number of containers")
        at += 4
        offsets = True
    heads = _shorts(packed, at, 2 * count)
    _require(_rises(heads[::2]), "container keys are not ascending")
    at += 4 * count
    places = struct.unpack_from(f"<{count}I", packed, at) if offsets else None
    at += 4 * count if offsets else 0
    for i in range(count):
        right = places is None or places[i] == at - start
        _require(right, "a container has a wrong offset")
        at = _check_container(packed, at, int(heads[2 * i + 1]) + 1, bool(flags >> i & 1))
    return at


def _check_container(packed: bytes, at: int, count: int, runs: bool) -> int:
    if runs:
        length: int = struct.unpack_from("<H", packed, at)[0]
        pairs = _shorts(packed, at + 2, 2 * length)
        ends = pairs[::2] + pairs[1::2]
        apart = bool((ends[:-1] + 1 < pairs[2::2]).all())
        _require(apart and bool((ends < 1 << 16).all()), "runs overlap or touch")
        _require(
            int(pairs[1::2].sum()) + length == count,
            "the lengths of runs do not add up to the stored count",
        )
        return at + 2 + 4 * length
    if count <= _ARRAY_MAX:
        _require(_rises(_shorts(packed, at, count)), "positions are not ascending")
        return at + 2 * count
    bits = np.frombuffer(packed, np.uint8, _BIT_SET_BYTES, at)
    _require(int(np.unpackbits(bits).sum()) == count, "a bit set does not have the stored count")
    return at + _BIT_SET_BYTES


def _shorts(packed: bytes, at: int, count: int) -> NDArray[np.int64]:
    return np.frombuffer(packed, "<u2", count, at).astype(np.int64)


def _rises(values: NDArray[np.int64]) -> bool:
    return bool((values[:-1] < values[1:]).all())


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


VECTOR_MAGIC = 1681511377
"""First bytes of a deletion vector of Delta or Iceberg, as a little-endian number."""

VECTOR_FRAME_BYTES = 8
"""Bytes of the length before a vector, and of the checksum after it."""


def framed_positions(held: bytes) -> BitMap64:
    """Return the positions of Delta's or Iceberg's vector with its length and its checksum (IMP-5).

    The set inside has the portable form of DEL-2.

    Raises:
        ValueError, struct.error, CorruptEntryError: the bytes are damaged.
    """
    body = held[4:-4]
    if struct.unpack_from(">I", held)[0] != len(body):
        raise ValueError("its length is not the stored one")
    if zlib.crc32(body) != struct.unpack(">I", held[-4:])[0]:
        raise ValueError("its bytes do not match their checksum")
    return bare_positions(body)


def bare_positions(body: bytes) -> BitMap64:
    """Return the positions of a vector without length and checksum. Raises as
    `framed_positions`."""
    if struct.unpack_from("<I", body)[0] != VECTOR_MAGIC:
        raise ValueError("it is not a deletion vector")
    return decode_positions(base64.b64encode(body[4:]).decode())
