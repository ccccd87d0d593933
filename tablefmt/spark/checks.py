"""CHECK constraints where Spark writes: a filter that every row passes, or else the job fails.

And the same for text of a declared length (DAT-14), which is cut and padded on the way.

Spark itself evaluates the conditions, in the pass that writes the rows. Spec: DAT-13.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from tablefmt.errors import ConstraintViolationError
from tablefmt.model.constraints import ROW_MAX, broken, shown_columns, violation_of
from tablefmt.model.entry import Metadata
from tablefmt.model.lengths import SHOWN, length_of, too_long
from tablefmt.model.predicate import quote_name
from tablefmt.model.schema import Field

_END = "[tablefmt-row]"
_LONG = re.compile(r"\[tablefmt-length:([A-Za-z0-9_=-]+)\](\d+) (.*?)" + re.escape(_END), re.DOTALL)
_BROKEN = re.compile(r"\[tablefmt-check:([A-Za-z0-9_=-]+)\](.*?)" + re.escape(_END), re.DOTALL)


def guard(metadata: Metadata) -> str | None:
    """SQL text over the columns by their names that is TRUE for every row, or fails the query.

    None without constraints. It is one expression that is not deterministic: a part of it that were
    pushed below a join would fail for rows that the join drops.

    Raises:
        UnsupportedFeatureError: a condition that Spark does not get to see (SQL-6), by name.
    """
    if not metadata.constraints:
        return None
    cases = []
    # Spark would put a setting in place of such a name, even in backticks.
    plain = [f.name for f in shown_columns(metadata.schema) if "${" not in f.name]
    names = ", ".join(map(quote_name, plain))
    row = f"to_json(struct({names}), map('ignoreNullFields', 'false'))" if names else "''"
    for name, each in metadata.constraints.items():
        said = base64.urlsafe_b64encode(json.dumps([name, each.condition]).encode()).decode()
        shown = f"coalesce(substr({row}, 1, {ROW_MAX}), '')"
        message = f"concat('[tablefmt-check:{said}]', {shown}, '{_END}')"
        cases.append(f"WHEN {violation_of(name, metadata)} THEN raise_error({message})")
    return f"CASE {' '.join(cases)} ELSE monotonically_increasing_id() >= 0 END"


def length_sql(column: Field) -> str | None:
    """SQL text of the column by its name as its declared length wants it, or the query fails.

    None without a length. Spec: SCH-10.
    """
    if column.text is None:
        return None
    padded, most = length_of(column.text)
    name = quote_name(column.name)
    said = base64.urlsafe_b64encode(json.dumps([column.name, column.text]).encode()).decode()
    shown = f"char_length({name}), ' ', substr({name}, 1, {SHOWN})"
    fitted = (
        f"CASE WHEN {name} IS NULL OR char_length({name}) <= {most} THEN {name} "
        f"WHEN char_length(rtrim({name})) <= {most} THEN substr({name}, 1, {most}) "
        f"ELSE raise_error(concat('[tablefmt-length:{said}]', {shown}, '{_END}')) END"
    )
    return f"rpad({fitted}, {most}, ' ')" if padded else fitted


def broken_check(text: str) -> ConstraintViolationError | None:
    """What `guard` or `length_sql` failed with, in a message of Spark's."""
    long = _LONG.search(text)
    if long is not None:
        try:
            column, declared = json.loads(base64.urlsafe_b64decode(long[1]))
        except ValueError:
            return None
        return too_long(column, declared, int(long[2]), long[3])
    found = _BROKEN.search(text)
    if found is None:
        return None
    try:
        name, condition = json.loads(base64.urlsafe_b64decode(found[1]))
    except ValueError:
        return None
    row: Any = found[2] or None
    try:
        row = json.loads(found[2])
    except ValueError:
        # It was cut.
        pass
    return broken(name, condition, row)
