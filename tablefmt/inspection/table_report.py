"""The report of a table: a page for a person, written to a local file if asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tablefmt.errors import InvalidArgumentError
from tablefmt.inspection.report_facts import report_facts
from tablefmt.inspection.report_page import report_page
from tablefmt.session.table_context import TableContext

if TYPE_CHECKING:
    from os import PathLike


def table_report(context: TableContext, path: str | PathLike[str] | None = None) -> str:
    """Return the page, and write it to `path` if given. Raises as `Table.report`."""
    page = report_page(report_facts(context))
    if path is not None:
        try:
            Path(path).write_text(page, "utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidArgumentError(
                f"the report cannot be written to {str(path)!r}: {reason}. Pass the path of "
                "a local file in an existing folder."
            ) from None
    return page
