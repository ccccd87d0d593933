"""Store requests of operations, counted exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import tablefmt
from tablefmt.log.object_names import entry_key
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.s3server import S3Server
from tests.tables import behind, handle, ids, memory, new_table, rows


def warm(partitioned: bool = False) -> tuple[Table, CountingStore]:
    """A handle that has appended before, and what counts its requests from now on."""
    counting = CountingStore(memory())
    table = new_table(counting, partitioned=partitioned)
    table.append(rows(0))
    counting.reset()
    return table, counting


def test_a_warm_append_is_its_data_put_and_one_log_put() -> None:
    """CMT-2, LOG-4: no get, no listing, however often."""
    table, counting = warm()
    for n in range(1, 40):
        counting.reset()
        commit_result = table.append(rows(n))
        data = f"data/{commit_result.transaction}/0-0.parquet"
        assert counting.requests == [("put", data), ("put_if_absent", entry_key(n + 1))]


@pytest.mark.parametrize("partitions", [1, 2, 13])
def test_a_warm_append_to_k_partitions_is_k_data_puts_and_one_log_put(partitions: int) -> None:
    """CMT-2."""
    table, counting = warm(partitioned=True)
    table.append(rows(*range(26), p=[f"p{i % partitions}" for i in range(26)]))
    assert counting.counts == Counter(put=partitions, put_if_absent=1)


def test_an_append_of_nothing_asks_nothing() -> None:
    """CMT-2."""
    table, counting = warm()
    assert table.append(rows()).no_op
    assert counting.requests == []


def test_an_overwrite_asks_for_the_head_and_then_writes() -> None:
    """CMT-2, CFL-3: the log has the files to remove."""
    table, counting = warm(partitioned=True)
    overwrites: list[Callable[[], object]] = [
        lambda: table.overwrite(rows(1)),
        lambda: table.overwrite(rows(2), dynamic_partitions=True),
        lambda: table.overwrite(rows(3), where="p = 'a'"),
    ]
    for n, overwrite in enumerate(overwrites, 2):
        counting.reset()
        overwrite()
        verbs = [(verb, key if "_log" in key else "data") for verb, key in counting.requests]
        assert verbs == [
            ("get", entry_key(n)),
            ("put", "data"),
            ("put_if_absent", entry_key(n)),
        ]


def test_a_truncate_writes_no_data() -> None:
    """CMT-2."""
    table, counting = warm()
    table.truncate()
    assert counting.counts == Counter(get=1, put_if_absent=1)


@pytest.mark.parametrize("concurrent_commits", [1, 3, 30])
def test_a_lost_race_reads_every_concurrent_commit_once_and_writes_no_data_again(
    concurrent_commits: int,
) -> None:
    """CMT-4, CMT-5."""
    table, _ = warm()
    counting = CountingStore(table.context.store.inner)  # type: ignore[attr-defined]
    late = behind(table, counting)
    for n in range(concurrent_commits):
        table.append(rows(100 + n))
    commit_result = late.append(rows(1))
    assert commit_result.version == concurrent_commits + 2
    assert commit_result.rebased_over == tuple(range(2, concurrent_commits + 2))
    asked = Counter(counting.requests)
    assert counting.counts["put"] == 1
    assert [k for v, k in counting.requests if v == "put_if_absent"] == [
        entry_key(2),
        entry_key(concurrent_commits + 2),
    ]
    assert all(asked["get", entry_key(v)] == 1 for v in range(2, concurrent_commits + 2))
    assert counting.counts["list_after"] == 0
    assert counting.counts["get"] <= 8 * concurrent_commits + 9


def test_a_warm_scan_asks_nothing_of_the_log() -> None:
    """RPL-1: reads of the handle's own version and of older ones."""
    table, counting = warm()
    table.append(rows(1))
    counting.reset()
    assert ids(table) == [0, 1]
    assert ids(table, 1) == [0]
    assert [key for _, key in counting.requests if key.startswith("_log")] == []


class Wire:
    """Requests as a server of moto's sees them."""

    def __init__(self, server: S3Server) -> None:
        self.seen: list[tuple[str, str]] = []
        self.ranges: list[tuple[str, str]] = []
        """Path, and the bytes asked for, of every GET; "" for all of them."""
        self._http = server._server
        self._inner = self._http.app

    def __enter__(self) -> Wire:
        def counted(environ: dict[str, str], start: object) -> object:
            query = environ.get("QUERY_STRING", "")
            what = "?list" if "list-type" in query else ""
            path = environ["PATH_INFO"].split("/table/")[-1] + what
            self.seen.append((environ["REQUEST_METHOD"], path))
            if environ["REQUEST_METHOD"] == "GET":
                asked = environ.get("HTTP_RANGE", "").removeprefix("bytes=")
                self.ranges.append((path, asked))
            return self._inner(environ, start)  # type: ignore[arg-type]

        self._http.app = counted  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        self._http.app = self._inner


@pytest.fixture
def wire(s3_server: S3Server) -> Iterator[Wire]:
    with Wire(s3_server) as wire:
        yield wire


@pytest.mark.slow
def test_on_s3_a_warm_append_is_two_puts_on_the_wire(
    s3_server: S3Server, s3_uri: str, wire: Wire
) -> None:
    """CMT-2, STO-12: the probe comes before the first write alone."""
    table = tablefmt.create(s3_uri, "id BIGINT, p STRING", storage_options=s3_server.options)
    table.append(rows(0))
    wire.seen.clear()
    commit_result = table.append(rows(1))
    assert wire.seen == [
        ("PUT", f"data/{commit_result.transaction}/0-0.parquet"),
        ("PUT", entry_key(2)),
    ]


@pytest.mark.slow
def test_on_s3_a_cold_open_gets_the_log_and_lists_once_at_most(
    s3_server: S3Server, s3_uri: str, wire: Wire
) -> None:
    """LOG-5: no HEAD, no bucket is asked for."""
    options = s3_server.options
    table = tablefmt.create(s3_uri, "id BIGINT, p STRING", storage_options=options)
    for n in range(3):
        table.append(rows(n))
    wire.seen.clear()
    assert tablefmt.open(s3_uri, storage_options=options).version == 3
    wanted = ["_log/hint.json", *(entry_key(v) for v in range(8))]
    lists = [path for _, path in wire.seen if path.endswith("?list")]
    assert len(lists) == 1
    assert sorted(path for _, path in wire.seen) == sorted([*wanted, *lists])

    for n in range(9):
        table.append(rows(n))
    wire.seen.clear()
    assert tablefmt.open(s3_uri, storage_options=options).version == 12
    lists = [path for _, path in wire.seen if path.endswith("?list")]
    gets = {path for method, path in wire.seen if method == "GET"} - set(lists)
    assert len(lists) == 1
    assert gets == {"_log/hint.json", *(entry_key(v) for v in range(14))}
    assert Counter(method for method, _ in wire.seen)["PUT"] == 1  # the hint it leaves


@pytest.mark.slow
def test_a_handle_refreshes_with_one_get() -> None:
    """LOG-4."""
    table, counting = warm()
    table.refresh()
    assert counting.requests == [("get", entry_key(2))]
    assert ids(handle(counting)) == [0]
