"""Track the cursors of a table: from spec/ alone."""

from __future__ import annotations

import re
from typing import Any

from logdump.shapes import Json, natural, require

HEX32, HEX64 = re.compile(r"[0-9a-f]{32}\Z"), re.compile(r"[0-9a-f]{64}\Z")

Key = tuple[str, str]


def text_within(value: Any, least: int, most: int) -> bool:
    """Return True for text of at most this many bytes."""
    return isinstance(value, str) and least <= len(value.encode()) <= most


CURSOR: dict[str, Any] = {"source": HEX32, "name": lambda value: text_within(value, 0, 1024)}
LOCATION = {"location?": lambda value: text_within(value, 1, 4096)}
DERIVED = {**CURSOR, **LOCATION, "from": (None, natural), "to": natural, "digest": HEX64}
BACK = {**CURSOR, "to": (None, natural), "digest": (None, HEX64)}
KEPT = {**BACK, **LOCATION, "at": natural}
"""A cursor in the root of a checkpoint (CKP-2)."""


def check_cursors(entry: Json) -> None:
    """Refuse invalid cursors, and cursors of an entry that must have none (ENT-15, ENT-16)."""
    derived, back = entry.get("derived_from"), entry.get("cursors")
    if derived is not None:
        rises = derived["from"] is None or derived["from"] < derived["to"]
        require(rises, "ENT-15", "takes no version of its source")
        alone = not {"cursors", "ends", "horizon"} & entry.keys()
        require(alone, "ENT-15", "has derived_from, and does something that has none")
    if back is not None:
        keys = [(one["source"], one["name"]) for one in back]
        sound = keys and keys == sorted({*keys})
        sound = sound and all((one["to"] is None) == (one["digest"] is None) for one in back)
        require(sound, "ENT-16", "takes cursors back that are none, or not in order")
        whole = entry["basis"]["scope"] is None and entry["operation"]["class"] == "OVERWRITE"
        require(whole, "ENT-16", "takes cursors back, and is no OVERWRITE of the whole table")


def cursors_after(before: dict[Key, Json], entry: Json, version: int) -> dict[Key, Json]:
    """Return the cursors after an entry (RPL-7)."""
    cursors = dict(before)
    for back in entry.get("cursors", ()):
        key = (back["source"], back["name"])
        require(key in cursors, "RPL-7", f"takes back the cursor {key}, which there is not")
        cursors[key] = {**cursors[key], **back, "at": version}
    derived = entry.get("derived_from")
    if derived is not None:
        key = (derived["source"], derived["name"])
        known = cursors.get(key, {})
        same = derived["from"] == known.get("to")
        require(same, "RPL-7", f"takes up a source elsewhere than after {known.get('to')}")
        moved = {name: derived[name] for name in ("source", "name", "to", "digest")}
        location = derived.get("location", known.get("location"))
        cursors[key] = {**moved, "at": version}
        cursors[key] |= {} if location is None else {"location": location}
    return cursors
