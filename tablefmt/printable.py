"""The gate for text that people read: characters that do not print become escapes. Pure.

Text of a log, a path or an error may hold control characters. They drive a terminal, hide text,
turn its direction or begin a line of their own. Spec: SEC-1.
"""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    """Return `text` with `\\uXXXX` for each character that does not print, line ends too.

    These are C0, DEL, C1, line and paragraph separators, characters that turn the direction of
    text, and whatever else Unicode calls a format, a control, a surrogate, private or unassigned.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json_escape(c) for c in text)


def printable_lines(lines: Iterable[str]) -> str:
    """Return lines as one text, each of them printable, so that no part of one begins another."""
    return "\n".join(map(printable, lines))


def printable_json(text: str) -> str:
    """Return the same JSON with escapes in its strings. Line ends between its parts stay.

    Serialised JSON has characters that do not print inside strings alone, and line ends as escapes.
    """
    return printable_lines(text.split("\n"))


def json_escape(character: str) -> str:
    """Return a character as JSON's escape, in two halves beyond U+FFFF."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2)
    )
