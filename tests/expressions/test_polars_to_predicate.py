"""The translation of polars' conditions is TRUE for every row that polars selects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal

import polars
import pyarrow as pa
import pytest
from polars import col
from polars.io.plugins import register_io_source

from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.polars_to_predicate import implied_by
from tablefmt.expressions.predicate import to_arrow_expression, to_sql
from tablefmt.model.arrow_types import to_arrow

SCHEMA = schema_from(
    "i BIGINT, j INT, s STRING, d DATE, t TIMESTAMP, w TIMESTAMP_NTZ, f DOUBLE, g FLOAT, "
    "m DECIMAL(10,2), b BOOLEAN, y BINARY"
)

UTC = timezone.utc
DAYS = (date(1969, 12, 31), date(2020, 2, 29), None)
TIMES = (datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2020, 1, 1), None)
FLOATS = (math.nan, -0.0, 0.0, 1.5, math.inf, -math.inf, 0.1, None)
ROWS = pa.table(
    {
        "i": pa.array([0, 1, -5, 2**62, None, 7, 3, 3], pa.int64()),
        "j": pa.array([0, 1, -5, 2**31 - 1, None, 7, 3, 3], pa.int32()),
        "s": ["", "a", "ab", "a%", "é", None, "A", "b"],
        "d": list(itertools.islice(itertools.cycle(DAYS), 8)),
        "t": pa.array(
            [t and t.replace(tzinfo=UTC) for t in itertools.islice(itertools.cycle(TIMES), 8)],
            pa.timestamp("us", "UTC"),
        ),
        "w": pa.array(list(itertools.islice(itertools.cycle(TIMES), 8)), pa.timestamp("us")),
        "f": pa.array(FLOATS, pa.float64()),
        "g": pa.array(FLOATS, pa.float32()),
        "m": pa.array([Decimal(n) / 100 for n in (0, 150, -1, 999)] * 2, pa.decimal128(10, 2)),
        "b": [True, False, None, True, False, None, True, True],
        "y": [b"", b"a", b"\xff", None, b"a\x00", b"b", b"ab", b""],
    },
    schema=to_arrow(SCHEMA),
)

UNDERSTOOD = [
    (col("i") > 1, "`i` > 1"),
    (polars.lit(1) <= col("i"), "`i` >= 1"),
    (col("i").eq_missing(3), "`i` <=> 3"),
    (col("i").is_between(1, 3, closed="left"), "(`i` >= 1) AND (`i` < 3)"),
    (col("i").is_in([1, 2]), "`i` IN (1, 2)"),
    (col("i").is_in([1, None], nulls_equal=True), "(`i` IN (1)) OR (`i` IS NULL)"),
    (~col("i").is_in([1, 2]), "NOT (`i` IN (1, 2))"),
    (col("s") == "it's", "`s` = 'it\\'s'"),
    (col("s").str.starts_with("a%"), "`s` LIKE 'a\\\\%%'"),
    (col("s").is_in(["a", "b"]), "`s` IN ('a', 'b')"),
    (col("d") >= date(2020, 1, 1), "`d` >= DATE '2020-01-01'"),
    (col("t") < datetime(2020, 1, 1, tzinfo=UTC), "`t` < TIMESTAMP '2020-01-01 00:00:00.000000Z'"),
    (col("w") != datetime(2020, 1, 1), "`w` != TIMESTAMP_NTZ '2020-01-01 00:00:00.000000'"),
    (col("f") > 1.5, "`f` > 1.5D"),
    (col("f").is_nan(), "isnan(`f`)"),
    (col("f").is_not_nan(), "NOT isnan(`f`)"),
    (col("m") > Decimal("1.00"), "`m` > 1.00BD"),
    (col("b"), "`b` = TRUE"),
    (~col("b"), "NOT (`b` = TRUE)"),
    (col("y") == b"a", "`y` = X'61'"),
    (col("s").is_null() | col("s").is_not_null(), None),
    ((col("i") > 1) & (col("i") % 2 == 0), "`i` > 1"),
    ((col("i") > 1) | (col("i") % 2 == 0), ""),
    (~((col("i") > 1) & (col("i") % 2 == 0)), ""),
    (~col("f").is_nan(), "NOT isnan(`f`)"),
    (col("f") == math.nan, ""),
    (col("f") < math.inf, ""),
    (col("i") > 1.5, ""),
    (col("i") > col("j"), ""),
    (col("m") > Decimal("1.005"), ""),
    (col("f").is_in([math.nan, 1.5]), ""),
    (col("s").str.to_uppercase() == "A", ""),
    (col("i").is_in([]), ""),
]
"""Conditions and their translation. None: any translation. "": no translation."""


def given_to_sources(condition: polars.Expr) -> str:
    """Return a condition as polars' optimizer passes it to a source, with the types of literals."""
    told: list[str] = []
    frame = polars.DataFrame(ROWS)

    def source(
        _: list[str] | None, predicate: polars.Expr | None, *__: int | None
    ) -> Iterator[polars.DataFrame]:
        assert predicate is not None
        told.append(predicate.meta.serialize(format="json"))
        yield frame.filter(predicate)

    register_io_source(source, schema=dict(frame.schema)).filter(condition).collect()
    return told[0]


@pytest.mark.parametrize("at", range(len(UNDERSTOOD)))
def test_what_is_understood_is_true_for_what_polars_selects(at: int) -> None:
    """PRN-2, PRN-3, PRN-4: proof for a file, with NaN, both zeros and NULL among the values."""
    condition, expected = UNDERSTOOD[at]
    predicate = implied_by(given_to_sources(condition), SCHEMA)
    said = "" if predicate is None else to_sql(predicate)
    assert expected is None or said.replace("(", "").replace(")", "") == expected.replace(
        "(", ""
    ).replace(")", "")
    if predicate is None:
        return
    frame = polars.DataFrame(ROWS).with_row_index("at")
    selected = set(frame.filter(condition)["at"])
    table = ROWS.append_column("at", pa.array(range(ROWS.num_rows)))
    kept = table.filter(to_arrow_expression(predicate, SCHEMA))["at"].to_pylist()
    assert selected <= set(kept)


def test_text_that_is_no_condition_of_polars() -> None:
    """Text of a later polars is not understood, and is no error."""
    for text in ("", "[]", "{}", '{"Column": 5}', '{"BinaryExpr": 1}', '{"New": {"a": 1}}', "null"):
        assert implied_by(text, SCHEMA) is None
