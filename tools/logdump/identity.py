"""Identity columns of a table, from its properties and its application versions (IDN-1, IDN-2)."""

from __future__ import annotations

import json

from logdump.shapes import Json

LEAST, MOST = -(2**63), 2**63 - 1


def identity_in(metadata: Json, applications: dict[str, int]) -> Json:
    """Return the definition and the counter of each identity column, by its name."""
    found: Json = {}
    for column in metadata["schema"]["fields"]:
        text = metadata["properties"].get(f"identity.{column['id']}")
        said = None if text is None or column["type"] != "long" else definition_of(text)
        if said is not None:
            counter = applications.get(f"_identity.{column['id']}", 0)
            found[column["name"]] = {"skip": 0, **said, "counter": counter}
    return {name: found[name] for name in sorted(found)}


def definition_of(text: str) -> Json | None:
    """Return the definition that a value holds; None if it holds none."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    if not isinstance(said, dict) or set(said) - {"skip"} != {"always", "start", "step"}:
        return None
    numbers = [said[name] for name in said if name != "always"]
    whole = all(type(each) is int and LEAST <= each <= MOST for each in numbers)
    if not whole or type(said["always"]) is not bool:
        return None
    return said if said["step"] and said.get("skip", 1) > 0 else None
