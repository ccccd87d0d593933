"""The name that somebody may have meant who wrote another one. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

CLOSENESS = 0.65
"""Of two names, from 0 to 1, from which on one may be a slip for the other."""

NAMES_SHOWN = 20
"""Of the names there are, in a message."""

NAMES_MAX = 10_000
"""Names that a name is compared with. The comparison takes about a second for so many."""


def near_name(given: str, names: Iterable[str]) -> str | None:
    """Return the name that is most like `given`, case ignored; None if none is much like it."""
    known = {name.casefold(): name for name in list(names)[:NAMES_MAX]}
    found = difflib.get_close_matches(given.casefold()[:255], known, n=1, cutoff=CLOSENESS)
    return known[found[0]] if found and found[0] != given.casefold() else None


def there_are(given: str, names: Sequence[str]) -> str:
    """Return the end of a message on a name that is not there: the names there are, a near one."""
    shown = ", ".join(map(repr, names[:NAMES_SHOWN])) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"there are {shown}{did_you_mean(given, names)}"


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return the end of a message that suggests a name; empty if there is none to suggest."""
    near = near_name(given, names)
    return "" if near is None else f"; did you mean {near!r}?"
