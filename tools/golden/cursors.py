"""Golden tables with rows from other tables: derived_from, cursors (ENT-15, ENT-16, RPL-7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from golden.checkpoints import checkpoint, grown
from golden.maker import CORRUPT, Json, Maker, hex_of, three

HERE, THERE = sorted((hex_of("source", 1), hex_of("source", 2)))


def derived(source: str, start: int | None, to: int, name: str = "", **more: Any) -> Json:
    """Return `derived_from` of an entry that copied the versions after `start`, up to `to`."""
    digest = hex_of(source, to, digits=64)
    return {"source": source, "name": name, "from": start, "to": to, "digest": digest, **more}


def back(source: str, to: int | None, name: str = "") -> Json:
    """Return a cursor that a restore resets."""
    digest = None if to is None else hex_of(source, to, digits=64)
    return {"source": source, "name": name, "to": to, "digest": digest}


def taken(name: str) -> Maker:
    """Copy two sources, one of them by two pipes: versions 1 to 4."""
    maker = Maker(name, [{"id": 1, "name": "x", "nullable": True, "physical": "x", "type": "long"}])
    maker.append({"x": 1}, derived_from=derived(HERE, None, 3, location="s3://bucket/here"))
    maker.append({"x": 2}, derived_from=derived(THERE, None, 0, "naïve / 2"))
    maker.append({"x": 3}, derived_from=derived(HERE, 3, 4))
    # Nothing of what it took was kept.
    maker.commit("INSERT", "WRITE", derived_from=derived(HERE, None, 9, "other"))
    return maker


def pipes() -> Iterator[Maker]:
    """Yield tables with valid and with invalid cursors."""
    maker = taken("pipes")
    maker.commit("UPDATE", "MERGE", delete={1: ([0], [])}, derived_from=derived(HERE, 4, 11))
    yield maker.good(
        "Cursors by source and name; an entry may move one and nothing else (ENT-15, RPL-7).",
        cursors=[[HERE, "", 11, 5], [HERE, "other", 9, 4], [THERE, "naïve / 2", 0, 2]],
    )

    maker = taken("pipes-restored")
    restored = [back(HERE, 3), back(HERE, None, "other")]
    maker.commit("OVERWRITE", "RESTORE", (), (3,), cursors=restored)
    maker.append({"x": 4}, derived_from=derived(HERE, None, 2, "other"))
    yield maker.good(
        "A restore resets cursors; a reset cursor may start again from nothing (ENT-16, RET-3).",
        cursors=[[HERE, "", 3, 5], [HERE, "other", 2, 6], [THERE, "naïve / 2", 0, 2]],
    )

    maker = grown("pipes-checkpoint")
    maker.commit("INSERT", "WRITE", derived_from=derived(HERE, None, 3, location="here"))
    maker.commit("INSERT", "WRITE", derived_from=derived(THERE, None, 1))
    maker.commit("OVERWRITE", "RESTORE", cursors=[back(THERE, None)])
    checkpoint(maker)
    maker.commit("INSERT", "WRITE", derived_from=derived(HERE, 3, 4))
    yield maker.good(
        "Cursors are in the root of a checkpoint (CKP-2).",
        cursors=[[HERE, "", 4, 9], [THERE, "", None, 8]],
    )
    yield from spoiled_pipes()


def spoiled_pipes() -> Iterator[Maker]:
    """Yield tables with invalid cursors."""
    for name, own, why in (
        ("elsewhere", derived(HERE, 2, 3), "Continues a source that was never copied."),
        ("again", derived(HERE, None, 5), "Copies a source from its start twice."),
    ):
        maker = taken(f"pipes-{name}") if name == "again" else three(f"pipes-{name}")
        maker.append({"x": 9}, derived_from=own)
        version = len(maker.documents) - 1
        yield maker.broken(f"{why}", CORRUPT, (version, "RPL-7"))

    maker = three("pipes-unknown-back")
    maker.commit("OVERWRITE", "RESTORE", cursors=[back(HERE, None)])
    yield maker.broken("Resets a cursor that does not exist.", CORRUPT, (3, "RPL-7"))

    fields: dict[str, Callable[[Json], object]] = {
        "nothing": lambda one: one.update({"from": 4}),
        "source": lambda one: one.update(source="here"),
        "name": lambda one: one.update(name="é" * 513),
        "location": lambda one: one.update(location=""),
        "no-digest": lambda one: one.update(digest=None),
        "below": lambda one: one.update({"from": -1}),
    }
    for name, change in fields.items():
        maker = three(f"pipes-bad-{name}")
        own = derived(HERE, None, 4)
        change(own)
        maker.append({"x": 9}, derived_from=own)
        yield maker.broken("An invalid cursor.", CORRUPT, (3, "ENT-15"), also="ENT-2")

    maker = taken("pipes-bad-both")
    maker.commit("OVERWRITE", "RESTORE", cursors=[back(HERE, 3)], derived_from=derived(HERE, 4, 5))
    yield maker.broken("Moves a cursor and resets others.", CORRUPT, (5, "ENT-15"))

    backs: dict[str, tuple[str, list[Json]]] = {
        "order": ("OVERWRITE", [back(THERE, None, "naïve / 2"), back(HERE, 3)]),
        "half": ("OVERWRITE", [{**back(HERE, 3), "digest": None}]),
        "class": ("INSERT", [back(HERE, 3)]),
        "empty": ("OVERWRITE", []),
    }
    for name, (kind, cursors) in backs.items():
        maker = taken(f"pipes-back-{name}")
        maker.commit(kind, "RESTORE", cursors=cursors)
        why = "Resets invalid cursors, or resets cursors in an entry that must not."
        yield maker.broken(why, CORRUPT, (5, "ENT-16"), also="ENT-15")
