"""Tables whose sums somebody brought near the limit of 64 bits: each verb is right, or refuses.

Spec: ENT-2, ENT-6, RPL-3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

import tablefmt
from tablefmt.errors import CorruptEntryError, CorruptTableError, TablefmtError
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import AddedFiles
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.memory_store import MemoryStore
from tablefmt.table import Table
from tests.tables import contents_of, handle, memory, new_table, next_entry, rows

MOST = (1 << 63) - 1

LARGE = {"rows": MOST - 2, "size": MOST - 2000}
"""Rows or bytes of a file of somebody else, which is the second file of the table."""

Verb = Callable[[Table], Any]

VERBS: Mapping[str, Verb] = {
    "count": lambda table: table.count(),
    "partitions": lambda table: table.scan().partitions().to_pylist(),
    "history": lambda table: table.history().num_rows,
    "snapshots": lambda table: table.snapshots().num_rows,
    "describe": lambda table: repr(table),
    "old": lambda table: table.to_arrow(version=1).num_rows,
    "append": lambda table: table.append(rows(5, 6)),
    "delete": lambda table: table.delete("id = 1"),
    "empty": lambda table: table.delete(),
    "update": lambda table: table.update({"id": "id + 1"}),
    "overwrite": lambda table: table.overwrite(rows(7)),
    "merge": lambda table: (
        table.merge(rows(1), "t.id = s.id").when_not_matched_insert_all().execute()
    ),
    "alter": lambda table: table.alter.add_column("more", "INT"),
    "compact": lambda table: table.compact(),
    "checkpoint": lambda table: table.checkpoint(),
    "maintain": lambda table: table.maintain(),
    "vacuum": lambda table: table.vacuum(dry_run=False),
    "restore": lambda table: table.restore(version=1),
    "delta": lambda table: table.export("delta"),
    "iceberg": lambda table: table.export("iceberg"),
    "pipe": lambda table: tablefmt.pipe(table).into(f"{table.uri}-copy"),
    "verify": lambda table: len(table.verify().findings),
    "drop": lambda table: tablefmt.drop(table.uri),
}

REFUSED = {
    ("rows", "append"): "ENT-6",
    ("size", "append"): "",
    ("rows", "update"): "DEL-1",
    **{(name, verb): "DAT-5" for name in LARGE for verb in ("delete", "merge", "pipe")},
    ("size", "update"): "DAT-5",
    ("rows", "compact"): "DAT-5",
}
"""The rule that the error of a verb names; "" and other verbs have none."""


def with_totals(**changed: int) -> MemoryStore:
    """A table with a row, and an entry of somebody else that adds a file, with these sums."""
    store = memory()
    new_table(store).append(rows(1))
    view = LogView.open(store)
    sums = view.head.totals
    file = {"rows": 1, "size": 1} | {k: v for k, v in changed.items() if k in LARGE}
    totals = {
        "files": 2,
        "rows": 1 + file["rows"],
        "bytes": sums.bytes + file["size"],
        "next_id": sums.next_id + 1,
        "metadata_version": sums.metadata_version,
    }
    totals |= {name: number for name, number in changed.items() if name in totals.keys() - {"rows"}}
    columns: dict[str, list[Any]] = {"path": ["data/huge.parquet"]}
    columns |= {name: [number] for name, number in file.items()}
    entry = next_entry(view, totals=type(sums)(**totals), add=AddedFiles(columns))
    store.put(entry_key(entry.version), encode(entry))
    return store


@pytest.mark.broken_tables
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("verb", VERBS)
def test_sums_near_the_limit_are_exact_or_refused(name: str, verb: str) -> None:
    """ENT-6: sums of files are those of the entry, and a refused verb makes no version."""
    store = with_totals(**{name: LARGE[name]})
    before = handle(store)
    refused = REFUSED.get((name, verb))
    if refused:
        with pytest.raises(TablefmtError, match=refused):
            VERBS[verb](before)
        assert handle(store).version == 2
        return
    known = VERBS[verb](before)
    if verb == "drop":
        return
    after = handle(store)
    totals, files = after.context.view.head.totals, after.scan().files()
    sizes, counts = files["size"].to_pylist(), files["rows"].to_pylist()
    assert (totals.files, totals.rows, totals.bytes) == (len(sizes), sum(counts), sum(sizes))
    assert totals.rows <= MOST >= totals.bytes
    if verb == "count":
        assert known == sum(counts)
    if verb == "partitions":
        assert known == [{"files": 2, "rows": sum(counts), "bytes": sum(sizes)}]
    if verb == "delta":
        copied = contents_of(store, "_delta_log/")
        first = [body for key, body in copied.items() if key.endswith(".json")]
        stats = [action["add"] for one in first for action in _lines(one) if "add" in action]
        assert sorted(add["size"] for add in stats) == sorted(sizes)
        assert sorted(orjson.loads(add["stats"])["numRecords"] for add in stats) == sorted(counts)


def _lines(body: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in body.splitlines() if line]


@pytest.mark.broken_tables
@pytest.mark.parametrize("name", ["next_id", "files", "metadata_version"])
@pytest.mark.parametrize("number", [MOST, MOST - 1, 1 << 32])
def test_sums_that_jump_are_damage_for_each_verb(name: str, number: int) -> None:
    """RPL-3: no verb goes on from such an entry, a drop either, and nothing is written."""
    store = with_totals(**{name: number})
    known = contents_of(store)
    for verb, work in VERBS.items():
        with pytest.raises(CorruptEntryError, match="RPL-3"):
            work(handle(store))
        assert contents_of(store) == known, verb
    with pytest.raises(CorruptEntryError, match="RPL-3"):
        tablefmt.drop(store.uri)
    assert contents_of(store) == known


@pytest.mark.broken_tables
def test_appends_stop_before_the_limit() -> None:
    """ENT-6: the error says how the table can be mended, and it can be."""
    store = with_totals(size=LARGE["size"])

    def fill() -> None:
        for number in range(10):
            handle(store).append(rows(number))

    with pytest.raises(CorruptTableError, match="drop the table"):
        fill()
    last = handle(store).version
    assert 2 < last < 10
    assert tablefmt.drop(store.uri).version == last + 1
