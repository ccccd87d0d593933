"""What Spark is told of columns of data files: partitions, and names that Hadoop changes. Pure.

Columns that are the same for all rows of a file need not be read. Spark prunes by them before it
runs a query, and by what it learns from a join while it runs (dynamic partition pruning).

Spark tells its Parquet reader and writer the columns by a setting of Hadoop. Whoever reads a
setting there gets a system property, a variable of the environment or another setting in place of
`${…}`. A column of such a name is looked for, and written, under another one.

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


_VARIABLE = re.compile(r"\$\{(?:env\.[^}$\s]*|[^}$\s:]*)\}")
"""What Hadoop may know. No setting and no property has a colon in its name, and text with a
variable that is not known stays as it is."""


def is_replaced(text: str) -> bool:
    """Whether Hadoop may put something else in place of a part of a text."""
    return _VARIABLE.search(text) is not None


def replaced_name(schema: Schema) -> str | None:
    """Return the first name of a column or field that stands in files, and that Hadoop may replace.

    None: there is none.
    """
    return next((f.physical for f in all_fields(schema) if is_replaced(f.physical)), None)


def without_variables(described: Any) -> Any:
    """Return Spark's JSON form of a type without comments that Hadoop may replace a part of."""
    if isinstance(described, list):
        return [without_variables(each) for each in described]
    if not isinstance(described, dict):
        return described
    return {
        name: without_variables(value)
        for name, value in described.items()
        if name != COMMENT or not isinstance(value, str) or not is_replaced(value)
    }
