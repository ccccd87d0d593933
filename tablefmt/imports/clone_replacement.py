"""Replacement of a table by a clone, in one commit of class OVERWRITE.

The table's history stays. Spec: CLN-5, SCH-12.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.commit.transaction_plan import Replacing, Staged
from tablefmt.expressions.generated_columns import features_for
from tablefmt.imports.clone_fit import fitted
from tablefmt.imports.clone_plan import FEATURES, NAME, CloneSource
from tablefmt.model.identity_columns import with_counters
from tablefmt.model.log_entry import Metadata, Operation, OperationClass, ProtocolFeatures
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.measurements import Measured
from tablefmt.session.staging import autocommit, require_features
from tablefmt.session.statement import Begun, Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove


def replace_by(
    table: TableContext,
    source: CloneSource,
    staged: Staged,
    numbers: pa.ChunkedArray,
    measured: Measured | None,
) -> Commit:
    """Replace all rows and the definition of a table by a clone.

    Args:
        table: the table.
        source: the version to clone.
        staged: the clone as the first entry of a new table. Its copies are there.
        numbers: the import of each file, or NULL.
        measured: measurement since the work on the table began.

    Raises:
        ConstraintViolationError: the table is append-only.
        SchemaMismatchError: SCH-2, SCH-11.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    table.refresh()
    head = table.view.read_head
    before = with_counters(head.metadata, head.applications)
    fit = fitted(before, source, _definition(staged), _imports(staged), numbers)
    require_features(table, lambda known: _features(fit.metadata, known))

    def stage(txn: TransactionSnapshot, _: Any) -> Staged:
        fit = fitted(txn.counted_metadata, source, _definition(staged), _imports(staged), numbers)
        add = None if staged.add is None else fit.columns(staged.add)
        return Staged(
            transaction=txn.transaction,
            operation=Operation(
                name=NAME,
                cls=OperationClass.OVERWRITE,
                parameters={**staged.operation.parameters, "replaces": True},
            ),
            written_under=txn.metadata,
            read_version=txn.version,
            add=add,
            deletes=staged.deletes,
            replacing=Replacing(None),
            metadata=fit.metadata,
            replaces=True,
        )

    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_remove(metadata)
        return (str(staged.operation.parameters),)

    statement = Statement(name=NAME, stage=stage, text=text)
    version = table.view.head.version
    begun = Begun(transaction=staged.transaction, version=version, measured=measured)
    return autocommit(table, statement, CommitOptions(), begun=begun)


def _definition(staged: Staged) -> Metadata:
    assert staged.metadata is not None
    return replace(staged.metadata, imports={})


def _imports(staged: Staged) -> Any:
    assert staged.metadata is not None
    return staged.metadata.imports


def _features(metadata: Metadata, known: ProtocolFeatures) -> ProtocolFeatures:
    if metadata.imports:
        known = known.plus(FEATURES.reader, FEATURES.writer)
    return features_for(metadata, known) or known
