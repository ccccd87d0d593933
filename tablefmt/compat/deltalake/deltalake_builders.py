"""The objects that delta-rs returns to merge, optimize and alter a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tablefmt.compat.deltalake.deltalake_arguments import (
    CommitProperties,
    commit_keywords,
    condition_of,
    metrics_of,
)
from tablefmt.compat.deltalake.deltalake_names import NAMES
from tablefmt.compat.deltalake.schema import Field
from tablefmt.compat.standard_sql import spark_sql, spark_values
from tablefmt.compat.translation import Translated, translated
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.predicate import quoted_path
from tablefmt.model.peer_properties import translate_properties
from tablefmt.operations.merge_builder import MergeBuilder
from tablefmt.session.commit_options import CommitKeywords
from tablefmt.session.commit_result import Commit
from tablefmt.table import Table


class TableMerger(Translated):
    """A MERGE under construction. `execute` runs it and returns its metrics."""

    _names, _called = NAMES, "TableMerger"

    def __init__(
        self, builder: MergeBuilder[Commit], commit: CommitKeywords, columns: dict[str, str]
    ) -> None:
        self._builder, self._commit = builder, commit
        self._columns = columns
        """The source's column for each column of the table, as SQL."""

    @translated(NAMES, "TableMerger.when_matched_update")
    def when_matched_update(
        self, updates: dict[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Update matched rows."""
        values = spark_values(updates)
        return self._with(self._builder.when_matched_update(values, spark_sql(predicate)))

    @translated(NAMES, "TableMerger.when_matched_update_all")
    def when_matched_update_all(
        self, predicate: str | None = None, except_cols: list[str] | None = None
    ) -> TableMerger:
        """Update all columns of matched rows, or all but some."""
        if except_cols:
            chosen = self._source_columns(except_cols)
            return self._with(self._builder.when_matched_update(chosen, spark_sql(predicate)))
        return self._with(self._builder.when_matched_update_all(spark_sql(predicate)))

    @translated(NAMES, "TableMerger.when_matched_delete")
    def when_matched_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete matched rows."""
        return self._with(self._builder.when_matched_delete(spark_sql(predicate)))

    @translated(NAMES, "TableMerger.when_not_matched_insert")
    def when_not_matched_insert(
        self, updates: dict[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Insert source rows without a match."""
        values = spark_values(updates)
        return self._with(self._builder.when_not_matched_insert(values, spark_sql(predicate)))

    @translated(NAMES, "TableMerger.when_not_matched_insert_all")
    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: list[str] | None = None
    ) -> TableMerger:
        """Insert all columns of source rows without a match, or all but some."""
        if except_cols:
            chosen = self._source_columns(except_cols)
            return self._with(self._builder.when_not_matched_insert(chosen, spark_sql(predicate)))
        return self._with(self._builder.when_not_matched_insert_all(spark_sql(predicate)))

    @translated(NAMES, "TableMerger.when_not_matched_by_source_update")
    def when_not_matched_by_source_update(
        self, updates: dict[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Update rows of the table without a match."""
        values, where = spark_values(updates), spark_sql(predicate)
        return self._with(self._builder.when_not_matched_by_source_update(values, where))

    @translated(NAMES, "TableMerger.when_not_matched_by_source_delete")
    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete rows of the table without a match."""
        return self._with(self._builder.when_not_matched_by_source_delete(spark_sql(predicate)))

    def execute(self) -> dict[str, Any]:
        """Run the MERGE. Return its metrics under delta-rs' names."""
        return metrics_of("merge", self._builder.execute(**self._commit).metrics)

    def _source_columns(self, without: Sequence[str]) -> dict[str, str]:
        return {name: text for name, text in self._columns.items() if name not in without}

    def _with(self, builder: MergeBuilder[Commit]) -> TableMerger:
        # delta-rs changes the object, so code that ignores the result works too.
        self._builder = builder
        return self


class TableOptimizer(Translated):
    """Compaction and clustering."""

    _names, _called = NAMES, "TableOptimizer"

    def __init__(self, table: Table) -> None:
        self._table = table

    @translated(NAMES, "TableOptimizer.compact")
    def compact(
        self,
        partition_filters: list[Any] | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: Any = None,
        writer_properties: Any = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> dict[str, Any]:
        """Compact small files. Return the numbers of added and removed files."""
        where = condition_of(self._table.schema, partition_filters)
        done = self._table.compact(
            where=where, target_file_size=target_size, **commit_keywords(commit_properties)
        )
        return _layout_metrics(done)

    @translated(NAMES, "TableOptimizer.z_order")
    def z_order(
        self,
        columns: Iterable[str],
        partition_filters: list[Any] | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: Any = None,
        writer_properties: Any = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> dict[str, Any]:
        """Cluster rows by columns. Return the numbers of added and removed files."""
        where = condition_of(self._table.schema, partition_filters)
        done = self._table.cluster(
            list(columns),
            where=where,
            target_file_size=target_size,
            **commit_keywords(commit_properties),
        )
        return _layout_metrics(done)


def _layout_metrics(done: Commit) -> dict[str, Any]:
    return {
        "numFilesAdded": done.metrics.get("numAddedFiles", 0),
        "numFilesRemoved": done.metrics.get("numRemovedFiles", 0),
    }


class TableAlterer(Translated):
    """Changes of the schema, the constraints and the properties."""

    _names, _called = NAMES, "TableAlterer"

    def __init__(self, table: Table) -> None:
        self._table = table

    @translated(NAMES, "TableAlterer.add_columns")
    def add_columns(
        self,
        fields: Field | list[Field],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Add columns, each by a commit."""
        commit = commit_keywords(commit_properties)
        for each in [fields] if isinstance(fields, Field) else fields:
            self._table.alter.add_column(quoted_path(each.name), each.to_arrow().type, **commit)

    @translated(NAMES, "TableAlterer.add_constraint")
    def add_constraint(
        self,
        constraints: dict[str, str],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Add CHECK constraints, each by a commit."""
        for name, condition in spark_values(constraints).items():
            commit = commit_keywords(commit_properties)
            self._table.alter.add_constraint(name, condition, **commit)

    @translated(NAMES, "TableAlterer.drop_constraint")
    def drop_constraint(
        self,
        name: str,
        raise_if_not_exists: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Drop a CHECK constraint."""
        if not raise_if_not_exists and name not in self._table.refresh().constraints:
            return
        self._table.alter.drop_constraint(name, **commit_keywords(commit_properties))

    @translated(NAMES, "TableAlterer.drop_column_not_null")
    def drop_column_not_null(
        self,
        column_name: str,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Allow NULL in a column."""
        self._table.alter.drop_not_null(column_name, **commit_keywords(commit_properties))

    @translated(NAMES, "TableAlterer.set_table_properties")
    def set_table_properties(
        self,
        properties: Mapping[str, str],
        raise_if_not_exists: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Set properties. Names that start with `delta.` become ours, or are refused."""
        ours = translate_properties(properties)
        if ours:
            self._table.alter.set_properties(ours, **commit_keywords(commit_properties))

    @translated(NAMES, "TableAlterer.set_table_name")
    def set_table_name(
        self,
        name: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Set the name of the table, which is the property `user.name`."""
        given = {"user.name": name}
        self._table.alter.set_properties(given, **commit_keywords(commit_properties))

    @translated(NAMES, "TableAlterer.set_table_description")
    def set_table_description(
        self,
        description: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Set the comment of the table."""
        self._table.alter.set_comment(description, **commit_keywords(commit_properties))

    @translated(NAMES, "TableAlterer.set_column_metadata")
    def set_column_metadata(
        self,
        column: str,
        metadata: dict[str, str],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Set the comment of a column.

        Raises:
            UnsupportedFeatureError: a key other than comment.
        """
        if set(metadata) != {"comment"}:
            raise UnsupportedFeatureError(
                f"deltalake: columns of tablefmt tables have no metadata {sorted(metadata)} except "
                "'comment'; store it in a property whose name starts with 'user.'",
                ["compat:TableAlterer.set_column_metadata"],
            )
        commit = commit_keywords(commit_properties)
        self._table.alter.set_comment(metadata["comment"], column=column, **commit)
