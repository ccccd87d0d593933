"""Tables that a translation to another format can stumble over, and a comparison of rows."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os

import pyarrow as pa

import tablefmt

UTC = dt.timezone.utc
ODD = [
    "EU",
    "",
    None,
    "a b/c=d%2Fe",
    "ü😀'\"\\",
    "x\ny\t{},;",
    "NULL",
    "__HIVE_DEFAULT_PARTITION__",
    " lead",
    "a+b&c?d#e",
]


def types(folder: str) -> tablefmt.Table:
    """Every flat type; partitioned by odd text and a date; every kind of write."""
    t = tablefmt.create(
        folder,
        "id BIGINT, region STRING, day DATE, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, "
        "f FLOAT, d DOUBLE, "
        "m DECIMAL(12,3), s STRING, x BINARY, ts TIMESTAMP, tn TIMESTAMP_NTZ",
        partition_by=["region", "day"],
    )
    shape = t.schema
    shape = shape if isinstance(shape, pa.Schema) else t.to_arrow().schema

    def rows(first: int, count: int) -> pa.Table:
        made = []
        for i in range(first, first + count):
            null = i % 11 == 5
            made.append(
                {
                    "id": i,
                    "region": ODD[i % len(ODD)],
                    "day": None if i % 3 == 0 else dt.date(1969, 12, 31) + dt.timedelta(days=i % 2),
                    "b": None if null else i % 2 == 0,
                    "i8": None if null else i % 100 - 50,
                    "i16": i % 3000,
                    "i32": -i,
                    "f": float("nan") if i % 13 == 0 else i / 4,
                    "d": [float("inf"), -0.0, float("nan"), i * 1.1][i % 4]
                    if i % 5 == 0
                    else i * 0.5,
                    "m": None if null else decimal.Decimal(i * 7 - 100) / 1000,
                    "s": None if null else f"text {i} " + "é" * (i % 50),
                    "x": None if null else bytes([i % 256, 0, 255]),
                    "ts": dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
                    + dt.timedelta(microseconds=i * 123456789),
                    "tn": dt.datetime(1955, 5, 5, 5, 5, 5, i % 1000000),
                }
            )
        return pa.Table.from_pylist(made, shape)

    t.append(rows(0, 60))
    t.append(rows(60, 40))
    t.delete("id % 7 = 3")
    t.update({"s": "'updated'", "d": "0.25"}, "id % 10 = 4")
    t.merge(
        rows(90, 20), "t.id = s.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    t.overwrite(
        rows(200, 30).filter(pa.compute.equal(rows(200, 30)["region"], "EU")), where="region = 'EU'"
    )
    t.delete("region IS NULL")
    t.delete("id % 7 = 4")
    t.delete("region = ''")
    t.compact("major")
    t.append(rows(300, 10))
    return t


def evolved(folder: str) -> tablefmt.Table:
    """Renames, drops, widening, a default that old files lack, a name used again."""
    t = tablefmt.create(
        folder,
        "id BIGINT, part INT, `a b` STRING, n INT, f FLOAT, dd DATE, "
        "dm DECIMAL(8,2), gone STRING, `odd,;{}()=` INT",
        partition_by=["part"],
    )

    def rows(names, first):
        values = {
            "id": 1,
            "part": 0,
            "a b": "s",
            "n": 3,
            "f": 1.5,
            "dd": dt.date(2024, 2, 29),
            "dm": decimal.Decimal("12.34"),
            "gone": "g",
            "odd,;{}()=": 7,
            "added": "new",
            "num": 5,
            "renamed": "r",
            "back": None,
        }
        made = []
        for i in range(first, first + 6):
            row = {k: values[k] for k in names}
            row.update(
                {
                    k: v
                    for k, v in {
                        "id": i,
                        "part": i % 3 if i % 3 else None,
                        "n": i,
                        "odd,;{}()=": i,
                    }.items()
                    if k in names
                }
            )
            made.append(row)
        return pa.Table.from_pylist(made, pa.schema([t.schema.field(n) for n in names]))

    t.append(rows(t.schema.names, 0))
    t.alter.rename_column("a b", "renamed")
    t.append(rows(t.schema.names, 10))
    t.delete("id = 3 OR id = 12")
    t.alter.add_column("num", "INT", after="id", default=42)
    t.append(rows(t.schema.names, 20))
    t.alter.drop_column("gone")
    t.alter.add_column("gone", "BIGINT")
    t.alter.widen_column("n", "BIGINT")
    t.alter.widen_column("f", "DOUBLE")
    t.alter.widen_column("dm", "DECIMAL(12,2)")
    t.append(
        pa.Table.from_pylist(
            [
                {
                    "id": 30,
                    "part": 2,
                    "n": 1 << 40,
                    "num": 1,
                    "f": 0.1,
                    "dm": decimal.Decimal("1234567890.12"),
                    "gone": 9,
                }
            ],
            pa.schema([t.schema.field(n) for n in ("id", "part", "n", "num", "f", "dm", "gone")]),
        )
    )
    t.update({"n": "n + 1", "num": "num + 1"}, "id IN (1, 11, 21)")
    return t


def wider(folder: str) -> tablefmt.Table:
    """The widenings that Iceberg does not have."""
    t = tablefmt.create(
        folder, "id BIGINT, a INT, b INT, c DATE, e DECIMAL(6,1), z BIGINT, by TINYINT"
    )
    t.append(
        pa.table(
            {
                "id": [1, 2],
                "a": pa.array([1, None], pa.int32()),
                "b": pa.array([5, 6], pa.int32()),
                "c": [dt.date(2024, 1, 1), None],
                "e": pa.array([decimal.Decimal("1.5"), None], pa.decimal128(6, 1)),
                "z": [1 << 40, 2],
                "by": pa.array([1, 2], pa.int8()),
            }
        )
    )
    for name, kind in (
        ("a", "DOUBLE"),
        ("b", "DECIMAL(12,2)"),
        ("c", "TIMESTAMP_NTZ"),
        ("e", "DECIMAL(9,3)"),
        ("z", "DECIMAL(22,1)"),
        ("by", "BIGINT"),
    ):
        t.alter.widen_column(name, kind)
    t.append(
        pa.table(
            {
                "id": [3],
                "a": [0.5],
                "b": pa.array([decimal.Decimal("7.25")], pa.decimal128(12, 2)),
                "c": [dt.datetime(2024, 1, 1, 12)],
                "e": pa.array([decimal.Decimal("1.125")], pa.decimal128(9, 3)),
                "z": pa.array([decimal.Decimal("1.5")], pa.decimal128(22, 1)),
                "by": [1 << 40],
            }
        )
    )
    return t


def nested(folder: str, evolve: bool = True) -> tablefmt.Table:
    """Structs, lists and maps, changed inside."""
    t = tablefmt.create(
        folder,
        "id BIGINT, st STRUCT<a: INT, b: STRUCT<c: STRING, d: DOUBLE>>, l ARRAY<INT>, "
        "ls ARRAY<STRUCT<k: STRING, v: INT>>, m MAP<STRING, INT>, "
        "ms MAP<STRING, STRUCT<p: INT, q: STRING>>",
    )

    def rows(first):
        shape = t.schema
        full = {
            "st": {"a": 1, "b": {"c": "x", "d": 0.5}},
            "l": [1, None, 3],
            "ls": [{"k": "k", "v": 1}, None],
            "m": [("x", 1), ("y", None)],
            "ms": [("z", {"p": 1, "q": "q"})],
        }
        return pa.Table.from_pylist(
            [{"id": i, **(full if i % 4 else {})} for i in range(first, first + 5)], shape
        )

    t.append(rows(0))
    t.delete("id = 2")
    if evolve:
        t.alter.add_column("st.b.e", "INT")
        t.alter.rename_column("st.a", "aa")
        t.alter.drop_column("st.b.c")
        t.append(
            pa.Table.from_pylist(
                [{"id": 20, "st": {"aa": 9, "b": {"d": 2.0, "e": 3}}, "l": [], "m": []}], t.schema
            )
        )
        t.alter.add_column("ls.element.w", "STRING")
    t.update({"id": "id + 100"}, "id = 1")
    return t


def partitions(folder: str) -> tablefmt.Table:
    """A partition column of every type that Iceberg and Delta have a form for."""
    t = tablefmt.create(
        folder,
        "id BIGINT, pi INT, pd DOUBLE, pb BINARY, pm DECIMAL(10,2), "
        "pz BOOLEAN, pt TIMESTAMP, pn TIMESTAMP_NTZ",
        partition_by=["pi", "pd", "pb", "pm", "pz", "pt", "pn"],
    )
    made = []
    for i, d in enumerate([1.5, float("nan"), -0.0, float("inf"), None, 1e300]):
        made.append(
            {
                "id": i,
                "pi": None if i == 2 else -i,
                "pd": d,
                "pb": [b"", b"\x00\xff,", b"abc", None, b"\\", b"a/b"][i],
                "pm": None if i == 3 else decimal.Decimal(i * 111 - 200) / 100,
                "pz": [True, False, None][i % 3],
                "pt": None
                if i == 1
                else dt.datetime(1969, 12, 31, 23, 59, 59, 999999 - i, tzinfo=UTC),
                "pn": None if i == 0 else dt.datetime(2024, 1, 1, 0, 0, 0, i),
            }
        )
    t.append(pa.Table.from_pylist(made, t.schema))
    t.delete("id = 5")
    return t


def big_deletes(folder: str) -> tablefmt.Table:
    """Vectors that do not fit a log line: random and dense ones, in files of 20,000 rows."""
    t = tablefmt.create(folder, "id BIGINT, v STRING")
    for k in range(2):
        t.append(
            pa.table({"id": range(k * 20_000, (k + 1) * 20_000), "v": pa.array(["v"] * 20_000)})
        )
    t.delete("id % 3 = 0 OR (id > 5000 AND id < 9000)")
    t.delete("id % 1000 = 1")
    return t


def organized(folder: str) -> tablefmt.Table:
    """Tags, a clustering order, compaction in that order, and a restore to a tag.

    Then an overwrite takes the partition column away, and a restore brings it back.
    """
    t = tablefmt.create(folder, "id BIGINT, p STRING", partition_by=["p"], cluster_by=["id"])
    for start in (20, 0, 40):
        ids = list(range(start, start + 20))
        t.append(pa.table({"id": ids[::-1], "p": [ODD[i % 3] for i in ids]}))
    t.delete("id % 7 = 3")
    t.alter.set_tag("2026-Q3")
    t.alter.add_column("v", "STRING", default="new")
    t.compact("major")
    t.update({"v": "'x'"}, "id < 30")
    t.alter.set_tag("kept", version="2026-Q3", retain="90 days")
    t.alter.set_clustering(["v", "id"])
    t.restore(version="2026-Q3")
    t.alter.drop_tag("kept")
    t.append(pa.table({"id": [99], "p": [None]}, schema=t.schema))
    t.alter.set_clustering(None)
    before, others = t.version, pa.table({"id": [1, 2], "w": ["a", None]})
    t.overwrite(others, overwrite_schema=True, partition_by=["id"])
    t.overwrite(others.drop_columns("id"), overwrite_schema=True, partition_by=[])
    t.restore(version=before)
    return t


MAKERS = {
    "organized": organized,
    "types": types,
    "evolved": evolved,
    "wider": wider,
    "nested": nested,
    "partitions": partitions,
    "big_deletes": big_deletes,
}


def make(folder: str, names=None) -> dict[str, tablefmt.Table]:
    return {n: MAKERS[n](os.path.join(folder, n)) for n in (names or MAKERS)}


def _plain(v):
    """A value in one form, whatever reader it came from."""
    if v is None or isinstance(v, (bool, str)):
        return v
    if isinstance(v, float):
        return "NaN" if math.isnan(v) else (0.0 if v == 0 else v)
    if isinstance(v, (bytes, bytearray, memoryview)):
        return bytes(v).hex()
    if isinstance(v, decimal.Decimal):
        return format(v.normalize(), "f")
    if isinstance(v, dt.datetime):
        return v.astimezone(UTC).replace(tzinfo=None).isoformat() if v.tzinfo else v.isoformat()
    if isinstance(v, dict):
        return tuple(sorted((k, _plain(x)) for k, x in v.items()))
    if isinstance(v, (list, tuple)):
        return tuple(_plain(x) for x in v)
    return v if isinstance(v, (int, dt.date)) else repr(v)


def _shaped(v, kind: pa.DataType):
    """Maps as sorted pairs, structs as dicts, whichever way a reader gives them."""
    if v is None:
        return None
    if pa.types.is_map(kind):
        pairs = v.items() if isinstance(v, dict) else v
        pairs = [(p["key"], p["value"]) if isinstance(p, dict) else p for p in pairs]
        return tuple(sorted((_plain(k), _shaped(x, kind.item_type)) for k, x in pairs))
    if pa.types.is_struct(kind):
        return tuple((f.name, _shaped(v[f.name], f.type)) for f in kind)
    if pa.types.is_list(kind):
        return tuple(_shaped(x, kind.value_type) for x in v)
    if pa.types.is_floating(kind):
        return _plain(float(v))
    if pa.types.is_timestamp(kind) and isinstance(v, dt.datetime) and kind.tz and v.tzinfo is None:
        v = v.replace(tzinfo=UTC)
    return _plain(v)


def canon(rows: pa.Table, schema: pa.Schema) -> list[str]:
    """Rows as sorted text in the columns and types of `schema`."""
    names = {n.lower(): n for n in rows.schema.names}
    lists = [
        [_shaped(v, f.type) for v in rows.column(names[f.name.lower()]).to_pylist()] for f in schema
    ]
    return sorted(map(repr, zip(*lists, strict=True))) if lists else []


def differ(found: pa.Table, wanted: pa.Table) -> str:
    """'' if the rows are the same, else what differs, short."""
    a, b = canon(found, wanted.schema), canon(wanted, wanted.schema)
    if a == b:
        extra = set(found.schema.names) - set(wanted.schema.names)
        return f"extra columns {sorted(extra)}" if extra else ""
    only_a, only_b = sorted(set(a) - set(b)), sorted(set(b) - set(a))
    return f"{len(a)} rows, wanted {len(b)}; only found {only_a[:1]}; only wanted {only_b[:1]}"
