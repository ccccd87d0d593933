"""Import of an existing table in place: version 0 makes the table, version 1 names the files.

Between the two, readers see an empty table. An importer that was killed there is finished by the
next import of the same source. No data file is written, moved or deleted. The source stays as it
is, and stays readable.
Spec: IMP-1 .. IMP-7.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import orjson
from pyroaring import BitMap64

from tablefmt.commit.environment import SYSTEM
from tablefmt.commit.transaction_plan import Staged
from tablefmt.conflict.read_write_sets import own_file
from tablefmt.errors import (
    CommitRejectedError,
    CorruptEntryError,
    CorruptTableError,
    IdempotenceError,
    InvalidArgumentError,
    ProtocolChangedException,
    TableExistsError,
    TableNotFoundError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.imports.delta_source import delta_source
from tablefmt.imports.iceberg_source import iceberg_source
from tablefmt.imports.parquet_source import parquet_source, refuse_inside
from tablefmt.imports.source import FORMATS, Source, refused
from tablefmt.imports.source_description import Described, describe_source
from tablefmt.log.metadata_json import metadata_from_json, metadata_to_json
from tablefmt.log.object_names import LOG
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.features import IMPORTED
from tablefmt.model.identity_columns import defined_identities, with_last_values
from tablefmt.model.log_entry import (
    AddedFiles,
    Import,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
)
from tablefmt.model.positions import DeletionVector
from tablefmt.operations.create import create_as, is_there, open_if_exists, prepare
from tablefmt.printable import printable
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.store.local_folders import unlisted_names
from tablefmt.store.location_checks import ensure_safe
from tablefmt.store.object_store import Store

logger = logging.getLogger(__name__)

NAME = "IMPORT"

_APPLICATION = ("importedFiles", 1)
"""Application id and version of the commit of the files. So two importers add them once."""

_FEATURES = ProtocolFeatures((IMPORTED,), (IMPORTED,))


def import_source(
    source_store: Store,
    target: Store | None,
    format: str | None = None,
    partition_schema: Any = None,
    *,
    adopt: bool = False,
    above: Iterable[Store] = (),
    metadata: str | None = None,
) -> TableContext:
    """Make a table of the files of another format's table.

    Args:
        source_store: of the source's folder.
        target: of the new table; None: the table is in the source's folder.
        format: parquet, delta or iceberg; None: found out by the source's files.
        adopt: vacuum and drop may remove the files once the table does not need them.
        above: of the folders above the source, to find a table that it is a part of.
        metadata: name of the metadata file of an Iceberg table; None: the newest one.
        partition_schema: the types of the columns of hive folders; None: by their values.

    Raises:
        InvalidArgumentError: an unknown format; `adopt` with another folder; wrong partitions.
        TableNotFoundError: there is no source of this format.
        TableExistsError: there is a table already.
        UnsupportedFeatureError, SchemaMismatchError: IMP-7.
        CorruptDataError: a file of the source is missing or damaged.
        CommitRejectedError: the source changed meanwhile.
    """
    check_flags(adopt=adopt)
    if adopt and target is not None:
        raise InvalidArgumentError(
            "adopt=True needs the table in the source's folder. Remove `into` or `adopt`."
        )
    refuse_inside(source_store.uri, above)
    place = target or source_store
    begun = _begun(place)
    resumes = begun is not None and target is None
    found = source_of(source_store, format, resumes=resumes, metadata=metadata)
    source = _with_types(found, partition_schema)
    _check_files(source, source_store.uri)
    described = describe_source(source_store, source)
    _say_left_out(source_store.uri, described)
    imports = _imports(source, described, source_store.uri, target is not None, adopt)
    plain = Metadata(described.schema, described.partition_by, imports=imports)
    made = with_last_values(defined_identities(plain, None), source.last_values)
    _check_metadata(made, source_store.uri)
    if (change := source.changed()) is not None:
        raise CommitRejectedError(
            f"the source at {source_store.uri} changed while it was imported: {change}; import it "
            "again while no job writes to it"
        )
    context = begun
    if begun is None:
        if target is None:
            ensure_safe(place, SYSTEM.nonce(), SYSTEM.sleep)
        else:
            prepare(place)
        try:
            context = create_as(place, made, checked=True, protocol=_FEATURES)
        except (ProtocolChangedException, TableExistsError):
            # Another importer was faster, and may stop before it commits the files.
            context = begun = _begun(place)
    if begun is not None:
        _check_same(begun, made, described)
    assert context is not None
    if described.add is not None:
        _commit_files(context, source, described)
    return context


def _say_left_out(uri: str, described: Described) -> None:
    """Log the partition transforms that the new table lacks (IMP-9)."""
    for transform, reason in described.left_out.items():
        said = map(printable, (uri, transform, reason))
        logger.warning("%s: the new table is not partitioned by the %s: %s", *said)


def _with_types(source: Source, asked: Any) -> Source:
    """Return a source whose partition columns have the given types."""
    if asked is None:
        return source
    given = schema_from(asked)
    if source.schema is not None or sorted(given.names) != sorted(source.partition_names):
        raise InvalidArgumentError(
            f"the partition columns are {', '.join(source.partition_names) or 'none'}, not "
            f"{', '.join(given.names)}; leave them out, or name those of the folders"
        )
    return replace(source, partition_types={f.name: f.type for f in given.fields})


def _check_files(source: Source, uri: str) -> None:
    """Refuse a source that names a file twice: its rows would count twice."""
    if len(frozenset(source.paths)) == len(source.paths):
        return
    twice = next(path for path, count in Counter(source.paths).items() if count > 1)
    raise CorruptTableError(
        f"the {source.format} table at {uri} names the file {twice!r:.300} twice",
        key=twice,
        rule="IMP-7",
    )


def _check_metadata(metadata: Metadata, uri: str) -> None:
    """Refuse ids and names that no reader of the new table would accept. Ids are the source's."""
    try:
        metadata_from_json(orjson.loads(orjson.dumps(metadata_to_json(metadata))))
    except CorruptEntryError as error:
        problem = f"{error.detail} (rule {error.rule})"
    except TypeError as error:
        problem = str(error)
    else:
        return
    raise refused(
        f"the schema of {uri} has ids or names that no table can have: {problem:.300}",
        "import:schema",
    )


_ELSEWHERE = "Import to another place, or drop the table first. Later files are not imported."


def _begun(place: Store) -> TableContext | None:
    """Return the table of an import that stopped after version 0; None if there is no table.

    Raises:
        TableExistsError: there is another table, or a finished one.
    """
    if not is_there(place):
        return None
    begun = open_if_exists(place)
    if begun is not None and (begun.version != 0 or not begun.view.head.metadata.imports):
        raise TableExistsError(place.uri, advice=_ELSEWHERE)
    return begun


def _check_same(begun: TableContext, metadata: Metadata, described: Described) -> None:
    """Raise TableExistsError unless version 0 is of the same import, and files are missing."""
    uri, held = begun.store.uri, begun.view.head.metadata
    if described.add is None:
        raise TableExistsError(uri, advice=_ELSEWHERE)
    if metadata_to_json(held) != metadata_to_json(metadata):
        raise TableExistsError(
            uri,
            "without files: another import stopped, or the source changed since",
            advice="Drop the table and import again.",
        )


def _imports(
    source: Source, described: Described, uri: str, elsewhere: bool, adopt: bool
) -> Mapping[int, Import]:
    return {
        number: Import(
            root=uri if elsewhere else "",
            names=names,
            format=source.format,
            uri=uri,
            version=source.version,
            adopt=adopt,
            lookup=lookup,
        )
        for number, (names, lookup) in enumerate(described.layouts, 1)
    }


def _commit_files(context: TableContext, source: Source, described: Described) -> None:
    """Commit the files of a source to the new table, once: an import that stopped may be repeated.

    Raises:
        CommitRejectedError: another import made the table from other files.
    """
    places = {at: place for place, at in enumerate(described.kept)}
    deletes = {
        own_file(places[at]): DeletionVector(deleted, BitMap64())
        for at, deleted in sorted(source.deleted.items())
        if at in places and len(deleted)
    }

    def stage(txn: TransactionSnapshot, _: object) -> Staged:
        operation = Operation(
            name=NAME,
            cls=OperationClass.INSERT,
            parameters={"format": source.format, "sourceVersion": source.version},
        )
        return Staged(
            transaction=txn.transaction,
            operation=operation,
            blind=True,
            written_under=txn.metadata,
            read_version=txn.version,
            add=described.add,
            deletes=deletes,
        )

    assert described.add is not None
    text = _text(described.add, deletes)
    statement = Statement(name=NAME, stage=stage, text=lambda _: text)
    try:
        commit = autocommit(context, statement, CommitOptions(application=_APPLICATION))
    except IdempotenceError:
        raise CommitRejectedError(
            f"the source changed, and another import of {source.format} files made the table at "
            f"{context.store.uri} from other files; drop the table, and import again while "
            "no job writes to the source"
        ) from None
    if commit.already_applied:
        context.refresh()


def _text(add: AddedFiles, deletes: Mapping[int, DeletionVector]) -> tuple[str, ...]:
    """Return what identifies the files and their deleted rows, in the commit's digest (CFL-6)."""
    vectors = sorted(deletes.items())
    deleted = (f"{file}:{sha256(marks.deleted.serialize()).hexdigest()}" for file, marks in vectors)
    columns = sorted(add.columns.items())
    return (
        *(f"{name}:{sha256(orjson.dumps(held)).hexdigest()}" for name, held in columns),
        *deleted,
    )


def source_of(
    store: Store, format: str | None, *, resumes: bool = False, metadata: str | None = None
) -> Source:
    """Return the source in a folder. Arguments and errors as `import_source`.

    `resumes` means that the log of the new table may be there.
    """
    if format is not None and format not in FORMATS:
        names = ", ".join(FORMATS)
        raise InvalidArgumentError(f"format={format!r:.100}: expected one of {names}")
    found = found_format(store, resumes=resumes)
    if found is None:
        refuse_unlisted(store)
    if format is None:
        format = found or "parquet"
    elif found is not None and found != format:
        if format == "parquet":
            raise refused(
                f"{store.uri} is a table of the format {found}, and not all of its files are rows",
                "import:format",
                advice=f"Import it with format={found!r}.",
            )
        raise TableNotFoundError(store.uri, f"it is a table of the format {found}, not {format}")
    if metadata is not None:
        if format != "iceberg":
            raise InvalidArgumentError(
                f"format={format!r:.100} with the metadata file {metadata!r:.200}: expected "
                "iceberg. Name the folder of a table of another format."
            )
        return iceberg_source(store, metadata)
    return _READERS[format](store)


def refuse_unlisted(store: Store, below: tuple[str, ...] = ()) -> None:
    """Refuse a source with a file that the store does not list: its rows would be missing.

    Args:
        store: of the source's folder.
        below: the folders to look into; none: all that is visible.

    Raises:
        UnsupportedFeatureError: IMP-7.
    """
    for name in unlisted_names(store):
        first = f"/{name}"
        if name.split("/")[0] in below or not (below or "/_" in first or "/." in first):
            raise refused(
                f"{name!r:.300} in {store.uri} is a link or another special file, or its name is "
                "not UTF-8 or has a backslash (rules STO-2, IMP-7). Its rows would be missing",
                "import:link",
                advice="Put a regular file in its place, or move it away.",
            )


def found_format(store: Store, *, resumes: bool = False) -> str | None:
    """Return the format of a folder by the names in it; None if there is no table's metadata.

    Raises:
        UnsupportedFeatureError: IMP-7, a part of the metadata is a link.
    """
    refuse_unlisted(store, ("_delta_log", "metadata", ".hoodie"))
    others = (("_delta_log/", "delta"), (".hoodie/", "hudi"), (LOG, "tablefmt"))
    for prefix, format in others[:2] if resumes else others:
        if next(iter(store.list_after(prefix)), None) is not None:
            if format in ("hudi", "tablefmt"):
                raise refused(f"{store.uri} has the metadata of a {format} table", "import:format")
            return format
    if any(one.key.endswith(".metadata.json") for one in store.list_after("metadata/")):
        return "iceberg"
    return None


_READERS: Mapping[str, Callable[[Store], Source]] = {
    "parquet": parquet_source,
    "delta": delta_source,
    "iceberg": iceberg_source,
}
