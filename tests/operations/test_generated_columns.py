"""Generated columns without Spark: filled, checked, computed again, and kept in order (GEN)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import (
    ConcurrentModificationException,
    ConstraintViolationError,
    InvalidPredicateError,
    SchemaMismatchError,
    TableExistsError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import schema_from, to_ddl
from tablefmt.expressions.generated_columns import declared_schema, defined, generated_columns
from tablefmt.log.codec import encode
from tablefmt.log.metadata_json import metadata_from_json, metadata_to_json
from tablefmt.model.features import GENERATED, WRITER_FEATURES
from tablefmt.model.log_entry import Constraint, Metadata
from tablefmt.operations.create import create, create_as, definition
from tablefmt.snapshot import head as snapshot_head
from tablefmt.table import Table
from tests.scheduling import examples
from tests.tables import assert_sound, handle, memory

UTC = dt.timezone.utc
DDL = (
    "id BIGINT, ts TIMESTAMP, s STRING, "
    "`day` DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), "
    "twice BIGINT NOT NULL GENERATED ALWAYS AS (coalesce(id, 0) * 2), "
    "start STRING GENERATED ALWAYS AS (substring(s, 1, 2)) COMMENT 'of s'"
)
EXPRESSIONS = {
    "day": "CAST(ts AS DATE)",
    "twice": "coalesce(id, 0) * 2",
    "start": "substring(s, 1, 2)",
}


def new_table(ddl: Any = DDL, **how: Any) -> Table:
    return Table(create(memory(), ddl, **how))


def at(day: int, hour: int = 23) -> dt.datetime:
    return dt.datetime(2026, 1, day, hour, 30, tzinfo=UTC)


Row = dict[str, Any]


def whole(row: Row) -> Row:
    """The model: what a row of DDL holds, by plain Python."""
    ts, s = row.get("ts"), row.get("s")
    return {
        "id": row.get("id"),
        "ts": ts,
        "s": s,
        "day": None if ts is None else ts.date(),
        "twice": (row.get("id") or 0) * 2,
        "start": None if s is None else s[:2],
    }


def sorted_rows(table: Table) -> list[Row]:
    return in_order(table.refresh().to_arrow().to_pylist())


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(list(row.values())))


def test_a_definition_is_kept_told_and_read_again() -> None:
    """GEN-1: the log has a constraint for each, and the feature. Names are found by column."""
    table = new_table(partition_by=["day"])
    assert table.generated == handle(table.context.store).generated == EXPRESSIONS
    assert table.constraints == {}
    head = table.context.view.head
    assert head.protocol.writer == (GENERATED,)
    assert head.protocol.reader == ()
    assert {n: c.condition for n, c in head.metadata.constraints.items()} == {
        "generated.4": "`day` <=> (CAST(ts AS DATE))",
        "generated.5": "`twice` <=> (coalesce(id, 0) * 2)",
        "generated.6": "`start` <=> (substring(s, 1, 2))",
    }
    assert [c.columns for c in head.metadata.constraints.values()] == [(2, 4), (1, 5), (3, 6)]
    text = to_ddl(declared_schema(head.metadata))
    assert "`twice` BIGINT NOT NULL GENERATED ALWAYS AS (coalesce(id, 0) * 2)" in text
    assert definition(text, ["day"], {}) == head.metadata
    assert metadata_from_json(metadata_to_json(head.metadata)) == head.metadata
    (entry,) = (stored.entry for stored in table.context.view.entries_after(-1))
    assert b'"writer":["generatedColumns"]' in encode(entry)
    assert_sound(table.context.store)


SPARK_JSON = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {
            "name": "twice",
            "type": "long",
            "nullable": True,
            "metadata": {"delta.generationExpression": "id * 2"},
        },
    ],
}
DEFINITIONS: dict[str, Callable[[], Table]] = {
    "ddl": lambda: new_table("id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2)"),
    "lower case": lambda: new_table("id bigint, twice bigint generated always as ( id * 2 )"),
    "argument": lambda: new_table("id BIGINT, twice BIGINT", generated={"TWICE": "id * 2"}),
    "arrow": lambda: new_table(
        pa.schema([("id", pa.int64()), ("twice", pa.int64())]), generated={"twice": "id * 2"}
    ),
    "delta": lambda: new_table(SPARK_JSON),
    "both": lambda: new_table(SPARK_JSON, generated={"twice": "id * 2"}),
}


@pytest.mark.parametrize("way", DEFINITIONS)
def test_every_way_to_define_one_is_the_same(way: str) -> None:
    """GEN-1"""
    table = DEFINITIONS[way]()
    table.append(pa.table({"id": [3]}))
    assert table.generated == {"twice": "id * 2"}
    assert table.to_arrow().to_pylist() == [{"id": 3, "twice": 6}]


WRONG: dict[type[TablefmtError], dict[str, tuple[str, str]]] = {
    InvalidPredicateError: {
        "chance": ("a INT, b DOUBLE AS (rand())", "over time"),
        "clock": ("a INT, b DATE AS (current_date())", "over time"),
        "no column": ("a INT, b INT AS (c)", "'c'"),
        "itself": ("a INT, b INT AS (b)", "itself a generated"),
        "another": ("a INT, b INT AS (a), c INT AS (b)", "'b', which is itself a generated"),
        "several rows": ("a INT, b INT AS (sum(a))", "one row"),
        "query": ("a INT, b INT AS ((SELECT 1))", "one row"),
    },
    UnsupportedFeatureError: {
        "java": ("a INT, b STRING AS (reflect('a', 'b'))", r"reflect\(\)"),
    },
    SchemaMismatchError: {
        "narrower": ("a DOUBLE, b INT AS (a)", "has type double, but the column is integer"),
        "text": ("a INT, b STRING AS (a)", "has type integer"),
        "null": ("a INT, b INT AS (NULL)", "has type NULL"),
        "nested": ("a INT, b ARRAY<INT> AS (array(a))", "cannot be generated"),
        "length": ("a STRING, b CHAR(2) AS (a)", r"char\(2\)"),
        "variant": ("a VARIANT, b BOOLEAN AS (a IS NULL)", "holds variants"),
        "empty": ("a INT, b INT AS ( )", "needs an expression"),
        "rest": ("a INT, b INT AS (a) + 1", "cannot read"),
        "open": ("a INT, b INT AS (a", "cannot read"),
        "twice": ("a INT, b INT AS (a) AS (a)", "not supported in a schema"),
        "identity": ("a INT, b BIGINT AS (a) AS IDENTITY", "cannot have an expression"),
        "field": ("a STRUCT<x: INT AS (1)>", "not supported in a schema"),
        "breaks out": ("a INT, b INT AS (a), c INT)", "read"),
    },
}
"""Definitions, where AS means GENERATED ALWAYS AS, and words of the error."""


@pytest.mark.parametrize(("error", "name"), [(e, n) for e, cases in WRONG.items() for n in cases])
def test_a_wrong_expression_is_refused_and_creates_nothing(
    error: type[TablefmtError], name: str
) -> None:
    """GEN-2: the error says what is wrong; there is no table."""
    definition, words = WRONG[error][name]
    ddl = definition.replace(" AS ", " GENERATED ALWAYS AS ")
    store = memory()
    with pytest.raises(error, match=words):
        create(store, ddl)
    assert list(store.list_after("")) == []


@pytest.mark.parametrize(
    ("generated", "words"),
    [
        ({"c": "a"}, "no column 'c'"),
        ({"b": 1}, "needs an expression"),
        ({"b": "a", "B": "a + 1"}, "two expressions"),
        (["b"], "expected a dict"),
    ],
)
def test_a_wrong_argument_is_refused(generated: Any, words: str) -> None:
    """GEN-2"""
    with pytest.raises(SchemaMismatchError, match=words):
        new_table("a INT, b INT", generated=generated)


def test_wider_types_are_allowed() -> None:
    """GEN-2: a type that holds every value of the expression (SCH-9)."""
    table = new_table(
        "i INT, d DATE, l BIGINT GENERATED ALWAYS AS (i + 1), "
        "n TIMESTAMP_NTZ GENERATED ALWAYS AS (d), x DECIMAL(12,2) GENERATED ALWAYS AS (i)"
    )
    table.append([{"i": 1, "d": dt.date(2026, 1, 5)}, {"i": None, "d": None}])
    assert table.to_arrow().select(["l", "n", "x"]).to_pylist() == [
        {"l": 2, "n": dt.datetime(2026, 1, 5), "x": 1},
        {"l": None, "n": None, "x": None},
    ]
    table.append(table.to_arrow())
    assert table.count() == 4


WRITES: dict[str, Callable[[Table, Any], Any]] = {
    "append": lambda table, rows: table.append(rows),
    "overwrite": lambda table, rows: table.overwrite(rows),
    "where": lambda table, rows: table.overwrite(rows, where="id >= 0 OR `day` IS NULL"),
    "partition": lambda table, rows: table.overwrite(rows, where="day >= '2000-01-01'"),
    "dynamic": lambda table, rows: table.overwrite(rows, dynamic_partitions=True),
    "transaction": lambda table, rows: table.transaction().append(rows).commit(),
    "merge": lambda table, rows: (
        table.merge(rows, "t.id = s.id").when_not_matched_insert_all().execute()
    ),
    "merge schema": lambda table, rows: (
        table.merge(rows, "t.id = s.id", merge_schema=True).when_not_matched_insert_all().execute()
    ),
    "evolution": lambda table, rows: table.append(rows, merge_schema=True),
    "pipe": lambda table, rows: _piped(table, rows),
}


def _piped(table: Table, rows: pa.Table) -> Any:
    source = tablefmt.create("memory://generated-pipe-source", rows.schema, exist_ok=True)
    source.append(rows)
    try:
        return tablefmt.pipe(source).into(table, keys="id")
    finally:
        tablefmt.drop("memory://generated-pipe-source")


def shape(*names: str) -> pa.Schema:
    return pa.schema([field for field in new_table().schema if field.name in names])


@pytest.mark.share(2)
@pytest.mark.parametrize("name", WRITES)
def test_every_write_fills_and_checks(name: str) -> None:
    """GEN-3: missing columns are computed, given ones are checked, and nothing is half-written."""
    table = new_table(partition_by=["day"])
    rows = [{"id": 1, "ts": at(5), "s": "abc"}, {"id": 2, "ts": at(6), "s": None}]
    given = [{**row, "start": whole(row)["start"]} for row in rows]
    kept = pa.Table.from_pylist(given, shape("id", "ts", "s", "start"))
    for wrong in ("xx", None):
        bad = pa.Table.from_pylist(
            [given[1], {**given[0], "start": wrong}], shape("id", "ts", "s", "start")
        )
        before = table.refresh().version
        files = [one.key for one in table.context.store.list_after("")]
        with pytest.raises(ConstraintViolationError, match="generated column `start`") as caught:
            WRITES[name](table, bad)
        assert caught.value.row is not None
        assert caught.value.row["start"] == wrong
        assert table.refresh().version == before
        assert [one.key for one in table.context.store.list_after("")] == files
    WRITES[name](table, kept)
    assert sorted_rows(table) == in_order([whole(row) for row in rows])
    days = {row["partition"]["day"] for row in table.scan().partitions().to_pylist()}
    assert days == {dt.date(2026, 1, 5), dt.date(2026, 1, 6)}
    assert_sound(table.context.store)


def test_not_null_counts_for_computed_values() -> None:
    """GEN-3, DAT-3"""
    table = new_table("id BIGINT, twice BIGINT NOT NULL GENERATED ALWAYS AS (id * 2)")
    with pytest.raises(ConstraintViolationError, match=r"'twice' is NOT NULL.*id \* 2"):
        table.append([{"id": 1}, {"id": None}])
    with pytest.raises(InvalidPredicateError, match="'twice'"):
        table.append([{"id": 1 << 62}])
    assert table.refresh().version == 0


def test_a_check_sees_computed_values() -> None:
    """GEN-3, DAT-13: constraints are checked over the whole row."""
    table = new_table()
    table.alter.add_constraint("early", "`day` < '2026-01-10'")
    table.append([{"id": 1, "ts": at(9)}])
    with pytest.raises(ConstraintViolationError, match="'early'"):
        table.append([{"id": 1, "ts": at(10)}])
    assert table.constraints == {"early": "`day` < '2026-01-10'"}


def test_update_computes_again_and_refuses_another_value() -> None:
    """GEN-4: ENT-9 has the computed columns too."""
    table = new_table(partition_by=["day"])
    rows = [{"id": n, "ts": at(5), "s": "abc"} for n in (1, 2)]
    table.append(rows)
    version = table.update({"ts": "TIMESTAMP '2026-02-01 00:00:00'", "id": "id + 10"}, "id = 1")
    rows[0] = {"id": 11, "ts": dt.datetime(2026, 2, 1, tzinfo=UTC), "s": "abc"}
    assert sorted_rows(table) == in_order([whole(row) for row in rows])
    entry = table.context.view.entries_after(version.version - 1)[0].entry
    assert entry.update is not None
    assert entry.update.set == (1, 2, 4, 5)
    table.update({"day": "CAST(ts AS DATE)", "twice": "22"}, "id = 11")
    for values in ({"day": "DATE '2026-02-02'"}, {"ts": "ts", "day": "NULL"}, {"start": "'x'"}):
        with pytest.raises(ConstraintViolationError, match="generated column"):
            table.update(values, "id = 11")
    assert sorted_rows(table) == in_order([whole(row) for row in rows])


def test_merge_computes_by_clause() -> None:
    """GEN-4: a clause may set the column itself, and another one leave it out."""
    table = new_table()
    table.append([{"id": n, "ts": at(n), "s": f"{n}bc"} for n in (1, 2, 3)])
    source = pa.Table.from_pylist(
        [
            {"id": 1, "ts": at(20), "s": "x", "day": at(20).date(), "kind": 0},
            {"id": 2, "ts": at(21), "s": "y", "day": None, "kind": 1},
            {"id": 8, "ts": at(22), "s": "z", "day": at(22).date(), "kind": 0},
            {"id": 9, "ts": at(23), "s": None, "day": None, "kind": 1},
        ],
        pa.schema([*shape("id", "ts", "s", "day"), ("kind", pa.int32())]),
    )
    merge = table.merge(source, "t.id = s.id")
    merge = merge.when_matched_update({"ts": "s.ts", "day": "s.day"}, "s.kind = 0")
    merge = merge.when_matched_update({"ts": "s.ts", "s": "s.s"})
    merge = merge.when_not_matched_insert({"id": "s.id", "ts": "s.ts"}, "s.kind = 1")
    merge = merge.when_not_matched_insert_all()
    merge = merge.when_not_matched_by_source_update({"s": "'late'"})
    done = merge.execute()
    assert sorted_rows(table) == in_order(
        [
            whole({"id": 1, "ts": at(20), "s": "1bc"}),
            whole({"id": 2, "ts": at(21), "s": "y"}),
            whole({"id": 3, "ts": at(3), "s": "late"}),
            whole({"id": 8, "ts": at(22), "s": "z"}),
            whole({"id": 9, "ts": at(23), "s": None}),
        ]
    )
    entry = table.context.view.entries_after(done.version - 1)[0].entry
    assert entry.update is not None
    assert entry.update.set == (2, 3, 4, 6)
    wrong = table.merge(source, "t.id = s.id").when_matched_update({"ts": "s.ts", "day": "s.day"})
    with pytest.raises(ConstraintViolationError, match="`day`"):
        wrong.execute()


def test_the_schema_keeps_sources_and_follows_the_column() -> None:
    """GEN-5, ENT-10"""
    table = new_table()
    table.append([{"id": 1, "ts": at(5), "s": "abc"}])
    refused: dict[str, Callable[[], Any]] = {
        "'ts' cannot be dropped; drop 'day' first": lambda: table.alter.drop_column("ts"),
        "'id' cannot be renamed; drop 'twice' first": lambda: table.alter.rename_column("id", "x"),
        "cannot have another type": lambda: table.alter.widen_column("twice", "DECIMAL(20,0)"),
        "'id' cannot be widened": lambda: table.alter.widen_column("id", "DECIMAL(20,0)"),
        "cannot have a default": lambda: table.alter.set_default("day", dt.date(2026, 1, 1)),
        "a table that exists": lambda: table.alter.add_column("z", "INT GENERATED ALWAYS AS (1)"),
        "does not start with 'generated.'": lambda: table.alter.add_constraint(
            "Generated.4", "id > 0"
        ),
        "drop the column instead": lambda: table.alter.drop_constraint("generated.4"),
        "'ts' cannot be replaced": lambda: table.overwrite(
            table.to_arrow().drop_columns(["ts"]), overwrite_schema=True
        ),
    }
    for words, call in refused.items():
        with pytest.raises(SchemaMismatchError, match=words):
            call()
    assert table.refresh().version == 1
    table.alter.rename_column("day", "on")
    table.alter.drop_column("twice")
    table.alter.add_column("note", "STRING")
    table.append([{"id": 2, "ts": at(6), "s": "de", "note": "n"}])
    table.overwrite(table.to_arrow().drop_columns(["start", "note"]), overwrite_schema=True)
    assert table.generated == {"on": "CAST(ts AS DATE)"}
    with pytest.raises(ConstraintViolationError, match="`on`"):
        table.append([{"id": 1, "ts": at(5), "on": at(6).date()}])
    assert sorted_rows(table) == [
        {"id": 1, "ts": at(5), "s": "abc", "on": at(5).date()},
        {"id": 2, "ts": at(6), "s": "de", "on": at(6).date()},
    ]
    table.restore(version=1)
    assert table.refresh().generated == EXPRESSIONS
    table.append([{"id": 3, "ts": None}])
    assert sorted_rows(table) == in_order(
        [whole({"id": 1, "ts": at(5), "s": "abc"}), whole({"id": 3})]
    )
    assert_sound(table.context.store)


def test_rows_of_another_definition_conflict() -> None:
    """GEN-5, CFL-5: rows without the renamed column are not committed."""
    table = new_table()
    table.append([{"id": 1, "ts": at(5)}])
    transaction = table.transaction().append([{"id": 2, "ts": at(6)}])
    handle(table.context.store).alter.rename_column("day", "on")
    with pytest.raises(ConcurrentModificationException, match="changed schema"):
        transaction.commit()


def test_an_existing_table_must_have_the_same_expressions() -> None:
    """GEN-1: `exist_ok`, whatever ids the columns have."""
    store = memory()
    table = Table(create(store, "x INT, " + DDL))
    table.alter.drop_column("x")
    Table(create(store, DDL, exist_ok=True))
    for other in (
        DDL.replace("* 2", "* 3"),
        DDL.replace("GENERATED ALWAYS AS (CAST(ts AS DATE))", ""),
    ):
        with pytest.raises(TableExistsError):
            create(store, other, exist_ok=True)


@pytest.mark.parametrize("function", ["minute(ts)", "date_format(ts, 'yyyy')"])
def test_what_only_spark_computes_is_refused_by_name(function: str) -> None:
    """GEN-3: before any row is read; the table can be created and read."""
    kind = "INT" if function.startswith("minute") else "STRING"
    table = new_table(f"id INT, ts TIMESTAMP, h {kind} GENERATED ALWAYS AS ({function})")
    with pytest.raises(UnsupportedFeatureError, match=r"'h'.*without Spark"):
        table.append([{"id": 1, "ts": at(5)}])
    with pytest.raises(UnsupportedFeatureError, match=r"the generated column `h`.*without Spark"):
        table.append(pa.table({"id": [1], "h": pa.nulls(1)}))
    assert table.refresh().to_arrow().num_rows == 0


HOSTILE = {
    "breaks out": ("`b` <=> (a) OR (TRUE)", (1, 2)),
    "java": ("`b` <=> (java_method('java.lang.Runtime', 'getRuntime'))", (1, 2)),
    "itself": ("`b` <=> (b)", (1, 2)),
    "unknown": ("`b` <=> (zzz)", (1, 2)),
    "empty": ("`b` <=> ( )", (1, 2)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_expression_of_a_hostile_log_is_not_evaluated(name: str) -> None:
    """GEN-3, SQL-6: it is refused by name; nothing is computed from it."""
    condition, columns = HOSTILE[name]
    fields = schema_from("a INT, b INT")
    metadata = Metadata(fields, constraints={"generated.2": Constraint(condition, columns)})
    store = memory()
    table = Table(create_as(store, metadata))
    assert [each.field.name for each in generated_columns(metadata)] == ["b"]
    with pytest.raises(UnsupportedFeatureError, match=r"'b'|`b`"):
        table.append([{"a": 1}])
    assert table.refresh().to_arrow().to_pylist() == []


@pytest.mark.parametrize(
    ("name", "condition", "columns"),
    [
        ("generated.9", "`b` <=> (a)", (1, 2)),
        ("generated.2", "`b` <=> (a)", (1,)),
        ("generated.2", "`a` <=> (1)", (1, 2)),
        ("generated.2", "b <=> (a)", (1, 2)),
        ("generated.two", "`b` <=> (a)", (1, 2)),
        ("Generated.2", "`b` <=> (a)", (1, 2)),
    ],
)
def test_other_constraints_of_such_a_name_are_plain(
    name: str, condition: str, columns: tuple[int, ...]
) -> None:
    """GEN-1: only the exact form makes a column a generated one."""
    metadata = Metadata(
        schema_from("a INT, b INT"), constraints={name: Constraint(condition, columns)}
    )
    assert generated_columns(metadata) == ()
    assert defined(metadata) == metadata


def test_a_writer_without_the_feature_refuses_and_a_reader_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GEN-1, ENT-7: an older writer would evaluate the expression in its own time zone."""
    table = new_table("id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2)")
    table.append([{"id": 1}])
    monkeypatch.setattr(snapshot_head, "WRITER_FEATURES", WRITER_FEATURES - {GENERATED})
    older = handle(table.context.store)
    assert older.to_arrow().to_pylist() == [{"id": 1, "twice": 2}]
    with pytest.raises(UnsupportedFeatureError, match="generatedColumns"):
        older.append([{"id": 2}])


@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_has_generated_columns(shallow: bool, tmp_path: Path) -> None:
    """GEN-1, CLN-1: with the feature."""
    table = tablefmt.create(str(tmp_path / "t"), DDL)
    table.append([{"id": 1, "ts": at(5), "s": "abc"}])
    clone = table.clone(str(tmp_path / "c"), shallow=shallow)
    assert GENERATED in clone.context.view.head.protocol.writer
    clone.append([{"id": 2, "ts": at(6)}])
    assert clone.generated == EXPRESSIONS
    wanted = [whole({"id": 1, "ts": at(5), "s": "abc"}), whole({"id": 2, "ts": at(6)})]
    assert in_order(clone.refresh().to_arrow().to_pylist()) == in_order(wanted)


# --- the model ---

IDS = st.none() | st.integers(-5, 5)
TIMES = st.none() | st.builds(at, st.integers(1, 4), st.integers(0, 23))
TEXTS = st.none() | st.sampled_from(["", "a", "ab", "abc", "äöü"])
ROWS = st.lists(st.fixed_dictionaries({"id": IDS, "ts": TIMES, "s": TEXTS}), min_size=1, max_size=4)
GIVEN = st.sets(st.sampled_from(["day", "twice", "start"]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), ROWS, GIVEN),
        st.tuples(st.just("wrong"), ROWS, GIVEN),
        st.tuples(st.just("update"), st.integers(-5, 5), st.sampled_from(["id", "ts", "s"])),
        st.tuples(st.just("merge"), ROWS, GIVEN),
        st.tuples(st.just("dynamic"), ROWS, GIVEN),
    ),
    max_size=5,
)
SETS: dict[str, tuple[str, Callable[[Row], Any]]] = {
    "id": ("id + 1", lambda row: row["id"] + 1),
    "ts": ("TIMESTAMP '2026-01-31 12:30:00'", lambda row: at(31, 12)),
    "s": ("concat('z', s)", lambda row: None if row["s"] is None else "z" + row["s"]),
}


def arrow(rows: list[Row], given: set[str]) -> pa.Table:
    names = ("id", "ts", "s", *given)
    return pa.Table.from_pylist([whole(row) for row in rows], shape(*names))


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@examples(15)
@given(steps=STEPS, partitioned=st.booleans())
def test_any_statements_leave_what_the_model_has(
    mode: str, steps: list[tuple[Any, ...]], partitioned: bool
) -> None:
    """GEN-3, GEN-4: rows equal a model in plain Python after every statement."""
    by = ["day"] if partitioned else []
    table = new_table(partition_by=by, properties={"deleteMode": mode})
    model: list[Row] = []
    for kind, *arguments in steps:
        if kind == "update":
            number, column = arguments
            text, change = SETS[column]
            table.update({column: text}, f"id = {number}")
            model = [
                whole({**row, column: change(row)}) if row["id"] == number else row for row in model
            ]
            continue
        rows, names = arguments
        new = [whole(row) for row in rows]
        data = arrow(rows, names)
        if kind == "wrong":
            at_column = data.schema.get_field_index("twice")
            if at_column < 0:
                continue
            off = pa.array([row["twice"] + 1 for row in new], pa.int64())
            with pytest.raises(ConstraintViolationError, match="`twice`"):
                table.append(data.set_column(at_column, "twice", off))
        elif kind == "append":
            table.append(data)
            model += new
        elif kind == "dynamic":
            table.overwrite(data, dynamic_partitions=True)
            days = {row["day"] for row in new} if partitioned else {row["day"] for row in model}
            model = [row for row in model if row["day"] not in days] + new
        else:
            keyed = {row["id"]: row for row in new if row["id"] is not None}
            chosen = [row for row in new if keyed.get(row["id"]) is row or row["id"] is None]
            merge = table.merge(arrow(chosen, names), "t.id = s.id")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
            there = {row["id"] for row in model if row["id"] is not None}
            model = [keyed.get(row["id"], row) if row["id"] is not None else row for row in model]
            model += [row for row in chosen if row["id"] is None or row["id"] not in there]
        assert sorted_rows(table) == in_order(model)
    assert sorted_rows(table) == in_order(model)
