"""Storage options written as text: on a command line, and as options of Spark. One rule for both.

Spec: STO-11 (spec/store.md).
"""

from __future__ import annotations

import json
import re
from typing import Any

from tablefmt.errors import InvalidRangeError

_WHOLE = re.compile(r"[0-9]+")
_SECRET = re.compile(r"secret|password|token|key|username|credential", re.IGNORECASE)
_WORDS = {"true": True, "false": False}


def add_text_option(options: dict[str, Any], path: str, value: Any) -> None:
    """Put one option into nested `options`: `client_kwargs.region_name` goes into `client_kwargs`.

    Texts that are true, false (in any case), whole numbers or JSON objects stand for those, since
    s3fs does not read text for them; but nothing whose name speaks of a secret is read in any way.

    Raises:
        InvalidRangeError: a part of the path is empty, or is a value and a group of values. No
            value is repeated.
    """
    *outer, last = path.split(".")
    if not last or not all(outer):
        raise InvalidRangeError("a storage option has an empty name, or an empty part of one")
    inner = options
    for part in outer:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InvalidRangeError(f"the storage option {path} is both a value and a group")
    read = value if _SECRET.search(last) else _typed(value)
    there = inner.get(last)
    if isinstance(there, dict) != isinstance(read, dict) and last in inner:
        raise InvalidRangeError(f"the storage option {path} is both a value and a group")
    inner[last] = {**read, **there} if isinstance(there, dict) else read


def _typed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value):
        return int(value)
    if value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return _WORDS.get(value.lower(), value)
