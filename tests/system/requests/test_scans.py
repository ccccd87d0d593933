"""Requests of a read to a remote store, counted exactly, and its answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data import file_prefetch, scan_tasks
from tablefmt.data.file_checksum import END_BYTES
from tablefmt.data.file_prefetch import GAP_BYTES, PART_BYTES, in_parts
from tablefmt.errors import CommitRejectedError, CorruptDataError, StoreError
from tablefmt.store.object_store import Range, Store
from tablefmt.store.store_traits import Traits
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.s3server import S3Server
from tests.system.requests.test_requests import Wire, wire
from tests.tables import handle, memory

assert wire  # A fixture.


class Far(CountingStore):
    """A store as if over a network: no object is an open file, and ranges are recorded."""

    @property
    def traits(self) -> Traits:
        return replace(self.inner.traits, remote=True)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.ranges: list[Range] = []

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.ranges.append((key, start, length))
        return super().get_range(key, start, length)

    def get_ranges(self, wanted: Sequence[Range]) -> list[bytes | None]:
        self.ranges += wanted
        return super().get_ranges(wanted)

    def open_file(self, key: str) -> None:
        return None

    def asked(self) -> tuple[Counter[str], int]:
        """Return the requests by verb and the rounds since the last call."""
        found = self.counts, self.rounds
        self.reset()
        self.ranges.clear()
        return found


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [f"p{i % 3}" for i in ids]})


def far(files: int = 7, per_file: int = 2) -> tuple[Table, Far, pa.Table]:
    """A table, what counts its requests from now on, and its rows in order."""
    store = Far(memory())
    table = tablefmt.create(store.uri, "id BIGINT, p STRING")
    for n in range(files):
        table.append(rows(*range(n * per_file, (n + 1) * per_file)))
    opened = handle(store)
    store.asked()
    return opened, store, rows(*range(files * per_file))


def test_small_files_are_one_request_each_and_one_round() -> None:
    """ADD-7, DAT-4: the checksum needs the whole file, and the scan uses the same bytes."""
    table, store, expected = far()
    assert table.to_arrow() == expected
    assert store.asked() == ({"get_range": 7}, 1)
    assert table.to_arrow(columns=["p"], where="id >= 6") == expected.select(["p"]).slice(6)
    assert store.asked() == ({"get_range": 4}, 1)
    assert table.scan(where="id > 2 AND p = 'p1'").count() == 4
    assert store.asked() == ({"get_range": 6}, 1)
    assert table.to_arrow(where="length(p) = 2 AND id % 2 = 0").num_rows == 7
    assert store.asked() == ({"get_range": 7}, 1)
    changed = table.changes(starting_version=1).to_arrow()
    assert changed.select(["id", "p"]) == expected
    assert store.counts["get_range"] == 7


def test_a_limit_fetches_no_more_than_it_needs() -> None:
    """Files are counted by the log; where a condition decides, few are fetched first."""
    table, store, expected = far(files=30)
    for limit, files in ((1, 1), (2, 1), (3, 2), (59, 30)):
        assert table.to_arrow(limit=limit) == expected.slice(0, limit)
        assert store.asked() == ({"get_range": files}, 1)
    assert table.to_arrow(where="p = 'p1'", limit=2)["id"].to_pylist() == [1, 4]
    assert store.asked() == ({"get_range": scan_tasks.FIRST_FILES}, 1)
    assert table.to_arrow(where="id % 2 = 0", limit=9)["id"].to_pylist() == list(range(0, 18, 2))
    assert store.asked() == ({"get_range": 5 * scan_tasks.FIRST_FILES}, 2)


def test_statements_fetch_a_file_once_to_find_rows_and_once_to_change_them() -> None:
    """DEL-4, ENT-9: deletion vectors, and files written again; but a MERGE that sets every column
    has nothing to fetch of the rows it found."""
    table, store, _ = far()
    table.delete("id IN (1, 4)")
    assert store.asked()[0] == {"get": 1, "get_range": 2, "put_if_absent": 1}
    assert table.to_arrow()["id"].to_pylist() == [0, 2, 3, *range(5, 14)]
    assert store.asked() == ({"get_range": 7}, 1)
    table.update({"p": "'new'"}, "id = 5")
    assert store.asked()[0] == {"get": 1, "get_range": 2, "put": 1, "put_if_absent": 1}
    merge = table.merge(rows(0, 99), "s.id = t.id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    asked = store.asked()[0]
    assert (asked["get_range"], asked["open_file"], asked["size"]) == (1, 0, 0)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 2, 3, *range(5, 14), 99]
    store.asked()
    merge = table.merge(rows(2, 99), "s.id = t.id").when_matched_update({"p": "s.p"})
    merge.execute()
    assert store.asked()[0]["get_range"] == 4
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 2, 3, *range(5, 14), 99]


@pytest.fixture
def wide() -> tuple[pa.Table, Far, Table]:
    """Two files of 30 columns, of about 1.5 MB each; nothing makes the numbers any shorter."""
    chance = random.Random(30)
    table = pa.table(
        {f"c{c}": pa.array([chance.getrandbits(60) for _ in range(13_000)]) for c in range(30)}
    )
    store = Far(memory())
    made = tablefmt.create(store.uri, table.schema)
    for half in (table.slice(0, 6_500), table.slice(6_500)):
        made.append(half)
    opened = handle(store)
    store.asked()
    return table, store, opened


def test_large_files_are_an_end_and_ranges_of_the_columns(
    wide: tuple[pa.Table, Far, Table],
) -> None:
    """One round for all of it. Of some columns, one for the ends, and one for everything else; near
    columns come together."""
    expected, store, table = wide
    sizes = table.scan().files()["size"].to_pylist()
    assert min(sizes) > file_prefetch.WHOLE_BYTES + END_BYTES
    assert table.to_arrow() == expected
    assert [(start, n) for _, start, n in store.ranges] == [(0, size + 1) for size in sizes]
    assert store.asked() == ({"get_range": 2}, 1)
    store.ranges.clear()
    assert table.to_arrow(columns=["c7"]) == expected.select(["c7"])
    ends, parts = store.ranges[:2], store.ranges[2:]
    assert [n for _, _, n in ends] == [END_BYTES + 1] * 2
    for (key, start, length), size in zip(parts, sizes, strict=True):
        footer = pq.ParquetFile(pa.BufferReader(store.inner.get(key))).metadata
        chunks = [footer.row_group(g).column(7) for g in range(footer.num_row_groups)]
        first = min(c.dictionary_page_offset or c.data_page_offset for c in chunks)
        last = max(
            (c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size
            for c in chunks
        )
        assert (start, length) == (first, last - first)
        assert length < size / 20
    assert store.asked() == ({"get_range": 4}, 2)
    assert table.to_arrow(columns=["c2"], where="c29 = 5").num_rows == 0
    assert store.asked()[0]["get_range"] <= 6
    # Files keep a column that was dropped. So their footers come first.
    rest = [f"c{c}" for c in range(20)]
    for dropped in range(20, 30):
        table.alter.drop_column(f"c{dropped}")
    store.asked()
    assert table.to_arrow() == expected.select(rest)
    for path, size in zip(table.scan().files()["path"].to_pylist(), sizes, strict=True):
        asked = [n for key, _, n in store.ranges if key == path]
        assert asked[0] == END_BYTES + 1
        assert sum(asked) < size * 0.75
    assert store.asked() == ({"get_range": 4}, 2)


@pytest.mark.parametrize("part", [100_000, 400_000, 700_000])
def test_files_that_are_read_whole_are_cut_into_parts_from_the_start(
    wide: tuple[pa.Table, Far, Table], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last part is the end with the footer. No byte is requested twice."""
    monkeypatch.setattr(file_prefetch, "PART_BYTES", part)
    monkeypatch.setattr(scan_tasks, "PART_BYTES", part)
    expected, store, table = wide
    files = table.scan().files()
    sizes = dict(zip(*(files[c].to_pylist() for c in ("path", "size")), strict=True))
    table.delete("c0 = 5")
    store.asked()
    assert table.to_arrow() == expected
    assert store.rounds == 1
    for path, size in sizes.items():
        asked = sorted((start, n) for key, start, n in store.ranges if key == path)
        cuts = [*range(0, size, part)]
        cuts[-1] = min(cuts[-1], size - END_BYTES)
        assert asked[-1] == (cuts[-1], size + 1 - cuts[-1])
        assert [start for start, _ in asked] == cuts
        assert [start + n for start, n in asked[:-1]] == [start for start, _ in asked[1:]]


@pytest.mark.parametrize("gone", [0, 1_500])
def test_the_first_rows_are_had_from_the_row_groups_that_hold_them(
    gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only deleted rows before them take more row groups."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 1_000)
    monkeypatch.setattr(file_prefetch, "GAP_BYTES", 0)
    monkeypatch.setattr(scan_tasks, "WHOLE_BYTES", 3_000)
    chance = random.Random(gone)
    rows = pa.table(
        {f"c{c}": pa.array([chance.getrandbits(60) for _ in range(13_000)]) for c in range(9)}
    ).add_column(0, "id", pa.array(range(13_000)))
    store = Far(memory())
    tablefmt.create(store.uri, rows.schema).append(rows)
    table = handle(store)
    if gone:
        table.delete(f"id < {gone}")
    store.asked()
    store.ranges.clear()
    assert table.to_arrow(limit=10) == rows.slice(gone, 10)
    (path,) = table.scan().files()["path"].to_pylist()
    footer = pq.ParquetFile(pa.BufferReader(store.inner.get(path))).metadata
    parts = [footer.row_group(g).column(c) for g in range(2 if gone else 1) for c in range(10)]
    asked = sum(n for key, _, n in store.ranges if key == path) - (END_BYTES + 1)
    assert asked == sum(part.total_compressed_size for part in parts)


@pytest.mark.share(2)
@pytest.mark.broken_tables  # Footer checksums cover fewer bytes than ADD-7 says.
@pytest.mark.parametrize("part", [700, 5_000, 1 << 20])
@pytest.mark.parametrize("task", [1, 40_000, 1 << 30])
def test_whatever_the_pieces_are_the_rows_are_the_same(
    part: int, task: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-4: pieces smaller than a column, scan tasks smaller than a file, any lengths."""
    monkeypatch.setattr(file_prefetch, "PART_BYTES", part)
    monkeypatch.setattr(file_prefetch, "GAP_BYTES", part // 7)
    monkeypatch.setattr(file_prefetch, "SCAN_TASK_BYTES", task)
    for name, value in (("SCAN_TASK_BYTES", task), ("WHOLE_BYTES", 3_000), ("GROUP_FILES", 3)):
        monkeypatch.setattr(scan_tasks, name, value)
    monkeypatch.setattr("tablefmt.data.file_checksum.END_BYTES", 2_000)
    store = Far(memory())
    kind = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))])
    table = tablefmt.create(
        store.uri, pa.schema([("id", pa.int64()), ("s", pa.string()), ("n", kind)])
    )
    parts = []
    for n, count in enumerate((1, 3_000, 2, 700, 5_000, 1, 1)):
        ids = range(n * 10_000, n * 10_000 + count)
        values = {
            "id": pa.array(ids, pa.int64()),
            "s": [f"{i * 7919 % 10_007}" for i in ids],
            "n": pa.array([{"x": i, "l": [str(i), None]} for i in ids], kind),
        }
        parts.append(
            pa.table(
                values, schema=pa.schema([("id", pa.int64()), ("s", pa.string()), ("n", kind)])
            )
        )
        table.append(parts[-1])
    expected = pa.concat_tables(parts)
    table = handle(store)
    assert table.to_arrow() == expected
    assert table.to_arrow(columns=["n"]) == expected.select(["n"])
    found = table.to_arrow(columns=["s"], where="id BETWEEN 10100 AND 45000 OR id = 60000")
    ids = expected["id"].to_pylist()
    wanted = [i for i, v in enumerate(ids) if 10_100 <= v <= 45_000 or v == 60_000]
    assert found == expected.select(["s"]).take(wanted)
    table.delete("id % 5 = 0")
    left = [i for i, v in enumerate(ids) if v % 5]
    assert table.to_arrow() == expected.take(left)
    assert table.scan(where="id >= 40000").count() == sum(ids[i] >= 40_000 for i in left)


def test_ranges_are_joined_and_cut() -> None:
    """Pure: every byte asked for is covered once, nothing beyond the end, no part is too long."""
    apart, long = GAP_BYTES + 1, 3 * PART_BYTES + 5
    cases: list[tuple[list[tuple[int, int]], int, list[tuple[int, int]]]] = [
        ([], 100, []),
        ([(4, 6)], 100, [(4, 6)]),
        ([(50, 10), (4, 6), (4, 6)], 100, [(4, 56)]),
        ([(90, 20), (100, 5)], 100, [(90, 10)]),
        ([(100, 5)], 100, []),
        ([(4, 6), (10 + apart, 1)], 1 << 40, [(4, 6), (10 + apart, 1)]),
        ([(4, 6), (10 + apart - 1, 1)], 1 << 40, [(4, 6 + apart)]),
        (
            [(7, long)],
            1 << 40,
            [*((7 + i * PART_BYTES, PART_BYTES) for i in range(3)), (7 + 3 * PART_BYTES, 5)],
        ),
    ]
    for ranges, stop, expected in cases:
        assert list(in_parts(ranges, stop)) == expected


def test_files_are_fetched_while_others_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task ahead is fetched and no more. None is after the reader is closed."""
    monkeypatch.setattr(scan_tasks, "GROUP_FILES", 2)
    table, store, expected = far(files=20)
    batches = table.scan().to_batches()
    assert next(batches).to_pylist() == expected.slice(0, 2).to_pylist()
    assert store.counts["get_range"] <= 4
    batches.close()  # type: ignore[attr-defined]
    assert store.counts["get_range"] <= 4
    store.asked()
    assert table.to_arrow() == expected
    assert store.asked() == ({"get_range": 20}, 10)


READS: dict[str, Callable[[Table], object]] = {
    "scan": lambda table: table.to_arrow(),
    "columns": lambda table: table.to_arrow(columns=["p"], where="id > 0"),
    "count": lambda table: table.scan(where="p = 'p1'").count(),
    "changes": lambda table: table.changes(starting_version=0).to_arrow(),
    "delete": lambda table: table.delete("p = 'p1'"),
}


@pytest.mark.parametrize("read", READS)
def test_a_store_without_an_answer_is_no_damage(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DAT-5: files that could not be read are not reported as damaged."""
    table, store, _ = far()

    def silent(wanted: Sequence[Range]) -> list[bytes | None]:
        raise StoreError("no answer came", retryable=True)

    monkeypatch.setattr(store.inner, "get_ranges", silent)
    with pytest.raises((StoreError, CommitRejectedError), match="no answer came"):
        READS[read](table)


@pytest.mark.broken_tables
def test_damage_far_away_is_found_by_name() -> None:
    """DAT-5: missing, cut, longer, other bytes; none of it needs a HEAD where all is well."""
    table, store, _ = far()
    key = table.scan().files()["path"][3].as_py()
    body = store.inner.get(key)
    changed = bytearray(body)
    changed[100] ^= 1
    for damaged, said in (
        (None, "missing"),
        (body[:-1], "long"),
        (body + b"x", "long"),
        (bytes(changed), "do not match the checksum"),
        (b"", "long"),
    ):
        store.inner.delete(key)
        if damaged is not None:
            store.inner.put(key, damaged)
        for read in READS.values():
            with pytest.raises(CorruptDataError, match=said) as caught:
                read(table)
            assert caught.value.key == key
    store.inner.put(key, body)
    store.asked()
    assert table.to_arrow().num_rows == 14
    assert store.asked()[0] == {"get_range": 7}


@pytest.mark.slow
def test_on_s3_a_scan_is_one_get_a_file_on_the_wire(
    s3_server: S3Server, s3_uri: str, wire: Wire
) -> None:
    """No HEAD, no listing, no GET beside them."""
    table = tablefmt.create(s3_uri, "id BIGINT, p STRING", storage_options=s3_server.options)
    for n in range(5):
        table.append(rows(n))
    paths = table.scan().files()["path"].to_pylist()
    wire.seen.clear()
    assert table.to_arrow() == rows(*range(5))
    assert sorted(wire.seen) == sorted(("GET", path) for path in paths)
    wire.seen.clear()
    assert table.to_arrow(where="id = 3") == rows(3)
    assert wire.seen == [("GET", paths[3])]
    wire.seen.clear()
    assert table.verify(deep=True).ok
    assert {method for method, _ in wire.seen} == {"GET"}
