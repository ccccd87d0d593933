"""Names of a newer version at every place of an entry: reported by name, never as damage."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.log import strict_json
from tablefmt.log.codec import decode
from tablefmt.model.log_entry import (
    ApplicationTransaction,
    Constraint,
    CursorBack,
    DerivedFrom,
    KeptCheckpoint,
    Lineage,
    LogRetentionHorizon,
    Metadata,
    OperationClass,
    OverflowFile,
    PredicateScope,
    ProtocolFeatures,
    RetentionHorizon,
    RowDeletes,
    RowUpdate,
)
from tests.log.test_codec import ADD, JSON, REAL, SCHEMA, TEXT, TRANSACTION, document, signed
from tests.scheduling import examples

METADATA = Metadata(SCHEMA, (2,), {"a": "b"}, {"c": Constraint("id > 0", (1,))}, "said")
ROOT = KeptCheckpoint(f"_log/checkpoints/{1:020d}.{TRANSACTION}.json", "a" * 64, 9, 1)
WHOLE = replace(
    REAL,
    basis=replace(REAL.basis, scope=PredicateScope("p = 'x'"), predicate="id > 1"),
    protocol=ProtocolFeatures(),
    metadata=METADATA,
    delete=RowDeletes([1], [1], ["AA=="], [None]),
    lineage=Lineage([0], [1], [0], [1], [None]),
    totals=replace(REAL.totals, next_id=9, deleted=1, oldest=1),
    update=RowUpdate((1,), (2,)),
    application=ApplicationTransaction("a", 1, None),
    horizon=RetentionHorizon(1, LogRetentionHorizon(1, "a" * 64, (ROOT, ROOT))),
)
SIDES = replace(
    WHOLE,
    derived_from=DerivedFrom(TRANSACTION, "a", None, 4, "a" * 64, "memory://a"),
    horizon=None,
    add=OverflowFile(f"_log/side/{TRANSACTION}.parquet", 2, 9, "a" * 64),
    delete=OverflowFile(f"deletes/{TRANSACTION}.parquet", 1, 9, "a" * 64),
)
BACK = replace(
    REAL,
    operation=replace(REAL.operation, cls=OperationClass.OVERWRITE),
    basis=replace(REAL.basis, scope=None),
    cursors=(CursorBack(TRANSACTION, "a", None, None),),
)
FREE = {
    "operation.metrics", "operation.parameters", "user_metadata", "metadata.properties",
    "metadata.constraints", "add.partition", "add.lower", "add.upper", "add.nulls", "add.nans",
}  # fmt: skip
"""Objects whose names are anybody's."""


def objects(value: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in an entry with its dotted name, but for those of free names."""
    if isinstance(value, dict):
        if place not in FREE:
            yield place, value
        for key, inner in value.items():
            yield from objects(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner, f"{place}[]")


ENTRIES = [WHOLE, SIDES, BACK]
PLACES = [
    (at, number, place)
    for at, entry in enumerate(ENTRIES)
    for number, (place, _) in enumerate(objects(document(entry)))
]


def spoiled(at: int, number: int, name: str, value: Any) -> bytes:
    entry = copy.deepcopy(document(ENTRIES[at]))
    list(objects(entry))[number][1][name] = value
    return signed(entry)


def refused(body: bytes) -> list[str]:
    with pytest.raises(UnsupportedFeatureError, match="newer version") as caught:
        decode(body, 3)
    return caught.value.features


def test_what_is_spoiled_here_is_sound_before() -> None:
    for entry in ENTRIES:
        assert decode(signed(document(entry)), 3).entry == replace(entry, remove=(4, 9))
    assert {place for _, _, place in PLACES} >= set(strict_json.NAMES) - {""}


@pytest.mark.parametrize(("at", "number", "place"), PLACES)
def test_a_name_that_is_not_known_is_told_wherever_it_is(at: int, number: int, place: str) -> None:
    """VER-2: it may have any value.

    `x_` names are ignored in objects that only describe the entry.
    """
    for value in (None, 1, "", [], {}, {"a": [None]}):
        (feature,) = refused(spoiled(at, number, "zebra", value))
        assert feature.rpartition(":")[2].rpartition(".")[2] == "zebra"
        body = spoiled(at, number, "x_zebra", value)
        if place in strict_json._OPEN and place != "add":
            assert decode(body, 3).version == 3
        elif place != "add":
            assert refused(body)[0].endswith("x_zebra")


@examples(100)
@given(data=st.data(), name=TEXT, value=JSON)
def test_no_value_of_an_unknown_name_is_taken_for_damage(
    data: st.DataObject, name: str, value: Any
) -> None:
    """VER-2: an unknown name may have any value. All unknown names are reported."""
    at, number, place = data.draw(st.sampled_from(PLACES))
    other = "q" + name
    entry = copy.deepcopy(document(ENTRIES[at]))
    place_of = list(objects(entry))[number][1]
    if other in place_of:
        return
    place_of[other] = value
    entry["zz"] = value
    features = refused(signed(entry))
    assert "field:zz" in features
    assert len(features) == 2
    assert any(feature.endswith(other) for feature in features), (place, features)


@pytest.mark.parametrize(
    ("path", "value", "feature"),
    [
        ("operation.class", "DANCE", "operationClass:DANCE"),
        ("basis.isolation", "Snapshot", "isolation:Snapshot"),
        ("basis.granularity", "column", "granularity:column"),
        ("protocol.reader", ["zig", "zag"], "zag"),
        ("metadata.schema.fields.0.type", "geometry", "type:geometry"),
        ("metadata.schema.fields.0.type", {"set": "long"}, "type:set"),
        ("metadata.schema.fields.2.type.struct.0.type", "time", "type:time"),
        ("parts", [{}], "groupCommit"),
        ("format", 2, "format:2"),
    ],
)
def test_what_newer_versions_bring_has_a_name(path: str, value: Any, feature: str) -> None:
    """ENT-3, ENT-7, ENT-12, VER-1, VER-2."""
    entry = copy.deepcopy(document(WHOLE))
    *way, last = path.split(".")
    target: Any = entry
    for step in way:
        target = target[int(step)] if step.isdigit() else target[step]
    target[last] = value
    assert feature in refused(signed(entry))


def test_a_message_shows_no_more_than_a_person_reads() -> None:
    """VER-2: names are arbitrary bytes of a log."""
    entry = document(WHOLE) | {f"n{i}\x1b[2J" + "y" * 1000: 1 for i in range(100)}
    with pytest.raises(UnsupportedFeatureError) as caught:
        decode(signed(entry), 3)
    assert len(caught.value.features) == 100
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 3000
    assert "and 90 more" in str(caught.value)


def test_columns_of_a_later_writer_are_ignored_or_told() -> None:
    """ADD-1, ADD-6, VER-2: unknown columns in the entry and in an overflow file."""
    entry = document(replace(REAL, add=ADD))
    entry["add"]["x_colour"] = ["red"]
    assert decode(signed(entry), 3).entry.add == ADD
    assert strict_json.unknown_columns(["path", "lower.1", "x_any", "written"]) == []
    assert strict_json.unknown_columns(["path", "colour.1", "colour.2"]) == [
        "field:add.colour",
    ]
    assert orjson.loads(orjson.dumps(entry)) == entry
