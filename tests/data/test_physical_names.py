"""Fields that have other names in data files than in the table, at any depth (SCH-3)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import tablefmt
from tablefmt.data.value_conversion import relabelled
from tablefmt.model.schema import Array, Field, Map, Primitive, Schema, Struct

LONG, TEXT = Primitive("long"), Primitive("string")

INNER = Struct((Field(9, "u", "v", LONG), Field(10, "v", "u", LONG)))

# x and y have changed places, and in was called out once.
SCHEMA = Schema(
    (
        Field(1, "a", "b", LONG),
        Field(2, "b", "a", LONG),
        Field(3, "s", "t", Struct((Field(4, "x", "y", LONG), Field(5, "y", "x", TEXT)))),
        Field(6, "l", "m", Array(Struct((Field(7, "in", "out", LONG),)), element_id=11)),
        Field(8, "m", "l", Map(TEXT, INNER, key_id=12, value_id=13)),
    ),
    13,
)
ROWS: list[dict[str, Any]] = [
    {
        "a": 1,
        "b": 2,
        "s": {"x": 3, "y": "four"},
        "l": [{"in": 5}, None, {"in": None}],
        "m": [("k", {"u": 6, "v": 7}), ("n", None)],
    },
    {"a": None, "b": 8, "s": None, "l": None, "m": None},
    {"a": 9, "b": None, "s": {"x": None, "y": None}, "l": [], "m": []},
]


@pytest.mark.parametrize("slices", [[0, 3], [0, 1, 2, 3]])
def test_nested_fields_keep_their_values_under_other_names(
    tmp_path: Path, slices: list[int]
) -> None:
    """SCH-3, DAT-1, DAT-4."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    given = pa.Table.from_pylist(ROWS, table.schema)
    for start, stop in itertools.pairwise(slices):
        table.append(given.slice(start, stop - start))
    assert sorted(table.to_arrow().to_pylist(), key=repr) == sorted(ROWS, key=repr)
    assert table.to_arrow(columns=["m", "a"]).column_names == ["m", "a"]
    for path in (tmp_path / "t" / "data").rglob("*.parquet"):
        written = pq.read_schema(path)
        assert written.names == ["b", "a", "t", "m", "l"]
        assert [f.name for f in written.field("t").type] == ["y", "x"]
        assert [f.name for f in written.field("l").type.item_type] == ["v", "u"]
    assert table.to_arrow(where="a = 1").to_pylist() == ROWS[:1]


KINDS = st.recursive(
    st.sampled_from([pa.int64(), pa.string()]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=5,
)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        inner = st.fixed_dictionaries({f.name: _values(f.type) for f in kind})
    elif pa.types.is_map(kind):
        inner = st.dictionaries(st.text(max_size=2), _values(kind.item_type), max_size=2).map(
            lambda found: list(found.items())  # type: ignore[arg-type, return-value]
        )
    elif pa.types.is_list(kind):
        inner = st.lists(_values(kind.value_type), max_size=3)  # type: ignore[assignment]
    else:
        inner = st.integers(0, 9) if pa.types.is_integer(kind) else st.text(max_size=2)  # type: ignore[assignment]
    return st.none() | inner


def _turned(kind: pa.DataType) -> pa.DataType:
    """The same type; the names of every struct's fields the other way round."""
    if pa.types.is_struct(kind):
        names = [f.name for f in kind][::-1]
        return pa.struct([(n, _turned(f.type)) for n, f in zip(names, kind, strict=True)])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _turned(kind.item_type))
    return pa.list_(_turned(kind.value_type)) if pa.types.is_list(kind) else kind


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    kind = draw(KINDS)
    values = draw(st.lists(_values(kind), max_size=6))
    start = draw(st.integers(0, len(values)))
    return pa.array(values, kind).slice(start, draw(st.integers(0, len(values))))


@hypothesis.settings(deadline=None)
@hypothesis.given(arrays())
def test_relabelled_values_are_the_same_by_place(given: pa.Array) -> None:
    turned = relabelled(given, _turned(given.type))
    turned.validate(full=True)
    assert turned.type == _turned(given.type)
    back = relabelled(pa.chunked_array([turned, turned]), given.type)
    assert back.to_pylist() == given.to_pylist() * 2
