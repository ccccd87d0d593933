"""spec/schemas/entry.schema.json agrees with spec/entry.md (ENT-3 to ENT-8)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
import referencing

import tablefmt
from tests.places import GOLDEN, ROOT

SCHEMA = json.loads((ROOT / "spec/schemas/entry.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GOOD = sorted(
    path.parent.name
    for path in GOLDEN.glob("*/expected.json")
    if "error" not in json.loads(path.read_text(encoding="utf-8"))
)

Json = dict[str, Any]


def entries(table: Path) -> list[Json]:
    found = sorted((table / "_log").glob("[0-9]" * 20 + ".json"))
    return [json.loads(path.read_bytes()) for path in found if not path.name.startswith("9")]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", GOOD)
def test_every_golden_entry_fits(case: str) -> None:
    for entry in entries(GOLDEN / case / "table"):
        VALIDATOR.validate(entry)


def test_every_entry_the_package_writes_fits(tmp_path: Path) -> None:
    """Creation, appends, overwrites of both kinds, truncation; nested types; user metadata."""
    nested = pa.struct([("a", pa.list_(pa.map_(pa.string(), pa.binary())))])
    kinds = {"p": pa.string(), "x": pa.int64(), "d": pa.decimal128(9, 2), "n": pa.float64()}
    schema = pa.schema({**kinds, "s": nested})
    rows = [{"p": "a", "x": 1, "n": float("nan")}, {"p": None, "x": None, "s": {"a": None}}]
    data = pa.Table.from_pylist(rows, schema)
    table = tablefmt.create(str(tmp_path / "t"), schema, partition_by=["p"])
    table.append(data, application=("app", 1), user_metadata={"note": [1, None]})
    table.overwrite(data, dynamic_partitions=True)
    table.overwrite(data.slice(0, 1), where="p = 'a'")
    table.truncate()
    written = entries(tmp_path / "t")
    assert [entry["version"] for entry in written] == [0, 1, 2, 3, 4]
    for entry in written:
        VALIDATOR.validate(entry)


DELETE = {"file": [1], "rows": [1], "deleted": ["AA=="], "updated": [None]}
BREAK: dict[str, Callable[[Json], Any]] = {
    "a field is missing": lambda entry: entry.pop("previous"),
    "a version that is text": lambda entry: entry.update(version="1"),
    "a later version without previous": lambda entry: entry.update(previous=None),
    "an upper-case transaction": lambda entry: entry.update(transaction="A" * 32),
    "an unknown class": lambda entry: entry["operation"].update({"class": "DANCE"}),
    "a metric that is no integer": lambda entry: entry["operation"]["metrics"].update(a="1"),
    "an unknown isolation": lambda entry: entry["basis"].update(isolation="none"),
    "a scope that is text": lambda entry: entry["basis"].update(scope="p = 1"),
    "a sum below zero": lambda entry: entry["totals"].update(rows=-1),
    "nothing removed": lambda entry: entry.update(remove=[]),
    "a path outside": lambda entry: entry["add"].update(path=["data/../x"]),
    "an absolute path": lambda entry: entry["add"].update(path=["/data/x"]),
    "a file of no bytes": lambda entry: entry["add"].update(size=[0]),
    "an application without a version": lambda entry: entry.update(application={"id": "a"}),
    "a number beyond 64 bits": lambda entry: entry.update(timestamp=2**63),
    "a condition that is no text": lambda entry: entry["basis"].update(predicate=None),
    "a sum of deleted rows that is 0": lambda entry: entry["totals"].update(deleted=0),
    "updated that is no boolean": lambda entry: entry["add"].update(updated=[0]),
    "hashes that are numbers": lambda entry: entry["add"].update(keys=[7]),
    "an update without keys": lambda entry: entry.update(update={"set": [1]}),
    "a column set twice": lambda entry: entry.update(update={"keys": [], "set": [1, 1]}),
    "deletes of no file": lambda entry: entry.update(delete=DELETE | {"file": []}),
    "deletes of no row": lambda entry: entry.update(delete=DELETE | {"rows": [0]}),
    "positions that are numbers": lambda entry: entry.update(delete=DELETE | {"deleted": [[1]]}),
    "positions that are no base64": lambda entry: entry.update(delete=DELETE | {"deleted": ["!"]}),
    "deletes elsewhere": lambda entry: entry.update(
        delete={"side": {"files": 1, "path": "data/x", "sha256": "0" * 64, "size": 1}}
    ),
    "lineage without inputs": lambda entry: entry.update(lineage={"output": [0]}),
}


@pytest.mark.parametrize("name", BREAK)
def test_the_schema_refuses(name: str) -> None:
    """One field spoiled in a sound entry.

    ENT-3, ENT-4, ENT-5, ENT-6, ENT-9, ADD-1, ADD-8, DEL-1, DEL-2, DEL-3, LIN-1, KEY-2.
    """
    entry = copy.deepcopy(entries(GOLDEN / "appends" / "table")[1])
    VALIDATOR.validate(entry)
    VALIDATOR.validate(entry | {"delete": DELETE})
    BREAK[name](entry)
    assert not VALIDATOR.is_valid(entry)


@pytest.mark.parametrize(
    "kind",
    ["quux", "decimal(39,0)", "decimal(9)", {"array": "long"}, {"map": ["long"], "nullable": True}],
)
def test_the_schema_refuses_a_type_that_is_none(kind: Any) -> None:
    """SCH-1."""
    entry = entries(GOLDEN / "empty" / "table")[0]
    entry["metadata"]["schema"]["fields"][0]["type"] = kind
    assert not VALIDATOR.is_valid(entry)


def test_the_schema_of_a_root_is_that_of_checkpoints(tmp_path: Path) -> None:
    """CKP-2 to CKP-4: those of the golden tables, and those that the package writes."""
    schema = json.loads((ROOT / "spec/schemas/checkpoint.schema.json").read_text(encoding="utf-8"))
    resources = [(s["$id"], referencing.Resource.from_contents(s)) for s in (schema, SCHEMA)]
    registry: Any = referencing.Registry().with_resources(resources)
    validator = jsonschema.Draft202012Validator(schema, registry=registry)
    validator.check_schema(schema)
    kinds = {"p": pa.string(), "x": pa.int64(), "d": pa.decimal128(9, 2), "n": pa.float64()}
    data = pa.Table.from_pylist(
        [{"p": "a", "x": 1, "n": float("inf")}, {"p": "b", "x": 2}, {"p": "a", "x": 3}],
        pa.schema(kinds),
    )
    table = tablefmt.create(str(tmp_path / "t"), data.schema, partition_by=["p"])
    table.append(data, application=("app", 1))
    table.delete("x = 1")
    table.checkpoint()
    table.append(data)
    table.checkpoint()
    golden = [GOLDEN / f"checkpoint-{name}" / "table" for name in ("base", "gone-lines")]
    roots = [
        root for at in (tmp_path / "t", *golden) for root in at.glob("_log/checkpoints/*.json")
    ]
    assert len(roots) == 4
    for root in roots:
        document = json.loads(root.read_bytes())
        validator.validate(document)
        for name in document:
            with pytest.raises(jsonschema.ValidationError):
                validator.validate({k: v for k, v in document.items() if k != name})
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**document, "more": 1})
