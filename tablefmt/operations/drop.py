"""Drop: the last entry of a table says that it is one. Spec: ENT-14, RET-8."""

from __future__ import annotations

from tablefmt.commit.plan import Replacing, Staged
from tablefmt.model.entry import Operation, OperationClass
from tablefmt.session.commit_result import Commit
from tablefmt.session.context import TableContext
from tablefmt.session.options import CommitOptions
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.staging import commit_anew
from tablefmt.snapshot.head import Head

NAME = "DROP TABLE"


def drop(context: TableContext, options: CommitOptions) -> Commit:
    """End a table; every file of it goes, and the log stays.

    Raises:
        TableNotFoundError, TableReplacedError: somebody else dropped it.
        CommitRejectedError, CommitUnknownError, ConcurrentModificationException.
    """

    def stage(_: Head, pinned: TransactionSnapshot) -> Staged:
        return Staged(
            transaction=pinned.transaction,
            operation=Operation(name=NAME, cls=OperationClass.PROTOCOL),
            written_under=pinned.metadata,
            read_version=pinned.version,
            replacing=Replacing(None),
            ends=True,
        )

    return commit_anew(context, stage, options)
