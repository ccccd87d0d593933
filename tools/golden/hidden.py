"""Golden cases of hidden partitioning (HID)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from golden.maker import CORRUPT, Json, Maker, field, plain_rows, schema_of

BOTH: Json = {"reader": ["hiddenPartitions"], "writer": ["hiddenPartitions"]}
COLUMNS = [field(1, "x", "integer"), field(2, "s", "string"), field(3, "ts", "timestamp")]
FIELDS = (
    {"id": 4, "name": "ts_day", "source": 3, "transform": "day"},
    {"id": 5, "name": "x_bucket", "source": 1, "transform": "bucket[16]"},
    {"id": 6, "name": "s_trunc", "source": 2, "transform": "truncate[3]"},
)
IDS = (4, 5, 6)


def hidden() -> Iterator[Maker]:
    """Yield a table with hidden partition fields, and tables that break their rules."""
    maker = _table("hidden-partitions")
    first = {"x": 34, "s": "iceberg", "ts": datetime(2024, 2, 1, 23, tzinfo=timezone.utc)}
    early = {"x": None, "s": None, "ts": datetime(1969, 12, 31, 23, tzinfo=timezone.utc)}
    files = (
        maker.file([first], partition={4: 19754, 5: 3, 6: "ice"}),
        maker.file([early], partition={4: -1, 5: None, 6: None}),
    )
    maker.commit("INSERT", "WRITE", files)
    renamed = [COLUMNS[0], COLUMNS[1], COLUMNS[2] | {"name": "at"}]
    maker.commit("METADATA", "RENAME COLUMN", metadata=_metadata(renamed))
    rows: list[Json] = [{"x": 34, "s": "iceberg", "at": first["ts"]}]
    rows.append({"x": None, "s": None, "at": early["ts"]})
    why = "Values of transforms are in the entry alone, and no column shows them (HID-1, HID-3)."
    yield maker.good(why, rows=plain_rows(rows))

    maker = _table("hidden-without-feature", protocol={"reader": [], "writer": []})
    yield maker.broken("No entry brought the feature.", CORRUPT, (1, "VER-4"))

    spoiled: dict[str, tuple[Any, str]] = {
        "type": (FIELDS[0] | {"source": 2}, "HID-1"),
        "width": (FIELDS[2] | {"transform": "truncate[0]"}, "HID-1"),
        "nothing": (FIELDS[0] | {"source": 9}, "HID-1"),
        "name": (FIELDS[0] | {"name": "TS"}, "HID-2"),
    }
    for name, (one, rule) in spoiled.items():
        maker = _table(f"hidden-{name}", [one, *FIELDS[1:]])
        yield maker.broken(f"A hidden field that breaks {rule}.", CORRUPT, (1, rule))

    maker = _table("hidden-unused", keys=(4, 5))
    yield maker.broken("A hidden field that does not partition.", CORRUPT, (1, "HID-1"))

    maker = _table("hidden-moved")
    other = [FIELDS[0] | {"transform": "month"}, *FIELDS[1:]]
    maker.commit("METADATA", "ALTER TABLE", metadata=_metadata(COLUMNS, other))
    yield maker.broken("An id gets another transform (HID-1).", CORRUPT, (2, "SCH-4"))

    maker = _table("newer-transform", [FIELDS[0] | {"transform": "week"}, *FIELDS[1:]])
    why = "A transform of a newer version (VER-2)."
    maker.broken(why, "UnsupportedFeatureError", (1, "VER-2"))
    maker.expected["features"] = ["transform:week"]
    yield maker


def _table(
    name: str, fields: Any = FIELDS, *, keys: tuple[int, ...] = IDS, protocol: Json = BOTH
) -> Maker:
    maker = Maker(name, COLUMNS)
    metadata = _metadata(COLUMNS, fields, keys)
    maker.commit("PROTOCOL", "ADD FEATURE", protocol=protocol, metadata=metadata)
    return maker


def _metadata(columns: list[Json], fields: Any = FIELDS, keys: tuple[int, ...] = IDS) -> Json:
    made = schema_of(columns, keys)
    made["schema"] = made["schema"] | {"hidden": list(fields), "last_id": 6}
    return made
