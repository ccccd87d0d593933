"""PyIceberg's objects that change a table's columns, tags and order, and expire snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.translation import Translated, translated
from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.expressions.predicate import quoted_path
from tablefmt.model.arrow_types import from_arrow_field
from tablefmt.model.times import from_micros
from tablefmt.operations import alterations
from tablefmt.operations.alter import alter
from tablefmt.operations.alterations import Alteration
from tablefmt.session.commit_options import CommitOptions
from tablefmt.table import Table as OurTable

if TYPE_CHECKING:
    from typing_extensions import Self

Path = str | tuple[str, ...]


def arrow_schema(given: Any) -> pa.Schema:
    """Return an Arrow schema of an Arrow or PyIceberg schema."""
    return given.as_arrow() if hasattr(given, "as_arrow") else pa.schema(given)


def arrow_type(given: Any) -> Any:
    """Return a type of PyIceberg as an Arrow type, or text as it is."""
    if not type(given).__module__.startswith("pyiceberg."):
        return given
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    return Schema(NestedField(1, "c", given)).as_arrow().field("c").type


def _quoted(path: Path) -> str:
    return quoted_path(*(path.split(".") if isinstance(path, str) else path))


def change_at_once(table: OurTable, changes: Sequence[Alteration]) -> None:
    """Make several changes of the metadata in one commit."""
    if changes:
        alter(table.context, alterations.combined(changes), CommitOptions())


class Update(Translated, ABC):
    """Changes that are made when the `with` block ends, or by `commit`."""

    _names = NAMES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        if kind is None:
            self.commit()

    @abstractmethod
    def commit(self) -> Any:
        """Make the changes."""


class DefinitionUpdate(Update):
    """Changes of a table's definition, made in one commit or as a part of a transaction."""

    def __init__(self, table: OurTable | None, into: list[Alteration] | None) -> None:
        """Begin without changes.

        Args:
            table: the table; None: it does not exist yet.
            into: the changes of the transaction; None: there is none.
        """
        self._table, self._into = table, into
        self._changes: list[Alteration] = []

    def _with(self, change: Alteration) -> Self:
        self._changes.append(change)
        return self

    def commit(self) -> None:
        """Make the changes in one commit."""
        if self._into is not None:
            self._into += self._changes
        elif self._table is not None:
            change_at_once(self._table, self._changes)
        self._changes = []


class UpdateSchema(DefinitionUpdate):
    """Changes of columns."""

    _called = "UpdateSchema"

    def __init__(
        self, table: OurTable | None, incompatible: bool, into: list[Alteration] | None
    ) -> None:
        super().__init__(table, into)
        self._incompatible = incompatible

    def _known(self, call: str) -> pa.Schema:
        """Return the columns of the table. Raises UnsupportedFeatureError if there is none yet."""
        if self._table is None:
            raise UnsupportedFeatureError(
                f"pyiceberg: {call} needs a table that exists; give the columns to "
                "create_table_transaction, or change them after it",
                [f"compat:UpdateSchema.{call}"],
            )
        return self._table.refresh().schema

    @translated(NAMES, "UpdateSchema.add_column")
    def add_column(
        self,
        path: Path,
        field_type: Any,
        doc: str | None = None,
        required: bool = False,
        default_value: Any = None,
    ) -> Self:
        """Add a column, or a field of a struct. Its type is Arrow's, PyIceberg's, or text."""
        if required and default_value is None:
            raise InvalidArgumentError(
                "pyiceberg: a required column needs a default_value for the rows that are there"
            )
        return self._with(
            alterations.add_column(
                _quoted(path),
                _type(field_type),
                default=default_value,
                required=required,
                comment=doc,
            )
        )

    @translated(NAMES, "UpdateSchema.rename_column")
    def rename_column(self, path_from: Path, new_name: str) -> Self:
        """Rename a column, or a field of a struct."""
        return self._with(alterations.rename_column(_quoted(path_from), new_name))

    @translated(NAMES, "UpdateSchema.delete_column")
    def delete_column(self, path: Path) -> Self:
        """Drop a column, or a field of a struct."""
        return self._with(alterations.drop_column(_quoted(path)))

    @translated(NAMES, "UpdateSchema.make_column_optional")
    def make_column_optional(self, path: Path) -> Self:
        """Allow NULL in a column."""
        return self._with(alterations.drop_not_null(_quoted(path)))

    @translated(NAMES, "UpdateSchema.update_column")
    def update_column(
        self,
        path: Path,
        field_type: Any = None,
        required: bool | None = None,
        doc: str | None = None,
    ) -> Self:
        """Widen the type of a column, change whether it may be NULL, or change its comment.

        Raises:
            UnsupportedFeatureError: `required` without allow_incompatible_changes.
        """
        name = _quoted(path)
        if required and not self._incompatible:
            raise UnsupportedFeatureError(
                "pyiceberg: a column becomes required only with "
                "update_schema(allow_incompatible_changes=True); its rows are checked then",
                ["compat:UpdateSchema.update_column(required)"],
            )
        if field_type is not None:
            self._with(alterations.widen_column(name, _type(field_type)))
        if required is not None:
            self._with(
                alterations.set_not_null(name) if required else alterations.drop_not_null(name)
            )
        if doc is not None:
            self._with(alterations.set_comment(doc, name))
        return self

    @translated(NAMES, "UpdateSchema.move_first")
    def move_first(self, path: Path) -> Self:
        """Make a column the first one of the table or of its struct."""
        return self._with(alterations.move_column(_quoted(path), first=True))

    @translated(NAMES, "UpdateSchema.move_after")
    def move_after(self, path: Path, after_name: Path) -> Self:
        """Put a column after another one."""
        return self._with(alterations.move_column(_quoted(path), after=_last(after_name)))

    @translated(NAMES, "UpdateSchema.move_before")
    def move_before(self, path: Path, before_path: Path) -> Self:
        """Put a column before another one of the table.

        Raises:
            UnsupportedFeatureError: a field of a struct.
        """
        name = _last(before_path)
        if self._changes:
            raise UnsupportedFeatureError(
                "pyiceberg: move_before counts from the columns as they are, so it comes first in "
                "an update; use move_after or move_first, or an update of its own",
                ["compat:UpdateSchema.move_before"],
            )
        names = self._known("move_before").names
        if name not in names or (isinstance(before_path, tuple) and len(before_path) > 1):
            raise UnsupportedFeatureError(
                "pyiceberg: move_before takes a column of the table; for a field of a struct, use "
                "move_after or move_first",
                ["compat:UpdateSchema.move_before"],
            )
        others = [each for each in names[: names.index(name)] if each != _last(path)]
        return self.move_after(path, others[-1]) if others else self.move_first(path)

    @translated(NAMES, "UpdateSchema.set_default_value")
    def set_default_value(self, path: Path, default_value: Any) -> Self:
        """Set the value that new rows without the column have."""
        return self._with(alterations.set_default(_quoted(path), default_value))

    @translated(NAMES, "UpdateSchema.union_by_name")
    def union_by_name(self, new_schema: Any, format_version: int = 2) -> Self:
        """Add the columns of a schema that the table lacks.

        Raises:
            UnsupportedFeatureError: a column of the table has another type there.
        """
        known = self._known("union_by_name")
        for each in arrow_schema(new_schema):
            if each.name not in known.names:
                self._with(alterations.add_column(quoted_path(each.name), each.type))
            elif _kind(each) != _kind(known.field(each.name)):
                raise UnsupportedFeatureError(
                    f"pyiceberg: union_by_name only adds columns, and {each.name!r:.200} is "
                    f"{known.field(each.name).type} here and {each.type} in the schema; widen it "
                    "with update_column, or add fields of a struct with add_column",
                    ["compat:UpdateSchema.union_by_name"],
                )
        return self


def _kind(field: pa.Field) -> str:
    """Return a column's type as text, which is the same for Arrow's forms of one type."""
    return str(from_arrow_field(pa.field(field.name, field.type)).type)


def _last(path: Path) -> str:
    return path if isinstance(path, str) else path[-1]


def _type(given: Any) -> Any:
    return arrow_type(given)


class ManageSnapshots(Update):
    """Tags to set and drop, and versions to go back to. Each is a commit."""

    _called = "ManageSnapshots"

    def __init__(self, table: OurTable) -> None:
        self._table = table
        self._steps: list[Any] = []

    @translated(NAMES, "ManageSnapshots.create_tag")
    def create_tag(
        self, snapshot_id: int, tag_name: str, max_ref_age_ms: int | None = None
    ) -> Self:
        """Name a version. It stays at least for the age, or as long as the tag."""
        retain = None if max_ref_age_ms is None else timedelta(milliseconds=max_ref_age_ms)

        def step(table: OurTable) -> None:
            if tag_name in table.tags()["name"].to_pylist():
                raise InvalidArgumentError(f"pyiceberg: the table has a tag {tag_name!r}")
            table.alter.set_tag(tag_name, version=snapshot_id, retain=retain)

        self._steps.append(step)
        return self

    @translated(NAMES, "ManageSnapshots.remove_tag")
    def remove_tag(self, tag_name: str) -> Self:
        """Drop a tag."""
        self._steps.append(lambda table: table.alter.drop_tag(tag_name))
        return self

    @translated(NAMES, "ManageSnapshots.rollback_to_snapshot")
    def rollback_to_snapshot(self, snapshot_id: int) -> Self:
        """Restore a version."""
        self._steps.append(lambda table: table.restore(version=snapshot_id))
        return self

    @translated(NAMES, "ManageSnapshots.rollback_to_timestamp")
    def rollback_to_timestamp(self, timestamp_ms: int) -> Self:
        """Restore the version at a time in ms."""
        at = from_micros(timestamp_ms * 1000)
        self._steps.append(lambda table: table.restore(timestamp=at))
        return self

    @translated(NAMES, "ManageSnapshots.set_current_snapshot")
    def set_current_snapshot(
        self, snapshot_id: int | None = None, ref_name: str | None = None
    ) -> Self:
        """Restore a version, or that of a tag."""
        if (snapshot_id is None) == (ref_name is None):
            raise InvalidArgumentError("pyiceberg: give exactly one of snapshot_id and ref_name")
        version = ref_name if snapshot_id is None else snapshot_id
        self._steps.append(lambda table: table.restore(version=version))
        return self

    def commit(self) -> None:
        """Make the changes, one after the other."""
        steps, self._steps = self._steps, []
        for step in steps:
            step(self._table.refresh())


class ExpireSnapshots(Update):
    """Versions to give up by their age."""

    _called = "ExpireSnapshots"

    def __init__(self, table: OurTable) -> None:
        self._table = table
        self._before: datetime | None = None

    @translated(NAMES, "ExpireSnapshots.older_than")
    def older_than(self, dt: datetime) -> Self:
        """Give up versions that were replaced before a time. Without a zone, it is in UTC."""
        self._before = dt if dt.tzinfo is not None else dt.replace(tzinfo=timezone.utc)
        return self

    def commit(self) -> Any:
        """Remove the files that only these versions need. Return the report.

        Raises:
            InvalidArgumentError: no time.
            InvalidRangeError: the time is too recent for running transactions.
        """
        if self._before is None:
            raise InvalidArgumentError("pyiceberg: expire_snapshots needs older_than(time)")
        retention = max(datetime.now(timezone.utc) - self._before, timedelta(0))
        return self._table.refresh().vacuum(retention=retention, dry_run=False)


class MaintenanceTable(Translated):
    """The maintenance of a table."""

    _names, _called = NAMES, "MaintenanceTable"

    def __init__(self, table: OurTable) -> None:
        self._table = table

    def expire_snapshots(self) -> ExpireSnapshots:
        """Begin to give up old versions."""
        return ExpireSnapshots(self._table)


class UpdateSortOrder(Update):
    """The order of rows in new files, as `alter.set_clustering` sets it."""

    _called = "UpdateSortOrder"

    def __init__(self, table: OurTable) -> None:
        self._table = table
        self._by: list[str] = []

    @translated(NAMES, "UpdateSortOrder.asc")
    def asc(self, source_column_name: str, transform: Any, null_order: Any = None) -> Self:
        """Sort in ascending order of a column, with NULL first.

        Raises:
            UnsupportedFeatureError: a transform, or NULL last.
        """
        if str(transform) != "identity" or "last" in str(null_order or "").lower():
            raise UnsupportedFeatureError(
                "pyiceberg: rows are sorted ascending by columns, NULL first; leave transforms "
                "and NULLS_LAST out",
                ["compat:UpdateSortOrder.asc(transform)"],
            )
        self._by.append(source_column_name)
        return self

    def commit(self) -> None:
        """Set the order."""
        change_at_once(self._table, [alterations.set_clustering(self._by)])
