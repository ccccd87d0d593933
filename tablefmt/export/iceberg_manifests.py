"""Manifests of data files and manifest lists, from Arrow columns. Pure.

A manifest lists the data files of a range of file ids. Its name has the range, and a digest of its
bytes. So two releases that write other bytes also write other names, and a manifest list never
names a manifest of another length.

The ranges are disjoint. A commit adds one manifest, and writes those again that list a removed
file. When there are many small manifests, the newest ones become one: each is written again a
number of times that grows with the logarithm. Spec: XPT-21, XPT-22, XPT-25.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.conflict.read_write_sets import Ids
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.export import avro_file as avro
from tablefmt.export.avro_file import write_columns, write_encoded
from tablefmt.export.iceberg_records import entry_schema, list_schema
from tablefmt.export.iceberg_schema import Json, columns_of
from tablefmt.export.iceberg_values import (
    lower_bound_of_zero,
    partition_values,
    single_values,
    single_width,
    upper_bound_of_zero,
)
from tablefmt.log.bounded_avro import long_bytes
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.schema import Field, Schema, Type, is_float

FOLDER = "metadata/"
"""Folder of an Iceberg table's metadata. Spec: KEY-4."""

EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of a manifest entry."""

DATA, DELETES = 0, 1
"""Content of a manifest."""

ROW_ID_BITS = 32
"""Rows of file i have the row ids from i * 2^32 on. Spec: XPT-27."""

_PARQUET = b"\x0ePARQUET"
_ZERO, _UNKNOWN = pa.scalar(b"\x00", pa.binary()), pa.scalar(None, pa.binary())

_ROWS_MAX = 1 << ROW_ID_BITS
_FILES_MAX = 1 << (63 - ROW_ID_BITS)
_NAME = re.compile(r"(?:data|deletes)-\d+-(\d+)-(\d+)-[0-9a-f]+\.avro")


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """Partition spec with the columns that it partitions by."""

    number: int
    fields: Sequence[Json]
    """Fields in Iceberg's JSON."""
    columns: Sequence[Field]
    """Columns of the table, in the order of the fields."""

    @property
    def kinds(self) -> list[Type]:
        """Return the types of the columns."""
        return [column.type for column in self.columns]

    @property
    def ids(self) -> list[int]:
        """Return the ids of the columns in the table."""
        return [column.id for column in self.columns]

    @property
    def sources(self) -> set[int]:
        """Return the ids of the columns whose values it needs."""
        return {each["source-id"] for each in self.fields}


@dataclass(frozen=True, slots=True)
class TableForm:
    """Facts that all manifests of one snapshot share."""

    location: str
    """Address of the table, without a slash at the end."""
    form: int
    """Format version of the table: 2 or 3."""
    schema: Schema
    schema_json: Json
    spec: PartitionSpec
    snapshot: int
    """Id and sequence number of the snapshot."""
    roots: Mapping[int, str] = field(default_factory=dict)
    """Addresses of folders outside the table, by the number of the import. Spec: XPT-29."""

    def addresses(self, files: pa.Table) -> pa.Array:
        """Return the addresses of data files, as binary."""
        folder: avro.Encoded = f"{self.location}/".encode()
        if self.roots and NUMBER in files.column_names:
            folders = [self.location, *self.roots.values()]
            numbers = pc.index_in(_column(files, NUMBER), pa.array([*self.roots], pa.int64()))
            places = pc.add(pc.fill_null(numbers, -1), 1)
            folder = pa.array([f"{each}/".encode() for each in folders], pa.binary()).take(places)
        return avro.joined(folder, _column(files, "path").cast(pa.binary()))


@dataclass(frozen=True, slots=True)
class Entries:
    """Data files with the same status in one manifest, as columns."""

    files: pa.Table
    """ADD-1 columns with `id` and `added`, in the types of the schema."""
    status: int
    snapshots: NDArray[np.int64]
    """Snapshot that added or deleted each file."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """Object of an export: its key in the table, and its bytes."""

    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest in a manifest list."""

    record: Mapping[str, Any]
    """Record of the list, by `list_schema`."""
    low: int
    high: int
    """Lowest and highest file id that it may list."""
    _encoded: dict[int, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Bytes of the record by format version: a list names most manifests of the one before."""

    def encoded(self, form: int) -> bytes:
        """Return the bytes of its record in a manifest list of a format version."""
        if form not in self._encoded:
            record = {"first_row_id": None, **self.record}
            self._encoded[form] = avro.encode(list_schema(form), record)
        return self._encoded[form]

    @property
    def spec(self) -> int:
        """Return the number of its partition spec."""
        number: int = self.record["partition_spec_id"]
        return number

    @property
    def live(self) -> int:
        """Return the number of files that are live in it."""
        count: int = self.record["added_files_count"] + self.record["existing_files_count"]
        return count

    @property
    def is_data(self) -> bool:
        """Return True if it lists data files, and not delete files."""
        return bool(self.record["content"] == DATA)


def id_range(path: str) -> tuple[int, int]:
    """Return the range of file ids in the name of a manifest. Raises ValueError."""
    match = _NAME.fullmatch(path.rpartition("/")[2])
    if match is None:
        raise ValueError(f"{path!r} is not the name of a manifest of an export")
    return int(match[1]), int(match[2])


def named(kind: str, snapshot: int, low: int, high: int, body: bytes, suffix: str) -> str:
    """Return the key of an object that lists files of a range of ids."""
    digest = hashlib.sha256(body).hexdigest()[:16]
    return f"{FOLDER}{kind}-{snapshot}-{low}-{high}-{digest}.{suffix}"


def data_manifest(table: TableForm, groups: Sequence[Entries]) -> tuple[Manifest, NewObject]:
    """Return a manifest of data files, and its object.

    Raises:
        UnsupportedFeatureError: a file has more rows than row ids can number (format 3).
    """
    groups = [group for group in groups if group.files.num_rows]
    ids = np.concatenate([group.files["id"].to_numpy() for group in groups])
    records = pa.concat_arrays([_entries(table, group) for group in groups])
    body = write_columns(
        entry_schema(list(zip(table.spec.fields, table.spec.kinds, strict=True)), table.form),
        manifest_facts(table, "data"),
        records,
    )
    low, high = int(ids.min()), int(ids.max())
    key = named("data", table.snapshot, low, high, body, "avro")
    counts = dict.fromkeys((EXISTING, ADDED, DELETED), (0, 0))
    for group in groups:
        files, rows = counts[group.status]
        counts[group.status] = (
            files + group.files.num_rows,
            rows + int(group.files["rows"].to_numpy().sum()),
        )
    added = np.concatenate([group.files["added"].to_numpy() for group in groups])
    record = list_record(
        table,
        key=key,
        length=len(body),
        content=DATA,
        least=int(added.min()) + 1,
        counts=counts,
        partitions=_summaries(table.spec, [group.files for group in groups]),
        first_row_id=low << ROW_ID_BITS,
    )
    return Manifest(record, low, high), NewObject(key, body)


def list_record(
    table: TableForm,
    *,
    key: str,
    length: int,
    content: int,
    least: int,
    counts: Mapping[int, tuple[int, int]],
    partitions: list[Json] | None,
    first_row_id: int | None,
) -> Json:
    """Return the record of a manifest in a manifest list.

    Args:
        table: facts of the snapshot.
        key: the manifest.
        length: of the manifest in bytes.
        content: DATA or DELETES.
        least: the lowest sequence number of an entry.
        counts: files and rows by status.
        partitions: summaries of the partition values; None: not known.
        first_row_id: of a manifest of data files, in format 3.
    """
    record: Json = {
        "manifest_path": f"{table.location}/{key}",
        "manifest_length": length,
        "partition_spec_id": table.spec.number,
        "content": content,
        "sequence_number": table.snapshot,
        "min_sequence_number": least,
        "added_snapshot_id": table.snapshot,
        "partitions": partitions,
        "key_metadata": None,
        "first_row_id": first_row_id,
    }
    for status, name in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
        files, rows = counts[status]
        record |= {f"{name}_files_count": files, f"{name}_rows_count": rows}
    return record


def manifest_facts(table: TableForm, content: str) -> dict[str, str]:
    """Return the header of a manifest."""
    return {
        "schema": orjson.dumps(table.schema_json).decode(),
        "schema-id": str(table.schema_json["schema-id"]),
        "partition-spec": orjson.dumps(table.spec.fields).decode(),
        "partition-spec-id": str(table.spec.number),
        "format-version": str(table.form),
        "content": content,
    }


def manifest_list(table: TableForm, manifests: Sequence[Manifest], parent: int | None) -> NewObject:
    """Return the manifest list of a snapshot."""
    facts = {
        "snapshot-id": str(table.snapshot),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(table.snapshot),
        "format-version": str(table.form),
    }
    body = write_encoded(list_schema(table.form), facts, [m.encoded(table.form) for m in manifests])
    digest = hashlib.sha256(body).hexdigest()[:16]
    return NewObject(f"{FOLDER}snap-{table.snapshot}-{digest}.avro", body)


def partition_record(spec: PartitionSpec, files: pa.Table) -> pa.Array:
    """Return the Avro bytes of the partition values of files."""
    parts = [
        avro.optional(partition_values(_column(files, f"partition.{column.id}"), column.type))
        for column in spec.columns
    ]
    if not parts:
        return pa.repeat(pa.scalar(b"", pa.binary()), files.num_rows)
    return avro.joined(*parts)


def _entries(table: TableForm, group: Entries) -> pa.Array:
    files, count = group.files.combine_chunks(), group.files.num_rows
    sequence = avro.optional(avro.longs(files["added"].to_numpy() + 1))
    parts: list[avro.Encoded] = [
        long_bytes(group.status),
        avro.optional(avro.longs(group.snapshots)),
        sequence,
        sequence,
        long_bytes(DATA),
        avro.texts(table.addresses(files)),
        _PARQUET,
        partition_record(table.spec, files),
        avro.longs(files["rows"].to_numpy()),
        avro.longs(files["size"].to_numpy()),
        b"\x00",
        *_statistics(table.schema, files, count),
        b"\x00\x00\x00\x00",
    ]
    if table.form >= 3:
        parts += [avro.optional(avro.longs(_row_ids(files))), b"\x00\x00\x00"]
    else:
        parts.append(b"\x00")
    return avro.joined(*parts)


def _row_ids(files: pa.Table) -> NDArray[np.int64]:
    ids: Ids = files["id"].to_numpy()
    if int(files["rows"].to_numpy().max()) >= _ROWS_MAX or int(ids.max()) >= _FILES_MAX:
        raise UnsupportedFeatureError(
            f"Iceberg's row ids number fewer than {_ROWS_MAX:,} rows of a file and fewer than "
            f"{_FILES_MAX:,} files, and this table has more. Set export.iceberg.format=2.",
            ["row lineage"],
        )
    numbered: Ids = ids << ROW_ID_BITS
    return numbered


def _statistics(schema: Schema, files: pa.Table, count: int) -> list[pa.Array]:
    """Return counts and bounds of the columns, as maps by field id. Spec: XPT-21.

    A bound of a float counts only if no value is NaN. The entry has the number of NaN only
    if it is 0: readers drop a file of NaN alone for `x > 1`, and Spark orders NaN above every
    number.
    """
    values: dict[int, pa.Array] = {}
    nulls: dict[int, pa.Array] = {}
    nans: dict[int, pa.Array] = {}
    lower: dict[int, pa.Array] = {}
    upper: dict[int, pa.Array] = {}
    known = set(files.column_names)
    row_counts = files["rows"].to_numpy()
    rows = avro.longs(row_counts)
    for field_id, column in columns_of(schema).items():
        if f"nulls.{field_id}" in known:
            counted = _column(files, f"nulls.{field_id}")
            nulls[field_id], known_rows = _null_counts(counted, row_counts)
            values[field_id] = (
                rows if known_rows.all() else pc.if_else(pa.array(known_rows), rows, _UNKNOWN)
            )
        exact: Any = None
        if is_float(column.type):
            if f"nans.{field_id}" not in known:
                continue
            exact = pc.fill_null(pc.equal(_column(files, f"nans.{field_id}"), 0), False)
            nans[field_id] = pc.if_else(exact, _ZERO, _UNKNOWN)
        for target, group in ((lower, "lower"), (upper, "upper")):
            if f"{group}.{field_id}" in known:
                target[field_id] = _bounds(files, group, column, exact)
    fields = columns_of(schema)
    widths = {field_id: single_width(fields[field_id].type) for field_id in lower | upper}
    counts = [avro.id_map(each, count) for each in (values, nulls, nans)]
    bounds = [avro.id_map(each, count, widths) for each in (lower, upper)]
    return [avro.optional(each) for each in (*counts, *bounds)]


def _bounds(files: pa.Table, group: str, field: Field, exact: Any) -> pa.Array:
    column = _column(files, f"{group}.{field.id}")
    if exact is not None:
        column = pc.if_else(exact, column, pa.scalar(None, column.type))
        column = (lower_bound_of_zero if group == "lower" else upper_bound_of_zero)(column)
    values = single_values(column, field.type)
    return values if single_width(field.type) else avro.texts(values)


def _null_counts(counted: pa.Array, rows: Ids) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return encoded numbers of NULL, and a mask of those that are known and possible (PRN-6)."""
    counted = pc.fill_null(counted, -1) if counted.null_count else counted
    counts: Ids = counted.to_numpy(zero_copy_only=False).astype(np.int64)
    known = (counts >= 0) & (counts <= rows)
    if not counts.any():
        return pa.repeat(_ZERO, len(counts)), known
    encoded = avro.longs(counts)
    return (encoded if known.all() else pc.if_else(pa.array(known), encoded, _UNKNOWN)), known


def _summaries(spec: PartitionSpec, tables: Sequence[pa.Table]) -> list[Json]:
    made = []
    for column in spec.columns:
        name = f"partition.{column.id}"
        values = pa.concat_arrays([_column(table, name) for table in tables])
        nan = None
        if is_float(column.type):
            is_nan = pc.fill_null(pc.is_nan(values), False)
            nan = bool(pc.any(is_nan).as_py())
            values = pc.if_else(is_nan, None, values)
        ends = pc.min_max(values.drop_null())
        low, high = (
            single_values(pa.repeat(ends[side], 1), column.type)[0].as_py()
            for side in ("min", "max")
        )
        null = any(_column(table, name).null_count for table in tables)
        made.append(
            {"contains_null": null, "contains_nan": nan, "lower_bound": low, "upper_bound": high}
        )
    return made


def _column(files: pa.Table, name: str) -> pa.Array:
    return _flat(files[name])


def _flat(values: pa.ChunkedArray) -> pa.Array:
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


FULL = 16_384
"""Maximum number of data files in a manifest."""

SMALL_MAX = 32
"""Maximum number of manifests that are less than half full."""

DELETES_FULL = 1000
"""Maximum number of delete files in a manifest: format 3 writes one again for each new vector."""


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """Manifests of the next snapshot."""

    kept: list[Manifest]
    ranges: list[tuple[int, int]]
    """Ranges of file ids whose manifests are written, ascending and disjoint."""


def plan_data(old: Sequence[Manifest], added: Ids, removed: Ids) -> ManifestPlan:
    """Return the manifests of data files of the next snapshot.

    Args:
        old: the manifests of data files of the snapshot before.
        added: ids of the files that come, above all that the manifests list.
        removed: ids of the files that go.
    """
    old = sorted((m for m in old if m.live), key=lambda m: m.low)
    again = [_has(manifest, removed) for manifest in old]
    spans = [(m.low, m.high, m.live, hit) for m, hit in zip(old, again, strict=True)]
    if len(added):
        spans.append((int(added.min()), int(added.max()), len(added), True))
    small = [span for span in spans if span[2] < FULL // 2]
    if len(small) > SMALL_MAX:
        start = _merge_from([span[2] for span in spans])
        spans = [
            (low, high, live, hit or at >= start) for at, (low, high, live, hit) in enumerate(spans)
        ]
        if sum(not hit and live < FULL // 2 for _, _, live, hit in spans) > SMALL_MAX:
            spans = [(low, high, live, True) for low, high, live, _ in spans]
    ranges: list[tuple[int, int]] = []
    joins = False
    for low, high, _, hit in spans:
        if hit:
            ranges = [*ranges[:-1], (ranges[-1][0], high)] if joins else [*ranges, (low, high)]
        joins = hit
    kept = [m for m, span in zip(old, spans, strict=False) if not span[3]]
    return ManifestPlan(kept, ranges)


def _has(manifest: Manifest, ids: Ids) -> bool:
    first, last = np.searchsorted(ids, [manifest.low, manifest.high + 1])
    return bool(last > first)


def _merge_from(sizes: Sequence[int]) -> int:
    """Return the place from which on manifests become one.

    At least half of the allowed number goes, and then each one that is not much larger than all
    later ones together. A full one stays.
    """
    at, total = len(sizes), 0
    while at > 0 and sizes[at - 1] < FULL // 2:
        if len(sizes) - at >= SMALL_MAX // 2 and sizes[at - 1] > 2 * total:
            break
        at -= 1
        total += sizes[at]
    return at


def chunks(ids: Ids, most: int) -> list[Ids]:
    """Return ids in parts of at most `most`, of about the same size."""
    if not len(ids):
        return []
    return np.array_split(ids, -(-len(ids) // most))


def plan_deletes(old: Sequence[Manifest], touched: Ids) -> tuple[list[Manifest], list[Manifest]]:
    """Return the manifests of delete files that stay, and those to read and write again.

    Args:
        old: the manifests of delete files of the snapshot before.
        touched: ids of data files whose delete files are replaced or go, ascending.
    """
    old = [manifest for manifest in old if manifest.live]
    again = [manifest for manifest in old if _has(manifest, touched)]
    kept = [manifest for manifest in old if not _has(manifest, touched)]
    if len(kept) > SMALL_MAX:
        kept.sort(key=lambda m: m.live)
        again += kept[: SMALL_MAX // 2 + len(kept) - SMALL_MAX]
        kept = kept[SMALL_MAX // 2 + len(kept) - SMALL_MAX :]
    return kept, again
