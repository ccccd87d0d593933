"""Objects of one Iceberg snapshot: manifests, their list and the metadata file.

It reads the manifest list of the version before, and older manifests of delete files that it must
write again. It writes nothing. Spec: XPT-20 .. XPT-28.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablefmt.errors import CorruptTableError
from tablefmt.export.avro_file import ADVICE, read_records
from tablefmt.export.export_target import Fetch, Step
from tablefmt.export.iceberg_deletes import (
    DeleteFile,
    delete_manifests,
    kept_delete_files,
    new_delete_files,
)
from tablefmt.export.iceberg_manifests import (
    ADDED,
    DELETED,
    EXISTING,
    FULL,
    Entries,
    Manifest,
    NewObject,
    TableForm,
    chunks,
    data_manifest,
    id_range,
    manifest_list,
    plan_data,
    plan_deletes,
)
from tablefmt.export.iceberg_metadata import Numbers, document, numbered
from tablefmt.export.iceberg_schema import Json
from tablefmt.export.version_difference import Difference, Ids, from_nothing
from tablefmt.model.log_entry import Metadata
from tablefmt.snapshot.file_columns import typed_bounds
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import KeyNotFoundError

_NO_IDS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Before:
    """Foreign commit before: its metadata file and its manifests."""

    document: Json
    manifests: Sequence[Manifest]


@dataclass(frozen=True, slots=True)
class Made:
    """Objects of a snapshot."""

    document: Json
    """Content of the metadata file."""
    manifests: list[Manifest]
    objects: list[NewObject] = field(default_factory=list)
    """Objects that the metadata file needs: delete files, manifests, the manifest list."""


def before_of(body: Json, location: str, fetch: Fetch) -> Before:
    """Return the foreign commit of a metadata file, with its manifests.

    Raises:
        CorruptTableError: the manifest list is missing or damaged.
    """
    path: str = body["snapshots"][-1]["manifest-list"]
    key = key_of(path, location)
    try:
        manifests = [
            Manifest(record, *id_range(record["manifest_path"])) for record in _read(fetch, key)
        ]
    except (KeyError, ValueError) as error:
        message = f"the manifest list is not that of an export ({error})"
        raise CorruptTableError(message, key=key, rule="XPT-22", advice=ADVICE) from None
    return Before(body, manifests)


def _read(fetch: Fetch, key: str) -> list[Json]:
    """Return the records of an object of the export."""
    try:
        return read_records(fetch(key), key)
    except KeyNotFoundError:
        raise CorruptTableError("it is missing", key=key, rule="XPT-22", advice=ADVICE) from None


def key_of(path: str, location: str) -> str:
    """Return the key of an object of the table by its address.

    Raises:
        CorruptTableError: it is not in the table.
    """
    if not path.startswith(location + "/"):
        message = f"an export names {path!r:.200}, which is not in the table"
        raise CorruptTableError(message, rule="XPT-20", advice=ADVICE)
    return path[len(location) + 1 :]


def make_snapshot(
    step: Step,
    difference: Difference,
    before: Before | None,
    *,
    form: int,
    location: str,
    roots: Mapping[int, str],
    keep: int,
    fetch: Fetch,
) -> Made:
    """Return the objects of the snapshot of one version.

    Args:
        step: the version.
        difference: from the version that the copy shows.
        before: the foreign commit of that version; None to begin anew.
        form: format version.
        location: address of the table.
        roots: addresses of folders outside the table, by the number of the import.
        keep: number of snapshots to list.
        fetch: reads objects of the export.
    """
    known = None if before is None else before.document
    now = step.view.snapshot(step.stored.version)
    shown = difference
    if known is not None and (known["format-version"] != form or _partitions_again(difference)):
        # All manifests are written again, in the new form.
        shown, before = from_nothing(now), None
    numbers = numbered(step.metadata, form, known)
    table = TableForm(
        location=location,
        form=form,
        schema=step.metadata.schema,
        schema_json=numbers.schema,
        spec=numbers.spec,
        snapshot=step.stored.version + 1,
        roots=roots,
    )
    come = difference.added["id"].to_numpy()
    snapshot = _Snapshot(now, shown, come, table, numbers, before, fetch)
    made = snapshot.data() + snapshot.deletes()
    manifests = [manifest for manifest, _ in made]
    parent = None if known is None else known["current-snapshot-id"]
    listed = manifest_list(table, manifests, parent)
    objects = [*snapshot.objects, *(written for _, written in made if written), listed]
    body = document(
        step.stored,
        step.metadata,
        difference,
        numbers,
        manifests,
        form=form,
        location=location,
        manifest_list=listed.key,
        keep=keep,
        before=known,
    )
    return Made(body, manifests, objects)


def _partitions_again(difference: Difference) -> bool:
    """Return True if partition values have another form than before, in the same partitioning."""
    was, now = difference.before, difference.after
    if was is None or set(was.partition_by) != set(now.partition_by):
        return False
    kinds = [[m.schema.by_id(i).type for i in now.partition_by] for m in (was, now)]
    return was.partition_by != now.partition_by or kinds[0] != kinds[1]


_Listed = tuple[Manifest, NewObject | None]


class _Snapshot:
    """Manifests of one snapshot."""

    def __init__(
        self,
        now: Snapshot,
        difference: Difference,
        come: Ids,
        table: TableForm,
        numbers: Numbers,
        before: Before | None,
        fetch: Fetch,
    ) -> None:
        self._difference, self._table, self._numbers = difference, table, numbers
        self._now, self._come, self._fetch = now, come, fetch
        old = [] if before is None else before.manifests
        self._old_data = [manifest for manifest in old if manifest.is_data]
        self._old_deletes = [manifest for manifest in old if not manifest.is_data]
        self.objects: list[NewObject] = []
        """Delete files."""

    def data(self) -> list[_Listed]:
        """Return the manifests of data files; a new one with its object."""
        added, removed = self._difference.added, self._difference.removed
        come, go = added["id"].to_numpy(), removed["id"].to_numpy()
        plan = plan_data(self._old_data, come, go)
        made: list[_Listed] = [(manifest, None) for manifest in plan.kept]
        live = _NO_IDS
        if plan.ranges and plan.ranges != [_span(come)]:
            live = self._live_ids()
        for low, high in plan.ranges:
            if (low, high) == _span(come) and not _between(go, low, high).size:
                files = added
            else:
                files = self._now.of_ids(_between(live, low, high))
            dead = removed.filter(pa.array((go >= low) & (go <= high)))
            made += self._written(files, dead)
        return sorted(made, key=lambda each: each[0].low)

    def _live_ids(self) -> Ids:
        ids: Ids = self._now.files_with(["path"])["id"].to_numpy()
        return ids

    def _written(self, files: pa.Table, dead: pa.Table) -> list[_Listed]:
        """Return manifests of the files of one range of ids."""
        was = self._former_partitioning()
        if was is not None:
            # The entry removes all files of the other partitioning.
            found = self._chunked(files, dead.slice(0, 0), self._table)
            if not {field.id for field in self._table.schema.fields}.issuperset(was.partition_by):
                # Readers fail at a partition column that the snapshot's schema lacks.
                return found
            other = replace(self._table, schema=was.schema, spec=self._numbers.spec_of(was))
            return [*found, *self._chunked(files.slice(0, 0), dead, other)]
        fields = self._table.schema.fields
        return self._chunked(typed_bounds(files, fields), typed_bounds(dead, fields), self._table)

    def _former_partitioning(self) -> Metadata | None:
        """Return the metadata of removed files, if they have another partitioning."""
        was = self._difference.before
        if was is None or set(was.partition_by) == set(self._difference.after.partition_by):
            return None
        return was

    def _chunked(self, files: pa.Table, dead: pa.Table, table: TableForm) -> list[_Listed]:
        ids = np.concatenate([files["id"].to_numpy(), dead["id"].to_numpy()])
        made: list[_Listed] = []
        for part in chunks(np.sort(ids), FULL):
            low, high = int(part[0]), int(part[-1])
            groups = [*self._live(_within(files, low, high))]
            gone = _within(dead, low, high)
            groups.append(Entries(gone, DELETED, np.full(gone.num_rows, table.snapshot)))
            made.append(data_manifest(table, groups))
        return made

    def _live(self, files: pa.Table) -> Iterable[Entries]:
        new = np.isin(files["id"].to_numpy(), self._come)
        some = files.filter(pa.array(new))
        yield Entries(some, ADDED, np.full(some.num_rows, self._table.snapshot))
        older = files.filter(pa.array(~new))
        yield Entries(older, EXISTING, older["added"].to_numpy() + 1)

    def deletes(self) -> list[_Listed]:
        """Return the manifests of delete files; a new one with its object."""
        difference = self._difference
        victims = _victims(difference)
        fresh, self.objects = new_delete_files(self._table, victims, self._positions)
        was = difference.removed.filter(pc.greater(difference.removed["deleted"], 0))
        replacing = [was, victims] if self._table.form >= 3 else [was]
        ids = [files["id"].to_numpy() for files in replacing]
        plan = plan_deletes(self._old_deletes, np.unique(np.concatenate(ids)))
        made: list[_Listed] = [(manifest, None) for manifest in plan[0]]
        replaced = frozenset(
            address.decode()
            for files in replacing
            if files.num_rows
            for address in self._table.addresses(files).to_pylist()
        )
        kept = self._reread(plan[1], replaced)
        return made + list(delete_manifests(self._table, [*kept, *fresh]))

    def _reread(self, manifests: Sequence[Manifest], replaced: frozenset[str]) -> list[DeleteFile]:
        if not manifests:
            return []
        live = self._live_ids()
        kept: list[DeleteFile] = []
        for manifest in manifests:
            key = key_of(manifest.record["manifest_path"], self._table.location)
            entries = _read(self._fetch, key)
            kept += kept_delete_files(self._table, manifest, entries, replaced, live)
        return kept

    def _positions(self, file: int, rows: int) -> BitMap64:
        """Return the positions to write for a data file: all of them, or those of this version."""
        difference = self._difference
        now = difference.positions(file, rows, difference.version)
        if self._table.form >= 3 or difference.before is None:
            return now
        return now - difference.positions(file, rows, difference.base)


def _victims(difference: Difference) -> pa.Table:
    """Return the files that have deleted rows now and had fewer before."""
    added = difference.added.filter(pc.greater(difference.added["deleted"], 0))
    parts = [files for files in (added, difference.changed) if files.num_rows]
    return pa.concat_tables(parts or [added], promote_options="permissive")


def _span(ids: Ids) -> tuple[int, int] | None:
    return (int(ids.min()), int(ids.max())) if len(ids) else None


def _between(ids: Ids, low: int, high: int) -> Ids:
    return ids[(ids >= low) & (ids <= high)]


def _within(files: pa.Table, low: int, high: int) -> pa.Table:
    ids = files["id"].to_numpy()
    return files.filter(pa.array((ids >= low) & (ids <= high)))
