"""JSON text as Arrow columns: one string per file, made by kernels and not by objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

_ESCAPED = r'["\\\x00-\x1f\x7f]'
"""Characters that do not stand for themselves in a JSON string."""


def whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def text(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values as JSON strings; NULL stays NULL."""
    values = whole(values).cast(pa.string())
    quoted = joined('"', values, '"')
    odd = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if not pc.any(odd).as_py():
        return quoted
    made = [orjson.dumps(value).decode() for value in values.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(made, pa.string()))


def text_of(document: pa.Array) -> pa.Array:
    """Return JSON documents as JSON strings, so quoted once more."""
    escaped = pc.replace_substring(document, "\\", "\\\\")
    return joined('"', pc.replace_substring(escaped, '"', '\\"'), '"')


def joined(*parts: pa.Array | str) -> pa.Array:
    """Return the concatenation of columns and constants; NULL if one of them is NULL."""
    return pc.binary_join_element_wise(*parts, "")


def objects(members: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Return JSON objects. A member that is NULL is left out.

    Args:
        members: JSON text by name.
        rows: the number of objects.
    """
    named = [joined(orjson.dumps(name).decode() + ":", values) for name, values in members.items()]
    if not named:
        return pa.repeat(pa.scalar("{}"), rows)
    absent = named[0].is_null()
    for values in named[1:]:
        absent = pc.and_(absent, values.is_null())
    # Arrow omits the whole element if all of its parts are skipped.
    named[0] = pc.if_else(absent, "", named[0])
    inside = pc.binary_join_element_wise(*named, ",", null_handling="skip")
    return joined("{", inside, "}")


def lines(texts: pa.Array) -> bytes:
    """Return the texts as lines, each with an end."""
    ended = joined(texts, "\n")
    _, offsets, data = ended.buffers()
    bounds = np.frombuffer(offsets, np.int32)[ended.offset : ended.offset + len(ended) + 1]
    body: bytes = data.slice(int(bounds[0]), int(bounds[-1] - bounds[0])).to_pybytes()
    return body
