"""PyIceberg's transactions: several changes of a table, and the creation of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.pyiceberg.pyiceberg_partitioning import UpdateSpec
from tablefmt.compat.pyiceberg.pyiceberg_updates import Update, UpdateSchema, change_at_once
from tablefmt.compat.translation import translated
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.model.peer_properties import our_name, translate_properties
from tablefmt.operations import alterations
from tablefmt.operations.alterations import Alteration
from tablefmt.table import Table as OurTable

if TYPE_CHECKING:
    from typing_extensions import Self


def _append_together(table: OurTable, rows: Sequence[Any]) -> None:
    """Append several inputs in one commit, if there are any."""
    if rows:
        with table.transaction() as ours:
            for each in rows:
                ours.append(each)


class Transaction(Update):
    """Several changes of columns, partitioning and properties, or several appends."""

    _called = "Transaction"

    def __init__(self, owner: Any) -> None:
        self._owner, self._table = owner, owner.table
        self._changes: list[Alteration] = []
        self._writes: list[Any] = []

    @translated(NAMES, "Transaction.set_properties")
    def set_properties(self, properties: Mapping[str, Any] | None = None, **kwargs: Any) -> Self:
        """Set properties."""
        given = translate_properties({**(properties or {}), **kwargs})
        if given:
            self._changes.append(alterations.set_properties(given))
        return self

    def remove_properties(self, *removals: str) -> Self:
        """Reset properties."""
        names = [name for name in map(our_name, removals) if name is not None]
        self._changes.append(alterations.unset_properties(names))
        return self

    @translated(NAMES, "Transaction.update_schema")
    def update_schema(
        self, allow_incompatible_changes: bool = False, case_sensitive: bool = True
    ) -> UpdateSchema:
        """Begin to change columns, as a part of this transaction."""
        return UpdateSchema(self._table, allow_incompatible_changes, self._changes)

    @translated(NAMES, "Transaction.append")
    def append(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = "main",
    ) -> None:
        """Append rows."""
        if snapshot_properties:
            raise UnsupportedFeatureError(
                "pyiceberg: Transaction.append(snapshot_properties) is not supported on tablefmt "
                "tables; give them to Table.append",
                ["compat:Transaction.append(snapshot_properties)"],
            )
        self._writes.append(df)

    @translated(NAMES, "Transaction.update_spec")
    def update_spec(self) -> UpdateSpec:
        """Begin to change the partitioning, as a part of this transaction."""
        return UpdateSpec(self._table, self._changes)

    def commit_transaction(self) -> Any:
        """Make all changes in one commit. Return the table.

        Raises:
            UnsupportedFeatureError: appends beside other changes.
        """
        self.commit()
        return self._owner

    def commit(self) -> None:
        """Make all changes in one commit. Raises as `commit_transaction`."""
        if self._changes and self._writes:
            raise UnsupportedFeatureError(
                "pyiceberg: a transaction holds appends, or changes of columns, partitioning and "
                "properties; use two transactions",
                ["compat:Transaction"],
            )
        change_at_once(self._table, self._changes)
        _append_together(self._table, self._writes)
        self._changes, self._writes = [], []


class CreateTransaction(Update):
    """A table to create, with changes of its definition, and its first rows."""

    _called = "CreateTransaction"

    def __init__(self, create: Callable[[Mapping[str, Any], Sequence[Alteration]], Any]) -> None:
        self._create = create
        self._properties: dict[str, Any] = {}
        self._changes: list[Alteration] = []
        self._rows: list[Any] = []

    def set_properties(self, properties: Mapping[str, Any] | None = None, **kwargs: Any) -> Self:
        """Set properties of the new table."""
        self._properties |= {**(properties or {}), **kwargs}
        return self

    def update_schema(self) -> UpdateSchema:
        """Begin to change the columns of the new table."""
        return UpdateSchema(None, False, self._changes)

    def update_spec(self) -> UpdateSpec:
        """Begin to change the partitioning of the new table."""
        return UpdateSpec(None, self._changes)

    def append(self, df: Any) -> None:
        """Append rows after the table is created."""
        self._rows.append(df)

    def commit_transaction(self) -> Any:
        """Create the table, change it, and append the rows: up to three commits. Return it.

        No table is created if a change is not valid.
        """
        made = self._create(self._properties, self._changes)
        change_at_once(made.table, self._changes)
        _append_together(made.table, self._rows)
        self._changes, self._rows = [], []
        return made

    def commit(self) -> None:
        """Do the same as `commit_transaction`."""
        self.commit_transaction()
