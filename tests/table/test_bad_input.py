"""Errors have a class, a name and the next step, and bad input changes nothing."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    InvalidRangeError,
    LogGapError,
    SchemaMismatchError,
    StoreError,
    TableNotFoundError,
    TableReplacedError,
    UnsafeStoreError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Operation, OperationClass, ProtocolFeatures
from tablefmt.operations.create import create
from tablefmt.store.local_store import LocalStore
from tests.careless_stores import Overwriting
from tests.s3server import S3Server
from tests.store.scripted_server import ScriptedServer, s3_error
from tests.tables import (
    behind,
    data_files,
    extend,
    handle,
    ids,
    memory,
    new_table,
    next_entry,
    rows,
)

pytestmark = pytest.mark.broken_tables


@pytest.fixture
def table() -> Any:
    made = new_table()
    made.append(rows(1))
    return made


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    """LOG-7: the address has no object, an empty folder, a file, or a folder of another format."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "delta" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    advice = dict.fromkeys(("nothing", "empty"), r"create a table with tablefmt\.create")
    advice["delta"] = r"a Delta table is there .* tablefmt\.write"
    for name, words in advice.items():
        place = tmp_path / name
        with pytest.raises(TableNotFoundError, match=words) as caught:
            tablefmt.open(place)
        assert caught.value.uri == str(place)
        assert not tablefmt.exists(place)
    with pytest.raises((TableNotFoundError, StoreError), match="file"):
        tablefmt.open(tmp_path / "file")
    assert not (tmp_path / "nothing").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_version_or_time_outside_the_history_names_the_history(table: Any) -> None:
    """TIM-4."""
    for version in (-1, 2, 2**70):
        with pytest.raises(VersionNotFoundError) as caught:
            table.to_arrow(version=version)
        assert (caught.value.oldest, caught.value.latest) == (0, 1)
        assert "from 0 to 1" in str(caught.value)
    with pytest.raises(VersionNotFoundError, match=r"1999-01-01T00:00:00.*2027-01-15"):
        table.to_arrow(timestamp="1999-01-01")
    assert ids_at(table, "2999-01-01") == [1]


def ids_at(table: Any, when: str) -> list[int]:
    found: list[int] = table.to_arrow(timestamp=when)["id"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timestamp": datetime(2026, 1, 1)}, "naive.*Add tzinfo"),
        ({"timestamp": date(2026, 1, 1)}, "is a date"),
        ({"timestamp": 7}, "is a int"),
        ({"timestamp": "yesterday"}, "'yesterday' is not a time; write it as"),
        ({"timestamp": "2026-02-30"}, "is not a time"),
        ({"timestamp": ""}, "is not a time"),
        ({"version": "1"}, "not a whole number"),
        ({"version": True}, "not a whole number"),
        ({"version": 1.0}, "not a whole number"),
        ({"version": 0, "timestamp": "2026-01-01"}, "not both"),
    ],
)
def test_a_point_that_cannot_be_read_says_why(
    table: Any, arguments: dict[str, Any], message: str
) -> None:
    """TIM-4."""
    with pytest.raises(InvalidRangeError, match=message):
        table.to_arrow(**arguments)


def test_times_of_one_instant_are_one_version(table: Any) -> None:
    """TIM-4: aware in any zone, text in UTC, at the very microsecond."""
    at = table.timestamp.astimezone(timezone.utc)
    for when in (at, at.isoformat(), at.replace(tzinfo=None).isoformat()):
        assert table.scan(timestamp=when).version == 1


def test_columns_that_differ_by_case_are_named() -> None:
    """SCH-2."""
    for schema in ("id BIGINT, ID STRING", pa.schema([("id", pa.int64()), ("Id", pa.int64())])):
        with pytest.raises(SchemaMismatchError, match=r"differ only in case.*rename one") as caught:
            create(memory(), schema)
        assert [c.casefold() for c in caught.value.columns] == ["id", "id"]


def test_data_that_does_not_fit_names_the_columns_and_leaves_nothing(table: Any) -> None:
    """SCH-5."""
    wrong = [
        (pa.table({"id": [1], "q": ["a"]}), "q"),
        (pa.table({"id": ["x"], "p": ["a"]}), "id"),
        (pa.table({"id": [1], "ID": [2], "p": ["a"]}), "ID"),
    ]
    for data, column in wrong:
        with pytest.raises(SchemaMismatchError, match=column):
            table.append(data)
    assert table.refresh().version == 1
    assert len(data_files(table.context.store)) == 1


def test_unknown_features_are_named() -> None:
    """ENT-7: an unknown name in `reader` refuses all, one in `writer` permits reads."""
    for reader, writer in ((("magic",), ()), ((), ("magic",))):
        table = new_table()
        store = table.context.store
        table.append(rows(1))
        totals = table.context.view.head.totals
        entry = next_entry(
            table.context.view,
            operation=Operation(name="UPGRADE", cls=OperationClass.PROTOCOL),
            protocol=ProtocolFeatures(reader, writer),
            totals=type(totals)(
                files=totals.files,
                rows=totals.rows,
                bytes=totals.bytes,
                next_id=totals.next_id,
                metadata_version=2,
            ),
        )
        store.put(entry_key(2), encode(entry))
        attempts = [lambda s=store: handle(s).append(rows(2))]
        if reader:
            attempts.append(lambda s=store: handle(s))  # type: ignore[arg-type, return-value]
        else:
            assert ids(handle(store)) == [1]
        for attempt in attempts:
            with pytest.raises(UnsupportedFeatureError, match=r"magic.*Upgrade") as caught:
                attempt()
            assert caught.value.features == ["magic"]


class NamedOverwriting(Overwriting):
    """A store without conditions, under a name of its own."""

    identity = "overwriting"
    unsafe_single_writer = False


def test_a_store_that_ignores_the_condition_is_not_written_to(table: Any) -> None:
    """STO-12: new and existing tables are refused."""
    empty = NamedOverwriting(memory())
    with pytest.raises(UnsafeStoreError, match="unsafe_single_writer=True"):
        create(empty, "id BIGINT")
    assert list(empty.list_after("")) == []
    late = behind(table, NamedOverwriting(table.context.store))
    with pytest.raises(UnsafeStoreError, match="overwrite each other's commits"):
        late.append(rows(2))
    assert handle(table.context.store).version == 1


SECRET = "CANARY+secret/5up3r="


@pytest.fixture
def forbidding() -> Iterator[ScriptedServer]:
    server = ScriptedServer(lambda index, request: s3_error(403, "SignatureDoesNotMatch"))
    yield server
    server.close()


def s3_options(endpoint: str) -> dict[str, Any]:
    return {
        "key": "CANARYKEY",
        "secret": SECRET,
        "token": SECRET + "token",
        "endpoint_url": endpoint,
        "client_kwargs": {"region_name": "us-east-1"},
    }


def test_wrong_credentials_are_named_and_not_shown(
    forbidding: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """STO-6, STO-13."""
    caplog.set_level(logging.DEBUG, "tablefmt")
    options = s3_options(forbidding.endpoint)
    said = []
    for attempt in (tablefmt.open, lambda u, **o: tablefmt.create(u, "id BIGINT", **o)):
        with pytest.raises(StoreError, match="credentials are wrong; check key, secret") as caught:
            attempt("s3://bucket/t", storage_options=options)
        assert not caught.value.retryable
        said += [str(caught.value), repr(caught.value)]
    assert "CANARY" not in "".join([*said, caplog.text])


def test_a_missing_bucket_is_named(s3_server: S3Server) -> None:
    """STO-8: the error is not that the table is missing."""
    for attempt in (tablefmt.open, lambda u, **o: tablefmt.create(u, "id BIGINT", **o)):
        with pytest.raises(StoreError, match="'no-such-bucket' does not exist; create it"):
            attempt("s3://no-such-bucket/t", storage_options=s3_server.options)


@pytest.mark.slow
def test_no_secret_gets_into_a_table_or_what_is_said_of_it(
    s3_server: S3Server, s3_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    """STO-13: repr, errors, logs, and every byte that is stored."""
    caplog.set_level(logging.DEBUG, "tablefmt")
    options = s3_options(s3_server.endpoint)
    table = tablefmt.create(s3_uri, "id BIGINT, p STRING", storage_options=options)
    commit_result = table.append(rows(1))
    said = [repr(table), repr(table.context.store), repr(commit_result), table.uri, caplog.text]
    said.append(str(table.history().to_pylist()))
    with pytest.raises(VersionNotFoundError) as caught:
        table.to_arrow(version=9)
    said += [str(caught.value), repr(caught.value)]
    store = table.context.store
    for found in store.list_after(""):
        said += [found.key, repr(store.get(found.key))]
    assert "CANARY" not in "".join(said)


def test_a_path_with_a_secret_in_it_is_refused_and_not_repeated() -> None:
    """STO-13."""
    with pytest.raises(StoreError, match="storage_options") as caught:
        tablefmt.open(f"s3://KEY:{SECRET}@bucket/t")
    assert SECRET not in str(caught.value)


def test_a_missing_entry_stops_reading_and_writing(table: Any) -> None:
    """LOG-2."""
    store = table.context.store
    extend(store, table, 5)
    store.delete(entry_key(3))
    for attempt in (lambda: handle(store), table.refresh, lambda: table.append(rows(2))):
        with pytest.raises(LogGapError, match=r"has version .* but not version 3.*restore"):
            attempt()


@pytest.mark.parametrize("remade", [False, True])
@pytest.mark.parametrize("what", ["table", "log"])
def test_a_table_removed_under_a_warm_handle_is_not_begun_anew(
    tmp_path: Path, remade: bool, what: str
) -> None:
    """STO-3, LOG-3: no write succeeds into nothing, or into another table."""
    root = tmp_path / "t"
    table = new_table(LocalStore(root))
    table.append(rows(1))
    gone = root if what == "table" else root / "_log"
    shutil.rmtree(gone)
    if remade:
        create(LocalStore(root), "id BIGINT, p STRING")
    before = sorted(os.listdir(root)) if root.exists() else None
    for write in (
        lambda: table.append(rows(2)),
        lambda: table.overwrite(rows(2)),
        lambda: table.append(rows(2)),
    ):
        with pytest.raises(CommitRejectedError, match=r"removed or replaced.*open the table again"):
            write()
    assert (sorted(os.listdir(root)) if root.exists() else None) == before
    if remade:
        again = tablefmt.open(root)
        assert (again.version, ids(again)) == (0, [])
        assert again.append(rows(3)).version == 1
    else:
        assert not tablefmt.exists(root)


def test_a_warm_handle_learns_that_another_table_is_there(tmp_path: Path) -> None:
    """LOG-3."""
    root = tmp_path / "t"
    table = new_table(LocalStore(root))
    shutil.rmtree(root)
    other = new_table(LocalStore(root))
    other.append(rows(1))
    with pytest.raises(TableReplacedError, match="Open the table again"):
        table.refresh()
