"""Golden cases of tables from newer writers, and of expired versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from golden.maker import CORRUPT, LONG, Json, Maker, field, hex_of, list_of, schema_of, three

UNSUPPORTED = "UnsupportedFeatureError"
Change = Callable[[Json], Any]


def newer_writers() -> Iterator[Maker]:
    """Yield tables that must be refused by name, never as damage (ENT-3, ENT-7, VER-2, VER-4)."""
    maker = three("newer-format")
    maker.append({"x": 5}, change=lambda entry: entry.update(format=2))
    yield _newer(maker, "Format 2.", ["format:2"], (3, "ENT-3"))

    maker = three("reader-feature")
    maker.commit("PROTOCOL", "UPGRADE", protocol={"reader": ["zigzag"], "writer": []})
    why = "An unknown reader feature: no reading, no writing."
    yield _newer(maker, why, ["zigzag"], (3, "ENT-7"))

    maker = three("writer-feature")
    maker.commit("PROTOCOL", "UPGRADE", protocol={"reader": [], "writer": ["zigzag"]})
    why = "An unknown writer feature: reading works, writing is refused (ENT-7)."
    yield maker.good(why, write_error=UNSUPPORTED)

    maker = three("writer-feature-class")
    maker.commit("INSERT", "WRITE", protocol={"reader": [], "writer": ["zigzag"]})
    yield maker.broken("An entry with rows adds a feature.", CORRUPT, (3, "VER-4"))

    changes: dict[str, tuple[list[str], Change]] = {
        "field": (["field:zebra"], lambda e: e.update(zebra=1)),
        "parts": (["groupCommit"], lambda e: e.update(parts=[], operation=None)),
        "column": (["field:add.colour"], lambda e: e["add"].update(colour=["red"])),
        "sum": (["field:totals.x_sum"], lambda e: e["totals"].update(x_sum=1)),
        "scope": (["field:basis.scope.zones"], lambda e: e["basis"].update(scope={"zones": []})),
        "class": (["operationClass:DANCE"], lambda e: e["operation"].update({"class": "DANCE"})),
        "isolation": (["isolation:Snapshot"], lambda e: e["basis"].update(isolation="Snapshot")),
        "several": (
            ["field:update.why", "granularity:column"],
            lambda e: (e.update(update={"why": 1}), e["basis"].update(granularity="column")),
        ),
    }
    for name, (features, change) in changes.items():
        maker = three(f"newer-{name}")
        maker.append({"x": 5}, change=change)
        yield _newer(maker, f"An entry of a newer version: {features[0]}.", features, (3, "VER-2"))

    unnumbered = {**list_of("long", 3), "sorted": True}
    schemas: dict[str, tuple[list[str], Json]] = {
        "type": (["type:quux"], schema_of([*LONG, field(2, "q", "quux")])),
        "type-object": (
            ["type:set"],
            schema_of([*LONG, field(2, "q", {"set": "long", "nullable": True})]),
        ),
        "type-name": (["field:schema.type.sorted"], schema_of([*LONG, field(2, "q", unnumbered)])),
        "column-field": (["field:schema.unit"], schema_of([field(1, "x", "long", unit="kg")])),
        "metadata": (["field:metadata.x_view"], {**schema_of(LONG), "x_view": 1}),
    }
    for name, (features, metadata) in schemas.items():
        maker = three(f"newer-{name}")
        maker.commit("METADATA", "ALTER", metadata=metadata)
        why = f"Metadata of a newer version: {features[0]}."
        yield _newer(maker, why, features, (3, "VER-2"))

    maker = three("newer-both")
    protocol = {"reader": ["zigzag"], "writer": ["zigzag"]}
    maker.commit("PROTOCOL", "UPGRADE", protocol=protocol, change=lambda e: e.update(zig=None))
    why = "The error names both a feature and its field in one entry."
    yield _newer(maker, why, ["field:zig", "zigzag"], (3, "VER-2"))


def _newer(maker: Maker, why: str, features: list[str], *findings: tuple[int, str]) -> Maker:
    maker.broken(why, UNSUPPORTED, *findings)
    maker.expected["features"] = features
    return maker


def horizons() -> Iterator[Maker]:
    """Yield tables with expired versions (ENT-13, LOG-8)."""
    maker = three("horizon")
    let_go(maker, 2)
    maker.append({"x": 5})
    why = "Versions 0 and 1 expired: they cannot be read, and the others can (ENT-13)."
    yield maker.good(why, oldest=2)

    changes: dict[str, Change] = {
        "above": lambda e: (e["horizon"].update(version=9), e["totals"].update(oldest=9)),
        "unsaid": lambda e: e["totals"].pop("oldest"),
        "other": lambda e: e["totals"].update(oldest=1),
        "class": lambda e: (
            e["operation"].update({"class": "INSERT"}),
            e.update(time_version=e["timestamp"]),
        ),
        "number": lambda e: e["horizon"].update(version="2"),
    }
    for name, change in changes.items():
        maker = three(f"horizon-{name}")
        let_go(maker, 2, change)
        yield maker.broken("An invalid retention horizon.", CORRUPT, (3, "ENT-13"), also="ENT-2")

    maker = three("horizon-falls")
    let_go(maker, 2)
    maker.oldest = 0
    maker.append({"x": 5})
    why = "A retention horizon falls."
    yield maker.broken(why, CORRUPT, (4, "ENT-13"))

    maker = three("checkpoint")
    maker.objects["_log/checkpoints/00000000000000000002.json"] = b"of a newer version"
    yield maker.good("A checkpoint beside a complete log is derived: it is not read (KEY-1).")

    maker = three("checkpoint-gap")
    maker.objects["_log/checkpoints/00000000000000000002.json"] = b"of a newer version"
    del maker.objects[maker.key(1)]
    why = "Version 1 is missing and did not expire: this is damage, even with a checkpoint (LOG-8)."
    yield maker.broken(why, "LogGapError", (1, "LOG-2"))


def dropped() -> Iterator[Maker]:
    """Yield dropped tables, and tables that replaced them (ENT-14)."""
    maker = three("dropped")
    end(maker)
    maker.expected = {"error": "TableNotFoundError", "rules": [], "findings": []}
    maker.expected["about"] = ["ENT-14"]
    maker.why = "The last entry drops the table, so there is no table (ENT-14)."
    yield maker

    maker = three("dropped-begun-anew")
    end(maker)
    begin(maker, "dropped-second")
    maker.append({"x": 7})
    why = "Another table replaces a dropped one: only the versions continue (ENT-14)."
    yield maker.good(why)

    ends: dict[str, Change] = {
        "files": lambda e: (e.pop("remove"), e["totals"].update(files=2, rows=4, bytes=1)),
        "class": lambda e: e["operation"].update({"class": "OVERWRITE"}),
        "false": lambda e: e.update(ends=False),
    }
    for name, change in ends.items():
        maker = three(f"dropped-{name}")
        end(maker, change)
        yield maker.broken("An invalid drop.", CORRUPT, (3, "ENT-14"), also="ENT-13")

    maker = three("dropped-goes-on")
    end(maker)
    maker.append({"x": 7})
    yield maker.broken("A dropped table continues.", CORRUPT, (4, "ENT-14"), also="LOG-3")

    maker = three("dropped-no-definition")
    end(maker)
    begin(maker, "dropped-third", lambda e: e.pop("metadata"))
    why = "Another table begins without metadata."
    yield maker.broken(why, CORRUPT, (4, "ENT-14"), also="ENT-3")


def end(maker: Maker, change: Change | None = None) -> None:
    """Commit an entry that drops the table."""
    maker.oldest = len(maker.documents)

    def ends(entry: Json) -> None:
        entry["ends"] = True
        if change is not None:
            change(entry)

    maker.commit("PROTOCOL", "DROP TABLE", remove=tuple(sorted(maker.live)), change=ends)


def begin(maker: Maker, name: str, change: Change | None = None) -> None:
    """Commit the first entry of another table."""
    maker.table = hex_of("table", name)
    maker.oldest = len(maker.documents)
    protocol: Json = {"reader": [], "writer": []}
    metadata = schema_of(LONG)

    def begins(entry: Json) -> None:
        entry["basis"]["read_version"] = None
        if change is not None:
            change(entry)

    maker.commit("PROTOCOL", "CREATE TABLE", protocol=protocol, metadata=metadata, change=begins)


def let_go(maker: Maker, version: int, change: Change | None = None) -> None:
    """Commit an entry that expires the versions below one."""
    maker.oldest = version
    maker.commit(
        "MINOR_COMPACT",
        "VACUUM",
        horizon={"version": version},
        scope={"partitions": []},
        change=change,
    )
