"""DELETE, UPDATE and MERGE of SQL. Spark resolves them, and RowCommand.java keeps the expressions.

The expressions refer to columns by Spark's attribute ids. Spark evaluates them over rows with these
ids, so subqueries, user-defined functions and type rules are Spark's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.merge_statement import Action, Side, columns_by_name
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.set_assignments import over
from tablefmt.model.schema import Field, Schema, is_nested, nullable
from tablefmt.session.commit_result import Commit
from tablefmt.session.merge_analysis import EVERY_ROW, AnalyzedClause, EquatedColumn, MergeAnalysis
from tablefmt.session.metadata_changes import merged
from tablefmt.session.staging import newest
from tablefmt.session.statement_scope import AnalyzedCondition
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.spark.columns.projection import incoming
from tablefmt.spark.columns.row_conditions import analyzed_parts, non_deterministic
from tablefmt.spark.columns.store_assignment import cast_column, store_assigned
from tablefmt.spark.pyspark_objects import (
    Column,
    DataFrame,
    JavaObject,
    Session,
    column_from,
    frame_from,
    functions_of,
    java_rows,
    java_session,
)
from tablefmt.spark.spark_options import parse_options
from tablefmt.spark.statements.dml import SparkCondition, delete_rows, update_rows
from tablefmt.spark.statements.execution import open_context
from tablefmt.spark.statements.merge_clauses import Assignment, Merge, NewValue, SparkClause
from tablefmt.spark.statements.spark_merge import merge_rows
from tablefmt.store.location import open_store


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a RowCommand."""

    commit: Commit
    columns: Schema | None = None
    """Columns of the table afterwards, if the statement may have changed them."""


def change_rows(spark: Session, command: JavaObject, uri: str, commit: Mapping[str, Any]) -> Done:
    """Run a RowCommand.

    Args:
        spark: the session, classic.
        command: the Java object.
        uri: the location of the table.
        commit: options of the commit.

    Raises:
        InvalidPredicateError: a condition that is not deterministic.
        Other errors as `delete_rows`, `update_rows`, `merge_rows`.
    """
    described = json.loads(command.described())
    options = parse_options({**described["storage"], **commit})
    context = open_context(open_store(uri, options.storage_options))
    schema = context.view.head.metadata.schema
    statement = _Statement(spark, command, described, schema)
    if described["verb"] == "DELETE":
        return Done(delete_rows(context, spark, statement.where(described["condition"]), options))
    if described["verb"] == "UPDATE":
        where = statement.where(described["condition"])
        values = statement.values(described["set"])
        return Done(update_rows(context, spark, where, values, options))
    merged_rows = merge_rows(context, spark, statement.merge, options)
    if merged_rows.no_op or not statement.evolves:
        return Done(merged_rows)
    return Done(merged_rows, newest(context).metadata.schema)


def counts(commit: Commit, verb: str) -> str:
    """Return the row counts that the command shows, separated by blanks."""
    of = commit.metrics.get
    if verb == "DELETE":
        return str(of("numDeletedRows", 0))
    if verb == "UPDATE":
        return str(of("numUpdatedRows", 0))
    names = ("numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsInserted")
    rows = [of(name, 0) for name in names]
    return " ".join(map(str, [sum(rows), *rows]))


class _Statement:
    """Translates a RowCommand to arguments of the operations."""

    def __init__(
        self, spark: Session, command: JavaObject, described: Mapping[str, Any], schema: Schema
    ) -> None:
        self._spark = spark
        self._command = command
        self._described = described
        self._schema = schema

    def where(self, condition: Mapping[str, Any] | None) -> SparkCondition:
        """Return the rows of a condition. None: all rows."""
        if condition is None:
            return SparkCondition(EVERY_ROW, None, self._bind)
        target = self._target(condition)
        return SparkCondition(target, self._condition(condition), self._bind)

    def values(self, numbers: Mapping[str, int], schema: Schema | None = None) -> list[NewValue]:
        """Return columns, by default those before the statement, with their new values."""
        return [
            (_field(schema or self._schema, name), self._column(number))
            for name, number in numbers.items()
        ]

    @property
    def evolves(self) -> bool:
        """True if the statement may add columns that only the source has."""
        return bool(self._stars or self._added)

    @property
    def _stars(self) -> bool:
        return any(clause["star"] for clause in self._described["clauses"])

    @property
    def _added(self) -> list[Any]:
        """Columns that clauses name and the table lacks, in Spark's JSON form."""
        added: list[Any] = json.loads(self._described["added"] or '{"fields":[]}')["fields"]
        return added

    def merge(self, txn: TransactionSnapshot) -> Merge:
        """Return the whole MERGE for a version of the table."""
        source = self._frame(self._command.sourceRows(java_session(self._spark)))
        if self._stars:
            txn.target = merged(txn.target, incoming(source, txn.target.schema))
        elif self._added:
            coming = schema_from({"type": "struct", "fields": self._added})
            txn.target = merged(txn.target, nullable(coming))
        # Files are pruned by keys, which have the types of the table before it evolves.
        self._schema, schema = txn.snapshot.schema, txn.target.schema
        on, star = self._described["on"], self._star(schema) if self._stars else {}
        clauses = [
            (clause, star if clause["star"] else clause.get("set", {}))
            for clause in self._described["clauses"]
        ]
        return Merge(
            analysis=MergeAnalysis(
                on=self._target(on, is_join=True),
                equated=tuple(self._equated(on["equated"])),
                clauses=tuple(self._analyzed(clause, set, schema) for clause, set in clauses),
            ),
            on=self._condition(on),
            clauses=tuple(
                SparkClause(
                    Side(clause["side"]),
                    Action(clause["action"]),
                    None if clause["condition"] is None else self._condition(clause["condition"]),
                    self._overlaid(clause, self.values(set, schema)),
                )
                for clause, set in clauses
            ),
            source=source,
            bind_target=self._bind,
            bind_source=lambda rows: self._frame(self._command.stored(java_rows(rows))),
            fits=store_assigned,
            may_be_chance=False,
        )

    def _equated(self, parts: Sequence[tuple[str, int, bool]]) -> Iterator[EquatedColumn]:
        """Yield the equated columns of ON. A column that Spark casts is not among them."""
        for name, number, null_safe in parts:
            field = _field(self._schema, name)
            if not is_nested(field.type):
                yield EquatedColumn(field, number, self._column(number), null_safe)

    def _analyzed(
        self, clause: Mapping[str, Any], set: Mapping[str, int], schema: Schema
    ) -> AnalyzedClause:
        side, condition = Side(clause["side"]), clause["condition"]
        rows = None
        if side is Side.NOT_MATCHED_BY_SOURCE:
            rows = EVERY_ROW if condition is None else self._target(condition)
        return AnalyzedClause(
            side=side,
            action=Action(clause["action"]),
            condition=None if condition is None else condition["text"],
            values=tuple((_field(schema, name), number) for name, number in set.items()),
            rows=rows,
        )

    def _overlaid(
        self, clause: Mapping[str, Any], values: Sequence[NewValue]
    ) -> tuple[Assignment, ...]:
        if not clause["star"] or clause["action"] != Action.UPDATE.value:
            return tuple(values)
        return tuple((field, over(field, value)) for field, value in values)

    def _star(self, schema: Schema) -> dict[str, int]:
        """Return the values of `SET *` and `INSERT *`, as of `merge_schema` (MRG-1)."""
        numbers = dict(self._described["source"])
        names = [name for name, _ in self._described["source"]]
        columns = columns_by_name(schema, names, partly=True)
        return {field.name: numbers[name] for field, name in columns}

    def _target(self, condition: Mapping[str, Any], *, is_join: bool = False) -> AnalyzedCondition:
        unknown = condition["unknown"] + (len(condition["equated"]) if is_join else 0)
        return analyzed_parts(
            condition["text"], condition["parts"], unknown, condition["columns"], self._schema
        )

    def _condition(self, condition: Mapping[str, Any]) -> Column:
        if not condition["deterministic"]:
            raise non_deterministic(condition["text"])
        return self._column(condition["number"])

    def _bind(self, rows: DataFrame) -> DataFrame:
        if self._added:
            rows = self._grown(rows)
        return self._frame(self._command.rows(java_rows(rows)))

    def _grown(self, rows: DataFrame) -> DataFrame:
        """Return the table's rows with the columns that the statement adds, which are NULL."""
        from pyspark.sql.types import StructType

        functions = functions_of(rows)
        there = {field.name: field.dataType for field in rows.schema.fields}
        new = {field["name"] for field in self._added}
        columns = []
        for field in StructType.fromJson(json.loads(self._described["columns"])).fields:
            kind = there.pop(field.name, None)
            if kind is not None:
                column = rows[quote_name(field.name)]
                columns.append(
                    cast_column(functions, column, kind, field.dataType).alias(field.name)
                )
            elif field.name in new:
                columns.append(functions.lit(None).cast(field.dataType).alias(field.name))
        return rows.select(*columns, *map(quote_name, there))

    def _column(self, number: int) -> Column:
        return column_from(self._command.column(number))

    def _frame(self, data: JavaObject) -> DataFrame:
        return frame_from(data, self._spark)


def _field(schema: Schema, name: str) -> Field:
    field = schema.find(name)
    if field is None:
        raise SchemaMismatchError(
            f"the table no longer has column {name!r}; run the statement again", [name]
        )
    return field
