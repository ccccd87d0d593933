"""Golden cases of logs whose first entries were or may be removed (LOG-8, ENT-13)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from golden.checkpoints import checkpoint, grown
from golden.maker import CORRUPT, HOUR, START, Json, Maker, hex_of, three
from golden.newer import Change, let_go

FEATURE = {"reader": ["logExpiry"], "writer": ["logExpiry"]}


def expired() -> Iterator[Maker]:
    """Yield logs whose first entries were removed (LOG-8)."""
    why = "Expired entries and the checkpoints with their state are missing (LOG-8)."
    maker = _expired("expired")
    for version in (1, 2, 3):
        del maker.objects[maker.key(version)]
    yield maker.broken(why, "CorruptTableError", (1, "LOG-8"))

    maker = _expired("expired-not-yet")
    maker.append({"x": 6})
    yield maker.good("Entries have expired and still exist (ENT-13).", oldest=4)

    changes: dict[str, Change] = {
        "one": lambda log: log["checkpoints"].pop(),
        "above": lambda log: log.update(version=5),
        "previous": lambda log: log.update(previous=None),
        "path": lambda log: log["checkpoints"][0].update(path="data/x"),
    }
    for name, change in changes.items():
        maker = _expired(f"expired-{name}", change)
        why = "An invalid retention horizon with `log`."
        yield maker.broken(why, CORRUPT, (5, "ENT-13"))

    maker = three("expired-feature")
    let_go(maker, 2, lambda e: e["horizon"].update(log=_log(maker, 2)))
    why = "Entries expire without the feature `logExpiry`."
    yield maker.broken(why, CORRUPT, (3, "VER-4"))

    yield from without_beginning()


def without_beginning() -> Iterator[Maker]:
    """Yield logs: checkpoints of version 7 replace earlier entries, then versions 8 to 10."""
    maker = behind_checkpoints("expired-checkpoints")
    # Version 8 has no time of its own, and is what the time of version 7 shows.
    times = [[START + version * HOUR, max(version, 8)] for version in range(7, 11)]
    why = "Expired entries are missing; two checkpoints hold their state (LOG-8, RET-9, ENT-13)."
    yield maker.good(why, oldest=7, times=times)

    for name, rule in (("root", "CKP-2"), ("part", "CKP-3")):
        maker = behind_checkpoints(f"expired-lost-{name}")
        named = hex_of(maker.name, "second root" if name == "root" else "second segment")
        for path in [path for path in maker.objects if named in path]:
            raw = bytearray(maker.objects[path])
            raw[len(raw) // 3] ^= 1
            maker.objects[path] = bytes(raw)
        why = f"A {name} of one of the two is damaged: the other has the same state (LOG-8, RET-9)."
        yield maker.good(why, oldest=7, remarks=[[7, rule]])

    maker = behind_checkpoints("expired-old-hint", older=True)
    why = "The hint names a checkpoint from before the expiry: the newest one counts (LOG-6)."
    yield maker.good(why, oldest=7)

    maker = behind_checkpoints("expired-gap")
    del maker.objects[maker.key(9)]
    why = "Version 9 is missing and did not expire: this is damage, whatever expired below (LOG-8)."
    yield maker.broken(why, "LogGapError", (9, "LOG-2"))

    maker = behind_checkpoints("expired-lost")
    for path in _roots(maker):
        del maker.objects[path]
    why = "Both checkpoints with the state of expired entries are lost (LOG-8)."
    yield maker.broken(why, "CorruptTableError", (1, "LOG-8"), (5, "LOG-8"))


def _expired(name: str, change: Change | None = None) -> Maker:
    """Make versions 0 to 5; the last one expires the entries below version 4."""
    maker = three(name)
    maker.commit("PROTOCOL", "UPGRADE", protocol=FEATURE)
    maker.append({"x": 5})

    def lets_go(entry: Json) -> None:
        log = _log(maker, 4)
        if change is not None:
            change(log)
        entry["horizon"]["log"] = log

    let_go(maker, 4, lets_go)
    return maker


def _log(maker: Maker, version: int) -> Json:
    """Return a `horizon.log` that names two missing checkpoints."""
    checkpoints = [
        {
            "path": f"_log/checkpoints/{version:020d}.{hex_of(maker.name, 'root', at)}.json",
            "sha256": hex_of(maker.name, at, digits=64),
            "size": 1000,
            "version": version,
        }
        for at in range(2)
    ]
    previous = maker.documents[version]["previous"]
    return {"checkpoints": checkpoints, "previous": previous, "version": version}


def behind_checkpoints(name: str, *, older: bool = False) -> Maker:
    """Make versions 0 to 10, without entries below 7 that have no metadata.

    `older`: the hint names version 5, whose checkpoint still exists.
    """
    maker = grown(name)
    if older:
        checkpoint(maker, copy="older ")
    hint = maker.objects.get("_log/hint.json")
    maker.commit("PROTOCOL", "UPGRADE", protocol=FEATURE)
    maker.append({"x": 30, "p": "b"})
    for copy in ("", "second "):
        checkpoint(maker, copy=copy)
    if hint is not None:
        maker.objects["_log/hint.json"] = hint
    paths = [path for path in _roots(maker) if f"/{7:020d}." in path]
    log = {
        "checkpoints": [
            {
                "path": path,
                "sha256": hashlib.sha256(maker.objects[path]).hexdigest(),
                "size": len(maker.objects[path]),
                "version": 7,
            }
            for path in paths
        ],
        "previous": maker.documents[7]["previous"],
        "version": 7,
    }
    let_go(maker, 7, lambda entry: entry["horizon"].update(log=log))
    maker.append({"x": 40, "p": "a"})
    maker.commit("UPDATE", "DELETE", delete={1: ([0], [])})
    for version in (1, 2, 3, 5, 6):
        del maker.objects[maker.key(version)]
    return maker


def _roots(maker: Maker) -> list[str]:
    return sorted(path for path in maker.objects if path.startswith("_log/checkpoints/0"))
