"""ALTER: change schema and properties by metadata alone (class METADATA).

Every concurrent write that commits later fails, blind appends of a transaction too. An ALTER is
rebased onto earlier writes, unless it adds a constraint on every row.
Spec: ENT-8, ENT-10, SCH-2 .. SCH-4, SCH-7 .. SCH-9, CFL-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow.compute as pc

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.export.export_refusals import check_exports
from tablefmt.expressions.check_constraints import shown_columns
from tablefmt.expressions.generated_columns import features_for
from tablefmt.model.argument_names import check_method_names
from tablefmt.model.features import TAGS
from tablefmt.model.identity_columns import counted, identity_column, with_identities
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import Metadata, Operation, OperationClass, ProtocolFeatures
from tablefmt.model.partitionings import without_unused
from tablefmt.model.properties import Retention, retention_seconds
from tablefmt.model.scalar_values import shown_value
from tablefmt.model.tags import Tag, with_tag
from tablefmt.model.times import MICROS_MAX
from tablefmt.operations import alterations
from tablefmt.operations.alterations import Alteration, Row, TagRequest
from tablefmt.session.commit_options import CommitKeywords, CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.snapshot.head import tagged_at

if TYPE_CHECKING:
    from typing_extensions import Unpack

Made = TypeVar("Made")

Find = Callable[[TransactionSnapshot, str], "Row | None"]
"""Finds a live row of a transaction snapshot for which SQL text is TRUE."""


@check_method_names
class Alter(Generic[Made]):
    """The methods of `alter`, on a table or in a transaction."""

    def __init__(self, apply: Callable[[Alteration, CommitKeywords], Made]) -> None:
        self._apply = apply

    def set_properties(
        self,
        properties: Mapping[str, Any],
        *,
        force: bool = False,
        **commit: Unpack[CommitKeywords],
    ) -> Made:
        """Set table properties. Other properties stay.

        Args:
            properties: values by name.
            force: set `export` to a format that cannot show this version of the table. Its copy
                begins with the first version that it can show.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: an unknown name, or a value that is invalid for the name.
            UnsupportedFeatureError: a format of `export` cannot show the table.
        """
        change = alterations.set_properties(properties)
        return self._apply(replace(change, force=force), commit)

    def unset_properties(self, names: Sequence[str], **commit: Unpack[CommitKeywords]) -> Made:
        """Reset properties to their defaults. Properties that are not set are ignored.

        Raises:
            SchemaMismatchError: an unknown name.
        """
        return self._apply(alterations.unset_properties(names), commit)

    def set_clustering(
        self, by: str | Sequence[str] | None, **commit: Unpack[CommitKeywords]
    ) -> Made:
        """Set the clustering order of the table (CMP-8). No file is rewritten now.

        `OPTIMIZE`, `maintain` and automatic compaction then sort new files in this order.

        Args:
            by: flat columns that do not partition the table, or one of them; None or no columns
                for no order.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: a column is missing, nested, named twice, or a partition column.
        """
        return self._apply(alterations.set_clustering(by), commit)

    def set_partitioning(
        self,
        by: str | Sequence[str] | None,
        *,
        force: bool = False,
        **commit: Unpack[CommitKeywords],
    ) -> Made:
        """Set the partitioning of new files. No file is rewritten now (EVO-1).

        Files keep the partitioning that they were written by. `Table.repartition` rewrites them.

        Args:
            by: columns, or transforms such as "days(ts)", in the form of `partition_by`; None or
                nothing for a table without partitions. A transform may give its field a name:
                "bucket(16, id) AS shard" (HID-2).
            force: change it even if a format of the property `export` cannot show files of two
                partitionings. The copy then stays at the version before.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: a column is missing, nested or named twice; no column is left for
                data; a column of the clustering order.
            UnsupportedFeatureError: imported files may lack a column that would no longer
                partition; a format of the property `export` cannot show it.
            ProtocolChangedException: a concurrent commit changed the protocol.
        """
        return self._apply(replace(alterations.set_partitioning(by), force=force), commit)

    def set_tag(
        self,
        name: str,
        *,
        version: int | str | None = None,
        retain: Retention | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Made:
        """Name a version, and keep it readable. A tag of that name moves to the version (TAG-1).

        Vacuum and log expiry keep the version, and every later one, while the tag keeps it.

        Args:
            name: 1 to 128 printable characters, which are no number: "2026-Q3".
            version: a version, or the name of another tag; None: the newest version.
            retain: how long the version stays at least, as text ("90 days"), a timedelta, or
                seconds. After that the tag stays, and a vacuum may remove the version. None: the
                version stays until the tag is dropped.
            commit: options of every commit.

        Raises:
            InvalidArgumentError: an invalid name.
            InvalidRangeError: an invalid version or duration.
            VersionNotFoundError: the version does not exist, or a vacuum gave it up.
            MetadataChangedException: a concurrent commit set a tag, or changed the metadata.
            ProtocolChangedException: a concurrent commit set the first tag of the table.
        """
        seconds = None if retain is None else retention_seconds(retain)
        return self._apply(alterations.set_tag(name, version, seconds), commit)

    def drop_tag(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Drop a tag. Its version is kept no longer than others.

        Raises:
            InvalidArgumentError: there is no such tag.
        """
        return self._apply(alterations.drop_tag(name), commit)

    def sync_identity(self, column: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Let an identity column continue after the values in the table (IDN-4).

        Call it after rows brought their own values. It reads the column.

        Args:
            column: an identity column.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: the column does not exist, or is no identity column.
            ConcurrentAppendException: a concurrent commit added rows. Call it again.
        """
        return self._apply(alterations.sync_identity(column), commit)

    def add_column(
        self,
        name: str,
        type: Any,
        *,
        after: str | None = None,
        first: bool = False,
        default: Any = None,
        force: bool = False,
        **commit: Unpack[CommitKeywords],
    ) -> Made:
        """Add a column, or a field of a struct. No data file changes.

        Args:
            name: of the column. For a field, a dotted path: `s.f`, `list.element.f`, `map.value.f`.
                Backticks enclose a name, for example one with a dot. Double a backtick in it.
            type: DDL text, a pyarrow.DataType, or a Spark DataType. NOT NULL needs a default.
            after: the sibling to put it after; by default it comes last.
            first: put it before its siblings.
            default: value in all existing rows, and in new rows that are written without the
                column; None for NULL. Nested and BINARY columns, and fields, have no default.
            force: add it even if a format of the property `export` cannot show it. The copy then
                stays at the version before.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: the name is taken, the type is not supported in a table, or the
                default is not a value of the type.
            UnsupportedFeatureError: a format of the property `export` cannot show it.
        """
        change = alterations.add_column(name, type, after=after, first=first, default=default)
        return self._apply(replace(change, force=force), commit)

    def rename_column(
        self, name: str, to: str, *, force: bool = False, **commit: Unpack[CommitKeywords]
    ) -> Made:
        """Rename a column or field. `to` is taken as it is, so a dot in it is part of the name.

        Args:
            name: of the column.
            to: its new name.
            force: rename it even if a format of the property `export` cannot show it. The copy
                then stays at the version before.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: no such column, or the new name is taken.
            UnsupportedFeatureError: a format of the property `export` cannot show it.
        """
        return self._apply(replace(alterations.rename_column(name, to), force=force), commit)

    def drop_column(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Remove a column or field from the schema. A new column of that name never gets its old
        values.

        Raises:
            SchemaMismatchError: no such column, a partition column, or the only column.
        """
        return self._apply(alterations.drop_column(name), commit)

    def move_column(
        self,
        name: str,
        *,
        after: str | None = None,
        first: bool = False,
        **commit: Unpack[CommitKeywords],
    ) -> Made:
        """Move a column or field to another place among its siblings.

        Raises:
            SchemaMismatchError: no such column or sibling; neither `after` nor `first`.
        """
        return self._apply(alterations.move_column(name, after=after, first=first), commit)

    def widen_column(
        self, name: str, type: Any, *, force: bool = False, **commit: Unpack[CommitKeywords]
    ) -> Made:
        """Change a column, field, `list.element` or `map.value` to a type that holds all its
        values.

        Wider types are a wider integer, double for float or integers up to INT, a decimal that
        holds every value, and timestamp_ntz for date.

        Args:
            name: of the column.
            type: the wider type.
            force: widen it even if a format of the property `export` cannot show it. The copy then
                stays at the version before.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: no such column, a partition column, or not a wider type.
            UnsupportedFeatureError: a format of the property `export` cannot show it.
        """
        return self._apply(replace(alterations.widen_column(name, type), force=force), commit)

    def add_constraint(self, name: str, condition: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Add a CHECK constraint. It is checked against all existing rows, and against new rows.

        A row breaks the constraint if the condition is FALSE for it.

        Args:
            name: of the constraint.
            condition: Spark SQL over the columns of a row.
            commit: options of every commit.

        Raises:
            ConstraintViolationError: an existing row breaks it.
            InvalidPredicateError: it is not a condition on a single row.
            SchemaMismatchError: the name is taken; the condition uses a variant.
            UnsupportedFeatureError: only Spark can evaluate the condition, and this is not Spark.
            ConcurrentAppendException: rows were added concurrently.
        """
        return self._apply(alterations.add_constraint(name, condition), commit)

    def drop_constraint(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Drop a constraint.

        Raises:
            SchemaMismatchError: there is no constraint of that name.
        """
        return self._apply(alterations.drop_constraint(name), commit)

    def set_not_null(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Make a column NOT NULL. All existing rows are checked.

        Raises:
            ConstraintViolationError: an existing row has NULL.
            SchemaMismatchError: no such top-level column.
            ConcurrentAppendException: rows were added concurrently.
        """
        return self._apply(alterations.set_not_null(name), commit)

    def drop_not_null(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Allow NULL in a column.

        Raises:
            SchemaMismatchError: no such top-level column.
        """
        return self._apply(alterations.drop_not_null(name), commit)

    def set_comment(
        self, comment: str | None, *, column: str | None = None, **commit: Unpack[CommitKeywords]
    ) -> Made:
        """Set the comment of the table or of a column, and replace an earlier one (ENT-11).

        Args:
            comment: up to 4,000 characters; None or "" for no comment.
            column: a column, or the dotted path of a field; None for the table.
            commit: options of every commit.

        Raises:
            SchemaMismatchError: no such column, or an invalid comment.
        """
        return self._apply(alterations.set_comment(comment, column), commit)

    def set_default(self, name: str, value: Any, **commit: Unpack[CommitKeywords]) -> Made:
        """Set the value for new rows that are written without a column; None for NULL.

        Raises:
            SchemaMismatchError: no such column, or not a value of its type.
        """
        return self._apply(alterations.set_default(name, value), commit)


def find_row(txn: TransactionSnapshot, where: str) -> Row | None:
    """Return the first row that Arrow finds. Files that cannot hold such a row are not read.

    Raises:
        UnsupportedFeatureError: only Spark can evaluate the text.
        CorruptDataError: a data file is damaged.
    """
    scan = Scan(txn.store, txn.snapshot, where=where, limit=1)
    rows = scan.to_arrow().select([f.name for f in shown_columns(txn.metadata.schema)])
    if not rows.num_rows:
        return None
    return {name: shown_value(rows.column(name)[0]) for name in rows.column_names}


def alter(
    context: TableContext, alteration: Alteration, options: CommitOptions, find: Find = find_row
) -> Commit:
    """Change the metadata in one commit. Without an actual change, no version is made.

    Raises:
        SchemaMismatchError: the change does not fit the table.
        ConstraintViolationError: a row breaks the added constraint.
        MetadataChangedException: a concurrent commit changed the metadata.
        CommitRejectedError, CommitUnknownError: of the commit.
    """
    return autocommit(context, alter_statement(alteration, find), options)


def alter_statement(alteration: Alteration, find: Find = find_row) -> Statement:
    """Return the statement of a metadata change.

    Raises:
        SchemaMismatchError: its text is not Unicode.
    """
    name, text = alteration.text
    return Statement(
        name=name,
        text=lambda metadata: (text,),
        stage=lambda txn, _: stage_alter(txn, alteration, find),
    )


def stage_alter(txn: TransactionSnapshot, alteration: Alteration, find: Find = find_row) -> Staged:
    """Stage the change on the metadata of the transaction snapshot.

    Raises: as `alter`, except for errors of the commit.
    """
    changed, keeps, protocol = alteration.change(txn.metadata), None, None
    if alteration.tag is not None:
        tag = tag_at(txn, alteration.tag)
        changed, keeps = with_tag(txn.metadata, alteration.tag.name, tag), tag.version
        protocol = _with_feature(txn.view.head.protocol)
    if alteration.repartitions:
        changed = evolved_from(txn, changed)
        protocol = features_for(changed, txn.view.head.protocol)
    if alteration.synced is not None:
        changed = synced_identity(txn, alteration.synced)
    same = changed == txn.metadata
    if not same and not alteration.force:
        check_exports(txn.view, txn.version, txn.metadata, changed)
    if alteration.added_constraint is not None and not same:
        row = find(txn, alteration.added_constraint.broken_by(txn.metadata.schema))
        if row is not None:
            raise alteration.added_constraint.error(row)
    return Staged(
        transaction=txn.transaction,
        operation=Operation(
            name=alteration.name,
            cls=OperationClass.METADATA if protocol is None else OperationClass.PROTOCOL,
            parameters=dict(alteration.parameters),
        ),
        written_under=txn.metadata,
        read_version=txn.version,
        protocol=protocol,
        keeps=keeps,
        metadata=None if same else changed,
        adds_constraints=alteration.adds_constraints and not same,
    )


def evolved_from(txn: TransactionSnapshot, changed: Metadata) -> Metadata:
    """Return metadata with another partitioning, without partitionings that no file has (EVO-5).

    Raises:
        UnsupportedFeatureError: a live imported file may lack a column that partitions it.
    """
    before = txn.metadata
    leaving = [
        field.name
        for field in before.schema.fields
        if field.id in before.partition_ids - changed.partition_ids
    ]
    if leaving and before.imports:
        files = txn.snapshot.files_with(("size",))
        if NUMBER in files.column_names and files[NUMBER].null_count < files.num_rows:
            raise UnsupportedFeatureError(
                f"imported files may lack the column {leaving[0]!r}, which partitions them; "
                "rewrite them first, with Table.compact(kind='major')",
                ["partitioning:imports"],
            )
    if not before.is_evolved:
        return changed
    # A concurrent append may still write by the partitioning in force until now.
    return without_unused(changed, {*txn.snapshot.partitionings(), before.partitioning})


def synced_identity(txn: TransactionSnapshot, name: str) -> Metadata:
    """Return the metadata in which an identity column continues after all values. Spec: IDN-4.

    Raises:
        SchemaMismatchError: there is no such identity column.
    """
    column = identity_column(txn.metadata, name)
    farthest = "max" if column.identity.step > 0 else "min"
    # Numbers that were claimed may not be given any more, because rows may have brought them.
    beyond = max(column.skip, counted(txn.view.read_head.applications, column))
    for batch in Scan(txn.store, txn.snapshot, columns=[column.field.name]).to_batches():
        value = pc.min_max(batch.column(0)).as_py()[farthest]
        if value is not None:
            beyond = max(beyond, column.number_of(value))
    return with_identities(txn.metadata, [replace(column, skip=beyond)])


def add_features(context: TableContext, metadata: Metadata) -> None:
    """Add the features that some metadata needs, before it replaces the table's own (VER-4).

    Raises:
        ProtocolChangedException: a concurrent commit changed the protocol.
        CommitRejectedError, CommitUnknownError: of the commit.
    """

    def stage(txn: TransactionSnapshot, _: None) -> Staged:
        return Staged(
            transaction=txn.transaction,
            operation=Operation(name="ADD FEATURE", cls=OperationClass.PROTOCOL),
            written_under=txn.metadata,
            read_version=txn.version,
            protocol=features_for(metadata, txn.view.head.protocol),
        )

    if features_for(metadata, context.view.head.protocol) is None:
        return
    context.view.refresh()
    if features_for(metadata, context.view.head.protocol) is not None:
        autocommit(context, Statement(name="ADD FEATURE", stage=stage), CommitOptions())


def tag_at(txn: TransactionSnapshot, asked: TagRequest) -> Tag:
    """Return the tag that a request means on a transaction snapshot.

    Raises:
        VersionNotFoundError: the version does not exist, or is not kept.
    """
    head, version = txn.view.head, asked.version
    if isinstance(version, str):
        version = tagged_at(head, version)
    number = txn.view.check_version(txn.version if version is None else version)
    if asked.seconds is None:
        return Tag(number)
    # A clock that is behind would let the version go too early (TAG-2).
    now_us = max(txn.measured.began.wall_us, head.timestamp, txn.view.store.clock_us())
    return Tag(number, min(now_us + round(min(asked.seconds, 1e12) * 1e6), MICROS_MAX))


def _with_feature(known: ProtocolFeatures) -> ProtocolFeatures | None:
    """Return the features with `tags`; None if the table has it (VER-4)."""
    if TAGS in known.writer:
        return None
    return known.plus(writer=[TAGS])
