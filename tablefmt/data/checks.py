"""CHECK constraints over Arrow rows before they are written. Spec: DAT-13."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.matching import RowFilter
from tablefmt.data.selection import select_rows
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.constraints import broken, shown_columns, violation_of
from tablefmt.model.display import shown_value
from tablefmt.model.entry import Metadata


class Checks:
    """The compiled constraints of a table. Not thread-safe."""

    def __init__(self, metadata: Metadata) -> None:
        """Compile all constraints. Raises UnsupportedFeatureError if one needs Spark, with its
        name.
        """
        self._metadata = metadata
        self._tests = {name: _test(name, metadata) for name in metadata.constraints}

    def check(self, rows: pa.Table) -> None:
        """Refuse the rows if a condition is FALSE for one of them. NULL passes, as in SQL.

        Args:
            rows: rows as data files store them, with physical names.

        Raises:
            ConstraintViolationError: names the constraint and shows a row.
            InvalidPredicateError: a condition has no result for a row, such as an overflow.
        """
        for name, test in self._tests.items():
            failing = _chosen(rows, test)
            if failing.num_rows:
                fields = shown_columns(self._metadata.schema)
                row = {f.name: shown_value(failing.column(f.physical)[0]) for f in fields}
                condition = self._metadata.constraints[name].condition
                raise broken(name, condition, row, f"{failing.num_rows} of {rows.num_rows} rows")


def _test(name: str, metadata: Metadata) -> RowFilter:
    broken_by = violation_of(name, metadata)
    try:
        rows = select_rows(broken_by, metadata.schema).rows
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(
            f"CHECK constraint {name!r} cannot be evaluated without Spark ({error}). Write with "
            "Spark, or drop the constraint.",
            error.features,
        ) from None
    assert rows is not None, "a condition was given"
    return rows


def _chosen(rows: pa.Table, test: RowFilter) -> pa.Table:
    exact = test.pushed if test.exact is None else test.exact
    if exact is None or isinstance(exact, pc.Expression):
        return rows.filter(exact)
    parts = [batch.filter(exact(batch)) for batch in rows.to_batches()]
    return pa.Table.from_batches(parts, rows.schema)
