"""Suggestions for misspelled names. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tablefmt.model.case_folding import folded

CLOSENESS = 0.65
"""Similarity of two names, from 0 to 1, that makes one a likely misspelling of the other."""

NAMES_SHOWN = 20
"""Maximum number of existing names in a message."""

NAMES_MAX = 10_000
"""Maximum number of names to compare with. Comparing this many takes about a second."""


def near_name(given: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to `given`, ignoring case; None if no name is similar."""
    known = {folded(name): name for name in list(names)[:NAMES_MAX]}
    found = difflib.get_close_matches(folded(given)[:255], known, n=1, cutoff=CLOSENESS)
    return known[found[0]] if found and found[0] != folded(given) else None


def there_are(given: str, names: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: the existing names and a similar one."""
    shown = ", ".join(map(repr, names[:NAMES_SHOWN])) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"there are {shown}{did_you_mean(given, names)}"


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return the end of a message that suggests a name; empty if no name is similar."""
    near = near_name(given, names)
    return "" if near is None else f"; did you mean {near!r}?"
