"""Methods of a table that explain it. They change nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidArgumentError, TablefmtError
from tablefmt.inspection.blame_report import BlameReport
from tablefmt.inspection.commit_blame import blame
from tablefmt.inspection.pruning_reasons import PruningReport, pruning_report
from tablefmt.inspection.rebased_commits import ConflictReport, conflicts
from tablefmt.inspection.removal_reasons import RemovalReport, removal_report
from tablefmt.inspection.report_facts import Columns, report_facts
from tablefmt.inspection.report_page import html_table, report_page, size_text, text
from tablefmt.inspection.version_reasons import VersionReport, version_report
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.argument_names import check_method_names
from tablefmt.model.attribute_names import NamedElsewhere
from tablefmt.model.times import show_time
from tablefmt.operations.describe import kept_entries
from tablefmt.session.table_scan import ReadableTable, Scan

COMMITS = 5
"""Number of commits that the summary lists."""
COLUMNS = 100
"""Number of columns that the summary lists."""


@check_method_names
class ExplainedTable(ReadableTable, NamedElsewhere):
    """Reports about the commits, the files and the versions of a table."""

    def _repr_html_(self) -> str:
        """Return the summary that notebooks show: size, columns and the newest commits.

        Nothing is raised for a log that cannot be read now: its commits are left out.
        """
        context = self.context
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

    def conflicts(
        self,
        *,
        starting_version: int | str | None = None,
        ending_version: int | str | None = None,
    ) -> ConflictReport:
        """Return which commits met concurrent ones, rebased or refused, by pair of operations.

        The next commit of a process reports its refused ones. So refusals of a process that
        committed nothing more are missing.

        Args:
            starting_version: the first version, or a tag. Inclusive; by default the first in the
                log.
            ending_version: the last version, or a tag. Inclusive; by default the newest.

        Raises:
            InvalidRangeError: the range is empty, or exceeds the versions in the log.
            VersionNotFoundError: there is no such tag.
        """
        return conflicts(self.context, starting_version, ending_version)

    def blame(
        self,
        *,
        file: int | str | None = None,
        partition: Mapping[str, Any] | None = None,
        where: Condition = None,
        starting_version: int | str | None = None,
        ending_version: int | str | None = None,
    ) -> BlameReport:
        """Return the commits that inserted or deleted rows of a file, partition or condition.

        For a file, rows that were moved into it are followed to the files that they came from. Data
        files are read only to count the rows of a condition that the log does not decide. Columns
        and conditions are those of the newest version.

        Args:
            file: path or id of a file, also of one that is no longer live.
            partition: values by partition column, or by hidden field such as `ts_day`. None is
                NULL, and text is cast to the column.
            where: condition of `scan`.
            starting_version: first version to search, or a tag. Default: all that the log has.
            ending_version: last version to search, or a tag. Default: the newest.

        Raises:
            InvalidArgumentError: not exactly one of file, partition and where; no entry names the
                file; or it is not a partition column.
            InvalidRangeError: the versions are not a range of the log.
            VersionNotFoundError: there is no such tag, or the state before the range has expired.
            InvalidPredicateError, UnsupportedFeatureError: the condition.
        """
        return blame(
            self.context,
            file=file,
            partition=partition,
            where=where,
            starting_version=starting_version,
            ending_version=ending_version,
        )

    @overload
    def why(
        self, *, where: Condition, file: int | str | None = ..., version: int | str | None = ...
    ) -> PruningReport: ...

    @overload
    def why(self, *, version: int | str) -> VersionReport: ...

    @overload
    def why(self, *, file: int | str | None = ..., vacuum: bool = ...) -> RemovalReport: ...

    def why(
        self,
        *,
        file: int | str | None = None,
        where: Condition = None,
        version: int | str | None = None,
        vacuum: bool = False,
    ) -> PruningReport | RemovalReport | VersionReport:
        """Return the reasons for a decision, from the code that makes it. Nothing is changed.

        - `where`, perhaps with `file` and `version`: why a scan reads a file or leaves it out.
        - `vacuum=True` or `file` alone: why a vacuum would remove a file or keep it, and when it
          can go.
        - `version` alone: why a version can be read or not.

        `Transaction.why` tells why a commit conflicts, and so does the error of the conflict.

        Args:
            file: path or id of one file; None: all.
            where: condition of `scan`.
            version: version or tag.
            vacuum: explain a vacuum.

        Raises:
            InvalidArgumentError: another combination of arguments, or an unknown file.
            VersionNotFoundError: with `where`, the version cannot be read; or there is no such tag.
            InvalidPredicateError, UnsupportedFeatureError: the condition.
        """
        check_flags(vacuum=vacuum)
        if isinstance(file, bool) or not isinstance(file, int | str | None):
            raise InvalidArgumentError(
                f"file {file!r:.200} is neither a path nor an id; both are in Table.scan().files()"
            )
        if where is not None and not vacuum:
            snapshot = self.context.view.snapshot(self.context.resolve_point(version))
            return pruning_report(Scan(self.context.store, snapshot, where=where), file)
        if where is None and version is None and (vacuum or file is not None):
            return removal_report(self.context, file)
        if where is None and file is None and version is not None and not vacuum:
            return version_report(self.context, version)
        raise InvalidArgumentError(
            "why answers one question. Pass where (and file, version) for the files of a scan, "
            "vacuum=True (and file) for what a vacuum would remove, or version alone."
        )

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a page about the newest version and all kept commits, as one HTML document.

        It shows growth, commits, file sizes, partitions, concurrent commits, retention, sources,
        copies, and the maintenance that is due. The page loads nothing and runs no script.

        Args:
            path: a local file to write the page to. An existing file is replaced.

        Raises:
            InvalidArgumentError: the file cannot be written.
            CorruptTableError: the newest version cannot be read. Damage elsewhere is on the page.
        """
        page = report_page(report_facts(self.context))
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
