"""Sets of positions: what is written is read, and nothing else is given to the library."""

from __future__ import annotations

import base64
import random

import logdump.rows
import numpy as np
import pyarrow as pa
import pytest
from golden.positions import text_of
from hypothesis import given
from hypothesis import strategies as st
from logdump.shapes import Refusal
from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError
from tablefmt.model.log_entry import RowDeletes
from tablefmt.model.positions import (
    DELETE_COLUMNS,
    DeletionVector,
    decode_positions,
    delete_columns,
    encode_positions,
    marks_of,
    pack_positions,
    row_deletes,
    true_positions,
    unpack_positions,
)
from tests.scheduling import examples

POSITIONS = st.one_of(
    st.sets(st.integers(0, 2**63 - 1), min_size=1, max_size=20),
    st.sets(st.integers(0, 300_000), min_size=1, max_size=50),
    st.builds(
        lambda first, count, step: set(range(first, first + count * step, step)),
        st.sampled_from([0, 5, 65_530, 2**32 - 100, 2**40]),
        st.integers(1, 20_000),
        st.integers(1, 3),
    ),
)


def by_the_log_dump(packed: bytes) -> set[int] | None:
    """Return the positions that the second reader decodes. None if it refuses the bytes."""
    try:
        runs = logdump.rows.positions(base64.b64encode(packed).decode())
    except Refusal:
        return None
    return {p for first, end in runs for p in range(first, end)}


def by_the_package(packed: bytes) -> set[int] | None:
    try:
        return set(unpack_positions(packed))
    except CorruptEntryError:
        return None


@examples(40)
@given(positions=POSITIONS)
def test_a_set_is_read_as_it_was_written_by_either_writer(positions: set[int]) -> None:
    """DEL-2: both writers: this package, and one without its library."""
    packed = pack_positions(BitMap64(positions))
    assert set(unpack_positions(packed)) == by_the_log_dump(packed) == positions
    assert set(decode_positions(encode_positions(BitMap64(positions)))) == positions
    for runs in (False, True):
        text = text_of(positions, runs=runs)
        assert set(decode_positions(text)) == positions


@pytest.mark.slow
@examples(60)
@given(
    start=st.sampled_from(
        [[0, 2, 9], range(3, 90), [1, 70_000, 2**33], range(0, 20_000, 2), range(5 * 65_536)]
    ),
    runs=st.booleans(),
    chance=st.randoms(use_true_random=False),
)
def test_hostile_bytes_are_refused_or_are_one_sound_set(
    start: range | list[int], runs: bool, chance: random.Random
) -> None:
    """DEL-2: two readers take the same bytes for the same set, or both refuse them."""
    packed = bytearray(base64.b64decode(text_of(start, runs=runs)))
    for _ in range(chance.randint(1, 3)):
        packed[chance.randrange(min(len(packed), 100))] = chance.choice([0, 1, 2, 58, 59, 255])
    if chance.random() < 0.2:
        del packed[chance.randrange(len(packed)) :]
    assert by_the_package(bytes(packed)) == by_the_log_dump(bytes(packed))


def test_every_prefix_and_every_byte_more_is_refused() -> None:
    """DEL-2."""
    packed = pack_positions(BitMap64([1, 5, 70_000, 2**33]))
    cut = [packed[:length] for length in range(len(packed))]
    assert {by_the_package(raw) is None for raw in [*cut, packed + b"\0", packed * 2]} == {True}


@pytest.mark.parametrize("text", ["", "AA", "AAAA", "!", " ", "AQAAAAAAAAAAAAAAOjAAAAE=", "é"])
def test_text_that_is_no_set_is_refused(text: str) -> None:
    """DEL-2."""
    with pytest.raises(CorruptEntryError) as caught:
        decode_positions(text)
    assert caught.value.rule == "DEL-2"


def test_marks_come_back_from_the_columns_of_an_entry() -> None:
    """DEL-1: files ascending; a file without marks is left out."""
    none = BitMap64()
    marks = {
        9: DeletionVector(BitMap64([3]), none),
        2: DeletionVector(none, BitMap64([0, 7])),
        5: DeletionVector(BitMap64([1]), BitMap64([2])),
    }
    found = row_deletes({**marks, 1: DeletionVector(none, none)})
    assert found is not None
    assert (found.file, found.rows) == ([2, 5, 9], [2, 2, 1])
    assert (found.deleted[0], found.updated[2]) == (None, None)
    columns = delete_columns(found)
    assert columns.schema == DELETE_COLUMNS
    assert marks_of(columns) == marks
    assert row_deletes({1: DeletionVector(none, none)}) is None


@pytest.mark.parametrize(
    ("rows", "deleted", "updated"), [(2, [1], []), (2, [1], [1]), (1, [1], [2])]
)
def test_marks_that_overlap_or_miscount_are_refused(
    rows: int, deleted: list[int], updated: list[int]
) -> None:
    """DEL-1."""
    texts = [[encode_positions(BitMap64(p)) if p else None] for p in (deleted, updated)]
    with pytest.raises(CorruptEntryError) as caught:
        marks_of(delete_columns(RowDeletes([1], [rows], *texts)))
    assert caught.value.rule == "DEL-1"


@examples(60)
@given(
    count=st.integers(0, 2000),
    share=st.sampled_from([0, 1, 3, 300]),
    nulls=st.booleans(),
    start=st.integers(0, 20),
    seed=st.integers(0, 1 << 32),
)
def test_positions_of_true_values(
    count: int, share: int, nulls: bool, start: int, seed: int
) -> None:
    chance = random.Random(seed)
    values: list[bool | None] = [chance.randrange(1000) < share for _ in range(count)]
    if nulls:
        values = [None if chance.random() < 0.1 else value for value in values]
    mask = pa.array(values, pa.bool_()).slice(start)
    expected = [at for at, value in enumerate(values[start:]) if value]
    found = true_positions(mask)
    assert found.tolist() == expected
    assert found.dtype == np.int64
