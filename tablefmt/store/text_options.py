"""Storage options as text, for the command line and for Spark options alike.

Spec: STO-11 (spec/store.md).
"""

from __future__ import annotations

import json
import re
from typing import Any

from tablefmt.errors import InvalidArgumentError

_WHOLE = re.compile(r"[0-9]+")
_SECRET = re.compile(r"secret|password|token|key|username|credential", re.IGNORECASE)
_WORDS = {"true": True, "false": False}


def add_text_option(options: dict[str, Any], path: str, value: Any) -> None:
    """Add one option to nested `options`: `client_kwargs.region_name` goes into `client_kwargs`.

    The texts true and false (in any case), whole numbers and JSON objects are converted, because
    s3fs does not parse text. A value whose name suggests a secret is never converted.

    Raises:
        InvalidArgumentError: a part of the path is empty, or one name is both a value and a group.
            The message shows no value.
    """
    *outer, last = path.split(".")
    if not last or not all(outer):
        raise InvalidArgumentError(
            "a storage option has an empty name or name part. Write NAME or GROUP.NAME."
        )
    inner = options
    for part in outer:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InvalidArgumentError(
                f"the storage option {path} is both a value and a group. Set one of them."
            )
    read = value if _SECRET.search(last) else _typed(value)
    there = inner.get(last)
    if isinstance(there, dict) != isinstance(read, dict) and last in inner:
        raise InvalidArgumentError(
            f"the storage option {path} is both a value and a group. Set one of them."
        )
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
