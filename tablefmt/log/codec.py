"""Codec: an entry to bytes and back, or its header alone. Pure, strict.

A reader does not trust the bytes. It checks the length before parsing, the checksum before content,
the names before shape, and the shape before meaning.

A blind append can follow any rows. For each entry in between it needs the header: the place in the
chain and the kind of commit. Only readers of the table need files, bounds and sums. Spec: ENT-1 ..
ENT-3, VER-2, LOG-1, CMT-5, CMT-6.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tablefmt.errors import CorruptEntryError, UnsupportedFeatureError
from tablefmt.log.entry_json import entry_from_json, entry_to_json
from tablefmt.log.object_names import entry_key
from tablefmt.log.strict_json import amount_problem, bad, object_of, unknown_names
from tablefmt.model.features import needs_newer
from tablefmt.model.log_entry import (
    FORMAT,
    Basis,
    Entry,
    Operation,
    OperationClass,
    StoredEntry,
    Totals,
)
from tablefmt.store.object_store import ENTRY_BYTES_MAX, length_of

_TAIL = re.compile(rb',"checksum":"([0-9a-f]{64})"\}')
_TAIL_LENGTH = len(b',"checksum":"') + 64 + len(b'"}')


def digest(body: bytes) -> str:
    """Return the SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(body).hexdigest()


def seal(document: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of a JSON object, with their checksum as its last key (ENT-1)."""
    body = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)[:-1]
    return body + b',"checksum":"' + digest(body).encode() + b'"}'


def unseal(body: bytes, most: int) -> bytes:
    """Return the part of a sealed object that the checksum covers.

    This excludes the checksum itself and the closing brace.

    Args:
        body: the object's bytes.
        most: the maximum length.

    Raises:
        CorruptEntryError: ENT-1, ENT-2.
    """
    return _unsealed(body, most)[0]


def _unsealed(body: bytes, most: int) -> tuple[bytes, str]:
    """Return `unseal`, and the digest of all bytes."""
    if length_of(body) > most:
        raise bad("ENT-2", f"it has {length_of(body)} bytes; at most {most} are allowed")
    tail = _TAIL.fullmatch(body[-_TAIL_LENGTH:]) if len(body) > _TAIL_LENGTH else None
    if tail is None:
        raise bad("ENT-1", f"the entry is torn: its {len(body)} bytes do not end in a checksum")
    signed = body[:-_TAIL_LENGTH]
    hashed = hashlib.sha256(signed)
    if hashed.hexdigest().encode() != tail[1]:
        raise bad("ENT-1", "the checksum does not match the bytes: they were changed")
    # The hash of the whole continues the hash of its first part.
    hashed.update(body[-_TAIL_LENGTH:])
    return signed, hashed.hexdigest()


def encode(entry: Entry) -> bytes:
    """Return the canonical bytes of `entry`.

    Raises:
        UnsupportedFeatureError: ENT-2, the entry holds more than a reader accepts.
        TypeError: a value that JSON cannot hold (a caller checks user metadata before).
    """
    return check_amount(encode_unchecked(entry))


def encode_unchecked(entry: Entry) -> bytes:
    """Return the canonical bytes of `entry`, of any length. Raises TypeError as `encode`."""
    return seal(entry_to_json(entry))


def check_amount(whole: bytes) -> bytes:
    """Return the bytes of an entry. Raises UnsupportedFeatureError as `encode`."""
    if len(whole) > ENTRY_BYTES_MAX:
        raise UnsupportedFeatureError(
            f"the entry would be {len(whole)} bytes long; at most {ENTRY_BYTES_MAX} are allowed; "
            "commit in smaller pieces",
            ["entry-size"],
        )
    problem = amount_problem(whole)
    if problem is not None:
        raise UnsupportedFeatureError(
            f"the entry cannot be written: {problem}; commit in smaller pieces", ["entry-size"]
        )
    return whole


def decode(body: bytes, version: int) -> StoredEntry:
    """Return the entry from the bytes found under the name of `version`, after all checks.

    Raises:
        CorruptEntryError: ENT-1 .. ENT-13, ADD-1, KEY-2; `key` names the entry.
        UnsupportedFeatureError: VER-2, a newer version wrote it; `features` names its features.
    """
    try:
        document, whole = _document(body, version)
        entry = entry_from_json(document)
        if entry.version != version:
            raise bad("ENT-3", f"its version is {entry.version}: it was renamed or copied")
        return StoredEntry(entry, whole)
    except CorruptEntryError as error:
        if error.key:
            raise
        raise CorruptEntryError(error.detail, key=entry_key(version), rule=error.rule) from None


def document_of(body: bytes, version: int) -> dict[str, Any]:
    """Return the JSON object of the bytes, with known names only. Its shape is not checked.

    Raises:
        CorruptEntryError: ENT-1, ENT-2, ENT-3.
        UnsupportedFeatureError: VER-2, a newer version wrote it.
    """
    return _document(body, version)[0]


def _document(body: bytes, version: int) -> tuple[dict[str, Any], str]:
    """Return `document_of`, and the digest of all bytes."""
    signed, whole = _unsealed(body, ENTRY_BYTES_MAX)
    document = object_of(signed + b"}")
    number = document.get("format")
    if type(number) is int and number > FORMAT:
        raise needs_newer(entry_key(version), [f"format:{number}"])
    if type(number) is not int or number != FORMAT:
        raise bad("ENT-3", f"`format` is {number!r:.40}; expected {FORMAT}")
    beyond = unknown_names(document)
    if beyond:
        raise needs_newer(entry_key(version), beyond)
    return document, whole


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
        is_next = document["previous"] == previous and document["version"] == version
        if cls is None or not is_next or not _NOT_ROWS.isdisjoint(document):
            return None
        if unknown_names(document):
            return None
        blind = document["basis"]["blind"]
        return EntryHeader(version, document["transaction"], operation["name"], cls, blind)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        # The decoder reports what is wrong.
        return None
