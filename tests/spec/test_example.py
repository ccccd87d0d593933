"""The entry that spec/examples/entry.md explains is one, and every part of it is explained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import logdump
import pytest

import tablefmt
from tests.places import ROOT

PAGE = (ROOT / "spec/examples/entry.md").read_text(encoding="utf-8")
SCHEMA = json.loads((ROOT / "spec/schemas/entry.schema.json").read_text(encoding="utf-8"))
BLOCK = re.compile(r"^```json\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^### `(\w+)`\n```json\n(.*?)\n```\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)


pytestmark = pytest.mark.broken_tables  # there is a log, and none of its data files


def log() -> list[str]:
    """The entries 0, 1 and 2, to the byte."""
    whole = [block for block in BLOCK.findall(PAGE) if block.endswith('"}') and "\n" not in block]
    entries = {json.loads(text).get("version"): text for text in whole if "checksum" in text}
    return [entries[version] for version in range(3)]


def test_the_example_is_a_sound_log(tmp_path: Path) -> None:
    """ENT-1, ENT-3, LOG-1, RPL-3: the JSON Schema, both readers and the checksums accept it."""
    (tmp_path / "_log").mkdir()
    for version, text in enumerate(log()):
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(text))
        (tmp_path / "_log" / f"{version:020}.json").write_text(text, encoding="utf-8")

    read = logdump.read(str(tmp_path))

    assert read["findings"] == []
    assert read["state"]["version"] == 2
    assert [(f["id"], f["rows"], f["deleted"]) for f in read["state"]["files"]] == [
        (1, 50, 3), (3, 1, 0), (4, 1, 0),
    ]  # fmt: skip
    table = tablefmt.open(str(tmp_path))
    assert table.version == 2
    assert table.history().column("operation").to_pylist() == ["MERGE", "WRITE", "CREATE TABLE"]


def test_every_field_of_it_is_explained_as_it_stands() -> None:
    """ENT-3: no field is left out, and none is shown with another value."""
    entry: dict[str, Any] = json.loads(log()[2])
    explained = FIELD.findall(PAGE)
    assert {name: json.loads(value) for name, value, _ in explained} == entry
    assert [name for name, *_ in explained] == list(entry)
    for name, _, text in explained:
        inside = entry[name] if isinstance(entry[name], dict) and name != "user_metadata" else {}
        assert [key for key in inside if f"`{key}`" not in text] == [], name
        assert text.strip()
