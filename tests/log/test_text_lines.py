"""Texts of a few lines come from the pages that hold them, and from nothing else.

Spec: CKP-3, STO-25.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.log.bounded_parquet import chunk_extent, columns_of, pages_in
from tablefmt.log.page_files import flat_columns
from tablefmt.log.text_lines import text_lines
from tests.scheduling import examples

COUNT = 3000
TEXTS = pa.table({"n": range(COUNT), "t": [f"{'x' * (at % 40)}{at}" for at in range(COUNT)]})


def packed(**options: Any) -> bytes:
    out = pa.BufferOutputStream()
    default = {
        "compression": "zstd",
        "use_dictionary": False,
        "write_page_checksum": True,
        "data_page_size": 500,
        "write_batch_size": 20,
    }
    pq.write_table(TEXTS, out, row_group_size=1000, **{**default, **options})
    body: bytes = out.getvalue().to_pybytes()
    return body


def lines_of(body: bytes, lines: list[int]) -> list[str] | None:
    """Return the texts of some lines."""
    source = io.BytesIO(body)
    leaves = columns_of(source)
    at = flat_columns(leaves)["t"]
    wanted = np.array(sorted(lines))
    groups = np.unique(wanted // 1000)
    each = [wanted[wanted // 1000 == group] % 1000 for group in groups]
    found = text_lines(
        source, pq.read_metadata(io.BytesIO(body)), (at, leaves[at]), groups.tolist(), each
    )
    return None if found is None else found.to_pylist()


PACKED = packed()


@examples(50)
@given(st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=12))
def test_texts_are_those_of_the_lines(lines: set[int]) -> None:
    expected = [TEXTS["t"][at].as_py() for at in sorted(lines)]
    assert lines_of(PACKED, list(lines)) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": True},
        {"column_encoding": {"t": "DELTA_BYTE_ARRAY"}},
        {"compression": "lz4"},
        {"data_page_size": 1 << 20},
    ],
)
def test_other_pages_are_left_to_a_reader_of_whole_columns(options: dict[str, Any]) -> None:
    assert lines_of(packed(**options), [5]) is None


def test_many_lines_are_left_to_a_reader_of_whole_columns() -> None:
    assert lines_of(PACKED, list(range(0, COUNT, 7))) is None
    assert lines_of(PACKED, list(range(0, COUNT, 20))) is None


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_a_flipped_bit_of_a_page_is_noticed(codec: str) -> None:
    """CKP-3: in every byte of the page that is read."""
    body = packed(compression=codec)
    footer = pq.read_metadata(io.BytesIO(body))
    start, stop = chunk_extent(footer.row_group(0).column(1))
    page = next(iter(pages_in(body[start:stop])))
    for at in range(start + page.header, start + page.header + page.packed):
        changed = bytearray(body)
        changed[at] ^= 1 << at % 8
        with pytest.raises((pa.ArrowException, OSError, ValueError)):
            lines_of(bytes(changed), [0])


def test_headers_must_count_the_lines_of_the_row_group() -> None:
    """CKP-3: headers have no checksum. A wrong number of values would give other texts."""
    body = packed()
    footer = pq.read_metadata(io.BytesIO(body))
    start, stop = chunk_extent(footer.row_group(0).column(1))
    page = next(iter(pages_in(body[start:stop])))
    count = bytes((page.values << 1,))
    at = body.index(count, start + 8, start + page.header)
    changed = body[:at] + bytes((page.values - 1 << 1,)) + body[at + 1 :]
    with pytest.raises(ValueError, match="a different number of lines than its row group"):
        lines_of(changed, [999])


def test_pages_that_unpack_to_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-25."""
    monkeypatch.setattr("tablefmt.log.text_lines.most_expanded", lambda stored: stored // 2)
    with pytest.raises(ValueError, match="bytes of memory or more"):
        lines_of(PACKED, [0])
