"""Row groups none of whose rows is there are not read."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from tablefmt.data.row_reader import locate_rows
from tablefmt.errors import CorruptDataError
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.positions import pack_positions
from tablefmt.model.schema_rules import number_fields
from tablefmt.store.memory_store import MemoryStore

_numbers = itertools.count()
ROWS, GROUP = 4000, 1000


@pytest.mark.parametrize(
    ("wanted", "readable"),
    [([2500, 2999], True), ([999], False), ([1000, 3999], True), ([0, 3000], False)],
)
def test_a_damaged_row_group_harms_only_who_wants_rows_of_it(
    wanted: list[int], readable: bool
) -> None:
    """DAT-4, DEL-1: the rows have their positions in the file."""
    values = pa.table({"v": pa.array(np.random.default_rng(1).integers(0, 1 << 60, ROWS))})
    sink = pa.BufferOutputStream()
    pq.write_table(
        values, sink, row_group_size=GROUP, use_dictionary=False, write_page_checksum=True
    )
    body = bytearray(sink.getvalue().to_pybytes())
    chunk = pq.read_metadata(pa.BufferReader(bytes(body))).row_group(0).column(0)
    body[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    store = MemoryStore(f"inhabited-{next(_numbers)}")
    store.put("data/a", bytes(body))
    others = BitMap64(range(ROWS)) - BitMap64(wanted)
    files = pa.table(
        {
            "path": ["data/a"],
            "size": [len(body)],
            "rows": [ROWS],
            "deleted": [len(others)],
            "vector": pa.array([pack_positions(others)], pa.large_binary()),
        }
    )
    schema = number_fields(from_arrow(values.schema).fields)
    read = locate_rows(store, files, schema, schema.fields)
    if not readable:
        with pytest.raises(CorruptDataError):
            list(read)
        return
    found = list(read)
    assert np.concatenate([each.positions for each in found]).tolist() == wanted
    rows = [v for each in found for v in each.rows.column(0).to_pylist()]
    assert rows == values["v"].take(wanted).to_pylist()
