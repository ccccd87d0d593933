"""Comparison of a file's rows with the bounds, counts and partition that the log has of them. Pure.

Spec: VAL-2, VAL-3, ADD-1, ADD-4, HID-3.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import ConstraintViolationError
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.partition_transforms import declared, transform_of
from tablefmt.model.schema import Field, Schema, is_nested


class BoundCheck:
    """Bounds and counts of one file, and the rows seen so far."""

    def __init__(self, file: pa.Table, schema: Schema) -> None:
        """Take the log's columns of the file, in the types of the schema (`typed_bounds`)."""
        names = set(file.column_names)
        self._file = file
        self._names = names
        self._rows = self._known("rows").as_py()
        self._fields = [
            field
            for field in schema.fields
            if not is_nested(field.type)
            and any(f"{group}.{field.id}" in names for group in ("lower", "upper", "nulls", "nans"))
        ]
        self._schema = schema
        self._hidden = [field for field in schema.hidden if f"partition.{field.id}" in names]
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
        for field in self._hidden:
            self._compare_partition(field, batch)

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

    def _compare_partition(self, field: Field, batch: pa.RecordBatch) -> None:
        made = transform_of(field, self._schema)
        at = batch.schema.get_field_index(made.column.physical)
        if at < 0 or self.problem:
            return
        try:
            values = made.values(batch.column(at).cast(arrow_type(made.column.type)))
        except (pa.ArrowException, ConstraintViolationError):
            return
        known = self._known(f"partition.{field.id}")
        same = pc.equal(values, known) if known.is_valid else pc.is_null(values)
        if not pc.all(pc.fill_null(same, False), min_count=0).as_py():
            self.problem = (
                f"it has a row of another partition: {declared(field, self._schema)} is "
                f"{known.as_py()} in the log (HID-3)"
            )

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
