"""Choice of the report that answers why: pruning, removal or a version."""

from __future__ import annotations

from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidArgumentError
from tablefmt.inspection.pruning_reasons import PruningReport, pruning_report
from tablefmt.inspection.removal_reasons import RemovalReport, removal_report
from tablefmt.inspection.version_reasons import VersionReport, version_report
from tablefmt.model.argument_checks import check_flags
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan

WhyReport = PruningReport | RemovalReport | VersionReport
"""A report of `Table.why`."""


def why(
    context: TableContext,
    *,
    file: int | str | None = None,
    where: Condition = None,
    version: int | str | None = None,
    vacuum: bool = False,
) -> WhyReport:
    """Return the report that the arguments ask for. See `Table.why`."""
    check_flags(vacuum=vacuum)
    if isinstance(file, bool) or not isinstance(file, int | str | None):
        raise InvalidArgumentError(
            f"file {file!r:.200} is neither a path nor an id; both are in Table.scan().files()"
        )
    if where is not None and not vacuum:
        snapshot = context.view.snapshot(context.resolve_point(version))
        return pruning_report(Scan(context.store, snapshot, where=where), file)
    if where is None and version is None and (vacuum or file is not None):
        return removal_report(context, file)
    if where is None and file is None and version is not None and not vacuum:
        return version_report(context, version)
    raise InvalidArgumentError(
        "why answers one question. Pass where (and file, version) for the files of a scan, "
        "vacuum=True (and file) for what a vacuum would remove, or version alone."
    )
