"""Golden tables with their rows at every version, and the row changes of version ranges (INC)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from golden.checkpoints import checkpoint
from golden.maker import HOUR, START, Json, Maker, field, plain_rows, schema_of
from golden.newer import let_go
from golden.rows import lineage_of

Told = tuple[str, Json]
"""The change type of a row and the row, by the names of its columns."""

DELETE, BEFORE, AFTER, INSERT = "delete", "update_preimage", "update_postimage", "insert"
KV = [field(1, "k", "long"), field(2, "v", "string")]


class Watched(Maker):
    """A table that records its rows at every version, and the row changes of each entry."""

    def __init__(self, name: str, fields: list[Json], partition_by: tuple[int, ...] = ()) -> None:
        self.shown: list[list[Json]] = []
        self.told: list[list[Told]] = []
        self.asked: list[Json] = []
        super().__init__(name, fields, partition_by)

    def commit(self, *given: Any, told: tuple[Told, ...] = (), **more: Any) -> None:
        """Commit like any maker; `told` are the row changes, written by hand."""
        super().commit(*given, **more)
        names = {f["physical"]: f["name"] for f in self.metadata["schema"]["fields"]}
        rows = [
            {name: row.get(physical) for physical, name in names.items()}
            for identity, file in self.live.items()
            for position, row in enumerate(file["content"])
            if position not in self.gone.get(identity, ())
        ]
        self.shown.append(plain_rows(rows))
        self.told.append(list(told))

    def ask(self, rows: list[Json] | None = None, content: str = "changes", **bounds: Any) -> None:
        """Add a range and its rows; default: the rows of its entries, for `net` the difference."""
        first = bounds.get("starting_version", bounds.get("after_version", -1) + 1)
        last = bounds.get("ending_version", len(self.documents) - 1)
        if rows is None and content == "changes":
            every = range(first, last + 1)
            rows = [self.marked(row, kind, v) for v in every for kind, row in self.told[v]]
        elif rows is None:
            rows = self._difference(first - 1, last, content)
        self.asked.append({**bounds, "content": content, "rows": plain_rows(rows)})

    def refuse(self, error: str, content: str = "changes", **bounds: Any) -> None:
        """Add a range that is refused."""
        self.asked.append({**bounds, "content": content, "error": error})

    def marked(self, row: Json, kind: str, version: int) -> Json:
        """Return a row of a result (INC-3); with kind "" a row of `append`."""
        marks = {"_commit_version": version}
        marks["_commit_timestamp"] = self.documents[version]["timestamp"]
        return {**row, **({"_change_type": kind} if kind else {}), **marks}

    def _difference(self, before: int, last: int, content: str) -> list[Json]:
        """Return the rows of `net` between two versions of one schema (INC-6)."""
        old, new = (
            Counter(json.dumps(row) for row in (self.shown[at] if at >= 0 else []))
            for at in (before, last)
        )
        kinds = [(DELETE, old - new), (INSERT, new - old)]
        if content == "append":
            kinds = [("", new - old)]
        left = [(kind, text) for kind, rows in kinds for text in rows.elements()]
        return [self.marked(json.loads(text), kind, last) for kind, text in left]

    def finish(self, why: str, **more: Any) -> Maker:
        """Finish with the results of the ranges, and the rows of every kept version."""
        kept = {str(v): rows for v, rows in enumerate(self.shown) if v >= more.get("oldest", 0)}
        return self.good(why, changes=self.asked, versions=kept, **more)


def feeds() -> Iterator[Maker]:
    """Yield every finished case."""
    yield kinds_of_entries()
    yield columns()
    yield values()
    yield given_up()


def _rows(*pairs: tuple[int, str | None]) -> list[Json]:
    return [{"k": k, "v": v} for k, v in pairs]


def _told(kind: str, *pairs: tuple[int, str | None]) -> tuple[Told, ...]:
    return tuple((kind, row) for row in _rows(*pairs))


def kinds_of_entries() -> Maker:
    """Make every kind of entry, on a table of keys and values."""
    maker = Watched("feed", KV)
    for start in (0, 4):
        pairs = [(k, "a") for k in range(start, start + 4)]
        maker.commit("INSERT", "WRITE", (maker.file(_rows(*pairs)),), told=_told(INSERT, *pairs))

    def updated(*images: bool) -> Any:
        return lambda e: (
            e["add"].update(updated=list(images)),
            e.update(update={"keys": [], "set": [2]}),
        )

    new = maker.file(_rows((1, "b"), (2, "b")))
    told = _told(BEFORE, (1, "a"), (2, "a")) + _told(AFTER, (1, "b"), (2, "b"))
    marks: dict[int, Any] = {1: ([], [1, 2])}
    maker.commit("UPDATE", "UPDATE", (new,), delete=marks, change=updated(True), told=told)
    told = _told(DELETE, (4, "a"), (1, "b"))
    maker.commit("UPDATE", "DELETE", delete={2: ([0], []), 3: ([0], [])}, told=told)

    moved = maker.file(_rows((0, "a"), (3, "a"), (5, "a"), (6, "a"), (7, "a"), (2, "b")))
    lineage = lineage_of((0, 1, 0, 4, [1, 2]), (0, 2, 0, 4, [0]), (0, 3, 0, 2, [0]))
    maker.commit("MINOR_COMPACT", "OPTIMIZE", (moved,), (1, 2, 3), lineage=lineage)

    kept = maker.file(_rows((0, "a"), (6, "a"), (7, "a"), (2, "b")))
    changed, fresh = maker.file(_rows((3, "c"))), maker.file(_rows((9, "n")))
    told = _told(DELETE, (5, "a")) + _told(BEFORE, (3, "a"))
    told += _told(AFTER, (3, "c")) + _told(INSERT, (9, "n"))
    maker.commit(
        "UPDATE",
        "MERGE",
        (kept, changed, fresh),
        (4,),
        delete={4: ([2], [1])},
        lineage=lineage_of((0, 4, 0, 6, [1, 2])),
        change=updated(False, True, False),
        told=told,
    )

    replaced = maker.file(_rows((0, "a"), (6, "z"), (6, "z")))
    went = ((0, "a"), (6, "a"), (7, "a"), (2, "b"), (3, "c"), (9, "n"))
    told = _told(DELETE, *went) + _told(INSERT, (0, "a"), (6, "z"), (6, "z"))
    maker.commit("OVERWRITE", "OVERWRITE", (replaced,), (5, 6, 7), told=told)

    told = _told(DELETE, (6, "z"), (6, "z")) + _told(INSERT, *went[1:])
    maker.commit("OVERWRITE", "RESTORE", (kept, changed, fresh), (8,), told=told)

    maker.commit("UPDATE", "DELETE", remove=(10,), told=_told(DELETE, (3, "c")))

    own = maker.file(_rows((20, "o"), (21, "o")))
    told = _told(INSERT, (20, "o"))
    maker.commit("UPDATE", "WRITE", (own,), delete={12: ([1], [])}, told=told)

    told = _told(DELETE, (6, "a"))
    maker.commit("OVERWRITE", "WRITE", (kept,), (9,), delete={13: ([1], [])}, told=told)

    some = maker.file(_rows((0, "a"), (7, "a")))
    moved_again = lineage_of((1, 13, 0, 3, [1]))
    again: dict[int, Any] = {14: ([0, 1, 2], [])}
    maker.commit("UPDATE", "WRITE", (kept, some), (13,), delete=again, lineage=moved_again)
    _ask_of_every_kind(maker)
    return maker.finish(
        "The row changes of every kind of entry: deletion vectors, lineage, removed files, equal "
        "rows of a restore, deletion vectors of files of the same entry, and a file that comes "
        "back by its path (INC-3, INC-5, INC-6)."
    )


def _ask_of_every_kind(maker: Watched) -> None:
    """Add ranges by version and by time, and invalid ranges."""
    head = len(maker.documents) - 1
    for version in range(head + 1):
        maker.ask(starting_version=version, ending_version=version)
    for after, ending in ((0, head), (1, 5), (3, 4), (5, 7), (6, 6), (8, 11)):
        for content in ("changes", "net", "append"):
            maker.ask(content=content, after_version=after, ending_version=ending)
    maker.ask(content="net", starting_version=0)
    every = [maker.marked(row, kind, v) for v in (3, 4) for kind, row in maker.told[v]]
    hours: Json = {"after_time": START + 2 * HOUR, "ending_time": START + 5 * HOUR}
    maker.ask(every, **hours)
    maker.ask(every[-2:], starting_time=START + 3 * HOUR + 1, ending_time=START + 6 * HOUR - 1)
    maker.ask([], starting_time=START + head * HOUR + 1)
    maker.refuse("VersionNotFoundError", after_version=head + 1)
    maker.refuse("VersionNotFoundError", starting_version=0, ending_version=head + 1)
    maker.refuse("VersionNotFoundError", starting_version=-1)
    maker.refuse("VersionNotFoundError", starting_time=START - 1)
    maker.refuse("InvalidRangeError", starting_version=3, ending_version=2)
    maker.refuse("InvalidRangeError", after_version=3, ending_version=2)
    maker.refuse("InvalidRangeError", after_version=3, starting_version=4)
    maker.refuse("InvalidRangeError")


def columns() -> Maker:
    """Make a table with added, renamed, widened, dropped and restored columns (INC-4, INC-6)."""
    x, y = field(1, "x", "integer"), field(2, "y", "string")
    maker = Watched("feed-columns", [x, y])
    first = maker.file([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
    maker.commit("INSERT", "WRITE", (first,))
    wide, renamed = field(1, "x", "long"), field(2, "w", "string", physical="y")
    added = field(3, "z", "long", default=7, initial=7)
    definition = schema_of([wide, renamed, added])
    maker.commit("METADATA", "ALTER", metadata=definition)
    second = maker.file([{"x": 3, "y": "c", "z": 5}])
    maker.commit("INSERT", "WRITE", (second,))
    dropped = schema_of([wide, added])
    dropped["schema"] |= {"last_id": 3, "dropped": ["y"]}
    maker.commit("METADATA", "ALTER", metadata=dropped)
    maker.commit("UPDATE", "DELETE", delete={1: ([0], [])})
    back = schema_of([wide, renamed, added])
    back["schema"] |= {"last_id": 3, "dropped": ["y"]}
    maker.commit("OVERWRITE", "RESTORE", (first,), (1,), metadata=back)
    for version, rows in enumerate(maker.shown):
        if version > 1:
            # Files of before have the initial value of the column that was added.
            filled = [{**row, "z": 7 if row["z"] is None else row["z"]} for row in rows]
            maker.shown[version] = plain_rows(filled)

    def told(kind: str, version: int, x: int, z: int, **w: Any) -> Json:
        return maker.marked({"x": x, **w, "z": z}, kind, version)

    one, two = (told(INSERT, 1, x, 7, w=w) for x, w in ((1, "a"), (2, "b")))
    three = told(INSERT, 3, 3, 5, w="c")
    went, came = told(DELETE, 5, 1, 7, w=None), told(INSERT, 6, 1, 7, w="a")
    maker.ask([one, two, three, went, came], starting_version=0)
    maker.ask([went, came], after_version=4)
    maker.ask([], "net", after_version=4)
    maker.ask([told(INSERT, 6, 3, 5, w="c")], "net", after_version=1)
    maker.ask([came], "net", after_version=5)
    short = {"schema": "start"}
    maker.ask([told(DELETE, 5, 1, 7), told(INSERT, 6, 1, 7)], after_version=4, **short)
    plain = maker.marked({"x": 1, "z": 7}, DELETE, 5)
    maker.ask([plain], starting_version=4, ending_version=5)
    as_then = [maker.marked({"x": 3, "y": "c"}, INSERT, 3)]
    maker.ask(as_then, after_version=1, ending_version=3, **short)
    old = [maker.marked({"x": x, "y": y}, INSERT, 1) for x, y in ((1, "a"), (2, "b"))]
    maker.ask(old, starting_version=1, ending_version=1)
    rows = [{"x": x, "w": w, "z": z} for x, w, z in ((1, "a", 7), (2, "b", 7), (3, "c", 5))]
    return maker.finish(
        "A row has the columns of the version before its delete, or of the version that added it; "
        "dropped columns are NULL and not compared (INC-4, INC-6).",
        rows=plain_rows(rows),
    )


def values() -> Maker:
    """Make a table with equal and unequal values (INC-6)."""
    nested = {"struct": [field(4, "a", "double")]}
    fields = [field(1, "d", "double"), field(2, "t", "string"), field(3, "s", nested)]
    maker = Watched("feed-values", fields)

    def row(d: float | None, t: str | None = "x", a: Any = 1.0) -> Json:
        return {"d": d, "t": t, "s": {"a": a}}

    nan = float("nan")
    old = [row(nan), row(0.0), row(-0.0), row(None), row(1.0, None), row(1.0, ""), row(2.0)]
    old += [row(2.0), row(3.0, a=0.0), row(4.0, a=nan), {"d": 5.0, "t": "x", "s": None}]
    new = [row(nan), row(0.0), row(0.0), row(None), row(1.0, ""), row(1.0, ""), row(2.0)]
    new += [row(3.0, a=-0.0), row(4.0, a=nan), row(5.0, a=None)]
    went = [row(-0.0), row(1.0, None), row(2.0), row(3.0, a=0.0), old[-1]]
    came = [row(0.0), row(1.0, ""), row(3.0, a=-0.0), row(5.0, a=None)]
    first, second = maker.file(old), maker.file(new)
    maker.commit("INSERT", "WRITE", (first,), told=tuple((INSERT, r) for r in old))
    told = [*((DELETE, r) for r in old), *((INSERT, r) for r in new)]
    maker.commit("OVERWRITE", "OVERWRITE", (second,), (1,), told=tuple(told))
    maker.commit("OVERWRITE", "TRUNCATE", (), (2,), told=tuple((DELETE, r) for r in new))
    maker.commit("OVERWRITE", "RESTORE", (first,), told=tuple((INSERT, r) for r in old))
    told = [*((DELETE, r) for r in went), *((INSERT, r) for r in came)]
    maker.commit("OVERWRITE", "RESTORE", (second,), (3,), told=tuple(told))
    for version in range(1, 6):
        maker.ask(starting_version=version, ending_version=version)
    net = [*(maker.marked(r, DELETE, 2) for r in went), *(maker.marked(r, INSERT, 2) for r in came)]
    maker.ask(net, "net", after_version=1, ending_version=2)
    maker.ask([maker.marked(r, "", 2) for r in came], "append", after_version=1, ending_version=2)
    return maker.finish(
        "NULL and NaN equal themselves, 0.0 is not -0.0, at every depth; equal rows cancel one by "
        "one, in `net` and in a RESTORE, not in an OVERWRITE (INC-6)."
    )


def given_up() -> Maker:
    """Make ranges of expired versions (INC-7), with a checkpoint."""
    maker = Watched("feed-expired", [field(1, "x", "long"), field(2, "p", "string")], (2,))

    def write(x: int) -> None:
        row = {"x": x, "p": "a"}
        maker.commit("INSERT", "WRITE", (maker.file([row]),), told=((INSERT, row),))

    for x in (1, 2, 3):
        write(x)
    let_go(maker, 2)
    checkpoint(maker)
    write(4)
    told = ((DELETE, {"x": 1, "p": "a"}),)
    maker.commit("UPDATE", "DELETE", remove=(1,), told=told)
    for after in (2, 3, 4, 6):
        for content in ("changes", "net", "append"):
            maker.ask(content=content, after_version=after)
    expired: list[Json] = [{"after_version": 1}, {"starting_version": 2}, {"starting_version": 0}]
    for bounds in expired:
        maker.refuse("ChangesExpiredError", **bounds)
    maker.refuse("ChangesExpiredError", starting_time=START)
    maker.refuse("ChangesExpiredError", starting_version=0, ending_version=1)
    return maker.finish(
        "Versions 0 and 1 expired: the changes of version 3 are the first available ones (INC-7, "
        "ENT-13).",
        oldest=2,
    )
