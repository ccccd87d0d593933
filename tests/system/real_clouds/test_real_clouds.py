"""The store contract, the probe and a table's life on emulators of Google and Azure."""

from __future__ import annotations

import multiprocessing
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main
from tablefmt.errors import StoreError, TablefmtError
from tablefmt.store.cloud_store import OUTPUT_PART_BYTES, CloudStore
from tablefmt.store.location import open_store
from tablefmt.store.location_checks import probe
from tablefmt.store.object_store import Exists, KeyNotFoundError, Store, TooLong, Written
from tablefmt.testing.contract import StoreContract
from tests.system.real_clouds.emulators import Emulator, emulator
from tests.tables import ids

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module", params=["gcs", "azure"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    with emulator(request.param) as running:
        yield running


class TestContract(StoreContract):
    @pytest.fixture
    def store(self, cloud: Emulator) -> Store:
        return open_store(cloud.new_root(), cloud.options)


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "text": pa.array([f"row {n}" for n in ids], pa.string())}
    )


def test_the_probe_passes_and_leaves_nothing(cloud: Emulator) -> None:
    """STO-12: time after time."""
    store = open_store(cloud.new_root(), cloud.options)
    for _ in range(20):
        probe(store, uuid.uuid4().hex)
    assert list(store.list_after("")) == []


def test_a_long_output_is_sent_in_parts(cloud: Emulator) -> None:
    """STO-7: whole multiples of a part too; a failure after two parts leaves nothing."""
    store = open_store(cloud.new_root(), cloud.options)
    part = bytes(range(256)) * (OUTPUT_PART_BYTES // 256)
    for key, body in (("data/two", part * 2), ("data/more", part * 2 + b"rest")):
        with store.open_output(key) as stream:
            stream.write(body)
        assert store.size(key) == len(body)
        assert store.get_range(key, len(part) - 2, 4) == body[len(part) - 2 : len(part) + 2]
        assert store.get(key) == body

    def fail() -> None:
        with store.open_output("data/none") as stream:
            stream.write(part * 2 + b"rest")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert [one.key for one in store.list_after("")] == ["data/more", "data/two"]


def test_an_entry_of_64_mib_is_one_condition(cloud: Emulator) -> None:
    """STO-3: the longest entry, with one request for each create."""
    store = open_store(cloud.new_root(), cloud.options)
    body = b"x" * (64 << 20)
    assert store.put_if_absent("_log/00000000000000000001.json", body) == Written()
    assert store.put_if_absent("_log/00000000000000000001.json", body) == Exists()
    assert store.get("_log/00000000000000000001.json") == body
    store.put("_log/hint.json", body)
    long = store.get("_log/hint.json")
    assert isinstance(long, TooLong)
    assert long.length == len(body)


def test_more_than_one_page_is_listed(cloud: Emulator) -> None:
    """STO-9: GCS lists 1,000 at once, Azure 5,000."""
    store = open_store(cloud.new_root(), cloud.options)
    names = [f"_log/{n:05d}" for n in range(5100)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(name, b"x"), names))
    assert [one.key for one in store.list_after("_log/")] == names
    assert [one.key for one in store.list_after("_log/", "_log/05089")] == names[5090:]
    assert store.delete_many(names) == {}
    assert list(store.list_after("")) == []


def test_a_missing_bucket_is_no_empty_log(cloud: Emulator) -> None:
    """STO-8: every read, in a place that was never seen."""
    uri = cloud.new_root().split("://")[0] + f"://absent-{uuid.uuid4().hex}/t"
    for read in (
        lambda store: store.get("_log/0"),
        lambda store: store.get_many(["_log/0", "_log/1"]),
        lambda store: store.size("_log/0"),
        lambda store: list(store.list_after("")),
    ):
        with pytest.raises(StoreError, match="does not exist; create it"):
            read(open_store(uri, cloud.options))
    with pytest.raises(StoreError, match="does not exist; create it"):
        tablefmt.open(uri, storage_options=cloud.options)
    with pytest.raises(TablefmtError, match="does not exist; create it"):
        tablefmt.create(uri, rows(1), storage_options=cloud.options)


def test_the_clock_is_the_stores(cloud: Emulator) -> None:
    """STO-10: known after one answer, and near the times of a listing."""
    store = open_store(cloud.new_root(), cloud.options)
    assert store.server_time_us() is None
    store.put("data/x", b"x")
    (one,) = store.list_after("")
    assert abs(store.clock_us() - one.modified_us) < 5_000_000
    assert store.server_time_us() is not None


def test_a_tables_life(cloud: Emulator, tmp_path: Path) -> None:
    """CMT-1: every kind of commit, time travel, changes, vacuum, verify and the command line.

    The table is copied to a folder in the end, where the independent reader agrees with it.
    """
    uri, options = cloud.new_root(), cloud.options
    table = tablefmt.create(uri, rows(1, 2, 3), storage_options=options)
    first = table.version
    table.append(rows(4, 5))
    table.delete("id = 2")
    merge = table.merge(rows(5, 6), "t.id = s.id")
    merge.when_matched_update({"text": "s.text"}).when_not_matched_insert_all().execute()
    assert ids(table) == [1, 3, 4, 5, 6]
    before = table.to_arrow(version=first + 1)
    assert sorted(before["id"].to_pylist()) == [1, 2, 3, 4, 5]
    changed = table.changes(after_version=first).to_arrow()
    kinds = zip(changed["id"].to_pylist(), changed["_change_type"].to_pylist(), strict=True)
    assert {(2, "delete"), (4, "insert"), (6, "insert")} <= set(kinds)
    assert table.vacuum(dry_run=True).files.num_rows == 0
    report = table.verify(deep=True)
    assert (report.findings, report.unnamed) == ((), ())

    line = ["log", uri]
    for name, value in options.items():
        line += ["--storage-option", f"{name}={value}"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert "MERGE" in done.output

    store = open_store(uri, options)
    for one in store.list_after(""):
        target = tmp_path / "copy" / one.key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.get(one.key))
    assert ids(tablefmt.open(tmp_path / "copy")) == [1, 3, 4, 5, 6]


def test_writers_at_once_lose_nothing(cloud: Emulator) -> None:
    """STO-3, CMT-1: handles of their own."""
    uri, options = cloud.new_root(), cloud.options
    table = tablefmt.create(uri, rows(), storage_options=options)

    def write(writer: int) -> list[int]:
        mine = tablefmt.open(uri, storage_options=options)
        return [mine.append(rows(writer * 100 + n)).version for n in range(8)]

    with ThreadPoolExecutor(6) as pool:
        versions = sorted(version for some in pool.map(write, range(6)) for version in some)
    table.refresh()
    assert versions == list(range(versions[0], versions[0] + 48))
    assert ids(table) == sorted(writer * 100 + n for writer in range(6) for n in range(8))
    assert table.verify(deep=True).ok


def _read_in_child(store: Store, queue: multiprocessing.Queue) -> None:
    queue.put((store.get("data/x"), store.get_many(["data/x", "data/gone"])))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own(cloud: Emulator) -> None:
    """STO-21."""
    store = open_store(cloud.new_root(), cloud.options)
    assert isinstance(store, CloudStore)
    store.put("data/x", b"x")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_read_in_child, args=(store, queue))
    child.start()
    assert queue.get(timeout=30) == (b"x", [b"x", None])
    child.join(10)
    assert store.get("data/x") == b"x"
    with pytest.raises(KeyNotFoundError):
        store.get("data/gone")
