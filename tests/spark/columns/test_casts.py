"""Casts from text: constants and columns, as Spark casts them or refused, never otherwise."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tablefmt.data.sql_evaluation import Engine
from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.constant_values import cast_target, constant_value
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.literals import literal_sql
from tablefmt.expressions.sql_parser import Relation, parse_tree
from tablefmt.expressions.sql_to_duckdb import translate
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.scalar_values import encode

BLANKS = ["", " ", "\t", "\n\r", "\x0b", "\x1c\x1f", "\x00", "\x7f", "\x80", "\x85", "\u00a0"]
BLANKS += ["\u1680", "\u2003", "\u2028", "\u3000", "\ufeff", "\u200b"]

TYPES = {
    "BOOLEAN": ["1", "TRUE", "y", "no", "2", "ｔ"],
    "TINYINT": ["-128", "+7", "128", "1.0", "٣"],
    "INT": ["2147483647", "-0", "1e1"],
    "BIGINT": ["-9223372036854775808", "1L"],
    "DECIMAL(5,2)": ["1.005", ".5", "5.", "1000", "-1e2"],
    "FLOAT": ["1.1", "1e39", "-0", "1f"],
    "DOUBLE": ["1.5", "NaN", "-Infinity", "+inf", "1e-400", "0x1p3", "1d"],
    "DATE": ["2024-02-29", "2024-2-9", "2024", "2024-02-30", "+12024-01-01", "0000-01-01",
             "2024-01-01T", "2024-01-01 x", "1582-10-10"],
    "TIMESTAMP": ["2024-01-01", "2024-01-01 01:02", "2024-01-01T01:02:03.1234567Z",
                  "2024-1-1 1:2:3",
                  "2024-01-01 01:02:03+02:00", "2024-01-01 00:00:00 Europe/Berlin", "24:00", "2024",
                  "2024-01-01 24:00:00", "2024-01-01 01:02:03 UTC+1", "2024-01-01 01:02:60"],
    "TIMESTAMP_NTZ": ["2024-01-01", "2024-01-01 01:02:03.5", "2024-01-01 01:02:03Z", "12:00"],
}  # fmt: skip


NOT_DONE = {"0x1p3"}
"""Java's hexadecimal floats."""


def cases(name: str) -> list[str]:
    first = TYPES[name][0]
    padded = [f"{b}{first}{b}" for b in BLANKS[1:]] + [
        f"{first}{BLANKS[8]} ",
        f"{first[:1]} {first}",
    ]
    return [*TYPES[name], *padded, *BLANKS]


def told(value: Any) -> Any:
    """Values that compare as people mean it: NaN is itself, both zeros differ."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def of_spark(spark: Any) -> dict[str, list[Any]]:
    """Return Spark's cast of each text, in our form of values. None means that Spark refuses it."""
    parts = []
    for name in TYPES:
        if name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
            # As microseconds: Python has no time beyond its calendar.
            epoch = f"{name} '1970-01-01 00:00:00{'Z' if name == 'TIMESTAMP' else ''}'"
            made = f"timestampdiff(MICROSECOND, {epoch}, try_cast(t AS {name}))"
        elif name == "DATE":
            made = "unix_date(try_cast(t AS DATE))"
        else:
            made = f"try_cast(t AS {name})"
        rows = ", ".join(f"({n}, {literal_sql(t, 'string')})" for n, t in enumerate(cases(name)))
        parts.append((name, f"SELECT n, {made} AS v FROM VALUES {rows} AS c(n, t) ORDER BY n"))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        # Folding would evaluate on one row after the other what the codegen does at once.
        return {name: [row.v for row in spark.sql(text).collect()] for name, text in parts}
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def of_constant(name: str, text: str) -> Any:
    node = parse_tree(f"CAST({literal_sql(text, 'string')} AS {name})")
    assert isinstance(node, exp.Cast)
    found = constant_value(node, "UTC")
    assert found is not None
    return found.value


def of_engine(engine: Engine, name: str, text: str, *, column: bool) -> Any:
    schema = schema_from("t STRING")
    operand = "t" if column else literal_sql(text, "string")
    made = translate(f"CAST({operand} AS {name})", (Relation(schema),))
    (value,) = engine.evaluate(pa.table({"t0": [text]}), [made])
    kind = cast_target(parse_tree(f"CAST(NULL AS {name})").args["to"])
    assert kind is not None
    assert value.type == arrow_type(kind)
    (plain,) = encode(value.combine_chunks(), kind)
    return value[0].as_py() if name in ("FLOAT", "DOUBLE") or "DECIMAL" in name else plain


def test_texts_are_cast_as_spark_casts_them_or_refused(spark: Any) -> None:
    """PRN-3, SQL-1, SQL-2: a constant exactly as in Spark; in the engine an error at most."""
    engine = Engine()
    wrong = []
    agreed = 0
    for name, values in of_spark(spark).items():
        for text, wanted in zip(cases(name), values, strict=True):
            for way in ("constant", "literal", "column"):
                try:
                    if way == "constant":
                        found = of_constant(name, text)
                    else:
                        found = of_engine(engine, name, text, column=way == "column")
                except (InvalidPredicateError, UnsupportedFeatureError):
                    if way == "constant" and wanted is not None and text not in NOT_DONE:
                        wrong.append((name, way, text, wanted, "refused"))
                    continue
                agreed += 1
                if told(found) != told(wanted):
                    wrong.append((name, way, text, wanted, found))
    assert wrong == []
    assert agreed > 250
