"""Golden cases of deleted rows and lineage, and of errors in them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from golden.maker import CORRUPT, LONG, Json, Maker, field, hex_of
from golden.positions import delete_columns, text_of


def row_cases() -> Iterator[Maker]:
    """Yield every finished case."""
    yield from deletes()
    yield from rewrites()
    yield from bad_deletes()
    yield from bad_positions()
    yield from bad_sides()
    yield from bad_lineage()


def two_files(name: str) -> Maker:
    """Make a table with two appends: x from 0 to 3 in file 1, from 4 to 7 in file 2."""
    maker = Maker(name, LONG)
    for start in (0, 4):
        maker.append(*({"x": x} for x in range(start, start + 4)))
    return maker


def deletes() -> Iterator[Maker]:
    """Yield tables with deleted rows."""
    maker = two_files("deletes")
    delete: dict[int, Any] = {1: ([0], []), 2: ([1], [])}
    maker.commit("UPDATE", "DELETE", delete=delete)
    new = maker.file([{"x": 60}, {"x": 70}])

    def explain(entry: Json) -> None:
        entry["add"]["updated"] = [True]
        entry["basis"]["predicate"] = "x IN (6, 7) OR x = 1"
        entry["update"] = {"keys": [], "set": [1]}

    marks: dict[int, Any] = {1: ([1], []), 2: ([], [2, 3])}
    maker.commit("UPDATE", "MERGE", (new,), delete=marks, change=explain)
    yield maker.good("Rows deleted and updated by two entries; a version has their union (DEL-1).")

    maker = Maker("deletes-containers", LONG)
    count = 200_000
    maker.append(*({"x": x // 1000} for x in range(count)))
    kept = {0, 65_535, 65_536, 150_000, count - 1}
    gone = [p for p in range(count) if p not in kept]
    sparse = [p for p in gone if p >= 131_072 and p % 40 == 0]
    dense = [p for p in gone if p < 131_072 and p % 2]
    rest = sorted({*gone} - {*sparse, *dense})
    for part in (sparse, dense):
        maker.commit("UPDATE", "DELETE", delete={1: (part, [])})
    texts = [text_of(rest, runs=True)]
    maker.commit(
        "UPDATE",
        "DELETE",
        delete={1: (rest, [])},
        change=lambda entry: entry["delete"].update(deleted=texts),
    )
    yield maker.good("Containers with lists of positions, bit sets, and runs (DEL-2).")

    maker = two_files("deletes-side")
    marks = {1: ([3], []), 2: ([0], [1])}
    maker.commit("UPDATE", "DELETE", delete=marks, delete_side=True)
    yield maker.good("The `delete` columns are in an overflow metadata file (DEL-3).")

    maker = two_files("deletes-all-rows")
    maker.commit("UPDATE", "DELETE", delete={1: (range(4), [])})
    yield maker.good("A file may stay live when all of its rows are deleted.")

    maker = Maker("keys", [field(1, "k", "string"), field(2, "x", "long")])
    maker.append({"k": "a", "x": 1})
    hashes = base64.b64encode(bytes.fromhex("0807060504030201ffffffffffffffff")).decode()

    def with_keys(entry: Json) -> None:
        entry["add"]["keys"] = [hashes, None]
        entry["update"] = {"keys": [2, 1], "set": None}

    files = tuple(maker.file([{"k": k, "x": 2}]) for k in ("b", "c"))
    maker.commit("UPDATE", "MERGE", files, change=with_keys)
    yield maker.good("Hashes of the keys that a MERGE inserted (ADD-8, ENT-9).")


def lineage_of(*runs: tuple[int, int, int, int, list[int]]) -> Json:
    """Return `lineage` (LIN-1): output, input, start, rows and dropped positions of each run."""
    outputs, inputs, starts, rows, dropped = zip(*runs, strict=True)
    texts = [text_of(positions) if positions else None for positions in dropped]
    named = {"output": outputs, "input": inputs, "start": starts, "rows": rows}
    return {"dropped": texts} | {name: list(values) for name, values in named.items()}


def rewrites() -> Iterator[Maker]:
    """Yield tables whose rows move to other files."""
    maker = two_files("lineage")
    maker.commit("UPDATE", "DELETE", delete={1: ([1], []), 2: ([3], [])})
    files = (maker.file([{"x": 4}, {"x": 5}, {"x": 6}, {"x": 0}]), maker.file([{"x": 2}, {"x": 3}]))
    lineage = lineage_of((0, 2, 0, 4, [3]), (0, 1, 0, 2, [1]), (1, 1, 2, 2, []))
    maker.commit("MINOR_COMPACT", "OPTIMIZE", files, (1, 2), lineage=lineage)
    why = "A compaction splits a file and omits its deleted rows (LIN-1, LIN-2, RPL-6)."
    yield maker.good(why)

    maker = two_files("lineage-over-delete")
    maker.commit("UPDATE", "DELETE", delete={1: ([2], [])})
    file = maker.file([{"x": x} for x in range(8)])
    lineage = lineage_of((0, 1, 0, 4, []), (0, 2, 0, 4, []))
    moved: dict[int, Any] = {3: ([2], [])}
    maker.commit("MAJOR_COMPACT", "OPTIMIZE", (file,), (1, 2), delete=moved, lineage=lineage)
    why = "A compaction that was rebased onto a delete deletes the row from its own file (DEL-1)."
    yield maker.good(why)

    maker = two_files("lineage-over-removal")
    maker.commit("UPDATE", "DELETE", (), (2,), delete={1: ([1], [])})
    file = maker.file([{"x": x} for x in range(8)])
    lineage = lineage_of((0, 1, 0, 4, []), (0, 2, 0, 4, []))
    moved = {3: ([1, 4, 5, 6, 7], [])}
    maker.commit("MINOR_COMPACT", "OPTIMIZE", (file,), (1,), delete=moved, lineage=lineage)
    why = "A compaction rebased onto the removal of an input deletes all of its rows (CFL-14)."
    yield maker.good(why)

    maker = two_files("lineage-after-compaction")
    file = maker.file([{"x": x} for x in range(8)])
    lineage = lineage_of((0, 1, 0, 4, []), (0, 2, 0, 4, []))
    maker.commit("MINOR_COMPACT", "OPTIMIZE", (file,), (1, 2), lineage=lineage)
    kept = maker.file([{"x": 0}, {"x": 2}, {"x": 3}])
    taken: dict[int, Any] = {3: ([0, 1, 2, 3], [])}
    maker.commit("UPDATE", "DELETE", (kept,), delete=taken, lineage=lineage_of((0, 3, 0, 4, [1])))
    why = "A rewrite rebased onto a compaction of its file deletes the range of its rows (CFL-13)."
    yield maker.good(why)

    maker = two_files("copy-on-write")
    maker.commit("UPDATE", "DELETE", delete={2: ([0], [])})
    kept, new = maker.file([{"x": 0}, {"x": 3}]), maker.file([{"x": 10}])
    lineage = lineage_of((0, 1, 0, 1, []), (0, 1, 3, 1, []))
    marks: dict[int, Any] = {1: ([2], [1]), 2: ([3], [])}

    def explain(entry: Json) -> None:
        entry["add"]["updated"] = [False, True]
        entry["update"] = {"keys": [], "set": [1]}

    maker.commit(
        "UPDATE", "MERGE", (kept, new), (1, 2), delete=marks, lineage=lineage, change=explain
    )
    yield maker.good(
        "Deletion vectors of files that the same entry removes are for incremental reads (DEL-1)."
    )


def bad_deletes() -> Iterator[Maker]:
    """Yield invalid columns of `delete`."""
    one = delete_columns({1: ([0], [])})
    spoil: dict[str, tuple[str, Callable[[Json], object]]] = {
        "order": ("DEL-1", lambda e: e["delete"].update(file=[2, 1])),
        "twice-named": ("DEL-1", lambda e: e["delete"].update(file=[1, 1])),
        "uneven": ("DEL-1", lambda e: e["delete"].update(rows=[1])),
        "empty": ("DEL-1", lambda e: e["delete"].update(file=[], rows=[], deleted=[], updated=[])),
        "no-set": ("DEL-1", lambda e: e["delete"].update(deleted=[None, None])),
        "zero-rows": ("DEL-1", lambda e: e["delete"].update(rows=[0, 1])),
        "more-rows": ("DEL-1", lambda e: e["delete"].update(rows=[5, 1])),
        "other-rows": ("DEL-1", lambda e: (e["delete"].update(rows=[1, 2]), _add(e, 1))),
        "never-added": ("DEL-1", lambda e: e["delete"].update(file=[1, 7])),
        "number": ("DEL-1", lambda e: e["delete"].update(updated=[None, 1])),
        "null": ("DEL-1", lambda e: e.update(delete=None)),
        "sum": ("RPL-3", lambda e: e["totals"].update(deleted=3)),
        "no-sum": ("RPL-3", lambda e: e["totals"].pop("deleted")),
        "sum-zero": ("ENT-6", lambda e: e["totals"].update(deleted=0)),
        "predicate": ("ENT-5", lambda e: e["basis"].update(predicate=1)),
        "overlap": (
            "DEL-1",
            lambda e: (
                e["delete"].update(rows=[2, 1], updated=one["deleted"] + [None]),
                _add(e, 1),
            ),
        ),
        "beyond": (
            "DEL-1",
            lambda e: e["delete"].update(deleted=[text_of([4]), text_of([0])]),
        ),
    }
    for name, (rule, change) in spoil.items():
        maker = two_files(f"delete-{name}")
        marks: dict[int, Any] = {1: ([0], []), 2: ([0], [])}
        maker.commit("UPDATE", "DELETE", delete=marks, change=change)
        also = "RPL-3" if name == "more-rows" else "ENT-3"
        yield maker.broken(f"An entry that breaks {rule}.", CORRUPT, (3, rule), also=also)

    maker = two_files("delete-again")
    maker.commit("UPDATE", "DELETE", delete={1: ([0, 2], [])})
    maker.commit("UPDATE", "DELETE", delete={1: ([3], [])})
    maker.commit("UPDATE", "DELETE", delete={1: ([2], [])}, change=lambda e: _add(e, 1))
    yield maker.broken("A row is deleted twice.", CORRUPT, (5, "DEL-4"))

    maker = two_files("delete-of-removed")
    maker.commit("OVERWRITE", "TRUNCATE", (), (1,))
    maker.commit("UPDATE", "DELETE", delete={1: ([2], [])})
    yield maker.broken("A row is deleted from a file that is not live.", CORRUPT, (4, "DEL-1"))

    for name, update in (
        ("order", {"keys": [], "set": [2, 1]}),
        ("twice", {"keys": [1, 1], "set": None}),
        ("text", {"keys": ["1"], "set": None}),
        ("lacks", {"keys": []}),
    ):
        maker = two_files(f"update-{name}")
        maker.append({"x": 1}, update=update)
        yield maker.broken("An invalid `update`.", CORRUPT, (3, "ENT-9"), also="ENT-3")


def _add(entry: Json, rows: int) -> Json:
    entry["totals"]["deleted"] = entry["totals"].get("deleted", 0) + rows
    return entry


def bad_positions() -> Iterator[Maker]:
    """Yield invalid sets of positions (DEL-2)."""
    sound = base64.b64decode(text_of([0, 2]))
    runs = base64.b64decode(text_of([0, 2], runs=True))
    texts = {
        "cut": sound[:-1],
        "longer": sound + b"\0",
        "empty": bytes(8),
        "no-bytes": b"",
        "cookie": sound[:12] + b"\x39" + sound[13:],
        "falls": sound[:-4] + b"\2\0\0\0",
        "equal": sound[:-4] + b"\0\0\0\0",
        "count": sound[:22] + b"\2" + sound[23:],
        "offset": sound[:24] + b"\x11" + sound[25:],
        "buckets": b"\2" + sound[1:],
        "high": sound[:11] + b"\x80" + sound[12:],
        "run-overlap": runs[:-4] + b"\0\0\1\0",
        "run-count": runs[:19] + b"\7" + runs[20:],
    }
    changed: dict[str, str] = {k: base64.b64encode(raw).decode() for k, raw in texts.items()}
    changed |= {"base64": text_of([0, 2])[:-1] + "!", "unpadded": text_of([0, 1, 2]).rstrip("=")}
    for name, text in changed.items():
        maker = two_files(f"positions-{name}")

        def spoil(entry: Json, text: str = text) -> None:
            entry["delete"]["deleted"] = [text]

        maker.commit("UPDATE", "DELETE", delete={1: ([0, 2], [])}, change=spoil)
        yield maker.broken("Bytes that are not a valid set of positions.", CORRUPT, (3, "DEL-2"))


def bad_sides() -> Iterator[Maker]:
    """Yield overflow metadata files of `delete` that contradict the entry (DEL-3)."""
    for name in ("flipped", "missing", "counted"):
        maker = two_files(f"delete-side-{name}")

        def spoil(entry: Json, name: str = name) -> None:
            if name == "counted":
                entry["delete"]["side"]["files"] = 2

        marks: dict[int, Any] = {1: ([0], [])}
        maker.commit("UPDATE", "DELETE", delete=marks, delete_side=True, change=spoil)
        path = f"deletes/{hex_of(maker.name, 3)}.parquet"
        raw = maker.objects.pop(path)
        if name == "flipped":
            maker.objects[path] = raw[:40] + bytes([raw[40] ^ 1]) + raw[41:]
        elif name == "counted":
            maker.objects[path] = raw
        yield maker.broken("A damaged overflow metadata file.", "CorruptTableError", (3, "DEL-3"))

    maker = two_files("delete-side-elsewhere")
    maker.commit(
        "UPDATE",
        "DELETE",
        delete={1: ([0], [])},
        delete_side=True,
        change=lambda e: e["delete"]["side"].update(path=f"data/{hex_of(maker.name, 3)}.parquet"),
    )
    yield maker.broken(
        "An overflow metadata file in another folder.", CORRUPT, (3, "DEL-1"), also="DEL-3"
    )


def bad_lineage() -> Iterator[Maker]:
    """Yield lineage of files that are not added or removed, and lost rows."""
    spoil: dict[str, Callable[[Json], object]] = {
        "output": lambda e: e["lineage"].update(output=[0, 1]),
        "input": lambda e: e["lineage"].update(input=[1, 3]),
        "falls": lambda e: e["lineage"].update(output=[1, 0]),
        "uneven": lambda e: e["lineage"].update(start=[0]),
        "no-rows": lambda e: e["lineage"].update(rows=[4, 0]),
        "below": lambda e: e["lineage"].update(start=[-1, 0]),
        "dropped": lambda e: e["lineage"].update(dropped=[None, 1]),
        "empty": lambda e: e.update(lineage={name: [] for name in e["lineage"]}),
    }
    for name, change in spoil.items():
        maker = two_files(f"lineage-{name}")
        file = maker.file([{"x": x} for x in range(8)])
        lineage = lineage_of((0, 1, 0, 4, []), (0, 2, 0, 4, []))
        maker.commit("MINOR_COMPACT", "OPTIMIZE", (file,), (1, 2), lineage=lineage, change=change)
        yield maker.broken("An entry that breaks LIN-1.", CORRUPT, (3, "LIN-1"), also="ENT-3")

    maker = two_files("rows-lost")
    maker.commit("CLUSTER", "OPTIMIZE", (maker.file([{"x": x} for x in range(7)]),), (1, 2))
    yield maker.broken("A compaction that loses a row.", CORRUPT, (3, "RPL-6"))
