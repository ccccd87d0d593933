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

from tablefmt.conflict.read_write_sets import Ids
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
    PartitionSpec,
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
from tablefmt.export.version_difference import Difference, from_nothing
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Type
from tablefmt.snapshot.file_columns import numbers_of, own_values, typed_bounds
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
    """Return True if partition values have another form than before, in a partitioning that both
    versions have.
    """
    was, now = difference.before, difference.after
    if was is None:
        return False
    same = {frozenset(ids): ids for ids in now.numbered.values()}
    return any(
        _typed(was, ids) != _typed(now, same[frozenset(ids)])
        for ids in was.numbered.values()
        if frozenset(ids) in same
    )


def _typed(metadata: Metadata, ids: Iterable[int]) -> list[tuple[int, Type]]:
    """Return the fields of a partitioning in order, with the types of their values."""
    return [(i, metadata.schema.by_id(i).type) for i in ids]


def _by_spec(files: pa.Table, specs: Mapping[int, PartitionSpec]) -> dict[int, pa.Table]:
    """Return the files of each partition spec, by the number of the spec.

    Args:
        files: with the number of their partitioning, if there are several.
        specs: the spec of each partitioning, by the number of the partitioning.
    """
    if len(specs) < 2:
        return {spec.number: files for spec in specs.values()}
    numbers = numbers_of(files)
    return {spec.number: files.filter(pa.array(numbers == n)) for n, spec in specs.items()}


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
        self._old: Sequence[Manifest] = [] if before is None else before.manifests
        self._forms = {s.number: replace(table, spec=s) for s in numbers.live.values()}
        was = difference.before
        self._former = {} if was is None else numbers.specs_of(was)
        self._live_files: dict[int, pa.Table] = {}
        """Live files with a few columns, by the number of their partition spec."""
        self.objects: list[NewObject] = []
        """Delete files."""

    def data(self) -> list[_Listed]:
        """Return the manifests of data files; a new one with its object."""
        added = _by_spec(self._difference.added, self._numbers.live)
        removed = _by_spec(self._difference.removed, self._former)
        made: list[_Listed] = []
        for number in sorted({*added, *removed}):
            come = added.get(number, self._difference.added.slice(0, 0))
            go = removed.get(number, self._difference.removed.slice(0, 0))
            made += self._data_of(number, come, go)
        return sorted(made, key=lambda each: each[0].low)

    def _data_of(self, number: int, added: pa.Table, removed: pa.Table) -> Iterable[_Listed]:
        """Yield the manifests of data files of a partition spec."""
        come, go = added["id"].to_numpy(), removed["id"].to_numpy()
        old = [each for each in self._old if each.is_data and each.spec == number]
        plan = plan_data(old, come, go)
        yield from ((manifest, None) for manifest in plan.kept)
        live = _NO_IDS
        if plan.ranges and plan.ranges != [_span(come)]:
            live = self._live_ids(number)
        for low, high in plan.ranges:
            if (low, high) == _span(come) and not _between(go, low, high).size:
                files = added
            else:
                files = own_values(self._now.of_ids(_between(live, low, high)))
            dead = removed.filter(pa.array((go >= low) & (go <= high)))
            yield from self._written(number, files, dead)

    def _live_ids(self, number: int) -> Ids:
        """Return the ids of the live files of a partition spec, ascending."""
        if not self._live_files:
            self._live_files = _by_spec(self._now.files_with(["path"]), self._numbers.live)
        ids: Ids = (
            self._live_files[number]["id"].to_numpy() if number in self._live_files else _NO_IDS
        )
        return ids

    def _written(self, number: int, files: pa.Table, dead: pa.Table) -> Iterable[_Listed]:
        """Yield manifests of the files of one range of ids and one partition spec."""
        table, schema = self._forms.get(number), self._table.schema
        former = next((s for s in self._former.values() if s.number == number), None)
        if table is not None and (former is None or former.ids == table.spec.ids):
            fields = schema.fields
            yield from self._chunked(typed_bounds(files, fields), typed_bounds(dead, fields), table)
            return
        # The entry removes all files of this partitioning.
        if table is not None:
            yield from self._chunked(files, dead.slice(0, 0), table)
        was = self._difference.before
        if former is None or was is None or not {f.id for f in schema.fields} >= former.sources:
            # Readers fail at a partition column that the snapshot's schema lacks.
            return
        other = replace(self._table, schema=was.schema, spec=former)
        yield from self._chunked(files.slice(0, 0), dead, other)

    def _chunked(self, files: pa.Table, dead: pa.Table, table: TableForm) -> list[_Listed]:
        ids = np.concatenate([files["id"].to_numpy(), dead["id"].to_numpy()])
        made: list[_Listed] = []
        for part in chunks(np.sort(ids), FULL):
            low, high = int(part[0]), int(part[-1])
            groups = [*self._live(_within(files, low, high))]
            listed = _within(dead, low, high)
            groups.append(Entries(listed, DELETED, np.full(listed.num_rows, table.snapshot)))
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
        victims = _by_spec(_victims(difference), self._numbers.live)
        was = difference.removed.filter(pc.greater(difference.removed["deleted"], 0))
        former = _by_spec(was, self._former)
        made: list[_Listed] = []
        for number, table in self._forms.items():
            # No file of a spec that the table lacks now is live, so its delete files go.
            made += self._deletes_of(table, victims[number], former.get(number, was.slice(0, 0)))
        return made

    def _deletes_of(self, table: TableForm, victims: pa.Table, was: pa.Table) -> Iterable[_Listed]:
        """Yield the manifests of delete files of a partition spec.

        Args:
            table: with the spec.
            victims: its files that lose rows.
            was: removed files that had lost rows.
        """
        fresh, objects = new_delete_files(table, victims, self._positions)
        self.objects += objects
        replacing = [was, victims] if table.form >= 3 else [was]
        ids = [files["id"].to_numpy() for files in replacing]
        old = [m for m in self._old if not m.is_data and m.spec == table.spec.number]
        plan = plan_deletes(old, np.unique(np.concatenate(ids)))
        yield from ((manifest, None) for manifest in plan[0])
        replaced = frozenset(
            address.decode()
            for files in replacing
            if files.num_rows
            for address in table.addresses(files).to_pylist()
        )
        kept = self._reread(table, plan[1], replaced)
        yield from delete_manifests(table, [*kept, *fresh])

    def _reread(
        self, table: TableForm, manifests: Sequence[Manifest], replaced: frozenset[str]
    ) -> list[DeleteFile]:
        if not manifests:
            return []
        live = self._live_ids(table.spec.number)
        kept: list[DeleteFile] = []
        for manifest in manifests:
            key = key_of(manifest.record["manifest_path"], table.location)
            entries = _read(self._fetch, key)
            kept += kept_delete_files(table, manifest, entries, replaced, live)
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
