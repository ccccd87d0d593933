"""Hidden partition fields from the transforms of an Iceberg table. Pure.

Readers skip files by partition values, so the values must be right. Iceberg's older writers rounded
times before 1970 up. So values are compared with the bounds of the files where these can tell.
Spec: IMP-9, HID-1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.partition_transforms import transform_from, transform_of
from tablefmt.model.scalar_values import decode, encode
from tablefmt.model.schema import Field, Schema, kind_name
from tablefmt.model.schema_rules import check_hidden_names

SpecField: TypeAlias = tuple[int, str]
"""A field of a partition spec: the id of its column, and Iceberg's name of the transform."""

_INTEGERS = frozenset({"integer", "long", "date", "timestamp", "timestamp_ntz"})
"""Types whose bounds are exact integers in the log (VAL-1)."""


@dataclass(frozen=True, slots=True)
class Hiding:
    """Hidden partition fields of a source's table, and the transforms that it cannot have."""

    schema: Schema
    """The columns and the hidden fields."""
    fields: Mapping[int, SpecField]
    """By id of a hidden field: the field of the specs that has its values."""
    left: Mapping[str, str]
    """By declaration, such as `day of 'ts'`: why the new table is not partitioned by it."""


def hiding(
    schema: Schema,
    current: Mapping[SpecField, str],
    others: Sequence[Collection[SpecField]],
    columns: Collection[int],
) -> Hiding:
    """Return the hidden fields of a table.

    Args:
        schema: the columns.
        current: fields of the spec in force with their names, in order.
        others: fields of all specs that files were written under.
        columns: ids of columns by whose values all files are partitioned.
    """
    found, left = {}, {}
    for field, name in current.items():
        source, text = field
        column = next((f for f in schema.fields if f.id == source), None)
        if column is None or source in columns or text == "void":
            continue
        words = f"{text} of {column.name!r:.200}"
        if not all(field in spec for spec in others):
            left[words] = "not every file is partitioned by it"
            continue
        if text == "identity":
            left[words] = "one column is left for data"
            continue
        try:
            schema, number = _with(schema, column, text, name)
        except ValueError:
            left[words] = "no table can be"
        except SchemaMismatchError as error:
            left[words] = str(error).rstrip(".")
        else:
            found[number] = field
    return Hiding(schema, found, left)


def _with(schema: Schema, column: Field, text: str, name: str) -> tuple[Schema, int]:
    made = transform_from(text, column)
    number = schema.last_id + 1
    hidden = made.field(number, name)
    whole = replace(schema, hidden=(*schema.hidden, hidden), last_id=number)
    check_hidden_names(whole)
    return whole, number


def contradiction(
    hidden: Field, schema: Schema, files: Mapping[str, Sequence[Any]], lacking: Sequence[bool]
) -> str:
    """Return the path of a file whose partition value is not that of all its rows; "" for none.

    Args:
        hidden: the field.
        schema: of the table.
        files: as the entry adds them (ADD-1).
        lacking: whether each file lacks the column.
    """
    made = transform_of(hidden, schema)
    count = len(files["path"])
    has_value = np.array([v is not None for v in files[f"partition.{hidden.id}"]], np.bool_)
    nulls = pa.array(files.get(f"nulls.{made.column.id}", [None] * count), pa.int64())
    some = _mask(pc.greater(nulls, 0))
    some_not = _mask(pc.less(nulls, pa.array(files["rows"], pa.int64())))
    absent = np.array(lacking, np.bool_)
    wrong = (has_value & (some | absent)) | (~has_value & some_not & ~absent)
    if made.column.initial is not None:
        wrong |= absent
    if made.kind != "bucket" and kind_name(made.column.type) in _INTEGERS:
        value = pa.array(files[f"partition.{hidden.id}"], pa.int64())
        for end in ("lower", "upper"):
            bound = files.get(f"{end}.{made.column.id}", [None] * count)
            try:
                there = made.values(decode(bound, made.column.type))
            except ConstraintViolationError:
                return str(files["path"][0])
            there = pa.array(encode(there, made.type), pa.int64())
            wrong |= has_value & _mask(pc.not_equal(value, there))
            if made.kind != "truncate":
                wrong |= has_value & _mask(pc.is_null(there)) & _mask(pc.less_equal(value, 0))
    at = np.flatnonzero(wrong)
    return str(files["path"][int(at[0])]) if len(at) else ""


def _mask(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), np.bool_)
