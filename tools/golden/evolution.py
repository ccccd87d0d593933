"""Golden cases of partitionings that change without a rewrite (EVO)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Any

from golden.maker import CORRUPT, Json, Maker, field, schema_of

BOTH: Json = {"reader": ["partitionEvolution"], "writer": ["partitionEvolution"]}
COLUMNS = [field(1, "x", "integer"), field(2, "region", "string"), field(3, "day", "date")]


def evolution() -> Iterator[Maker]:
    """Yield a table with files of three partitionings, and tables that break their rules."""
    maker = _table("partition-evolution")
    maker.append({"x": 2, "region": "US", "day": None})
    maker.commit(
        "METADATA", "SET PARTITIONING", metadata=_metadata((), {0: (2,), 1: (2, 3), 2: ()})
    )
    maker.append({"x": 3, "region": "DE", "day": None}, {"x": 4, "region": None, "day": None})
    again = maker.file([{"x": 5, "region": None, "day": None}], partition={2: None}, partitioning=0)
    newer = maker.file([{"x": 6, "region": "FR", "day": None}], partition={2: "FR", 3: None},
                       partitioning=1)  # fmt: skip
    maker.commit(
        "OVERWRITE", "OVERWRITE", (again, newer, maker.file([_row(7)])), scope={"partitions": []}
    )
    yield _good(maker, "Each file has the values of its own partitioning (EVO-1, EVO-2).")

    maker = _table("partition-evolution-back")
    maker.commit("METADATA", "SET PARTITIONING", metadata=_metadata((2,), {0: (2,), 1: (2, 3)}))
    maker.append(_row(2))
    yield _good(maker, "The current partitioning may be an older one again (EVO-1).")

    maker = _table("partition-evolution-ended")
    maker.append(_row(2))
    maker.commit("CLUSTER", "REPARTITION", (maker.file([_row(1)]),), (1,), scope=None)
    maker.commit("METADATA", "SET PARTITIONING", metadata=_metadata((2, 3), {1: (2, 3)}))
    yield _good(maker, "No file has the older partitioning, so it may go (EVO-1, EVO-5).")

    maker = _table("evolution-without-feature", protocol={"reader": [], "writer": []})
    yield maker.broken("No entry brought the feature.", CORRUPT, (2, "VER-4"))

    spoiled: dict[str, tuple[Any, str]] = {
        "empty": ({}, "EVO-1"),
        "text": ({"one": [2], "0": [2, 3]}, "EVO-1"),
        "column": ({"0": [2], "1": [2, 3], "2": [9]}, "EVO-1"),
        "twice": ({"0": [2], "1": [2, 3], "2": [3, 2]}, "EVO-1"),
        "other": ({"0": [2], "1": [3]}, "EVO-1"),
    }
    for name, (given, rule) in spoiled.items():
        maker = _table(f"evolution-{name}", numbered=given)
        yield maker.broken(f"Partitionings that break {rule}.", CORRUPT, (2, rule))

    maker = _table("evolution-changed")
    maker.commit("METADATA", "ALTER", metadata=_metadata((2, 3), {0: (3,), 1: (2, 3)}))
    yield maker.broken("A number gets another meaning (EVO-1).", CORRUPT, (3, "ENT-8"))

    maker = _table("evolution-forgotten")
    maker.commit("METADATA", "ALTER", metadata=_metadata((2, 3), {1: (2, 3)}))
    yield maker.broken("A live file has a partitioning that is gone.", CORRUPT, (3, "EVO-1"))

    wrong: dict[str, tuple[Callable[[Json], object], str]] = {
        "unknown": (lambda add: add.update(partitioning=[7]), "EVO-2"),
        "negative": (lambda add: add.update(partitioning=[-1]), "ADD-1"),
        "lacking": (lambda add: add["partition"].pop("3"), "ADD-1"),
        "beyond": (lambda add: add.update(partitioning=[0]), "ADD-1"),
    }
    for name, (change, rule) in wrong.items():
        maker = _table(f"evolution-number-{name}")
        file = maker.file([_row(2)])
        maker.commit("INSERT", "WRITE", (file,), change=partial(_spoiled, change))
        also = "EVO-2" if name == "negative" else ""
        yield maker.broken("A file of another partitioning.", CORRUPT, (3, rule), also=also)

    maker = _table("evolution-value")
    rows = [[_row(number) | {"day": date(2026, 1, number)}] for number in (2, 3)]
    files = (maker.file(rows[0], partitioning=0), maker.file(rows[1]))
    maker.commit("INSERT", "WRITE", files)
    yield maker.broken("A file has a value that its partitioning lacks.", CORRUPT, (3, "EVO-2"))


def _spoiled(change: Callable[[Json], object], entry: Json) -> None:
    change(entry["add"])


def _row(number: int) -> Json:
    return {"x": number, "region": "DE", "day": None}


def _good(maker: Maker, why: str) -> Maker:
    """Finish a sound table. A field that does not partition a file has no value there."""
    made = maker.good(why)
    names = {f["id"]: f["name"] for f in COLUMNS}
    numbered = maker.metadata["partitionings"].values()
    every = {names[i]: None for ids in numbered for i in ids}
    for file in made.expected["files"]:
        file["partition"] = every | file["partition"]
    return made


def _table(name: str, *, numbered: Any = None, protocol: Json = BOTH) -> Maker:
    maker = Maker(name, COLUMNS, partition_by=(2,))
    maker.append(_row(1))
    metadata = _metadata((2, 3), {0: (2,), 1: (2, 3)})
    if numbered is not None:
        metadata["partitionings"] = numbered
    maker.commit("PROTOCOL", "SET PARTITIONING", protocol=protocol, metadata=metadata)
    return maker


def _metadata(keys: tuple[int, ...], numbered: dict[int, tuple[int, ...]]) -> Json:
    listed = {str(number): list(ids) for number, ids in numbered.items()}
    return schema_of(COLUMNS, keys) | {"partitionings": listed}
