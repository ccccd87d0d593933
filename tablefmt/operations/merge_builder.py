"""MERGE as its user writes it: clause by clause. What carries it out is given."""

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
"""What a MERGE gives: a Commit; in a transaction, the transaction."""

Run = Callable[[MergeStatement, CommitKeywords], Outcome]
"""Carries the statement out; takes the keywords of every commit."""

Explain = Callable[[MergeStatement], str]

Values = Mapping[str, Expression]


class Pending:
    """A MERGE that nobody has executed yet; the builders of its clauses share it. It warns where it
    was made, if all of them go first.
    """

    def __init__(self, source: Any) -> None:
        self._swapped = source if isinstance(source, str) else None
        self._warning = weakref.finalize(self, _warn_unexecuted, *_place_of_caller())

    def settle(self) -> None:
        """Warn no more. Raises SchemaMismatchError: text was given for the source's rows."""
        self._warning.detach()
        if self._swapped is not None:
            raise SchemaMismatchError(
                f"the source of a MERGE is the text {self._swapped!r:.100}: expected rows, and the "
                "condition behind them: merge(rows, 's.id = t.id')"
            )


def _place_of_caller() -> tuple[str, int]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tablefmt."):
        frame = frame.f_back
    return ("<unknown>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _warn_unexecuted(filename: str, line: int) -> None:
    warnings.warn_explicit(
        "this MERGE was never executed: nothing was written. Call execute() behind its clauses",
        UserWarning,
        filename,
        line,
    )


class MergeBuilder(Generic[Outcome]):
    """A MERGE being put together. Each clause method gives a builder with that clause at its end,
    and raises nothing: `execute` and `explain` check the statement (MRG-1). One that is never
    executed warns when it goes.

    The first clause of a row's kind whose condition is TRUE applies to it; a row for which none
    does stays as it is (MRG-2). Conditions and values are SQL text over both sides; in clauses for
    rows that are not matched by the source over the table alone, and for rows not matched over the
    source alone.
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
        """Matched rows get new values: column, or path of a field in a struct -> expression."""
        return self._with(Side.MATCHED, Action.UPDATE, condition, set)

    def when_matched_update_all(self, condition: Expression | None = None) -> MergeBuilder[Outcome]:
        """Matched rows get every column of the source, by name."""
        return self._with(Side.MATCHED, Action.UPDATE, condition, None)

    def when_matched_delete(self, condition: Expression | None = None) -> MergeBuilder[Outcome]:
        """Matched rows go."""
        return self._with(Side.MATCHED, Action.DELETE, condition, None)

    def when_not_matched_insert(
        self, values: Values, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Source rows without a match come in: column -> expression, other columns NULL."""
        return self._with(Side.NOT_MATCHED, Action.INSERT, condition, values)

    def when_not_matched_insert_all(
        self, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Source rows without a match come in, every column by name."""
        return self._with(Side.NOT_MATCHED, Action.INSERT, condition, None)

    def when_not_matched_by_source_update(
        self, set: Values, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Rows that no source row matches get new values."""
        return self._with(Side.NOT_MATCHED_BY_SOURCE, Action.UPDATE, condition, set)

    def when_not_matched_by_source_delete(
        self, condition: Expression | None = None
    ) -> MergeBuilder[Outcome]:
        """Rows that no source row matches go."""
        return self._with(Side.NOT_MATCHED_BY_SOURCE, Action.DELETE, condition, None)

    def execute(self, **commit: Unpack[CommitKeywords]) -> Outcome:
        """Carry it out.

        Args:
            commit: application=(id, version), user_metadata={}, deadline=seconds.

        Raises:
            InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: the statement.
            MergeCardinalityError: MRG-4, several source rows would change one row of the table.
            ConstraintViolationError: DAT-3, DAT-13; the table is append-only.
            CorruptDataError: DAT-5.
            IdempotenceError, CommitRejectedError: as every commit.
            ConcurrentModificationException, CommitUnknownError: as every commit.
            TransactionStateError: in a transaction, which has of the commit's errors
                CommitRejectedError alone.
        """
        self._check()
        return self._run(self.statement, commit)

    def explain(self) -> str:
        """How many files of how many would be opened, and why. Reads the source once.

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
    """A MERGE without clauses: what `merge` of a table and of a transaction gives.

    Args:
        source: the rows; text is none, so that swapped arguments are refused by `execute`.
        on: which rows match, over both sides.
        source_alias: what expressions call the source.
        target_alias: what they call the table.
        merge_schema: as of `MergeStatement`.
        run: carries the statement out, once it has its clauses.
        explain: says what it would open.
    """
    statement = MergeStatement(
        on=on, source_alias=source_alias, target_alias=target_alias, merge_schema=merge_schema
    )
    return MergeBuilder(statement, run, explain, Pending(source))
