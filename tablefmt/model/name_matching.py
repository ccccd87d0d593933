"""Comparison of names with case ignored, and suggestions for misspelled names. Pure.

Names compare the same way in every version of Python. Spec: SCH-2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_YOUNGER = re.compile(
    "[\u1c89\u2c2f\ua7c0\ua7cb\ua7cc\ua7ce\ua7d0\ua7d2\ua7d4\ua7d6\ua7d8\ua7da\ua7dc"
    "\U00010570-\U0001057a\U0001057c-\U0001058a\U0001058c-\U00010592\U00010594\U00010595"
    "\U00010d50-\U00010d65\U00016ea0-\U00016eb8]"
)
"""Characters of Unicode 14.0 to 17.0 that `str.casefold` changes where Python knows them."""


def folded(name: str) -> str:
    """Return the full case folding of Unicode 13.0: names with the same one are the same name."""
    if name.isascii() or not _YOUNGER.search(name):
        return name.casefold()
    return "".join(c if _YOUNGER.match(c) else c.casefold() for c in name)


CLOSENESS = 0.65
"""Similarity of two names, from 0 to 1, that makes one a likely misspelling of the other."""

NAMES_SHOWN = 20
"""Maximum number of existing names in a message."""

NAMES_MAX = 10_000
"""Maximum number of names to compare with. Comparing this many takes about a second."""


def near_name(given: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to `given`, ignoring case; None if no name is similar.

    A name that differs by case alone is one, too: where case counts, it is what was meant.
    """
    known = {folded(name): name for name in list(names)[:NAMES_MAX]}
    found = difflib.get_close_matches(folded(given)[:255], known, n=1, cutoff=CLOSENESS)
    return known[found[0]] if found and known[found[0]] != given else None


def there_are(given: str, names: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: the existing names and a similar one."""
    shown = ", ".join(map(repr, names[:NAMES_SHOWN])) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"there are {shown}{did_you_mean(given, names)}"


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return the end of a message that suggests a name; empty if no name is similar."""
    near = near_name(given, names)
    return "" if near is None else f"; did you mean {near!r}?"
