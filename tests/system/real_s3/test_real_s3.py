"""The store and the commit on real S3 servers. Skipped where none is found.

versitygw and MinIO are taken from the PATH, or from the path in TABLEFMT_TEST_S3_SERVER; s3proxy
and S3Mock come from Maven, in the soak.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import CommitRejectedError, CommitUnknownError, StoreError, UnsafeStoreError
from tablefmt.operations.create import create
from tablefmt.store.location import open_store
from tablefmt.store.location_checks import probe
from tablefmt.store.object_store import Store
from tablefmt.testing.contract import StoreContract
from tests.system.real_s3.servers import (
    VARIABLE,
    AnswerEater,
    RealServer,
    binary,
    found_servers,
    from_maven,
)
from tests.tables import ids

FOUND = found_servers()
SERVERS = [
    *(pytest.param(path, id=path.name) for path in FOUND),
    pytest.param("s3proxy", id="s3proxy", marks=pytest.mark.soak),
]
if not FOUND:
    reason = f"no S3 server: put versitygw or minio on the PATH, or a path into {VARIABLE}"
    SERVERS.append(pytest.param(None, id="none", marks=pytest.mark.skip(reason=reason)))


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealServer]:
    folder = tmp_path_factory.mktemp("s3")
    one = request.param
    with binary(one, folder) if isinstance(one, Path) else from_maven(one, folder) as running:
        yield running


@pytest.mark.slow
class TestContract(StoreContract):
    # All of them in the soak, below: 6,400 requests.
    raced_keys = 40

    @pytest.fixture
    def store(self, server: RealServer) -> Store:
        return open_store(server.new_root(), server.options)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.mark.soak
def test_one_of_many_creators_wins_for_every_key(server: RealServer) -> None:
    """STO-3, STO-4: with all keys of the contract."""
    store = open_store(server.new_root(), server.options)
    StoreContract().test_one_of_many_creators_wins_and_its_body_stays(store)


@pytest.mark.slow
def test_the_probe_passes_and_leaves_nothing(server: RealServer) -> None:
    """STO-12: time after time."""
    store = open_store(server.new_root(), server.options)
    for _ in range(8):
        probe(store, uuid.uuid4().hex)
    assert list(store.list_after("")) == []


@pytest.mark.slow
def test_writers_at_once_lose_nothing(server: RealServer) -> None:
    """STO-3, CMT-1: handles of their own."""
    uri = server.new_root()
    table = tablefmt.create(uri, "id BIGINT", storage_options=server.options)

    def write(writer: int) -> list[int]:
        mine = tablefmt.open(uri, storage_options=server.options)
        return [mine.append(rows(writer * 100 + n)).version for n in range(8)]

    with ThreadPoolExecutor(6) as pool:
        versions = sorted(version for some in pool.map(write, range(6)) for version in some)

    table.refresh()
    assert versions == list(range(1, 49))
    assert ids(table) == sorted(writer * 100 + n for writer in range(6) for n in range(8))
    report = table.verify(deep=True)
    assert (report.findings, report.unnamed) == ((), ())


@pytest.mark.soak
def test_a_lost_answer_is_neither_lost_nor_doubled(server: RealServer) -> None:
    """CMT-1, STO-4, STO-5: every sixth answer of the server never comes."""
    uri = server.new_root()
    tablefmt.create(uri, "id BIGINT", storage_options=server.options)
    eater = AnswerEater(server.endpoint, every=6)
    try:
        options = {**server.options, "endpoint_url": eater.endpoint}
        table = tablefmt.open(uri, storage_options=options)
        for n in range(8):
            table.append(rows(n))
    finally:
        eater.close()

    assert eater.eaten > 5
    assert ids(tablefmt.open(uri, storage_options=server.options)) == list(range(8))


@pytest.mark.soak
@pytest.mark.slow
def test_a_server_that_is_killed_loses_and_doubles_nothing(server: RealServer) -> None:
    """CMT-1, CMT-7: kill -9 in the middle of writes; what is unknown is decided by resolve()."""
    uri = server.new_root()
    table = tablefmt.create(uri, "id BIGINT", storage_options=server.options)
    stop = threading.Event()
    there: set[int] = set()
    gone: set[int] = set()
    unknown: dict[int, CommitUnknownError] = {}

    def write(writer: int) -> None:
        mine = tablefmt.open(uri, storage_options=server.options)
        n = writer * 1_000_000
        while not stop.is_set():
            n += 1
            try:
                mine.append(rows(n), deadline=0.5 + writer)
            except CommitUnknownError as error:
                unknown[n] = error
            except (CommitRejectedError, StoreError):
                gone.add(n)
            else:
                there.add(n)

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(write, writer) for writer in range(3)]
        for _ in range(2):
            time.sleep(1.5)
            server.kill()
            time.sleep(1)
            server.start()
        time.sleep(1.5)
        stop.set()
        for one in done:
            one.result()

    table = tablefmt.open(uri, storage_options=server.options)
    for n, error in unknown.items():
        resolved = table.resolve(error.transaction, error.version)
        (gone if resolved is None else there).add(n)
    table.refresh()
    assert ids(table) == sorted(there)
    assert len(there) > 3
    assert gone.isdisjoint(there)
    assert table.verify(deep=True).ok


@pytest.mark.soak
def test_a_server_that_tells_several_that_they_won_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """STO-12: S3Mock, which passes creates that come one after another."""
    with from_maven("s3mock", tmp_path_factory.mktemp("s3mock")) as server:
        stores = [open_store(server.new_root(), server.options) for _ in range(5)]
        refused = [store for store in stores if is_refused(store)]
        left = [one.key for store in refused for one in store.list_after("")]
    # It is a race: at most one probe of a hundred sees only one winning create.
    assert len(refused) >= 3
    assert left == []


def is_refused(store: Store) -> bool:
    try:
        create(store, "id BIGINT")
    except UnsafeStoreError:
        return True
    return False
