"""Schemas from what people pass, and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.ddl import from_spark_json, schema_from, to_ddl, to_spark_json
from tablefmt.model.schema import (
    Array,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    is_variant,
    walk,
)
from tablefmt.model.schema_rules import number_fields
from tablefmt.testing.random_conditions import KINDS
from tests.scheduling import examples

DDL = "id BIGINT NOT NULL, s STRING, a ARRAY<STRUCT<x: INT>>, d DECIMAL(10,2), m MAP<STRING,INT>"

ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("a", pa.list_(pa.struct([("x", pa.int32())]))),
        ("d", pa.decimal128(10, 2)),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)


class StructType:
    """The part of Spark's class of that name that the code uses."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value

    def jsonValue(self) -> dict[str, Any]:
        return self.value


def test_every_way_to_pass_a_schema_gives_the_same_one() -> None:
    """SCH-5."""
    expected = schema_from(ARROW)

    assert schema_from(DDL) == expected
    assert schema_from(expected) is expected
    assert schema_from(to_spark_json(expected)) == expected
    assert schema_from(StructType(to_spark_json(expected, field_ids=True))) == expected
    assert [f.id for f in expected.fields] == [1, 2, 3, 6, 7]


def test_the_json_form_is_sparks() -> None:
    schema = schema_from("id BIGINT NOT NULL, a ARRAY<DECIMAL(5,1)>")

    assert to_spark_json(schema, field_ids=True) == {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {"parquet.field.id": 1}},
            {
                "name": "a",
                "type": {"type": "array", "elementType": "decimal(5,1)", "containsNull": True},
                "nullable": True,
                "metadata": {"parquet.field.id": 2},
            },
        ],
    }


names = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8
)


def without_variants(kind: Type) -> bool:
    """SCH-6: only these types can be the key of a map."""
    return not any(map(is_variant, walk(kind)))


def structs(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[tuple[Field, ...]]:
    field = st.builds(Field, st.just(0), names, st.just(""), inner, st.booleans())
    return st.lists(field, min_size=1, max_size=3, unique_by=lambda f: f.name.casefold()).map(tuple)


types = st.recursive(
    st.sampled_from([*KINDS, Primitive("variant")]),
    lambda inner: (
        structs(inner).map(Struct)
        | inner.map(Array)
        | st.builds(Map, inner.filter(without_variants), inner)
    ),
    max_leaves=5,
)


@examples(150)
@given(structs(types).map(number_fields))
def test_text_and_json_are_read_back_as_the_same_schema(schema: Schema) -> None:
    """SCH-5: names may hold any text."""
    assert from_spark_json(to_spark_json(schema)) == schema
    assert schema_from(to_ddl(schema)) == schema


def test_synonyms_become_the_types_they_are() -> None:
    text = "c REAL, d LONG, e DEC(5,1), f DECIMAL, g TIMESTAMP_LTZ"

    kinds = [str(f.type) for f in schema_from(text).fields]

    assert kinds == ["float", "long", "decimal(5,1)", "decimal(10,0)", "timestamp"]


@pytest.mark.parametrize(
    ("value", "columns", "word"),
    [
        ("c VARCHAR", ["c"], "VARCHAR.*use STRING"),
        ("c CHAR(0)", ["c"], r"CHAR\(0\).*use STRING"),
        ("m MAP<STRING, CHAR(3)>", ["m.value"], r"CHAR\(3\).*use STRING"),
        ("s STRUCT<a: ARRAY<VARCHAR(9)>>", ["s.a.element"], r"VARCHAR\(9\).*use STRING"),
        (
            {"type": "struct", "fields": [{"name": "c", "type": "char(0)", "nullable": True}]},
            ["c"],
            r"CHAR\(0\).*use STRING",
        ),
        ("i INTERVAL DAY", ["i"], "INTERVAL"),
        ("t TIME", ["t"], "TIME"),
        ("n VOID", ["n"], "column 'n'"),
        ("d DECIMAL(39, 0)", ["d"], "39"),
        ("s STRUCT<a: ARRAY<VOID>>", ["s.a.element"], "s.a.element"),
        ("m MAP<VARIANT, INT>", [], "key of a map"),
        ("m MAP<STRUCT<v: VARIANT>, INT>", [], "key of a map"),
        ("a INT, A INT", ["a", "A"], "case"),
        ("a INT DEFAULT 3", ["a"], "DEFAULT"),
        ("a INT) USING parquet AS SELECT (1", [], "cannot read"),
        ("a INT); DROP TABLE (b", [], "cannot read"),
        ("", [], "at least one"),
        ("MAP<INT, INT>", [], "cannot read"),
        (7, [], "got int"),
        ({"type": "struct", "fields": [{"name": "a"}]}, [], "JSON"),
        ({"type": "array", "elementType": "long", "containsNull": True}, [], "StructType"),
        *(
            (
                {"type": "struct", "fields": [{"name": "c", "type": t, "nullable": True}]},
                ["c"],
                "cannot hold",
            )
            for t in ("void", "interval day to second", "time(6)", "string collate X",
                      {"type": "udt", "class": "x"}, "decimal(39,2)")
        ),
    ],
)  # fmt: skip
def test_what_a_table_cannot_hold_is_refused_by_name(
    value: Any, columns: list[str], word: str
) -> None:
    """SCH-5."""
    with pytest.raises(SchemaMismatchError, match=word) as caught:
        schema_from(value)

    assert [c for c in caught.value.columns if c] == columns


def test_json_without_end_is_refused() -> None:
    kind: Any = "long"
    for _ in range(70):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    value = {"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True}]}

    with pytest.raises(SchemaMismatchError, match="deeper"):
        from_spark_json(value)
    with pytest.raises(SchemaMismatchError):
        schema_from("a " + "ARRAY<" * 500 + "INT" + ">" * 500)
    assert Primitive("long") == schema_from("a LONG").fields[0].type
