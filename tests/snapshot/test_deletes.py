"""Deleted rows, removed files, moved rows: every version equals that of a plain model."""

from __future__ import annotations

import io
import itertools
import random

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logdump.folder import Folder

import tablefmt
from tablefmt.data.row_reader import locate_rows, read_files
from tablefmt.data.selection import select_rows
from tablefmt.errors import CorruptDataError, CorruptEntryError
from tablefmt.log.codec import seal
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import OperationClass, RowUpdate
from tablefmt.store.object_store import Store
from tests.oracle import assert_agrees, logdump
from tests.rows import Positions, Row, Run, StagedTable
from tests.scheduling import examples
from tests.tables import handle, memory, new_table, tuples
from tests.tables import rows as numbered

_numbers = itertools.count()


def staged() -> StagedTable:
    return StagedTable(f"memory://row-deletes-{next(_numbers)}")


class Writer:
    """Random commits of every kind."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.to = staged()
        self.ids = itertools.count()

    def new_rows(self, most: int = 7) -> list[Row]:
        count = self.chance.randint(1, most)
        return [(next(self.ids), self.chance.randint(0, 3)) for _ in range(count)]

    def append(self) -> None:
        files = [self.new_rows() for _ in range(self.chance.randint(1, 2))]
        self.to.commit(OperationClass.INSERT, files)

    def update(self) -> None:
        """Rows deleted and updated; files without a row left stay, go, or go with marks."""
        marks: dict[int, Positions] = {}
        new: list[Row] = []
        remove = []
        for file in self.to.live:
            chosen = [p for p, _ in self.to.rows(file) if self.chance.random() < 0.4]
            updated = [p for p in chosen if self.chance.random() < 0.5]
            if chosen:
                marks[file] = ([p for p in chosen if p not in updated], updated)
                new += [(self.to.content[file][p][0], 9) for p in updated]
            if len(chosen) == len(self.to.rows(file)) and self.chance.random() < 0.5:
                remove.append(file)
                if not updated and self.chance.random() < 0.5:
                    marks.pop(file, None)
        if marks or remove:
            self.to.commit(
                OperationClass.UPDATE,
                [new] if new else [],
                remove,
                marks,
                updated=[True] if new else None,
                side=self.chance.random() < 0.3,
                update=RowUpdate((2,)),
            )

    def overwrite(self) -> None:
        remove = [file for file in self.to.live if self.chance.random() < 0.5]
        self.to.commit(OperationClass.OVERWRITE, [self.new_rows()], remove)

    def compact(self) -> None:
        """Move runs of files in any order. Some deleted rows are left out, others move along."""
        chosen = [file for file in self.to.live if self.chance.random() < 0.7]
        self.chance.shuffle(chosen)
        pieces: list[tuple[int, int, int]] = []
        for file in chosen:
            rows = len(self.to.content[file])
            cut = self.chance.randint(0, rows)
            pieces += [(file, a, b) for a, b in ((0, cut), (cut, rows)) if a < b]
        outputs: list[list[Row]] = []
        runs: list[Run] = []
        marks: dict[int, Positions] = {}
        first = self.to.table.context.view.head.totals.next_id
        for file, start, end in pieces:
            if not outputs or (outputs[-1] and self.chance.random() < 0.3):
                outputs.append([])
            gone = [p for p in range(start, end) if p in self.to.gone[file]]
            dropped = [p for p in gone if self.chance.random() < 0.7]
            for position in range(start, end):
                if position in dropped:
                    continue
                if position in gone:
                    own = marks.setdefault(first + len(outputs) - 1, ([], []))
                    own[0].append(len(outputs[-1]))  # type: ignore[attr-defined]
                outputs[-1].append(self.to.content[file][position])
            runs.append((len(outputs) - 1, file, start, end - start, dropped))
        if outputs and all(outputs):
            cls = self.chance.choice([OperationClass.MINOR_COMPACT, OperationClass.MAJOR_COMPACT])
            self.to.commit(cls, outputs, chosen, marks, lineage=runs)

    def cluster(self) -> None:
        rows = [row for file in self.to.live for _, row in self.to.rows(file)]
        self.chance.shuffle(rows)
        if rows:
            self.to.commit(OperationClass.CLUSTER, [rows], list(self.to.live))

    def step(self) -> None:
        kinds = [self.append, self.update, self.update, self.overwrite, self.compact, self.cluster]
        self.chance.choice(kinds)()


def rows_by_the_log_dump(uri: str, version: int) -> list[Row]:
    """Return the rows by pyarrow, without the positions that the second reader finds deleted."""
    document = logdump.read(uri, as_of=version)
    folder = Folder(uri, None)
    assert document["findings"] == []
    rows: list[Row] = []
    for file in document["state"]["files"]:
        content = tuples(pq.read_table(io.BytesIO(folder.get(file["path"]))))
        gone = {p for first, end in file["gone"] for p in range(first, end)}
        rows += [row for p, row in enumerate(content) if p not in gone]
    return rows


@pytest.mark.slow
@examples(20)
@given(chance=st.randoms(use_true_random=False), steps=st.integers(1, 9))
def test_every_version_is_what_the_model_says(chance: random.Random, steps: int) -> None:
    """RPL-1, RPL-2, RPL-3, RPL-6, DEL-1, DEL-3, DEL-4, LIN-1, LIN-2, PRN-1: every version.

    Scans, conditions and the second reader agree with the model, and `verify` finds nothing.
    """
    writer = Writer(chance)
    writer.append()
    for _ in range(steps):
        writer.step()
    model, kept = writer.to, writer.to.table
    fresh = tablefmt.open(kept.uri)
    least = chance.randint(0, 12)
    conditions = {
        f"id >= {least}": lambda row: row[0] >= least,
        "v = 9": lambda row: row[1] == 9,
        f"v < 2 AND id <> {least}": lambda row: row[1] < 2 and row[0] != least,
    }
    for version, rows in enumerate(model.versions):
        assert tuples(kept.to_arrow(version=version)) == rows
        assert fresh.scan(version=version).count() == len(rows)
        for where, holds in conditions.items():
            scan = fresh.scan(version=version, where=where)
            expected = [row for row in rows if holds(row)]
            assert tuples(scan.to_arrow()) == expected
            assert scan.count() == len(expected)
    for version in {0, chance.randrange(len(model.versions)), len(model.versions) - 1}:
        assert rows_by_the_log_dump(kept.uri, version) == model.versions[version]
    assert_agrees(fresh)
    assert fresh.verify().findings == ()


@pytest.mark.slow
@examples(25)
@given(chance=st.randoms(use_true_random=False), steps=st.integers(1, 6))
def test_rows_are_found_at_their_positions(chance: random.Random, steps: int) -> None:
    """DEL-1: the positions for a DELETE, with and without conditions, skip deleted rows."""
    writer = Writer(chance)
    writer.append()
    for _ in range(steps):
        writer.step()
    snapshot = writer.to.table.context.view.snapshot()
    files = snapshot.with_vectors(snapshot.files)
    ids = files["id"].to_pylist()
    expression = pc.field("id") > 3
    for where, holds in ((None, lambda row: True), (expression, lambda row: row[0] > 3)):
        condition = select_rows(where, snapshot.schema).rows
        found = {
            (ids[part.file], position, row)
            for part in locate_rows(
                writer.to.store, files, snapshot.schema, snapshot.schema.fields, condition
            )
            for position, row in zip(part.positions.tolist(), tuples(part.rows), strict=True)
        }
        assert found == {
            (file, position, row)
            for file in writer.to.live
            for position, row in writer.to.rows(file)
            if holds(row)
        }


def test_a_scan_without_columns_counts_the_rows_that_are_left() -> None:
    table = staged()
    table.commit(OperationClass.INSERT, [[(i, i) for i in range(5)]])
    table.commit(OperationClass.UPDATE, marks={1: ([0, 4], [2])})
    scan = table.table.scan(columns=[])
    assert (scan.to_arrow().num_rows, scan.count()) == (2, 2)
    assert table.table.scan(columns=[], where="v > 1").to_arrow().num_rows == 1


def test_sums_for_people_are_of_the_rows_that_are_left() -> None:
    """`rows` of a file counts written rows, `deleted` counts the deleted ones."""
    table = staged()
    table.commit(OperationClass.INSERT, [[(i, i) for i in range(5)], [(9, 9)]])
    table.commit(OperationClass.UPDATE, marks={1: ([0, 4], [2])})
    files = table.table.scan().files()
    assert files.select(["id", "rows", "deleted"]).to_pylist() == [
        {"id": 1, "rows": 5, "deleted": 3},
        {"id": 2, "rows": 1, "deleted": 0},
    ]
    assert "rows=3," in repr(table.table)
    assert table.table.scan().explain().startswith("version 2: reads 2 of 2 files, 3 of 3 rows,")
    assert (
        table.table.scan(where="id < 5")
        .explain()
        .startswith("version 2: reads 1 of 2 files, 2 of 3")
    )


def test_a_count_reads_no_file() -> None:
    """DEL-1: `rows` of the entry is enough."""
    table = staged()
    entry = table.commit(OperationClass.INSERT, [[(i, i) for i in range(5)]])
    table.commit(OperationClass.UPDATE, marks={1: ([0, 4], [2])})
    assert entry.add is not None
    table.store.delete(entry.add.columns["path"][0])
    assert table.table.scan().count() == 2
    table.commit(OperationClass.OVERWRITE, remove=[1])


@pytest.mark.broken_tables
@pytest.mark.parametrize("rows", [4, 6])
def test_a_file_with_other_rows_than_the_log_says_is_damage(rows: int) -> None:
    """DAT-5: positions would name other rows than those that were deleted."""
    table = staged()
    table.commit(OperationClass.INSERT, [[(i, i) for i in range(5)]])
    table.commit(OperationClass.UPDATE, marks={1: ([0], [])})
    snapshot = table.table.context.view.snapshot()
    files = snapshot.with_vectors(snapshot.files)
    files = files.set_column(files.column_names.index("rows"), "rows", [[rows]])
    with pytest.raises(CorruptDataError, match=f"holds 5 rows, but the log says {rows}"):
        list(read_files(table.store, files, snapshot.schema, snapshot.schema.fields))


def test_files_with_deleted_rows_are_not_read_without_their_vectors() -> None:
    """DEL-4: a reader without the vectors gets no rows rather than too many."""
    table = staged()
    table.commit(OperationClass.INSERT, [[(i, i) for i in range(5)]])
    table.commit(OperationClass.UPDATE, marks={1: ([0], [])})
    snapshot = table.table.context.view.snapshot()
    with pytest.raises(AssertionError, match="vectors"):
        list(read_files(table.store, snapshot.files, snapshot.schema, snapshot.schema.fields))


@pytest.mark.broken_tables
def test_more_rows_than_a_file_has_left_are_damage() -> None:
    """DEL-1: the sums of the table allow it, so only the file tells."""
    marks = of_four(memory())
    handle(marks).delete("id > 1")
    store = of_four(memory())
    table = handle(store)
    table.append(numbered(*range(100, 110)))
    table.delete("id < 3")
    version = table.delete("id = 3").version
    entry, three = (
        orjson.loads(each.get(entry_key(at))) for each, at in ((store, version), (marks, 2))
    )
    assert (entry["totals"]["deleted"], three["delete"]["rows"]) == (3, [3])
    entry["delete"] = three["delete"]
    entry["totals"]["deleted"] = 5
    del entry["checksum"]
    store.put(entry_key(version), seal(entry))
    with pytest.raises(CorruptEntryError, match="more rows of a file than it has") as caught:
        handle(store).scan().count()
    assert caught.value.rule == "DEL-1"


def of_four(store: Store) -> Store:
    """Return a store with a table of one file of four rows."""
    new_table(store).append(numbered(1, 2, 3, 4))
    return store
