"""Schemas that change: ids and physical names stay with their fields, and are never used again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.ddl import schema_from, to_ddl
from tablefmt.log.metadata_json import schema_from_json, schema_to_json
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.defaults import default_array, default_of
from tablefmt.model.schema import (
    Decimal,
    Field,
    Primitive,
    Schema,
    Type,
    all_fields,
    path_of,
    primitive,
)
from tablefmt.model.schema_evolution import (
    merged_schema,
    moved,
    renamed,
    replaced_schema,
    widened,
    with_default,
    with_field,
    without_field,
)
from tablefmt.model.type_widening import is_widening

NESTED = (
    "id INT, s STRUCT<a: INT, b: STRUCT<c: INT, d: STRING>>, l ARRAY<STRUCT<x: FLOAT>>, "
    "m MAP<STRING, STRUCT<k: DATE>>"
)
LONG = Field(0, "", "", Primitive("long"))

names = st.sampled_from(["a", "B", "a_1", "a_2", "b_3", "A_4", "x.y", "ß"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), names),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("rename"), st.integers(0, 9), names),
        st.tuples(st.just("replace"), st.lists(names, min_size=1, max_size=3)),
        st.tuples(st.just("merge"), st.lists(names, min_size=1, max_size=3)),
    ),
    max_size=14,
)


def columns(*wanted: str) -> Schema:
    return Schema(tuple(Field(0, n, n, Primitive("long")) for n in wanted), 0)


def done(schema: Schema, step: tuple[Any, ...]) -> Schema:
    verb, *rest = step
    if verb == "add":
        return with_field(schema, f"`{rest[0]}`" if "." in rest[0] else rest[0], LONG)
    if verb == "drop":
        return without_field(schema, schema.fields[rest[0] % len(schema.fields)].name)
    if verb == "rename":
        return renamed(schema, schema.fields[rest[0] % len(schema.fields)].name, rest[1])
    change = replaced_schema if verb == "replace" else merged_schema
    return change(schema, columns(*rest[0]))


@given(steps)
def test_no_id_and_no_physical_name_is_ever_given_out_twice(steps: list[tuple[Any, ...]]) -> None:
    """SCH-3, SCH-4, SCH-8: a column keeps its id and physical name through other changes."""
    schema = schema_from("a BIGINT, `a_2` BIGINT, b BIGINT")
    history = {f.id: f.physical for f in schema.fields}
    for step in steps:
        before = schema
        try:
            schema = done(schema, step)
        except SchemaMismatchError:
            continue
        assert schema.last_id >= before.last_id
        assert set(before.dropped) <= set(schema.dropped)
        for field in schema.fields:
            assert history.setdefault(field.id, field.physical) == field.physical
        folded = [name.casefold() for name in history.values()]
        assert len(set(folded)) == len(folded)
        assert len({f.name.casefold() for f in schema.fields}) == len(schema.fields)
        assert schema_from_json(schema_to_json(schema)) == schema


def test_merging_adds_at_every_depth_and_widens_within_a_kind() -> None:
    """SCH-8: the rest stays as it is, and where nothing is new it is the same schema."""
    table = schema_from(NESTED + ", d DECIMAL(10,2), p INT, t STRING NOT NULL")
    incoming = schema_from(
        "new STRING NOT NULL, T INT, ID BIGINT, P BIGINT, d DECIMAL(12,4), "
        "s STRUCT<b: STRUCT<e: BINARY NOT NULL, C: SMALLINT>, z: INT>, "
        "l ARRAY<STRUCT<y: INT, x: DOUBLE>>, m MAP<STRING, STRUCT<k: TIMESTAMP_NTZ, j: INT>>"
    )
    merged = merged_schema(table, incoming, fixed={table.find("p").id})
    wanted = (
        "id BIGINT, s STRUCT<a: INT, b: STRUCT<c: INT, d: STRING, e: BINARY>, z: INT>, "
        "l ARRAY<STRUCT<x: DOUBLE, y: INT>>, m MAP<STRING, STRUCT<k: DATE, j: INT>>, "
        "d DECIMAL(12,4), p INT, t STRING NOT NULL, new STRING"
    )
    assert to_ddl(merged) == to_ddl(schema_from(wanted))
    old = {f.id: f.physical for f in all_fields(table)}
    assert {f.id: f.physical for f in all_fields(merged) if f.id in old} == old
    assert sorted(f.id for f in all_fields(merged) if f.id not in old) == [17, 18, 19, 20, 21]
    assert merged.last_id == 21
    assert merged_schema(merged, incoming, fixed={table.find("p").id}) is merged
    assert merged_schema(merged, table) is merged


def test_replacing_keeps_columns_of_the_same_name_and_type() -> None:
    """SCH-8."""
    table = renamed(schema_from("a INT, b STRING, s STRUCT<x: INT>"), "a", "q")
    new = replaced_schema(table, schema_from("s STRUCT<x: INT>, B STRING, Q BIGINT, a DATE"))
    assert [(f.id, f.name, f.physical) for f in new.fields] == [
        (3, "s", "s"),
        (2, "B", "b"),
        (5, "Q", "Q"),
        (6, "a", "a_6"),
    ]
    assert new.dropped == ("a",)
    assert replaced_schema(new, new) == new


def test_paths_reach_every_depth() -> None:
    """SCH-8, SCH-9: structs by names, lists by `element`, maps by `key` and `value`."""
    table = schema_from(NESTED)
    changed = renamed(table, "s.b.c", "C.d")
    changed = without_field(changed, "S.b.`C.d`")
    changed = with_field(changed, "s.b.c", LONG, first=True)
    changed = widened(changed, "l.element.x", Primitive("double"))
    changed = widened(changed, "m.value.k", Primitive("timestamp_ntz"))
    changed = moved(changed, "s.b", first=True)
    changed = moved(changed, "m", after="ID")
    assert to_ddl(changed) == to_ddl(
        schema_from(
            "id INT, m MAP<STRING, STRUCT<k: TIMESTAMP_NTZ>>, "
            "s STRUCT<b: STRUCT<c: BIGINT, d: STRING>, a: INT>, l ARRAY<STRUCT<x: DOUBLE>>"
        )
    )
    inside = {f.name: f for f in all_fields(changed)}
    assert (inside["c"].physical, changed.dropped) == (f"c_{inside['c'].id}", ("c",))


@pytest.mark.parametrize(
    "name", ["q", "s.q", "s.a.q", "l.x", "l.element", "m.key.x", "s..a", "s.`a", "", ".", "s.b.c.d"]
)
def test_a_path_to_nothing_is_refused_by_name(name: str) -> None:
    """SCH-8."""
    table = schema_from(NESTED)
    with pytest.raises(SchemaMismatchError):
        without_field(table, name)
    with pytest.raises(SchemaMismatchError):
        renamed(table, name, "new")
    with pytest.raises(SchemaMismatchError):
        moved(table, name, first=True)


def test_a_name_with_dots_is_one_column_if_there_is_one() -> None:
    table = schema_from("`a.b` INT, a STRUCT<b: INT, `c.d`: INT>")
    assert path_of(table, "a.b") == ("a.b",)
    assert path_of(table, "`a`.b") == ("a", "b")
    assert path_of(table, "a.`c.d`") == ("a", "c.d")
    assert path_of(table, "`x.y`", new=True) == ("x.y",)
    with pytest.raises(SchemaMismatchError, match="no column 'x'"):
        path_of(table, "x.y", new=True)
    assert path_of(table, "a.y", new=True) == ("a", "y")


KINDS: list[Type] = [
    *(Primitive(n) for n in ("byte", "short", "integer", "long", "float", "double")),
    *(Primitive(n) for n in ("string", "boolean", "date", "timestamp", "timestamp_ntz", "binary")),
    *(Decimal(*ps) for ps in ((3, 0), (10, 0), (10, 2), (12, 2), (20, 0), (24, 4), (38, 10))),
]
VALUES: dict[str, list[Any]] = {
    "byte": [-128, 127],
    "short": [-(2**15), 2**15 - 1],
    "integer": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [1.5, float("inf"), -0.0],
    "decimal(3,0)": [Number(999), Number(-999)],
    "decimal(10,0)": [Number(10**10 - 1)],
    "decimal(10,2)": [Number("99999999.99")],
    "decimal(12,2)": [Number("-9999999999.99")],
    "decimal(20,0)": [Number(10**20 - 1)],
    "decimal(24,4)": [Number("99999999999999999999.9999")],
    "date": [-719162, 0, 2932896],
}


PAIRS = [(a, b) for a, b in itertools.permutations(KINDS, 2) if is_widening(a, b)]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=str)
def test_a_wider_type_holds_every_value(old: Type, new: Type) -> None:
    """SCH-9: there and back, without loss; and no pair leads back."""
    assert not is_widening(new, old)
    values = pa.array(VALUES[str(old)], arrow_type(old))
    wide = values
    if pa.types.is_integer(values.type) and pa.types.is_decimal(arrow_type(new)):
        wide = wide.cast(pa.decimal128(38, 0))
    wide = wide.cast(arrow_type(new))
    assert wide.cast(arrow_type(old)).equals(values)


def test_the_widenings_are_those_of_sparks_reader() -> None:
    """SCH-9."""
    found = {f"{a}>{b}" for a, b in PAIRS}
    ints = ["byte", "short", "integer", "long"]
    wanted = {f"{a}>{b}" for a, b in itertools.combinations(ints, 2)}
    wanted |= {f"{a}>double" for a in ("byte", "short", "integer", "float")}
    wide = ("decimal(10,0)", "decimal(12,2)", "decimal(20,0)", "decimal(24,4)", "decimal(38,10)")
    wanted |= {f"{a}>{b}" for a in ints[:3] for b in wide}
    wanted |= {f"long>{b}" for b in wide[2:]}
    wanted |= {f"decimal(3,0)>{b}" for b in (*wide, "decimal(10,2)")}
    wanted |= {f"decimal(10,0)>{b}" for b in wide[1:]}
    wanted |= {f"decimal(10,2)>{b}" for b in ("decimal(12,2)", "decimal(24,4)", "decimal(38,10)")}
    wanted |= {"decimal(12,2)>decimal(24,4)", "decimal(12,2)>decimal(38,10)"}
    wanted |= {"decimal(20,0)>decimal(24,4)", "decimal(20,0)>decimal(38,10)"}
    wanted |= {"decimal(24,4)>decimal(38,10)", "date>timestamp_ntz"}
    assert found == wanted


def test_values_follow_a_column_that_gets_wider() -> None:
    """SCH-7, SCH-9."""
    table = with_default(schema_from("d DECIMAL(5,2), i INT, day DATE"), "d", Number("1.5"))
    assert table.fields[0].default == "1.50"
    table = widened(table, "d", Decimal(12, 4))
    assert table.fields[0].default == "1.5000"
    table = widened(with_default(table, "i", -7), "i", Decimal(11, 1))
    assert table.fields[1].default == "-7.0"
    table = replace(table, fields=(*table.fields[:2], replace(table.fields[2], initial=2)))
    assert widened(table, "day", Primitive("timestamp_ntz")).fields[2].initial == 2 * 86_400_000_000
    assert with_default(table, "I", None).fields[1].default is None


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, "integer"),
        ("1", "integer"),
        (True, "integer"),
        (1, "boolean"),
        (2**31, "integer"),
        (3, "date"),
        (3, "timestamp"),
        (3, "string"),
        (b"x", "string"),
        ("2020-01-01", "date"),
        (Number("1.234"), "decimal(5,2)"),
        (Number("12345"), "decimal(5,2)"),
    ],
)
def test_a_default_is_a_value_of_its_column(value: Any, kind: str) -> None:
    """SCH-7."""
    with pytest.raises(SchemaMismatchError, match="default"):
        default_of(value, primitive(kind), "c")


def test_a_default_comes_back_as_it_was() -> None:
    """SCH-7, VAL-1."""
    kind = Primitive("double")
    (value,) = default_array(default_of(float("nan"), kind, "c"), kind).to_pylist()
    assert value != value
    assert default_array(default_of(pa.scalar(2, pa.int8()), kind, "c"), kind).to_pylist() == [2.0]
    assert default_array(None, kind).to_pylist() == [None]
