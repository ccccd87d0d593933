"""Runs of an export: the state of a copy and its way to the head. The target has a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from tablefmt.errors import ExportBlockedError, UnsupportedFeatureError
from tablefmt.export.export_run import Exporter, Progress
from tablefmt.export.export_target import Fetch, ForeignCommit, Mark, Step
from tablefmt.export.version_difference import NOTHING, Difference, difference
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Request, Store
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.tables import Clock, contents_of, handle, memory, new_table, rows


class Lines:
    """Target whose foreign commit of version n is `metadata/n.txt`: ids of files, and their rows.

    `holds` are versions that it cannot show.
    """

    name = "lines"
    start_key = "metadata/start.txt"

    def __init__(self, holds: Sequence[int] = ()) -> None:
        self.holds = holds

    def newest(self, store: Store) -> tuple[str, bytes] | None:
        keys = [one.key for one in store.list_after("metadata/0")]
        keys = [key for key in keys if key != self.start_key]
        return (keys[-1], store.get(keys[-1])) if keys else None

    def read_mark(self, body: bytes) -> Mark | None:
        return Mark(**orjson.loads(body)["mark"]) if body.startswith(b"{") else None

    def cannot_show(self, view: LogView, version: int) -> str:
        return f"version {version} is odd" if version in self.holds else ""

    def begin(self, view: LogView, step: Step, fetch: Fetch) -> Sequence[tuple[str, bytes]]:
        return [("metadata/begin.txt", b"begun")]

    def commit(self, step: Step, fetch: Fetch) -> ForeignCommit:
        entry, shown, lines = step.stored.entry, entry_of(step), []
        if step.difference is not None:
            lines = written(step.difference)
        mark = Mark(table=entry.table, version=entry.version, entry=step.stored.digest, shown=shown)
        said = {name: getattr(mark, name) for name in ("table", "version", "entry", "shown")}
        body = orjson.dumps({"mark": said, "lines": lines})
        key = f"metadata/{entry.version:020d}.txt"
        return ForeignCommit(key=key, body=body, mark=mark)

    def agrees(self, key: str, body: bytes, fetch: Fetch) -> bool:
        return fetch(key) == body

    def lacks_hint(self, mark: Mark) -> bool:
        return False

    def afterwards(self, view: LogView, mark: Mark, store: Store) -> int:
        return 0


def entry_of(step: Step) -> int:
    if step.difference is not None:
        return step.stored.version
    assert step.previous is not None
    return step.previous.shown


def written(of: Difference) -> list[list[Any]]:
    """Say a difference as lines: -path deleted before, +path deleted after."""
    gone, came = of.same_paths()
    pairs = set(zip(gone.tolist(), came.tolist(), strict=True))
    same = {
        (g, c)
        for g, c in pairs
        if of.removed["deleted"][g].as_py() == of.added["deleted"][c].as_py()
    }
    lines = [
        ["-", path, deleted]
        for at, (path, deleted) in enumerate(
            zip(of.removed["path"].to_pylist(), of.removed["deleted"].to_pylist(), strict=True)
        )
        if at not in {g for g, _ in same}
    ]
    for row in of.changed.to_pylist():
        lines += [["-", row["path"], row["deleted_before"]], ["+", row["path"], row["deleted"]]]
    return lines + [
        ["+", path, deleted]
        for at, (path, deleted) in enumerate(
            zip(of.added["path"].to_pylist(), of.added["deleted"].to_pylist(), strict=True)
        )
        if at not in {c for _, c in same}
    ]


def replayed(store: Store, version: int) -> list[tuple[str, int]]:
    """The files of a foreign version, by nothing but its commits."""
    files: set[tuple[str, int]] = set()
    for one in store.list_after("metadata/0"):
        if one.key == Lines.start_key or int(one.key[9:29]) > version:
            continue
        for sign, path, deleted in orjson.loads(store.get(one.key))["lines"]:
            if sign == "+":
                assert (path, deleted) not in files
                files.add((path, deleted))
            else:
                files.remove((path, deleted))
    return sorted(files)


def exporter(store: Store, target: Lines | None = None) -> Exporter:
    return Exporter(store, target or Lines(), sleep=lambda seconds: None)


def export(table: Table, store: Store | None = None, **how: Any) -> Progress:
    """One run with a cold exporter."""
    table.refresh()
    return exporter(store or table.context.store).run(table.context.view, **how)


def files_at(table: Table, version: int) -> list[tuple[str, int]]:
    found = table.scan(version=version).files().to_pylist()
    return sorted((one["path"], one["deleted"]) for one in found)


def busy_table(store: Store | None = None) -> Table:
    """Every kind of change of files, a RESTORE of files with and without deleted rows too."""
    table = new_table(store, partitioned=True)
    table.append(rows(1, 2, 3, p=["a", "b", "b"]))
    table.delete("id = 2")
    table.append(rows(4, 5, 6))
    table.update({"p": "'c'"}, "id IN (3, 4)")
    table.delete("id = 5")
    table.truncate("p = 'a'")
    table.restore(version=5)
    table.alter.add_column("x", "INT")
    table.compact("major")
    table.overwrite(rows(9))
    table.restore(version=4)
    return table


def test_every_version_has_its_files() -> None:
    """XPT-1, XPT-2."""
    table = busy_table()
    progress = export(table, start=0)
    assert (progress.written, progress.found) == (table.version + 1, 0)
    for version in range(table.version + 1):
        assert replayed(table.context.store, version) == files_at(table, version)


@pytest.mark.parametrize("start", [3, 7])
def test_a_copy_begins_at_one_version_for_all(start: int) -> None:
    """XPT-4: the first exporter decides for all exporters."""
    table = busy_table()
    fixed = {"table": table.id, "start": start}
    table.context.store.put_if_absent(Lines.start_key, orjson.dumps(fixed))
    progress = export(table)
    assert (progress.first, progress.written) == (start, table.version + 1 - start)
    for version in range(start, table.version + 1):
        assert replayed(table.context.store, version) == files_at(table, version)


def test_steps_and_one_run_write_the_same_objects() -> None:
    """XPT-1: cold exporters in between, from a checkpoint on too."""
    table = busy_table()
    export(table, start=0)
    at_once = contents_of(table.context.store, "m")
    for key in at_once:
        table.context.store.delete(key)
    for _ in range(table.version + 1):
        stop = export(handle(table.context.store), start=0, until=lambda: True)
        assert stop.written == 1
        if stop.first == 5:
            table.checkpoint()
    stepwise = contents_of(table.context.store, "m")
    assert stepwise == at_once


def test_a_warm_exporter_asks_nothing() -> None:
    """One PUT for each commit."""
    counted = CountingStore(memory())
    assert_puts_per_commit(new_table(counted), counted, exporter(counted), 1)


def assert_puts_per_commit(table: Table, counted: Store, warm: Exporter, puts: int) -> None:
    """Check that an exporter that knows its copy sends just these requests for each commit."""
    warm.run(table.context.view)
    for number in range(3):
        table.append(rows(number))
        before = counted.tally.sums()
        assert warm.run(table.context.view).written == 1
        after = counted.tally.sums()
        sent = {k: after[k] - before[k] for k in after if after[k] != before[k]}
        assert sent == {Request.PUT: puts}


def test_a_found_commit_of_the_same_entry_is_done() -> None:
    """XPT-3."""
    table = busy_table()
    store = table.context.store
    slow, fast = exporter(store), exporter(store)
    slow.run(table.context.view, start=0)
    table.append(rows(20))
    assert fast.run(table.context.view).written == 1
    progress = slow.run(table.context.view)
    assert (progress.written, progress.found) == (0, 1)


@pytest.mark.parametrize("body", [b"theirs", b'{"mark":null}'])
def test_a_foreign_commit_blocks_the_export(body: bytes) -> None:
    """XPT-3: before a cold run, and in the middle of a warm one. Nothing is overwritten."""
    table = busy_table()
    store = table.context.store
    warm = exporter(store)
    warm.run(table.context.view)
    table.append(rows(30))
    key = f"metadata/{table.version:020d}.txt"
    theirs = b"theirs" if body == b"theirs" else store.get(f"metadata/{table.version - 1:020d}.txt")
    store.put_if_absent(key, theirs)
    why = r"not written by tablefmt|another entry"
    with pytest.raises(ExportBlockedError, match=why) as raised:
        warm.run(table.context.view)
    assert (raised.value.target, raised.value.path) == ("lines", key)
    assert store.get(key) == theirs
    if body == b"theirs":
        with pytest.raises(ExportBlockedError, match="not written by tablefmt"):
            export(table)


def test_the_copy_of_another_table_blocks_the_export() -> None:
    """XPT-3, XPT-4."""
    one, other = busy_table(), busy_table()
    export(one, start=0)
    for found in one.context.store.list_after("metadata/"):
        other.context.store.put_if_absent(found.key, one.context.store.get(found.key))
    with pytest.raises(ExportBlockedError, match=f"copy of the table {one.id}"):
        export(other)
    for found in list(other.context.store.list_after("metadata/0")):
        other.context.store.delete(found.key)
    with pytest.raises(ExportBlockedError, match=f"copy of the table {one.id}"):
        export(other)


def test_a_copy_of_a_later_history_blocks_the_export() -> None:
    table = busy_table()
    export(table)
    last = f"_log/{table.version:020d}.json"
    table.context.store.delete(last)
    with pytest.raises(ExportBlockedError, match="no version"):
        export(handle(table.context.store))


def test_a_version_that_cannot_be_shown_is_held() -> None:
    """XPT-5: the copy goes on with the whole difference as soon as it can."""
    table = busy_table()
    target = Lines(holds=[3, 4, 8, table.version])
    progress = exporter(table.context.store, target).run(table.context.view, start=0)
    assert progress.held == f"version {table.version} is odd"
    shown = [0, 1, 2, 2, 2, 5, 6, 7, 7, *range(9, table.version), table.version - 1]
    for version, seen in enumerate(shown):
        assert replayed(table.context.store, version) == files_at(table, seen)
    again = exporter(table.context.store, target).run(table.context.view)
    assert (again.written, again.held) == (0, progress.held)


def test_no_copy_begins_with_a_version_that_cannot_be_shown() -> None:
    """XPT-5."""
    table = busy_table()
    with pytest.raises(UnsupportedFeatureError, match="cannot begin with version 4"):
        exporter(table.context.store, Lines(holds=[4])).run(table.context.view, start=4)
    assert list(table.context.store.list_after("metadata/")) == []


class Killed(BaseException):
    """The process ends."""


class Dying(ForwardingStore):
    """A store whose client dies before or after its n-th write."""

    def __init__(self, inner: Store, writes: int, after: bool) -> None:
        super().__init__(inner)
        self.left, self.after = writes, after

    def put_if_absent(self, key: str, body: bytes) -> Any:
        return self._write(lambda: self.inner.put_if_absent(key, body))

    def put(self, key: str, body: bytes) -> None:
        self._write(lambda: self.inner.put(key, body))

    def _write(self, write: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        reply = write()
        if self.left == 0:
            raise Killed
        return reply


def killed_everywhere(
    table: Table, run: Callable[[Store], object], folders: Sequence[str]
) -> dict[str, bytes]:
    """Kill an exporter at each put in turn; return what is there in the end."""
    store = table.context.store
    for puts in range(1, 200):
        for after in (False, True):
            try:
                run(Dying(store, puts, after))
            except Killed:
                continue
            found = [o.key for folder in folders for o in store.list_after(folder)]
            return {key: store.get(key) for key in found}
    raise AssertionError("it never ends")


def test_an_exporter_may_die_at_any_put() -> None:
    """XPT-1."""
    table = busy_table()
    export(table, start=2)
    store = table.context.store
    undisturbed = contents_of(store, "metadata/")
    for key in undisturbed:
        store.delete(key)
    table.refresh()

    def run(dying: Store) -> None:
        exporter(dying).run(table.context.view, start=2)

    assert killed_everywhere(table, run, ["metadata/"]) == undisturbed


def test_a_difference_needs_no_expired_entry() -> None:
    """XPT-1: the log below the shown version may be away."""
    clock = Clock()
    table = new_table(clock=clock)
    for number in range(8):
        table.append(rows(number))
    table.delete("id = 5")
    export(table)
    table.append(rows(50))
    view = LogView.open(table.context.store)
    assert difference(view, table.version - 1, table.version).added.num_rows == 1
    assert difference(view, NOTHING, table.version).added["deleted"].to_pylist() == [
        one["deleted"] for one in table.scan().files().to_pylist()
    ]
