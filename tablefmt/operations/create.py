"""Create a table: version 0, which exactly one of many creators makes (CFL-4); empty or with rows.

With rows the files come first, then the table, then the commit of the files. So rows that cannot be
had or do not fit leave no table behind. Whoever comes between the last two sees the table empty.
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
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.log.metadata_json import schema_to_json
from tablefmt.log.object_names import entry_key
from tablefmt.model.argument_checks import check_flags, checked_names
from tablefmt.model.log_entry import (
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
)
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.properties import check_properties
from tablefmt.model.schema import Schema, is_nested
from tablefmt.model.schema_rules import check_comments, check_new_names, checked_comment
from tablefmt.operations.append import NAME, append_files
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit, commit_result
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
from tablefmt.store.location_checks import check_place, ensure_safe
from tablefmt.store.object_store import KeyNotFoundError, Store


def create(
    store: Store,
    schema: Any,
    partition_by: str | Sequence[str] | None = (),
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    *,
    exist_ok: bool = False,
    environment: Environment = SYSTEM,
) -> TableContext:
    """Make a table with no rows.

    Args:
        store: where; its root is the table's.
        schema: pyarrow.Schema, Spark StructType, or DDL text.
        partition_by: names of top-level columns that are not nested.
        properties: table properties by name.
        comment: what people say of it (ENT-11).
        exist_ok: join a table of equal schema, partitioning and properties.
        environment: clock, nonces, waiting.

    Raises:
        SchemaMismatchError: the definition is not one.
        TableExistsError: a table is there, or one of another definition with exist_ok.
        ForeignTableError: files of others are there.
        ProtocolChangedException: another creator won the race (or, with exist_ok, another
            definition did: TableExistsError).
        UnsafeStoreError, CommitRejectedError, CommitUnknownError.
    """
    metadata = definition(schema, partition_by, properties, comment)
    return create_as(store, metadata, exist_ok=exist_ok, environment=environment)


def create_as(
    store: Store,
    metadata: Metadata,
    *,
    exist_ok: bool = False,
    checked: bool = False,
    environment: Environment = SYSTEM,
) -> TableContext:
    """`create` by a definition that was made before; `checked`: so was the place (`prepare`)."""
    check_flags(exist_ok=exist_ok)
    before = _log_at(store)
    if before is not None and not before.head.ended:
        return _joined(TableContext(store, before, environment), metadata, exist_ok)
    if not checked:
        prepare(store, environment)
    staged = Staged(
        transaction=environment.nonce(),
        operation=Operation(name="CREATE TABLE", cls=OperationClass.PROTOCOL),
        protocol=ProtocolFeatures(),
        metadata=metadata,
    )
    plan = Plan.of(staged, table=environment.nonce())
    done = commit(store, plan, environment, before)
    remove_leftovers(store, plan, done)
    try:
        commit_result(plan, done, before)
    except (ProtocolChangedException, TableReplacedError):
        concurrent = open_if_there(store, environment) if exist_ok else None
        if concurrent is None:
            raise
        return _joined(concurrent, metadata, exist_ok)
    assert done.entry is not None
    view = LogView(store, [done.entry]) if before is None else LogView.open(store)
    return TableContext(store, view, environment)


def prepare(store: Store, environment: Environment = SYSTEM) -> None:
    """Check a place in which a table is to be made, before its first file is written.

    Raises:
        ForeignTableError: STO-23. UnsafeStoreError: STO-12.
    """
    check_place(store)
    ensure_safe(store, environment.nonce(), environment.sleep)


def definition(
    schema: Any,
    partition_by: str | Sequence[str] | None,
    properties: Mapping[str, Any] | None,
    comment: str | None = None,
) -> Metadata:
    """The metadata of a new table.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5, ENT-8, ENT-11, or a property that is not one.
    """
    columns = check_new_names(schema_from(schema))
    check_comments(columns)
    ids: list[int] = []
    names = checked_names(partition_by, "partition_by")
    for name in names:
        field = columns.find(name)
        if field is None:
            raise SchemaMismatchError(
                f"cannot partition by {name!r}: there is no such column; "
                f"{there_are(name, columns.names)}",
                [name],
            )
        if is_nested(field.type):
            raise SchemaMismatchError(
                f"cannot partition by {name!r}: its type {field.type} is nested", [name]
            )
        if field.id in ids:
            raise SchemaMismatchError(f"column {name!r} partitions twice", [name])
        ids.append(field.id)
    if len(ids) == len(columns.fields):
        raise SchemaMismatchError(
            "every column is a partition column; leave at least one for data", names
        )
    checked = checked_comment(comment, "the table")
    made = Metadata(columns, tuple(ids), comment=checked)
    return with_properties(made, check_properties({} if properties is None else properties))


def is_there(store: Store) -> bool:
    """Whether there is a table: whether it has a version 0 (LOG-7), and was not dropped."""
    try:
        store.size(entry_key(0))
    except KeyNotFoundError:
        return False
    return open_if_there(store) is not None


def open_if_there(store: Store, environment: Environment = SYSTEM) -> TableContext | None:
    """The table at its newest version; None if there is none. Raises as `LogView.open`."""
    view = _log_at(store)
    return None if view is None or view.head.ended else TableContext(store, view, environment)


def _log_at(store: Store) -> LogView | None:
    """The log that is there, of a table that was dropped too; None for none."""
    try:
        return LogView.open(store, ended=True, explain=False)
    except TableNotFoundError:
        return None


def _joined(existing: TableContext, metadata: Metadata, exist_ok: bool) -> TableContext:
    if not exist_ok:
        raise TableExistsError(existing.store.uri)
    there = existing.view.head.metadata
    same = (
        _shape(there.schema) == _shape(metadata.schema)
        and there.partition_names == metadata.partition_names
        and dict(there.properties) == dict(metadata.properties)
        and _conditions(there) == _conditions(metadata)
    )
    if not same:
        raise TableExistsError(existing.store.uri, "of another schema, partitioning or properties")
    return existing


def _conditions(metadata: Metadata) -> dict[str, str]:
    return {name: each.condition for name, each in metadata.constraints.items()}


def _shape(schema: Schema) -> Any:
    """The schema without comments, and without ids, which differ from history to history."""
    return _without_ids(schema_to_json(schema)["fields"])


_NOT_COMPARED = ("id", "physical", "comment")


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(v) for v in value]
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k not in _NOT_COMPARED}
    return value


Partitions = str | Sequence[str] | None
"""Names of columns, or one name; None: not said."""


def create_from(
    store: Store,
    data: Any,
    partition_by: Partitions = None,
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    *,
    exist_ok: bool = False,
) -> TableContext:
    """`create` by rows in the place of a schema.

    Raises:
        TableExistsError: before anything is read. InvalidArgumentError: exist_ok.
        As `source_reader` and `create_with_rows`.
    """
    check_flags(exist_ok=exist_ok)
    if exist_ok:
        raise InvalidArgumentError(
            "exist_ok goes with a schema alone: whether the rows are there already is not known. "
            "tablefmt.write(data, uri) appends to a table that is there"
        )
    if is_there(store):
        raise TableExistsError(store.uri)
    made, _ = create_with_rows(
        store,
        source_reader(data),
        CommitOptions(),
        partition_by=partition_by,
        properties=properties,
        comment=comment,
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
    exist_ok: bool = False,
) -> tuple[TableContext, Commit]:
    """Make a table with the columns of some rows, and append these. No table was there just now.

    Arguments as of `create` and `commit_first`.

    Raises:
        SchemaMismatchError: the columns are none that a table can have; SCH-5, a value of theirs.
        ConstraintViolationError: DAT-3. UnsafeStoreError. As `commit_first`.
    """
    metadata = definition(rows.schema, partition_by, properties, comment)

    def write(transaction: str) -> AddedFiles | None:
        stats = stats_of(metadata)
        return write_data(store, transaction, rows, metadata, stats, prefix="0-")

    return create_by(store, metadata, write, options, exist_ok=exist_ok)


def create_by(
    store: Store,
    metadata: Metadata,
    write: Callable[[str], AddedFiles | None],
    options: CommitOptions,
    *,
    exist_ok: bool,
    digest: str | None = None,
) -> tuple[TableContext, Commit]:
    """Make a table, and commit its first rows, whoever writes their files.

    Args:
        store: where. No table was there just now.
        metadata: the table's.
        write: writes the rows to the folder of a transaction, given its id.
        options, exist_ok, digest: as of `commit_first`.

    Raises:
        UnsafeStoreError. What `write` raises. As `commit_first`.
    """
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
    """Make a table, and commit files that were written before it was there.

    Args:
        store: where.
        metadata: the table's, and what the files were written under.
        transaction: whose folder they are in.
        added: the files; None for none.
        options: what every commit takes.
        exist_ok: append to a table that was made meanwhile, if it is of the same definition.
        measured: the measurement since the work began; None: another process began it.
        began: when that was.
        digest: of the content, where it is known.

    Raises:
        IdempotenceError: CFL-7, what another has applied meanwhile.
        TableExistsError, ProtocolChangedException: another one was made meanwhile; the files are
            removed. CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    with TransactionFiles(store, transaction).discarded_on_failure():
        context = create_as(store, metadata, exist_ok=exist_ok, checked=True)
        if context.view.head.metadata != metadata:
            raise TableExistsError(store.uri, "made meanwhile, with other columns")

    def stage(txn: TransactionSnapshot, _: None) -> Staged:
        return append_files(transaction, added, metadata, read_version=txn.version)

    # Who made it meanwhile may have been this very write.
    statement = Statement(name=NAME, stage=stage, engine=EngineRows(digest=digest))
    begun = Begun(
        transaction=transaction,
        version=context.view.head.version,
        measured=measured,
        began=began,
    )
    return context, autocommit(context, statement, options, begun=begun)


def check_partitioning(there: Metadata, partition_by: Partitions) -> None:
    """Refuse another partitioning than the table's. Raises SchemaMismatchError."""
    names = checked_names(partition_by, "partition_by")
    known = there.partition_names
    if names and [folded(n) for n in names] != [folded(n) for n in known]:
        raise SchemaMismatchError(
            f"the table is partitioned by {', '.join(map(repr, known)) or 'nothing'}, not by "
            f"{', '.join(map(repr, names))}; leave partition_by out",
            names,
        )
