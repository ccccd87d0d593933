"""Sets of positions in the format of DEL-2, with every kind of container."""

from __future__ import annotations

import base64
import itertools
import struct
from collections.abc import Iterable, Mapping
from typing import Any

Marks = tuple[Iterable[int], Iterable[int]]
"""Deleted positions and updated positions."""


def delete_columns(marks: Mapping[int, Marks]) -> dict[str, list[Any]]:
    """Return `delete` (DEL-1) for these marks by file id."""
    files = sorted(marks)
    both = [[sorted(positions) for positions in marks[file]] for file in files]
    return {
        "file": files,
        "rows": [len(deleted) + len(updated) for deleted, updated in both],
        "deleted": [text_of(deleted) if deleted else None for deleted, _ in both],
        "updated": [text_of(updated) if updated else None for _, updated in both],
    }


def text_of(positions: Iterable[int], *, runs: bool = False) -> str:
    """Return the base64 text of a set; with `runs` every container is a run container."""
    found = sorted(positions)
    buckets = [(high, list(low)) for high, low in itertools.groupby(found, lambda p: p >> 32)]
    raw = struct.pack("<Q", len(buckets))
    for high, members in buckets:
        raw += struct.pack("<I", high) + _bucket([p & 0xFFFFFFFF for p in members], runs)
    return base64.b64encode(raw).decode()


def _bucket(positions: list[int], runs: bool) -> bytes:
    chunks = [(k, [p & 0xFFFF for p in g]) for k, g in itertools.groupby(positions, _upper)]
    bodies = [_container(members, runs) for _, members in chunks]
    heads = b"".join(struct.pack("<HH", key, len(members) - 1) for key, members in chunks)
    if runs:
        flags = (1 << len(chunks)) - 1
        start = struct.pack("<I", 12347 | len(chunks) - 1 << 16)
        start += flags.to_bytes((len(chunks) + 7) // 8, "little")
    else:
        start = struct.pack("<II", 12346, len(chunks))
    offsets = b""
    if not runs or len(chunks) >= 4:
        at = len(start) + 8 * len(chunks)
        ends = itertools.accumulate((len(body) for body in bodies[:-1]), initial=at)
        offsets = b"".join(struct.pack("<I", place) for place in ends)
    return start + heads + offsets + b"".join(bodies)


def _upper(position: int) -> int:
    return position >> 16


def _container(members: list[int], runs: bool) -> bytes:
    if runs:
        known = set(members)
        starts = [p for p in members if p - 1 not in known]
        ends = [p for p in members if p + 1 not in known]
        pairs = [struct.pack("<HH", a, b - a) for a, b in zip(starts, ends, strict=True)]
        return struct.pack("<H", len(pairs)) + b"".join(pairs)
    if len(members) <= 4096:
        return struct.pack(f"<{len(members)}H", *members)
    bits = bytearray(8192)
    for position in members:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes(bits)
