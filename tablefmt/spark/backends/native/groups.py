"""Columns that are the same for all rows of a file, so that Spark need not read them. Pure.

Spark prunes by such columns before it runs a query, and by what it learns from a join while it runs
(dynamic partition pruning). Spec: DAT-8, VAL-2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Field, Primitive, Schema, Type, is_float

_NULL = r"\N"
_ESCAPED = (("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"))


@dataclass(frozen=True, slots=True)
class Groups:
    """Columns with one value a group of files."""

    columns: str
    """Spark's JSON form of a StructType of columns that are not nested."""
    values: str
    """A line a group: its cells, tabs between. See `cells`."""
    of_file: pa.Array
    """Per file the ordinal of its group."""


def partition_groups(
    files: pa.Table, schema: Schema, partition_ids: frozenset[int]
) -> Groups | None:
    """Files grouped by their partition values; None if there is nothing to group by.

    A float is left to the files: the log has no negative zero and one NaN (VAL-2).

    Args:
        files: a row a file; `partition.<id>` of ADD-1 for every partition column.
        schema: the table's.
        partition_ids: its partition columns.
    """
    columns = [f for f in schema.fields if f.id in partition_ids and _exact(files, f)]
    if not columns or files.num_rows == 0:
        return None
    texts = [cells(files[f"partition.{f.id}"], f.type) for f in columns]
    lines = pc.dictionary_encode(pc.binary_join_element_wise(*texts, "\t"))
    described = to_spark_json(Schema(tuple(columns), schema.last_id))
    return Groups(json.dumps(described), "\n".join(lines.dictionary.to_pylist()), lines.indices)


def single_groups(
    files: pa.Table, schema: Schema, partition_ids: frozenset[int], name: str
) -> Groups:
    """A group for every file: its partition values, and its place in a column `name`.

    Arguments: as `partition_groups`.
    """
    places = pa.array(np.arange(files.num_rows), pa.int64())
    texts = [places.cast(pa.string())]
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "integer", "nullable": False, "metadata": {}}
    ]
    by = partition_groups(files, schema, partition_ids)
    if by is not None:
        texts.insert(0, pa.array(by.values.split("\n"), pa.string()).take(by.of_file))
        fields = json.loads(by.columns)["fields"] + fields
    lines = pc.binary_join_element_wise(*texts, "\t")
    described = json.dumps({"type": "struct", "fields": fields})
    return Groups(described, "\n".join(lines.to_pylist()), places)


def _exact(files: pa.Table, field: Field) -> bool:
    name = f"partition.{field.id}"
    there = name in files.column_names and files[name].type == arrow_type(field.type)
    return there and not is_float(field.type)


def cells(values: pa.ChunkedArray, kind: Type) -> pa.Array:
    """Text of every value, with neither tab nor line break in it; NULL is `\\N`.

    Times are µs and dates days since 1970, bytes hexadecimal, text has `\\\\`, `\\t` and `\\n`.
    """
    array = values.combine_chunks()
    if kind == Primitive("binary"):
        encoded = pc.dictionary_encode(array)
        unique = pa.array([v.hex() for v in encoded.dictionary.to_pylist()], pa.string())
        text = unique.take(encoded.indices)
    elif kind == Primitive("string"):
        text = array
        for plain, escaped in _ESCAPED:
            text = pc.replace_substring(text, plain, escaped)
    elif pa.types.is_date32(array.type):
        text = array.cast(pa.int32()).cast(pa.string())
    elif pa.types.is_timestamp(array.type):
        text = array.cast(pa.int64()).cast(pa.string())
    else:
        text = array.cast(pa.string())
    return pc.fill_null(text, _NULL)
