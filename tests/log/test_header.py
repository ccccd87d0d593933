"""Entries looked at from the outside: enough for who reads nothing, and never less than enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import CorruptEntryError
from tablefmt.log.codec import EntryHeader, decode, digest, encode, entry_headers
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Metadata, OperationClass, ProtocolFeatures
from tablefmt.model.schema import Field, Primitive, Schema
from tests.tables import memory, new_table, rows

METADATA = Metadata(Schema((Field(1, "id", "id", Primitive("long")),), 1))


def log(versions: int = 5) -> list[bytes]:
    """Bytes of a table's entries, an overwrite among them."""
    store = memory()
    table = new_table(store)
    for n in range(1, versions):
        (table.overwrite if n == 2 else table.append)(rows(n))
    return [store.get(entry_key(v)) for v in range(versions)]


LOG = log()


def test_headers_say_what_the_entries_say() -> None:
    """LOG-1, ENT-4: version, transaction, operation and class of each."""
    entries = [decode(body, version).entry for version, body in enumerate(LOG)]
    assert entry_headers(LOG[1:], 1, digest(LOG[0])) == tuple(
        EntryHeader(e.version, e.transaction, e.operation.name, e.operation.cls, e.basis.blind)
        for e in entries[1:]
    )
    assert entry_headers([], 5, digest(LOG[4])) == ()


def changed(**changes: Any) -> list[bytes]:
    """The log from version 3 on, with other values in entry 3; still a chain."""
    third = encode(replace(decode(LOG[3], 3).entry, **changes))
    fourth = encode(replace(decode(LOG[4], 4).entry, previous=digest(third)))
    return [third, fourth]


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": METADATA},
        {"protocol": ProtocolFeatures()},
        {"previous": "0" * 64},
        {"version": 7},
        {"operation": replace(decode(LOG[3], 3).entry.operation, cls=OperationClass.METADATA)},
        {"operation": replace(decode(LOG[3], 3).entry.operation, cls=OperationClass.PROTOCOL)},
    ],
    ids=["metadata", "protocol", "another chain", "another version", "METADATA", "PROTOCOL"],
)
def test_what_an_append_has_to_read_has_no_header(changes: dict[str, Any]) -> None:
    """CMT-6, CFL-4, CFL-5: one entry of this kind makes the writer read all of them."""
    assert len(entry_headers(changed(user_metadata={"a": 1}), 3, digest(LOG[2]))) == 2
    assert entry_headers(changed(**changes), 3, digest(LOG[2])) == ()


@pytest.mark.parametrize(
    "body",
    [b"", b"garbage", b"[]", b"1", b"{}", b'{"operation":1}', b'{"operation":{"class":[]}}'],
)
def test_what_is_no_entry_has_no_header(body: bytes) -> None:
    """ENT-1: the decoder then reports the error."""
    assert entry_headers([body], 1, digest(LOG[0])) == ()


def test_an_unknown_class_has_no_header() -> None:
    """ENT-4: a newer writer's."""
    document = orjson.loads(LOG[1])
    document["operation"]["class"] = "NEWER"
    assert entry_headers([orjson.dumps(document)], 1, digest(LOG[0])) == ()


@given(st.data())
def test_no_changed_byte_goes_unseen(data: st.DataObject) -> None:
    """LOG-1, ENT-1: headers and the last entry's checksum together hold every byte."""
    at = data.draw(st.integers(1, 4))
    place = data.draw(st.integers(0, len(LOG[at]) - 1))
    bodies = list(LOG)
    flipped = bodies[at][place] ^ data.draw(st.integers(1, 255))
    bodies[at] = bodies[at][:place] + bytes([flipped]) + bodies[at][place + 1 :]
    if entry_headers(bodies[1:], 1, digest(bodies[0])):
        with pytest.raises(CorruptEntryError):
            decode(bodies[4], 4)
