"""Data files whose pages claim other sizes, counts and encodings than they have (DAT-5)."""

from __future__ import annotations

import io
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.errors import CorruptDataError
from tablefmt.log.codec import seal
from tablefmt.log.object_names import entry_key
from tablefmt.store.memory_store import MemoryStore
from tests.system.page_headers import headers, with_another_header
from tests.tables import handle, memory, new_table, rows

CODECS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]
ENCODINGS: list[dict[str, Any]] = [
    {},
    {"data_page_version": "2.0"},
    {"use_dictionary": False},
    {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED"}},
    {"use_dictionary": False, "column_encoding": {"p": "DELTA_BYTE_ARRAY"}},
]


def outcome(store: MemoryStore, path: str) -> str:
    """Read a table in three ways. Any other error than damage of the file is raised."""
    with suppress(CorruptDataError):
        handle(store).to_arrow(where="id > 150 AND p = 'a'")
    findings = handle(store).verify(deep=True).findings
    assert {finding.object for finding in findings} <= {path}
    try:
        found = handle(store).to_arrow()
    except CorruptDataError as error:
        return f"damage of {error.key}"
    return f"{found.num_rows} rows"


@pytest.mark.slow
@pytest.mark.broken_tables
@pytest.mark.share(3)
@pytest.mark.parametrize("codec", CODECS)
def test_pages_with_wrong_headers_are_rows_or_damage(codec: str) -> None:
    """DAT-5: whole scans, scans with a condition, and a deep check, without another error."""
    store = memory()
    new_table(store).append(rows(*range(200)))
    (path,) = (one.key for one in store.list_after("data/"))
    entry = orjson.loads(store.get(entry_key(1)))
    known = pq.read_table(io.BytesIO(store.get(path)))
    chance, outcomes = random.Random(codec), Counter[str]()
    for encoding in ENCODINGS:
        sink = io.BytesIO()
        pq.write_table(known, sink, compression=codec, write_page_checksum=True, **encoding)
        assert headers(sink.getvalue())
        for _ in range(8):
            body = with_another_header(sink.getvalue(), chance)
            entry["add"].pop("footer", None)
            entry.pop("checksum", None)
            entry["add"]["size"] = [len(body)]
            entry["totals"]["bytes"] = len(body)
            store.put(entry_key(1), seal(entry))
            store.put(path, body)
            for key in [one.key for one in store.list_after("_log/") if "json" not in one.key]:
                store.delete(key)
            outcomes[outcome(store, path)] += 1
    assert outcomes.keys() == {"200 rows", f"damage of {path}"}
    assert pa.total_allocated_bytes() < 1 << 30
