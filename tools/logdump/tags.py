"""Tags of a table, from its properties (TAG-1)."""

from __future__ import annotations

import json

from logdump.shapes import Json

LAST_TIME = 253402300799999999
"""The end of 9999 in µs since 1970 UTC."""


def tags_in(properties: Json) -> Json:
    """Return the version, and perhaps the end, of each tag by name."""
    found = {key[4:]: tag_of(text) for key, text in properties.items() if key.startswith("tag.")}
    return {name: found[name] for name in sorted(found) if found[name] is not None}


def tag_of(text: str) -> Json | None:
    """Return the tag that a value describes; None if it describes none."""
    try:
        tag = json.loads(text)
    except ValueError:
        return None
    if not isinstance(tag, dict) or tag.keys() - {"version", "until"} or "version" not in tag:
        return None
    bounds = {"version": 2**63 - 1, "until": LAST_TIME}
    fits = (type(n) is int and 0 <= n <= bounds[key] for key, n in tag.items())
    return tag if all(fits) else None
