"""Writers of one table on an S3 server, behind a proxy that gives each kind of fault."""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tests.s3server import S3Server
from tests.system.campaign.fault_proxy import FAULTS, SCALE, FaultProxy
from tests.system.campaign.own_rows import COLUMNS, start_of, state_after
from tests.system.campaign.rounds import CONTEXT
from tests.system.campaign.soak import server
from tests.system.campaign.worlds import (
    SCHEMA,
    Notes,
    World,
    process,
    rows_of,
    table_of,
    write,
)


class Campaign:
    """A table whose writers reach it only through a proxy."""

    def __init__(self, folder: Path, server: Any, root: str, seed: str, writers: int) -> None:
        self.uri, self.options, self.seed = root, server.options, seed
        self.folder, self.writers, self.server = folder, writers, server
        self.table = tablefmt.create(root, SCHEMA, partition_by=["w"], storage_options=self.options)
        starts = [table_of(writer, tuple(start_of(writer).values())) for writer in range(writers)]
        self.table.append(pa.concat_tables(starts))

    def world(self, proxy: FaultProxy, read_timeout: float, goal: int, **retries: Any) -> World:
        """Return what a writer is told."""
        options = {**self.options, "endpoint_url": proxy.endpoint}
        options["config_kwargs"] = {"connect_timeout": 5, "read_timeout": read_timeout, **retries}
        return World(self.folder, self.uri, options, self.seed, 0, goal, self.writers, 1)

    def noted(self) -> Counter[str]:
        """Return what the writers have noted."""
        paths = self.folder.glob("events *")
        return Counter(line for path in paths for line in path.read_text().splitlines())

    def check(self, goal: int) -> Counter[str]:
        """Check that no step is lost, doubled, refused for another's commit, or left unknown."""
        noted = self.noted()
        table = self.table.refresh()
        found = rows_of(table.to_arrow(columns=list(COLUMNS)))
        for writer in range(self.writers):
            wanted = state_after(self.seed, writer, goal)[-1]
            assert found.get(writer, {}) == wanted, f"writer {writer}"
        # No two write the same rows: only a writer's own first attempt may be in its way.
        conflicts = {name for name in noted if name.startswith("conflict")}
        assert {name.split()[1] for name in conflicts} <= {"ConcurrentTransactionException"}
        assert noted["unknown"] == noted["unknown: committed"] + noted["unknown: never"]
        assert table.verify(deep=True).ok
        return noted


@pytest.mark.broken_tables
@pytest.mark.slow
def test_each_kind_of_fault_of_a_proxy_is_survived(
    tmp_path: Path, s3_server: S3Server, s3_uri: str
) -> None:
    """CMT-1, STO-3..5: A1 to A8 of the catalogue, by requests that reach a server, or do not."""
    writers, waits = 2, "late, the client waits"  # for seconds, on a busy machine
    campaign = Campaign(tmp_path, s3_server, s3_uri, "small", writers)
    proxy = FaultProxy(s3_server.endpoint, 1, 0.25, 0.8, scale=0.1, without=[waits])
    try:
        for goal in range(2, 40):
            world = campaign.world(proxy, 10, goal, retries={"total_max_attempts": 1})
            with ThreadPoolExecutor(writers) as pool:
                notes = [Notes(world.events(number)) for number in range(writers)]
                list(pool.map(write, [world] * writers, range(writers), notes))
            if len(proxy.faults) == len(FAULTS) - 1 and proxy.lost_entries:
                break
        proxy.settle()
    finally:
        proxy.close()

    campaign.check(goal)
    assert set(proxy.faults) == set(FAULTS) - {waits}
    assert proxy.lost_entries > 0


@pytest.mark.broken_tables  # the server ends with the test
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_commits_of_8_processes_survive_500_faults(tmp_path: Path) -> None:
    """CMT-1, STO-3..5: on versitygw or MinIO if there is one."""
    seed = os.environ.get("TABLEFMT_TEST_SEED") or str(random.randrange(1 << 40))
    print(f"TABLEFMT_TEST_SEED={seed}")
    writers, goal = 8, 160
    with server(tmp_path / "server") as running:
        campaign = Campaign(tmp_path, running, running.new_root(), seed, writers)
        proxy = FaultProxy(running.endpoint, seed, 0.03, 0.5)
        world = campaign.world(proxy, SCALE / 2, goal)
        started = [
            CONTEXT.Process(target=process, args=(write, world, number), daemon=True)
            for number in range(writers)
        ]
        for one in started:
            one.start()
        for number, one in enumerate(started):
            one.join()
            assert one.exitcode == 0, world.error(number).read_text()
        proxy.settle()
        proxy.close()
        noted = campaign.check(goal)

    commits = campaign.table.version - 1
    print(f"{commits} commits, {proxy.requests} requests, {proxy.faults.total()} faults")
    print(f"{proxy.lost_entries} answers of entries lost, {dict(proxy.faults)}, {dict(noted)}")
    assert commits >= 1000
    assert set(proxy.faults) == set(FAULTS)
    assert proxy.faults.total() >= 500
    assert proxy.lost_entries >= 100
    assert noted["unknown"] > 0
