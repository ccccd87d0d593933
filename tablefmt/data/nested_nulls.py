"""NOT NULL checks in nested columns, and checks of variant bytes. Pure. Spec: DAT-3, SCH-6."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.nested_values import map_parts
from tablefmt.data.type_fit import VARIANT
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.schema import Array, Map, Struct, Type, is_variant

_VERSION = 1
"""Value of the low four bits of the first metadata byte."""


def check_nested_nulls(values: Any, kind: Type, name: str) -> None:
    """Check NOT NULL in structs, lists and maps (DAT-3), and variants (SCH-6)."""
    if is_variant(kind):
        check_nested_nulls(values, VARIANT, name)
        _check_variants(values, name)
    elif isinstance(kind, Struct):
        for column in kind.fields:
            # Access by index: Arrow takes a name that begins with a dot for a path.
            inner = pc.struct_field(values, [values.type.get_field_index(column.name)])
            present = pc.is_valid(values)
            if not column.nullable and pc.sum(pc.and_(pc.is_null(inner), present)).as_py():
                raise ConstraintViolationError(
                    f"field {name}.{column.name} is NOT NULL, but the data has NULL. Nothing "
                    f"was written; "
                    "give it a value."
                )
            check_nested_nulls(inner, column.type, f"{name}.{column.name}")
    elif isinstance(kind, Array):
        inner = pc.list_flatten(values)
        _check_elements(inner, kind.nullable, f"elements of {name}")
        check_nested_nulls(inner, kind.element, f"{name}.element")
    elif isinstance(kind, Map):
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            _, keys, items = map_parts(chunk)
            _check_elements(items, kind.nullable, f"values of {name}")
            check_nested_nulls(keys, kind.key, f"{name}.key")
            check_nested_nulls(items, kind.value, f"{name}.value")


def _check_variants(values: Any, name: str) -> None:
    """Check variants by their first bytes. Raises SchemaMismatchError for an invalid one."""
    present = values.filter(pc.is_valid(values))
    heads = pc.binary_slice(pc.struct_field(present, "metadata"), 0, 1)
    versions = {head[0] & 0x0F if head else None for head in pc.unique(heads).to_pylist()}
    shortest = pc.min(pc.binary_length(pc.struct_field(present, "value"))).as_py()
    if versions - {_VERSION} or shortest == 0:
        raise SchemaMismatchError(
            f"column {name!r}: a value is not a valid VARIANT. Create variants with parse_json or "
            "to_variant_object in Spark, or read them from a VARIANT column.",
            [name],
        )


def _check_elements(inner: Any, nullable: bool, what: str) -> None:
    if not nullable and inner.null_count:
        raise ConstraintViolationError(
            f"{what} are NOT NULL, but the data has NULL. Nothing was written; give them a value."
        )
