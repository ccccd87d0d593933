"""One MERGE written for Arrow, for Spark in Python and in SQL has one analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import IdempotenceError
from tablefmt.expressions.merge_statement import Action, Clause, MergeStatement, Side, SourceValues
from tablefmt.expressions.predicate import to_sql
from tablefmt.model.log_entry import RowUpdate
from tablefmt.operations.prepared_merge import prepare_merge
from tablefmt.session.merge_analysis import MergeAnalysis
from tablefmt.session.table_context import TableContext
from tablefmt.spark.statements import sql_commands as sql_statements
from tablefmt.spark.statements.merge_clauses import merge_of

COLUMNS = "id BIGINT, k INT, v STRING, f DOUBLE, d DATE, s STRUCT<a: BIGINT>"
M, N, B = Side.MATCHED, Side.NOT_MATCHED, Side.NOT_MATCHED_BY_SOURCE


@dataclass(frozen=True)
class Facts:
    """Facts of an analysis, without the ways in which engines write expressions."""

    predicate: str | None
    """The predicate of the rows to read, if the source holds 1 in every column."""
    columns: tuple[str, ...] | None
    by_row: bool
    sets: tuple[str, ...]
    keys: tuple[str, ...]
    deletes_always: bool
    parameters: Mapping[str, Any]


def update(condition: str | None = None, side: Side = M, **values: str) -> Clause:
    return Clause(side, Action.UPDATE, condition, values)


STAR = Clause(M, Action.UPDATE)
DELETE = Clause(M, Action.DELETE)
INSERT = Clause(N, Action.INSERT)
DELETE_BY_SOURCE = Clause(B, Action.DELETE)

STATEMENTS: dict[str, tuple[str, list[Clause]]] = {
    "upsert": ("t.id = s.id", [STAR, INSERT]),
    "two keys": ("t.v = s.v AND s.id = t.id", [STAR, INSERT]),
    "a key twice": ("t.id = s.id AND t.id = s.n AND t.k > 5", [STAR, INSERT]),
    "null-safe": ("t.id <=> s.id", [STAR, INSERT]),
    "either": ("t.id = s.id OR t.k = s.k", [STAR]),
    "another value": ("t.id = s.n", [update(id="s.id", v="concat(t.v, 'x')")]),
    "the same value": ("t.id = s.n", [update("t.k IS NOT NULL", id="s.n", k="t.k + 1")]),
    "both zeros": ("t.f = s.f", [update(f="s.f")]),
    "insert only": (
        "t.id = s.id AND t.k = 3",
        [Clause(N, Action.INSERT, "s.n > 1", {"id": "s.n"})],
    ),
    "delete": ("t.id = s.id", [DELETE]),
    "delete some": ("t.id = s.id", [Clause(M, Action.DELETE, "s.n > 1"), STAR]),
    "by source": ("t.id = s.id", [DELETE, Clause(B, Action.DELETE, "t.k >= 7")]),
    "by source, some understood": (
        "t.id = s.id",
        [STAR, update("t.k >= 7 AND length(t.v) = 2", side=B, v="'old'", id="t.id")],
    ),
    "by source, all": ("t.id = s.id", [STAR, INSERT, DELETE_BY_SOURCE]),
    "a date": ("t.d = s.d AND t.d >= DATE '2024-02-01'", [STAR, INSERT]),
    "a field of the table's": ("t.id = s.id AND t.s.a > 1", [STAR]),
    "a field of the source's": ("t.id = s.id AND s.s.a > 1", [STAR, INSERT]),
    "the table alone": ("t.id = 5", [DELETE, INSERT]),
}

LESS: dict[str, dict[str, dict[str, Any]]] = {
    "an expression": {
        # Text of an expression is not taken apart for Spark, which is asked for columns alone.
        "verb": {"predicate": None, "keys": (), "sets": ("id", "v")}
    },
    "another width": {
        # Spark casts the column: then it is an expression.
        "sql": {"predicate": None, "keys": (), "sets": ("k", "v")}
    },
}
"""Ways of writing a MERGE with fewer facts, which widen the read and never narrow it."""

STATEMENTS["an expression"] = ("t.id = s.id + 1", [update(id="s.id + 1", v="s.v"), INSERT])
STATEMENTS["another width"] = ("t.k = s.n", [update(k="s.n", v="s.v")])


def facts(analysis: MergeAnalysis, schema: Any) -> Facts:
    one = {"date": 19750, "string": "a", "double": 1.0}
    condition = analysis.read_condition(
        [
            SourceValues(values=(one.get(str(each.field.type), 1),), has_null=False)
            for each in analysis.equated
        ]
    )
    ids = condition.used_columns
    shown = {
        side: [clause["actionType"] for clause in clauses]
        for side, clauses in analysis.parameters.items()
    }
    return Facts(
        None if condition.predicate is None else to_sql(condition.predicate),
        None if ids is None else tuple(sorted(schema.by_id(i).name for i in ids)),
        condition.by_row,
        tuple(schema.by_id(i).name for i in analysis.set_columns),
        tuple(field.name for field in analysis.key_fields),
        analysis.deletes_always,
        shown,
    )


def text(on: str, clauses: list[Clause]) -> str:
    """The statement in SQL."""
    words = [f"MERGE INTO analysed t USING incoming s ON {on}"]
    for clause in clauses:
        when = f"WHEN {clause.side.value.replace('_', ' ').upper()}"
        condition = "" if clause.condition is None else f" AND {clause.condition}"
        values = clause.values or {}
        if clause.action is Action.DELETE:
            then = "DELETE"
        elif clause.action is Action.UPDATE:
            then = "UPDATE SET " + (", ".join(f"{n} = {v}" for n, v in values.items()) or "*")
        elif not values:
            then = "INSERT *"
        else:
            then = f"INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"
        words.append(f"{when}{condition} THEN {then}")
    return " ".join(words)


@pytest.fixture
def analysed(spark: Any, uri: str) -> Iterator[tablefmt.Table]:
    tablefmt.spark.register(spark)
    table = tablefmt.create(uri, COLUMNS)
    spark.sql(f"CREATE TABLE analysed USING tablefmt OPTIONS (path '{uri}')")
    spark.createDataFrame([], f"{COLUMNS}, n BIGINT").createTempView("incoming")
    yield table
    spark.catalog.dropTempView("incoming")
    spark.sql("DROP TABLE analysed")


def test_three_ways_to_write_a_merge_have_one_analysis(
    spark: Any, analysed: tablefmt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MRG-3, MRG-5, CFL-17, CFL-18, CFL-21: the reads, the set columns, the columns of keys.

    The analyses differ only where it is listed, by fewer facts.
    """
    resolved: list[MergeAnalysis] = []

    def analysis_of(context: TableContext, _: Any, of_version: Any, __: Any) -> Any:
        resolved.append(of_version(context.pin()).analysis)
        return context.no_op("", "MERGE")

    monkeypatch.setattr(sql_statements, "merge_rows", analysis_of)
    source = spark.table("incoming")
    rows = source.toArrow()
    schema = analysed.context.view.head.metadata.schema
    wrong = {}

    for name, (on, clauses) in STATEMENTS.items():
        statement = MergeStatement(on=on, clauses=tuple(clauses))
        with prepare_merge(analysed.context.pin(), rows.to_reader(), statement, 1 << 26) as merge:
            expected = facts(merge.analysis, schema)
        verb = merge_of(spark, statement, source)(analysed.context.pin()).analysis
        spark.sql(text(on, clauses)).collect()
        ways = {"verb": facts(verb, schema), "sql": facts(resolved.pop(), schema)}
        for way, found in ways.items():
            less = replace(expected, **LESS.get(name, {}).get(way, {}))
            if found != less:
                wrong[name, way] = (found, less)

    assert wrong == {}
    assert resolved == []


def test_three_ways_to_carry_a_merge_out_say_the_same_in_the_log(spark: Any, uri: str) -> None:
    """ENT-9, ADD-8: the entries have the same set columns, key columns, hashes and clauses."""
    tablefmt.spark.register(spark)
    columns = "id BIGINT, v STRING, k INT"
    there = [{"id": at, "v": "abcd"[at - 1], "k": 0} for at in range(1, 5)]
    incoming = spark.createDataFrame(
        [(2, "b", 7), (2, "x", 8), (3, "c", 9), (4, "d", None), (None, "y", 1)], columns
    )
    rows = incoming.toArrow()
    incoming.createOrReplaceTempView("incoming")
    on = "t.v = s.v AND s.id = t.id"
    ways: dict[str, Any] = {
        "arrow": lambda table: with_clauses(table.merge(rows, on)).execute(),
        "verb": lambda table: with_clauses(
            tablefmt.spark.open(spark, f"{uri}-verb").merge(incoming, on)
        ).execute(),
        "sql": lambda table: spark.sql(
            f"MERGE INTO merged t USING incoming s ON {on} "
            "WHEN MATCHED AND s.k IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        ).collect(),
    }
    said = {}
    tables = {way: tablefmt.create(f"{uri}-{way}", columns) for way in ways}
    spark.sql(f"CREATE TABLE merged USING tablefmt OPTIONS (path '{uri}-sql')")

    for way, merge in ways.items():
        table = tables[way]
        table.append(pa.Table.from_pylist(there, table.schema))
        merge(table)
        table.refresh()
        entry: Any = table.context.view.entries_after(table.version - 1)[0].entry
        said[way] = (
            entry.update,
            sorted(str(keys) for keys in entry.add.columns["keys"]),
            sorted(zip(entry.add.columns["updated"], entry.add.columns["rows"], strict=True)),
            [
                (side, [clause["actionType"] for clause in entry.operation.parameters[side]])
                for side in ("matchedPredicates", "notMatchedPredicates")
            ],
            {n: v for n, v in entry.operation.metrics.items() if n.startswith("numTargetRows")},
            sorted(table.to_arrow().to_pylist(), key=repr),
        )

    assert said["verb"] == said["arrow"]
    assert said["sql"] == said["arrow"]
    assert said["arrow"][0] == RowUpdate((3,), (1, 2))
    assert said["arrow"][2] == [(False, 2), (True, 2)]
    assert len(said["arrow"][1]) == 2
    spark.catalog.dropTempView("incoming")
    spark.sql("DROP TABLE merged")


def with_clauses(builder: Any) -> Any:
    builder = builder.when_matched_delete("s.k IS NULL").when_matched_update_all()
    return builder.when_not_matched_insert_all()


def test_an_update_is_the_same_statement_on_every_engine(spark: Any, uri: str) -> None:
    """CFL-7: its digest is of its text, so a retry may go another way."""
    table = tablefmt.create(uri, "id BIGINT, v STRING")
    table.append(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.update({"v": "upper(v)"}, "id > 1", application=("job", 1))
    opened = tablefmt.spark.open(spark, uri)

    again = opened.update({"v": "upper(v)"}, "id > 1", application=("job", 1))

    assert (again.already_applied, again.version) == (True, 2)
    with pytest.raises(IdempotenceError):
        opened.update({"v": "lower(v)"}, "id > 1", application=("job", 1))
