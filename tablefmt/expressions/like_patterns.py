"""LIKE patterns with the backslash as the only escape, checked as in Spark. Pure."""

from __future__ import annotations

import re

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError

_LIKE_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


def quoted(text: str) -> str:
    """Return the pattern that matches only this text."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def like_pattern(pattern: str, escape: str) -> str:
    """Return the pattern with a backslash as its escape, checked as in Spark.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: an invalid pattern or escape.
    """
    if escape != "\\":
        if escape in "%_":
            raise UnsupportedFeatureError("LIKE with a wildcard as its escape", ["sql:escape"])
        pattern = re.sub(
            re.escape(escape) + r"(.?)|(\\)",
            lambda m: "\\\\" if m[2] or m[1] == escape else "\\" + m[1],
            pattern,
            flags=re.DOTALL,
        )
    for match in _LIKE_ESCAPE.finditer(pattern):
        if match[1] == "" or match[1] not in "\\%_":
            if escape != "\\" and match[1] == escape:
                continue
            raise InvalidPredicateError(
                f"LIKE pattern {pattern[:80]!r}: an escape must be followed by %, _ or itself"
            )
    return pattern
