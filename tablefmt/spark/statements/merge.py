"""MERGE by Spark: the source is stored once, the table passed over once, inserts come from what is
left of the source.

Rows that match are found by a join that carries the place of the table's row and the number of the
source's; both come back with the rows written. Spec: MRG-1 .. MRG-4, ENT-9, ADD-8.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Keys
from tablefmt.data.read import read_files
from tablefmt.errors import MergeCardinalityError
from tablefmt.expressions.assignments import Over
from tablefmt.expressions.clauses import Action, Side
from tablefmt.expressions.default_text import default_sql
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.entry import AddedFiles
from tablefmt.model.key_hashes import KEYS_MAX, hash_keys
from tablefmt.model.schema import Field
from tablefmt.session.change_plan import Changed, changed_plan
from tablefmt.session.context import Commit, TableContext
from tablefmt.session.snapshot import TransactionSnapshot, check_may_remove
from tablefmt.session.staging import commit_plan, with_metadata
from tablefmt.snapshot.files import added_table
from tablefmt.spark.backends.base import (
    ACTION,
    DELETED,
    FILE,
    KEPT,
    ROW,
    SOURCE,
    UPDATED,
    Rewritten,
)
from tablefmt.spark.backends.copy_on_write import copy_rows_in_tasks
from tablefmt.spark.backends.position_sets import by_file
from tablefmt.spark.backends.query_versions import version_read
from tablefmt.spark.backends.rewrite import finish, forget, rewrite
from tablefmt.spark.columns.assignment import overlaid, refitted, spark_types
from tablefmt.spark.columns.conditions import check_by_row, check_deterministic
from tablefmt.spark.options import WriteOptions
from tablefmt.spark.runtime.ansi import moved, under_ansi
from tablefmt.spark.runtime.frames import functions_of
from tablefmt.spark.runtime.jobs import job_description
from tablefmt.spark.statements.dml import cleaning, ids_of, located_rows
from tablefmt.spark.statements.merge_clauses import Assigned, Merge, SparkClause, plain
from tablefmt.spark.statements.merge_files import opened_files
from tablefmt.spark.statements.source_rows import SourceRows
from tablefmt.spark.statements.source_versions import with_query

NAME = "MERGE"

KEYS_NAMED = 10

_CLAUSE = "__tablefmt_clause"
_CODES = {Action.UPDATE: UPDATED, Action.DELETE: DELETED}
_log = logging.getLogger("tablefmt.spark")


def merge_rows(
    context: TableContext,
    spark: Any,
    merge_of: Callable[[TransactionSnapshot], Merge],
    options: WriteOptions,
) -> Commit:
    """Carry out a MERGE, in one commit.

    Args:
        context: the table.
        spark: the session.
        merge_of: the statement, for the version that is read.
        options: of the commit and the files.

    Raises:
        MergeCardinalityError: several source rows would change one row of the table.
        ConstraintViolationError, SchemaMismatchError: a new row does not fit.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError. Spark's own
        exceptions if a query fails. Only CommitUnknownError leaves files.
    """
    version = context.begin().version
    already = context.applied(options.commit, None, NAME)
    if already is not None:
        return already
    with under_ansi(spark) as ansi:
        return _merged(context, ansi, merge_of, options, version)


def _merged(
    context: TableContext,
    spark: Any,
    merge_of: Callable[[TransactionSnapshot], Merge],
    options: WriteOptions,
    version: int,
) -> Commit:
    while True:
        pinned = context.pin(version)
        merge = merge_of(pinned)
        read = version_read(pinned.store, pinned.view, merge.source)
        if read is not None:
            version = min(version, read)
        if version == pinned.version:
            try:
                plan = stage_merge(pinned, spark, merge, options, read)
            except _OtherVersion as other:
                version = other.version
            else:
                return commit_plan(context, with_metadata(plan, pinned), options.commit, None)
        if version > context.view.head.version:
            context.view.refresh()


class _OtherVersion(Exception):
    """An expression reads another version of the table than the one whose rows are changed."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def stage_merge(
    pinned: TransactionSnapshot, spark: Any, merge: Merge, options: WriteOptions, read: int | None
) -> Plan:
    """The MERGE at the pinned version; with nothing to do, a plan that is empty.

    Args:
        read: the version of the table that the source reads; None: it does not.
    """
    if len(merge.of(Side.NOT_MATCHED)) < len(merge.clauses):
        check_may_remove(pinned.metadata)

    def bound_source(rows: Any) -> Any:
        return merge.bind_source(moved(rows, spark))

    with SourceRows.stored(merge.source, bound_source, merge.equated) as source:
        work = _Work(pinned, spark, merge, options, source, read)
        with cleaning(spark, pinned):
            plan = work.plan()
        return plan if work.read is None else with_query(plan, pinned)


class _Work:
    """One MERGE under way."""

    def __init__(
        self,
        pinned: TransactionSnapshot,
        spark: Any,
        merge: Merge,
        options: WriteOptions,
        source: SourceRows,
        read: int | None,
    ) -> None:
        self.pinned = pinned
        self.spark = spark
        self.merge = merge
        self.options = options
        self.source = source
        self.read = read
        """The oldest version of the table that a query of the statement reads; None: none does."""
        self._is_pinned = read is not None
        self.functions = functions_of(source.rows)
        self.matched = merge.of(Side.MATCHED)
        self.inserts = merge.of(Side.NOT_MATCHED)
        self.by_source = merge.of(Side.NOT_MATCHED_BY_SOURCE)

    def plan(self) -> Plan:
        """Do the work; say what is to be committed."""
        pinned, merge = self.pinned, self.merge
        self._check_by_row(self.source.rows, [], self.inserts)
        with job_description(self.spark, f"{NAME}: reading the source"):
            target, files = opened_files(pinned, merge, self.source)
            rows = self.source.count
        _log.info(
            "MERGE: %d source rows, %d of %d files opened",
            rows, files.num_rows, pinned.snapshot.files.num_rows,
        )  # fmt: skip
        found = self._pairs(files)
        sources = found.column(SOURCE)
        actions = self._actions(found)
        taken = actions != KEPT
        self._check_cardinality(found, taken)
        inserted = self._insert(np.unique(sources[sources >= 0]))
        finish(self.spark, pinned, [found.files, inserted])
        if found.files is None and inserted is None:
            forget(self.spark, pinned)
        ids = np.asarray(ids_of(files))
        places = found.column(FILE), found.column(ROW)

        def chosen(rows: NDArray[np.bool_]) -> Any:
            return by_file(places[0][rows], places[1][rows], ids)

        updated = actions == UPDATED
        keys = None if self.by_source else self.source.keys()
        changed = Changed(
            target=target,
            files=files,
            read=chosen((sources >= 0) | taken),
            deleted=chosen(actions == DELETED),
            updated=chosen(updated),
            updated_files=found.files,
            inserted_files=inserted,
            set_columns=merge.set_columns if updated.any() else (),
            keys=keys,
            inserted_hashes=self._hashes(inserted, keys),
            metrics=self._metrics(int(updated.sum()), inserted),
        )
        _log.info(
            "MERGE: %d rows updated, %d deleted, %d inserted",
            updated.sum(), (actions == DELETED).sum(), 0 if inserted is None else inserted.rows,
        )  # fmt: skip
        return changed_plan(pinned, NAME, changed, copy_rows_in_tasks(self.spark))

    def _metrics(self, updated: int, inserted: AddedFiles | None) -> dict[str, int]:
        output = updated + (0 if inserted is None else inserted.rows)
        return {"numSourceRows": self.source.count, "numOutputRows": output}

    def _pairs(self, files: pa.Table) -> Rewritten:
        """Rows of the table that a source row matches, or a clause by source applies to."""
        names = [FILE, ROW, SOURCE, ACTION]
        shape = pa.schema([(name, pa.int64()) for name in names])
        if files.num_rows == 0 or (self.source.count == 0 and not self.by_source):
            return Rewritten(None, shape.empty_table())
        rows = located_rows(self.spark, self.pinned, files, self.merge.where)
        if self.merge.by_name:
            # Beside the source's columns a name of the table's could be one of theirs.
            self._check_by_row(rows, [], self.by_source)
            self.by_source = tuple(clause.over(rows) for clause in self.by_source)
        lit, clauses = self.functions.lit, [*self.matched, *self.by_source]
        source = self.source.for_join()
        self._check_by_row(rows.join(source), [("ON", self.merge.where.column)], self.matched)
        how = "left" if self.by_source else "inner"
        joined = rows.join(source, self.merge.where.column, how)
        is_matched = source[SOURCE].isNotNull() if self.by_source else None
        chosen = self._first(clauses, is_matched)
        self._check(joined, chosen, clauses)
        picked = joined.select("*", chosen.alias(_CLAUSE))
        clause = self.functions.col(_CLAUSE)
        if is_matched is not None:
            picked = picked.where(source[SOURCE].isNotNull() | (clause >= 0))
        writes = [i for i, c in enumerate(clauses) if c.action is Action.UPDATE]
        action = lit(KEPT)
        for code, kind in ((UPDATED, Action.UPDATE), (DELETED, Action.DELETE)):
            of = [i for i, c in enumerate(clauses) if c.action is kind]
            if of:
                action = self.functions.when(clause.isin(of), lit(code)).otherwise(action)
        step = f"{NAME}: finding matches in {files.num_rows} files"
        if not writes:
            picked = picked.select(FILE, ROW, SOURCE, action.cast("int").alias(ACTION))
            self._look_at(picked)
            with job_description(self.spark, step):
                return Rewritten(None, picked.toArrow())
        values = [self._fitted(picked, c, rows) for c in clauses]
        columns = [self._new(field, rows, values, writes, clause) for field in self._fields]
        if self._always_updates:
            names.remove(ACTION)
        else:
            columns.append(action.cast("int").alias(ACTION))
        frame = picked.select(*columns, FILE, ROW, SOURCE)
        self._look_at(frame)
        with job_description(self.spark, f"{step} and writing new versions"):
            return rewrite(self.spark, self.pinned, frame, names, self.options)

    def _look_at(self, frame: Any) -> None:
        """Find out which version of the table the expressions over a frame read.

        Raises:
            _OtherVersion: not the pinned one, and nothing else of the statement binds it to that.
        """
        if not self.merge.may_query:
            return
        read = version_read(self.pinned.store, self.pinned.view, frame)
        if read is None:
            return
        if read < self.pinned.version or (read > self.pinned.version and not self._is_pinned):
            raise _OtherVersion(read)
        self.read = self.pinned.version

    @property
    def _fields(self) -> Sequence[Field]:
        return self.pinned.target.schema.fields

    @property
    def _always_updates(self) -> bool:
        """Whether every row that comes out of the join gets new values."""
        clauses = [*self.matched, *self.by_source]
        complete = bool(self.matched) and self.matched[-1].condition is None
        return complete and all(c.action is Action.UPDATE for c in clauses)

    def _first(self, clauses: Sequence[SparkClause], is_matched: Any | None) -> Any:
        """The place of the first clause that applies to a row; -1 for none."""
        functions = self.functions
        chosen: Any = None
        for at, clause in enumerate(clauses):
            holds = functions.lit(True) if clause.condition is None else clause.condition
            if is_matched is not None:
                side = is_matched if clause.side is Side.MATCHED else ~is_matched
                holds = side & holds
            start = functions if chosen is None else chosen
            chosen = start.when(holds, functions.lit(at))
        none = functions.lit(-1)
        return none if chosen is None else chosen.otherwise(none)

    def _fitted(self, frame: Any, clause: SparkClause, rows: Any = None) -> dict[int, Any]:
        """What a clause sets, by column; `rows` are the table's."""
        if any(isinstance(value, Over) for _, value in clause.values):
            clause = replace(clause, values=self._overlaid(frame, clause.values, rows))
        # Rows that come from one clause alone are fitted when they are written.
        lone = len(self.merge.clauses) == 1 and clause.condition is None
        if not clause.values or (lone and clause.side is not Side.NOT_MATCHED_BY_SOURCE):
            return {field.id: value for field, value in clause.values}
        return {field.id: value for field, value in self.merge.fits(frame, clause.values)}

    def _overlaid(self, frame: Any, values: Sequence[Assigned], rows: Any) -> tuple[Assigned, ...]:
        there = {field.id: field for field in self.pinned.snapshot.schema.fields}
        made = []
        for field, value in values:
            if isinstance(value, Over) and field.id in there:
                old, new = spark_types([there[field.id], field]).fields
                given = frame.select(value.value.alias("value")).schema.fields[0].dataType
                before = rows[quote_name(there[field.id].name)]
                kinds = old.dataType, new.dataType
                value = overlaid(self.functions, value.value, given, before, *kinds)
            made.append((field, value.value if isinstance(value, Over) else value))
        return tuple(made)

    def _new(
        self,
        field: Field,
        rows: Any,
        values: Sequence[Mapping[int, Any]],
        writing: Sequence[int],
        clause: Any,
    ) -> Any:
        """A column of the rows written: what the clause sets, or what it was."""
        setting = [i for i, given in enumerate(values) if field.id in given]
        if self._always_updates and setting == list(writing) and len(setting) == 1:
            return values[setting[0]][field.id].alias(field.name)
        value = self._old(field, rows)
        for at in setting:
            value = self.functions.when(clause == at, values[at][field.id]).otherwise(value)
        return value.alias(field.name)

    def _old(self, field: Field, rows: Any) -> Any:
        """A column as it was, in the type that it has from now on."""
        there = next((f for f in self.pinned.snapshot.schema.fields if f.id == field.id), None)
        if there is None:
            return self.functions.lit(None)
        old, new = spark_types([there, field]).fields
        return refitted(self.functions, rows[quote_name(there.name)], old.dataType, new.dataType)

    def _actions(self, found: Rewritten) -> NDArray[np.int64]:
        if ACTION in found.positions.column_names:
            said: NDArray[np.int64] = found.column(ACTION)
            return said
        every: NDArray[np.int64] = np.full(found.positions.num_rows, UPDATED, np.int64)
        return every

    def _check_cardinality(self, found: Rewritten, taken: NDArray[np.bool_]) -> None:
        """MRG-4. Raises MergeCardinalityError."""
        lone = len(self.matched) == 1 and self.matched[0].condition is None
        if lone and self.matched[0].action is Action.DELETE:
            return
        file, row = found.column(FILE)[taken], found.column(ROW)[taken]
        order = np.lexsort((row, file))
        file, row = file[order], row[order]
        twice = np.flatnonzero((file[1:] == file[:-1]) & (row[1:] == row[:-1]))
        if not len(twice):
            return
        sources = found.column(SOURCE)[taken][order][twice + 1]
        keys = self.source.named(np.unique(sources)[:KEYS_NAMED])
        said = "; ".join(", ".join(f"{n}={v!r:.100}" for n, v in key.items()) for key in keys)
        raise MergeCardinalityError(
            f"{len(twice)} rows of the table or more match several source rows that would change "
            f"them: {said}. Nothing was changed; make the source's rows differ in what ON compares",
            keys,
        )

    def _insert(self, matched: NDArray[np.int64]) -> AddedFiles | None:
        """Source rows that matched nothing, as the clauses have them."""
        if not self.inserts or len(matched) == self.source.count:
            return None
        left = self.source.without(matched)
        chosen = self._first(self.inserts, None)
        if len(self.inserts) > 1 or self.inserts[0].condition is not None:
            self._check(left, chosen, self.inserts)
            left = left.select("*", chosen.alias(_CLAUSE))
            clause = self.functions.col(_CLAUSE)
            left = left.where(clause >= 0)
        else:
            clause = None
        values = [self._fitted(left, c) for c in self.inserts]
        columns = []
        for field in self._fields:
            given = [(i, v[field.id]) for i, v in enumerate(values) if field.id in v]
            if clause is None and given:
                columns.append(given[0][1].alias(field.name))
            elif given:
                value = self._left_out(field)
                for at, new in given:
                    value = self.functions.when(clause == at, new).otherwise(value)
                columns.append(value.alias(field.name))
        frame = left.select(*columns)
        if self.source.is_small:
            frame = frame.coalesce(1)
        self._look_at(frame)
        rows = self.source.count - len(matched)
        with job_description(self.spark, f"{NAME}: inserting of {rows} rows that matched nothing"):
            done = rewrite(self.spark, self.pinned, frame, (), self.options, part="i")
        return done.files

    def _check(self, rows: Any, chosen: Any, clauses: Sequence[SparkClause]) -> None:
        """Refuse conditions of clauses that are a matter of chance: InvalidPredicateError."""
        if self.merge.may_be_chance and any(c.condition is not None for c in clauses):
            names = dict.fromkeys(c.side.value.replace("_", " ").upper() for c in clauses)
            check_deterministic(rows, chosen, f"of WHEN {' or '.join(names)}")

    def _check_by_row(
        self, rows: Any, given: Sequence[tuple[str, Any]], clauses: Sequence[SparkClause]
    ) -> None:
        """Refuse what has no value for a row by itself: InvalidPredicateError."""
        # A resolved statement was looked through, and so was text that is known to call nothing.
        if not (self.merge.by_name and self.merge.may_query):
            return
        named = list(given)
        for clause in clauses:
            when = f"WHEN {clause.side.value.replace('_', ' ').upper()}"
            if clause.condition is not None:
                named.append((when, clause.condition))
            what = f"{when} THEN {clause.action.value.upper()}"
            named += [(f"{what} {field.name}", plain(value)) for field, value in clause.values]
        if named:
            check_by_row(rows, named)

    def _left_out(self, field: Field) -> Any:
        """What an INSERT that does not name the column puts there (MRG-2)."""
        if field.default is None:
            return self.functions.lit(None)
        return self.functions.expr(default_sql(field.default, field.type))

    def _hashes(self, inserted: AddedFiles | None, keys: Keys | None) -> Any:
        """Of the keys of all rows inserted; None: unknown."""
        if inserted is None or keys is None or inserted.rows > KEYS_MAX:
            return None
        schema = self.pinned.target.schema
        fields = [schema.by_id(i) for i in keys.columns]
        files = added_table(inserted, self.pinned.target)
        batches = list(read_files(self.pinned.store, files, schema, fields))
        rows = pa.Table.from_batches(batches)
        columns = [rows[f.name].combine_chunks() for f in fields]
        return hash_keys(columns, [f.type for f in fields])
