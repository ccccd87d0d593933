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

        A source that cannot be read is told in the report, and not raised (PIP-8).

        Args:
            sources: where sources are that were moved, or one is; others are looked for where they
                were.
            storage_options: of sources whose addresses have the scheme of the table's.

        Raises:
            InvalidRangeError: one of `sources` is a table that nothing was taken of. What opening
                one of them raises.
        """
        return lag(self.context, sources, storage_options)
