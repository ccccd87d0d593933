"""CHECK constraints where Spark writes: a filter that every row passes, or else the job fails.

And the same for text of a declared length (DAT-14), which is cut and padded on the way.

Spark itself evaluates the conditions, in the pass that writes the rows. Spec: DAT-13.
"""

from __future__ import annotations

import base64
import json

from tablefmt.expressions.constraints import ROW_MAX, shown_columns, violation_of
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.entry import Metadata
from tablefmt.model.schema import Field
from tablefmt.model.text_lengths import SHOWN, length_of
from tablefmt.spark.runtime.guards import END


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
        marker = base64.urlsafe_b64encode(json.dumps([name, each.condition]).encode()).decode()
        shown = f"coalesce(substr({row}, 1, {ROW_MAX}), '')"
        message = f"concat('[tablefmt-check:{marker}]', {shown}, '{END}')"
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
    marker = base64.urlsafe_b64encode(json.dumps([column.name, column.text]).encode()).decode()
    shown = f"char_length({name}), ' ', substr({name}, 1, {SHOWN})"
    fitted = (
        f"CASE WHEN {name} IS NULL OR char_length({name}) <= {most} THEN {name} "
        f"WHEN char_length(rtrim({name})) <= {most} THEN substr({name}, 1, {most}) "
        f"ELSE raise_error(concat('[tablefmt-length:{marker}]', {shown}, '{END}')) END"
    )
    return f"rpad({fitted}, {most}, ' ')" if padded else fitted
