"""Builder of a MERGE, clause by clause. The caller gives the function that runs it."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.merge_statement import Action, Clause, MergeStatement, Side, check_clauses
from tablefmt.expressions.set_assignments import Expression
from tablefmt.session.commit_options import CommitKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

Outcome = TypeVar("Outcome")
"""Result of a MERGE: a Commit, or the transaction within one."""

Run = Callable[[MergeStatement, CommitKeywords], Outcome]
"""Runs the statement with the keywords of every commit."""

Explain = Callable[[MergeStatement], str]

Values = Mapping[str, Expression]


class Pending:
    """A MERGE that was not executed yet, shared by the builders of its clauses.

    If all builders are discarded, it warns at the place where the MERGE was made.
    """

    def __init__(self, source: Any) -> None:
        self._swapped = source if isinstance(source, str) else None
        self._warning = weakref.finalize(self, _warn_unexecuted, *_place_of_caller())

    def settle(self) -> None:
        """Disable the warning.

        Raises:
            SchemaMismatchError: the source is text instead of rows.
        """
        self._warning.detach()
        if self._swapped is not None:
            raise SchemaMismatchError(
                f"the source of a MERGE is the text {self._swapped!r:.100}: expected rows first, "
                "then the condition: merge(rows, 's.id = t.id')"
            )


def _place_of_caller() -> tuple[str, int]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tablefmt."):
        frame = frame.f_back
    return ("<unknown>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _warn_unexecuted(filename: str, line: int) -> None:
    warnings.warn_explicit(
        "this MERGE was never executed: nothing was written. Call execute() after its clauses",
        UserWarning,
        filename,
        line,
    )


class MergeBuilder(Generic[Outcome]):
    """A MERGE under construction. Each clause method returns a builder with that clause added.

    Clause methods raise nothing: `execute` and `explain` check the statement (MRG-1). A MERGE that
    is never executed warns when it is discarded.

    For each row, the first clause of its kind with a TRUE condition applies. A row without such a
    clause does not change (MRG-2). Conditions and values are SQL text over both sides. Clauses for
    rows not matched by the source use the table alone. Clauses for rows not matched use the source
    alone.
    """

    def __init__(
        self, statement: MergeStatement, run: Run[Outcome], explain: Explain, pending: Pending
    ) -> None:
        self.statement = statement
        self._run = run
        self._explain = explain
        self._pending = pending

    def when_matched_update(
        self, set: Values, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Update matched rows: column, or path of a field in a struct -> expression."""
        return self._with(Side.MATCHED, Action.UPDATE, condition, set)

    def when_matched_update_all(self, condition: Expression | None = None) -> MergeBuilder[Outcome]:
        """Update every column of matched rows from the source, by name."""
        return self._with(Side.MATCHED, Action.UPDATE, condition, None)

    def when_matched_delete(self, condition: Expression | None = None) -> MergeBuilder[Outcome]:
        """Delete matched rows."""
        return self._with(Side.MATCHED, Action.DELETE, condition, None)

    def when_not_matched_insert(
        self, values: Values, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Insert source rows without a match: column -> expression.

        Other columns get their defaults (SCH-7), or NULL without one.
        """
        return self._with(Side.NOT_MATCHED, Action.INSERT, condition, values)

    def when_not_matched_insert_all(
        self, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Insert source rows without a match, every column by name."""
        return self._with(Side.NOT_MATCHED, Action.INSERT, condition, None)

    def when_not_matched_by_source_update(
        self, set: Values, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Update rows that no source row matches."""
        return self._with(Side.NOT_MATCHED_BY_SOURCE, Action.UPDATE, condition, set)

    def when_not_matched_by_source_delete(
        self, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Delete rows that no source row matches."""
        return self._with(Side.NOT_MATCHED_BY_SOURCE, Action.DELETE, condition, None)

    def execute(self, **commit: Unpack[CommitKeywords]) -> Outcome:
        """Run the MERGE.

        Args:
            commit: application=(id, version), user_metadata={}, deadline=seconds.

        Raises:
            InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: the statement.
            MergeCardinalityError: MRG-4, several source rows would change one row of the table.
            ConstraintViolationError: DAT-3, DAT-13; the table is append-only.
            CorruptDataError: DAT-5.
            IdempotenceError, CommitRejectedError: as every commit.
            ConcurrentModificationException, CommitUnknownError: as every commit.
            TransactionStateError: in a transaction. There, CommitRejectedError is the only error of
                the commit.
        """
        self._check()
        return self._run(self.statement, commit)

    def explain(self) -> str:
        """Return a text about the files that would be opened, and the reason. Reads the source
        once.

        Raises:
            InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: the statement.
        """
        self._check()
        return self._explain(self.statement)

    def _check(self) -> None:
        self._pending.settle()
        check_clauses(self.statement)

    def _with(
        self, side: Side, action: Action, condition: Expression | None, values: Values | None
    ) -> MergeBuilder[Outcome]:
        if isinstance(values, Mapping):
            values = dict(values)
        clause = Clause(side, action, condition, values)
        clauses = (*self.statement.clauses, clause)
        statement = replace(self.statement, clauses=clauses)
        return MergeBuilder(statement, self._run, self._explain, self._pending)


def begin_merge(
    source: Any,
    on: Expression,
    source_alias: str,
    target_alias: str,
    merge_schema: bool,
    run: Run[Outcome],
    explain: Explain,
) -> MergeBuilder[Outcome]:
    """Return a MERGE without clauses, for `merge` of a table and of a transaction.

    Args:
        source: the rows. Text is refused by `execute`, because the arguments were swapped.
        on: condition for matching rows, over both sides.
        source_alias: name of the source in expressions.
        target_alias: name of the table in expressions.
        merge_schema: as in `MergeStatement`.
        run: runs the complete statement.
        explain: returns the text of `MergeBuilder.explain`.
    """
    statement = MergeStatement(
        on=on, source_alias=source_alias, target_alias=target_alias, merge_schema=merge_schema
    )
    return MergeBuilder(statement, run, explain, Pending(source))
