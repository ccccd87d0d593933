"""Logs that are kept between calls: never older than a new reader's, after any event."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import CorruptEntryError, TableNotFoundError
from tablefmt.snapshot.log_view import LogView
from tablefmt.spark.statements import execution
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.store.location import open_store
from tests.s3server import S3Server


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    execution._views.clear()
    yield
    execution._views.clear()


def filled(uri: str, versions: int, first: int = 0) -> tablefmt.Table:
    table = tablefmt.create(uri, "id BIGINT")
    for i in range(versions):
        table.append(pa.table({"id": [first + i]}))
    return table


def ids(uri: str) -> list[int]:
    """Return the ids of the table by the kept log."""
    context = open_context(open_store(uri))
    found = tablefmt.Table(context).to_arrow(version=context.version)
    return sorted(found["id"].to_pylist())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of the log that were asked for."""
    keys: list[str] = []
    kind = type(open_store("/"))
    original = kind.get_many

    def get_many(self: Any, wanted: Sequence[str]) -> Any:
        keys.extend(wanted)
        return original(self, wanted)

    monkeypatch.setattr(kind, "get_many", get_many)
    return keys


def test_opening_again_asks_for_the_newest_entry_and_the_next(uri: str, asked: list[str]) -> None:
    filled(uri, 30)
    open_context(open_store(uri))
    asked.clear()
    context = open_context(open_store(uri))
    assert context.version == 30
    assert asked == [f"_log/{30:020d}.json", f"_log/{31:020d}.json"]


def test_what_others_committed_is_seen(uri: str) -> None:
    table = filled(uri, 2)
    assert ids(uri) == [0, 1]
    for i in range(2, 12):
        table.append(pa.table({"id": [i]}))
    assert ids(uri) == list(range(12))


@pytest.mark.parametrize("versions", [0, 3, 5, 9])
def test_another_table_in_the_same_place_is_opened_anew(uri: str, versions: int) -> None:
    """LOG-3: the new table has fewer versions than the old one, as many, or more."""
    filled(uri, 5)
    assert ids(uri) == [0, 1, 2, 3, 4]
    shutil.rmtree(uri)
    other = filled(uri, versions, first=100)
    assert open_context(open_store(uri)).view.head.table == other.id
    assert ids(uri) == [100 + i for i in range(versions)]


def test_a_removed_table_is_not_there(uri: str) -> None:
    filled(uri, 2)
    assert open_context_if_exists(open_store(uri)) is not None
    shutil.rmtree(uri)
    assert open_context_if_exists(open_store(uri)) is None
    with pytest.raises(TableNotFoundError):
        open_context(open_store(uri))
    filled(uri, 1)
    assert ids(uri) == [0]


def test_damage_that_was_mended_is_forgotten(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(uri, 2)
    view = open_context(open_store(uri)).view

    def broken(*_: Any) -> Any:
        raise CorruptEntryError("it is broken", key="_log/x", rule="RPL-1")

    monkeypatch.setattr("tablefmt.snapshot.log_view.fold_stored", broken)
    for _ in range(2):
        with pytest.raises(CorruptEntryError, match="broken"):
            view.snapshot()
    assert view.damaged
    monkeypatch.undo()
    assert ids(uri) == [0, 1]


def test_damage_at_the_end_is_told_each_time(uri: str) -> None:
    """ENT-1: an entry whose last bytes are missing."""
    table = filled(uri, 2)
    assert ids(uri) == [0, 1]
    table.append(pa.table({"id": [2]}))
    newest = Path(uri) / "_log" / f"{3:020d}.json"
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-7])
    for _ in range(2):
        with pytest.raises(CorruptEntryError):
            open_context(open_store(uri))
    newest.write_bytes(whole)
    assert ids(uri) == [0, 1, 2]


def test_few_logs_are_kept_and_those_used_last(tmp_path: Path) -> None:
    places = [str(tmp_path / str(i)) for i in range(execution.KEPT + 2)]
    for place in places:
        filled(place, 1)
        open_context(open_store(place))
    first = open_context(open_store(places[2])).view
    open_context(open_store(places[0]))
    assert len(execution._views) == execution.KEPT
    assert open_context(open_store(places[2])).view is first


@pytest.mark.slow
def test_other_credentials_are_another_reader(s3_server: S3Server, s3_uri: str) -> None:
    """One of them may see objects that the other may not."""
    options = s3_server.options
    tablefmt.create(s3_uri, "id BIGINT", storage_options=options)

    def view(**more: Any) -> LogView:
        return open_context(open_store(s3_uri, {**options, **more})).view

    assert view() is view()
    assert view(key="another") is not view()
    extra = {"s3_additional_kwargs": {"SSECustomerKey": "k"}}
    assert view(**extra) is not view(**extra)


def test_threads_share_a_log_and_lose_nothing(uri: str) -> None:
    filled(uri, 1)

    def work(at: int) -> int:
        context = open_context(open_store(uri))
        tablefmt.Table(context).append(pa.table({"id": [1000 + at]}))
        return len(ids(uri))

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(work, range(24)))
    assert ids(uri) == [0, *range(1000, 1024)]
    assert max(seen) == 25
