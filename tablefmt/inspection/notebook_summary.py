"""The summary that a notebook shows for a table: size, columns and the newest commits."""

from __future__ import annotations

from tablefmt.errors import TablefmtError
from tablefmt.inspection.report_facts import Columns
from tablefmt.inspection.report_page import html_table, size_text, text
from tablefmt.model.times import show_time
from tablefmt.operations.describe import kept_entries
from tablefmt.session.table_context import TableContext

COMMITS = 5
"""Number of commits that the summary lists."""
COLUMNS = 100
"""Number of columns that the summary lists."""


def notebook_summary(context: TableContext) -> str:
    """Return HTML about the handle's version, and about the newest commits of the table.

    Nothing is raised for a log that cannot be read now: its commits are left out.
    """
    version = context.version
    sums = context.view.totals_at(version)
    when = show_time(context.view.time_version_at(version))
    fields = context.view.metadata_at(version).schema.fields
    shown = tuple((each.name, each.text or str(each.type)) for each in fields[:COLUMNS])
    parts = [
        f"<b>{text(context.store.uri)}</b><br>version {text(version)} ({text(when)}): "
        f"{text(sums.rows - sums.deleted)} rows in {text(sums.files)} files, "
        f"{size_text(sums.bytes)}",
        html_table(Columns(("column", "type"), shown)),
    ]
    if len(fields) > COLUMNS:
        parts.append(f"and {text(len(fields) - COLUMNS)} more columns")
    try:
        entries = kept_entries(context, COMMITS)
    except TablefmtError as error:
        parts.append(f"The newest commits cannot be read: {text(error)}")
    else:
        rows = tuple(
            (each.version, show_time(each.entry.timestamp), each.entry.operation.name)
            for each in reversed(entries)
        )
        parts.append(html_table(Columns(("version", "time", "operation"), rows)))
    return f"<div>{''.join(parts)}</div>"
