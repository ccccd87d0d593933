"""Head: the summary of the newest entry, enough to commit on it without replay. Pure.

Spec: LOG-1 .. LOG-3, TIM-1, TIM-2, ENT-6, ENT-13, RPL-3, RPL-5 .. RPL-7, SCH-3, SCH-4, SCH-8,
SCH-9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tablefmt.errors import (
    CorruptEntryError,
    TableReplacedError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.object_names import VERSION_MAX, entry_key
from tablefmt.model.features import (
    EVOLUTION,
    EXPIRY,
    HIDDEN,
    IMPORTED,
    READER_FEATURES,
    WRITER_FEATURES,
    needs_newer,
)
from tablefmt.model.log_entry import (
    NOT_LOGICAL,
    AddedFiles,
    ApplicationTransaction,
    Entry,
    Import,
    Metadata,
    OperationClass,
    PartitionScope,
    ProtocolFeatures,
    StoredEntry,
    Totals,
)
from tablefmt.model.name_matching import folded
from tablefmt.model.scalar_values import decode, has_negative_zero
from tablefmt.model.schema import Schema, all_fields, all_ids, id_places, id_types
from tablefmt.model.schema_rules import dropped_roots
from tablefmt.model.tags import tags_of
from tablefmt.model.times import next_time
from tablefmt.model.type_widening import is_widening, same_kind, share_origin
from tablefmt.snapshot.cursors import NO_CURSORS, Cursors, moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Facts about a version that the writer of the next one needs."""

    table: str
    version: int
    digest: str
    timestamp: int
    time_version: int
    totals: Totals
    metadata: Metadata
    protocol: ProtocolFeatures
    applications: Mapping[str, tuple[ApplicationTransaction, int]] = field(default_factory=dict)
    """Newest application version by application id, and the version that set it."""
    cursors: Cursors = field(default_factory=dict)
    """Source cursors of the pipes that fill the table (RPL-7)."""
    ended: bool = False
    """True if the table ended with this version (ENT-14)."""


def first_head(stored: StoredEntry) -> Head:
    """Return the head after version 0.

    Raises:
        CorruptEntryError: an entry that cannot be the first.
        UnsupportedFeatureError: ENT-7.
    """
    entry = stored.entry
    # The codec has checked both.
    assert entry.metadata is not None
    assert entry.protocol is not None
    before = Totals(files=0, rows=0, bytes=0, next_id=1, metadata_version=0)
    if entry.operation.cls is not OperationClass.PROTOCOL:
        raise _bad(entry, "ENT-4", "it creates the table, but its class is not PROTOCOL")
    if entry.ends:
        raise _bad(entry, "ENT-14", "it both creates and drops the table")
    _check_times(entry, None)
    _check_totals(entry, before)
    _check_readable(entry.protocol)
    _check_features(entry, ProtocolFeatures())
    _check_scope(entry, entry.metadata)
    _check_imports(entry, {}, entry.metadata, entry.protocol)
    _check_hidden(entry, entry.metadata, entry.protocol)
    _check_evolution(entry, entry.metadata, entry.protocol)
    return Head(
        table=entry.table,
        version=0,
        digest=stored.digest,
        timestamp=entry.timestamp,
        time_version=entry.time_version,
        totals=entry.totals,
        metadata=entry.metadata,
        protocol=entry.protocol,
        applications=_applications({}, entry),
        cursors=moved(NO_CURSORS, entry),
    )


def advance(head: Head, stored: StoredEntry) -> Head:
    """Return the head after one more entry.

    Raises:
        CorruptEntryError: LOG-1 chain, LOG-3 table, TIM-1, TIM-2 times, RPL-3 sums, RPL-5 .. RPL-7,
            ENT-5, ENT-8, ENT-13, SCH-3, SCH-4, SCH-8, SCH-9, VER-4.
        UnsupportedFeatureError: ENT-7.
    """
    entry = stored.entry
    assert entry.version == head.version + 1, (entry.version, head.version)
    if head.ended:
        _check_begins(entry, head)
    elif entry.table != head.table:
        raise _bad(entry, "LOG-3", f"it belongs to table {entry.table}, not {head.table}")
    if entry.previous != head.digest:
        raise _bad(entry, "LOG-1", "`previous` is not the digest of the entry before it")
    _check_times(entry, head)
    _check_totals(entry, head.totals, anew=head.ended or entry.ends)
    protocol = entry.protocol or head.protocol
    _check_readable(protocol)
    _check_features(entry, head.protocol)
    _check_scope(entry, entry.metadata or head.metadata)
    known = {} if head.ended else head.metadata.imports
    _check_imports(entry, known, entry.metadata or head.metadata, protocol)
    _check_hidden(entry, entry.metadata or head.metadata, protocol)
    _check_evolution(entry, entry.metadata or head.metadata, protocol)
    if entry.horizon is not None and entry.horizon.log is not None:
        _check_expiry(entry, head)
    if entry.ends:
        _check_ends(entry)
    if entry.metadata is not None and not head.ended:
        _check_schema(entry, head.metadata.schema, entry.metadata.schema)
        _check_partitioning(entry, head, entry.metadata)
    return Head(
        table=entry.table,
        version=entry.version,
        digest=stored.digest,
        timestamp=entry.timestamp,
        time_version=entry.time_version,
        totals=entry.totals,
        metadata=entry.metadata or head.metadata,
        protocol=protocol,
        applications=_applications({} if head.ended else head.applications, entry),
        cursors=moved(NO_CURSORS if head.ended else head.cursors, entry),
        ended=entry.ends,
    )


def skip_to(head: Head, stored: StoredEntry) -> Head:
    """Return the head at a later entry, if no entry up to it has metadata or protocol.

    `applications` and `cursors` stay unchanged.

    Raises:
        CorruptEntryError: LOG-3 table, TIM-1 times, or sums that cannot follow.
    """
    entry = stored.entry
    if entry.table != head.table:
        raise _bad(entry, "LOG-3", f"it belongs to table {entry.table}, not {head.table}")
    if entry.timestamp < next_time(head.timestamp):
        raise _bad(entry, "TIM-1", "its timestamp is not after that of the entries before")
    if entry.totals.oldest < head.totals.oldest:
        raise _bad(entry, "ENT-13", "its `totals.oldest` is below that of the entries before")
    if entry.totals.metadata_version != head.totals.metadata_version:
        raise _bad(entry, "RPL-3", "its sums do not follow from the entries before")
    return replace(
        head,
        version=entry.version,
        digest=stored.digest,
        timestamp=entry.timestamp,
        time_version=entry.time_version,
        totals=entry.totals,
    )


def same_table(head: Head, stored: StoredEntry) -> None:
    """Refuse version 0 of another table than the one that was opened.

    Raises:
        TableReplacedError: LOG-3.
    """
    if stored.entry.table != head.table:
        raise TableReplacedError(
            f"this location now holds table {stored.entry.table}, not {head.table}", rule="LOG-3"
        )


def dropped(version: int) -> TableReplacedError:
    """Return the error for a handle of a table that was dropped since."""
    return TableReplacedError(f"the table was dropped, by version {version}", rule="ENT-14")


def tagged_at(head: Head, name: str) -> int:
    """Return the version that a tag names (TAG-1).

    Raises:
        VersionNotFoundError: there is no such tag.
    """
    tag = tags_of(head.metadata).get(name)
    if tag is None:
        asked = f"version {name!r:.200} (not the name of a tag; pass a time as a timestamp)"
        raise VersionNotFoundError(asked, head.totals.oldest, head.version)
    return tag.version


def check_writable(head: Head) -> None:
    """Refuse to write a table with unknown writer features, or without a free version.

    Raises:
        UnsupportedFeatureError: ENT-7, KEY-1.
    """
    if head.version >= VERSION_MAX:
        raise UnsupportedFeatureError(
            f"the table is at version {head.version}, which is the last possible one. Copy its "
            "rows to a new table",
            ["version"],
        )
    unknown = sorted(set(head.protocol.writer) - WRITER_FEATURES)
    if unknown:
        raise needs_newer("the table", unknown, "write (reading works)")


def _check_readable(protocol: ProtocolFeatures) -> None:
    unknown = sorted(set(protocol.reader) - READER_FEATURES)
    if unknown:
        raise needs_newer("the table", unknown)


def _check_features(entry: Entry, before: ProtocolFeatures) -> None:
    """Refuse an entry that adds a feature but is not a change of the protocol."""
    if entry.protocol is None or entry.operation.cls is OperationClass.PROTOCOL:
        return
    now = entry.protocol
    added = {*now.reader}.difference(before.reader) | {*now.writer}.difference(before.writer)
    if added:
        raise _bad(entry, "VER-4", f"it adds {sorted(added)}, but its class is not PROTOCOL")


def _bad(entry: Entry, rule: str, message: str) -> CorruptEntryError:
    return CorruptEntryError(message, key=entry_key(entry.version), rule=rule)


def _check_times(entry: Entry, head: Head | None) -> None:
    if head is not None and entry.timestamp < next_time(head.timestamp):
        raise _bad(entry, "TIM-1", "its timestamp is not after that of the entry before")
    if head is not None and entry.operation.cls in NOT_LOGICAL:
        allowed = {head.time_version}
    elif head is not None and not _changes_anything(entry):
        allowed = {entry.timestamp, head.time_version}
    else:
        allowed = {entry.timestamp}
    if entry.time_version not in allowed:
        raise _bad(entry, "TIM-2", "its time version does not fit its class and its changes")


def _changes_anything(entry: Entry) -> bool:
    parts = (entry.protocol, entry.metadata, entry.add, entry.delete)
    return bool(entry.remove) or any(part is not None for part in parts)


def _check_begins(entry: Entry, head: Head) -> None:
    """Refuse any entry after the end of a table, unless it creates another table."""
    if entry.table == head.table:
        raise _bad(entry, "ENT-14", "it continues a table that was dropped")
    complete = entry.metadata is not None and entry.protocol is not None
    if not complete or entry.operation.cls is not OperationClass.PROTOCOL or entry.ends:
        raise _bad(entry, "ENT-14", "it follows the end of a table, but does not create a table")


def _check_ends(entry: Entry) -> None:
    more = (entry.metadata, entry.protocol, entry.add, entry.delete, entry.lineage, entry.horizon)
    ends_only = entry.operation.cls is OperationClass.PROTOCOL and entry.totals.files == 0
    if not ends_only or any(part is not None for part in more):
        raise _bad(entry, "ENT-14", "it drops the table, but leaves files or changes something")


def _check_totals(entry: Entry, before: Totals, *, anew: bool = False) -> None:
    added = len(entry.add) if entry.add is not None else 0
    changes_metadata = entry.metadata is not None or entry.protocol is not None
    files = before.files + added - len(entry.remove)
    metadata_version = entry.version if changes_metadata else before.metadata_version
    sums = (entry.totals.files, entry.totals.next_id, entry.totals.metadata_version)
    if sums != (files, before.next_id + added, metadata_version):
        raise _bad(entry, "RPL-3", "its sums do not follow from the entry before")
    _check_retention_horizon(entry, before.oldest, anew)
    if entry.operation.cls in NOT_LOGICAL:
        live = (before.rows - before.deleted, entry.totals.rows - entry.totals.deleted)
        if live[0] != live[1]:
            raise _bad(
                entry, "RPL-6", f"it may only move rows, but changes {live[0]} rows to {live[1]}"
            )


def _check_retention_horizon(entry: Entry, before: int, anew: bool) -> None:
    horizon = entry.horizon
    kept = entry.version if anew else before
    if entry.totals.oldest != (kept if horizon is None else horizon.version):
        raise _bad(entry, "ENT-13", "its `totals.oldest` does not follow from the entry before")
    if horizon is None:
        return
    lowest = before + 1 if horizon.log is None else before
    if not lowest <= horizon.version <= entry.version:
        raise _bad(
            entry, "ENT-13", "its retention horizon is not above the last, or above its own version"
        )
    says_more = (entry.metadata, entry.protocol, entry.add, entry.delete, entry.lineage)
    is_compaction = entry.operation.cls is OperationClass.MINOR_COMPACT and not entry.remove
    moves_nothing = is_compaction and entry.basis.scope == PartitionScope(())
    if not moves_nothing or any(part is not None for part in says_more):
        raise _bad(entry, "ENT-13", "it has a retention horizon, but is not an empty MINOR_COMPACT")


def _check_expiry(entry: Entry, head: Head) -> None:
    if EXPIRY not in head.protocol.reader:
        raise _bad(entry, "VER-4", f"it expires entries, but no earlier one has {EXPIRY!r}")


def _check_imports(
    entry: Entry, before: Mapping[int, Import], metadata: Metadata, protocol: ProtocolFeatures
) -> None:
    """Refuse imports without their feature, with another meaning, or that no metadata describes."""
    added = () if not isinstance(entry.add, AddedFiles) else entry.add.columns.get("import", ())
    numbers = {number for number in added if number is not None}
    if not metadata.imports and not numbers:
        return
    if IMPORTED not in protocol.reader or IMPORTED not in protocol.writer:
        raise _bad(entry, "VER-4", f"it has imports, but no entry up to it has {IMPORTED!r}")
    if not numbers <= metadata.imports.keys():
        raise _bad(entry, "IMP-1", "it adds files of an import that its metadata lacks")
    again = before.keys() & metadata.imports.keys()
    if any(before[number] != metadata.imports[number] for number in again):
        raise _bad(entry, "IMP-2", "it gives the number of an import to another one")


def _check_hidden(entry: Entry, metadata: Metadata, protocol: ProtocolFeatures) -> None:
    """Refuse hidden partition fields without their feature."""
    known = HIDDEN in protocol.reader and HIDDEN in protocol.writer
    if metadata.schema.hidden and not known:
        message = f"it has hidden partition fields, but no entry up to it has {HIDDEN!r}"
        raise _bad(entry, "VER-4", message)


def _check_evolution(entry: Entry, metadata: Metadata, protocol: ProtocolFeatures) -> None:
    """Refuse numbered partitionings without their feature (VER-4)."""
    known = EVOLUTION in protocol.reader and EVOLUTION in protocol.writer
    numbered = isinstance(entry.add, AddedFiles) and "partitioning" in entry.add.columns
    if (metadata.partitionings or numbered) and not known:
        message = f"it has numbered partitionings, but no entry up to it has {EVOLUTION!r}"
        raise _bad(entry, "VER-4", message)


def _check_schema(entry: Entry, before: Schema, after: Schema) -> None:
    problem = schema_problem(before, after, replaces_all=_replaces_all(entry))
    if problem is not None:
        raise _bad(entry, *problem)


def schema_problem(before: Schema, after: Schema, *, replaces_all: bool) -> tuple[str, str] | None:
    """Return why a schema cannot follow another one, as a rule and a clause; None if it can.

    Args:
        before: the schema in force.
        after: the next one.
        replaces_all: the entry is an OVERWRITE of the whole table (SCH-8).
    """
    if after.last_id < before.last_id:
        return "SCH-4", "the last_id of its schema is below the last one"
    old, new = id_places(before), id_places(after)
    back = _ids_back(before, after, old) if replaces_all else set()
    if replaces_all:
        back |= {field.id for field in after.hidden} - old.keys()
    given = new.keys() - old.keys() - back
    if given and min(given) <= before.last_id:
        return "SCH-4", "its schema reuses an id"
    # A place has one element, one key and one value, but may have several fields.
    single = {place: i for i, place in new.items() if place[1] != "field"}
    if any(new.get(i, place) != place or single.get(place, i) != i for i, place in old.items()):
        return "SCH-4", "its schema changes an id inside a column that stays"
    physical = {f.id: f.physical for f in all_fields(before)}
    if any(physical.get(f.id, f.physical) != f.physical for f in all_fields(after)):
        return "SCH-3", "its schema changes the physical name of a column"
    types = id_types(before)
    kept = [(i, types[i], kind) for i, kind in id_types(after).items() if i in types]
    may_follow = share_origin if replaces_all else is_widening
    for i, then, now in kept:
        if not (same_kind(then, now) or may_follow(then, now)):
            return "SCH-9", f"its schema changes id {i} from {then} to {now}"
    staying = {f.id for f in all_fields(after)}
    taken = {folded(name) for name in before.dropped}
    if any(
        f.id > before.last_id and folded(f.physical) in taken
        for f in dropped_roots(after.fields, old)
    ):
        return "SCH-8", "its schema gives a new column the name of a dropped one"
    dropped = {f.physical for f in dropped_roots(before.fields, staying)}
    if not dropped.union(before.dropped).issubset(after.dropped):
        return "SCH-8", "its schema forgets the physical name of a dropped column"
    return None


def _ids_back(before: Schema, after: Schema, old: Collection[int]) -> set[int]:
    """Return the ids of dropped fields that come back with the rows of an older version (SCH-8)."""
    back = (f for f in dropped_roots(after.fields, old) if f.physical in before.dropped)
    return {i for field in back for i in all_ids(Schema((field,), before.last_id))}


def _replaces_all(entry: Entry) -> bool:
    return entry.operation.cls is OperationClass.OVERWRITE and entry.basis.scope is None


def _check_partitioning(entry: Entry, head: Head, after: Metadata) -> None:
    """Refuse files whose partitioning the metadata no longer describes (ENT-8, EVO-1).

    Folding checks that no live file has a partitioning that the metadata names no longer.
    """
    before, now = head.metadata.numbered, after.numbered
    kept = before.keys() & now.keys()
    same = bool(kept) and all(frozenset(before[n]) == frozenset(now[n]) for n in kept)
    if not same and len(entry.remove) != head.totals.files:
        raise _bad(entry, "ENT-8", "it changes the partition columns, but keeps older files")


def _check_scope(entry: Entry, metadata: Metadata) -> None:
    scope, width = entry.basis.scope, len(metadata.partition_by)
    if not isinstance(scope, PartitionScope) or not scope.values:
        return
    if any(len(v) != width for v in scope.values):
        raise _bad(entry, "ENT-5", f"its scope names partitions without {width} values")
    columns = zip(*scope.values, strict=True)
    for field_id, values in zip(metadata.partition_by, columns, strict=True):
        try:
            found = decode(values, metadata.schema.by_id(field_id).type)
        except CorruptEntryError as error:
            raise _bad(entry, "ENT-5", f"its scope has invalid values: {error.detail}") from None
        if has_negative_zero(found):
            raise _bad(entry, "VAL-2", "its scope has a partition of negative zero")


def _applications(
    before: Mapping[str, tuple[ApplicationTransaction, int]], entry: Entry
) -> Mapping[str, tuple[ApplicationTransaction, int]]:
    mine = entry.application
    if mine is None:
        return before
    known = before.get(mine.id)
    if known is not None and mine.version < known[0].version:
        raise _bad(entry, "RPL-5", f"the version of application {mine.id!r} is below the last one")
    return {**before, mine.id: (mine, entry.version)}
