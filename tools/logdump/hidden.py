"""Check hidden partition fields against the specification, from spec/ alone (HID)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from logdump.shapes import Json, Refusal, fits, require

HIDDEN = {"id": int, "name": str, "source": int, "transform": str}
"""Members of a hidden partition field (HID-1)."""

TRANSFORM = re.compile(r"(year|month|day|hour)|(bucket|truncate)\[([1-9]\d{0,9})\]", re.ASCII)
NAMES = {"year", "month", "day", "hour", "bucket", "truncate"}

_TIMES = {"timestamp", "timestamp_ntz"}
_DATES = _TIMES | {"date"}
_WHOLE = {"byte", "short", "integer", "long"}
_CUT = _WHOLE | {"decimal", "string", "binary"}
_TAKES = {"year": _DATES, "month": _DATES, "day": _DATES, "hour": _TIMES}
_TAKES |= {"bucket": _CUT | _DATES, "truncate": _CUT}


def newer_hidden(schema: Any) -> list[str]:
    """Return what version 1 does not know in the hidden partition fields of a schema (VER-2)."""
    given = schema.get("hidden") if isinstance(schema, dict) else None
    found = []
    for each in given if isinstance(given, list) else ():
        if isinstance(each, dict):
            found += [f"hidden {name}" for name in each.keys() - HIDDEN]
            text = each.get("transform")
            if isinstance(text, str) and text.partition("[")[0] not in NAMES:
                found.append(f"transform {text:.100}")
    return found


def hidden_fields(schema: Json, keys: list[int], folded: Callable[[str], str]) -> dict[str, Json]:
    """Refuse hidden partition fields that break a rule; return them by id, with their types.

    `keys` partition the table. `folded` folds the case of a name.
    """
    if "hidden" not in schema:
        return {}
    given = schema["hidden"]
    require(given and fits(given, [HIDDEN]), "HID-1", f"has the hidden fields {given!r:.100}")
    ids = [each["id"] for each in given]
    require(sorted(set(ids)) == ids, "HID-1", "has hidden fields that do not ascend")
    require(set(ids) <= set(keys), "HID-1", "has hidden fields that do not partition it")
    meant = [(each["source"], each["transform"]) for each in given]
    require(len(set(meant)) == len(meant), "HID-1", "has one transform of one column twice")
    types = {field["id"]: field["type"] for field in schema["fields"]}
    found = {}
    for each in given:
        kind = _type(each["transform"], types.get(each["source"]))
        found[str(each["id"])] = {"id": each["id"], "name": each["name"], "type": kind}
    names = [folded(f["name"]) for f in schema["fields"]] + [folded(e["name"]) for e in given]
    sound = len(set(names)) == len(names) and all(
        each["name"] and "\0" not in each["name"] and len(each["name"].encode()) <= 1024
        for each in given
    )
    require(sound, "HID-2", "has a hidden field without a name of its own")
    return found


def _type(text: str, source: Any) -> str:
    match = TRANSFORM.fullmatch(text)
    if match is None or int(match[3] or 1) >= 1 << 31:
        raise Refusal("HID-1", f"has the transform {text!r:.100}")
    name = match[1] or match[2]
    plain = "decimal" if str(source).startswith("decimal(") else source
    sound = isinstance(plain, str) and plain in _TAKES[name]
    require(sound, "HID-1", f"has {text:.100} of a column of type {source!r:.100}")
    if name == "truncate":
        return str(source)
    return "date" if name == "day" else "integer"


def check_hidden_kept(schema: Json, before: Json) -> None:
    """Refuse an id that means another transform than before (HID-1)."""
    old = {each["id"]: each for each in before.get("hidden", ())}
    for each in schema.get("hidden", ()):
        was = old.get(each["id"], each)
        same = (was["source"], was["transform"]) == (each["source"], each["transform"])
        require(same, "SCH-4", f"gives the id of one hidden field to another: {each['id']}")
    columns = {field["id"] for field in schema["fields"]}
    require(not columns & set(old), "SCH-4", "gives the id of a hidden field to a column")
    hidden = {each["id"] for each in schema.get("hidden", ())}
    taken = hidden & {field["id"] for field in before["fields"]}
    require(not taken, "SCH-4", f"gives ids of columns to hidden fields: {sorted(taken)}")
