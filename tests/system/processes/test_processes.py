"""Many processes and one table on a local disk."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import ProtocolChangedException, TableExistsError
from tablefmt.store.local_store import LocalStore
from tests.tables import assert_sound, by_hand, handle, ids, rows

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.system.processes.test_processes"])
APPENDS = 20
WRITERS = 16


def appender(uri: str, number: int, start: Any, results: Any) -> None:
    table = tablefmt.open(uri)
    start.wait(60)
    versions = []
    for n in range(APPENDS):
        part = "even" if number % 2 == 0 else "odd"
        versions.append(table.append(rows(number * 1000 + n, p=part)).version)
    results.put((number, versions))


def overwriter(uri: str, number: int, start: Any, results: Any) -> None:
    table = tablefmt.open(uri)
    start.wait(60)
    versions = []
    for n in range(5):
        new = rows(number * 1000 + n, p="even")
        versions.append(table.overwrite(new, dynamic_partitions=True).version)
    results.put((number, versions))


def creator(uri: str, number: int, start: Any, results: Any) -> None:
    start.wait(60)
    try:
        made = tablefmt.create(uri, "id BIGINT", exist_ok=number % 2 == 0)
    except (ProtocolChangedException, TableExistsError) as error:
        results.put((number, error.kind))
    else:
        results.put((number, made.id))


STATEMENTS = 6


def changer(uri: str, number: int, start: Any, results: Any) -> None:
    """Two that merge, one that updates, one that deletes; each rows of its own."""
    table = tablefmt.open(uri)
    start.wait(60)
    versions = []
    for n in range(STATEMENTS):
        mine = 4 * n + number
        if number < 2:
            source = pa.table({"id": [mine, 1000 + mine], "p": [f"m{number}"] * 2})
            merge = table.merge(source, "t.id = s.id")
            commit = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        elif number == 2:
            commit = table.update({"p": "concat(p, '!')"}, f"id = {mine}")
        else:
            commit = table.delete(f"id = {mine}")
        versions.append(commit.version)
    results.put((number, versions))


def together(uri: str, works: list[Callable[..., None]]) -> dict[int, Any]:
    """Start a process for each work, let them begin at once, and return the answer of each."""
    start = CONTEXT.Barrier(len(works))
    results = CONTEXT.Queue()
    processes = [
        CONTEXT.Process(target=work, args=(uri, number, start, results))
        for number, work in enumerate(works)
    ]
    for process in processes:
        process.start()
    try:
        said = dict(results.get(timeout=120) for _ in processes)
    finally:
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.terminate()
    assert [process.exitcode for process in processes] == [0] * len(works)
    return said


@pytest.mark.slow
def test_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    """CMT-1, CMT-5, STO-1, TIM-1: no failure, contiguous versions, every row once, rising times."""
    uri = str(tmp_path / "t")
    tablefmt.create(uri, "id BIGINT, p STRING", partition_by=["p"])
    said = together(uri, [appender] * WRITERS)
    store = LocalStore(uri)
    wanted = sorted(w * 1000 + n for w in range(WRITERS) for n in range(APPENDS))
    assert sorted(v for versions in said.values() for v in versions) == list(
        range(1, WRITERS * APPENDS + 1)
    )
    assert ids(handle(store)) == by_hand(store) == wanted
    assert_sound(store)


@pytest.mark.slow
def test_appends_beside_overwrites_end_as_their_order_says(tmp_path: Path) -> None:
    """CFL-3: the rows equal a replay in the order of the acknowledged versions."""
    uri = str(tmp_path / "t")
    tablefmt.create(uri, "id BIGINT, p STRING", partition_by=["p"])
    said = together(uri, [appender, appender, overwriter])
    events = {v: (writer, n) for writer, versions in said.items() for n, v in enumerate(versions)}
    assert sorted(events) == list(range(1, 2 * APPENDS + 6))
    state: dict[str, set[int]] = {"even": set(), "odd": set()}
    table = tablefmt.open(uri)
    for version in sorted(events):
        writer, n = events[version]
        part = "odd" if writer == 1 else "even"
        if writer == 2:
            state[part] = set()
        state[part].add(writer * 1000 + n)
        assert ids(table, version) == sorted(state["even"] | state["odd"])
    assert_sound(LocalStore(uri))


def test_of_processes_that_create_at_once_one_makes_the_table(tmp_path: Path) -> None:
    """CFL-4, CMT-1: the others join or get an error."""
    uri = str(tmp_path / "t")
    said = together(uri, [creator] * 6)
    table = tablefmt.open(uri)
    assert table.version == 0
    joined = {said[number] for number in (0, 2, 4)}
    assert joined == {table.id}
    others = [said[number] for number in (1, 3, 5)]
    assert others.count(table.id) <= 1
    assert set(others) <= {table.id, "protocol_changed", "table_exists"}
    assert_sound(LocalStore(uri))


@pytest.mark.slow
def test_processes_that_change_different_rows_of_one_file_all_commit(tmp_path: Path) -> None:
    """CFL-10, CFL-17, CFL-18: MERGEs whose keys interleave, UPDATEs and DELETEs."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(pa.table({"id": range(4 * STATEMENTS), "p": ["old"] * (4 * STATEMENTS)}))
    said = together(str(tmp_path / "t"), [changer] * 4)
    versions = sorted(v for found in said.values() for v in found)
    assert versions == list(range(2, 2 + 4 * STATEMENTS))
    found = dict(zip(*table.refresh().to_arrow().to_pydict().values(), strict=True))
    expected: dict[Any, Any] = {}
    for n in range(STATEMENTS):
        for number in (0, 1):
            expected |= dict.fromkeys((4 * n + number, 1000 + 4 * n + number), f"m{number}")
        expected[4 * n + 2] = "old!"
    assert found == expected
    assert table.verify(deep=True).findings == ()
