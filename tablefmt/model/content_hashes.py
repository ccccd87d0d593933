"""Hashes of content that entries store. Pure.

Digests detect different content under one application version. Key hashes stand for the rows that
a MERGE inserted. Spec: CFL-6, CFL-7, ADD-8.
"""

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
from tablefmt.model.scalar_values import encode
from tablefmt.model.schema import Type, is_float

TEXT, ROWS, RUN, BATCH = "text", "rows", "run", "batch"
"""Forms of a digest (STR-12).

- `TEXT`: a statement that takes no rows.
- `ROWS`: a statement with rows.
- `RUN`: a stream's batch, with the run of the query that wrote it.
- `BATCH`: a batch without its run.
"""


def of_batch(content: str | None, run: str | None) -> str | None:
    """Return the digest of the content of a stream's batch.

    Args:
        content: digits that identify its rows; None: not known.
        run: id of the run of the query that has it; None: not known.
    """
    if run is not None:
        return f"{RUN}:{run}" if content is None else f"{RUN}:{run}/{content}"
    return None if content is None else f"{BATCH}:{content}"


def without_run(digest: str | None) -> str | None:
    """Return the digest of a batch that another run may repeat; None: its rows are not known."""
    return None if digest is None else of_batch(_batch(*_parted(digest)) or None, None)


def advice_for(digest: str | None) -> str:
    """Return the advice for an application version that was used before with other content."""
    if digest is not None and _parted(digest)[0] in (RUN, BATCH):
        return (
            "the stream's checkpoint was restored, or restarted under an id in use, and the rows "
            "of this batch may be missing in the table. Start with a new checkpoint and a new "
            "txnAppId, at the place in the source up to which the table has its rows"
        )
    return "use a new application version for new content"


def differ(one: str | None, other: str | None) -> bool:
    """Return True if two digests are known to be of different content (CFL-7).

    An older writer stored a digest without a form. Its digest of text is still computed the same
    way. Its digest of rows depends on their bytes, so equal rows may have different digests.
    """
    if one is None or other is None or one == other:
        return False
    (form, value), (other_form, other_value) = _parted(one), _parted(other)
    if form == other_form or {form, other_form} == {TEXT, ROWS}:
        return True
    if {form, other_form} == {RUN, BATCH}:
        # Another run that comes later may repeat a batch.
        contents = _batch(form, value), _batch(other_form, other_value)
        return "" not in contents and contents[0] != contents[1]
    return {form, other_form} == {TEXT, ""} and value != other_value


def _parted(digest: str) -> tuple[str, str]:
    form, mark, value = digest.partition(":")
    return (form, value) if mark else ("", digest)


def _batch(form: str, value: str) -> str:
    """Return the part of a digest that identifies the rows of a batch; empty if there is none."""
    if form == RUN:
        return value.partition("/")[2]
    return value if form == BATCH else ""


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
