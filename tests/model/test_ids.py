"""Ids of fields, elements, keys and values, through everything that is done to a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import CorruptEntryError, SchemaMismatchError
from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.log.metadata_json import schema_from_json, schema_to_json
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.schema import (
    ID_MAX,
    Primitive,
    Schema,
    all_ids,
    id_places,
    nullable,
    physical,
    without_comments,
)
from tablefmt.model.schema_evolution import (
    merged_schema,
    moved,
    renamed,
    replaced_schema,
    widened,
    with_comment,
    with_field,
    without_field,
)
from tablefmt.model.schema_rules import number_fields
from tests.scheduling import examples

DDL = (
    "id BIGINT, l ARRAY<INT>, m MAP<STRING, ARRAY<STRUCT<x: INT, y: MAP<INT, FLOAT>>>>, "
    "s STRUCT<a: ARRAY<ARRAY<INT>>, b: INT>, last DATE"
)
TABLE = schema_from(DDL)


def paths(schema: Schema) -> dict[str, int]:
    """Independent of the package's walks: ids by path, out of the JSON form."""

    def inside(kind: Any, path: str) -> Iterator[tuple[str, int]]:
        for field in kind.get("struct", []) if isinstance(kind, dict) else []:
            yield from column(field, path)
        if isinstance(kind, dict) and "array" in kind:
            yield f"{path}.element", kind["element_id"]
            yield from inside(kind["array"], f"{path}.element")
        if isinstance(kind, dict) and "map" in kind:
            for at, name in enumerate(("key", "value")):
                yield f"{path}.{name}", kind[f"{name}_id"]
                yield from inside(kind["map"][at], f"{path}.{name}")

    def column(field: dict[str, Any], path: str) -> Iterator[tuple[str, int]]:
        where = f"{path}.{field['physical']}"
        yield where, field["id"]
        yield from inside(field["type"], where)

    return dict(pair for field in schema_to_json(schema)["fields"] for pair in column(field, ""))


def test_ids_are_given_out_depth_first_to_all_that_is_in_a_column() -> None:
    """SCH-4."""
    expected = [
        ".id", ".l", ".l.element", ".m", ".m.key", ".m.value", ".m.value.element",
        ".m.value.element.x", ".m.value.element.y", ".m.value.element.y.key",
        ".m.value.element.y.value", ".s", ".s.a", ".s.a.element", ".s.a.element.element", ".s.b",
        ".last",
    ]  # fmt: skip
    assert paths(TABLE) == {path: i for i, path in enumerate(expected, 1)}
    assert TABLE.last_id == len(expected)
    assert list(all_ids(TABLE)) != []
    assert sorted(all_ids(TABLE)) == list(range(1, 18))


def test_every_form_of_a_schema_numbers_alike_and_keeps_the_ids() -> None:
    """SCH-1, SCH-4: DDL, Spark's JSON, and the JSON of an entry there and back."""
    assert schema_from(to_spark_json(TABLE)) == TABLE
    assert schema_from_json(orjson.loads(orjson.dumps(schema_to_json(TABLE)))) == TABLE
    for view in (nullable, without_comments, physical):
        assert list(all_ids(view(TABLE))) == list(all_ids(TABLE))


def test_a_parquet_file_has_the_ids_at_every_level(tmp_path: Any) -> None:
    """DAT-1: read back by Arrow from the file."""
    path = str(tmp_path / "x.parquet")
    pq.write_table(file_schema(TABLE).empty_table(), path, store_schema=False)
    found: dict[str, int] = {}

    def look(field: pa.Field, path: str) -> None:
        found[path] = int(field.metadata[b"PARQUET:field_id"])
        kind = field.type
        if pa.types.is_struct(kind):
            for i in range(kind.num_fields):
                look(kind.field(i), f"{path}.{kind.field(i).name}")
        elif pa.types.is_map(kind):
            look(kind.key_field, f"{path}.key")
            look(kind.item_field, f"{path}.value")
        elif pa.types.is_list(kind):
            look(kind.value_field, f"{path}.element")

    for field in pq.read_schema(path):
        look(field, f".{field.name}")
    assert found == paths(TABLE)


CHANGES: list[Callable[[Schema], Schema]] = [
    lambda s: with_field(s, "late", schema_from("c MAP<INT, ARRAY<INT>>").fields[0]),
    lambda s: with_field(s, "m.value.element.z", schema_from("c ARRAY<INT>").fields[0]),
    lambda s: renamed(s, "l", "L2"),
    lambda s: renamed(s, "s.a", "aa"),
    lambda s: moved(s, "m", first=True),
    lambda s: with_comment(s, "s.b", "said"),
    lambda s: widened(s, "l.element", Primitive("long")),
    lambda s: widened(s, "s.a.element.element", Primitive("short")),
    lambda s: widened(s, "l", schema_from("c ARRAY<INT>").fields[0].type),
    lambda s: without_field(s, "s.b"),
    lambda s: without_field(s, "m"),
    lambda s: merged_schema(
        s, schema_from("l ARRAY<BIGINT>, s STRUCT<n: ARRAY<INT>>, more MAP<INT, INT>")
    ),
    lambda s: replaced_schema(s, schema_from("id BIGINT, l ARRAY<INT>, n ARRAY<INT>")),
]


@examples(60)
@given(chosen=st.lists(st.sampled_from(CHANGES), max_size=6))
def test_what_stays_keeps_its_ids_and_what_is_new_gets_new_ones(
    chosen: list[Callable[[Schema], Schema]],
) -> None:
    """SCH-3, SCH-4, SCH-8: columns are compared by physical path, after any valid changes."""
    schema, ever = TABLE, paths(TABLE)
    for change in chosen:
        try:
            after = change(schema)
        except SchemaMismatchError:
            continue
        known = paths(after)
        ids = list(all_ids(after))
        assert sorted(known.values()) == sorted(ids)
        assert len(set(ids)) == len(ids)
        assert schema.last_id <= after.last_id
        assert max(ids) <= after.last_id
        for path, identity in known.items():
            if identity <= schema.last_id:
                assert ever[path] == identity
        before, places = id_places(schema), id_places(after)
        assert sorted(places) == sorted(ids)
        assert {i: places[i] for i in before.keys() & places.keys()}.items() <= before.items()
        ever |= known
        assert schema_from_json(schema_to_json(after)) == after
        schema = after


def test_the_ids_of_hidden_columns_are_not_given_out() -> None:
    """SCH-4, DAT-11."""
    fields = schema_from("a INT, b ARRAY<INT>").fields
    assert number_fields(fields, ID_MAX - 2).last_id == ID_MAX
    with pytest.raises(SchemaMismatchError):
        number_fields(fields, ID_MAX - 1)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda j: j["fields"][1]["type"].update(element_id=1), "SCH-4"),
        (lambda j: j["fields"][1]["type"].update(element_id=0), "SCH-4"),
        (lambda j: j["fields"][1]["type"].update(element_id=18), "SCH-4"),
        (lambda j: j["fields"][2]["type"].update(key_id=6), "SCH-4"),
        (lambda j: j.update(last_id=ID_MAX + 1), "SCH-4"),
        (lambda j: j["fields"][1]["type"].update(element_id=True), "SCH-1"),
        (lambda j: j["fields"][1]["type"].update(element_id=None), "SCH-1"),
        (lambda j: j["fields"][1]["type"].pop("element_id"), "SCH-1"),
        (lambda j: j["fields"][2]["type"].pop("value_id"), "SCH-1"),
    ],
)
def test_ids_that_are_none_are_refused(change: Callable[[Any], Any], rule: str) -> None:
    """SCH-1, SCH-4."""
    value = orjson.loads(orjson.dumps(schema_to_json(TABLE)))
    change(value)
    with pytest.raises(CorruptEntryError) as caught:
        schema_from_json(value)
    assert caught.value.rule == rule
