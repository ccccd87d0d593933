"""Hashes of keys: an entry stores them for the rows that a MERGE inserted. Pure. Spec: ADD-8."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.model.schema import Type, is_float
from tablefmt.model.values import encode

KEYS_MAX = 100_000
"""Maximum number of keys of a file. A file with more keys stores no hashes."""

_HASH_BYTES = 8
_NAN = struct.unpack("<q", struct.pack("<d", float("nan")))[0]


def hash_keys(columns: Sequence[pa.Array], kinds: Sequence[Type]) -> NDArray[np.uint64]:
    """Return the hashes of the rows' keys, ascending, each once. Rows with a NULL in the key have
    none.

    Args:
        columns: one array per part of the key, in the order of `update.keys`, of equal length.
        kinds: their types.
    """
    parts = [_part(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    hashes = {_hash(key) for key in zip(*parts, strict=True) if None not in key}
    return np.array(sorted(hashes), np.uint64)


def encode_hashes(hashes: NDArray[np.uint64]) -> str:
    """Return the base64 text of the hashes, 8 bytes each, little endian."""
    return base64.b64encode(hashes.astype("<u8").tobytes()).decode("ascii")


def decode_hashes(packed: bytes | str) -> NDArray[np.uint64]:
    """Return the hashes from the text of an entry or from the bytes in an overflow metadata file.

    Raises:
        CorruptEntryError: ADD-8, not ascending, or not a whole number of hashes.
    """
    return decode_all_hashes([packed])[0]


def decode_all_hashes(
    packed: Sequence[bytes | str],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the hashes of several files, concatenated. One call is cheaper than a call per file.

    Returns:
        The hashes, and their end offset for each file. The offsets start with 0, so there is one
            more than files.

    Raises:
        CorruptEntryError: as `decode_hashes`.
    """
    raw = [each if isinstance(each, bytes) else _unpacked(each) for each in packed]
    sizes = np.array([len(each) for each in raw], np.int64)
    if bool(np.any(sizes % _HASH_BYTES)):
        raise CorruptEntryError("hashes of keys are truncated", rule="ADD-8")
    hashes = np.frombuffer(b"".join(raw), "<u8").astype(np.uint64)
    ends = np.concatenate([[0], np.cumsum(sizes // _HASH_BYTES)])
    falls = hashes[1:] <= hashes[:-1]
    between = ends[1:-1]
    falls[between[(between > 0) & (between < len(hashes))] - 1] = False
    if bool(np.any(falls)) or bool(np.any(sizes > KEYS_MAX * _HASH_BYTES)):
        raise CorruptEntryError("hashes of keys are too many or not ascending", rule="ADD-8")
    return hashes, ends


def _unpacked(text: str) -> bytes:
    try:
        raw = binascii.a2b_base64(text)
        # Python's decoder skips characters outside base64, and its strict mode is slow.
        if binascii.b2a_base64(raw, newline=False) == text.encode("ascii"):
            return raw
    except ValueError as error:
        raise CorruptEntryError(f"hashes of keys are damaged: {error}", rule="ADD-8") from None
    raise CorruptEntryError("hashes of keys are not canonical base64", rule="ADD-8")


def _part(column: pa.Array, kind: Type) -> list[Any]:
    if not is_float(kind):
        return encode(column, kind)
    # The text of a float depends on the writer; its bits do not. All zeros hash equal, all NaN too.
    return [None if v is None else _bits(v) for v in column.to_pylist()]


def _bits(value: float) -> int:
    if value != value:
        return int(_NAN)
    return int(struct.unpack("<q", struct.pack("<d", value + 0.0))[0])


def _hash(key: Sequence[Any]) -> int:
    return int.from_bytes(hashlib.sha256(orjson.dumps(list(key))).digest()[:8], "little")
