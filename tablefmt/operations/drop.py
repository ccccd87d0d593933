"""Drop: the last entry of a table says that it is one. Spec: ENT-14, RET-8."""

from __future__ import annotations

from tablefmt.commit.plan import Replacing, Staged
from tablefmt.errors import ConcurrentModificationException
from tablefmt.model.entry import Operation, OperationClass
from tablefmt.session.context import TableContext
from tablefmt.session.options import CommitOptions
from tablefmt.session.receipt import Commit
from tablefmt.session.staging import commit_staged

NAME = "DROP TABLE"

ATTEMPTS = 16
"""Changes of the table's metadata that it begins anew after: it relies on nothing that it read."""


def drop(context: TableContext, options: CommitOptions) -> Commit:
    """End a table; every file of it goes, and the log stays.

    Raises:
        TableNotFoundError, TableReplacedError: somebody else dropped it.
        CommitRejectedError, CommitUnknownError, ConcurrentModificationException.
    """
    for attempt in range(1, ATTEMPTS + 1):
        pinned = context.pin(context.begin().version)
        staged = Staged(
            transaction=pinned.transaction,
            operation=Operation(name=NAME, cls=OperationClass.PROTOCOL),
            written_under=pinned.metadata,
            read_version=pinned.version,
            replacing=Replacing(None),
            ends=True,
        )
        try:
            return commit_staged(context, staged, options)
        except ConcurrentModificationException:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")
