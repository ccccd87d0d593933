"""The state of a Delta table's newest version, from its log: JSON commits and checkpoints.

The log is read here and by no library, because libraries refuse tables with features that importing
does not need. Spec: IMP-5, IMP-7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablefmt.errors import CorruptTableError, TablefmtError, TableNotFoundError
from tablefmt.imports.source import refused
from tablefmt.log.bounded_records import records_of
from tablefmt.log.strict_json import json_lines
from tablefmt.store.object_store import COPY_BYTES_MAX, KeyNotFoundError, Store

LOG = "_delta_log/"

KNOWN = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features that an import understands."""

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CLASSIC = re.compile(r"([0-9]{20})\.checkpoint(?:\.([0-9]{10})\.([0-9]{10}))?\.parquet")
_BY_UUID = re.compile(r"([0-9]{20})\.checkpoint\.[0-9a-f-]{36}\.(json|parquet)")

SHAPE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that reading a document of another shape raises."""

Json = Mapping[str, Any]


@dataclass(slots=True)
class DeltaState:
    """A Delta table's newest version."""

    version: int
    protocol: Json = field(default_factory=dict)
    metadata: Json = field(default_factory=dict)
    files: dict[tuple[str, str], Json] = field(default_factory=dict)
    """`add` of each live file, by path and deletion vector."""

    def take(self, actions: Iterable[Json]) -> None:
        """Apply actions in order."""
        for action in actions:
            add, remove = action.get("add"), action.get("remove")
            if add is not None:
                # Statistics and tags take most of the memory, and are not needed.
                self.files[_key(add)] = {name: add.get(name) for name in _NEEDED}
            elif remove is not None:
                self.files.pop(_key(remove), None)
            elif action.get("metaData") is not None:
                self.metadata = action["metaData"]
            elif action.get("protocol") is not None:
                self.protocol = action["protocol"]


def vector_of(file: Json) -> Json | None:
    """Return the description of a file's deletion vector. A checkpoint may have one of NULLs."""
    vector: Json | None = file.get("deletionVector")
    if vector is None or (vector and all(value is None for value in vector.values())):
        return None
    return vector


def _key(file: Json) -> tuple[str, str]:
    vector = vector_of(file)
    if vector is None:
        return file["path"], ""
    return file["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def newest_version(store: Store) -> int:
    """Return the newest version of a Delta table. Raises TableNotFoundError."""
    return _newest(store, _names(store))


def _newest(store: Store, names: list[str]) -> int:
    # Commits up to a checkpoint may have expired.
    commits = [int(m[1]) for name in names if (m := _COMMIT.fullmatch(name))]
    newest = max([*commits, _newest_checkpoint(names)[0]])
    if newest < 0:
        raise TableNotFoundError(store.uri, "it holds no Delta log")
    return newest


def read_delta(store: Store) -> DeltaState:
    """Return the newest version of a Delta table.

    Raises:
        TableNotFoundError: there is no Delta log.
        UnsupportedFeatureError: IMP-7, a feature that an import does not know.
        CorruptTableError: a part of the log is missing or damaged.
    """
    names = _names(store)
    commits = {int(m[1]): name for name in names if (m := _COMMIT.fullmatch(name))}
    start, parts = _newest_checkpoint(names)
    newest = _newest(store, names)
    state = DeltaState(newest)
    try:
        for part in parts:
            state.take(_checkpoint(store, LOG + part))
        for version in range(start + 1, newest + 1):
            if version not in commits:
                raise _damaged(f"{LOG}{version:020d}.json", "it is missing")
            state.take(_lines(store, LOG + commits[version]))
        _check(state, store)
    except SHAPE_ERRORS as error:
        if isinstance(error, TablefmtError):
            raise
        raise _damaged(LOG, f"an action has an unexpected structure: {error!r:.200}") from None
    return state


def _check(state: DeltaState, store: Store) -> None:
    if not state.protocol or not state.metadata:
        raise _damaged(LOG, "no action says the protocol or the schema")
    reader = state.protocol.get("minReaderVersion", 0)
    features = set(state.protocol.get("readerFeatures") or ()) - KNOWN
    if reader > 3 or features:
        names = sorted(features) or [f"minReaderVersion {reader}"]
        raise refused(
            f"the Delta table at {store.uri} needs {', '.join(names)!r:.300}", "import:delta"
        )


def _names(store: Store) -> list[str]:
    return [one.key.removeprefix(LOG) for one in store.list_after(LOG)]


def _newest_checkpoint(names: list[str]) -> tuple[int, list[str]]:
    """Return version and parts of the newest complete checkpoint; -1 if there is none."""
    found: dict[int, list[str]] = {}
    pieces: dict[tuple[int, int], list[str]] = {}
    for name in names:
        whole, other = _CLASSIC.fullmatch(name), _BY_UUID.fullmatch(name)
        if other is not None:
            found[int(other[1])] = [name]
        elif whole is not None and whole[2] is None:
            found[int(whole[1])] = [name]
        elif whole is not None:
            pieces.setdefault((int(whole[1]), int(whole[3])), []).append(name)
    for (version, count), parts in pieces.items():
        if len(parts) == count:
            found.setdefault(version, sorted(parts))
    newest = max(found, default=-1)
    return newest, found.get(newest, [])


def _damaged(key: str, problem: str) -> CorruptTableError:
    return CorruptTableError(f"the Delta log is damaged: {problem}", key=key, rule="IMP-5")


def _body(store: Store, key: str) -> bytes:
    try:
        size = store.size(key)
        if size > COPY_BYTES_MAX:
            raise _damaged(key, f"it has {size} bytes; at most {COPY_BYTES_MAX} are read")
        return store.get_range(key, 0, size)
    except KeyNotFoundError:
        raise _damaged(key, "it is missing") from None


def _lines(store: Store, key: str) -> Iterator[Json]:
    try:
        for action in json_lines(_body(store, key)):
            if not isinstance(action, dict):
                raise _damaged(key, "a line is not a JSON object")
            yield action
    except ValueError as error:
        raise _damaged(key, f"it is not JSON: {error}") from None


def _checkpoint(store: Store, key: str) -> Iterator[Json]:
    """Yield the actions of one part of a checkpoint, and of its sidecars."""
    actions = _lines(store, key) if key.endswith(".json") else _rows(store, key)
    for action in actions:
        sidecar = action.get("sidecar")
        if sidecar is None:
            yield action
            continue
        path = sidecar["path"]
        if "/" in path or path.startswith("."):
            raise _damaged(key, f"it names the sidecar {path!r:.200}")
        yield from _rows(store, f"{LOG}_sidecars/{path}")


_READ = ("add", "remove", "metaData", "protocol", "sidecar")
_NEEDED = ("path", "size", "partitionValues", "deletionVector")


def _rows(store: Store, key: str) -> Iterator[Json]:
    body = _body(store, key)
    try:
        yield from map(_plain, records_of(body, _READ))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(key, str(error).splitlines()[0]) from None


def _plain(row: Json) -> Json:
    """Return a row of a checkpoint as a JSON action. Maps are lists of pairs in Arrow."""
    action = {name: value for name, value in row.items() if value is not None}
    for value in action.values():
        for name in ("partitionValues", "configuration"):
            if isinstance(value.get(name), list):
                value[name] = dict(value[name])
    return action
