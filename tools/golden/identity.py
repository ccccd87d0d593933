"""Golden cases of identity columns (IDN)."""

from __future__ import annotations

from collections.abc import Iterator

from golden.maker import Json, Maker, field, schema_of

FEATURE: Json = {"reader": [], "writer": ["identityColumns"]}
COLUMNS = [field(1, "id", "long"), field(2, "down", "long"), field(3, "v", "string")]


def identity() -> Iterator[Maker]:
    """Yield a table with identity columns, and one whose properties only look like them."""
    maker = Maker("identity-columns", COLUMNS)
    held = {
        "identity.1": '{"always":true,"start":1,"step":1}',
        "identity.2": '{"always":false,"skip":1,"start":-9223372036854775807,"step":-1}',
    }
    maker.commit("PROTOCOL", "ADD FEATURE", protocol=FEATURE, metadata=_with(held))
    _claim(maker, 1, 3)
    maker.append({"id": 1, "down": 7, "v": "a"}, {"id": 2, "down": 8, "v": "b"})
    _claim(maker, 2, 2)
    _claim(maker, 1, 4)
    maker.append({"id": 4, "down": -9223372036854775808, "v": "c"})
    shown = {
        "down": {"always": False, "counter": 2, "skip": 1, "start": -(2**63) + 1, "step": -1},
        "id": {"always": True, "counter": 4, "skip": 0, "start": 1, "step": 1},
    }
    yield maker.good(
        "A counter is an application version, and a number that is not used leaves a gap "
        "(IDN-1, IDN-2). The last BIGINT can be given.",
        identity=shown,
    )

    maker = Maker("identity-other-forms", COLUMNS)
    forms = {
        "identity.01": '{"always":true,"start":1,"step":1}',
        "identity.1": '{"always":1,"start":1,"step":1}',
        "identity.2": '{"always":true,"start":1,"step":0}',
        "identity.3": '{"always":true,"start":1,"step":1}',
        "identity.9": '{"always":true,"start":1,"step":1}',
        "identity.": "[]",
    }
    maker.commit("METADATA", "SET TBLPROPERTIES", metadata=_with(forms))
    maker.append({"id": 1, "down": None, "v": "a"})
    yield maker.good("Properties of another form define no identity column (IDN-1).", identity={})


def _claim(maker: Maker, column: int, counter: int) -> None:
    application = {"id": f"_identity.{column}", "version": counter, "digest": None}
    scope: Json = {"partitions": []}
    maker.commit("MINOR_COMPACT", "CLAIM IDENTITY", scope=scope, application=application)


def _with(properties: Json) -> Json:
    return {**schema_of(COLUMNS), "properties": properties}
