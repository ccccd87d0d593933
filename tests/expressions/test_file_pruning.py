"""Pruning never loses a row, and leaves out what it can prove."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.data.column_bounds import file_bounds, nan_counts
from tablefmt.expressions.file_pruning import (
    NARROWED_FROM,
    decided_by_partitions,
    may_match,
    partition_match,
)
from tablefmt.expressions.predicate import (
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Not,
    Predicate,
    fields,
    normalise,
    to_arrow_expression,
    to_scan_expression,
)
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.scalar_values import decode
from tablefmt.model.schema import Field, Primitive, Schema
from tablefmt.testing.random_conditions import evaluate, predicates, schemas, to_array, values
from tests.scheduling import examples

Rows = list[dict[int, Any]]


def written(rows: Rows, schema: Schema, row_group_size: int) -> bytes:
    arrays = [to_array([r[f.id] for r in rows], f.type) for f in schema.fields]
    out = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=file_schema(schema)), out, row_group_size=row_group_size
    )
    return out.getvalue()


def scanned(body: bytes, predicate: Predicate, schema: Schema) -> pa.Table:
    wide = pq.read_table(io.BytesIO(body), filters=to_scan_expression(predicate, schema))
    return wide.filter(to_arrow_expression(predicate, schema))


def described(
    bodies: list[bytes], files: list[Rows], schema: Schema, partition: int | None, nans: bool
) -> pa.Table:
    """The table of files, by way of the JSON values an entry holds."""
    entries: list[dict[str, Any]] = []
    for body in bodies:
        parquet = pq.ParquetFile(io.BytesIO(body))
        entry = file_bounds(parquet.metadata, schema.fields)
        if nans:
            counts = nan_counts(parquet.read(), schema.fields)
            entry |= {f"nans.{i}": n for i, n in counts.items()}
        entries.append(entry)
    columns: dict[str, Any] = {"rows": pa.array([len(f) for f in files], pa.int64())}
    for field in schema.fields:
        for side in ("lower", "upper", "nulls", "nans"):
            name = f"{side}.{field.id}"
            kind = field.type if side in ("lower", "upper") else Primitive("long")
            if any(name in e for e in entries):
                columns[name] = decode([e.get(name) for e in entries], kind)
        if field.id == partition:
            exact = [f[0][field.id] if f else None for f in files]
            columns[f"partition.{field.id}"] = to_array(exact, field.type)
    return pa.table(columns)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, list[Rows], int | None, Predicate]:
    schema = draw(schemas())
    pools = {f.id: draw(st.lists(values(f.type), min_size=1, max_size=5)) for f in schema.fields}
    partition = draw(st.none() | st.sampled_from(schema.fields))
    files: list[Rows] = []
    for _ in range(draw(st.integers(1, 4))):
        wells = {
            i: st.none() if draw(st.integers(0, 5)) == 0 else st.sampled_from(p) | st.none()
            for i, p in pools.items()
        }
        if partition is not None:
            wells[partition.id] = st.just(draw(wells[partition.id]))
        files.append(draw(st.lists(st.fixed_dictionaries(wells), max_size=5)))
    known = {i: [v for v in p if v is not None] for i, p in pools.items()}
    return schema, files, partition and partition.id, draw(predicates(schema, known))  # type: ignore[return-value]


@pytest.mark.slow
@examples(150)
@given(cases(), st.integers(1, 3), st.booleans())
def test_no_row_is_lost_and_no_row_too_many_is_passed(
    case: tuple[Schema, list[Rows], int | None, Predicate], row_group_size: int, nans: bool
) -> None:
    """PRN-1, PRN-2, PRN-4 .. PRN-10, PRN-12 .. PRN-14: a plain evaluator on written Parquet."""
    schema, files, partition, predicate = case
    partition_ids = frozenset() if partition is None else frozenset({partition})
    expected = [[evaluate(predicate, row) is True for row in rows] for rows in files]
    bodies = [written(rows, schema, row_group_size) for rows in files]

    table = described(bodies, files, schema, partition, nans)
    kept = may_match(predicate, table, partition_ids)
    many = pa.concat_tables([table] * (1 + NARROWED_FROM // table.num_rows))
    assert may_match(predicate, many, partition_ids)[: len(files)].tolist() == kept.tolist()
    normal = normalise(predicate)
    filtered = [scanned(b, predicate, schema).num_rows for b in bodies]

    assert [[evaluate(normal, row) is True for row in rows] for rows in files] == expected
    assert all(kept[i] for i, hits in enumerate(expected) if any(hits))
    assert filtered == [sum(hits) for hits in expected]
    if decided_by_partitions(predicate, partition_ids) and fields(predicate):
        exact = partition_match(predicate, table, partition_ids)
        assert all(exact[i] == any(hits) for i, hits in enumerate(expected) if hits)


NAN = math.nan


def float_conditions(field: Field) -> list[Predicate]:
    asked = [NAN, 0.0, -0.0, 1.0, 1.1, 5.0, math.inf, -math.inf]
    positive: list[Predicate] = [
        Comparison(field, op, v) for op in ("=", "!=", "<", "<=", ">", ">=", "<=>") for v in asked
    ]
    positive += [In(field, (v, w)) for v in asked for w in (None, 1.0, NAN)]
    positive += [IsNaN(field), IsNull(field)]
    return [*positive, *map(Not, positive)]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("row_group_size", [1, 2, 3, 20])
def test_row_groups_whose_statistics_omit_nan_lose_no_row(kind: str, row_group_size: int) -> None:
    """PRN-10: groups of one number and NaN, of both zeros, of NaN alone, of nulls."""
    column = [1.0, NAN, 1.0, 0.0, -0.0, None, NAN, NAN, None, None, math.inf, NAN, -1.0, -0.0]
    field = Field(1, "x", "x", Primitive(kind))
    schema = Schema((field,), 1)
    rows = [{1: v} for v in column]
    body = written(rows, schema, row_group_size)

    for predicate in float_conditions(field):
        found = scanned(body, predicate, schema).column(0).to_pylist()
        expected = [r[1] for r in rows if evaluate(predicate, r) is True]
        assert repr(found) == repr(expected), predicate


@pytest.mark.parametrize("kind", ["float", "double"])
def test_partition_values_decide_exactly(kind: str) -> None:
    """PRN-8: NaN, both zeros and NULL as partition values."""
    column = [1.0, NAN, 0.0, -0.0, None, math.inf]
    field = Field(1, "x", "x", Primitive(kind))
    files = pa.table({"partition.1": to_array(column, field.type)})

    for predicate in float_conditions(field):
        expected = [evaluate(predicate, {1: v}) is True for v in column]
        assert partition_match(predicate, files, frozenset({1})).tolist() == expected, predicate


def test_partition_texts_decide_exactly() -> None:
    """PRN-8: LIKE, alone and negated, with NULL."""
    column = ["ab", "abc", "b", None, ""]
    field = Field(1, "s", "s", Primitive("string"))
    files = pa.table({"partition.1": pa.array(column)})
    like = Like(field, "ab%")
    for predicate, expected in ((like, "11000"), (Not(like), "00101")):
        found = partition_match(predicate, files, frozenset({1}))
        assert "".join("01"[int(m)] for m in found) == expected


LONG = Field(1, "n", "n", Primitive("long"))
DOUBLE = Field(2, "x", "x", Primitive("double"))
TEXT = Field(3, "s", "s", Primitive("string"))

FILES = pa.table(
    {
        "rows": pa.array([10, 10, 10, None, 10, 0], pa.int64()),
        "lower.1": pa.array([1, 5, None, 1, 9, None], pa.int64()),
        "upper.1": pa.array([4, 5, None, 4, 3, None], pa.int64()),
        "nulls.1": pa.array([0, 0, 10, None, 0, 0], pa.int64()),
        "lower.2": pa.array([-1.0, -0.0, None, 1.0, 5.0, None]),
        "upper.2": pa.array([1.0, 0.0, None, 2.0, 7.0, None]),
        "nulls.2": pa.array([0, 0, 0, 0, -3, 0], pa.int64()),
        "nans.2": pa.array([0, 0, 10, None, 4, 0], pa.int64()),
        "lower.3": pa.array(["a", "ab", "abc", "b", None, None]),
        "upper.3": pa.array(["c", "ad", "abd", "b", "z", None]),
        "nulls.3": pa.array([0, 0, 0, 0, 0, 0], pa.int64()),
    }
)


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (Constant(True), "111111"),
        (Constant(False), "000000"),
        (Constant(None), "000000"),
        (Comparison(LONG, "=", 5), "010010"),
        (Comparison(LONG, "!=", 5), "100110"),
        (Comparison(LONG, "<", 2), "100110"),
        (Comparison(LONG, ">", 4), "010010"),
        (Comparison(LONG, "<=>", 4), "100110"),
        (Not(Comparison(LONG, "<=>", 4)), "111110"),
        (In(LONG, (5, 7, None)), "010010"),
        (In(LONG, (*range(5, 60), None)), "010010"),
        (In(LONG, tuple(range(-60, 2))), "100110"),
        (Not(In(LONG, (5, 6))), "100110"),
        (Not(In(LONG, (5, None))), "000000"),
        (IsNull(LONG), "001100"),
        (Not(IsNull(LONG)), "110110"),
        (Comparison(DOUBLE, "=", 0.0), "110000"),
        (Comparison(DOUBLE, "!=", 0.0), "101110"),
        (Comparison(DOUBLE, ">", 3.0), "001110"),
        (Comparison(DOUBLE, "<", 0.0), "100000"),
        (Comparison(DOUBLE, "=", math.nan), "001110"),
        (Comparison(DOUBLE, "<=>", math.nan), "001110"),
        (Comparison(DOUBLE, ">=", math.nan), "001110"),
        (Comparison(DOUBLE, "<=", math.nan), "111110"),
        (Comparison(DOUBLE, "!=", math.nan), "110110"),
        (Comparison(DOUBLE, "<", math.nan), "110110"),
        (Comparison(DOUBLE, ">", math.nan), "000000"),
        (In(DOUBLE, (math.nan, 6.0)), "001110"),
        (In(DOUBLE, (math.nan,)), "001110"),
        (In(LONG, (None,)), "000000"),
        (IsNaN(DOUBLE), "001110"),
        (Not(IsNaN(DOUBLE)), "110110"),
        (Like(TEXT, "ab%"), "111010"),
        (Like(TEXT, "b%x"), "100110"),
        (Like(TEXT, "b"), "100110"),
        (Not(Like(TEXT, "ab%")), "110110"),
        (Not(Like(TEXT, "b")), "111010"),
        # A value may begin with "ab" and not match.
        (Not(Like(TEXT, "ab%?")), "111110"),
        (Not(Like(TEXT, "ab%_")), "111110"),
        (Not(Like(TEXT, "ab%%")), "110110"),
    ],
    ids=repr,
)
def test_only_files_that_may_match_are_kept(predicate: Predicate, kept: str) -> None:
    """PRN-4 .. PRN-7, PRN-9: 1..4, only 5, all null, no counts, bounds crossed, no rows."""
    several = pa.concat_tables([FILES.slice(0, 1), FILES.slice(1)])
    for files in (FILES, several):
        mask = may_match(predicate, files, frozenset())
        assert "".join("01"[int(m)] for m in mask) == kept


def test_a_column_without_statistics_keeps_every_file() -> None:
    """PRN-5."""
    other = Field(9, "o", "o", Primitive("integer"))

    for predicate in (Comparison(other, "=", 1), IsNull(other), Not(IsNull(other))):
        assert may_match(predicate, FILES, frozenset()).tolist() == [True] * 6


def test_counts_that_cannot_be_true_prove_nothing() -> None:
    """PRN-6: more nulls than rows, fewer than none, all null and yet bounded."""
    files = pa.table(
        {
            "rows": pa.array([3, 3, 3], pa.int64()),
            "lower.1": pa.array([None, None, 1], pa.int64()),
            "upper.1": pa.array([None, None, 2], pa.int64()),
            "nulls.1": pa.array([4, -1, 3], pa.int64()),
        }
    )

    assert may_match(IsNull(LONG), files, frozenset()).tolist() == [True] * 3
    assert may_match(Not(IsNull(LONG)), files, frozenset()).tolist() == [True] * 3


def test_files_without_rows_and_counts_of_nan() -> None:
    """PRN-6, PRN-7: only nulls, only NaN, both, no row; counts that exceed no rows."""
    files = pa.table(
        {
            "rows": pa.array([4, 4, 4, 0, 0, 0, 4], pa.int64()),
            "lower.2": pa.array([None, None, None, None, None, None, 1.0]),
            "upper.2": pa.array([None, None, None, None, None, None, 2.0]),
            "nulls.2": pa.array([4, 0, 2, 0, 1, 0, 0], pa.int64()),
            "nans.2": pa.array([0, 4, 2, 0, 0, 1, 0], pa.int64()),
        }
    )

    def kept(predicate: Predicate) -> str:
        return "".join("01"[int(m)] for m in may_match(predicate, files, frozenset()))

    assert kept(IsNull(DOUBLE)) == "1010110"
    assert kept(Not(IsNull(DOUBLE))) == "0110111"
    assert kept(IsNaN(DOUBLE)) == "0110110"
    assert kept(Comparison(DOUBLE, "=", 1.5)) == "0000111"
    assert kept(Comparison(DOUBLE, "<", 1.5)) == "0000111"
    assert kept(Comparison(DOUBLE, ">", 1.5)) == "0110111"


def value_of(field: Field) -> Any:
    """Values of a column in the order of numbers."""
    return "{:02}".format if field == TEXT else int


def bounds_of_every_kind(field: Field) -> pa.Table:
    """Files with each pair of bounds from 0 to 45, known or not, in the right order or crossed."""
    sides = [None, *map(value_of(field), range(0, 46, 3))]
    pairs = [(low, high) for low in sides for high in sides]
    kind = {LONG: pa.int64(), DOUBLE: pa.float64(), TEXT: pa.string()}[field]
    count = len(pairs)
    columns = {
        "rows": pa.array([5] * count, pa.int64()),
        f"lower.{field.id}": pa.array([low for low, _ in pairs], kind),
        f"upper.{field.id}": pa.array([high for _, high in pairs], kind),
        f"nulls.{field.id}": pa.array([0] * count, pa.int64()),
        f"nans.{field.id}": pa.array([at % 2 for at in range(count)], pa.int64()),
    }
    return pa.table(columns)


@pytest.mark.parametrize("field", [LONG, DOUBLE, TEXT], ids=["long", "double", "string"])
@pytest.mark.parametrize("dropped", ["", "lower", "upper", "both"])
def test_many_values_are_the_same_as_each_of_them(field: Field, dropped: str) -> None:
    """PRN-6: IN with more than 16 values keeps what one of the comparisons keeps."""
    files = bounds_of_every_kind(field)
    sides = {"": (), "both": ("lower", "upper")}.get(dropped, (dropped,))
    files = files.drop_columns([f"{side}.{field.id}" for side in sides])
    values: list[Any] = [*range(7, 41, 2), None]
    lists = [values, values[::-1], [*range(7), *range(46, 60)], [7, *range(50, 70), 7]]
    # Some files lie between the last two values.
    lists.append([*range(1, 17), 20, 26])
    if field == DOUBLE:
        lists += [[*values, NAN], [*map(float, range(17))], [0.5 + at for at in range(4, 30)]]
    elif field == TEXT:
        lists = [[v if v is None else f"{v:02}" for v in each] for each in lists]
    for several in (files, pa.concat_tables([files.slice(0, 90), files.slice(90)])):
        for each in lists:
            singles = [
                may_match(Comparison(field, "=", value), several, frozenset())
                for value in each
                if value is not None
            ]
            found = may_match(In(field, tuple(each)), several, frozenset())
            assert found.tolist() == np.any(singles, axis=0).tolist()


def test_a_count_below_zero_is_no_count() -> None:
    """PRN-6: it is unknown; zero NULLs, in contrast, prove something."""
    files = pa.table(
        {
            "rows": pa.array([3, -1, -7, 3, 3, 3, 3], pa.int64()),
            "nulls.1": pa.array([0, 0, -7, -1, -2, None, 0], pa.int64()),
            "nulls.2": pa.array([3, -1, -7, 0, -4, 0, 2], pa.int64()),
            "nans.2": pa.array([0, -1, -7, 3, 7, None, 2], pa.int64()),
        }
    )

    def kept(predicate: Predicate) -> str:
        return "".join("01"[int(m)] for m in may_match(predicate, files, frozenset()))

    assert kept(IsNull(LONG)) == "0011110"
    assert kept(Not(IsNull(LONG))) == "1111111"
    assert kept(Not(IsNull(DOUBLE))) == "0111111"
    assert kept(IsNaN(DOUBLE)) == "0111111"
    assert kept(Comparison(DOUBLE, "=", 1.0)) == "0110111"
    assert kept(Not(IsNaN(DOUBLE))) == "1110111"


def test_a_bound_contradicts_a_count_of_all_rows() -> None:
    """PRN-6: all rows are NaN or NULL, and yet there is a bound; the other count is unknown."""
    files = pa.table(
        {
            "rows": pa.array([3, 3], pa.int64()),
            "lower.2": pa.array([1.0, 1.0]),
            "upper.2": pa.array([2.0, 2.0]),
            "nulls.2": pa.array([None, 3], pa.int64()),
            "nans.2": pa.array([3, None], pa.int64()),
        }
    )
    for predicate in (Not(IsNaN(DOUBLE)), Not(IsNull(DOUBLE)), Comparison(DOUBLE, "=", 1.0)):
        assert may_match(predicate, files, frozenset()).tolist() == [True, True], predicate


def test_partition_match_refuses_what_partitions_do_not_decide() -> None:
    """PRN-8."""
    with pytest.raises(ValueError, match="not decided"):
        partition_match(Comparison(LONG, "=", 1), FILES, frozenset({1}))


def test_a_million_files_cost_no_python_object_each() -> None:
    """PRN-4: the answer for many files comes from whole columns, chunked ones included."""
    count = 300_000
    lower = np.arange(count, dtype=np.int64)
    chunk = pa.table(
        {
            "rows": pa.array(np.ones(count, dtype=np.int64)),
            "lower.1": pa.array(lower),
            "upper.1": pa.array(lower + 1),
            "nulls.1": pa.array(np.zeros(count, dtype=np.int64)),
        }
    )

    mask = may_match(Comparison(LONG, "=", 7), pa.concat_tables([chunk, chunk]), frozenset())

    assert np.flatnonzero(mask).tolist() == [6, 7, count + 6, count + 7]
