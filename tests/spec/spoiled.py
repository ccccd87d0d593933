"""Golden tables with one value of one entry replaced, sealed as if a writer had meant it."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from golden import maker

from tests.places import GOLDEN

CASES = ["partitions", "partition-types", "side-file", "all-types", "compacted", "applications"]
CASES += [
    "pipes",
    "pipes-restored",
    "deletes",
    "deletes-side",
    "copy-on-write",
    "lineage-over-delete",
    "keys",
]
PLAIN = [None, True, 0, -1, 2**63, 10**30, 1.5, "", "..", "NaN", "0" * 32]
NESTED: list[Any] = [
    [],
    {},
    [None],
    [[]],
    ["a", "a"],
    {"a": 1},
    {"side": 1},
    {"side": {}},
    {"struct": 1},
]


def spoil(data: st.DataObject, folder: Path) -> int:
    """Copy a golden table into `folder`, spoil its last entry; gives that entry's version."""
    case = data.draw(st.sampled_from(CASES))
    shutil.copytree(GOLDEN / case / "table", folder, dirs_exist_ok=True)
    last = sorted((folder / "_log").glob("*.json"))[-1]
    entry = json.loads(last.read_bytes())
    del entry["checksum"]
    spoiled = copy.deepcopy(entry)
    *way, key = data.draw(st.sampled_from(_places(entry)))
    target = spoiled
    for step in way:
        target = target[step]
    target[key] = data.draw(st.sampled_from([*PLAIN, *NESTED]))
    text = json.dumps(spoiled, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    last.write_bytes(maker.seal(text.encode()))
    return int(last.name[:20])


def _places(document: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    found = [before] if before else []
    for key, value in inner:
        nested = isinstance(value, (dict, list))
        found += _places(value, (*before, key)) if nested else [(*before, key)]
    return found
