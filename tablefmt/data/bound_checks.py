"""Comparison of a file's rows with the bounds and counts that the log has of them. Pure.

Spec: VAL-2, VAL-3, ADD-1, ADD-4.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Field, is_nested


class BoundCheck:
    """Bounds and counts of one file, and the rows seen so far."""

    def __init__(self, file: pa.Table, fields: Iterable[Field]) -> None:
        """Take the log's columns of the file, in the types of the fields (`typed_bounds`)."""
        names = set(file.column_names)
        self._file = file
        self._names = names
        self._rows = self._known("rows").as_py()
        self._fields = [
            field
            for field in fields
            if not is_nested(field.type)
            and any(f"{group}.{field.id}" in names for group in ("lower", "upper", "nulls", "nans"))
        ]
        self._nulls: dict[int, int] = {}
        self._nans: dict[int, int] = {}
        self.problem = ""
        """Description of the first contradiction; "" if there is none."""

    def _known(self, name: str) -> pa.Scalar:
        return self._file[name][0] if name in self._names else pa.scalar(None)

    def see(self, batch: pa.RecordBatch) -> None:
        """Compare rows of the file, with physical names."""
        for field in self._fields:
            at = batch.schema.get_field_index(field.physical)
            if at < 0 or self.problem:
                continue
            values = batch.column(at)
            kind = arrow_type(field.type)
            if values.type != kind:
                try:
                    # Nanoseconds are rounded down; bounds are rounded outwards.
                    values = values.cast(kind, safe=False)
                except pa.ArrowException:
                    continue
            self._nulls[field.id] = self._nulls.get(field.id, 0) + values.null_count
            if pa.types.is_floating(kind):
                nans = pc.sum(pc.is_nan(values)).as_py() or 0
                self._nans[field.id] = self._nans.get(field.id, 0) + nans
            self._compare(field, values)

    def _compare(self, field: Field, values: pa.Array) -> None:
        lower, upper = (self._known(f"{group}.{field.id}") for group in ("lower", "upper"))
        if lower.is_valid and upper.is_valid and pc.greater(lower, upper).as_py():
            # Readers ignore impossible bounds (PRN-6).
            return
        found = pc.min_max(values)
        low, high = found["min"], found["max"]
        if lower.is_valid and low.is_valid and pc.less(low, lower).as_py():
            self.problem = f"it has a value of {field.name!r} below the lower bound in the log"
        elif upper.is_valid and high.is_valid and pc.greater(high, upper).as_py():
            self.problem = f"it has a value of {field.name!r} above the upper bound in the log"

    def finish(self) -> str:
        """Return the first contradiction, after all rows were seen; "" if there is none."""
        for group, counts in (("nulls", self._nulls), ("nans", self._nans)):
            for field in self._fields:
                told = self._known(f"{group}.{field.id}").as_py()
                found = counts.get(field.id)
                # Readers ignore impossible counts (PRN-6).
                usable = told is not None and 0 <= told <= self._rows and found is not None
                if usable and found != told and not self.problem:
                    what = "NULL" if group == "nulls" else "NaN"
                    self.problem = (
                        f"{found} of its values of {field.name!r} are {what}, but the log says "
                        f"{told}"
                    )
        return self.problem
