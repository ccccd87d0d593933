"""A handle on a table that can be kept in order: what is run from time to time, and its reports."""

from __future__ import annotations

from tablefmt.maintenance.verify import Report, verify
from tablefmt.session.readable import ReadableHandle


class MaintainedHandle(ReadableHandle):
    """The part of a table that looks after its log and its files."""

    def verify(self, *, deep: bool = False) -> Report:
        """Check the log, and that every live file is there; with `deep` every page of them.

        Damage is in the report, and not raised (DAT-5, DEL-4, LIN-2).

        Raises:
            TableNotFoundError: there is no table. UnsupportedFeatureError: it needs a newer reader.
        """
        return verify(self.context.store, deep=deep)
