"""A snapshot is an immutable value, whatever is read, committed or damaged after it was taken."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.model.log_entry import Metadata
from tablefmt.snapshot.checkpoint_parts import StoredColumns
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.table_state import Snapshot
from tests.tables import handle, ids, memory, new_table, rows

LEAVES = (str, int, float, bytes, type(None), pa.Table, Enum, StoredColumns)
"""Values without assignable fields. StoredColumns caches columns of an immutable object."""

CACHES = {"unions"}
"""Fields that cache computed values and are not part of the value (`compare=False`)."""


def parts(value: Any, path: str = "snapshot") -> Iterator[tuple[str, Any]]:
    """Yield every object that the fields of a value hold, with its path."""
    yield path, value
    if is_dataclass(value):
        for each in fields(value):
            if each.name in CACHES:
                assert not each.compare, path
                continue
            yield from parts(getattr(value, each.name), f"{path}.{each.name}")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from parts(inner, f"{path}[{key!r}]")
    elif isinstance(value, tuple | frozenset):
        for at, inner in enumerate(value):
            yield from parts(inner, f"{path}[{at}]")


def changeable(snapshot: Snapshot) -> list[str]:
    """Return the paths of parts of a snapshot whose fields or elements can be assigned."""
    found = []
    for path, value in parts(snapshot):
        if is_dataclass(value):
            for each in fields(value):
                try:
                    setattr(value, each.name, getattr(value, each.name))
                except FrozenInstanceError:
                    continue
                found.append(f"{path}.{each.name}")
        elif isinstance(value, np.ndarray):
            if value.flags.writeable:
                found.append(path)
        elif isinstance(value, Mapping):
            with contextlib.suppress(TypeError):
                value.pop(None, None)  # type: ignore[attr-defined]
                found.append(path)
        elif not isinstance(value, (*LEAVES, tuple, frozenset)) and not callable(value):
            found.append(f"{path}: {type(value).__name__}")
    return found


@pytest.mark.parametrize("stored", [False, True])
def test_no_part_of_a_snapshot_can_be_assigned(stored: bool) -> None:
    """RPL-1: also the files, their removals and their deletion vectors."""
    store = memory()
    table = new_table(store, partitioned=True)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, p="b"))
    table.delete("id = 2 OR id = 4")
    if stored:
        table.checkpoint()
        table = handle(store)
    snapshot = table.context.view.snapshot()
    assert snapshot.files.num_rows == 2
    assert changeable(snapshot) == []
    seen = {type(value) for _, value in parts(snapshot)}
    assert {FileHistory, Metadata, np.ndarray} <= seen


@pytest.mark.broken_tables
def test_a_damaged_checkpoint_changes_no_snapshot() -> None:
    """CKP-5: the files come from another source, and the snapshot stays as it is."""
    store = memory()
    table = new_table(store)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.checkpoint()
    reader = handle(store)
    snapshot = reader.context.view.snapshot()
    held = {each.name: getattr(snapshot, each.name) for each in fields(snapshot)}
    for one in list(store.list_after("_log/")):
        if one.key.endswith(".parquet"):
            store.delete(one.key)
    files = snapshot.files
    assert files["id"].to_pylist() == table.context.view.snapshot().files["id"].to_pylist()
    assert {name: getattr(snapshot, name) is value for name, value in held.items()} == (
        dict.fromkeys(held, True)
    )
    assert reader.context.view.snapshot().history is not snapshot.history
    assert ids(reader) == [1, 2, 3]


@pytest.mark.parametrize("stored", [False, True])
def test_some_columns_of_files_come_with_their_partition(stored: bool) -> None:
    """ADD-4: the values belong to each file, whatever columns a caller asks for."""
    table = new_table(partitioned=True)
    table.append(rows(1, 2, p=["a", "b"]))
    if stored:
        table.checkpoint()
    snapshot = handle(table.context.store).context.view.snapshot()
    some = snapshot._all(frozenset({"path", "size"}))
    wanted = {"id", "added", "deleted", "path", "size", "partition.2"}
    assert set(some.column_names) == wanted
    whole = handle(table.context.store).context.view.snapshot().files
    assert some.select(sorted(wanted)).to_pylist() == whole.select(sorted(wanted)).to_pylist()
    assert some["partition.2"].to_pylist() == ["a", "b"]
