"""Golden cases that decide between two interpretations of a rule."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

from golden.checkpoints import checkpoint, grown
from golden.expired import behind_checkpoints
from golden.maker import (
    CORRUPT,
    HOUR,
    LONG,
    START,
    Json,
    Maker,
    field,
    list_of,
    plain_rows,
    schema_of,
    three,
)
from golden.newer import let_go
from golden.rows import two_files


def meanings() -> Iterator[Maker]:
    """Yield every finished case."""
    yield from names()
    yield from levels()
    yield from times()
    yield from types()
    yield from missing()
    yield touching()


def names() -> Iterator[Maker]:
    """Yield names that are the same, ignoring case, and names that are not (SCH-2)."""
    for name, one, other in (
        ("sharp-s", "straße", "STRASSE"),
        ("long-s", "ſ", "S"),
        ("kelvin", "\u212a", "k"),
        ("ligature", "\ufb01", "FI"),
    ):
        maker = Maker(f"names-{name}", [field(1, one, "long"), field(2, other, "long")])
        why = "Two names that full case folding makes the same (SCH-2)."
        yield maker.broken(why, CORRUPT, (0, "SCH-2"), also="SCH-1")

    apart = ["i", "ı", "İ", "\u00e9", "e\u0301", "\u2c5f", "\u2c2f", "\ua7d0", "\ua7d1"]
    maker = Maker("names-apart", [field(i, name, "long") for i, name in enumerate(apart, 1)])
    maker.append({name: at for at, name in enumerate(apart)})
    why = (
        "Dotless and dotted i, composed and decomposed letters, and pairs newer than Unicode 13.0 "
        "are different names (SCH-2)."
    )
    yield maker.good(why)


def levels() -> Iterator[Maker]:
    """Yield objects of the maximum depth, and one level deeper (ENT-2, SCH-1, SCH-2)."""
    maker = Maker("levels", [field(1, "x", "long"), field(2, "deep", _lists(63))])
    maker.commit("INSERT", "WRITE", user_metadata={"a": _arrays(126)})
    why = "A type with 64 levels, and an entry with 128: the maximum (ENT-2, SCH-2)."
    yield maker.good(why)

    maker = three("levels-entry")
    maker.append({"x": 5}, user_metadata={"a": _arrays(127)})
    yield maker.broken("An entry with 129 levels (ENT-2).", CORRUPT, (3, "ENT-2"))

    maker = three("levels-type")
    deep = schema_of([*LONG, field(2, "deep", _lists(64))])
    maker.commit("METADATA", "ALTER", metadata=deep)
    yield maker.broken("A type with 65 levels (SCH-2).", CORRUPT, (3, "SCH-2"), also="SCH-1")

    maker = three("struct-without-fields")
    maker.commit("METADATA", "ALTER", metadata=schema_of([*LONG, field(2, "s", {"struct": []})]))
    yield maker.broken("A struct has at least one field (SCH-1).", CORRUPT, (3, "SCH-1"))


def _lists(count: int) -> Any:
    kind: Any = "long"
    for identity in range(10, 10 + count):
        kind = list_of(kind, identity)
    return kind


def _arrays(count: int) -> Any:
    value: Any = None
    for _ in range(count):
        value = [value]
    return value


def times() -> Iterator[Maker]:
    """Yield repeated time versions (TIM-2)."""

    def carry(entry: Json) -> None:
        entry["time_version"] = START + 2 * HOUR

    maker = three("time-carried")
    application = {"id": "a", "version": 1, "digest": None}
    maker.commit("INSERT", "WRITE", application=application, change=carry)
    maker.commit("INSERT", "WRITE", application={**application, "version": 2})
    shown = [(START + 2 * HOUR, 3), (START + 3 * HOUR, 3), (START + 4 * HOUR, 4)]
    why = "An entry without changes of rows or metadata may repeat the last time version (TIM-2)."
    yield maker.good(why, times=shown)

    maker = three("time-carried-rows")
    maker.append({"x": 5}, change=carry)
    yield maker.broken("Rows are added at an old time version (TIM-2).", CORRUPT, (3, "TIM-2"))

    maker = three("time-carried-delete")
    maker.commit("UPDATE", "DELETE", delete={1: ([0], [])}, change=carry)
    yield maker.broken("A row is deleted at an old time version (TIM-2).", CORRUPT, (3, "TIM-2"))

    maker = three("time-own-compaction")
    file = maker.file([{"x": x} for x in (1, 2, 3, 4)])
    own = START + 3 * HOUR
    maker.commit(
        "MAJOR_COMPACT", "OPTIMIZE", (file,), (1, 2), change=lambda e: e.update(time_version=own)
    )
    why = "A compaction has a new time version (TIM-2)."
    yield maker.broken(why, CORRUPT, (3, "TIM-2"))


def types() -> Iterator[Maker]:
    """Yield type changes that are not widenings (SCH-9)."""
    narrow, wide = ([field(1, "x", kind)] for kind in ("integer", "long"))
    other = [field(1, "x", "decimal(12,2)")]
    maker = Maker("type-restored", narrow)
    first = maker.append({"x": 1}, {"x": 2})
    maker.commit("METADATA", "ALTER", metadata=schema_of(wide))
    maker.append({"x": 2**40})
    maker.commit("OVERWRITE", "RESTORE", (), (2,), metadata=schema_of(narrow))
    maker.commit("METADATA", "ALTER", metadata=schema_of(other))
    maker.commit("OVERWRITE", "RESTORE", (first,), (1,), metadata=schema_of(wide))
    why = "Restores bring back a narrower type, and one that is wider in another way (SCH-9)."
    yield maker.good(why, rows=plain_rows([{"x": 1}, {"x": 2}]))

    changes: dict[str, tuple[str, Any, Any, Json | None]] = {
        "narrower": ("METADATA", "long", "integer", None),
        "text": ("METADATA", "long", "string", None),
        "digits": ("METADATA", "decimal(10,2)", "decimal(11,4)", None),
        "element": ("METADATA", list_of("long", 2), list_of("integer", 2), None),
        "list": ("METADATA", list_of("long", 2), "long", None),
        "restored-text": ("OVERWRITE", "long", "string", None),
        "restored-part": ("OVERWRITE", "long", "integer", {"predicate": "x = 1"}),
    }
    for name, (kind, before, after, scope) in changes.items():
        maker = Maker(f"type-{name}", [field(1, "x", before)])
        metadata = schema_of([field(1, "x", after)])
        metadata["schema"]["last_id"] = max(
            metadata["schema"]["last_id"], maker.metadata["schema"]["last_id"]
        )
        maker.commit(kind, "ALTER", metadata=metadata, scope=scope)
        why = "A type that SCH-9 does not allow, and that no restore can bring back."
        yield maker.broken(why, CORRUPT, (1, "SCH-9"))


def missing() -> Iterator[Maker]:
    """Yield logs with missing versions (LOG-8)."""
    maker = behind_checkpoints("expired-first")
    del maker.objects[maker.key(0)]
    why = "Version 0 is never removed, whatever expired (LOG-8, ENT-13)."
    findings = [(0, "LOG-2"), (5, "LOG-8")]
    yield maker.broken(why, "LogGapError", *findings, also="LOG-2")

    maker = behind_checkpoints("expired-newest")
    key = maker.key(len(maker.documents) - 1)
    maker.objects[key] = maker.objects[key][:-9]
    why = "The newest entry, which has the retention horizon, is damaged (LOG-8)."
    lost = [(1, "LOG-2"), (5, "LOG-2")]
    yield maker.broken(why, CORRUPT, *lost, (len(maker.documents) - 1, "ENT-1"))

    for name in ("horizon-lost", "horizon-lost-checkpoint"):
        maker = grown(name)
        let_go(maker, 4)
        if name == "horizon-lost-checkpoint":
            checkpoint(maker)
        maker.append({"x": 30, "p": "b"})
        maker.objects.pop("_log/hint.json", None)
        del maker.objects[maker.key(2)]
        if name == "horizon-lost":
            why = (
                "An entry below the retention horizon is lost; no checkpoint has the state (LOG-8)."
            )
            yield maker.broken(why, "CorruptTableError", (2, "LOG-8"))
            continue
        why = "Below a retention horizon without `log`, a checkpoint replaces a lost entry (LOG-8)."
        yield maker.good(why)


def touching() -> Maker:
    """Make a table with a set of positions that splits a run (DEL-2)."""
    maker = two_files("positions-runs-touch")
    runs = struct.pack("<HHHHH", 2, 0, 1, 2, 1)
    head = struct.pack("<QIIB", 1, 0, 12347, 1) + struct.pack("<HH", 0, 3)
    text = base64.b64encode(head + runs).decode()
    maker.commit(
        "UPDATE",
        "DELETE",
        delete={1: ([0, 1, 2, 3], [])},
        change=lambda entry: entry["delete"].update(deleted=[text]),
    )
    return maker.broken("Runs 0 to 1 and 2 to 3 are one run (DEL-2).", CORRUPT, (3, "DEL-2"))
