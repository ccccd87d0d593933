"""Values of CHAR(n) and VARCHAR(n) as stored, in plain Python, and values to try them with.

The model of a table is `tablefmt.testing.reference_model`.
"""

from __future__ import annotations

GOOD: list[tuple[str | None, str | None]] = [
    ("ab", "x"),
    ("abc", "abcd"),
    ("a      ", "ab     "),
    ("", ""),
    (None, None),
    ("\u00e9\u20ac", "\U0001f600\U0001f600\U0001f600\U0001f600"),
    ("   x"[3:], " a b"),
]
BAD: list[tuple[str | None, str | None]] = [("abcd", None), (None, "a    b"), ("    x", None)]


def stored(value: str | None, kind: str, most: int) -> str | None:
    """Return a value as a column `kind(most)` stores it. ValueError: it is too long."""
    if value is None:
        return None
    characters = list(value)
    while len(characters) > most and characters[-1] == " ":
        characters.pop()
    if len(characters) > most:
        raise ValueError(value)
    while kind == "char" and len(characters) < most:
        characters.append(" ")
    return "".join(characters)
