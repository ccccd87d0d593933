"""Where whoever follows changes can go on from, batch by batch. Pure. Spec: INC-8."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tablefmt.errors import InvalidRangeError

VERSION = -2
"""The place of `_commit_version` among the columns of a batch."""


class Followed(tuple[pa.RecordBatch, int]):
    """A batch and the version to go on from, as a pair; and whether it is of a snapshot."""

    snapshot: int | None
    """None: row changes. Else the changes of versions up to this one have expired, and batches with
    this number hold all rows at it: who meets another number than before forgets all rows of
    before (INC-7)."""

    def __new__(
        cls, batch: pa.RecordBatch, last_version: int, snapshot: int | None = None
    ) -> Followed:
        """The pair, and its mark."""
        pair = super().__new__(cls, (batch, last_version))
        pair.snapshot = snapshot
        return pair


def with_cursors(
    batches: Iterable[pa.RecordBatch], before: int, last: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches of a range, each with the version that all rows up to here make complete.

    Args:
        batches: in the order of versions, each of one version.
        before: the version before the range.
        last: its last version.
    """
    cursor, waiting, version = before, None, before
    for batch in batches:
        following = batch.column(batch.num_columns + VERSION)[0].as_py()
        if waiting is not None:
            # With the first row of a later version, those in between are known to be complete.
            cursor = following - 1 if following > version else cursor
            yield waiting, cursor
        waiting, version = batch, following
    if waiting is not None:
        yield waiting, last


def seconds(poll: float) -> float:
    """How long to wait between two looks. Raises InvalidRangeError."""
    if isinstance(poll, bool) or not isinstance(poll, int | float) or not 0 < poll < math.inf:
        raise InvalidRangeError(f"poll is {poll!r}; it is a number of seconds above 0")
    return float(poll)
