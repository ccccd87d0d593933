"""Methods of a table that explain it. They change nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, overload

from tablefmt.data.selection import Condition
from tablefmt.inspection.blame_report import BlameReport
from tablefmt.inspection.commit_blame import blame
from tablefmt.inspection.notebook_summary import notebook_summary
from tablefmt.inspection.pruning_reasons import PruningReport
from tablefmt.inspection.rebased_commits import ConflictReport, conflicts
from tablefmt.inspection.removal_reasons import RemovalReport
from tablefmt.inspection.table_report import table_report
from tablefmt.inspection.version_reasons import VersionReport
from tablefmt.inspection.why_reports import why
from tablefmt.model.argument_names import check_method_names
from tablefmt.session.table_scan import ReadableTable


@check_method_names
class ExplainedTable(ReadableTable):
    """Reports about the commits, the files and the versions of a table."""

    def _repr_html_(self) -> str:
        """Return the summary that notebooks show."""
        return notebook_summary(self.context)

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
        """Return the commits that brought or took the rows of a file, a partition or a condition.

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
            version: ID version or tag.
            vacuum: explain a vacuum.

        Raises:
            InvalidArgumentError: another combination of arguments, or an unknown file.
            VersionNotFoundError: with `where`, the version cannot be read; or there is no such tag.
            InvalidPredicateError, UnsupportedFeatureError: the condition.
        """
        return why(self.context, file=file, where=where, version=version, vacuum=vacuum)

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
        return table_report(self.context, path)
