"""What tasks of Spark's wrote, on its way to the driver: what an entry says of files, as bytes."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from tablefmt.model.entry import AddedFiles
from tablefmt.session.snapshot import joined


def merged(parts: Iterable[AddedFiles | None]) -> AddedFiles | None:
    """The files of all tasks as one; a column that one lacks is unknown there (VAL-4)."""
    return joined(list(parts))


def described(added: AddedFiles | None) -> bytes:
    """What a task wrote, as bytes for the driver."""
    return orjson.dumps(None if added is None else dict(added.columns))


def read_back(body: bytes) -> AddedFiles | None:
    """The reverse of `described`."""
    columns = orjson.loads(body)
    return None if columns is None else AddedFiles(columns)
