"""The differential oracle: on tables that tests make, `tools/logdump` has to agree.

Of tests that differ by their parameters alone, it reads the tables of some. The soak reads all.
`every_table_agrees` is a fixture to import into conftest.py. Tests that damage tables on purpose
carry `@pytest.mark.broken_tables`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import logdump
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from golden import maker
from logdump.text import compact

import tablefmt
from tablefmt.errors import TableNotFoundError
from tablefmt.model.tags import tags_of
from tablefmt.snapshot.log_view import cursors_at
from tests.scheduling import NO_ORACLE

Json = dict[str, Any]

WORLDS = "/transactions-"
"""Stores that tests of transactions make once for many, and free themselves."""


@pytest.fixture(autouse=True)
def no_objects_are_left_in_memory() -> Iterator[None]:
    """Remove the objects of a test from memory, because a listing visits those of all tables."""
    objects = MemoryFileSystem.store
    older = set(objects)
    yield
    for path in objects.keys() - older:
        if not path.startswith(WORLDS):
            del objects[path]


@pytest.fixture(autouse=True)
def every_table_agrees(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    no_objects_are_left_in_memory: None,
) -> Iterator[None]:
    """Remember every table created or opened in a test, and ask the oracle about it afterwards."""
    node = request.node
    if node.get_closest_marker("broken_tables") is not None or node.stash.get(NO_ORACLE, False):
        yield
        return
    seen: dict[str, Any] = {}
    make = tablefmt.Table.__init__

    def remember(table: Any, context: Any) -> None:
        make(table, context)
        seen[table.uri] = context.store

    monkeypatch.setattr(tablefmt.Table, "__init__", remember)
    yield
    monkeypatch.undo()
    for uri, store in seen.items():
        if uri.startswith(("gs://", "abfss://", "az://")):
            continue  # logdump has no reader for them: their tests copy tables to a folder
        options = options_of(store)
        try:
            table = tablefmt.open(uri, storage_options=options)
        except TableNotFoundError:
            continue
        assert_agrees(table, options)


def options_of(store: Any) -> Json | None:
    """Return the storage options of the innermost store."""
    while hasattr(store, "inner"):
        store = store.inner
    return getattr(store, "_options", None)


def assert_agrees(table: Any, storage_options: Json | None = None) -> None:
    """The table as the package shows it is the table as the specification reads it.

    Compares the whole state at the handle's version: schema, partitioning, properties, times, files
    with their partition values; and every entry up to it. Reads the footer of every live file.
    """
    imports = table.context.view.metadata_at(table.version).imports.values()
    options = {**(storage_options or {}), "import_roots": [each.root for each in imports]}
    document = logdump.read(table.uri, options, as_of=table.version, files=True)
    assert document["findings"] == []
    assert table.schema.equals(_arrow_schema(document["state"]["schema"]))
    assert _shown(table) == _expected(document)


def _shown(table: Any) -> Json:
    """Return the state by the package."""
    # The log has a constraint for each generated column, too (GEN-1).
    metadata = table.context.view.metadata_at(table.version)
    assert list(table.partition_by) == metadata.partition_names
    state = {
        "table": table.id,
        "version": table.version,
        "timestamp": table.timestamp,
        "partition_by": [field.name for field in metadata.partition_fields],
        "properties": dict(table.properties),
        "tags": {
            name: {"version": tag.version, **({} if tag.until is None else {"until": tag.until})}
            for name, tag in tags_of(metadata).items()
        },
        "constraints": {n: each.condition for n, each in metadata.constraints.items()},
        "files": [_shown_file(table, file) for file in table.scan().files().to_pylist()],
        "written": _written(table),
        "cursors": [
            [*key, cursor.to, cursor.digest, cursor.location, cursor.at]
            for key, cursor in sorted(cursors_at(table.context.view, table.version).items())
        ],
    }
    # Last, for it goes to the newest version.
    history = table.history().sort_by("version").to_pylist()
    entries = [_shown_entry(entry) for entry in history if entry["version"] <= state["version"]]
    return {**state, "entries": entries}


def _shown_entry(entry: Json) -> Json:
    maps = {name: dict(entry[name]) for name in ("operationParameters", "operationMetrics")}
    texts = {
        "userMetadata": json.loads(entry["userMetadata"] or "{}"),
        "derivedFrom": json.loads(entry["derivedFrom"] or "null"),
    }
    return {**entry, **maps, **texts}


def _shown_file(table: Any, file: Json) -> Json:
    partition = {name: maker.encode(v) for name, v in file.get("partition", {}).items()}
    gone = (
        table.context.view.snapshot(table.version).positions(file["id"]) if file["deleted"] else []
    )
    shown = {name: value for name, value in file.items() if name != "partitioned_by"}
    return {**shown, "partition": partition, "gone": _runs(gone)}


def _written(table: Any) -> list[int]:
    """The versions of the metadata that live files were written under."""
    files = table.context.view.snapshot(table.version).files
    written: list[int] = files["written"].to_pylist() if files.num_rows else []
    return written


def _runs(positions: Iterable[int]) -> list[list[int]]:
    """Ascending positions as first and end of runs."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and runs[-1][1] == position:
            runs[-1][1] += 1
        else:
            runs.append([position, position + 1])
    return runs


def _expected(document: Json) -> Json:
    """Return the state by the oracle."""
    state = document["state"]
    entries = [item["entry"] for item in document["entries"]]
    entries = entries[
        _kept_from(document) : [e["version"] for e in entries].index(state["version"]) + 1
    ]
    return {
        "table": state["table"],
        "version": state["version"],
        "timestamp": _instant(state["timestamp"]),
        "partition_by": state["partition_by"],
        "properties": state["properties"],
        "tags": state["tags"],
        "constraints": {n: each["condition"] for n, each in state["constraints"].items()},
        "files": [_expected_file(file) for file in state["files"]],
        "written": [file["written"] for file in state["files"]],
        "cursors": [
            [*(c.get(name) for name in ("source", "name", "to", "digest", "location", "at"))]
            for c in state["cursors"]
        ],
        "entries": [_expected_entry(entry, state["oldest"]) for entry in entries],
    }


def _kept_from(document: Json) -> int:
    """Return the index of the first entry after the last gap."""
    versions = [item["version"] for item in document["entries"]]
    gaps = [at for at in range(1, len(versions)) if versions[at - 1] != versions[at] - 1]
    return max(gaps, default=0)


def _expected_file(file: Json) -> Json:
    """A row of `files()`; its partition values as VAL-1 writes them."""
    keys = ("id", "path", "size", "rows", "deleted", "gone", "partition")
    shown = {key: file[key] for key in keys}
    return {**shown, "version": file["added"]}


def _expected_entry(entry: Json, oldest: int) -> Json:
    """A row of `history()`."""
    operation, basis = entry["operation"], entry["basis"]
    return {
        "version": entry["version"],
        "timestamp": _instant(entry["timestamp"]),
        "timeVersion": _instant(entry["time_version"]),
        "operation": operation["name"],
        "operationParameters": _texts(operation["parameters"]),
        "readVersion": basis["read_version"],
        "isolationLevel": basis["isolation"],
        "isBlindAppend": basis["blind"],
        "operationMetrics": _texts(operation["metrics"]),
        "userMetadata": entry.get("user_metadata", {}),
        "derivedFrom": entry.get("derived_from"),
        "transaction": entry["transaction"],
        "canBeRead": entry["version"] >= oldest,
    }


def _texts(values: Json) -> dict[str, str]:
    """Values as text: JSON, where they are not text."""
    return {
        name: value if isinstance(value, str) else compact(value) for name, value in values.items()
    }


def _instant(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)


def _arrow_schema(schema: Json) -> pa.Schema:
    """The Arrow schema that readers see: logical names."""
    return pa.schema([maker.arrow_field(_logical(field)) for field in schema["fields"]])


def _logical(field: Json) -> Json:
    return {**field, "physical": field["name"], "type": _logical_type(field["type"])}


def _logical_type(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    if "struct" in kind:
        return {"struct": [_logical(field) for field in kind["struct"]]}
    if "array" in kind:
        return {**kind, "array": _logical_type(kind["array"])}
    return {**kind, "map": [_logical_type(inner) for inner in kind["map"]]}
