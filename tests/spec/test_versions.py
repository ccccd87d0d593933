"""The registry of features in spec/versions.md equals the one in the package."""

from __future__ import annotations

import re
from typing import Any

import orjson

from tablefmt.log import strict_json
from tablefmt.model.features import FEATURES, READER_FEATURES, WRITER_FEATURES, Support
from tests.places import GOLDEN, ROOT

PAGE = (ROOT / "spec/versions.md").read_text(encoding="utf-8")
SCHEMA = orjson.loads((ROOT / "spec/schemas/entry.schema.json").read_bytes())


def test_the_registry_is_the_page() -> None:
    """VER-1: every line, both ways."""
    lines = re.findall(
        r"^\| `(\w+)` \| ([\w, ]+) \| (\d+) \| (\w+) \| (.*?) \| (.*?) \|$", PAGE, re.M
    )
    shown = {
        name: (
            sides.split(", "),
            int(since),
            standing,
            re.findall(r"`(.+?)`", fields),
            rules.split(),
        )
        for name, sides, since, standing, fields, rules in lines
    }
    assert shown == {
        name: (
            [side for side in ("reader", "writer") if getattr(feature, side)],
            feature.since,
            feature.support.value,
            sorted(feature.fields),
            list(feature.rules),
        )
        for name, feature in FEATURES.items()
    }


def test_a_reserved_feature_is_not_known() -> None:
    """VER-3: writers know every feature of readers.

    The fields of a reserved feature are unknown names.
    """
    for name, feature in FEATURES.items():
        known_here = feature.support is Support.KNOWN
        assert (name in READER_FEATURES) == (known_here and feature.reader)
        assert (name in WRITER_FEATURES) == (known_here and feature.writer)
        assert feature.writer or not feature.reader
        for place in feature.fields:
            inside, _, last = place.rpartition(".")
            assert (last in strict_json.NAMES[inside]) == known_here


def test_every_feature_has_a_golden_table() -> None:
    """VER-4: a reserved feature is refused by its name, others are read."""
    read = {
        "generatedColumns": "generated-columns",
        "hiddenPartitions": "hidden-partitions",
        "logExpiry": "expired-not-yet",
        "importedFiles": "imported",
        "partitionEvolution": "partition-evolution",
        "identityColumns": "identity-columns",
        "tags": "tags",
    }
    named = {name for name, case in read.items() if (GOLDEN / case).exists()}
    for path in GOLDEN.glob("*/expected.json"):
        named.update(orjson.loads(path.read_bytes()).get("features", ()))
    assert named >= FEATURES.keys()


def test_the_json_schema_has_the_same_names() -> None:
    """VER-2: closed objects, and `x_` in the same ones."""

    def at(place: str) -> dict[str, Any]:
        node: dict[str, Any] = SCHEMA
        for step in place.split(".") if place else ():
            node = node["properties"][step]
            if "$ref" in node:
                node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]]
        return node

    for place, names in strict_json.NAMES.items():
        if place in ("add", "delete") or place.endswith(("scope", "side")):
            continue  # of several forms
        node = at(place)
        assert set(node["properties"]) == names, place
        assert node["additionalProperties"] is False
        assert ("patternProperties" in node) == (place in strict_json._OPEN), place
    sides = ({"side"}, {"side"})
    for name, side in zip(("add", "delete"), sides, strict=True):
        node = SCHEMA["$defs"][name]
        assert set(node["properties"]) | side == strict_json.NAMES[name]
        assert "patternProperties" in node
