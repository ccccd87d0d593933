"""Escapes for characters that do not print, in every text for users. Pure.

Text of a log, a path or an error may hold control characters. They can control a terminal, hide
text, change its direction, or start a new line. Spec: SEC-1.
"""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    r"""Return `text` with `\uXXXX` for each character that does not print, line ends too.

    These are C0, DEL, C1, line and paragraph separators, and characters that change the direction
    of text. They include all other characters that Unicode calls format, control, surrogate,
    private or unassigned.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json_escape(c) for c in text)


def number_of(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun: `1 file`, `2 files`. `several` is an irregular plural."""
    return f"{count} {noun if count == 1 else several or noun + 's'}"


def printable_lines(lines: Iterable[str]) -> str:
    """Return lines as one text. Each line is printable, so no part of a line can start another."""
    return "\n".join(map(printable, lines))


def printable_json(text: str) -> str:
    """Return the same JSON with escapes in its strings. Line ends between its parts stay.

    In serialized JSON, only strings contain characters that do not print, and their line ends are
    escapes.
    """
    return printable_lines(text.split("\n"))


def json_escape(character: str) -> str:
    """Return a character as a JSON escape. Beyond U+FFFF it is a pair of escapes."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2)
    )


def is_unicode(text: str) -> bool:
    """Return True if the text can be encoded as UTF-8, that is, without unpaired surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
