"""How old a transaction may be when it commits: no entry names its files yet. Spec: RET-6."""

from __future__ import annotations

from tablefmt.errors import CommitRejectedError
from tablefmt.model.entry import Metadata
from tablefmt.model.properties import transaction_seconds


def check_age(seconds: float, metadata: Metadata) -> None:
    """Refuse what vacuum may have taken the files of.

    Args:
        seconds: how long ago the work began.
        metadata: of the version that it read, or that it goes on top of.

    Raises:
        CommitRejectedError: RET-6.
    """
    allowed = transaction_seconds(metadata.properties)
    if seconds > allowed:
        raise CommitRejectedError(
            f"the transaction began {int(seconds)} s ago, and {int(allowed)} s are allowed (half "
            "of deletedFileRetentionDuration, an hour at least): its files may be gone"
        )
