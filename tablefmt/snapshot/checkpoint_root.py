"""Checkpoint root to bytes and back. Pure, strict. Spec: CKP-1 .. CKP-4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError, CorruptTableError, UnsupportedFeatureError
from tablefmt.log.bounded_parquet import FOOTER_BYTES_MAX
from tablefmt.log.codec import seal, unseal
from tablefmt.log.entry_json import (
    key_from_json,
    location_from_json,
    state_from_json,
    time_of,
    totals_from_json,
    totals_to_json,
)
from tablefmt.log.metadata_json import (
    metadata_from_json,
    metadata_to_json,
    protocol_from_json,
    protocol_to_json,
)
from tablefmt.log.object_names import is_part_key, is_transaction
from tablefmt.log.strict_json import (
    DIGEST,
    amount_problem,
    are_counts,
    bad,
    integer,
    is_field_id,
    object_of,
)
from tablefmt.model.log_entry import ApplicationTransaction
from tablefmt.model.positions import decode_positions, encode_positions
from tablefmt.snapshot.cursors import Cursor, Cursors
from tablefmt.snapshot.head import Head
from tablefmt.store.object_store import PARQUET_BYTES_MAX, ROOT_BYTES_MAX

FORMAT = 1
"""Format version of a root."""

SEGMENT_LINES_MAX = 1 << 20
"""Maximum lines of a manifest segment (CKP-3): eight times the number that a writer uses."""

LINES_MAX = 1 << 27
"""Maximum lines of all manifest segments and of all parts of deleted rows together (CKP-3)."""

_NAMES = frozenset(
    {
        "format", "table", "version", "digest", "timestamp", "time_version", "created", "described",
        "totals", "protocol", "metadata", "applications", "segments", "deletes",
    }
)  # fmt: skip
_CURSOR = frozenset({"source", "name", "to", "digest", "at"})
_PART = frozenset({"path", "size", "sha256", "footer", "footer_sha256", "files"})
_SEGMENT = _PART | {"gone", "rows", "ids", "added", "bounds"}
_BOUNDS = frozenset({"lower", "upper", "nulls", "nans"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet object of a checkpoint."""

    path: str
    size: int
    sha256: str
    footer: int
    """Length of the last bytes with the Parquet footer."""
    footer_sha256: str
    """SHA-256 of the footer bytes. A partial read checks the footer with it."""
    files: int
    """Number of lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart(Part):
    """Manifest segment: files of a checkpoint, one per line."""

    gone: BitMap64 | None
    """Lines whose files are not in this checkpoint; None: there are none."""
    rows: int | None
    """Number of rows of all lines together; None if a file has no rows."""
    ids: tuple[int, int]
    """Lowest and highest file id."""
    added: int
    """Newest version that added one of the files."""
    bounds: Mapping[str, Mapping[str, Any]]
    """Summary of all lines by field id, in the form of the log (CKP-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """State at `head.version`."""

    head: Head
    created: int
    """Commit timestamp of version 0, µs UTC."""
    described: int
    """Version that wrote the metadata in force."""
    segments: tuple[SegmentPart, ...]
    deletes: tuple[Part, ...]


def encode_root(root: Root) -> bytes:
    """Return the canonical bytes of a root.

    Raises:
        UnsupportedFeatureError: CKP-2, it holds more than a reader accepts.
    """
    head = root.head
    # Left out if empty, so that older readers accept the root.
    cursors = {"cursors": _cursors_to_json(head.cursors)} if head.cursors else {}
    whole = seal(
        {
            **cursors,
            "format": FORMAT,
            "table": head.table,
            "version": head.version,
            "digest": head.digest,
            "timestamp": head.timestamp,
            "time_version": head.time_version,
            "created": root.created,
            "described": root.described,
            "totals": totals_to_json(head.totals),
            "protocol": protocol_to_json(head.protocol),
            "metadata": metadata_to_json(head.metadata),
            "applications": {
                name: {"at": at, "digest": each.digest, "version": each.version}
                for name, (each, at) in head.applications.items()
            },
            "segments": [_segment_to_json(segment) for segment in root.segments],
            "deletes": [_part_to_json(part) for part in root.deletes],
        }
    )
    problem = amount_problem(whole)
    problem = problem or _lines_problem((*root.segments, *root.deletes), root.segments)
    if len(whole) > ROOT_BYTES_MAX:
        problem = f"it has {len(whole)} bytes; at most {ROOT_BYTES_MAX} are allowed"
    if problem is not None:
        raise UnsupportedFeatureError(
            f"the checkpoint cannot be written: {problem}. Compact the table. If it has very many "
            "application ids, use fewer: their versions stay in the state (RPL-5)",
            ["checkpoint-size"],
        )
    return whole


def decode_root(body: bytes, key: str) -> Root:
    """Return the root from its bytes, after all checks.

    Raises:
        CorruptTableError: CKP-2, CKP-3. A root with unknown content is refused too.
    """
    try:
        document = object_of(unseal(body, ROOT_BYTES_MAX) + b"}")
        if document.keys() - {"cursors"} != _NAMES:
            raise bad("CKP-2", "it does not have the fields of a root")
        if document["format"] != FORMAT:
            raise bad("CKP-2", "`format` is not 1")
        return _root(document)
    except CorruptEntryError as error:
        message = f"the root of a checkpoint is not sound: {error.detail}"
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        message = f"the root of a checkpoint has an unexpected structure: {error!r:.200}"
    raise CorruptTableError(message, key=key, rule="CKP-2")


def _root(document: Mapping[str, Any]) -> Root:
    if not is_transaction(document["table"]) or not DIGEST.fullmatch(document["digest"]):
        raise bad("CKP-2", "`table` or `digest` is invalid")
    head = Head(
        table=document["table"],
        version=integer(document, "version", low=0),
        digest=document["digest"],
        timestamp=time_of(document, "timestamp"),
        time_version=time_of(document, "time_version"),
        totals=totals_from_json(document["totals"]),
        metadata=metadata_from_json(document["metadata"]),
        protocol=protocol_from_json(document["protocol"]),
        applications={
            name: _application(name, each) for name, each in document["applications"].items()
        },
        cursors=_cursors(document["cursors"]) if "cursors" in document else {},
    )
    root = Root(
        head=head,
        created=time_of(document, "created"),
        described=integer(document, "described", low=0),
        segments=tuple(map(_segment, document["segments"])),
        deletes=tuple(_part(each, _PART) for each in document["deletes"]),
    )
    _check_sums(root)
    return root


def _check_sums(root: Root) -> None:
    """Refuse parts whose counts or versions contradict the entry (CKP-9)."""
    head, totals, parts = root.head, root.head.totals, (*root.segments, *root.deletes)
    problem = _lines_problem(parts, root.segments)
    if problem is not None:
        raise bad("CKP-3", problem)
    if sum(map(live_files, root.segments)) != totals.files:
        raise bad("CKP-3", "the number of files of its segments differs from `totals`")
    if len({part.path for part in parts}) != len(parts):
        raise bad("CKP-3", "it names a part twice")
    if any(s.ids[1] >= totals.next_id or s.added > head.version for s in root.segments):
        raise bad("CKP-3", "a segment has files of later versions")
    rows = [segment.rows for segment in root.segments]
    if None not in rows:
        known = sum(count or 0 for count in rows)
        has_removed = any(segment.gone is not None for segment in root.segments)
        if known < totals.rows or (known > totals.rows and not has_removed):
            raise bad("CKP-3", "the number of rows of its segments differs from `totals`")
    if totals.deleted and not root.deletes:
        raise bad("CKP-3", "it lacks the deleted rows")
    times = (root.created, head.time_version, head.timestamp)
    versions = [root.described, *(at for _, at in head.applications.values())]
    versions += [cursor.at for cursor in head.cursors.values()]
    if list(times) != sorted(times) or max(versions) > head.version:
        raise bad("CKP-2", "it has a version or a time after its own")


def _lines_problem(parts: Sequence[Part], segments: Sequence[Part]) -> str | None:
    """Return the error in the numbers of lines. Readers allocate arrays before they read the
    parts.
    """
    if max((part.files for part in segments), default=0) > SEGMENT_LINES_MAX:
        return f"a segment has more than {SEGMENT_LINES_MAX} lines"
    if sum(part.files for part in parts) > LINES_MAX:
        return f"its parts have more than {LINES_MAX} lines together"
    return None


def live_files(segment: SegmentPart) -> int:
    """Return the number of lines that are files of the checkpoint."""
    return segment.files - (0 if segment.gone is None else len(segment.gone))


def _application(name: str, value: Mapping[str, Any]) -> tuple[ApplicationTransaction, int]:
    if type(value["digest"]) not in (str, type(None)):
        raise bad("CKP-2", "an application has a digest that is not text")
    known = ApplicationTransaction(name, integer(value, "version"), value["digest"])
    return known, integer(value, "at", low=0)


def _cursors_to_json(cursors: Cursors) -> list[dict[str, Any]]:
    return [
        {
            "at": cursor.at,
            "digest": cursor.digest,
            "name": name,
            "source": source,
            "to": cursor.to,
            **({} if cursor.location is None else {"location": cursor.location}),
        }
        for (source, name), cursor in sorted(cursors.items())
    ]


def _cursors(value: Sequence[Mapping[str, Any]]) -> Cursors:
    cursors: dict[tuple[str, str], Cursor] = {}
    for each in value:
        if each.keys() - {"location"} != _CURSOR:
            raise bad("CKP-2", "a cursor has unknown or missing fields")
        at, location = integer(each, "at", low=0), location_from_json(each, "CKP-2")
        key = key_from_json(each, "CKP-2")
        cursors[key] = Cursor(*state_from_json(each, "CKP-2"), at, location)
    if not cursors or list(cursors) != sorted(cursors) or len(cursors) != len(value):
        raise bad("CKP-2", "`cursors` is empty or not ascending")
    return cursors


def _part_to_json(part: Part) -> dict[str, Any]:
    return {
        "path": part.path,
        "size": part.size,
        "sha256": part.sha256,
        "footer": part.footer,
        "footer_sha256": part.footer_sha256,
        "files": part.files,
    }


def _segment_to_json(segment: SegmentPart) -> dict[str, Any]:
    return {
        **_part_to_json(segment),
        "gone": None if segment.gone is None else encode_positions(segment.gone),
        "rows": segment.rows,
        "ids": list(segment.ids),
        "added": segment.added,
        "bounds": segment.bounds,
    }


def _part_fields(value: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    if value.keys() != names or not is_part_key(value["path"]):
        raise bad("CKP-3", "a part has unknown or missing fields, or an invalid name")
    if not (DIGEST.fullmatch(value["sha256"]) and DIGEST.fullmatch(value["footer_sha256"])):
        raise bad("CKP-3", "a part has no SHA-256")
    size = integer(value, "size", low=12)
    footer = integer(value, "footer", low=8)
    if footer > min(size, FOOTER_BYTES_MAX) or size > PARQUET_BYTES_MAX:
        raise bad("CKP-3", "a part, or its footer, is too long")
    return {
        "path": value["path"],
        "size": size,
        "sha256": value["sha256"],
        "footer": footer,
        "footer_sha256": value["footer_sha256"],
        "files": integer(value, "files", low=1),
    }


def _part(value: Mapping[str, Any], names: frozenset[str]) -> Part:
    return Part(**_part_fields(value, names))


def _segment(value: Mapping[str, Any]) -> SegmentPart:
    fields = _part_fields(value, _SEGMENT)
    first, last = value["ids"]
    if type(first) is not int or type(last) is not int or not 1 <= first <= last:
        raise bad("CKP-3", "a segment has no range of ids")
    bounds = value["bounds"]
    if any(each.keys() - _BOUNDS or not is_field_id(name) for name, each in bounds.items()):
        raise bad("CKP-4", "a segment has bounds with an unknown field")
    for each in bounds.values():
        if not are_counts([each[name] for name in ("nulls", "nans") if name in each], 0):
            raise bad("CKP-4", "a segment has an invalid number of NULLs or NaN")
    segment = SegmentPart(
        **fields,
        gone=None if value["gone"] is None else _removed_lines(value["gone"], fields["files"]),
        rows=None if value["rows"] is None else integer(value, "rows", low=1),
        ids=(first, last),
        added=integer(value, "added", low=0),
        bounds=bounds,
    )
    if live_files(segment) < 1:
        raise bad("CKP-3", "a segment holds no file of the checkpoint")
    return segment


def _removed_lines(text: str, files: int) -> BitMap64:
    places = decode_positions(text)
    if not len(places) or places.max() >= files:
        raise bad("CKP-3", "`gone` names lines that do not exist")
    return places
