"""spec/vectors/entry-text.json: both readers take any JSON text of an entry, and no other.

Spec: ENT-1, ENT-2, VAL-1, VER-2.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import logdump
import pytest
from golden.vectors import vectors
from logdump import values

import tablefmt
from tablefmt.errors import CorruptEntryError
from tablefmt.log.codec import decode, encode
from tests import oracle
from tests.oracle import assert_agrees
from tests.places import ROOT

Json = dict[str, Any]

DOCUMENT: Json = json.loads((ROOT / "spec/vectors/entry-text.json").read_text(encoding="utf-8"))
VECTORS: list[Json] = DOCUMENT["vectors"]
TAKEN = [v for v in VECTORS if v["verdict"] == "accept"]
REFUSED = [v for v in VECTORS if v["verdict"] == "refuse"]

OF_TYPES = {"ENT-3": ["ENT-2"], "VAL-1": ["ADD-1"]}

pytestmark = pytest.mark.broken_tables


def bytes_of(vector: Json) -> bytes:
    return base64.b64decode(vector["base64"]) if "base64" in vector else vector["entry"].encode()


def laid(vector: Json, folder: Path) -> str:
    (folder / "_log").mkdir()
    (folder / "_log" / f"{0:020d}.json").write_text(DOCUMENT["first"], encoding="utf-8")
    (folder / "_log" / f"{1:020d}.json").write_bytes(bytes_of(vector))
    return str(folder)


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def test_the_vectors_are_those_that_the_tool_makes() -> None:
    """Each vector has a name of its own."""
    assert vectors() == DOCUMENT
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS) > 60


@pytest.mark.parametrize("vector", TAKEN, ids=lambda vector: vector["name"])
def test_both_readers_take_any_text_of_a_value(vector: Json, tmp_path: Path) -> None:
    """ENT-1, VAL-1: the value is that of the vector, to the bit."""
    uri = laid(vector, tmp_path)
    document = logdump.read(uri)
    assert document["findings"] == []
    (file,) = document["state"]["files"]
    table = tablefmt.open(uri)
    shown = table.context.view.snapshot(1).files
    if "double" in vector:
        (key,) = file["lower"]
        package = shown[f"lower.{key}"][0].as_py()
        assert bits(package) == vector["double"]
        kind = {"1": "double", "2": "float"}[key]
        assert bits(values.decode(file["lower"][key], kind)) == vector["double"]
    if "code_points" in vector:
        ours = decode(bytes_of(vector), 1).entry.user_metadata["t"]
        theirs = document["entries"][1]["entry"]["user_metadata"]["t"]
        assert [[ord(c) for c in text] for text in (ours, theirs)] == [vector["code_points"]] * 2
    # The oracle, but for the data files, of which there are none.
    assert oracle._shown(table) == oracle._expected(document)


@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: vector["name"])
def test_both_readers_refuse_what_is_no_text_of_a_value(vector: Json, tmp_path: Path) -> None:
    """ENT-1, ENT-2: the rule is the one that the vector names."""
    uri = laid(vector, tmp_path)
    findings = logdump.read(uri)["findings"]
    assert (1, vector["rule"]) in {(f["version"], f["rule"]) for f in findings}
    with pytest.raises(CorruptEntryError) as caught:
        tablefmt.open(uri).scan().files()
    # For a value of another type, the rule of the field or of the type may be named.
    assert caught.value.rule in {vector["rule"], *OF_TYPES.get(vector["rule"], ())}


def test_what_the_package_writes_is_the_plain_form(tmp_path: Path) -> None:
    """ENT-1: an entry in any form that is written again is the same bytes."""
    plain = next(bytes_of(v) for v in TAKEN if v["name"] == "plain")
    others = [v for v in TAKEN if v["name"] in ("order", "blanks", "lines", "key escaped")]
    assert len(others) == 4
    for vector in others:
        assert encode(decode(bytes_of(vector), 1).entry) == plain
    assert encode(decode(plain, 1).entry) == plain


def test_a_writer_follows_an_entry_in_another_form(tmp_path: Path) -> None:
    """LOG-1, ENT-1, HIS-1: the chain is over the bytes as they are, and lines make no block."""
    (vector,) = (v for v in TAKEN if v["name"] == "lines")
    table = tablefmt.open(laid(vector, tmp_path))
    table.overwrite([{"d": 1.5, "f": 0.5, "n": 3}])
    for number in range(16):
        table.append([{"d": float(number), "f": None, "n": number}])
    table.checkpoint()
    assert not list((tmp_path / "_log" / "history").glob("*"))
    assert_agrees(tablefmt.open(str(tmp_path)))
    assert tablefmt.open(str(tmp_path)).count() == 17
