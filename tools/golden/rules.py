"""Golden cases of rules about one value: entries that follow them, and entries that break them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from golden.maker import CORRUPT, LONG, Json, Maker, canonical, field, schema_of, seal, three
from golden.newer import let_go


def single_rules() -> Iterator[Maker]:
    """Yield entries that a reader accepts, and entries that it refuses."""
    yield from beginnings()
    yield from scopes()
    yield from physical_names()
    yield from values_of_files()
    yield repartitioned_empty()

    maker = three("horizon-scope")
    let_go(maker, 2, lambda entry: entry["basis"].update(scope=None))
    why = "A retention horizon with a scope that conflicts with everything."
    yield maker.broken(why, CORRUPT, (3, "ENT-13"))

    maker = three("newer-format-wide")
    maker.append({"x": 5}, change=lambda entry: entry.update(format=2**63))
    why = "The format number exceeds 64 bits (VER-2)."
    yield maker.broken(why, CORRUPT, (3, "ENT-2"))


def beginnings() -> Iterator[Maker]:
    """Yield versions 0 that create no table."""
    changes: dict[str, tuple[str, Callable[[Json], object]]] = {
        "class": ("ENT-4", lambda entry: entry["operation"].update({"class": "INSERT"})),
        "ends": ("ENT-14", lambda entry: entry.update(ends=True)),
    }
    for name, (rule, change) in changes.items():
        maker = Maker(f"created-{name}", LONG)
        change(maker.documents[0])
        maker.objects[maker.key(0)] = seal(canonical(maker.documents[0]))
        yield maker.broken(f"A first entry that breaks {rule}.", CORRUPT, (0, rule))


def scopes() -> Iterator[Maker]:
    """Yield scopes of partitions that the table cannot have."""
    bad: dict[str, tuple[str, str, Json]] = {
        "type": ("string", "ENT-5", {"partitions": [[1]]}),
        "zero": ("double", "VAL-2", {"partitions": [[-0.0]]}),
        "both": ("string", "ENT-5", {"partitions": [["a"]], "predicate": "p = 'b'"}),
    }
    for name, (kind, rule, scope) in bad.items():
        maker = Maker(f"scope-{name}", [field(1, "p", kind), field(2, "x", "long")], (1,))
        maker.commit("OVERWRITE", "TRUNCATE", scope=scope)
        yield maker.broken("An invalid scope.", CORRUPT, (1, rule))


def physical_names() -> Iterator[Maker]:
    """Yield columns with the same name in data files."""
    maker = three("schema-physical-twins")
    twins = schema_of([*LONG, field(2, "y", "long", physical="X")])
    maker.commit("METADATA", "ALTER", metadata=twins)
    yield maker.broken("Two columns with one physical name.", CORRUPT, (3, "SCH-8"))

    maker = three("schema-physical-dropped")
    gone = schema_of([field(2, "y", "long")])
    gone["schema"]["dropped"] = ["x"]
    maker.commit("METADATA", "ALTER", metadata=gone)
    again = schema_of([field(2, "y", "long"), field(3, "z", "long", physical="X")])
    again["schema"]["dropped"] = ["x"]
    maker.commit("METADATA", "ALTER", metadata=again)
    why = "A new column has the physical name of a dropped one."
    yield maker.broken(why, CORRUPT, (4, "SCH-8"))


def repartitioned_empty() -> Maker:
    """Make a table that is repartitioned and gets no file."""
    fields = [*LONG, field(2, "p", "string")]
    maker = Maker("repartitioned-empty", fields, (2,))
    maker.append({"x": 1, "p": "a"})
    maker.commit("OVERWRITE", "OVERWRITE", (), (1,), metadata=schema_of(fields, (1,)))
    return maker.good("Repartitioned and emptied: no file has values of the new column (ENT-8).")


def values_of_files() -> Iterator[Maker]:
    """Yield invalid values, bounds and counts of files."""
    maker = Maker("partition-negative-zero", [field(1, "p", "double"), *_x()], (1,))
    maker.append({"p": 0.0, "x": 1}, change=lambda e: e["add"].update(partition={"1": [-0.0]}))
    yield maker.broken("A partition of negative zero.", CORRUPT, (1, "VAL-2"))

    maker = Maker("partition-base64", [field(1, "p", "binary"), *_x()], (1,))
    maker.append({"p": b"\0", "x": 1}, change=lambda e: e["add"].update(partition={"1": ["AB=="]}))
    yield maker.broken(
        "Bits after the last byte: another text of one value.", CORRUPT, (1, "VAL-1")
    )

    maker = Maker("partition-integer-text", [field(1, "p", "double"), *_x()], (1,))
    maker.append({"p": 1.0, "x": 1}, change=lambda e: e["add"].update(partition={"1": [1]}))
    yield maker.good("The text of an integer is the value of a double (VAL-1).")

    maker = three("nulls-negative")
    maker.append({"x": 5}, change=lambda entry: entry["add"].update(nulls={"1": [-1]}))
    why = "A count below zero says nothing about the file (ADD-1, PRN-6)."
    yield maker.good(why, remarks=[(3, "ADD-1")])

    bad: dict[str, Any] = {"nulls": ["1"], "nans": [True], "lower": ["1"], "upper": [1.0]}
    for group, values in bad.items():
        maker = three(f"{group}-type")
        change = _put(group, {"1": values})
        maker.append({"x": 5}, change=change)
        yield maker.broken("A value of another type.", CORRUPT, (3, "VAL-1"))

    maker = Maker("side-beside", LONG)
    file = maker.file([{"x": 1}])
    maker.commit("INSERT", "WRITE", (file,), side=True, change=_put("path", [file["path"]]))
    why = "Files in an overflow metadata file and in the entry: readers would read different ones."
    yield maker.broken(why, CORRUPT, (1, "ADD-6"))


def _x() -> list[Json]:
    return [field(2, "x", "long")]


def _put(name: str, value: Any) -> Callable[[Json], object]:
    """Return a change that sets a column of `add`."""
    return lambda entry: entry["add"].update({name: value})
