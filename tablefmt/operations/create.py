"""Create a table, empty or with rows. Exactly one of concurrent creators makes version 0 (CFL-4).

With rows, the data files are written first, then version 0, then the commit of the files. So rows
that cannot be read or do not fit create no table. Between the last two steps, readers see an empty
table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablefmt.commit.driver import commit
from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.commit.transaction_plan import Plan, Staged
from tablefmt.data.column_bounds import stats_of
from tablefmt.data.data_writer import write_data
from tablefmt.errors import (
    InvalidArgumentError,
    ProtocolChangedException,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.generated_columns import (
    check_conditions,
    defined,
    features_for,
    generated_expressions,
)
from tablefmt.log.metadata_json import schema_to_json
from tablefmt.log.object_names import entry_key
from tablefmt.model.argument_checks import check_flags, checked_mapping, checked_names
from tablefmt.model.identity_columns import defined_identities, identity_texts
from tablefmt.model.log_entry import (
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
)
from tablefmt.model.partition_fields import partitioned, same_partitioning
from tablefmt.model.properties import check_properties, plain_properties
from tablefmt.model.schema import Schema
from tablefmt.model.schema_rules import check_comments, check_new_names, checked_comment
from tablefmt.operations.append import NAME, append_files
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit, commit_result, report_outcome
from tablefmt.session.input_rows import source_reader
from tablefmt.session.measurements import Measured
from tablefmt.session.metadata_changes import with_properties
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Begun, EngineRows, Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import (
    TransactionFiles,
    TransactionSnapshot,
    remove_leftovers,
)
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.clocks import Moment
from tablefmt.store.location_checks import ensure_safe, refuse_foreign_files
from tablefmt.store.object_store import KeyNotFoundError, Store
from tablefmt.telemetry import span


def create(
    store: Store,
    schema: Any,
    partition_by: str | Sequence[str] | None = (),
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    *,
    generated: Mapping[str, str] | None = None,
    identity: Mapping[str, str] | None = None,
    exist_ok: bool = False,
    environment: Environment = SYSTEM,
) -> TableContext:
    """Create an empty table.

    Args:
        store: of the new table. Its root is the table's root.
        schema: pyarrow.Schema, Spark StructType, or DDL text.
        partition_by: names of top-level columns that are not nested, or transforms such as
            `days(ts)` (HID-1).
        properties: table properties by name.
        comment: of the table (ENT-11).
        generated: expressions of generated columns, by their names (GEN-1).
        identity: clauses of identity columns, by their names (IDN-1).
        exist_ok: open an existing table with equal schema, partitioning and properties.
        environment: clock, nonces and waiting.

    Raises:
        SchemaMismatchError: the definition is invalid.
        TableExistsError: a table exists; with exist_ok, one of another definition.
        ForeignTableError: the place has files of another format or program.
        ProtocolChangedException: another creator won the race. With exist_ok, this is
            TableExistsError if the definition differs.
        UnsafeStoreError, CommitRejectedError, CommitUnknownError.
    """
    metadata = definition(schema, partition_by, properties, comment, generated, identity)
    return create_as(store, metadata, exist_ok=exist_ok, environment=environment)


def create_as(
    store: Store,
    metadata: Metadata,
    *,
    exist_ok: bool = False,
    checked: bool = False,
    environment: Environment = SYSTEM,
    protocol: ProtocolFeatures | None = None,
) -> TableContext:
    """Create an empty table from a checked definition.

    `checked` means that the place was checked too (`prepare`). By default, the table needs no
    features.
    """
    check_flags(exist_ok=exist_ok)
    before = _existing_log(store)
    if before is not None and not before.head.ended:
        return _join_existing(TableContext(store, before, environment), metadata, exist_ok)
    if not checked:
        prepare(store, environment)
    staged = Staged(
        transaction=environment.nonce(),
        operation=Operation(name="CREATE TABLE", cls=OperationClass.PROTOCOL),
        protocol=features_for(metadata, protocol) or protocol or ProtocolFeatures(),
        metadata=metadata,
    )
    try:
        return _create_staged(store, staged, before, environment)
    except (ProtocolChangedException, TableReplacedError):
        concurrent = open_if_exists(store, environment) if exist_ok else None
        if concurrent is None:
            raise
        return _join_existing(concurrent, metadata, exist_ok)


def create_with_files(store: Store, staged: Staged) -> TableContext:
    """Create a table whose first entry adds files. There is no table before them.

    Args:
        store: of the new table. Its place was checked (`prepare`).
        staged: the entry: class PROTOCOL, with protocol, metadata and files.

    Raises:
        TableExistsError: there is a table.
        ProtocolChangedException, TableReplacedError: another creator was first.
        CommitRejectedError, CommitUnknownError.
    """
    with TransactionFiles(store, staged.transaction).discarded_on_failure():
        before = _existing_log(store)
        if before is not None and not before.head.ended:
            raise TableExistsError(store.uri, advice="Choose another place.")
    return _create_staged(store, staged, before, SYSTEM)


def _create_staged(
    store: Store, staged: Staged, before: LogView | None, environment: Environment
) -> TableContext:
    """Commit the first entry of a table. `before` is the log of a dropped table, if any."""
    plan = Plan.of(staged, table=environment.nonce())
    with span("commit", store.uri, operation=staged.operation.name):
        done = commit(store, plan, environment, before)
        report_outcome(store.uri, plan, done)
        remove_leftovers(store, plan, done)
    commit_result(plan, done, before)
    assert done.entry is not None
    view = LogView(store, [done.entry]) if before is None else LogView.open(store)
    return TableContext(store, view, environment)


def prepare(store: Store, environment: Environment = SYSTEM) -> None:
    """Check the place of a new table before its first file is written.

    Raises:
        ForeignTableError: STO-23.
        UnsafeStoreError: STO-12.
    """
    refuse_foreign_files(store)
    ensure_safe(store, environment.nonce(), environment.sleep)


def definition(
    schema: Any,
    partition_by: str | Sequence[str] | None,
    properties: Mapping[str, Any] | None,
    comment: str | None = None,
    generated: Mapping[str, str] | None = None,
    identity: Mapping[str, str] | None = None,
) -> Metadata:
    """Return the metadata of a new table.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5, ENT-8, ENT-11, GEN-2, IDN-1, or an invalid property.
        InvalidPredicateError, UnsupportedFeatureError: GEN-2, the expression of a column.
    """
    columns = check_new_names(schema_from(schema))
    check_comments(columns)
    columns, ids = partitioned(columns, checked_names(partition_by, "partition_by"))
    checked = checked_comment(comment, "the table")
    expressions = {} if generated is None else checked_mapping(generated, "generated")
    identities = {} if identity is None else checked_mapping(identity, "identity")
    bare = defined_identities(Metadata(columns, ids, comment=checked), identities)
    made = defined(bare, expressions)
    return with_properties(made, check_properties({} if properties is None else properties))


def is_there(store: Store) -> bool:
    """Return whether there is a table: it has a version 0 (LOG-7), and was not dropped."""
    try:
        store.size(entry_key(0))
    except KeyNotFoundError:
        return False
    return open_if_exists(store) is not None


def open_if_exists(store: Store, environment: Environment = SYSTEM) -> TableContext | None:
    """Return the table at its newest version; None if there is none. Raises as `LogView.open`."""
    view = _existing_log(store)
    return None if view is None or view.head.ended else TableContext(store, view, environment)


def _existing_log(store: Store) -> LogView | None:
    """Return the existing log, even of a dropped table; None if there is none."""
    try:
        return LogView.open(store, ended=True, explain=False)
    except TableNotFoundError:
        return None


def _join_existing(existing: TableContext, metadata: Metadata, exist_ok: bool) -> TableContext:
    if not exist_ok:
        raise TableExistsError(existing.store.uri)
    defined = existing.view.head.metadata
    same = (
        _shape(defined.schema) == _shape(metadata.schema)
        and defined.partition_names == metadata.partition_names
        and plain_properties(defined) == plain_properties(metadata)
        and _conditions(defined) == _conditions(metadata)
    )
    if not same:
        raise TableExistsError(
            existing.store.uri,
            "with a different schema, partitioning or properties",
            advice="Open it with tablefmt.open(), and change it with Table.alter.",
        )
    return existing


def _conditions(metadata: Metadata) -> dict[str, str]:
    generated = {f"{n} GENERATED": text for n, text in generated_expressions(metadata).items()}
    identities = {f"{n} IDENTITY": text for n, text in identity_texts(metadata).items()}
    return {**check_conditions(metadata), **generated, **identities}


def _shape(schema: Schema) -> Any:
    """Return the schema without comments, and without ids, which depend on the table's history."""
    return _without_ids(schema_to_json(schema)["fields"])


_NOT_COMPARED = ("id", "physical", "comment")


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(v) for v in value]
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k not in _NOT_COMPARED}
    return value


Partitions = str | Sequence[str] | None
"""Names of columns, or one name; None: not given."""


def create_from(
    store: Store,
    data: Any,
    partition_by: Partitions = None,
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    *,
    generated: Mapping[str, str] | None = None,
    identity: Mapping[str, str] | None = None,
    exist_ok: bool = False,
) -> TableContext:
    """Create a table from rows instead of a schema.

    Raises:
        TableExistsError: before any row is read.
        InvalidArgumentError: exist_ok.
        As `source_reader` and `create_with_rows`.
    """
    check_flags(exist_ok=exist_ok)
    if exist_ok:
        raise InvalidArgumentError(
            "exist_ok works only with a schema, because an existing table may have the rows "
            "already; use tablefmt.write(data, uri) to append to an existing table"
        )
    if identity:
        raise _begins_with_rows()
    if is_there(store):
        raise TableExistsError(
            store.uri, advice="Open it with tablefmt.open(), or add rows with tablefmt.write()."
        )
    made, _ = create_with_rows(
        store,
        source_reader(data),
        CommitOptions(),
        partition_by=partition_by,
        properties=properties,
        comment=comment,
        generated=generated,
    )
    return made


def create_with_rows(
    store: Store,
    rows: pa.RecordBatchReader,
    options: CommitOptions,
    *,
    partition_by: Partitions = None,
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    generated: Mapping[str, str] | None = None,
    exist_ok: bool = False,
) -> tuple[TableContext, Commit]:
    """Create a table with the columns of some rows, and append the rows. No table existed just
    before.

    Arguments as in `create` and `commit_first`.

    Raises:
        SchemaMismatchError: a column cannot be in a table; SCH-5, one of its values.
        ConstraintViolationError: DAT-3.
        UnsafeStoreError: STO-12.
        As `commit_first`.
    """
    metadata = definition(rows.schema, partition_by, properties, comment, generated)

    def write(transaction: str) -> AddedFiles | None:
        stats = stats_of(metadata)
        return write_data(store, transaction, rows, metadata, stats, prefix="0-")

    return create_by(store, metadata, write, options, exist_ok=exist_ok)


def check_first_rows(metadata: Metadata) -> None:
    """Refuse identity columns in a table whose rows are written before it exists.

    Raises:
        UnsupportedFeatureError: numbers are claimed in the table's log (IDN-2).
    """
    if identity_texts(metadata):
        raise _begins_with_rows()


def _begins_with_rows() -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "a table that begins with rows cannot have identity columns: create it with a schema, "
        "and append the rows",
        ["identityColumns"],
    )


def create_by(
    store: Store,
    metadata: Metadata,
    write: Callable[[str], AddedFiles | None],
    options: CommitOptions,
    *,
    exist_ok: bool,
    digest: str | None = None,
) -> tuple[TableContext, Commit]:
    """Create a table, and commit its first rows, on any engine.

    Args:
        store: of the new table. No table existed just before.
        metadata: of the table.
        write: writes the rows to the folder of a transaction, given its id.
        options, exist_ok, digest: as in `commit_first`.

    Raises:
        UnsafeStoreError: STO-12.
        UnsupportedFeatureError: as `check_first_rows`.
        Any error of `write`. As `commit_first`.
    """
    check_first_rows(metadata)
    measured = Measured.start(SYSTEM.monotonic, store)
    prepare(store)
    transaction = SYSTEM.nonce()
    with TransactionFiles(store, transaction).removed_on_failure():
        added = write(transaction)
    return commit_first(
        store,
        metadata,
        transaction,
        added,
        options,
        exist_ok=exist_ok,
        measured=measured,
        digest=digest,
    )


def commit_first(
    store: Store,
    metadata: Metadata,
    transaction: str,
    added: AddedFiles | None,
    options: CommitOptions,
    *,
    exist_ok: bool,
    measured: Measured | None = None,
    began: Moment | None = None,
    digest: str | None = None,
) -> tuple[TableContext, Commit]:
    """Create a table, and commit files that were written before it existed.

    Args:
        store: of the new table.
        metadata: of the table and its files.
        transaction: owner of the files' folder.
        added: the files; None for none.
        options: of the commit.
        exist_ok: append to a table of the same definition that was created concurrently.
        measured: measurement since the work began; None: another process began it.
        began: start of the work.
        digest: of the content, if known.

    Raises:
        IdempotenceError: CFL-7, another writer applied the same application version.
        TableExistsError, ProtocolChangedException: another table was created concurrently. The
            files are removed.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    with TransactionFiles(store, transaction).discarded_on_failure():
        context = create_as(store, metadata, exist_ok=exist_ok, checked=True)
        if context.view.head.metadata != metadata:
            raise TableExistsError(
                store.uri, "created concurrently, with different columns", advice="Write again."
            )

    def stage(txn: TransactionSnapshot, _: None) -> Staged:
        return append_files(transaction, added, metadata, read_version=txn.version)

    # Another attempt of this very write may have created the table.
    statement = Statement(name=NAME, stage=stage, engine=EngineRows(digest=digest))
    begun = Begun(
        transaction=transaction,
        version=context.view.head.version,
        measured=measured,
        began=began,
    )
    return context, autocommit(context, statement, options, begun=begun)


def check_partitioning(defined: Metadata, partition_by: Partitions) -> None:
    """Refuse a partitioning other than the table's. Raises SchemaMismatchError."""
    names = checked_names(partition_by, "partition_by")
    known = defined.partition_names
    if names and not same_partitioning(names, known, defined.schema):
        raise SchemaMismatchError(
            f"the table is partitioned by {', '.join(map(repr, known)) or 'nothing'}, not by "
            f"{', '.join(map(repr, names))}; leave partition_by out",
            names,
        )
