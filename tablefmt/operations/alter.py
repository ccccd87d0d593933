"""Alter: schema and properties, by metadata alone (class METADATA).

Every write that runs beside it fails, blind ones of a transaction too. It goes on top of writes,
unless it promises something of every row. Spec: ENT-8, ENT-10, SCH-2 .. SCH-4,
SCH-7 .. SCH-9, CFL-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tablefmt.commit.transaction_plan import Staged
from tablefmt.expressions.check_constraints import shown_columns
from tablefmt.model.log_entry import Operation, OperationClass
from tablefmt.model.scalar_values import shown_value
from tablefmt.operations import alterations
from tablefmt.operations.alterations import Alteration, Row
from tablefmt.session.commit_options import CommitKeywords, CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan
from tablefmt.session.transaction_snapshot import TransactionSnapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack

Made = TypeVar("Made")

Find = Callable[[TransactionSnapshot, str], "Row | None"]
"""A live row of the pinned version for which SQL text is TRUE."""


class Alter(Generic[Made]):
    """The verbs of `alter`, on a table or in a transaction."""

    def __init__(self, apply: Callable[[Alteration, CommitKeywords], Made]) -> None:
        self._apply = apply

    def set_properties(
        self, properties: Mapping[str, Any], **commit: Unpack[CommitKeywords]
    ) -> Made:
        """Set table properties; others stay.

        Raises:
            SchemaMismatchError: an unknown name, or a value that is not what the name wants.
        """
        return self._apply(alterations.set_properties(properties), commit)

    def unset_properties(self, names: Sequence[str], **commit: Unpack[CommitKeywords]) -> Made:
        """Go back to the defaults of these properties; one that is not set is passed over.

        Raises:
            SchemaMismatchError: an unknown name.
        """
        return self._apply(alterations.unset_properties(names), commit)

    def add_column(
        self,
        name: str,
        type: Any,
        *,
        after: str | None = None,
        first: bool = False,
        default: Any = None,
        **commit: Unpack[CommitKeywords],
    ) -> Made:
        """Add a column, or a field of a struct; no data file is touched.

        Args:
            name: of the column; a dotted path for a field: `s.f`, `list.element.f`, `map.value.f`.
                Backticks go around a name that has a dot in it.
            type: DDL text, a pyarrow.DataType, or a Spark DataType. NOT NULL needs a default.
            after: the sibling it comes after; by default it comes last.
            first: it comes before its siblings.
            default: the value in all rows there are, and in those written without the column; None
                for NULL. Columns that are nested or BINARY, and fields, have none.
            commit: what every commit takes.

        Raises:
            SchemaMismatchError: the name is taken, the type is none that a table can have, or the
                default is none of its values.
        """
        return self._apply(
            alterations.add_column(name, type, after=after, first=first, default=default), commit
        )

    def rename_column(self, name: str, to: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Give a column or field another name: `to` as it is, dots in it mean nothing.

        Raises:
            SchemaMismatchError: no such column, or a name that is taken.
        """
        return self._apply(alterations.rename_column(name, to), commit)

    def drop_column(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Take a column or field out of the schema. Its values never come back under that name.

        Raises:
            SchemaMismatchError: no such column, a partition column, or the only one.
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
        """Put a column or field at another place among its siblings.

        Raises:
            SchemaMismatchError: no such column or sibling; neither `after` nor `first`.
        """
        return self._apply(alterations.move_column(name, after=after, first=first), commit)

    def widen_column(self, name: str, type: Any, **commit: Unpack[CommitKeywords]) -> Made:
        """Give a column, field, `list.element` or `map.value` a type that holds all its values.

        A wider integer, double for float or integers up to INT, a decimal with room for every
        value, timestamp_ntz for date.

        Raises:
            SchemaMismatchError: no such column, a partition column, or no such type.
        """
        return self._apply(alterations.widen_column(name, type), commit)

    def add_constraint(self, name: str, condition: str, **commit: Unpack[CommitKeywords]) -> Made:
        """From now on no row makes the condition FALSE; the rows there are, are looked through.

        Args:
            name: of the constraint.
            condition: Spark SQL over the columns of a row.
            commit: what every commit takes.

        Raises:
            ConstraintViolationError: a row there is breaks it.
            InvalidPredicateError: it is no condition on a row by itself.
            SchemaMismatchError: the name is taken; it looks at a variant.
            UnsupportedFeatureError: a condition that only Spark can evaluate, without Spark.
            ConcurrentAppendException: rows were added meanwhile.
        """
        return self._apply(alterations.add_constraint(name, condition), commit)

    def drop_constraint(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """Forget a constraint.

        Raises:
            SchemaMismatchError: there is none of that name.
        """
        return self._apply(alterations.drop_constraint(name), commit)

    def set_not_null(self, name: str, **commit: Unpack[CommitKeywords]) -> Made:
        """From now on a column is never NULL; the rows there are, are looked through.

        Raises:
            ConstraintViolationError: a row is NULL there.
            SchemaMismatchError: no such top-level column.
            ConcurrentAppendException: rows were added meanwhile.
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
        """Say something of the table, or of a column; what was said before goes (ENT-11).

        Args:
            comment: up to 4,000 characters; None or empty text for none.
            column: a column, or the dotted path of a field; None for the table.
            commit: what every commit takes.

        Raises:
            SchemaMismatchError: no such column, or no such text.
        """
        return self._apply(alterations.set_comment(comment, column), commit)

    def set_default(self, name: str, value: Any, **commit: Unpack[CommitKeywords]) -> Made:
        """Set what rows written without a column get from now on; None for NULL.

        Raises:
            SchemaMismatchError: no such column, or no value of its type.
        """
        return self._apply(alterations.set_default(name, value), commit)


def find_row(txn: TransactionSnapshot, where: str) -> Row | None:
    """The first row that Arrow finds; files that cannot hold one are not read.

    Raises:
        UnsupportedFeatureError: text that cannot be evaluated without Spark. CorruptDataError.
    """
    scan = Scan(txn.store, txn.snapshot, where=where, limit=1)
    rows = scan.to_arrow().select([f.name for f in shown_columns(txn.metadata.schema)])
    if not rows.num_rows:
        return None
    return {name: shown_value(rows.column(name)[0]) for name in rows.column_names}


def alter(
    context: TableContext, alteration: Alteration, options: CommitOptions, find: Find = find_row
) -> Commit:
    """Change the metadata in one commit; a change that changes nothing makes no version.

    Raises:
        SchemaMismatchError: it does not fit; CommitRejectedError, CommitUnknownError.
        ConstraintViolationError: a row breaks what it promises.
        MetadataChangedException: somebody else changed the metadata meanwhile.
    """
    return autocommit(context, alter_statement(alteration, find), options)


def alter_statement(alteration: Alteration, find: Find = find_row) -> Statement:
    """A change of the metadata. Raises SchemaMismatchError: its text is no Unicode."""
    name, text = alteration.said
    return Statement(
        name=name,
        text=lambda metadata: (text,),
        stage=lambda txn, _: stage_alter(txn, alteration, find),
    )


def stage_alter(txn: TransactionSnapshot, alteration: Alteration, find: Find = find_row) -> Staged:
    """The change on the metadata of the pinned version.

    Raises: as `alter`, but for what a commit raises.
    """
    changed = alteration.change(txn.metadata)
    same = changed == txn.metadata
    if alteration.added_constraint is not None and not same:
        row = find(txn, alteration.added_constraint.broken_by(txn.metadata.schema))
        if row is not None:
            raise alteration.added_constraint.error(row)
    return Staged(
        transaction=txn.transaction,
        operation=Operation(
            name=alteration.name,
            cls=OperationClass.METADATA,
            parameters=dict(alteration.parameters),
        ),
        written_under=txn.metadata,
        read_version=txn.version,
        metadata=None if same else changed,
        adds_constraints=alteration.adds_constraints and not same,
    )
