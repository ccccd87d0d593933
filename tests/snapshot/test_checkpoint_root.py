"""Every field of a checkpoint's root is checked, at its limits. Spec: CKP-2 .. CKP-5, CKP-9."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyroaring import BitMap64

import tablefmt
from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.object_names import entry_key
from tablefmt.model.positions import encode_positions
from tablefmt.snapshot.checkpoint_reader import sound_root
from tablefmt.snapshot.checkpoint_root import (
    LINES_MAX,
    SEGMENT_LINES_MAX,
    decode_root,
    encode_root,
)
from tablefmt.store.object_store import PARQUET_BYTES_MAX
from tests.snapshot.forged import signed_root
from tests.tables import contents_of, memory, rows

HEX = "0" * 64

WRONG: dict[str, dict[str, Any]] = {
    "an unknown field": {"more": 1},
    "no path": {"path": None},
    "a path elsewhere": {"path": "data/a.parquet"},
    "no digest": {"sha256": HEX[1:]},
    "no digest of the footer": {"footer_sha256": HEX + "0"},
    "too short": {"size": 11, "footer": 8},
    "a footer that is too short": {"footer": 7},
    "a footer longer than the part": {"footer": 1 << 20},
    "no files": {"files": 0},
    "too long": {"size": PARQUET_BYTES_MAX + 1},
    "too many lines": {"files": SEGMENT_LINES_MAX + 1},
    "more files than the entry": {"files": 2},
    "more rows than the entry": {"rows": 2},
    "ids of later versions": {"ids": [1, 2]},
    "a later version": {"added": 2},
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
        for key, body in contents_of(table.context.store).items()
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
    limits = ({"size": PARQUET_BYTES_MAX}, {"added": 1}, {"rows": None})
    for good in ({"size": 12, "footer": 8}, {"size": 12, "footer": 12}, {"added": 0}, *limits):
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


def test_lines_without_a_live_file_exist(root: tuple[str, dict[str, Any]]) -> None:
    """CKP-3: some lines of the part, and at least one line stays."""

    def part(files: int, *places: int) -> dict[str, Any]:
        return {"files": files, "gone": encode_positions(BitMap64(places))}

    (found,) = decode_root(*changed(root, part(3, 0, 2))).segments
    assert (found.files, list(found.gone or ())) == (3, [0, 2])
    for wrong in (part(1), part(2, 2), part(3, 0, 3), part(1, 0), part(2, 0, 1)):
        with pytest.raises(CorruptTableError):
            decode_root(*changed(root, wrong))
    for wrong in ({"files": 2, "gone": "x"}, {"files": 2, "gone": 1}, {"files": 2, "gone": ""}):
        with pytest.raises(CorruptTableError):
            decode_root(*changed(root, wrong))


def test_a_segment_without_a_live_file_is_refused() -> None:
    """CKP-3: though the sums of all segments are right."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1))
    table.append(rows(2))
    table.delete("id = 2")
    table.checkpoint()
    bodies = contents_of(table.context.store)
    key = max(key for key in bodies if key.startswith("_log/checkpoints/0"))
    document = json.loads(bodies[key])
    (segment,) = document["segments"]
    assert decode_root(bodies[key], key).head.totals.files == 1
    gone = {"ids": [2, 2], "files": 1, "gone": encode_positions(BitMap64([0])), "rows": None}
    more = [segment, {**segment, "path": segment["path"].replace("0", "1"), **gone}]
    with pytest.raises(CorruptTableError, match="a segment holds no file"):
        decode_root(signed_root(document | {"segments": more}), key)


@pytest.mark.parametrize(
    ("files", "times", "said"),
    [
        (SEGMENT_LINES_MAX, 1, None),
        (SEGMENT_LINES_MAX + 1, 1, "a segment has more than 1048576 lines"),
        (SEGMENT_LINES_MAX, LINES_MAX // SEGMENT_LINES_MAX, None),
        (SEGMENT_LINES_MAX, LINES_MAX // SEGMENT_LINES_MAX + 1, "134217728 lines together"),
    ],
)
def test_no_root_is_written_that_a_reader_refuses(
    root: tuple[str, dict[str, Any]], files: int, times: int, said: str | None
) -> None:
    """CKP-2, CKP-3: too many lines in one segment, or in all together."""
    known = decode_root(*changed(root, {}))
    (segment,) = known.segments
    whole = replace(known, segments=(replace(segment, files=files),) * times)
    if said is None:
        assert encode_root(whole)
        return
    with pytest.raises(UnsupportedFeatureError, match=said):
        encode_root(whole)


def test_a_part_of_deletes_has_lines(root: tuple[str, dict[str, Any]]) -> None:
    """CKP-3: at least one, under a name of its own."""
    key, document = root
    path = f"_log/checkpoints/parts/{'0' * 32}.parquet"
    names = ("path", "size", "sha256", "footer", "footer_sha256", "files")
    part = {name: document["segments"][0][name] for name in names} | {"path": path}
    (found,) = decode_root(signed_root(document | {"deletes": [part]}), key).deletes
    assert (found.path, found.files) == (path, 1)
    same = part | {"path": document["segments"][0]["path"]}
    for wrong in (part | {"files": 0}, part | {"rows": 1}, same):
        with pytest.raises(CorruptTableError):
            decode_root(signed_root(document | {"deletes": [wrong]}), key)


CURSOR = {"source": "ab" * 16, "name": "", "to": 1, "digest": HEX, "at": 1}
ENDS: dict[str, dict[str, Any]] = {
    "no cursors": {"cursors": []},
    "a cursor without a version": {"cursors": [{k: v for k, v in CURSOR.items() if k != "at"}]},
    "a cursor with another field": {"cursors": [CURSOR | {"more": 1}]},
    "a cursor of no source": {"cursors": [CURSOR | {"source": "x"}]},
    "a cursor that is too old": {"cursors": [CURSOR | {"to": -2}]},
    "a cursor of a later version": {"cursors": [CURSOR | {"at": 2}]},
    "a cursor before version 0": {"cursors": [CURSOR | {"at": -1}]},
    "a location that is no text": {"cursors": [CURSOR | {"location": 1}]},
    "cursors in another order": {"cursors": [CURSOR | {"name": "b"}, CURSOR | {"name": "a"}]},
    "a cursor twice": {"cursors": [CURSOR, CURSOR]},
    "a later description": {"described": 2},
    "a description before version 0": {"described": -1},
    "a later creation": {"created": 1 << 60},
    "another format": {"format": 2},
    "no table": {"table": "x"},
    "no digest": {"digest": "x"},
    "a field more": {"more": 1},
}


@pytest.mark.parametrize("name", ENDS)
def test_a_wrong_field_of_the_root_is_refused(root: tuple[str, dict[str, Any]], name: str) -> None:
    """CKP-2: the error names the object and the rule."""
    key, document = root
    with pytest.raises(CorruptTableError) as caught:
        decode_root(signed_root(document | ENDS[name]), key)
    assert (caught.value.key, caught.value.rule) == (key, "CKP-2")
    assert "CKP-2" in str(caught.value)
    assert "KeyError" not in str(caught.value)


def test_sound_cursors_are_read(root: tuple[str, dict[str, Any]]) -> None:
    """CKP-2: at the limits of their versions, in the order of source and name."""
    key, document = root
    cursors = [CURSOR | {"at": 0}, CURSOR | {"name": "b", "location": "s3://b/t"}]
    found = decode_root(signed_root(document | {"cursors": cursors}), key).head.cursors
    assert [(*place, one.to, one.at, one.location) for place, one in found.items()] == [
        ("ab" * 16, "", 1, 0, None),
        ("ab" * 16, "b", 1, 1, "s3://b/t"),
    ]


def test_a_root_belongs_to_one_version_of_one_log() -> None:
    """CKP-5: another entry, another version in the name, or a total that differs."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1))
    table.checkpoint()
    table.append(rows(2))
    stored = contents_of(table.context.store)
    ((key, body),) = ((k, b) for k, b in stored.items() if k.startswith("_log/checkpoints/0"))
    entry, later = stored[entry_key(1)], stored[entry_key(2)]
    assert sound_root(body, entry, key).head.version == 1

    def refused(body: bytes | None, entry: bytes | None, key: str, reason: str) -> None:
        with pytest.raises(CorruptTableError, match=reason):
            sound_root(body, entry, key)

    refused(body, later, key, "belongs to another log")
    refused(body, entry, key.replace("1.", "2.", 1), "belongs to another log")
    refused(None, entry, key, "is missing")
    refused(body, None, key, "is missing")
    document = json.loads(body)
    for name, by in (("timestamp", 1), ("time_version", -1)):
        wrong = document | {name: document[name] + by}
        refused(signed_root(wrong), entry, key, "differs from its entry")
    wrong = document | {"totals": document["totals"] | {"rows": 1, "bytes": 1}}
    refused(signed_root(wrong), entry, key, "differs from its entry")
