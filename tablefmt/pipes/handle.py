"""A handle on a table that knows what it is derived from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tablefmt.maintenance.handle import MaintainedHandle
from tablefmt.pipes.lag import LagReport, lag
from tablefmt.store.open import Uri


class DerivedHandle(MaintainedHandle):
    """The part of a table that looks at the tables which pipes fill it from."""

    def lag(
        self,
        sources: Uri | Iterable[Uri] = (),
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> LagReport:
        """How far the table is behind its sources: versions, and the age of what is missing.

        The report has a row for each pipe. It looks for the sources that are named here, and reads
        only. Of the others it shows the address in the log (PIP-8, SEC-2).

        Args:
            sources: where sources are, or one is.
            storage_options: of sources whose addresses have the scheme of the table's.

        Raises:
            InvalidRangeError: one of `sources` is a table that nothing was taken of. What opening
                one of them raises.
        """
        return lag(self.context, sources, storage_options)
