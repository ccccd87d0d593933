"""Which version of a table a query reads: what is then written there depends on it.

An INSERT, OVERWRITE or MERGE whose source reads the table, and a statement with a sub-query over
it, read all of the table's rows for the conflict rules, at the version that the query is pinned to.
A version that somebody asked for by number or time is a constant, whatever commits.

Spec: CFL-22.
"""

from __future__ import annotations

from tablefmt.commit.plan import Staged
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.source import read_of_all, with_reads


def with_query(staged: Staged, pinned: TransactionSnapshot) -> Staged:
    """Return the work of a statement whose query read the table at the pinned version: class
    UPDATE.
    """
    return staged if staged.is_empty else with_reads(staged, (read_of_all(pinned),), pinned)
