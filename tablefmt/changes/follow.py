"""Cursors for readers that follow changes batch by batch. Pure. Spec: INC-8."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tablefmt.errors import InvalidArgumentError

VERSION = -2
"""Position of `_commit_version` among the columns of a batch."""


class Followed(tuple[pa.RecordBatch, int]):
    """Pair of a batch and the version to resume from, with `snapshot` for batches of a snapshot."""

    snapshot: int | None
    """Version of the snapshot; None for row changes.

    With a number, the changes up to this version have expired. The batches with this number then
    hold all rows at the version. When the number changes, the reader must delete all earlier rows
    (INC-7).
    """

    def __new__(
        cls, batch: pa.RecordBatch, last_version: int, snapshot: int | None = None
    ) -> Followed:
        """Return the pair with `snapshot` set."""
        pair = super().__new__(cls, (batch, last_version))
        pair.snapshot = snapshot
        return pair


def with_cursors(
    batches: Iterable[pa.RecordBatch], before: int, last: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the batches of a range, each with the last version that is complete so far.

    Args:
        batches: in the order of versions, each of one version.
        before: the version before the range.
        last: the last version of the range.
    """
    cursor, waiting, version = before, None, before
    for batch in batches:
        following = batch.column(batch.num_columns + VERSION)[0].as_py()
        if waiting is not None:
            # The first row of a later version shows that all versions before it are complete.
            cursor = following - 1 if following > version else cursor
            yield waiting, cursor
        waiting, version = batch, following
    if waiting is not None:
        yield waiting, last


def seconds(poll: float) -> float:
    """Return the seconds to wait between two polls. Raises InvalidArgumentError."""
    if isinstance(poll, bool) or not isinstance(poll, int | float) or not 0 < poll < math.inf:
        raise InvalidArgumentError(f"poll is {poll!r}; expected a number of seconds above 0")
    return float(poll)
