"""What the guards of a write fail with: marks in Spark's messages. Spec: DAT-13, DAT-14."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from tablefmt.errors import ConstraintViolationError
from tablefmt.expressions.constraints import broken
from tablefmt.model.text_lengths import too_long

END = "[tablefmt-row]"
"""Where what a guard shows of a row ends."""

_LONG = re.compile(r"\[tablefmt-length:([A-Za-z0-9_=-]+)\](\d+) (.*?)" + re.escape(END), re.DOTALL)
_BROKEN = re.compile(r"\[tablefmt-check:([A-Za-z0-9_=-]+)\](.*?)" + re.escape(END), re.DOTALL)


def broken_check(text: str) -> ConstraintViolationError | None:
    """What `guard` or `length_sql` failed with, in a message of Spark's."""
    long = _LONG.search(text)
    if long is not None:
        try:
            column, declared = json.loads(base64.urlsafe_b64decode(long[1]))
        except ValueError:
            return None
        return too_long(column, declared, int(long[2]), long[3])
    broken_row = _BROKEN.search(text)
    if broken_row is None:
        return None
    try:
        name, condition = json.loads(base64.urlsafe_b64decode(broken_row[1]))
    except ValueError:
        return None
    row: Any = broken_row[2] or None
    try:
        row = json.loads(broken_row[2])
    except ValueError:
        # It was cut.
        pass
    return broken(name, condition, row)
