"""Compare names with case ignored, the same way in every version of Python. Pure. Spec: SCH-2."""

from __future__ import annotations

import re

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
