"""The published shape of JSON between Java and Python, and both sides' checks of it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.entry import registration
from tablefmt.spark.jvm import callbacks, java_classes

CONDITION = {
    "number": 0,
    "text": "id = 1",
    "parts": ["id = 1"],
    "unknown": 0,
    "equated": [["id", 1, False]],
    "deterministic": True,
    "columns": None,
}
MATCHED = {"side": "matched", "condition": None, "star": False, "action": "update"}
CONSTRAINT = {"kind": "Check", "name": None, "enforced": True, "condition": "id > 0"}
GOOD: dict[str, Any] = {
    "texts": {"path": "/t"},
    "names": ["a", "b"],
    "text_or_null": None,
    "constants": [{"kind": "version", "value": "3"}],
    "statement": {
        "columns": "{}",
        "partitionBy": [],
        "clusterBy": ["x"],
        "properties": {},
        "constraints": [CONSTRAINT],
    },
    "constraint": CONSTRAINT,
    "changes": {"changes": [{"kind": "RenameColumn", "path": ["a"], "to": "b"}]},
    "change": {"kind": "AddColumn", "type": {"type": "struct"}, "nullable": True, "default": None},
    "insertion": {"byName": True, "columns": ["a"], "fixed": []},
    "read": {"load": {"path": "/t"}, "alias": ["t"]},
    "table_statement": {"text": "", "uri": "/t", "storage": {"n": 1}, "name": "t", "columns": "{}"},
    "entry": {"name": ["db", "t"], "columns": "{}", "properties": {"provider": "tablefmt"}},
    "shown": {
        "properties": {},
        "constraints": {"positive": "id > 0"},
        "generated": {"day": "CAST(ts AS DATE)"},
        "partitions": {"ts_day": "date"},
        "lengths": {"code": "varchar(5)"},
    },
    "chosen": [{"name": "a", "source": "b", "type": "long", "metadata": {}}, {"name": "c"}],
    "command": {
        "verb": "MERGE",
        "name": "t",
        "uri": "/t",
        "storage": {},
        "added": None,
        "columns": None,
        "on": CONDITION,
        "clauses": [
            {
                "side": "matched",
                "condition": None,
                "star": False,
                "action": "update",
                "set": {"a": 1},
            }
        ],
        "source": [["id", 1]],
    },
    "numbers": {"a": 1},
    "condition": CONDITION,
    "clause": {"side": "matched", "condition": CONDITION, "star": True, "action": "delete"},
}


def broken(value: Any) -> Iterator[Any]:
    """Values with one thing less, one more, or one of another type, at each place."""
    yield from (x for x in (None, 1, True, "x", [], {}, [1], {"x": 1}, 1.5) if x != value)
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
            for inner in broken(value[key]):
                yield {**value, key: inner}
        yield {**value, "surplus": "x"}
    if isinstance(value, list):
        for at, item in enumerate(value):
            for inner in broken(item):
                changed = copy.copy(value)
                changed[at] = inner
                yield changed


def judged(shape: str, value: Any) -> bool:
    """Return True if an implementation of JSON Schema accepts a value."""
    schema = {
        **callbacks.message_schema()["$defs"][shape],
        "$defs": callbacks.message_schema()["$defs"],
    }
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def test_the_schema_is_one_and_every_shape_has_an_example() -> None:
    jsonschema.Draft202012Validator.check_schema(callbacks.message_schema())
    assert set(GOOD) == set(callbacks.message_schema()["$defs"])
    assert [shape for shape, value in GOOD.items() if not judged(shape, value)] == []


@pytest.mark.parametrize("shape", GOOD)
def test_python_judges_as_json_schema_does(shape: str) -> None:
    assert callbacks.problem_of(GOOD[shape], shape) is None
    for value in broken(GOOD[shape]):
        assert (callbacks.problem_of(value, shape) is None) == judged(shape, value), value


def test_java_judges_as_json_schema_does(spark: Any) -> None:
    checks = java_classes.new_instance(spark, "Messages")
    for shape, value in GOOD.items():
        assert checks.problem(f"#{shape}", json.dumps(value)) is None
        # Each value costs a call into the JVM.
        for bad in list(broken(value))[::3]:
            expected = judged(shape, bad)
            assert (checks.problem(f"#{shape}", json.dumps(bad)) is None) == expected, (shape, bad)


def test_verbs_of_the_schema_are_those_of_python_and_java() -> None:
    verbs = callbacks.message_schema()["verbs"]
    assert set(verbs) == set(registration.VERBS)
    sources = "".join(java_classes._sources().values())
    called = set(re.findall(r'Bridge\.call\(\s*"(\w+)"', sources))
    assert called <= set(verbs)
    # Some are given to a method, or chosen there.
    assert set(verbs) - called == {"columns", "define", "replace", "like", "clone"} - called
    steps = set(re.findall(r'Messages\.(?:step|json)\(\s*"([\w.]+)"', sources))
    assert steps == set(callbacks.message_schema()["steps"])


@pytest.mark.parametrize(
    ("verb", "arguments", "problem"),
    [
        ("nothing", [], "no such verb"),
        ("exists", [], "argument 0 is missing"),
        ("exists", [5], "argument 0 is a int, not text"),
        ("exists", ["/t", "more"], "it has 2 arguments, expected 1"),
        ("options", ['{"a": 1}'], "argument 0.a is 1, not string or null"),
    ],
)
def test_a_call_that_is_not_in_the_schema_is_refused(
    verb: str, arguments: list[Any], problem: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=problem):
        callbacks.check_request(verb, arguments)


def test_an_answer_that_is_not_in_the_schema_is_refused(
    spark: Any, catalog: None, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python checks it before it sends it, and Java when it arrives."""
    tablefmt.spark.create(spark, uri, "id BIGINT")
    optimize = f"OPTIMIZE tablefmt.`{uri}`"
    said = {"text": optimize, "uri": uri, "storage": {}, "name": "t"}
    verbs = {**registration.VERBS, "statement": lambda *_: json.dumps(said)}
    monkeypatch.setattr(registration, "VERBS", verbs)
    with pytest.raises(UnsupportedFeatureError, match="the answer lacks columns"):
        spark.sql(optimize)
    monkeypatch.setattr(callbacks, "check_answer", lambda verb, answer: None)
    with pytest.raises(Exception, match="statement lacks columns"):
        spark.sql(optimize)
