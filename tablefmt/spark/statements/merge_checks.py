"""What is looked at in a MERGE's expressions before Spark runs them: chance, rows that are several,
and other versions of the table. Spec: SQL-2, CFL-22.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablefmt.expressions.clauses import Side
from tablefmt.session.snapshot import OtherVersionRead, TransactionSnapshot
from tablefmt.spark.backends.query_versions import version_read
from tablefmt.spark.columns.conditions import check_by_row, check_deterministic
from tablefmt.spark.runtime.frames import Column, DataFrame
from tablefmt.spark.statements.merge_clauses import Merge, SparkClause, plain


class MergeChecks:
    """The checks of one MERGE."""

    def __init__(self, pinned: TransactionSnapshot, merge: Merge, read: int | None) -> None:
        """`read` is the version of the table that the source reads; None: it does not."""
        self.read = read
        """The oldest version of the table that a query of the statement reads; None: none does."""
        self._pinned = pinned
        self._merge = merge
        self._is_pinned = read is not None

    def look_at_versions(self, frame: DataFrame) -> None:
        """Find out which version of the table the expressions over a frame read.

        Raises:
            OtherVersionRead: not the pinned one, and nothing else of the statement binds it to
                that.
        """
        if not self._merge.may_query:
            return
        pinned = self._pinned
        read = version_read(pinned.store, pinned.view, frame)
        if read is None:
            return
        if read < pinned.version or (read > pinned.version and not self._is_pinned):
            raise OtherVersionRead(read, wrote=True)
        self.read = pinned.version

    def deterministic(self, rows: DataFrame, first: Column, clauses: Sequence[SparkClause]) -> None:
        """Refuse conditions of clauses that are a matter of chance: InvalidPredicateError."""
        if self._merge.may_be_chance and any(c.condition is not None for c in clauses):
            sides = dict.fromkeys(_shown(clause.side) for clause in clauses)
            check_deterministic(rows, first, f"of WHEN {' or '.join(sides)}")

    def by_row(
        self,
        rows: DataFrame,
        conditions: Sequence[tuple[str, Column]],
        clauses: Sequence[SparkClause],
    ) -> None:
        """Refuse what has no value for a row by itself: InvalidPredicateError.

        Args:
            rows: a DataFrame over which the expressions are.
            conditions: by what people call them.
            clauses: with conditions and values.
        """
        # A resolved statement was looked through; text that calls nothing has a value for a row.
        if not (self._merge.by_name and self._merge.may_query):
            return
        expressions = list(conditions)
        for clause in clauses:
            when = f"WHEN {_shown(clause.side)}"
            if clause.condition is not None:
                expressions.append((when, clause.condition))
            then = f"{when} THEN {clause.action.value.upper()}"
            expressions += [(f"{then} {field.name}", plain(v)) for field, v in clause.values]
        if expressions:
            check_by_row(rows, expressions)


def _shown(side: Side) -> str:
    return side.value.replace("_", " ").upper()
