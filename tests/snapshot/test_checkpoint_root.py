"""Every field of a part in a checkpoint's root is checked, at its limits. Spec: CKP-3, CKP-4."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import CorruptTableError
from tablefmt.snapshot.checkpoint_root import decode_root
from tests.snapshot.forged import objects, signed_root
from tests.tables import memory, rows

HEX = "0" * 64

WRONG: dict[str, dict[str, Any]] = {
    "an unknown field": {"more": 1},
    "no path": {"path": None},
    "a path elsewhere": {"path": "data/a.parquet"},
    "no digest": {"sha256": HEX[1:]},
    "no digest of the footer": {"footer_sha256": HEX + "0"},
    "too short": {"size": 11},
    "a footer that is too short": {"footer": 7},
    "a footer longer than the part": {"footer": 1 << 20},
    "no files": {"files": 0},
    "a truth for a number": {"files": True},
    "no rows": {"rows": 0},
    "a negative version": {"added": -1},
    "ids from 0": {"ids": [0, 1]},
    "ids backwards": {"ids": [2, 1]},
    "ids that are no numbers": {"ids": ["1", "2"]},
    "one id": {"ids": [1]},
    "an unknown bound": {"bounds": {"1": {"middle": 1}}},
    "a bound of no field": {"bounds": {"0": {"lower": 1}}},
    "a negative number of NULLs": {"bounds": {"1": {"nulls": -1}}},
    "a number of NaN that is none": {"bounds": {"1": {"nans": 0.5}}},
}


@pytest.fixture(scope="module")
def root() -> tuple[str, dict[str, Any]]:
    """Return the key and the document of a checkpoint of one file with one row."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1))
    table.checkpoint()
    ((key, body),) = (
        (key, body)
        for key, body in objects(table.context.store).items()
        if key.startswith("_log/checkpoints/0")
    )
    return key, json.loads(body)


def changed(root: tuple[str, dict[str, Any]], change: dict[str, Any]) -> tuple[bytes, str]:
    key, document = root
    (segment,) = document["segments"]
    return signed_root(document | {"segments": [segment | change]}), key


def test_the_smallest_part_is_sound(root: tuple[str, dict[str, Any]]) -> None:
    (part,) = decode_root(*changed(root, {})).segments
    assert (part.files, part.ids) == (1, (1, 1))
    for good in ({"size": 12, "footer": 8}, {"size": 12, "footer": 12}, {"added": 0}):
        (part,) = decode_root(*changed(root, good)).segments
        assert {name: getattr(part, name) for name in good} == good
    zeros = {"bounds": {"1": {"nulls": 0, "nans": 0}}}
    (part,) = decode_root(*changed(root, zeros)).segments
    assert part.bounds == zeros["bounds"]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_part_is_refused(root: tuple[str, dict[str, Any]], name: str) -> None:
    with pytest.raises(CorruptTableError):
        decode_root(*changed(root, WRONG[name]))


@pytest.mark.parametrize("name", ["path", "size", "sha256", "ids", "bounds", "gone", "rows"])
def test_a_missing_field_is_refused(root: tuple[str, dict[str, Any]], name: str) -> None:
    key, document = root
    (segment,) = document["segments"]
    left = {k: v for k, v in segment.items() if k != name}
    with pytest.raises(CorruptTableError):
        decode_root(signed_root(document | {"segments": [left]}), key)
