"""Golden tables with compacted log segments (HIS)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from golden.checkpoints import checkpoint
from golden.feeds import Watched
from golden.maker import LONG, Json, Maker

LENGTH = 16
"""Entries of a compacted log segment."""


def blocks() -> Iterator[Maker]:
    """Yield tables with valid and with wrong compacted log segments."""
    maker = _long("history")
    whys = "Two compacted log segments repeat the log: a reader may use either (HIS-1, HIS-2)."
    yield maker.finish(whys)

    maker = _long("history-flipped")
    name = _name(16, 31)
    raw = maker.objects[name]
    maker.objects[name] = raw[:200] + bytes([raw[200] ^ 1]) + raw[201:]
    why = "A bit of a compacted log segment differs: the entries count (HIS-2)."
    yield maker.finish(why, remarks=[[16, "HIS-2"]])

    maker, other = _long("history-other"), _long("history-of-another-table")
    maker.objects[name] = other.objects[name]
    why = "A sound compacted log segment of another log (HIS-2)."
    yield maker.finish(why, remarks=[[16, "HIS-2"]])

    maker = _long("history-run")
    maker.objects[_name(1, 16)] = maker.objects.pop(_name(0, 15))
    why = "A compacted log segment that does not start at a multiple of its length (HIS-1)."
    yield maker.finish(why, remarks=[[1, "HIS-1"]])


def _long(name: str) -> Watched:
    """Make 34 versions, three of them with rows, a checkpoint, and segments up to version 31."""
    maker = Watched(name, LONG)
    for version in range(1, 34):
        if version in (2, 20, 33):
            row: Json = {"x": version}
            told = (("insert", row),)
            maker.commit("INSERT", "WRITE", (maker.file([row]),), told=told)
        else:
            application = {"id": "a", "version": version, "digest": None}
            maker.commit("INSERT", "WRITE", application=application)
        if version == 32:
            checkpoint(maker)
    for first in (0, LENGTH):
        bodies = [maker.objects[maker.key(first + at)] + b"\n" for at in range(LENGTH)]
        maker.objects[_name(first, first + LENGTH - 1)] = gzip.compress(b"".join(bodies), mtime=0)
    maker.ask(starting_version=0)
    maker.ask(after_version=5, ending_version=30)
    maker.ask(content="net", after_version=16)
    return maker


def _name(first: int, last: int) -> str:
    return f"_log/history/{first:020d}-{last:020d}.jsonl.gz"
