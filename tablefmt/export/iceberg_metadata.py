"""Metadata files of an Iceberg table: the document of one version, from that of the version before.
Pure.

Metadata file v<n + 1> and snapshot n + 1 are version n of the table. Spec: XPT-20, XPT-24, XPT-27.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from tablefmt.export.iceberg_manifests import FOLDER, ROW_ID_BITS, Manifest, PartitionSpec
from tablefmt.export.iceberg_names import name_mapping
from tablefmt.export.iceberg_schema import (
    PARTITION_IDS,
    Json,
    partition_fields,
    partition_key,
    renamed_specs,
    schema_json,
    spec_key,
    table_uuid,
)
from tablefmt.export.version_difference import Difference
from tablefmt.log.strict_json import bounded_json
from tablefmt.model.log_entry import Entry, Metadata, OperationClass, StoredEntry

TABLE, VERSION, ENTRY, SHOWN, NEXT_ID = (
    f"tablefmt.{name}" for name in ("table", "version", "entry", "shown", "next-id")
)
"""Properties of the metadata file that name the entry it was made from. Spec: XPT-3."""

NAMES = "schema.name-mapping.default"

PROPERTIES = frozenset({TABLE, VERSION, ENTRY, SHOWN, NEXT_ID, NAMES, "gc.enabled", "comment"})
"""All properties that an exporter writes."""

HINT = FOLDER + "version-hint.text"


def metadata_key(version: int) -> str:
    """Return the key of the metadata file of a version of the table."""
    return f"{FOLDER}v{version + 1}.metadata.json"


@dataclass(frozen=True, slots=True)
class Numbers:
    """Schema and partition specs of a version, with their numbers in the metadata file."""

    schema: Json
    schemas: list[Json]
    spec: PartitionSpec
    """Spec of the current partitioning."""
    live: Mapping[int, PartitionSpec]
    """Spec of each partitioning that live files may have, by its number in the table (EVO-1)."""
    specs: list[Json]

    def specs_of(self, metadata: Metadata) -> dict[int, PartitionSpec]:
        """Return the specs of an earlier version's partitionings, by their numbers."""
        return {
            number: self._spec_of(metadata.partitioned_as(number)) for number in metadata.numbered
        }

    def _spec_of(self, metadata: Metadata) -> PartitionSpec:
        columns = metadata.partition_fields
        keys = [partition_key(column, metadata) for column in columns]
        spec = next(spec for spec in self.specs if _keys(spec["fields"]) == keys)
        return PartitionSpec(spec["spec-id"], spec["fields"], columns)


def _keys(fields: Sequence[Json]) -> list[tuple[int, str]]:
    return [spec_key(field) for field in fields]


def numbered(metadata: Metadata, form: int, before: Json | None) -> Numbers:
    """Return the schema and the partition specs of a version, and all that the file lists.

    A schema or a spec that the version before has keeps its number.

    Args:
        metadata: in force at the version.
        form: format version.
        before: the document of the version before.
    """
    known: list[Json] = [] if before is None else before["schemas"]
    next_number = max((each["schema-id"] for each in known), default=-1) + 1
    made = schema_json(metadata.schema, next_number, initials=form >= 3)
    same = [each for each in known if each["fields"] == made["fields"]]
    schema = same[-1] if same else made
    specs: list[Json] = [] if before is None else before["partition-specs"]
    specs = renamed_specs(specs, metadata.schema)
    live: dict[int, PartitionSpec] = {}
    for number in sorted(metadata.numbered):
        partitioned = metadata.partitioned_as(number)
        fields = partition_fields(partitioned, specs)
        spec = next((each for each in specs if _keys(each["fields"]) == _keys(fields)), None)
        if spec is None:
            spec_id = max((each["spec-id"] for each in specs), default=-1) + 1
            spec = {"spec-id": spec_id, "fields": fields}
            specs = [*specs, spec]
        columns = partitioned.partition_fields
        live[number] = PartitionSpec(spec["spec-id"], spec["fields"], columns)
    schemas = [*known, *([] if same else [made])]
    return Numbers(schema, schemas, live[metadata.partitioning], live, specs)


def next_row_id(stored: StoredEntry, before: Json | None) -> int:
    """Return the first row id that no file of any version up to this one has."""
    known: int = 0 if before is None else before.get("next-row-id", 0)
    return max(known, stored.entry.totals.next_id << ROW_ID_BITS)


def document(
    stored: StoredEntry,
    metadata: Metadata,
    difference: Difference,
    numbers: Numbers,
    manifests: Sequence[Manifest],
    *,
    form: int,
    location: str,
    manifest_list: str,
    keep: int,
    before: Json | None,
) -> Json:
    """Return the metadata file of a version.

    Args:
        stored: the entry of the version.
        metadata: in force at the version.
        difference: from the version that the copy showed before.
        numbers: its schema and its partition specs.
        manifests: of the snapshot.
        form: format version.
        location: address of the table.
        manifest_list: key of the snapshot's manifest list.
        keep: number of snapshots to list.
        before: the document of the version before; None for the first one.
    """
    number = stored.version + 1
    milliseconds = stored.entry.timestamp // 1000
    snapshot: Json = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": milliseconds,
        "schema-id": numbers.schema["schema-id"],
        "manifest-list": f"{location}/{manifest_list}",
        "summary": _summary(stored, difference, manifests),
    }
    if before is not None:
        snapshot["parent-snapshot-id"] = before["current-snapshot-id"]
    row_ids = next_row_id(stored, before)
    if form >= 3:
        first = 0 if before is None else before.get("next-row-id", 0)
        snapshot |= {"first-row-id": first, "added-rows": row_ids - first}
    made: Json = {
        "format-version": form,
        "table-uuid": table_uuid(stored.entry.table),
        "location": location,
        "last-sequence-number": number,
        "last-updated-ms": milliseconds,
        "last-column-id": metadata.schema.last_id,
        **_numbered(numbers),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": _properties(stored, metadata, before),
        **_history(snapshot, stored.entry, keep, before),
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }
    used = {each["schema-id"] for each in made["snapshots"]}
    made["schemas"] = [each for each in made["schemas"] if each["schema-id"] in used]
    return made | ({"next-row-id": row_ids} if form >= 3 else {})


def _numbered(numbers: Numbers) -> Json:
    """Return the keys of schemas and partition specs."""
    ids = [field["field-id"] for spec in numbers.specs for field in spec["fields"]]
    return {
        "current-schema-id": numbers.schema["schema-id"],
        "schemas": numbers.schemas,
        "default-spec-id": numbers.spec.number,
        "partition-specs": numbers.specs,
        "last-partition-id": max([PARTITION_IDS - 1, *ids]),
    }


def _history(snapshot: Json, entry: Entry, keep: int, before: Json | None) -> Json:
    """Return the keys of snapshots, with a tag for each."""
    older = [] if before is None else before["snapshots"]
    kept = [each for each in older if each["snapshot-id"] > entry.totals.oldest]
    snapshots = [*kept[max(0, len(kept) - (keep - 1)) :], snapshot]
    ids = [each["snapshot-id"] for each in snapshots]
    number = snapshot["snapshot-id"]
    log = [] if before is None else before["snapshot-log"]
    line = {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": number}
    tags = {f"v{each - 1}": {"snapshot-id": each, "type": "tag"} for each in ids}
    return {
        "current-snapshot-id": number,
        "snapshots": snapshots,
        "snapshot-log": [each for each in [*log, line] if each["snapshot-id"] in ids],
        "refs": {**tags, "main": {"snapshot-id": number, "type": "branch"}},
    }


def held_document(stored: StoredEntry, shown: int, before: Json) -> Json:
    """Return the metadata file of a version whose rows it does not show: that of the version
    before.
    """
    entry = stored.entry
    marks = _marks(stored, shown)
    return before | {
        "last-updated-ms": entry.timestamp // 1000,
        "properties": before["properties"] | marks,
    }


def _marks(stored: StoredEntry, shown: int) -> dict[str, str]:
    entry = stored.entry
    return {
        TABLE: entry.table,
        VERSION: str(entry.version),
        ENTRY: stored.digest,
        SHOWN: str(shown),
    }


def _properties(stored: StoredEntry, metadata: Metadata, before: Json | None) -> dict[str, str]:
    """Return the table properties. With `gc.enabled`, other programs would remove our files."""
    known = []
    if before is not None and metadata.imports:
        known = bounded_json(before["properties"][NAMES].encode())
    made = {
        **_marks(stored, stored.version),
        NEXT_ID: str(stored.entry.totals.next_id),
        "gc.enabled": "false",
        NAMES: orjson.dumps(name_mapping(metadata, known)).decode(),
    }
    return made | ({"comment": metadata.comment} if metadata.comment else {})


_REPLACES = frozenset(
    {
        OperationClass.MINOR_COMPACT,
        OperationClass.MAJOR_COMPACT,
        OperationClass.CLUSTER,
        OperationClass.METADATA,
        OperationClass.PROTOCOL,
    }
)


def _operation(entry: Entry, difference: Difference) -> str:
    """Return Iceberg's name of a change. Readers of appended rows skip the other kinds."""
    added, removed = difference.added.num_rows, difference.removed.num_rows
    if difference.before is None or entry.operation.cls is OperationClass.INSERT:
        return "append"
    if entry.operation.cls in _REPLACES:
        return "replace"
    if not added and (removed or difference.changed.num_rows):
        return "delete"
    return "overwrite"


def _summary(
    stored: StoredEntry, difference: Difference, manifests: Sequence[Manifest]
) -> dict[str, str]:
    entry, totals = stored.entry, stored.entry.totals
    counts: Mapping[str, int] = {
        "added-data-files": difference.added.num_rows,
        "deleted-data-files": difference.removed.num_rows,
        "added-records": int(difference.added["rows"].to_numpy().sum()),
        "deleted-records": int(difference.removed["rows"].to_numpy().sum()),
        "total-data-files": totals.files,
        "total-records": totals.rows,
        "total-files-size": totals.bytes,
        "total-delete-files": sum(m.live for m in manifests if not m.is_data),
        "total-position-deletes": totals.deleted,
        "total-equality-deletes": 0,
    }
    return {
        "operation": _operation(entry, difference),
        VERSION: str(entry.version),
        ENTRY: stored.digest,
        **{name: str(count) for name, count in counts.items()},
    }
