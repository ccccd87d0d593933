"""A checkpoint whose checksums are right and whose content is wrong gives no wrong answer."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
from tablefmt.errors import CorruptEntryError, CorruptTableError, TablefmtError
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.maintenance.verify import verify
from tablefmt.model.log_entry import StoredEntry
from tablefmt.snapshot.checkpoint_base import Base
from tablefmt.snapshot.folding import UNFOLDED_MAX, MaterializedFiles
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tests.compactions import MINOR
from tests.snapshot.forged import (
    PATHS,
    Forgery,
    fresh,
    lines,
    part_forgeries,
    questions,
    root_forgeries,
    signed_root,
    store_of,
    with_part,
)
from tests.snapshot.grown import compacted
from tests.snapshot.test_checkpoint_checks import exchanged
from tests.tables import Clock, Dated, contents_of, handle, ids, memory, new_table, next_entry, rows

CONSISTENT = re.compile(
    r"(id|path|size|rows|footer|added|written|(lower|upper|nulls)\.\d) reversed"
    r"|(path|footer|added|written|size|file|version|(lower|upper|nulls)\.\d)\[\d+\] is "
    r"|(footer|(lower|upper|nulls)\.\d) (all null|missing)"
    r"|^root (metadata|protocol|applications|cursors|created|described|segments\.\d\.bounds)"
)
"""Changes after which nothing in the checkpoint contradicts itself or the entry: a state that could
have been. What is read of a data file is held against it; only the entries tell the rest (CKP-9),
and `verify` compares them."""


def rich() -> dict[str, bytes]:
    """Return a partitioned table with deleted rows, a compaction, new columns, checkpoints."""
    store, clock = memory(), Clock()
    table = new_table(store, partitioned=True, clock=clock)
    in_no_partition = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table.append(rows(1, 2, 3, p="a"))
    table.append(rows(4, 5, p="b"))
    table.append(rows(6, p="b"))
    table.append(pa.table({"id": [20, 21, 22, 23], "p": [None] * 4}, schema=in_no_partition))
    table.alter.add_column("n", "int")
    some = pa.array([1, 2, 3, None, 5], pa.int32())
    table.append(pa.table({"id": [7, 8, 9, 10, 11], "p": ["a"] * 5, "n": some}))
    table.delete("id = 2")
    table.checkpoint()
    table.alter.widen_column("n", "bigint")
    table.append(rows(12, 13, 14, 15, 16, 17, p="c"))
    table.delete("id = 13 OR id = 8")
    compacted(table, MINOR)
    table.delete("id = 5")
    table.append(rows(30, 31, 32, 33, 34, 35, 36, p="b"))
    table.checkpoint()
    table.append(rows(18, 19, p="a"))
    table.delete("id = 3 OR id = 14")
    return contents_of(store)


def plain() -> dict[str, bytes]:
    """Return a table without partitions, with deleted rows in one file."""
    store = memory()
    table = new_table(store)
    for number in range(1, 6):
        table.append(rows(*range(number * 3, number * 3 + number)))
    table.delete("id = 7")
    table.checkpoint()
    table.append(rows(40))
    return contents_of(store)


def expired() -> dict[str, bytes]:
    """Return an expired log: two checkpoints hold the state."""
    store = Dated(clock := Clock())
    table = new_table(store, partitioned=True, clock=clock)
    for number in range(1, 7):
        table.append(rows(*range(number * 10, number * 11), p="a"))
    table.delete("id = 21")
    clock.forward(40 * 86_400.0)
    table.append(rows(4, p="b"))
    table.expire_log(dry_run=False)
    return contents_of(store)


def reused() -> dict[str, bytes]:
    """Return a table whose checkpoint has two segments; a file of the first was removed."""
    store, clock = memory(), Clock()
    table = new_table(store, partitioned=True, clock=clock)
    for number in range(1, 7):
        table.append(rows(*range(number * 10, number * 11), p="a"))
    table.append(rows(1, 2, p="b"))
    table.delete("id = 21")
    table.checkpoint()
    table.overwrite(rows(3, 4, 5, p="b"), where="p = 'b'")
    table.append(rows(7, 8, 9, p="b"))
    table.delete("id = 8")
    table.checkpoint()
    table.append(rows(6, p="a"))
    return contents_of(store)


TABLES = {"rich": rich, "plain": plain, "expired": expired, "reused": reused}
SINCE = {"rich": 11, "plain": 6, "expired": 8, "reused": 9}


@functools.cache
def table_of(kind: str) -> dict[str, bytes]:
    return TABLES[kind]()


@functools.cache
def sound(kind: str, question: str) -> Any:
    """Return the answer of the undamaged table."""
    return questions(SINCE[kind])[question](store_of(table_of(kind)))


def newest_root(bodies: dict[str, bytes]) -> str:
    return max(key for key in bodies if key.startswith("_log/checkpoints/0"))


def answer(store: Store, question: Callable[[Store], Any]) -> Any:
    """Return the answer of a table, or the error that it raises."""
    try:
        return question(store)
    except TablefmtError as error:
        return error


def assert_same_or_refused(kind: str, forgery: Forgery, name: str) -> None:
    """The sound answer, or an error of ours; else only what cannot be known differs, and `verify`
    finds it."""
    found = answer(store_of({**table_of(kind), **forgery.bodies}), questions(SINCE[kind])[name])
    if found == sound(kind, name) or (kind == "expired" and name == "verify" and found is None):
        return
    assert CONSISTENT.search(forgery.name), (forgery.name, name, found)
    if isinstance(found, TablefmtError):
        return
    assert not verify(store_of({**table_of(kind), **forgery.bodies}), deep=True).ok


def some_of(made: list[Forgery], seed: int, count: int) -> list[Forgery]:
    return random.Random(seed).sample(made, min(count, len(made)))


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.broken_tables
@pytest.mark.parametrize(
    ("kind", "count"), [("rich", 160), ("plain", 60), ("expired", 40), ("reused", 40)]
)
@pytest.mark.parametrize("of", [part_forgeries, root_forgeries])
def test_wrong_content_gives_no_wrong_answer(
    of: Callable[[dict[str, bytes], str], Any], kind: str, count: int
) -> None:
    """CKP-6, CKP-9, KEY-2: each change of a part or a root, and one question to the table."""
    bodies = table_of(kind)
    names = list(questions(0))
    made = some_of(list(of(bodies, newest_root(bodies))), 7, count)
    assert len(made) == count
    for at, forgery in enumerate(made):
        assert_same_or_refused(kind, forgery, names[at % len(names)])


@pytest.mark.soak
@pytest.mark.broken_tables
@pytest.mark.parametrize("kind", list(TABLES))
@pytest.mark.parametrize("of", [part_forgeries, root_forgeries])
def test_no_wrong_content_gives_any_wrong_answer(
    of: Callable[[dict[str, bytes], str], Any], kind: str
) -> None:
    """The same: every change and every question."""
    bodies = table_of(kind)
    for forgery in of(bodies, newest_root(bodies)):
        for name in questions(0):
            assert_same_or_refused(kind, forgery, name)


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.broken_tables
@pytest.mark.parametrize("kind", ["rich", "plain"])
def test_a_listing_of_all_files_has_the_bytes_of_the_entry(kind: str) -> None:
    """CKP-9: the entry has the sum of sizes, which a root does not have."""
    bodies, files = table_of(kind), questions(0)["files"]
    made = [
        forgery
        for forgery in part_forgeries(bodies, newest_root(bodies))
        if re.search(r"size\[\d\] is (one more|another line's|2\^31)", forgery.name)
    ]
    assert len(made) >= 6
    for forgery in made:
        found = files(store_of({**bodies, **forgery.bodies}))
        assert found == sound(kind, "files"), forgery.name


def rows_of_a_removed_file(parts: list[pa.Table], root: dict[str, Any]) -> None:
    """A row of the removed file becomes one of a live file: their sum is the same."""
    parts[0] = exchanged(parts[0], "rows", {5: 7, 6: 1})


def one_path_twice(parts: list[pa.Table], root: dict[str, Any]) -> None:
    """A line has the path of another one."""
    parts[1] = exchanged(parts[1], "path", {0: parts[1]["path"][1].as_py()})


def one_id_in_two_segments(parts: list[pa.Table], root: dict[str, Any]) -> None:
    """The first file of the second segment has the id of a file of the first."""
    parts[1] = exchanged(parts[1], "id", {0: 6})
    root["segments"][1]["ids"] = [6, 9]


@pytest.mark.broken_tables
@pytest.mark.parametrize("change", [rows_of_a_removed_file, one_path_twice, one_id_in_two_segments])
def test_what_only_all_files_together_show_is_seen_when_they_are_listed(change: Any) -> None:
    """CKP-9: each segment is like its root, and a sum of the root allows for removed files.
    The entry's sum of rows, and each file once, tell."""
    bodies = table_of("reused")
    key = newest_root(bodies)
    root = orjson.loads(bodies[key])
    paths = [segment["path"] for segment in root["segments"]]
    parts = [pq.read_table(pa.BufferReader(bodies[path])) for path in paths]
    assert [len(part) for part in parts] == [7, 2]
    change(parts, root)
    forged: dict[str, bytes] = {}
    for path, part in zip(paths, parts, strict=True):
        forged |= with_part(root, path, part)
        root = orjson.loads(forged.pop(""))
    forged[key] = signed_root(root)
    for name in ("files", "rows", "verify"):
        found = questions(SINCE["reused"])[name](store_of({**bodies, **forged}))
        assert found == sound("reused", name), name
    assert not verify(store_of({**bodies, **forged}), deep=True).ok


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.broken_tables
@pytest.mark.parametrize(
    "change", ["path[0] is ..", "rows[0] is -1", "size missing", "id as string"]
)
def test_the_part_is_named_where_nothing_else_holds_the_state(change: str) -> None:
    """CKP-6, LOG-8: an expired log with one forged checkpoint, and the other missing."""
    bodies = dict(table_of("expired"))
    root = newest_root(bodies)
    (forgery,) = (f for f in part_forgeries(bodies, root) if f.name == f"segments[0] {change}")
    for key in [k for k in bodies if k.startswith("_log/checkpoints/0") and k != root]:
        del bodies[key]
    part = next(key for key in forgery.bodies if key.endswith(".parquet"))
    with pytest.raises(CorruptTableError, match=re.escape(part)) as raised:
        fresh(store_of({**bodies, **forgery.bodies})).to_arrow()
    assert "tablefmt verify" in str(raised.value)


@pytest.mark.share(4)
@pytest.mark.broken_tables
@pytest.mark.parametrize("what", [name for name in PATHS if name != "decomposed"])
def test_no_engine_reads_a_path_that_is_none(what: str, tmp_path: Path) -> None:
    """KEY-2: each engine gives the rows of the sound table."""
    bodies = table_of("rich")
    made = part_forgeries(bodies, newest_root(bodies))
    forgery = next(f for f in made if f.name == f"segments[0] path[0] is {what}")
    for key, body in {**bodies, **forgery.bodies}.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(body)
    table = tablefmt.open(str(tmp_path))
    expected = sound("rich", "rows")
    with duckdb.connect() as connection:
        tablefmt.duckdb.attach(connection, "t", str(tmp_path))
        by_duckdb = connection.sql("SELECT id, n, p FROM t").to_arrow_table()
    by_polars = tablefmt.polars.scan(str(tmp_path)).collect().to_arrow()
    for found in (table.to_arrow(), by_duckdb, by_polars):
        assert lines(found) == expected


@pytest.mark.broken_tables
@pytest.mark.parametrize("checkpoints", [0, 1, 2, 3])
def test_damage_of_an_entry_is_told_as_the_entrys(checkpoints: int) -> None:
    """CKP-6, RPL-2: it shows on every checkpoint, and without any."""
    store = memory()
    table = new_table(store)
    for number in range(4):
        table.append(rows(number))
        if number < checkpoints:
            table.checkpoint()
    view = LogView.open(store)
    sums = view.head.totals
    wrong = next_entry(view, remove=(77,), totals=replace(sums, files=sums.files - 1))
    store.put(entry_key(wrong.version), encode(wrong))
    for ask in (lambda: ids(handle(store)), lambda: handle(store).count(where="id = 2")):
        with pytest.raises(CorruptEntryError, match="never added") as raised:
            ask()
        assert (raised.value.key, raised.value.rule) == (entry_key(wrong.version), "RPL-2")


@pytest.mark.parametrize("checkpoint", ["", "_log/checkpoints/any"])
def test_damage_found_early_condemns_no_log_that_a_checkpoint_may_contradict(
    checkpoint: str,
) -> None:
    """CKP-6, RPL-2: without a checkpoint below them, the entries themselves are at fault."""
    table = new_table()
    table.append(rows(1))
    view = LogView.open(table.context.store)
    assert view.snapshot().files.num_rows == 1
    known = view._files.history
    files = MaterializedFiles(Base(files=replace(known, checkpoint=checkpoint)))
    totals = replace(view.head.totals, rows=0, bytes=0, files=0)
    damaged = next_entry(view, remove=[77], totals=totals)
    for version in range(damaged.version, damaged.version + UNFOLDED_MAX + 1):
        files.take(StoredEntry(replace(damaged, version=version), "0" * 64))
    assert files.history.version == known.version
    assert [one.version for one in files.unfolded] == [damaged.version + UNFOLDED_MAX]
    if checkpoint:
        # The next reader of files reads the entries again, and then judges the checkpoint.
        assert files.damage is None
    else:
        assert "never added" in str(files.damage)
