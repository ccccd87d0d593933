"""Create a table: version 0, which exactly one of many creators makes (CFL-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.commit.driver import commit
from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.commit.plan import Plan, Staged
from tablefmt.errors import (
    ProtocolChangedException,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.log.names import entry_key
from tablefmt.model.arguments import check_flags, checked_names
from tablefmt.model.entry import Metadata, Operation, OperationClass, ProtocolFeatures
from tablefmt.model.given_names import check_new_names
from tablefmt.model.near_names import there_are
from tablefmt.model.numbering import check_comments, checked_comment
from tablefmt.model.properties import check_properties
from tablefmt.model.schema import Schema, is_nested
from tablefmt.model.schema_json import schema_to_json
from tablefmt.session.commit_result import commit_result
from tablefmt.session.context import TableContext
from tablefmt.session.files import remove_leftovers
from tablefmt.session.metadata_changes import with_properties
from tablefmt.snapshot.load import LogView
from tablefmt.store.foreign import check_place
from tablefmt.store.probe import ensure_safe
from tablefmt.store.protocol import KeyNotFoundError, Store


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
        winner = open_if_there(store, environment) if exist_ok else None
        if winner is None:
            raise
        return _joined(winner, metadata, exist_ok)
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
