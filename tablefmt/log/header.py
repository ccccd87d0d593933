"""Entry headers: the facts about skipped entries that a blind append needs. Pure.

A blind append can follow any rows. For each entry in between it needs the place in the chain and
the kind of commit. Only readers of the table need files, bounds and sums. Spec: LOG-1, CMT-5,
CMT-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tablefmt.log.codec import digest
from tablefmt.log.json_text import amount_problem
from tablefmt.log.known import unknown_names
from tablefmt.model.entry import Basis, Entry, Operation, OperationClass, Totals

_ROWS_ONLY = {
    cls.value: cls
    for cls in OperationClass
    if cls not in (OperationClass.METADATA, OperationClass.PROTOCOL)
}
_NOT_ROWS = frozenset({"metadata", "protocol"})


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """Header of one entry. Its place in the chain is checked; its content is not."""

    version: int
    transaction: str
    operation: str
    """Name of the operation."""
    cls: OperationClass
    blind: bool

    def as_entry(self) -> Entry:
        """Return an entry of this kind, without files. It is enough to find the conflict rule."""
        return Entry(
            table="",
            version=self.version,
            timestamp=0,
            time_version=0,
            transaction=self.transaction,
            previous=None,
            operation=Operation(name=self.operation, cls=self.cls),
            basis=Basis(read_version=None, isolation="", granularity="", blind=self.blind),
            totals=Totals(files=0, rows=0, bytes=0, next_id=1, metadata_version=0),
        )


def follows(body: bytes, version: int, previous: str) -> bool:
    """Return True if bytes are an entry of a version that names the previous digest (LOG-1).

    The function checks nothing else.
    """
    if amount_problem(body) is not None:
        return False
    try:
        entry = orjson.loads(body)
        return bool(entry["version"] == version and entry["previous"] == previous)
    except (ValueError, TypeError, KeyError):
        return False


def entry_headers(bodies: Sequence[bytes], first: int, previous: str) -> tuple[EntryHeader, ...]:
    """Return the headers of contiguous entries.

    Each entry names the digest of the one before. So a caller that decodes the last entry with a
    correct checksum knows that no byte of the others was changed.

    Args:
        bodies: the entries of versions `first` and on.
        first: the version of the first.
        previous: the digest of the entry before it.

    Returns:
        One header per entry. Empty if the caller must decode the entries: one has metadata or
        protocol, does not follow the one before, or is unknown.
    """
    headers = []
    for version, body in enumerate(bodies, first):
        one = _header(body, version, previous)
        if one is None:
            return ()
        headers.append(one)
        previous = digest(body)
    return tuple(headers)


def _header(body: bytes, version: int, previous: str) -> EntryHeader | None:
    if amount_problem(body) is not None:
        return None
    try:
        document: dict[str, Any] = orjson.loads(body)
        operation = document["operation"]
        cls = _ROWS_ONLY.get(operation["class"])
        follows = document["previous"] == previous and document["version"] == version
        if cls is None or not follows or not _NOT_ROWS.isdisjoint(document):
            return None
        if unknown_names(document):
            return None
        blind = document["basis"]["blind"]
        return EntryHeader(version, document["transaction"], operation["name"], cls, blind)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        # The decoder reports what is wrong.
        return None
