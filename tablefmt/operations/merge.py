"""MERGE: rows of a source put into the table, clause by clause (class UPDATE).

The source is read once and kept; the table is looked at in the files that may hold a match. First
the rows that match are found, then new rows are written. Spec: MRG-1 .. MRG-5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Keys
from tablefmt.data.assignment import NewValue, new_values
from tablefmt.data.cast import cast_to_schema, match_columns
from tablefmt.data.engine import MEMORY_BYTES, Engine, check_engine, now_us
from tablefmt.data.spool import spooled
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.clauses import (
    Action,
    MergeStatement,
    Side,
    Step,
    in_clause,
    resolve_clauses,
)
from tablefmt.expressions.merge_condition import (
    EquatedWith,
    MergeCondition,
    analyze_merge_condition,
)
from tablefmt.expressions.merge_evolution import evolving_columns
from tablefmt.expressions.names import Relation
from tablefmt.expressions.predicate import TRUE, Predicate, to_sql
from tablefmt.expressions.sql_to_duckdb import Translated
from tablefmt.model.arrow_types import file_schema, from_arrow_field
from tablefmt.model.entry import Metadata
from tablefmt.model.key_hashes import hash_keys
from tablefmt.model.schema import Schema, number_fields
from tablefmt.operations.merge_find import (
    NONE,
    Finder,
    Match,
    Source,
    clause_conditions,
    key_column,
    sides_of,
    target_predicate,
)
from tablefmt.operations.merge_write import Inserted, Writer
from tablefmt.session.change_plan import Changed, changed_plan
from tablefmt.session.condition import TEXT_MAX, AnalyzedCondition
from tablefmt.session.context import Commit, CommitOptions, TableContext
from tablefmt.session.measurements import REWRITE, SCAN
from tablefmt.session.metadata_changes import merged
from tablefmt.session.snapshot import TransactionSnapshot, check_may_remove
from tablefmt.session.source import own_scan, read_of, source_reader, with_reads
from tablefmt.session.staging import check_idempotency, commit_plan, with_metadata

NAME = "MERGE"

SOURCE_KEYS_MAX = 100_000
"""Of a source with more rows the conflict rules do not know the keys: to hash them takes long."""

SOURCE_PARTS = 4
"""A source that takes more than this part of the memory goes to disk."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A MERGE with its source read, and everything in its text understood."""

    pinned: TransactionSnapshot
    statement: MergeStatement
    steps: tuple[Step, ...]
    target: Relation
    source: Source
    on: MergeCondition
    conditions: tuple[Translated | None, ...]
    values: tuple[tuple[NewValue, ...], ...]
    engine: Engine
    memory_limit: int
    predicate: Predicate
    """Target rows for which it is not TRUE are none of the statement's business."""


def merge(
    context: TableContext,
    source: Any,
    statement: MergeStatement,
    options: CommitOptions,
    memory_limit: int = MEMORY_BYTES,
) -> Commit:
    """Carry a MERGE out in one commit; with nothing to do and no application version, in none.

    Args:
        context: the table.
        source: as of `source_reader`.
        statement: what to do.
        options: what every commit takes.
        memory_limit: as of `stage_merge`.

    Raises: as `MergeBuilder.execute`.
    """
    head = context.begin()
    _check_may_change(head.metadata, statement)
    given = check_idempotency(
        context, options, source_reader(source), statement_fingerprint(statement)
    )
    if given.already is not None:
        return given.already
    own = own_scan(context.view, source)
    pinned = context.pin(head.version if own is None else own.version)
    with pinned.staging():
        plan = with_metadata(stage_merge(pinned, given.rows, statement, memory_limit), pinned)
    if own is not None and not plan.is_empty:
        plan = with_reads(plan, [read_of(own, pinned)], pinned)
    return commit_plan(context, plan, options, given.digest)


def statement_fingerprint(statement: MergeStatement) -> tuple[str, ...]:
    """The statement's text, all of it that decides what it does."""
    return (NAME, *(str(getattr(statement, name)) for name in _SAID), *map(str, statement.clauses))


_SAID = ("on", "source_alias", "target_alias", "merge_schema")


def stage_merge(
    pinned: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
) -> Plan:
    """The MERGE at the pinned version; with nothing to do, a plan that is empty.

    Args:
        pinned: the version, and where files go.
        source: read to its end, once.
        statement: what to do.
        memory_limit: bytes, about: for the source and for the join, not for the files written.

    Raises: as `MergeBuilder.execute`, but for what a commit raises.
    """
    _check_may_change(pinned.metadata, statement)
    with understood(pinned, source, statement, memory_limit) as work:
        return _plan(work)


def _check_may_change(metadata: Metadata, statement: MergeStatement) -> None:
    """An append-only table takes a MERGE that only inserts. Raises ConstraintViolationError."""
    if any(clause.action is not Action.INSERT for clause in statement.clauses):
        check_may_remove(metadata)


def explain_merge(
    pinned: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
) -> str:
    """How many files of how many a MERGE opens, and why. Arguments and errors as `stage_merge`."""
    with understood(pinned, source, statement, memory_limit) as work:
        total, rows, size = pinned.snapshot.totals
        files = pinned.snapshot.matching(work.predicate)
        sums = [int(np.sum(files[name].to_numpy())) for name in ("rows", "deleted", "size")]
        if work.predicate == TRUE:
            why = "nothing is known of the rows that can match"
        else:
            why = f"pruned by {to_sql(work.predicate)[:TEXT_MAX]}"
        return (
            f"version {pinned.version}: {files.num_rows} of {total} files, "
            f"{sums[0] - sums[1]} of {rows} rows, {sums[2]} of {size} bytes; {why}; "
            f"source {work.source.rows.num_rows} rows"
        )


@contextmanager
def understood(
    pinned: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int,
) -> Iterator[Work]:
    """The work of a MERGE; the source is kept while the block lasts. Arguments as `stage_merge`."""
    check_engine()
    incoming = _source_schema(source.schema, pinned.metadata.schema)
    coming = evolving_columns(statement, pinned.target.schema, incoming)
    if coming is not None:
        pinned.target = merged(pinned.target, coming)
    now = now_us()
    steps = resolve_clauses(statement, pinned.target.schema, incoming.names)
    target = Relation(pinned.snapshot.schema, "t", statement.target_alias)
    given = Relation(incoming, "s", statement.source_alias)
    with in_clause("ON"):
        on = analyze_merge_condition(statement.on, target, given, now)
    conditions = clause_conditions(steps, target, given, now)
    sides = sides_of(target, given)
    values = tuple(
        tuple(new_values(step.assignments, sides[step.clause.side], now)) for step in steps
    )
    engine = Engine(memory_limit)
    with spooled(_by_handles(source, given), memory_limit // SOURCE_PARTS) as rows:
        held = Source(given, rows)
        predicate = target_predicate(on, steps, target, held, engine)
        yield Work(
            pinned,
            statement,
            steps,
            target,
            held,
            on,
            conditions,
            values,
            engine,
            memory_limit,
            predicate,
        )


def _source_schema(given: pa.Schema, there: Schema) -> Schema:
    """The source's columns; of a type that no column can have, left out.

    One that has no type, all NULL, is of the type of the table's column of that name.
    """
    columns = []
    for column in given:
        same = there.find(column.name) if pa.types.is_null(column.type) else None
        if same is not None:
            columns.append(replace(same, name=column.name))
            continue
        try:
            columns.append(from_arrow_field(column))
        except SchemaMismatchError:
            continue
    if not columns:
        raise SchemaMismatchError("the source has no column that an expression could name")
    return number_fields([replace(column, nullable=True) for column in columns])


def _by_handles(reader: pa.RecordBatchReader, given: Relation) -> pa.RecordBatchReader:
    """The rows in the types that columns have."""
    schema = given.schema
    shape = file_schema(schema)
    known = [name for name in reader.schema.names if schema.find(name) is not None]
    chosen = pa.schema([reader.schema.field(name) for name in known])
    positions = match_columns(chosen, schema)
    handles = [given.handle(at) for at in range(len(schema.fields))]
    renamed = pa.schema([pa.field(h, f.type) for h, f in zip(handles, shape, strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            rows = pa.Table.from_batches([batch]).select(known)
            fitted = cast_to_schema(rows, positions, schema, shape)
            yield from fitted.rename_columns(handles).cast(renamed).to_batches()

    return pa.RecordBatchReader.from_batches(renamed, batches())


def _plan(work: Work) -> Plan:
    pinned = work.pinned
    files = pinned.snapshot.with_vectors(pinned.snapshot.matching(work.predicate))
    finder = Finder(
        work.on,
        work.steps,
        work.conditions,
        work.target,
        work.source,
        work.engine,
        work.memory_limit,
    )
    with pinned.measured.timed(SCAN):
        match = finder.matches(pinned, files, work.predicate)
    ids = files["id"].to_pylist()
    changing = match.where(match.clause != NONE)
    actions = np.array([step.clause.action is Action.UPDATE for step in work.steps])
    updates = actions[changing.clause]
    updated, deleted = changing.where(updates), changing.where(~updates)
    writer = Writer(
        pinned,
        work.target,
        work.source,
        work.steps,
        work.conditions,
        work.values,
        work.engine,
    )
    keyed = _keyed(work)
    with pinned.measured.timed(REWRITE):
        written = writer.update(files, updated)
        inserted = _inserted(work, writer, match, keyed)
    looked = _target(work)
    return changed_plan(
        pinned,
        NAME,
        Changed(
            target=looked,
            files=files,
            read=match.rows(ids),
            deleted=deleted.rows(ids),
            updated=updated.rows(ids),
            updated_files=written,
            inserted_files=inserted.files,
            set_columns=_columns_set(work),
            keys=_source_keys(work, keyed),
            inserted_hashes=inserted.hashes,
            metrics={"numSourceRows": work.source.rows.num_rows},
            parameters=_parameters(work.statement),
        ),
    )


def _inserted(work: Work, writer: Writer, match: Match, keyed: Sequence[EquatedWith]) -> Inserted:
    if not work.statement.of(Side.NOT_MATCHED):
        return Inserted()
    matched = np.zeros(work.source.rows.num_rows, np.bool_)
    matched[match.source[match.source >= 0]] = True
    return writer.insert(np.flatnonzero(~matched), [part.field for part in keyed])


def _keyed(work: Work) -> list[EquatedWith]:
    """The parts of ON whose columns are a key: by them alone rows can be told apart (ADD-8)."""
    if work.statement.of(Side.NOT_MATCHED_BY_SOURCE) or work.on.whole.nested:
        return []
    if work.source.rows.num_rows > SOURCE_KEYS_MAX:
        return []
    found: dict[int, EquatedWith] = {}
    for part in work.on.equated:
        if not part.null_safe and key_column(part, work.source, work.engine) is not None:
            found.setdefault(part.field.id, part)
    return [found[key] for key in sorted(found)]


def _source_keys(work: Work, keyed: Sequence[EquatedWith]) -> Keys | None:
    if not keyed:
        return None
    columns = []
    for part in keyed:
        column = key_column(part, work.source, work.engine)
        assert column is not None
        columns.append(column.combine_chunks())
    hashes = hash_keys(columns, [part.field.type for part in keyed])
    return Keys(tuple(part.field.id for part in keyed), hashes)


def _columns_set(work: Work) -> tuple[int, ...]:
    """Columns that UPDATE clauses set, without those that ON says are so already (CFL-17)."""
    equal = {(part.field.id, part.value.column) for part in work.on.equated}
    found = set()
    for step, values in zip(work.steps, work.values, strict=True):
        if step.clause.action is Action.UPDATE:
            kept = equal if step.clause.side is Side.MATCHED else frozenset()
            found |= {
                v.field.id
                for v in values
                if v.value.column is None or (v.field.id, v.value.column) not in kept
            }
    return tuple(sorted(found))


def _target(work: Work) -> AnalyzedCondition:
    """What the conflict rules learn of the rows that were looked at."""
    rest = [
        condition
        for step, condition in zip(work.steps, work.conditions, strict=True)
        if step.clause.side is Side.NOT_MATCHED_BY_SOURCE and condition is not None
    ]
    looked = [work.on.whole, *rest]
    nested = any(each.nested for each in looked)
    used = frozenset().union(*(each.columns for each in looked))
    columns = frozenset(
        column.id
        for at, column in enumerate(work.target.schema.fields)
        if work.target.handle(at) in used
    )
    predicate = None if work.predicate == TRUE else work.predicate
    text = str(work.statement.on)[:TEXT_MAX]
    return AnalyzedCondition(text, predicate, None, False, not nested, None if nested else columns)


def _parameters(statement: MergeStatement) -> dict[str, Any]:
    """The clauses, as Delta's history shows them."""
    found: dict[str, Any] = {}
    names = {
        Side.MATCHED: "matchedPredicates",
        Side.NOT_MATCHED: "notMatchedPredicates",
        Side.NOT_MATCHED_BY_SOURCE: "notMatchedBySourcePredicates",
    }
    for clause in statement.clauses:
        said: dict[str, str] = {"actionType": clause.action.value}
        if clause.condition is not None:
            said["predicate"] = str(clause.condition)[:TEXT_MAX]
        found.setdefault(names[clause.side], []).append(said)
    return found
