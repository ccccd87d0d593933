"""Nested Parquet of strangers as Python values: bounds of memory (STO-25)."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.log.bounded_records import batches_of, records_of

MIB = 1 << 20
KIND = pa.struct(
    [
        ("path", pa.string()),
        ("values", pa.map_(pa.string(), pa.string())),
        ("list", pa.list_(pa.int64())),
    ]
)


def parquet(columns: Any, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd", store_schema=False, **options)
    return sink.getvalue()


def nested(rows: list[Any]) -> pa.Array:
    return pa.array(rows, KIND)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"},
                {"use_dictionary": False, "column_encoding": {"add.path": "DELTA_BYTE_ARRAY"}},
                {"row_group_size": 7, "data_page_size": 64},
                {"dictionary_pagesize_limit": 16, "data_page_size": 64, "write_batch_size": 8}]
)  # fmt: skip
def test_rows_are_those_of_arrow(options: dict[str, Any]) -> None:
    """Read each encoding, over several batches."""
    rows = [
        None if n % 5 == 0 else {"path": f"é{n % 7}", "values": [("k", None), ("l", "v")][: n % 3],
                                 "list": None if n % 2 else [n, None]}
        for n in range(3000)
    ]  # fmt: skip
    body = parquet({"add": nested(rows), "other": ["x"] * 3000}, **options)
    wanted = pq.read_table(io.BytesIO(body), columns=["add"]).to_pylist()
    assert list(records_of(body, ["add", "lost"])) == wanted
    assert sum(batch.num_rows for batch in batches_of(body, ["add"], 64)) == 3000


def repeated(text: str, rows: int) -> dict[str, pa.Array]:
    words = pa.array([text]).dictionary_encode().take(pa.array([0] * rows))
    return {"add": pa.StructArray.from_arrays([words], ["path"])}


def long_lists(rows: int, length: int) -> pa.Array:
    offsets = pa.array(np.arange(rows + 1) * length, pa.int32())
    elements = pa.array(np.zeros(rows * length, np.int64))
    empty = nested([{"path": "x", "values": []}] * rows)
    columns = [*empty.flatten()[:2], pa.ListArray.from_arrays(offsets, elements)]
    return pa.StructArray.from_arrays(columns, fields=list(KIND))


BOMBS: dict[str, Callable[[], bytes]] = {
    "a text on every line": lambda: parquet(repeated("a" * MIB, 4000)),
    "a text in every element of a list": lambda: parquet(
        {"add": nested([{"path": "x", "values": [("k", "a" * MIB)] * 200, "list": []}])}
    ),
    "a list without end": lambda: parquet({"add": long_lists(30, 3_000_000)}),
    "texts that share their beginnings": lambda: parquet(
        {"add": nested([{"path": "c" * MIB, "values": [], "list": []}] * 300)},
        use_dictionary=False, column_encoding={"add.path": "DELTA_BYTE_ARRAY"},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused(name: str) -> None:
    """A few kilobytes that would be hundreds of megabytes of Python values."""
    body = BOMBS[name]()
    assert len(body) < 400_000
    with pytest.raises(ValueError, match="bytes of memory or more"):
        for _ in records_of(body, ["add"]):
            pass


@pytest.mark.slow
def test_damage_is_an_error_of_arrow() -> None:
    """A flipped bit in each byte of the footer and of the pages."""
    body = parquet({"add": nested([{"path": "x", "values": [("k", "v")], "list": [1]}] * 3)},
                   write_page_checksum=True)  # fmt: skip
    for at in range(4, len(body) - 4):
        damaged = body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :]
        try:
            list(records_of(damaged, ["add"]))
        except (pa.ArrowException, OSError, ValueError):
            pass
