"""How far a stream has come, as text that Spark keeps in its checkpoint. Pure. Spec: STR-2."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError

FORMAT = 1
"""Of the text. A reader refuses higher ones."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """What is read next: a version, from one of its files on.

    Positions of one stream are ordered: the snapshot that it began with comes before the changes.
    """

    version: int
    files: int = 0
    """How many of its files were read."""
    snapshot: bool = False
    """They are those of the snapshot that the stream began with, and not what the commit did."""

    @property
    def known(self) -> int:
        """The newest version that this relies on; -1 for none."""
        return self.version if self.snapshot or self.files else self.version - 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A position in the log of one table, and where the stream began."""

    table: str
    """The table's id."""
    position: Position
    entry: str | None
    """SHA-256 of the entry of `position.known`; None where there is none."""
    began: Position

    def to_json(self) -> str:
        """Text; equal offsets have equal texts."""
        return json.dumps(
            {
                "format": FORMAT,
                "table": self.table,
                "version": self.position.version,
                "files": self.position.files,
                "snapshot": self.position.snapshot,
                "entry": self.entry,
                "began": self.began.version,
                "beganWithSnapshot": self.began.snapshot,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> StreamOffset:
        """What `to_json` gave.

        Raises:
            InvalidRangeError: it is none of ours, or damaged.
            UnsupportedFeatureError: a later release wrote it.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise _malformed(text) from None
        if not isinstance(values, dict) or type(values.get("format")) is not int:
            raise _malformed(text)
        if values["format"] > FORMAT:
            raise UnsupportedFeatureError(
                f"the stream's checkpoint was written by a later release: its offsets have format "
                f"{values['format']}, and this one reads {FORMAT}; use that release",
                ["stream:offset"],
            )
        offset = _offset(values)
        if offset is None:
            raise _malformed(text)
        return offset


_KINDS = {
    "format": int,
    "table": str,
    "version": int,
    "files": int,
    "snapshot": bool,
    "entry": str,
    "began": int,
    "beganWithSnapshot": bool,
}


def _offset(values: dict[str, Any]) -> StreamOffset | None:
    """None: they are not those of an offset."""
    if values.keys() != _KINDS.keys():
        return None
    for name, kind in _KINDS.items():
        if type(values[name]) is not kind and not (name == "entry" and values[name] is None):
            return None
        if kind is int and values[name] < 0:
            return None
    position = Position(values["version"], values["files"], values["snapshot"])
    began = Position(values["began"], 0, values["beganWithSnapshot"])
    if (values["entry"] is None) != (position.known < 0) or began.version > position.version:
        return None
    if position.snapshot and (not began.snapshot or began.version != position.version):
        return None
    return StreamOffset(values["table"], position, values["entry"], began)


def _malformed(text: str) -> InvalidRangeError:
    return InvalidRangeError(
        f"the stream's checkpoint holds an offset that is none of tablefmt's: {text:.200}; it is "
        "damaged, or belongs to another source. Begin the stream with a new checkpoint"
    )
