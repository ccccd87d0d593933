"""The golden cases: the tables that `golden.tables` generates, and the expected results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from golden.bad import bad_entries, bad_files, bad_paths, bad_states
from golden.checkpoints import checkpoints
from golden.cursors import pipes
from golden.evolution import evolution
from golden.expired import expired
from golden.feeds import feeds
from golden.files import damaged, encodings, file_shapes, footers
from golden.footers import contradictions
from golden.generated import generated
from golden.hidden import hidden
from golden.history import blocks
from golden.identity import identity
from golden.imported import imports
from golden.maker import (
    CORRUPT,
    HOUR,
    LAST_MICRO,
    LONG,
    START,
    Json,
    Maker,
    canonical,
    field,
    hex_of,
    list_of,
    map_of,
    schema_of,
    seal,
    three,
)
from golden.meanings import meanings
from golden.newer import dropped, horizons, newer_writers
from golden.rows import row_cases
from golden.rules import single_rules
from golden.schemas import bad_schemas, commented, evolved, kept_ids, repartitioned, restored
from golden.tagged import tagged


def cases() -> Iterator[Maker]:
    """Yield every finished case."""
    yield from plain_tables()
    yield from partitioned_tables()
    yield from all_types()
    yield from variants()
    yield from checked()
    yield evolved()
    yield commented()
    yield from tolerated()
    yield from last_times()
    yield from torn_entries()
    yield from misplaced_entries()
    yield from newer_writers()
    yield from horizons()
    yield from expired()
    yield from dropped()
    yield from checkpoints()
    yield from pipes()
    yield from bad_paths()
    yield from bad_states()
    yield from bad_entries()
    yield from bad_files()
    yield from bad_schemas()
    yield from kept_ids()
    yield from repartitioned()
    yield from restored()
    yield from file_shapes()
    yield from row_cases()
    yield from meanings()
    yield from feeds()
    yield from single_rules()
    yield from encodings()
    yield from footers()
    yield from damaged()
    yield from contradictions()
    yield from blocks()
    yield from imports()
    yield from tagged()
    yield from generated()
    yield from identity()
    yield from hidden()
    yield from evolution()


def plain_tables() -> Iterator[Maker]:
    """Yield tables without partitions."""
    rows: list[Json]
    yield Maker("empty", LONG).good("Created and never written: a schema, but no file and no row.")
    yield three("appends").good("Two appends; the table has the rows of both.")

    maker = Maker("zero-rows", LONG)
    maker.append(*[], time=START + 1)
    yield maker.good("A file may have no rows (ADD-1).")

    maker = three("overwrite")
    maker.commit("OVERWRITE", "OVERWRITE", (maker.file([{"x": 9}]),), (1, 2))
    yield maker.good("The whole table is replaced in one entry, which removes before it adds.")

    maker = three("truncate")
    maker.commit("OVERWRITE", "TRUNCATE", (), (1, 2))
    maker.append({"x": 5})
    yield maker.good("Emptied, then written again; ids continue (ADD-2).")

    maker = three("compacted")
    rows = [{"x": n} for n in (1, 2, 3, 4)]
    maker.commit("MINOR_COMPACT", "OPTIMIZE", (maker.file(rows),), (1, 2))
    maker.append({"x": 5})
    hours = [START + n * HOUR for n in range(5)]
    shown = [(hours[2], 2), (hours[3], 3), (hours[3] - 1, 3), (hours[4] - 1, 3), (hours[4], 4)]
    # Version 3 carries the time of version 2, so from there on it is the largest (TIM-4).
    shown[0] = (hours[2], 3)
    yield maker.good("A compaction has the time version of the commit before (TIM-2).", times=shown)

    maker = Maker("times", LONG)
    for version, time in enumerate((START + 1, START + 2, START + HOUR), 1):
        maker.append({"x": version}, time=time)
    far = (START + 400 * 24 * HOUR, 3)
    shown = [(START, 0), (START + 1, 1), (START + 2, 2), (START + HOUR - 1, 2), (START + HOUR, 3)]
    yield maker.good("Times one µs apart, and a gap.", times=[*shown, far])

    maker = Maker("applications", LONG)
    for version in (1, 2, 2):
        application = {"id": "étl/1", "version": version, "digest": None}
        maker.append({"x": version}, application=application)
    maker.append({"x": 3}, application={"id": "other", "version": -1, "digest": "ab"})
    yield maker.good("Application versions rise or stay (RPL-5); ids are any text.")

    maker = Maker("user-metadata", LONG)
    deep: Any = None
    for _ in range(100):
        deep = [deep]
    note = {"": None, "é": [1.5, True, {"b": "\u0000\u2028"}], "deep": deep, "max": 2**63 - 1}
    maker.append({"x": 1}, user_metadata=note)
    yield maker.good("User metadata is any JSON within the limits (ENT-2).")

    maker = three("metadata")
    renamed = [field(1, "y", "long", physical="x"), field(2, "x", "string", physical="x_1")]
    maker.commit("METADATA", "RENAME", metadata=schema_of(renamed, owner="me"))
    maker.append({"x": 5, "x_1": "five"})
    yield maker.good("A column is renamed, and a new one gets its old name: ids decide (SCH-3).")

    maker = Maker("wide-bounds", [field(1, "s", "string"), field(2, "d", "double")])
    rows = [{"s": "z" * 40, "d": 1.0}, {"s": "\U0010ffff" * 40, "d": float("nan")}]
    lower: Json = {"lower": {1: "z" * 32, 2: 1.0}, "upper": {1: None, 2: 1.0}}
    maker.commit(
        "INSERT", "WRITE", (maker.file(rows, "", nulls={1: 0, 2: None}, nans={2: 1}, **lower),)
    )
    rows = [{"s": None, "d": None}, {"s": "a\ud7ff" + "b" * 40, "d": float("-inf")}]
    cut: Json = {"lower": {1: "a\ud7ff" + "b" * 30}, "upper": {1: "a\ud7ff" + "b" * 29 + "c"}}
    maker.commit("INSERT", "WRITE", (maker.file(rows, nulls={1: 1}, **cut),))
    yield maker.good("Bounds cut to 32 code points, unknown, and without NaN (VAL-3, VAL-4).")


def partitioned_tables() -> Iterator[Maker]:
    """Yield tables with partitions."""
    kinds = {"s": "string", "d": "date", "n": "decimal(10,2)"}
    fields = [field(i, name, kind) for i, (name, kind) in enumerate(kinds.items(), 1)]
    maker = Maker("partitions", [*fields, field(4, "x", "long")], (1, 2, 3))
    texts = [None, "", "/", "..", "a=b", "%2F", " ", "ß", "日本", "\u0000\n", "NULL", "\U0001f600"]
    folder = f"data/{hex_of('partitions', 1)}"
    names = ["s=__HIVE_DEFAULT_PARTITION__", "s=", "s=%2F", "…", "a=b=c", "%252F", " x", "ß", "日"]
    files = []
    for i, text in enumerate(texts):
        day, number = (date(1, 1, 1 + i), Decimal(i) / 100) if i % 3 else (None, None)
        row = {"s": text, "d": day, "n": number and number.quantize(Decimal("0.01")), "x": i}
        path = f"{folder}/{names[i % len(names)]}/{i}.parquet"
        files.append(maker.file([row, row | {"x": -i}], path))
    maker.commit("INSERT", "WRITE", tuple(files))
    why = "NULL is not the empty text; folders have no meaning; nothing is percent-decoded (KEY-3)."
    yield maker.good(why)

    maker = Maker("empty-partitioned", [*fields, field(4, "x", "long")], (1, 2, 3))
    yield maker.good("Partitioned, and never written.")

    kinds = {"b": "boolean", "l": "long", "f": "double", "y": "binary"}
    kinds |= {"t": "timestamp", "w": "timestamp_ntz", "m": "decimal(38,0)"}
    fields = [field(i, name, kind) for i, (name, kind) in enumerate(kinds.items(), 1)]
    maker = Maker("partition-types", [*fields, field(8, "x", "long")], tuple(range(1, 8)))
    instant = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)
    wall, most = datetime(9999, 12, 31, 23, 59, 59, 999999), Decimal("9" * 38)
    least = Decimal("-" + "9" * 38)
    rows = [
        dict(zip(kinds, (True, 2**63 - 1, float("nan"), b"", instant, wall, most), strict=True)),
        dict(
            zip(
                kinds, (False, -(2**63), float("inf"), b"\xff\0", instant, wall, least), strict=True
            )
        ),
        dict.fromkeys(kinds),
        dict(zip(kinds, (False, 0, 0.0, b"/", instant, wall, Decimal(0)), strict=True)),
    ]
    maker.commit("INSERT", "WRITE", tuple(maker.file([row | {"x": 1}]) for row in rows))
    yield maker.good("A partition value of every kind of type, at its ends (VAL-1, VAL-2).")

    for name, scope in (
        ("overwrite-dynamic", {"partitions": [["a"]]}),
        ("overwrite-static", {"predicate": "p = 'a'"}),
        ("overwrite-opaque", {"predicate": "(no condition ${env:HOME} at all"}),
    ):
        maker = Maker(name, [field(1, "p", "string"), field(2, "x", "long")], (1,))
        rows = [{"p": p, "x": x} for x, p in enumerate(("a", "b"))]
        maker.commit("INSERT", "WRITE", tuple(maker.file([row]) for row in rows))
        new = maker.file([{"p": "a", "x": 7}])
        maker.commit("OVERWRITE", "OVERWRITE", (new,), (1,), scope=scope)
        yield maker.good(
            "One partition is replaced, and the other is kept; `basis.scope` names it (ENT-5)."
        )

    maker = Maker("side-file", [field(1, "p", "date"), field(2, "x", "long")], (1,))
    days = [date(2024, 1, 1), None, date(2024, 1, 3)]
    files = [maker.file([{"p": day, "x": i}]) for i, day in enumerate(days)]
    maker.commit("INSERT", "WRITE", tuple(files), side=True)
    maker.commit("OVERWRITE", "TRUNCATE", (), (2,), scope={"partitions": [[None]]})
    yield maker.good("The `add` columns are in an overflow metadata file (ADD-6); ids continue.")


def all_types() -> Iterator[Maker]:
    """Yield a table with every column type."""
    flat = ["boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"]
    flat += ["date", "timestamp", "timestamp_ntz", "decimal(1,0)", "decimal(38,38)"]
    fields = [field(i, f"c{i}", kind) for i, kind in enumerate(flat, 1)]
    inner = [field(21, "a", "long"), field(22, "b", list_of("date", 27))]
    fields.append(field(20, "st", {"struct": inner}))
    fields.append(field(23, "ar", list_of({"struct": [field(24, "e", "string")]}, 28, False)))
    fields.append(field(25, "ma", map_of("string", "decimal(9,3)", 29, 30)))
    fields.append(field(26, "Ünï cödé/%", "string", nullable=False))
    maker = Maker("all-types", fields)
    instant = datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=timezone.utc)
    values = [True, -128, -32768, 2**31 - 1, -(2**63), 0.5, float("-inf"), "\u0000é", b"\0\xff"]
    values += [date(1582, 10, 14), instant, instant.replace(tzinfo=None)]
    values += [Decimal(9), Decimal("-0.99999999999999999999999999999999999999")]
    row: Json = {f"c{i}": value for i, value in enumerate(values, 1)}
    row |= {"st": {"a": 1, "b": [None, date(9999, 12, 31)]}, "ar": [{"e": None}, {"e": ""}]}
    row |= {"ma": [("k", None), ("", Decimal("1.500"))], "Ünï cödé/%": "x"}
    empty: Json = dict.fromkeys(row) | {"ar": [], "ma": [], "Ünï cödé/%": ""}
    empty["st"] = {"a": None, "b": None}
    maker.append(row, empty)
    maker.append(dict.fromkeys(row) | {"Ünï cödé/%": "all null"})
    yield maker.good("Every type, also nested, with NULLs and extreme values (SCH-1).")


def variants() -> Iterator[Maker]:
    """Yield a table with variant columns."""
    fields = [field(1, "x", "long"), field(2, "v", "variant")]
    inner = field(4, "w", "variant")
    fields.append(field(3, "a", list_of({"struct": [inner]}, 5)))
    maker = Maker("variants", fields)
    no_names = b"\x01\x00\x00"
    one, null = ({"value": value, "metadata": no_names} for value in (b"\x0c\x01", b"\x00"))
    # {"k": "y"}: an object of one field, whose name is the first of the metadata.
    object_ = {"value": b"\x02\x01\x00\x00\x02\x05y", "metadata": b"\x01\x01\x00\x01k"}
    maker.append({"x": 1, "v": one, "a": [{"w": object_}, None]}, {"x": 2, "v": null, "a": []})
    maker.append({"x": 3, "v": object_, "a": None}, {"x": 4, "v": None, "a": [{"w": None}]})
    yield maker.good("A variant that is null is not NULL; no bounds (SCH-6, DAT-10).")


def checked() -> Iterator[Maker]:
    """Yield a table with constraints."""
    maker = three("constraints")
    check = {"columns": [1], "condition": "x > 0 -- `x`, that is"}
    held = {**schema_of(LONG), "constraints": {"it's": check}}
    maker.commit("METADATA", "ADD CONSTRAINT", metadata=held)
    maker.append({"x": 5}, {"x": None})
    yield maker.good("A CHECK that every row satisfies; NULL passes (ENT-10, DAT-13).")


def tolerated() -> Iterator[Maker]:
    """Yield tables with extra objects or fields that must change nothing."""

    def add_unknown(document: Json) -> None:
        document["x_zebra"] = {"any": [1, None]}
        document["basis"]["x_why"] = "so"
        document["add"]["x_colour"] = ["red"]

    maker = Maker("unknown-fields", LONG)
    maker.append({"x": 1}, change=add_unknown)
    maker.append({"x": 2})
    yield maker.good("Fields `x_…` of a later writer are ignored (VER-2).")

    def report_refusals(document: Json) -> None:
        group = {"operation": "UPDATE", "winner": "WRITE", "rule": "CFL-11", "cell": None}
        document["x_refused"] = [
            {**group, "error": "concurrent_append", "times": 2, "last_winner": 1},
            {**group, "times": "many"},
            7,
        ]

    maker = Maker("refused-commits", LONG)
    maker.append({"x": 1})
    maker.append({"x": 2}, change=report_refusals)
    maker.append({"x": 3}, change=lambda document: document.update(x_refused={"of": "later"}))
    yield maker.good("Reports of refused commits, also of other shapes, are no damage (ENT-17).")

    def spoil_bounds(document: Json) -> None:
        document["add"] |= {"lower": {"1": [9]}, "upper": {"1": [-9]}, "nulls": {"1": [5]}}

    maker = three("implausible-bounds")
    maker.append({"x": 1}, change=spoil_bounds)
    why = "Swapped bounds, and more NULLs than rows, say nothing about the file (PRN-6)."
    yield maker.good(why, remarks=[(3, "ADD-1")])

    maker = three("junk")
    names = ["_log/7.json", "_log/007.json", "_log/99999999999999999999.json", "_log/.tmp-1"]
    names += [f"_log/{3:020d}.json.tmp", f"_log/{3:020d}", "_log/.probe-1", "_log/notes/x.json"]
    names += ["data/stray.parquet", "_log/side/stray.parquet", "README"]
    names += [f"_delta_log/{0:020d}.json", "metadata/v1.metadata.json", "deletion_vector_1.bin"]
    names += ["_log/history/0-15.parquet"]
    maker.objects |= dict.fromkeys(names, b"no part of the table")
    yield maker.good("Objects with other names are not part of the table (KEY-1, KEY-4).")

    hints = {
        "stale": canonical({"table": hex_of("table", "hint-stale"), "version": 0}),
        "ahead": canonical({"table": hex_of("table", "hint-ahead"), "version": 40}),
        "foreign": canonical({"table": "0" * 32, "version": 2}),
        "garbage": b'{"table": ',
        "types": b'{"table":1,"version":"2"}',
    }
    for name, raw in hints.items():
        maker = three(f"hint-{name}")
        maker.objects["_log/hint.json"] = raw
        yield maker.good("A bad hint changes nothing but the number of requests (LOG-6).")


def last_times() -> Iterator[Maker]:
    """Yield cases of entries at the end of the year 9999, when no later time exists (TIM-1)."""
    maker = Maker("last-microsecond", LONG)
    maker.append({"x": 1})
    for x in (2, 3):
        maker.append({"x": x}, time=LAST_MICRO)
    yield maker.good("The last µs of year 9999 twice: no later time exists (TIM-1).")

    maker = Maker("time-stands", LONG)
    maker.append({"x": 1})

    for x in (2, 3):
        maker.append({"x": x}, time=LAST_MICRO - 1)
    why = "The time before the last microsecond twice: a later time exists."
    yield maker.broken(why, CORRUPT, (3, "TIM-1"))


def torn_entries() -> Iterator[Maker]:
    """Yield cases of entries with damaged bytes (ENT-1, ENT-2)."""
    key = f"_log/{2:020d}.json"
    spoil: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
        "truncated": ("The entry ends in its middle.", lambda raw: raw[: len(raw) // 2]),
        "cut-by-one": ("The last byte is missing.", lambda raw: raw[:-1]),
        "no-bytes": ("The entry is empty.", lambda raw: b""),
        "empty-object": ("An empty object has no checksum.", lambda raw: b"{}"),
        "line-end": ("An entry ends without a line end.", lambda raw: raw + b"\n"),
        "flipped-bit": (
            "One bit differs.",
            lambda raw: raw[:99] + bytes([raw[99] ^ 1]) + raw[100:],
        ),
        "not-json": ("A right checksum over text that is not JSON.", lambda raw: seal(b'{"add":}')),
        "not-utf8": ("Bytes that are not UTF-8.", lambda raw: seal(b'{"a":"\xff"}')),
        "twice": ("A key is repeated.", lambda raw: seal(b'{"format":1,' + raw[1:-79] + b"}")),
    }
    for name, (why, change) in spoil.items():
        maker = three(f"entry-{name}")
        maker.objects[key] = change(maker.objects[key])
        yield maker.broken(why, CORRUPT, (2, "ENT-1"))

    maker = three("entry-flipped-middle")
    maker.objects[maker.key(1)] = maker.objects[maker.key(1)].replace(b"WRITE", b"WRITF", 1)
    why = "An edit in the middle of the log: the checksum differs, and the chain is broken too."
    yield maker.broken(why, CORRUPT, (1, "ENT-1"), (2, "LOG-1"))

    deep: Any = None
    for _ in range(130):
        deep = [deep]
    for name, note in (("deep", {"a": deep}), ("wide-integer", {"a": 2**63})):
        maker = three(f"entry-{name}")
        maker.append({"x": 5}, user_metadata=note)
        yield maker.broken("Exceeds the limits of an entry.", CORRUPT, (3, "ENT-2"))


def misplaced_entries() -> Iterator[Maker]:
    """Yield cases of sound entries in the wrong place (ENT-3, LOG-1 to LOG-3, LOG-7)."""
    maker = three("renamed-entry")
    maker.objects[maker.key(2)] = maker.objects[maker.key(1)]
    yield maker.broken("Version 1 under the name of version 2.", CORRUPT, (2, "ENT-3"))

    maker = three("missing-middle")
    del maker.objects[maker.key(1)]
    yield maker.broken("Version 1 is missing, and version 2 exists.", "LogGapError", (1, "LOG-2"))

    maker = three("missing-first")
    del maker.objects[maker.key(0)]
    yield maker.broken("Version 0 is missing (LOG-7).", "LogGapError", (0, "LOG-2"))

    maker = three("missing-far")
    for version in range(3, 15):
        maker.append({"x": version})
    for version in range(9, 12):
        del maker.objects[maker.key(version)]
    why = "A gap beyond the first round of requests (LOG-5)."
    yield maker.broken(why, "LogGapError", (9, "LOG-2"))

    maker = three("foreign-entry")
    maker.append({"x": 5}, change=lambda entry: entry.update(table="0" * 32))
    yield maker.broken("An entry of another table.", CORRUPT, (3, "LOG-3"))

    maker = three("chain-broken")
    maker.append({"x": 5}, change=lambda entry: entry.update(previous="0" * 64))
    yield maker.broken("`previous` is the digest of other bytes.", CORRUPT, (3, "LOG-1"))
