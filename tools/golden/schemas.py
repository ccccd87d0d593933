"""Golden cases of schema changes, and of invalid metadata."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from golden.maker import (
    CORRUPT,
    LONG,
    Json,
    Maker,
    field,
    list_of,
    map_of,
    plain_rows,
    schema_of,
    three,
)


def evolved() -> Maker:
    """Make a table whose files were written under two schemas."""
    inner = [field(3, "a", "integer"), field(4, "b", "string")]
    old = [
        field(1, "n", "integer"),
        field(2, "s", {"struct": inner}),
        field(5, "d", "decimal(5,2)"),
        field(6, "day", "date"),
        field(7, "x", "string"),
    ]
    maker = Maker("evolved", old)
    first = {"n": 1, "s": {"a": 1, "b": "old"}, "d": Decimal("1.25"), "day": date(1970, 1, 3)}
    maker.append({**first, "x": "old"}, {**first, "s": None, "d": None, "x": None})
    inner = [field(8, "b", "string", physical="b_8"), field(3, "A", "long", physical="a")]
    new = [
        field(9, "added", "double", default=0.5, initial="NaN"),
        field(2, "s", {"struct": inner}),
        field(1, "N", "decimal(12,1)", physical="n"),
        field(5, "d", "decimal(10,4)"),
        field(6, "day", "timestamp_ntz"),
        field(10, "x", "long", physical="x_10", initial=7),
    ]
    metadata = schema_of(new)
    metadata["schema"]["dropped"] = ["b", "x"]
    maker.commit("METADATA", "ALTER", metadata=metadata)
    second = {"added": None, "s": {"b_8": "new", "a": 2**40}, "n": Decimal("2.5")}
    maker.append({**second, "d": Decimal("0.0001"), "day": datetime(1970, 1, 1, 1), "x_10": 8})
    early = {"added": float("nan"), "N": Decimal("1.0"), "day": datetime(1970, 1, 3), "x": 7}
    late = {"added": None, "s": {"b": "new", "A": 2**40}, "N": Decimal("2.5")}
    rows: list[Json] = [
        {**early, "s": {"b": None, "A": 1}, "d": Decimal("1.2500")},
        {**early, "s": None, "d": None},
        {**late, "d": Decimal("0.0001"), "day": datetime(1970, 1, 1, 1), "x": 8},
    ]
    why = (
        "Columns renamed, moved, widened, dropped, and added with the name of a dropped one "
        "(SCH-3, SCH-8, SCH-9); values for columns that a file lacks (SCH-7, DAT-12)."
    )
    return maker.good(why, rows=plain_rows(rows))


def commented() -> Maker:
    """Make a table with comments on the table, columns and a field."""
    maker = three("comments")
    inner = [field(3, "f", "long", comment="'); DROP TABLE t; --")]
    fields = [
        field(1, "x", "long", comment="c" * 3999 + "\U0001f600"),
        field(2, "s", {"struct": inner}, comment='\u0000\x1b[2J\u202e"\\'),
    ]
    maker.commit("METADATA", "ALTER", metadata={**schema_of(fields), "comment": "de l'été\n"})
    maker.append({"x": 5, "s": {"f": 1}})
    rows: list[Json] = [{"x": n, "s": None} for n in (1, 2, 3, 4)]
    why = "Comments of the table, of columns and of a nested field change nothing (ENT-11)."
    return maker.good(why, rows=[*plain_rows(rows), *plain_rows([{"x": 5, "s": {"f": 1}}])])


def _as_numbered(fields: list[Json], last_id: int) -> Json:
    return {**schema_of(LONG), "schema": {"fields": fields, "last_id": last_id}}


def _with_parts(
    *,
    element: int = 3,
    key: int = 5,
    value: int = 6,
    inner: int = 9,
    moved: bool = False,
    other: list[Json] | None = None,
) -> list[Json]:
    """Return columns with lists, a map and structs, and the ids inside them."""
    items = field(8, "f", list_of("long", inner))
    first, second = field(11, "g", "long"), field(12, "h", "long")
    return [
        *LONG,
        *([field(2, "a", list_of("long", element))] if other is None else other),
        field(4, "m", map_of("string", "long", key, value)),
        field(7, "s", {"struct": [second if moved else first, items]}),
        field(10, "t", {"struct": [first if moved else second]}),
    ]


def kept_ids() -> Iterator[Maker]:
    """Yield valid and invalid successors of a schema with lists, a map and structs."""
    maker = Maker("schema-ids-kept", _with_parts())
    before: Json = {"x": 1, "a": [1], "m": [("k", 2)], "s": {"g": 3, "f": [4]}, "t": {"h": 5}}
    maker.append(before)
    items = field(8, "F", list_of("decimal(20,0)", 9), physical="f")
    fields = [
        field(4, "M", map_of("string", "long", 5, 6), physical="m"),
        field(7, "s", {"struct": [items, field(13, "n", list_of("long", 14))]}),
        field(10, "t", {"struct": [field(12, "h", "long")]}),
        *LONG,
    ]
    metadata = schema_of(fields)
    metadata["schema"]["dropped"] = ["a", "g"]
    maker.commit("METADATA", "ALTER", metadata=metadata)
    after = {"s": {"F": [Decimal(4)], "n": None}, "x": 1, "M": [("k", 2)], "t": {"h": 5}}
    why = "Parts of renamed, moved and widened columns keep their ids (SCH-4)."
    yield maker.good(why, rows=plain_rows([after]))
    bad: dict[str, list[Json]] = {
        "element-changed": _with_parts(element=13),
        "key-changed": _with_parts(key=13),
        "value-changed": _with_parts(value=13),
        "key-and-value": _with_parts(key=6, value=5),
        "inner-changed": _with_parts(inner=13),
        "field-elsewhere": _with_parts(moved=True),
        "element-as-column": _with_parts(other=[field(3, "y", "long")]),
    }
    for name, changed in bad.items():
        maker = Maker(f"schema-{name}", _with_parts())
        metadata = schema_of(changed)
        metadata["schema"] |= {"last_id": 13, "dropped": ["a"]}
        maker.commit("METADATA", "ALTER", metadata=metadata)
        why = "An id inside a kept column now belongs to another part (SCH-4)."
        yield maker.broken(why, CORRUPT, (1, "SCH-4"))


def restored() -> Iterator[Maker]:
    """Yield restored tables: files and dropped columns come back."""
    fields = [*LONG, field(2, "y", "string")]
    maker = Maker("restored", fields)
    first = maker.append({"x": 1, "y": "a"}, {"x": 2, "y": "b"})
    second = maker.append({"x": 3, "y": "c"})
    maker.commit("UPDATE", "DELETE", delete={1: ([0], [])})
    maker.commit("UPDATE", "DELETE", remove=(2,))
    metadata = schema_of(LONG)
    metadata["schema"] |= {"last_id": 2, "dropped": ["y"]}
    maker.commit("METADATA", "ALTER", metadata=metadata)
    maker.commit("UPDATE", "DELETE", delete={1: ([1], [])})
    back = schema_of(fields)
    back["schema"]["dropped"] = ["y"]
    delete: dict[int, Any] = {3: ([0], [])}
    maker.commit("OVERWRITE", "RESTORE", (first, second), (1,), delete=delete, metadata=back)
    rows = [{"x": 2, "y": "b"}, {"x": 3, "y": "c"}]
    why = (
        "Version 3 is restored: two paths under new ids, one with the row that was deleted at "
        "version 3, and a dropped column (RET-1, RET-3, SCH-8)."
    )
    yield maker.good(why, rows=plain_rows(rows))
    bad = {"class": ("METADATA", None), "scope": ("OVERWRITE", {"predicate": "x = 1"})}
    for name, (kind, scope) in bad.items():
        maker = Maker(f"restored-{name}", fields)
        maker.commit("METADATA", "ALTER", metadata=metadata)
        maker.commit(kind, "RESTORE", metadata=back, scope=scope)
        why = "An entry that is no RESTORE brings back a dropped column."
        yield maker.broken(why, CORRUPT, (2, "SCH-4"))
    maker = Maker("restored-other", fields)
    maker.commit("METADATA", "ALTER", metadata=metadata)
    other = schema_of([*LONG, field(2, "z", "string")])
    other["schema"]["dropped"] = ["y"]
    maker.commit("OVERWRITE", "RESTORE", metadata=other)
    yield maker.broken("The id comes back with another column.", CORRUPT, (2, "SCH-4"))


def repartitioned() -> Iterator[Maker]:
    """Yield repartitioned tables, with all old files removed and with one kept."""
    fields = [*LONG, field(2, "p", "string")]
    other = schema_of([*fields, field(3, "q", "string", initial="old")], (3,))
    maker = Maker("repartitioned", fields, (2,))
    maker.append({"x": 1, "p": "a"})
    maker.metadata = schema_of(fields)
    first = maker.file([{"x": 2, "p": "a"}], partition={3: None}, written=2)
    second = maker.file([{"x": 3, "p": "a"}], partition={3: "b"}, written=2)
    maker.commit("OVERWRITE", "OVERWRITE", (first, second), (1,), metadata=other)
    rows = [{"x": 2, "p": "a", "q": None}, {"x": 3, "p": "a", "q": "b"}]
    why = (
        "Repartitioning removes the older files (ENT-8); new files lack the column, so it has the "
        "value of the entry, also NULL (DAT-8)."
    )
    yield maker.good(why, rows=plain_rows(rows))
    maker = Maker("repartitioned-kept", fields, (2,))
    maker.append({"x": 1, "p": "a"})
    maker.commit("METADATA", "ALTER", metadata=schema_of(fields, ()))
    yield maker.broken("A file from before the repartitioning stays live.", CORRUPT, (2, "ENT-8"))


def bad_schemas() -> Iterator[Maker]:
    """Yield metadata that breaks a rule of schemas."""
    twice = [field(1, "x", "long"), field(2, "X", "long")]
    same = [field(1, "x", "long"), field(1, "y", "long")]
    nested = [field(1, "x", "long"), field(2, "s", list_of("long", 3))]
    bad: dict[str, tuple[str, Json]] = {
        "case": ("SCH-2", schema_of(twice)),
        "no-name": ("SCH-2", schema_of([field(1, "", "long", physical="x")])),
        "decimal": ("SCH-1", schema_of([field(1, "x", "long"), field(2, "d", "decimal(39,0)")])),
        "ids": ("SCH-4", schema_of(same)),
        "physical": ("SCH-3", schema_of([field(1, "x", "long", physical="z")])),
        "partition": ("ENT-8", schema_of(nested, (2,))),
        "partition-variant": ("ENT-8", schema_of([*LONG, field(2, "v", "variant")], (2,))),
        "partition-unknown": ("ENT-8", schema_of(LONG, (7,))),
    }
    lists = {
        "element-twice": list_of("long", 1),
        "element-far": list_of("long", 2**31 - 1),
        "key-twice": map_of("long", "long", 3, 3),
    }
    for name, kind in lists.items():
        metadata = schema_of([*LONG, field(2, "s", kind)])
        bad[name] = ("SCH-4", metadata)
    packed = {"struct": [field(5, "v", "variant")]}
    keys = {"variant-key": "variant", "variant-in-key": packed}
    for name, key in keys.items():
        bad[name] = ("SCH-6", schema_of([*LONG, field(2, "s", map_of(key, "long", 3, 4))]))
    unnumbered = list_of("long", 3)
    del unnumbered["element_id"]
    bad["element-no-id"] = ("SCH-1", _as_numbered([*LONG, field(2, "s", unnumbered)], 3))
    bad["forgotten"] = ("SCH-8", schema_of([field(2, "y", "long")]))
    bad["default"] = ("SCH-7", schema_of([field(1, "x", "long", default="7")]))
    inside = [field(3, "f", "long", initial=1)]
    bad["default-inside"] = ("SCH-7", schema_of([*LONG, field(2, "s", {"struct": inside})]))
    check = {"columns": [1], "condition": "x > 0"}
    checks: dict[str, Json] = {
        "empty": {},
        "unknown": {"c": {**check, "columns": [1, 9]}},
        "twins": {"c": check, "C": check},
        "text": {"c": {**check, "condition": None}},
    }
    for name, constraints in checks.items():
        bad[f"check-{name}"] = ("ENT-10", {**schema_of(LONG), "constraints": constraints})
    inner = [field(3, "f", "long", comment=None)]
    said: dict[str, Json] = {
        "empty": {**schema_of(LONG), "comment": ""},
        "long": {**schema_of(LONG), "comment": "c" * 4001},
        "column": schema_of([field(1, "x", "long", comment=7)]),
        "null": schema_of([*LONG, field(2, "s", {"struct": inner})]),
    }
    for name, commented in said.items():
        bad[f"comment-{name}"] = ("ENT-11", commented)
    bad["last-id"] = ("SCH-4", {**schema_of(LONG), "schema": {"fields": LONG, "last_id": 0}})
    for name, (rule, metadata) in bad.items():
        maker = three(f"schema-{name}")
        maker.commit("METADATA", "ALTER", metadata=metadata)
        yield maker.broken(f"Metadata that breaks {rule}.", CORRUPT, (3, rule), also="SCH-1")
