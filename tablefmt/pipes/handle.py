"""Table handle that knows the sources of its pipes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tablefmt.maintenance.handle import MaintainedHandle
from tablefmt.pipes.lag import LagReport, lag
from tablefmt.store.open import Uri


class DerivedHandle(MaintainedHandle):
    """The part of a table that reports on the sources of its pipes."""

    def lag(
        self,
        sources: Uri | Iterable[Uri] = (),
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> LagReport:
        """Return the replication lag of the table behind its sources: missing versions, and their
        age.

        The report has a row for each pipe. Only the sources named here are opened, and only for
        reading. For others, the report shows the address in the log (PIP-8, SEC-2).

        Args:
            sources: address of a source, or several.
            storage_options: options for sources whose addresses have the scheme of this table.

        Raises:
            InvalidArgumentError: one of `sources` is not a source of this table. Also the errors of
                opening a source.
        """
        return lag(self.context, sources, storage_options)
