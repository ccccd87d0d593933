"""Delta as a target: `_delta_log/` beside `_log/`, one commit file for each version.

Spec: XPT-6 .. XPT-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import CorruptTableError, ExportBlockedError
from tablefmt.export.delta_actions import (
    FileActions,
    action_line,
    add_lines,
    checkpoint_bytes,
    file_actions,
    have_same_files,
    remove_lines,
    selected,
)
from tablefmt.export.delta_schema import (
    VECTORS,
    WIDENING,
    features_of,
    metadata_action,
    names_alike,
    partitioning_problem,
    protocol_action,
    stated_partitions,
    type_changes,
)
from tablefmt.export.delta_state import DeltaState
from tablefmt.export.delta_vectors import (
    INLINE_MAX,
    VectorFile,
    inline_descriptor,
    vector_bytes,
    vectors_key,
)
from tablefmt.export.export_target import (
    Fetch,
    ForeignCommit,
    Mark,
    Step,
    checked_version,
    started,
)
from tablefmt.export.version_difference import NOTHING, Difference, difference
from tablefmt.export.written_columns import WrittenColumns, live_imports
from tablefmt.log.strict_json import bounded_json
from tablefmt.model.import_layouts import LAYOUT, has_own_names
from tablefmt.model.log_entry import NOT_LOGICAL, Metadata
from tablefmt.model.schema import id_types
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import Exists, KeyNotFoundError, Store, Written, most_of

LOG = "_delta_log/"
LAST_CHECKPOINT = f"{LOG}_last_checkpoint"
CHECKPOINT_EVERY = 100
"""Versions from one checkpoint of the copy to the next."""

MARK_BYTES = 1 << 16
"""Bytes at the beginning of a commit file that are read for its mark."""

_COMMIT = re.compile(rf"{LOG}[0-9]{{20}}\.json")
_CHECKPOINT = re.compile(rf"{LOG}[0-9]{{20}}\.checkpoint\.([^/]+\.)?(parquet|json)")
_VECTORS_KEPT = 16
"""Vector objects whose places a warm target keeps."""


def commit_key(version: int) -> str:
    """Return the name of a version's commit file."""
    return f"{LOG}{version:020d}.json"


def checkpoint_key(version: int) -> str:
    """Return the name of a version's checkpoint."""
    return f"{LOG}{version:020d}.checkpoint.parquet"


def _version_of(key: str) -> int:
    """Return the version in the name of a commit file or of a checkpoint."""
    return int(key[len(LOG) :][:20])


@dataclass(frozen=True, slots=True)
class _Begun:
    """The begin of a copy."""

    entry: str
    """SHA-256 of the entry."""
    state: DeltaState
    files: int


@dataclass(slots=True)
class DeltaTarget:
    """The target "delta"."""

    name: str = "delta"
    start_key: str = f"{LOG}_tablefmt_start.json"
    _written: WrittenColumns = field(default_factory=WrittenColumns)
    _vectors: dict[tuple[str, int], VectorFile] = field(default_factory=dict)
    """Vector objects by table and version, newest last."""
    _begun: _Begun | None = None
    """The first version of a copy that this target began."""

    def newest(self, store: Store) -> tuple[str, bytes] | None:
        """Return key and first bytes of the newest commit file."""
        hinted = _hinted(store)
        # A hint may name a version that is not there.
        for begin in (f"{LOG}{hinted:020d}", None) if hinted else (None,):
            keys = [one.key for one in store.list_after(LOG, begin)]
            commits = [key for key in keys if _COMMIT.fullmatch(key)]
            roots = [key for key in keys if _CHECKPOINT.fullmatch(key)]
            if roots and not commits and self._has_begun(store, roots):
                return None
            if roots and (not commits or _version_of(roots[-1]) > _version_of(commits[-1])):
                return _of_checkpoint(store, roots[-1])
            if commits:
                return commits[-1], _beginning(store, commits[-1])
        return None

    def _has_begun(self, store: Store, checkpoints: Sequence[str]) -> bool:
        """Return whether an exporter wrote the first checkpoint, and no commit yet."""
        begun = started(store, self.start_key)
        return begun is not None and list(checkpoints) == [checkpoint_key(begun[1])]

    def read_mark(self, body: bytes) -> Mark | None:
        """Return the mark in the first line of a commit file."""
        try:
            tags = bounded_json(body.split(b"\n", 1)[0])["commitInfo"]["tags"]
            return Mark(
                table=str(tags["tablefmt.table"]),
                version=checked_version(tags["tablefmt.version"]),
                entry=str(tags["tablefmt.entry"]),
                shown=checked_version(tags["tablefmt.shown"], tags["tablefmt.version"]),
                state=DeltaState.read(bounded_json(tags["tablefmt.state"].encode())).json(),
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return None

    def cannot_show(self, view: LogView, version: int) -> str:
        """Return why Delta cannot show a version, or "": names that differ only in case, imported
        files that Delta cannot map, or files that lack a column with an initial value. Delta reads
        NULL there (SCH-7). Spec: XPT-11.
        """
        metadata = view.metadata_at(version)
        if reason := partitioning_problem(metadata):
            return reason
        schema = metadata.schema
        if metadata.imports and (reason := _imported_problem(view.snapshot(version), metadata)):
            return f"{reason}; rewrite the imported files with compact(kind='major')"
        if twins := names_alike(schema):
            return (
                f"Delta cannot tell the names {twins[0]!r} and {twins[1]!r} apart; rename one of "
                "them"
            )
        columns = [f for f in schema.fields if f.initial is not None]
        if not columns:
            return ""
        eras = self._written.of(view, view.snapshot(version))
        if live_imports(view, version):
            eras = [*eras, {}]
        for column in columns:
            if any(column.id not in types for types in eras):
                return (
                    f"column {column.name!r} has a default for rows written before it was added, "
                    "and Delta reads NULL in their files; rewrite them with compact(kind='major')"
                )
        return ""

    def begin(self, view: LogView, step: Step, fetch: Fetch) -> Sequence[tuple[str, bytes]]:
        """Return the checkpoint of a copy that does not begin with version 0, and its vectors."""
        assert step.difference is not None
        state = self._first_state(view, step)
        self._begun = _Begun(step.stored.digest, state, step.difference.added.num_rows)
        if step.stored.version == 0:
            return []
        files = _Files(self, step.stored.entry.table, state, step.difference, fetch)
        actions = files.actions(step.difference.added, step.metadata, step.stored.version)
        body = self._checkpoint(step.stored.entry.table, step, state, actions)
        return [*files.objects(), (checkpoint_key(step.stored.version), body)]

    def commit(self, step: Step, fetch: Fetch) -> ForeignCommit:
        """Return the commit file of a version."""
        entry, between = step.stored.entry, step.difference
        if between is None:
            assert step.previous is not None
            state = DeltaState.of(step.previous)
            time = max(entry.timestamp // 1000, state.time + 1)
            return self._commit_of(step, step.previous.shown, replace(state, time=time), b"", ())
        if step.previous is None:
            assert self._begun is not None
            assert self._begun.entry == step.stored.digest
            before, state = None, self._begun.state
        else:
            before = DeltaState.of(step.previous)
            state = _next_state(before, step, between)
        head = _described(step, before, state)
        files = _Files(self, entry.table, state, between, fetch)
        changes = entry.operation.cls not in NOT_LOGICAL or between.base < entry.version - 1
        came, went = files.changed_actions()
        time = entry.timestamp // 1000
        body = head + b"".join(remove_lines(one, time, changes) for one in went)
        body += b"".join(add_lines(one, time, changes) for one in came)
        return self._commit_of(step, entry.version, state, body, files.objects())

    def afterwards(self, view: LogView, mark: Mark, store: Store) -> int:
        """Write a checkpoint of the copy when one is due, and name it in `_last_checkpoint`."""
        state = DeltaState.of(mark)
        if state.checkpoint != mark.version or mark.version == 0:
            return 0
        if self._begun is not None and self._begun.entry == mark.entry:
            return _hint(store, mark.version, self._begun.files)
        snapshot_of = difference(view, NOTHING, mark.shown)
        metadata = snapshot_of.after
        files = _Files(self, mark.table, state, snapshot_of, store.get)
        actions = files.actions(snapshot_of.added, metadata, mark.shown)
        described = metadata_action(
            mark.table, view.created, metadata, state.features, state.changes
        )
        body = checkpoint_bytes(protocol_action(state.features), described, actions, state.time)
        if len(body) > most_of(checkpoint_key(mark.version)):
            # Readers would refuse it (STO-24). Commits have all that it says.
            return 0
        key = checkpoint_key(mark.version)
        reply = store.put_if_absent(key, body)
        if not isinstance(reply, Written | Exists):
            return 0
        if isinstance(reply, Exists) and not self.agrees(key, body, store.get):
            raise ExportBlockedError(store.uri, self.name, key, "another program wrote it")
        return len(body) + _hint(store, mark.version, len(actions))

    def agrees(self, key: str, body: bytes, fetch: Fetch) -> bool:
        """Return whether a vector object has these bytes, or a checkpoint adds the same files.

        Another version of PyArrow writes other bytes of the same checkpoint.
        """
        found = fetch(key)
        return found == body or (
            _CHECKPOINT.fullmatch(key) is not None and have_same_files(found, body)
        )

    def lacks_hint(self, mark: Mark) -> bool:
        """Return False: readers of Delta list the commits."""
        return False

    def _checkpoint(self, table: str, step: Step, state: DeltaState, actions: FileActions) -> bytes:
        described = metadata_action(
            table, step.created, step.metadata, state.features, state.changes
        )
        return checkpoint_bytes(protocol_action(state.features), described, actions, state.time)

    def _first_state(self, view: LogView, step: Step) -> DeltaState:
        """Return the state of a copy that begins: all that its files need."""
        assert step.difference is not None
        version, metadata = step.stored.version, step.metadata
        features = features_of(metadata.schema)
        if np.any(step.difference.added["deleted"].to_numpy() > 0):
            features.add(VECTORS)
        eras = self._written.of(view, view.snapshot(version))
        changes: Mapping[str, Sequence[Sequence[str]]] = {}
        last = dict(next(iter(eras), {}))
        for types in [*islice(eras, 1, None), id_types(metadata.schema)]:
            changes = type_changes(changes, last, types)
            last |= types
        if changes:
            features.add(WIDENING)
        return DeltaState(
            time=step.stored.entry.timestamp // 1000,
            features=tuple(sorted(features)),
            changes=changes,
            spans=[[NOTHING, version]],
            checkpoint=version,
        )

    def _commit_of(
        self,
        step: Step,
        shown: int,
        state: DeltaState,
        body: bytes,
        before: Sequence[tuple[str, bytes]],
    ) -> ForeignCommit:
        """Return the file of one version of the copy. `before` are objects to write before it."""
        entry = step.stored.entry
        mark = Mark(
            table=entry.table,
            version=entry.version,
            entry=step.stored.digest,
            shown=shown,
            state=state.json(),
        )
        tags = {
            "tablefmt.table": mark.table,
            "tablefmt.version": str(mark.version),
            "tablefmt.entry": mark.entry,
            "tablefmt.shown": str(shown),
            "tablefmt.state": orjson.dumps(mark.state).decode(),
        }
        if step.held:
            tags["tablefmt.held"] = step.held
        parameters = {
            key: orjson.dumps(value).decode() for key, value in entry.operation.parameters.items()
        }
        # The order matters: `inCommitTimestamp` requires this action first.
        info = {
            "tags": tags,
            "timestamp": entry.timestamp // 1000,
            "inCommitTimestamp": state.time,
            "operation": entry.operation.name,
            "operationParameters": parameters,
            "isolationLevel": entry.basis.isolation,
            "isBlindAppend": entry.basis.blind,
            "engineInfo": "tablefmt",
        }
        return ForeignCommit(
            key=commit_key(entry.version),
            body=action_line("commitInfo", info) + body,
            mark=mark,
            before=before,
        )

    def vector_file(self, table: str, version: int, fetch: Fetch) -> VectorFile:
        """Return the vector object of an earlier foreign commit, read once."""
        key = (table, version)
        if key not in self._vectors:
            self.keep(VectorFile.read(table, version, fetch(vectors_key(table, version))))
        return self._vectors[key]

    def keep(self, file: VectorFile) -> None:
        """Remember a vector object."""
        self._vectors[file.table, file.version] = file
        while len(self._vectors) > _VECTORS_KEPT:
            del self._vectors[next(iter(self._vectors))]


def _hint(store: Store, version: int, files: int) -> int:
    """Name a checkpoint. Return the number of bytes."""
    hint = {"version": version, "size": files + 2, "numOfAddFiles": files}
    body = orjson.dumps(hint)
    store.put(LAST_CHECKPOINT, body)
    return len(body)


def _imported_problem(snapshot: Snapshot, metadata: Metadata) -> str:
    """Return why Delta cannot map the live files of a table with imports, or ""."""
    columns = (field for field in metadata.partition_fields if field.transform is None)
    partition = {column.id: f"partition.{column.id}" for column in columns}
    files = snapshot.files_with({"path", *partition.values()})
    if has_own_names(files):
        return "an imported file has column names of its own, or is outside the table's folder"
    stated = stated_partitions(metadata)
    if LAYOUT in files.column_names:
        for other in set(partition) - {column.id for column in stated}:
            name = metadata.schema.by_id(other).name
            return (
                f"imported files may lack the partition column {name!r}, whose values have no text"
            )
    for column in stated:
        values = files[partition[column.id]]
        if str(column.type) == "string" and pc.any(pc.equal(values, "")).as_py():
            return f'Delta reads "" in the partition column {column.name!r} as NULL'
    return ""


def _of_checkpoint(store: Store, key: str) -> tuple[str, bytes]:
    """Return key and first bytes of a checkpoint's commit, which was not listed.

    An exporter writes the commit first. Without it, another program wrote the checkpoint, and
    readers begin there. Then the bytes are empty.
    """
    commit = commit_key(_version_of(key))
    try:
        return commit, _beginning(store, commit)
    except KeyNotFoundError:
        return key, b""


def _hinted(store: Store) -> int:
    try:
        version = int(bounded_json(store.get(LAST_CHECKPOINT))["version"])
        return version if 0 <= version < 10**20 else 0
    except (KeyNotFoundError, LookupError, TypeError, ArithmeticError, ValueError):
        return 0


def _beginning(store: Store, key: str) -> bytes:
    body = store.get_range(key, 0, MARK_BYTES)
    return body if b"\n" in body or len(body) < MARK_BYTES else store.get(key)


def _next_state(before: DeltaState, step: Step, between: Difference) -> DeltaState:
    version, features = step.stored.version, set(before.features)
    features |= features_of(step.metadata.schema)
    for files in (between.added, between.changed):
        if files.num_rows and np.any(files["deleted"].to_numpy() > 0):
            features.add(VECTORS)
    changes = before.changes
    assert between.before is not None
    if between.before is not between.after:
        types = id_types(between.before.schema)
        changes = type_changes(changes, types, id_types(step.metadata.schema))
    if changes:
        features.add(WIDENING)
    spans = list(before.spans)
    if between.base < version - 1:
        spans.append([between.base, version])
    due = version - before.checkpoint >= CHECKPOINT_EVERY
    return DeltaState(
        time=max(step.stored.entry.timestamp // 1000, before.time + 1),
        features=tuple(sorted(features)),
        changes=changes,
        spans=spans,
        checkpoint=version if due else before.checkpoint,
    )


def _described(step: Step, before: DeltaState | None, state: DeltaState) -> bytes:
    """Return the lines of `protocol` and `metaData`, each if it is new."""
    entry, between = step.stored.entry, step.difference
    assert between is not None
    lines = b""
    if before is None or before.features != state.features:
        lines += action_line("protocol", protocol_action(state.features))

    def action(metadata: Metadata, of: DeltaState) -> dict[str, Any]:
        return metadata_action(entry.table, step.created, metadata, of.features, of.changes)

    if before is None or between.before is None:
        return lines + action_line("metaData", action(step.metadata, state))
    if between.before is step.metadata and before.features == state.features:
        return lines
    now = action(step.metadata, state)
    if now != action(between.before, before):
        lines += action_line("metaData", now)
    return lines


class _Files:
    """Files of one difference as actions, with the vector objects that they need."""

    def __init__(
        self, target: DeltaTarget, table: str, state: DeltaState, between: Difference, fetch: Fetch
    ) -> None:
        self._target, self._table, self._state = target, table, state
        self._between, self._fetch = between, fetch
        self._new: dict[int, VectorFile] = {}

    def objects(self) -> list[tuple[str, bytes]]:
        """Return the vector objects that this commit adds."""
        return [
            (vectors_key(self._table, version), bytes(file.body))
            for version, file in sorted(self._new.items())
        ]

    def changed_actions(self) -> tuple[list[FileActions], list[FileActions]]:
        """Return the files to add and to remove. A file that did not change is in neither."""
        between = self._between
        new = self._vectors(between.changed, "", between.version, fresh=True)
        came = self._vectors(between.added, "", between.version, fresh=True)
        for file in self._new.values():
            self._target.keep(file)
        old = self._vectors(between.changed, "_before", between.base)
        went = self._vectors(between.removed, "", between.base)
        replaced, back = between.same_paths()
        same = [
            (g, b)
            for g, b in zip(replaced.tolist(), back.tolist(), strict=True)
            if went.get(g) == came.get(b)
        ]
        added = _left(between.added, came, [b for _, b in same])
        removed = _left(between.removed, went, [g for g, _ in same])
        before = between.before if between.before is not None else between.after
        return (
            [
                file_actions(files, between.after, vectors)
                for files, vectors in ((between.changed, new), added)
                if files.num_rows
            ],
            [
                file_actions(files, before, vectors, removed=True)
                for files, vectors in ((between.changed, old), removed)
                if files.num_rows
            ],
        )

    def actions(self, files: pa.Table, metadata: Metadata, version: int) -> FileActions:
        """Return all files of a state, for a checkpoint."""
        fresh = version == self._state.spans[0][1] and self._between.base == NOTHING
        vectors = self._vectors(files, "", version, fresh=fresh)
        return file_actions(files, metadata, vectors)

    def _vectors(
        self, files: pa.Table, suffix: str, version: int, *, fresh: bool = False
    ) -> dict[int, dict[str, Any]]:
        """Return the descriptors of files with deleted rows, by place.

        Args:
            files: of the difference.
            suffix: "_before" for the state of `base`, else "".
            version: the version of the state.
            fresh: vectors of this commit go into a new object.
        """
        if not files.num_rows:
            return {}
        places = np.flatnonzero(files[f"deleted{suffix}"].to_numpy() > 0)
        ids, rows, last = (
            files[name].to_numpy()[places].tolist() for name in ("id", "rows", f"vector{suffix}")
        )
        found = {}
        for place, file, count, at in zip(places.tolist(), ids, rows, last, strict=True):
            positions = self._between.positions(file, count, version)
            data = vector_bytes(positions)
            if len(data) <= INLINE_MAX:
                found[place] = inline_descriptor(data, positions)
                continue
            told = self._state.told_by(at)
            if fresh and told == self._between.version:
                own = self._new.setdefault(told, VectorFile(self._table, told))
                own.add(data)
            else:
                own = self._target.vector_file(self._table, told, self._fetch)
            descriptor = own.descriptor(data, positions)
            if descriptor is None:
                key = vectors_key(self._table, told)
                message = f"it lacks the deletion vector of file {file}"
                raise CorruptTableError(message, key=key, rule="XPT-8")
            found[place] = descriptor
        return found


def _left(
    files: pa.Table, vectors: Mapping[int, dict[str, Any]], without: Iterable[int]
) -> tuple[pa.Table, Mapping[int, dict[str, Any]]]:
    """Return the files and descriptors except those at some places."""
    left_out = sorted(without)
    if not left_out:
        return files, vectors
    kept = [place for place in sorted(vectors) if place not in set(left_out)]
    moved = np.asarray(kept) - np.searchsorted(left_out, kept)
    return selected(files, left_out), {
        int(to): vectors[place] for to, place in zip(moved, kept, strict=True)
    }
