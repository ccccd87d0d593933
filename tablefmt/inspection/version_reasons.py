"""Reasons for which a version can be read or not.

The decision is that of a read: the version is resolved, replayed, and its files are looked for.
Spec: ENT-13, LOG-2, LOG-8, RET-4, DAT-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import CorruptTableError, TablefmtError, VersionNotFoundError
from tablefmt.log.log_reader import kept_from
from tablefmt.maintenance.retention import whole_view
from tablefmt.maintenance.stored_objects import listed
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.times import show_time
from tablefmt.operations.describe import kept_entries
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.file_history import FileHistory

MISSING_MAX = 10
"""Missing files that a report names."""

_SHAPE = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("readable", pa.bool_(), nullable=False),
        pa.field("cause", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("given_up_by", pa.int64()),
        pa.field("missing_files", pa.int64(), nullable=False),
        pa.field("missing", pa.list_(pa.string()), nullable=False),
        pa.field("advice", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReport(ArrowReport):
    """The reason for which a version can be read, or cannot. `to_arrow` has one row."""

    uri: str
    version: int
    oldest: int
    """The earliest version that can be read."""
    latest: int
    cause: str
    """One of "readable", "not_committed", "given_up", "missing_files" and "damaged"."""
    reason: str
    given_up_by: int | None = None
    """The version whose entry gave this one up; None if it was not given up or is unknown."""
    missing_files: int = 0
    """Number of its files that the store no longer has, as far as the log knows them."""
    missing: tuple[str, ...] = field(default=())
    """Paths of at most ten of these files."""
    advice: str = ""

    @property
    def readable(self) -> bool:
        """True if the version can be read."""
        return self.cause == "readable"

    def to_arrow(self) -> pa.Table:
        """Return one row."""
        row = {name: getattr(self, name) for name in _SHAPE.names}
        return pa.Table.from_pylist([row | {"missing": list(self.missing)}], _SHAPE)

    def __str__(self) -> str:
        verb = "can" if self.readable else "cannot"
        lines = [f"{self.uri}: version {self.version} {verb} be read: {self.reason}"]
        lines += [f"  missing: {path}" for path in self.missing]
        if self.missing_files > len(self.missing):
            lines.append(f"  and {self.missing_files - len(self.missing)} more")
        return printable_lines([*lines, self.advice] if self.advice else lines)


def version_report(context: TableContext, version: int | str) -> VersionReport:
    """Return the reason. No data file is read.

    Args:
        context: the table.
        version: a version, or the name of a tag.

    Raises:
        VersionNotFoundError: there is no such tag.
        InvalidRangeError: it is neither a version nor a name.
        StoreError: the store does not answer.
    """
    context.view.refresh()
    asked = context.version_of(version)
    head = context.view.head

    def report(cause: str, reason: str, **more: object) -> VersionReport:
        return VersionReport(
            uri=context.store.uri,
            version=asked,
            oldest=head.totals.oldest,
            latest=head.version,
            cause=cause,
            reason=reason,
            **more,  # type: ignore[arg-type]
        )

    between = f"Choose a version from {head.totals.oldest} to {head.version}."
    if not 0 <= asked <= head.version:
        reason = f"the newest version is {head.version}" if asked > 0 else "versions begin at 0"
        return report("not_committed", reason, advice=between)
    if asked < head.totals.oldest:
        by, reason = _given_up(context, asked)
        paths = _missing_of_given_up(context, asked)
        return report(
            "given_up",
            f"{reason}; {_files_text(paths)}",
            given_up_by=by,
            missing_files=0 if paths is None else len(paths),
            missing=tuple((paths or ())[:MISSING_MAX]),
            advice=f"{between} A tag or a longer deletedFileRetentionDuration keeps versions.",
        )
    try:
        files = context.view.snapshot(asked).files_with({"path", "size"})
    except (CorruptTableError, VersionNotFoundError) as error:
        return report("damaged", str(error), advice="Run `tablefmt verify` for the whole extent.")
    paths = _missing(context, files)
    if paths:
        return report(
            "missing_files",
            f"the store lacks {number_of(len(paths), 'file')} of it",
            missing_files=len(paths),
            missing=tuple(paths[:MISSING_MAX]),
            advice="Run `tablefmt verify`, and restore these objects from a copy.",
        )
    return report("readable", f"the log has it, and the store has {_all(files.num_rows)}")


def _all(files: int) -> str:
    return "its file" if files == 1 else f"all {files} files of it"


def _given_up(context: TableContext, version: int) -> tuple[int | None, str]:
    """Return the version whose entry gave another one up, and the reason in words."""
    try:
        entries: Sequence[StoredEntry] = kept_entries(context)
    except TablefmtError as error:
        return None, f"it was given up, and the log cannot be read: {error}"
    for stored in entries:
        entry = stored.entry
        if entry.totals.oldest > version:
            if stored is entries[0] and entry.horizon is None:
                break
            return entry.version, (
                f"{entry.operation.name} gave it up in version {entry.version} at "
                f"{show_time(entry.timestamp)}"
            )
    first = entries[0].version
    return None, f"it was given up before version {first}, where the log begins now"


def _missing_of_given_up(context: TableContext, version: int) -> list[str] | None:
    """Return the files of a version that the store lacks; None if the log no longer knows them."""
    if version < kept_from(context.store, context.view.head.version):
        return None
    try:
        view = whole_view(context.store)
        history: FileHistory = view.snapshot().history
        if not history.first <= version <= history.version:
            return None
        tables = [
            segment.only(segment.live(version)).files.columns(["path", "size", NUMBER])
            for segment in history.segments
            if segment.live(version).any()
        ]
    except TablefmtError:
        return None
    if not tables:
        return []
    return _missing(context, pa.concat_tables(tables, promote_options="permissive"))


def _missing(context: TableContext, files: pa.Table) -> list[str]:
    """Return the paths of files that the store lacks. Files of other tables are not looked for."""
    if NUMBER in files.column_names:
        files = files.filter(pc.is_null(files[NUMBER]))
    if not files.num_rows:
        return []
    keys = listed(context.store, ["data/"])["key"].combine_chunks()
    lost = files["path"].filter(pc.invert(pc.is_in(files["path"], value_set=keys)))
    return [str(path) for path in lost.to_pylist()]


def _files_text(paths: Sequence[str] | None) -> str:
    if paths is None:
        return "the log no longer knows its files"
    if not paths:
        return "the store still has its files"
    return f"the store lacks {number_of(len(paths), 'file')} of it"
