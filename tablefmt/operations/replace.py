"""Rows for which a condition holds, replaced by others: an OVERWRITE that looks at rows.

It keeps the removals that it computed, so its class is UPDATE. Spec: CFL-3, MRG-6.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.plan import Staged
from tablefmt.data.cast import cast_to_schema, match_columns
from tablefmt.data.matching import RowFilter
from tablefmt.data.selection import Condition
from tablefmt.errors import ConstraintViolationError
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.entry import Metadata
from tablefmt.model.schema import Schema
from tablefmt.session.change_plan import Changed, stage_changes
from tablefmt.session.condition import analyzed_condition
from tablefmt.session.selected_rows import select
from tablefmt.session.snapshot import TransactionSnapshot, check_may_remove


def needs_rows(where: Condition, metadata: Metadata) -> bool:
    """Whether partition values do not decide the condition.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: as `analyzed_condition`.
    """
    if where is None:
        return False
    target = analyzed_condition(where, metadata.schema)
    return not target.decided_by(frozenset(metadata.partition_by))


def stage_replace(
    pinned: TransactionSnapshot, reader: pa.RecordBatchReader | None, where: Condition, name: str
) -> Staged:
    """The replacement at the pinned version; with nothing to do, a plan that is empty.

    Args:
        pinned: the version, and where files go.
        reader: the new rows; None for none.
        where: which rows go, and what every new row has to match.
        name: of the operation.

    Raises:
        ConstraintViolationError: the table is append-only; a new row does not match.
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError, CorruptDataError.
    """
    check_may_remove(pinned.metadata)
    target = analyzed_condition(where, pinned.metadata.schema)
    selected = select(pinned, target)
    added = None
    if reader is not None:
        checked = _matching(reader, pinned.target.schema, target.rows, target.text)
        added = pinned.write(pa.RecordBatchReader.from_batches(reader.schema, checked))
    changed = Changed(
        target=target,
        files=selected.files,
        deleted=selected.rows,
        inserted_files=added,
        parameters={"mode": "Overwrite"} if name == "OVERWRITE" else {},
    )
    return stage_changes(pinned, name, changed)


def _matching(
    reader: pa.RecordBatchReader, schema: Schema, condition: RowFilter | None, text: str
) -> Iterator[pa.RecordBatch]:
    """The same batches, each of whose rows matches."""
    positions, shape = match_columns(reader.schema, schema), file_schema(schema)
    for batch in reader:
        if condition is not None and batch.num_rows:
            rows = cast_to_schema(pa.Table.from_batches([batch]), positions, schema, shape)
            short = batch.num_rows - sum(_count(part, condition) for part in rows.to_batches())
            if short:
                raise ConstraintViolationError(
                    f"{short} new rows or more do not match the condition {text}; nothing was "
                    "written"
                )
        yield batch


def _count(rows: pa.RecordBatch, condition: RowFilter) -> int:
    test = condition.pushed if condition.exact is None else condition.exact
    if isinstance(test, pc.Expression):
        return int(rows.filter(test).num_rows)
    assert test is not None
    return int(pc.sum(test(rows)).as_py() or 0)
