"""A frozen dict reads as a dict does, and does not change."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tablefmt.model.frozen_dict import FrozenDict
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Schema

CHANGES: dict[str, Callable[[Any], object]] = {
    "set": lambda d: d.__setitem__("b", 2),
    "delete": lambda d: d.__delitem__("a"),
    "or": lambda d: d.__ior__({"b": 2}),
    "clear": lambda d: d.clear(),
    "pop": lambda d: d.pop("a"),
    "pop item": lambda d: d.popitem(),
    "set default": lambda d: d.setdefault("b", 2),
    "update": lambda d: d.update(b=2),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "copied", [lambda d: d, copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
def test_nothing_changes_it_or_a_copy(copied: Callable[[Any], Any], change: str) -> None:
    frozen = copied(FrozenDict({"a": 1}))
    with pytest.raises(TypeError, match="make a new one"):
        CHANGES[change](frozen)
    assert frozen == {"a": 1}
    assert orjson.dumps(frozen) == b'{"a":1}'


def test_a_union_is_a_new_dict() -> None:
    frozen = FrozenDict({"a": 1})
    assert {**frozen, "b": 2} == frozen | {"b": 2} == {"a": 1, "b": 2}
    assert frozen == {"a": 1}


def test_what_a_caller_passed_may_change_afterwards() -> None:
    """RPL-4: metadata is a value of its own."""
    given = {"user.a": "1"}
    metadata = Metadata(Schema((), 0), properties=given)
    given["user.a"] = "2"
    assert metadata.properties == {"user.a": "1"}
