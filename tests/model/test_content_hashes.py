"""Hashes of keys (ADD-8), against a second way to compute them."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import CorruptEntryError
from tablefmt.model.content_hashes import (
    KEYS_MAX,
    decode_all_hashes,
    decode_hashes,
    encode_hashes,
    hash_keys,
)
from tablefmt.model.schema import Decimal, Primitive, Type
from tests.scheduling import examples

LONG, STRING, DOUBLE = Primitive("long"), Primitive("string"), Primitive("double")


def hash_of(*values: Any) -> int:
    """Return the hash by the rule: SHA-256 over the JSON array of encoded values."""
    text = json.dumps(list(values), separators=(",", ":"), ensure_ascii=False)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


@examples(100)
@given(
    keys=st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        ),
        max_size=8,
    )
)
def test_hashes_are_those_of_the_rule(keys: list[tuple[int | None, str | None]]) -> None:
    """ADD-8: ascending, each once, none for a key with a NULL."""
    columns = [pa.array([k[0] for k in keys], pa.int64()), pa.array([k[1] for k in keys], "string")]
    found = hash_keys(columns, [LONG, STRING])
    assert found.tolist() == sorted({hash_of(*key) for key in keys if None not in key})
    assert decode_hashes(encode_hashes(found)).tolist() == found.tolist()


def test_floats_are_hashed_by_their_bits() -> None:
    """ADD-8: one zero, one NaN, and no text of a float."""
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    column = pa.array([0.0, -0.0, float("nan"), other_nan, 1.5])
    bits = [struct.unpack("<q", struct.pack("<d", v))[0] for v in (0.0, 1.5)]
    expected = sorted(hash_of(number) for number in (*bits, 0x7FF8000000000000))
    assert hash_keys([column], [DOUBLE]).tolist() == expected
    narrow = hash_keys([column.cast(pa.float32())], [Primitive("float")])
    assert narrow.tolist() == expected


def test_other_types_are_hashed_as_the_log_writes_them() -> None:
    """ADD-8, VAL-1."""
    numbers = pa.array([Exact("-0.50")], pa.decimal128(9, 2))
    days = pa.array([-1], pa.int32()).cast(pa.date32())
    kinds: list[Type] = [
        Decimal(9, 2),
        Primitive("date"),
        Primitive("binary"),
        Primitive("boolean"),
    ]
    columns = [numbers, days, pa.array([b"\xff"]), pa.array([True])]
    assert hash_keys(columns, kinds).tolist() == [hash_of("-0.50", -1, "/w==", True)]


@pytest.mark.parametrize(
    "packed",
    [
        b"1234567",
        "!",
        encode_hashes(np.array([2, 1], np.uint64)),
        encode_hashes(np.array([1, 1], np.uint64)),
        encode_hashes(np.arange(KEYS_MAX + 1, dtype=np.uint64)),
    ],
)
def test_hashes_that_are_none_are_refused(packed: bytes | str) -> None:
    """ADD-8."""
    with pytest.raises(CorruptEntryError) as caught:
        decode_hashes(packed)
    assert caught.value.rule == "ADD-8"


@given(st.lists(st.sets(st.integers(0, 2**64 - 1), max_size=4), max_size=5))
def test_hashes_of_several_files_are_decoded_at_once(files: list[set[int]]) -> None:
    """ADD-8: files without any between them, and a file that begins below the end of another."""
    wanted = [np.array(sorted(found), np.uint64) for found in files]
    hashes, ends = decode_all_hashes([encode_hashes(found) for found in wanted])
    found = [hashes[a:b].tolist() for a, b in itertools.pairwise(ends)]
    assert found == [each.tolist() for each in wanted]
    with pytest.raises(CorruptEntryError):
        decode_all_hashes([*map(encode_hashes, wanted), encode_hashes(np.array([2, 1], np.uint64))])
