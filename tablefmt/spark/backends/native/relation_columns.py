"""Describe columns of data files to Spark: constant columns, and names that Hadoop changes. Pure.

A column with one value per file need not be read. Spark prunes files by these columns, both when it
plans a query and while the query runs (dynamic partition pruning).

Spark passes columns to its Parquet reader and writer in a Hadoop setting. On reading, Hadoop
replaces `${…}` by a system property, an environment variable or another setting. So a column with
that in its name would be read and written under another name.

Spec: DAT-8, VAL-2, SEC-4.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.ddl import COMMENT, to_spark_json
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Field, Primitive, Schema, Type, all_fields, is_float

_NULL = r"\N"
_ESCAPED = (("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"))


@dataclass(frozen=True, slots=True)
class Groups:
    """Columns with one value per group of files."""

    columns: str
    """Spark's JSON form of a StructType of columns that are not nested."""
    values: str
    """One line per group: its cells, separated by tabs. See `cells`."""
    of_file: pa.Array
    """Ordinal of the group of each file."""


def partition_groups(
    files: pa.Table, schema: Schema, partition_ids: frozenset[int]
) -> Groups | None:
    """Group files by their partition values. None if there is nothing to group by.

    Floats are read from the files: the log has no negative zero and only one NaN (VAL-2).

    Args:
        files: one row per file, with `partition.<id>` of ADD-1 for every partition column.
        schema: the table's schema.
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
    """Make one group per file, with its partition values, and its index in column `name`.

    Arguments as `partition_groups`.
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
    """Return the text of every value, without tabs and line breaks. NULL is `\\N`.

    Times are µs and dates days since 1970. Bytes are hexadecimal. Text escapes `\\\\`, `\\t` and
    `\\n`.
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


_VARIABLE = re.compile(r"\$\{(?:env\.[^}$\s]*|[^}$\s:]*)\}")
"""Variables that Hadoop may replace.

No name of a setting or property has a colon. Hadoop leaves unknown variables as they are.
"""


def is_replaced(text: str) -> bool:
    """Return whether Hadoop may replace a part of a text."""
    return _VARIABLE.search(text) is not None


def replaced_name(schema: Schema) -> str | None:
    """Return the first physical name that Hadoop may change, of a column or field. None if none."""
    return next((f.physical for f in all_fields(schema) if is_replaced(f.physical)), None)


def without_variables(described: Any) -> Any:
    """Return Spark's JSON form of a type without comments in which Hadoop may replace a part."""
    if isinstance(described, list):
        return [without_variables(each) for each in described]
    if not isinstance(described, dict):
        return described
    return {
        name: without_variables(value)
        for name, value in described.items()
        if name != COMMENT or not isinstance(value, str) or not is_replaced(value)
    }
