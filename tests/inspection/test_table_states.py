"""Every explanation of tables in every state: the facts are right, or an error says what is wrong.

The states: without rows, of 2,000 columns, with hostile names, of several partitionings, clones,
expired, damaged, and written to meanwhile.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import TablefmtError
from tablefmt.inspection.report_facts import report_facts
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.cli.conftest import run
from tests.inspection.test_report import Page
from tests.tables import Clock, Dated, handle, memory, new_table, quoted, rows

DAY, NOW = 86_400.0, time.time_ns() // 1000

NAMES = ['</td><script>alert("1")</script>', "a\x1b[2J\x1b]0;t\x07", "\u202eabc\u2066", "x\ny\r\tz",
         "a,`b`.c", "'; DROP TABLE t --", "&lt;b&gt;"]  # fmt: skip


def empty(place: Path) -> Table:
    return tablefmt.create(place, rows().schema, partition_by=["p"])


def emptied(place: Path) -> Table:
    table = empty(place)
    table.append(rows(1, 2))
    table.delete("id > 0")
    return table


def wide(place: Path) -> Table:
    table = tablefmt.create(place, ", ".join(f"c{number} INT" for number in range(2000)))
    table.append({"c0": pa.array([1, 2], pa.int32()), "c1999": pa.array([3, None], pa.int32())})
    return table


def hostile(place: Path) -> Table:
    columns = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in NAMES)])
    table = tablefmt.create(
        place,
        columns,
        partition_by=NAMES[:2],
        properties={f"user.{number}": name for number, name in enumerate(NAMES)},
        comment=NAMES[0],
    )
    for number, name in enumerate(NAMES):
        values = {each: [name] for each in NAMES}
        table.append({"id": [number], **values}, user_metadata={name: name})
    behind = table.transaction()
    behind.append({"id": [99]})
    table.delete(f"{quoted(NAMES[2])} = '{NAMES[2]}'")
    behind.commit(user_metadata={NAMES[0]: NAMES[1]})
    return table


def evolved(place: Path) -> Table:
    table = tablefmt.create(place, "id BIGINT, p STRING, ts TIMESTAMP", partition_by=["p"])
    row = {"ts": pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))}
    table.append({"id": [1], "p": ["a"], **row})
    table.alter.set_partitioning(["days(ts)"])
    table.append({"id": [2], "p": ["a"], **row})
    table.alter.set_partitioning(["bucket(4, id)", "p"])
    table.append({"id": [3], "p": ["b"], **row})
    return table


def source_of(place: Path) -> Table:
    source = tablefmt.create(place.parent / "source", rows().schema, partition_by=["p"])
    source.append(rows(1, 2, p=["a", "b"]))
    source.delete("id = 2")
    return source


def shallow(place: Path) -> Table:
    source = source_of(place)
    source.clone(place, hold=True)
    return tablefmt.open(place, storage_options={"import_roots": [source.uri]})


def deep(place: Path) -> Table:
    return source_of(place).clone(place, shallow=False)


def expired(place: Path) -> Table:
    """A table whose log begins later than the table."""
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock)
    for number in range(20):
        clock.forward(DAY)
        table.append(rows(number))
    for number in (50, 51):
        clock.forward(60 * DAY)
        table.append(rows(number))
        table.vacuum(dry_run=False)
        table.expire_log(dry_run=False)
    return handle(table.context.store, clock)


STATES = {
    "empty": (empty, "id = 1", 0),
    "emptied": (emptied, "id = 1", 0),
    "wide": (wide, "c1999 = 3", 2),
    "hostile": (hostile, f"{quoted(NAMES[0])} is not null or {quoted(NAMES[3])} = 'x'", 7),
    "evolved": (evolved, "p = 'a'", 3),
    "shallow": (shallow, "p = 'a'", 1),
    "deep": (deep, "p = 'a'", 1),
    "expired": (expired, "id > 7", 22),
}


@pytest.fixture(scope="module", params=STATES)
def state(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Table]:
    made, _, _ = STATES[request.param]
    return request.param, made(tmp_path_factory.mktemp(request.param) / "t")


def prints(text: str) -> bool:
    """Return True if a text drives no terminal."""
    return all(char.isprintable() or char == "\n" for char in text)


def counted(table: Table, where: str) -> int:
    return table.scan(where=where).to_arrow().num_rows


def test_a_report_shows_the_rows_of_the_table(state: tuple[str, Table]) -> None:
    name, table = state
    facts = report_facts(table.context)
    assert facts.problems == {}
    live = table.to_arrow()
    assert live.num_rows == STATES[name][2]
    assert facts.files is not None
    assert (facts.version, facts.files.rows) == (table.version, live.num_rows)
    assert facts.files.count == table.scan().files().num_rows
    assert facts.versions is not None
    history = table.history().sort_by("version")
    assert facts.versions["version"].to_pylist() == history["version"].to_pylist()
    assert [row[0] for row in facts.schema.rows] == live.column_names
    page = table.report()
    read = Page(page)
    assert prints(page)
    assert read.tags["script"] == 0
    assert (table.id in read.text, f"{live.num_rows} rows" in read.text) == (True, True)
    for column in live.column_names[:20]:
        assert shown(column) in read.text


def shown(text: str) -> str:
    """A text as pages show it, with white space as an HTML parser joins it."""
    escaped = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return " ".join(escaped.split())


def test_a_notebook_shows_each_state(state: tuple[str, Table]) -> None:
    _, table = state
    html = table._repr_html_()
    read = Page(html)
    assert prints(html)
    assert read.tags["script"] == 0
    live = table.to_arrow()
    assert f"version {table.version} " in read.text
    assert f"{live.num_rows} rows in {table.scan().files().num_rows} files" in read.text
    for column in live.column_names[:20]:
        assert shown(column) in read.text
    operations = table.history(5)["operation"].to_pylist()
    assert all(operation in read.text for operation in operations)


def test_blame_counts_the_rows_that_are_there(state: tuple[str, Table]) -> None:
    """Inserted rows minus deleted ones are the rows of a scan, unless entries expired."""
    name, table = state
    _, where, _ = STATES[name]
    report = table.blame(where=where)
    assert prints(str(report))
    signs = {"insert": 1, "update_postimage": 1, "present": 1, "delete": -1, "update_preimage": -1}
    commits = report.commits.to_pylist()
    assert report.expired == (name == "expired")
    total = sum(signs.get(each["change"], 0) * (each["rows"] or 0) for each in commits)
    assert total == counted(table, where)
    document = run("blame", table.uri, "--where", where, *options(table), "--json").document
    shown = sum(signs.get(one["change"], 0) * (one["rows"] or 0) for one in document["commits"])
    assert shown == total


def options(table: Table) -> list[str]:
    """The options of a command that may read the source of a shallow clone."""
    source = Path(table.uri).parent / "source"
    return ["--storage-option", f"import_roots={source}"] if source.exists() else []


def test_why_leaves_out_no_file_with_a_row(state: tuple[str, Table]) -> None:
    name, table = state
    _, where, _ = STATES[name]
    report = table.why(where=where)
    assert prints(str(report))
    files = report.files.to_pylist()
    assert len(files) == table.scan().files().num_rows
    plain = table.scan(where=where).files()["path"].to_pylist()
    assert [each["path"] for each in files if each["read"]] == plain
    for each in files:
        assert each["read"] or each["decided_by"]
    kept = table.why(vacuum=True)
    assert prints(str(kept))
    assert kept.removed == table.vacuum().files.num_rows
    version = table.why(version=table.version)
    assert (version.readable, version.latest) == (True, table.version)
    assert not table.why(version=table.version + 1).readable
    if name == "expired":
        old = table.why(version=1)
        assert (old.readable, old.cause, old.missing_files) == (False, "given_up", 0)


def test_conflicts_are_those_of_the_log(state: tuple[str, Table]) -> None:
    name, table = state
    report = table.conflicts()
    assert prints(str(report))
    assert report.commits == (name == "hostile")
    first = int(table.history()["version"].to_pylist()[-1])
    assert (report.first, report.last) == (first, table.version)
    assert report.refused.num_rows == 0


def test_the_log_prints_each_state(state: tuple[str, Table]) -> None:
    name, table = state
    history = table.history()
    for words in (["log"], ["history"], ["describe"], ["why", "--vacuum"], ["conflicts"]):
        done = run(words[0], table.uri, *words[1:], *options(table))
        assert (done.code, done.err) == (0, "")
        assert prints(done.out)
    lines = run("log", table.uri, "--json", *options(table)).lines
    # The first entry stays when the next ones expire (ENT-13).
    versions = {line["version"] for line in lines} - ({0} if name == "expired" else set())
    assert versions == set(history["version"].to_pylist())
    assert {line["operation"] for line in lines} >= set(history["operation"].to_pylist())


class Busy(CountingStore):
    """A store to which another process commits before many of the first requests."""

    def __init__(self, inner: Any, every: int) -> None:
        super().__init__(inner)
        self.writer, self.every, self.seen, self.wrote = handle(inner), every, 0, 0

    def _count(self, verb: str, *keys: str) -> None:
        super()._count(verb, *keys)
        self.seen += 1
        if self.seen % self.every == 0 and self.wrote < 20:
            self.wrote += 1
            self.writer.append(rows(100 + self.wrote))
            if self.wrote % 5 == 0:
                self.writer.delete(f"id = {100 + self.wrote}")
                self.writer.compact()


def at_one_version(table: Table, made: Any) -> None:
    """A report has the rows and files of the version that it names."""
    scan = handle(table.context.store.inner).scan(version=made.version)  # type: ignore[attr-defined]
    assert (made.files.rows, made.files.count) == (
        scan.to_arrow().num_rows,
        scan.files().num_rows,
    )
    listed = made.versions.to_pylist()
    assert [each["version"] for each in listed] == list(range(len(listed)))
    assert listed[-1]["version"] >= made.version
    assert listed[made.version]["rows"] == made.files.rows


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_a_report_of_a_table_that_is_written_to_is_of_one_version(every: int) -> None:
    """Commits, compactions and deletes between any two requests."""
    store = memory()
    new_table(store).append(rows(1, 2, 3))
    busy = Busy(store, every)
    table = handle(busy)
    facts = report_facts(table.context)
    assert facts.problems == {}
    assert busy.wrote > 2
    at_one_version(table, facts)
    assert Page(table.report()).tags["script"] == 0
    assert "rows in" in Page(table._repr_html_()).text


@pytest.mark.parametrize("every", [1, 3])
def test_explanations_of_a_table_that_is_written_to_are_of_one_version(every: int) -> None:
    """They are those that the same version gives without a writer."""
    store = memory()
    new_table(store).append(rows(1, 2, 3))
    busy = Busy(store, every)
    table = handle(busy)
    blamed = table.blame(where="id >= 0")
    why = table.why(where="id >= 102")
    conflicts = table.conflicts()
    kept = table.why(vacuum=True)
    assert busy.wrote > 2
    quiet = handle(store)
    again = quiet.blame(where="id >= 0", ending_version=blamed.last_version)
    names = ["version", "change", "files", "rows", "paths"]
    assert blamed.commits.select(names).equals(again.commits.select(names))
    version = quiet.why(where="id >= 102", version=why.version)
    assert version.files.equals(why.files)
    same = quiet.conflicts(ending_version=conflicts.last)
    assert (same.commits, same.pairs) == (conflicts.commits, conflicts.pairs)
    assert kept.version <= quiet.version
    live = set(quiet.scan(version=kept.version).files()["path"].to_pylist())
    assert live.isdisjoint(each["path"] for each in kept.objects.to_pylist() if each["goes"])


def damaged_entry(table: Table) -> str:
    path = Path(table.uri) / "_log" / f"{3:020d}.json"
    path.write_bytes(path.read_bytes().replace(b"WRITE", b"WRONG"))
    return f"{3:020d}.json"


def newest_entry(table: Table) -> str:
    path = Path(table.uri) / "_log" / f"{table.version:020d}.json"
    path.write_bytes(path.read_bytes()[:-5])
    return path.name


def lost_entry(table: Table) -> str:
    path = Path(table.uri) / "_log" / f"{4:020d}.json"
    path.unlink()
    return "not version 4"


def lost_file(table: Table) -> str:
    path = table.scan(where="id = 2").files()["path"][0].as_py()
    (Path(table.uri) / path).unlink()
    return str(path)


def cut_file(table: Table) -> str:
    path = Path(table.uri) / table.scan(where="id = 2").files()["path"][0].as_py()
    path.write_bytes(path.read_bytes()[:-40])
    return str(path.relative_to(table.uri))


def no_log(table: Table) -> str:
    shutil.rmtree(Path(table.uri) / "_log")
    return table.uri


CALLS: dict[str, Callable[[Table], Any]] = {
    "report": lambda table: table.report(),
    "notebook": lambda table: table._repr_html_(),
    "blame": lambda table: table.blame(where="id = 2"),
    "why": lambda table: table.why(where="id = 2"),
    "why a vacuum": lambda table: table.why(vacuum=True),
    "why a version": lambda table: table.why(version=2),
    "conflicts": lambda table: table.conflicts(),
}
DAMAGES = {
    "damaged entry": (damaged_entry, {"blame", "why a vacuum", "conflicts"}),
    "newest entry": (newest_entry, set(CALLS)),
    "lost entry": (lost_entry, {"blame", "why a vacuum", "conflicts"}),
    "lost file": (lost_file, {"blame"}),
    "cut file": (cut_file, {"blame"}),
    "no log": (no_log, set(CALLS)),
}


@pytest.mark.broken_tables
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_table_is_explained_as_far_as_it_can_be(name: str, tmp_path: Path) -> None:
    """An error names the object; what does not need the object is right."""
    table = empty(tmp_path / "t")
    for number in range(6):
        table.append(rows(number))
    table.checkpoint()
    table.append(rows(9))
    damage, fails = DAMAGES[name]
    where = damage(table)
    for call, explain in CALLS.items():
        if call in fails:
            with pytest.raises(TablefmtError) as caught:
                explain(tablefmt.open(table.uri))
            assert where in str(caught.value)
            assert prints(str(caught.value))
            continue
        said = str(explain(tablefmt.open(table.uri)))
        assert prints(said)
        if call in ("report", "notebook"):
            assert "7" in Page(said).text
            if call == "report" and name.endswith("entry"):
                assert where in Page(said).text
        if call == "why a version":
            assert "version 2" in said
    for words in (["log"], ["conflicts"], ["blame", "--where", "id = 2"], ["why", "--vacuum"]):
        done = run(words[0], table.uri, *words[1:])
        assert prints(done.out + done.err)
        assert done.code in (0, 1, 2, 3)
        assert done.err.count("\n") == (done.code != 0)
