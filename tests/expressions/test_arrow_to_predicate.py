"""Arrow expressions become predicates that never say less, and often exactly the same."""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
import uuid
from decimal import Decimal as D
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.expressions.arrow_to_predicate import WEIGHT_MAX, predicates_from_bytes, predicates_of
from tablefmt.expressions.file_pruning import may_match
from tablefmt.expressions.predicate import (
    FALSE,
    NULL,
    TRUE,
    And,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Not,
    Or,
    Predicate,
    all_of,
    to_sql,
)
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.expressions.substrait import extended_expression
from tablefmt.model.arrow_types import arrow_type, from_arrow, to_arrow
from tablefmt.model.schema import Primitive, Schema, Type, is_float
from tablefmt.testing.random_conditions import evaluate, schemas, to_array, values
from tests.scheduling import examples

UTC = pa.timestamp("us", tz="UTC")
ARROW = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("b", pa.int8()),
        ("s", pa.string()),
        ("x", pa.binary()),
        ("d", pa.date32()),
        ("ts", UTC),
        ("tn", pa.timestamp("us")),
        ("n", pa.decimal128(10, 2)),
        ("f", pa.float32()),
        ("g", pa.float64()),
        ("t", pa.bool_()),
        ("st", pa.struct([("i", pa.int32())])),
        ("li", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)
SCHEMA = from_arrow(ARROW)
F = pc.field
NAN = math.nan
NO_STARTS_WITH = int(pa.__version__.partition(".")[0]) < 26
"""True if Arrow cannot write this function as Substrait."""


def column(name: str) -> Any:
    field = SCHEMA.find(name)
    assert field is not None
    return field


def compare(name: str, op: str, value: Any) -> Comparison:
    return Comparison(column(name), op, value)


I, G, S = column("i"), column("g"), column("s")  # noqa: E741
DAY = dt.date(2020, 1, 1)
NOON = dt.datetime(2020, 1, 1, 12, tzinfo=dt.timezone.utc)
NOON_US = 1_577_880_000_000_000

EXACT: list[tuple[pc.Expression, list[Predicate]]] = [
    (F("i") == 1, [compare("i", "=", 1)]),
    (F("i") != -1, [compare("i", "!=", -1)]),
    (pc.scalar(1) < F("l"), [compare("l", ">", 1)]),
    (F("b") <= 0, [compare("b", "<=", 0)]),
    (F("i") >= 7, [compare("i", ">=", 7)]),
    (F("s") == "é\0", [compare("s", "=", "é\0")]),
    (F("s") > "", [compare("s", ">", "")]),
    (F("x") == b"\xff\0", [compare("x", "=", b"\xff\0")]),
    (F("d") < dt.date(1960, 1, 1), [compare("d", "<", -3653)]),
    (F("ts") == NOON, [compare("ts", "=", NOON_US)]),
    (F("ts") == pa.scalar(5, pa.timestamp("us", "Asia/Tokyo")), [compare("ts", "=", 5)]),
    (F("ts") == pa.scalar(5, pa.timestamp("ms", "UTC")), [compare("ts", "=", 5000)]),
    (F("tn") == NOON.replace(tzinfo=None), [compare("tn", "=", NOON_US)]),
    (F("n") == D("-1.5"), [compare("n", "=", D("-1.50"))]),
    (F("f") < 1.5, [compare("f", "<", 1.5)]),
    (F("g") == 3, [compare("g", "=", 3.0)]),
    (F("g") > 1.5, [And((compare("g", ">", 1.5), Not(IsNaN(G))))]),
    (~(F("g") > 1.5), [Or((compare("g", "<=", 1.5), IsNaN(G)))]),
    (~(F("g") <= 1.5), [compare("g", ">", 1.5)]),
    (F("g") != 1.5, [compare("g", "!=", 1.5)]),
    (F("g") == NAN, [FALSE]),
    (F("g") != NAN, [Not(IsNull(G))]),
    (pc.is_nan(F("g")), [IsNaN(G)]),
    (~pc.is_nan(F("g")), [And((Not(IsNaN(G)), Not(IsNull(G))))]),
    (F("g").isin([1.5]), [In(G, (1.5,))]),
    (F("t"), [compare("t", "=", True)]),
    (~F("t"), [compare("t", "=", False)]),
    (F("i").is_null(), [IsNull(I)]),
    (F("i").is_valid(), [Not(IsNull(I))]),
    (F("i") == pa.scalar(None, pa.int32()), [FALSE]),
    (F("i").isin([1, 2]), [In(I, (1, 2))]),
    (~F("i").isin([1, 2]), [Or((IsNull(I), Not(In(I, (1, 2)))))]),
    (F("i").isin([]), [FALSE]),
    (F("d").isin([DAY]), [In(column("d"), (18262,))]),
    (F("n").isin([D("1.5")]), [In(column("n"), (D("1.50"),))]),
    (pc.scalar(True), [TRUE]),
    (
        (F("i") == 1) & (F("s") == "a") & F("l").is_valid(),
        [compare("i", "=", 1), compare("s", "=", "a"), Not(IsNull(column("l")))],
    ),
    (
        ~((F("i") == 1) | ~(F("s") < "a")),
        [And((compare("i", "!=", 1), compare("s", "<", "a")))],
    ),
    (
        (F("i") == 1) | ((F("i") == 2) | (F("i") == 3)),
        [Or(tuple(compare("i", "=", n) for n in (1, 2, 3)))],
    ),
]


@pytest.mark.parametrize(("expression", "expected"), EXACT, ids=lambda v: str(v)[:40])
def test_plain_expressions_become_exactly_these_trees(
    expression: pc.Expression, expected: list[Predicate]
) -> None:
    """PRN-15: the text of each is read back as a predicate, as a log entry needs it (PRN-1)."""
    assert predicates_of(expression, SCHEMA) == (expected, True)
    if not isinstance(expected[0], Constant):
        assert parse_predicate(to_sql(all_of(expected)), SCHEMA) == all_of(expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (F("i").isin([1, None]), Or((IsNull(I), In(I, (1,))))),
        (pc.is_in(F("i"), pa.array([1, None]), skip_nulls=True), Or((IsNull(I), In(I, (1,))))),
        (~F("i").isin([1, None]), Or((IsNull(I), Not(In(I, (1,)))))),
        (F("g").isin([0.0]), In(G, (0.0,))),
        pytest.param(
            (F("i") == 1) & pc.starts_with(F("s"), "a"),
            compare("i", "=", 1),
            marks=pytest.mark.skipif(NO_STARTS_WITH, reason="needs pyarrow 26"),
        ),
        ((F("i") == 1) & (F("l") + 1 == 2), compare("i", "=", 1)),
        ((F("i") == 1) & (F("st", "i") == 1), compare("i", "=", 1)),
        ((F("i") == 1) & (F("i") == F("i")), compare("i", "=", 1)),
        ((F("i") == 1) & ~F("g").isin([0.0]), compare("i", "=", 1)),
    ],
    ids=str,
)
def test_wider_predicates_are_never_called_exact(
    expression: pc.Expression, expected: Predicate
) -> None:
    """PRN-15: parts that are left out, and sets that Substrait or zero makes wider."""
    assert predicates_of(expression, SCHEMA) == ([expected], False)


def test_a_function_that_substrait_lacks_leaves_out_all_parts() -> None:
    """PRN-15: Arrow converts an expression as a whole, so the other parts prune nothing either."""
    assert predicates_of((F("i") == 1) & pc.match_like(F("s"), "a%"), SCHEMA) == ([], False)


@pytest.mark.parametrize(
    "expression",
    [
        F("i") > 1.5,
        F("i") == 2**40,
        F("i").isin([2**40]),
        F("l").cast(pa.int32(), safe=False) == 1,
        F("n") > D("123456789012.50"),
        F("n") == D("1.505"),
        F("ts") == NOON.replace(tzinfo=None),
        F("d") == dt.datetime(2020, 1, 1),
        pc.year(F("d")) == 2020,
        pc.match_like(F("s"), "a%"),
        pc.starts_with(F("s"), "a"),
        F("s") == 1,
        F("i") == F("l"),
        F("i") == F("i"),
        (F("i") == 1).is_null(),
        F("st", "i") == 1,
        F("st").is_null(),
        F("li").is_null(),
        F("m").is_valid(),
        F("g").is_null(nan_is_null=True),
        pc.is_nan(F("i")),
        ~F("g").isin([NAN]),
        pc.if_else(F("t"), F("t"), F("t")),
        F("missing") == 1,
        F(0) == 1,
        functools.reduce(operator.or_, [F("i") == n for n in range(2_000)]),
    ],
    ids=lambda v: str(v)[:40],
)
def test_what_is_not_understood_prunes_nothing_and_is_no_error(expression: pc.Expression) -> None:
    """PRN-15."""
    assert predicates_of(expression, SCHEMA) == ([], False)


def test_a_line_end_in_a_column_name_does_not_hide_how_deep_an_expression_is() -> None:
    """The shape is read from text with a name on a line, so such names are not converted."""
    schema = from_arrow(pa.schema([("a\nend: 'x'", pa.int32())]))
    assert predicates_of(F(schema.names[0]) == 1, schema) == ([], False)


def test_a_chain_of_twelve_comparisons_is_read() -> None:
    """The limit on Arrow's doubling bytes permits common conditions."""
    chain = functools.reduce(operator.and_, [F("i") != n for n in range(12)])
    assert WEIGHT_MAX == 8192
    assert predicates_of(chain, SCHEMA) == ([compare("i", "!=", n) for n in range(12)], True)


REAL = [bytes(e.to_substrait(ARROW)) for e, _ in EXACT]


@examples(150)
@given(st.data())
def test_no_bytes_make_it_fail(data: st.DataObject) -> None:
    """Anything at all, and real messages cut, doubled and with bytes changed."""
    if data.draw(st.booleans()):
        message = data.draw(st.binary(max_size=200))
    else:
        spoiled = bytearray(data.draw(st.sampled_from(REAL)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(spoiled) - 1))
            spoiled[at] = data.draw(st.integers(0, 255))
        start = data.draw(st.sampled_from([0, 0, 0, 5]))
        message = bytes(spoiled[start : data.draw(st.integers(start, len(spoiled)))])
    found, exact = predicates_from_bytes(message, SCHEMA)
    assert found or not exact


def test_every_prefix_of_a_message_is_read_without_failing() -> None:
    """A cut message may only lose what it says after the condition."""
    for message, (_, expected) in zip(REAL, EXACT, strict=True):
        for end in range(len(message)):
            found, exact = predicates_from_bytes(message[:end], SCHEMA)
            assert (found, exact) in (([], False), (expected, True))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda part: part.ClearField("scalar_function"),
        lambda part: part.scalar_function.arguments[0].ClearField("value"),
        lambda part: part.scalar_function.arguments[0].value.ClearField("selection"),
        lambda part: part.scalar_function.arguments[0].value.selection.ClearField("root_reference"),
        lambda part: part.scalar_function.arguments[1].value.literal.ClearField("i32"),
        lambda part: part.scalar_function.arguments[1].MergeFromString(b"\x08\x01"),
        lambda part: part.scalar_function.MergeFromString(b"\x32\x00"),
    ],
)
def test_a_part_that_lacks_something_or_has_more_is_left_out(spoil: Any) -> None:
    """PRN-15: protobuf reads what is missing as nothing, and passes over what it does not know."""
    both = (F("i") == 1) & (F("l") == 2)
    outer = extended_expression(bytes(both.to_substrait(ARROW)))
    spoil(outer.referred_expr[0].expression.scalar_function.arguments[0].value)
    found = predicates_from_bytes(outer.SerializeToString(), SCHEMA)
    assert found == ([compare("l", "=", 2)], False)


_OPERATORS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


@st.composite
def leaves(draw: st.DrawFn, schema: Schema, pools: dict[int, list[Any]]) -> pc.Expression:
    field = draw(st.sampled_from(schema.fields))
    column, kind = F(field.name), arrow_type(field.type)
    value = st.sampled_from(pools[field.id]) | values(field.type)
    shape = draw(st.sampled_from(["compare", "compare", "compare", "in", "in", "null", "own"]))
    if shape == "compare":
        literal = pc.scalar(to_array([draw(value | st.none())], field.type)[0])
        sides = (column, literal) if draw(st.booleans()) else (literal, column)
        return draw(st.sampled_from(_OPERATORS))(*sides)
    if shape == "in":
        options = to_array(draw(st.lists(value | st.none(), max_size=4)), field.type)
        if pa.types.is_integer(kind) and draw(st.booleans()):
            options = options.cast(pa.int64())
        return pc.is_in(column, options, skip_nulls=draw(st.booleans()))
    if shape == "null":
        return column.is_null() if draw(st.booleans()) else column.is_valid()
    if is_float(field.type):
        return pc.is_nan(column)
    if field.type == Primitive("boolean"):
        return column
    if field.type == Primitive("string"):
        return pc.starts_with(column, "a")
    return pc.scalar(pa.scalar(draw(st.sampled_from([True, False, None])), pa.bool_()))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, list[list[dict[int, Any]]], pc.Expression]:
    schema = draw(schemas())
    pools = {f.id: draw(st.lists(values(f.type), min_size=1, max_size=4)) for f in schema.fields}
    cells = {i: st.sampled_from(pool) | st.none() for i, pool in pools.items()}
    rows = st.lists(st.fixed_dictionaries(cells), max_size=4)

    def grow(inner: st.SearchStrategy[pc.Expression]) -> st.SearchStrategy[pc.Expression]:
        joined = st.tuples(inner, inner, st.sampled_from([operator.and_, operator.or_]))
        return joined.map(lambda t: t[2](t[0], t[1])) | inner.map(operator.invert)

    files = draw(st.lists(rows, min_size=1, max_size=4))
    return schema, files, draw(st.recursive(leaves(schema, pools), grow, max_leaves=5))


def stored(value: Any, kind: Type) -> Any:
    """Return the value as the column stores it: a float column has fewer digits."""
    if value is None or kind != Primitive("float"):
        return value
    return pa.scalar(value, pa.float32()).as_py()


def described(files: list[pa.Table], schema: Schema, nans_known: bool) -> pa.Table:
    """The files' bounds and counts, by Arrow's own kernels."""
    columns: dict[str, list[Any]] = {"rows": [t.num_rows for t in files]}
    kinds: dict[str, pa.DataType] = {"rows": pa.int64()}
    for field in schema.fields:
        kind = arrow_type(field.type)
        for table in files:
            column = table[field.name]
            nulls, nans = column.null_count, 0
            if is_float(field.type):
                nan = pc.fill_null(pc.is_nan(column), False)
                nans = pc.sum(nan).as_py() or 0
                column = column.filter(pc.invert(nan))
            bounds = pc.min_max(column)
            for name, value, its_kind in (
                ("lower", bounds["min"], kind),
                ("upper", bounds["max"], kind),
                ("nulls", nulls, pa.int64()),
                ("nans", nans if nans_known else None, pa.int64()),
            ):
                kinds[f"{name}.{field.id}"] = its_kind
                columns.setdefault(f"{name}.{field.id}", []).append(value)
    arrays = {}
    for name, found in columns.items():
        scalars = [v.as_py() if isinstance(v, pa.Scalar) and not v.is_valid else v for v in found]
        parts = [
            pa.array([v], kinds[name]) if not isinstance(v, pa.Scalar) else pa.repeat(v, 1)
            for v in scalars
        ]
        arrays[name] = pa.concat_arrays(parts)
    return pa.table(arrays)


@pytest.mark.slow
@examples(150)
@given(cases(), st.booleans())
def test_pruning_loses_no_row_of_arrows_own_filter(
    case: tuple[Schema, list[list[dict[int, Any]]], pc.Expression], nans_known: bool
) -> None:
    """PRN-4, PRN-15: Arrow's filter on the whole is the oracle, and a plain evaluator."""
    schema, files, expression = case
    tables = []
    files = [[{i: stored(row[i], schema.by_id(i).type) for i in row} for row in f] for f in files]
    for rows in files:
        arrays = [to_array([r[f.id] for r in rows], f.type) for f in schema.fields]
        tables.append(pa.Table.from_arrays(arrays, schema=to_arrow(schema)))
    numbered = [t.append_column("#", pa.array(range(t.num_rows), pa.int64())) for t in tables]
    chosen = [set(t.filter(expression)["#"].to_pylist()) for t in numbered]

    parts, exact = predicates_of(expression, schema)
    condition = all_of(parts)
    kept = may_match(condition, described(tables, schema, nans_known), frozenset())
    said = [{n for n, row in enumerate(rows) if evaluate(condition, row) is True} for rows in files]

    assert all(kept[n] for n, hits in enumerate(chosen) if hits)
    assert all(hits <= more for hits, more in zip(chosen, said, strict=True))
    assert not exact or chosen == said


FLOATS = [NAN, 0.0, -0.0, 1.0, 1.5, math.inf, -math.inf]


@pytest.mark.parametrize("name", ["f", "g"])
@pytest.mark.parametrize("negated", [False, True])
def test_every_float_condition_means_what_arrow_makes_of_it(name: str, negated: bool) -> None:
    """PRN-2, PRN-15: NaN and both zeros under every comparison and set; a pair of them in one."""
    kind = ARROW.field(name).type
    rows = [*FLOATS, None]
    table = pa.table({name: pa.array(rows, kind), "#": range(len(rows))})
    scalars = [pc.scalar(pa.scalar(v, kind)) for v in [*FLOATS, None]]
    conditions = [compare(F(name), v) for compare in _OPERATORS for v in scalars]
    compared = len(conditions)
    conditions += [F(name).isin(pa.array([a, b], kind)) for a in rows for b in rows]
    conditions.append(pc.is_nan(F(name)))
    for n, plain in enumerate(conditions):
        expression = ~plain if negated else plain
        chosen = set(table.filter(expression)["#"].to_pylist())
        parts, exact = predicates_of(expression, SCHEMA)
        said = {
            i for i, v in enumerate(rows) if evaluate(all_of(parts), {column(name).id: v}) is True
        }
        assert chosen <= said, str(expression)
        assert not exact or chosen == said, str(expression)
        assert exact or compared <= n < len(conditions) - 1, str(expression)


SAID = ["operation", "operationParameters", "operationMetrics"]
DAYS = [dt.date(2020, 1, d) for d in (1, 2, 3)]
ROWS = pa.table({"d": pa.array([*DAYS, *DAYS, None], pa.date32()), "v": list(range(7))})


def test_a_scan_by_an_expression_reads_only_that_partitions_files(tmp_path: Path) -> None:
    """PRN-15: the partition decides, and bounds within it. `explain` names both."""
    table = tablefmt.create(tmp_path / "t", ROWS.schema, partition_by=["d"])
    table.append(ROWS)
    scan = table.scan(where=F("d") == DAYS[1])
    assert scan.to_arrow()["v"].to_pylist() == [1, 4]
    assert scan.files()["partition"].to_pylist() == [{"d": DAYS[1]}]
    assert "1 of 4 files" in scan.explain()
    assert "pruned by `d` = DATE '2020-01-02'" in scan.explain()

    partly = table.scan(where=(F("v") < 1) & (F("v") == F("v")))
    assert partly.to_arrow()["v"].to_pylist() == [0]
    assert partly.files().num_rows == 1

    whole = table.scan(where=pc.year(F("d")) == 2020)
    assert sorted(whole.to_arrow()["v"].to_pylist()) == [0, 1, 2, 3, 4, 5]
    assert "a pyarrow expression filters rows; it does not prune files" in whole.explain()


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (F("d") == DAYS[1], "d = DATE '2020-01-02'"),
        (F("d").isin(DAYS[1:]), "d IN (DATE '2020-01-02', DATE '2020-01-03')"),
        (~F("d").isin([DAYS[0]]), "d IS NULL OR d NOT IN (DATE '2020-01-01')"),
        (F("d").is_null() | (F("d") > DAYS[1]), "d IS NULL OR d > DATE '2020-01-02'"),
    ],
    ids=str,
)
def test_an_overwrite_by_an_expression_is_the_one_by_text(
    tmp_path: Path, expression: pc.Expression, text: str
) -> None:
    """PRN-15: the same rows are replaced, and the log entries are equal."""
    new = ROWS.filter(expression).set_column(
        1, "v", pa.array([9] * ROWS.filter(expression).num_rows)
    )
    found = []
    for name, where in (("e", expression), ("t", text)):
        table = tablefmt.create(tmp_path / name, ROWS.schema, partition_by=["d"])
        table.append(ROWS)
        table.overwrite(new, where=where)
        rows = table.to_arrow().sort_by([("d", "ascending"), ("v", "ascending")])
        (said,) = table.history(limit=1).select(SAID).to_pylist()
        said["operationMetrics"] = [m for m in said["operationMetrics"] if "Time" not in m[0]]
        found.append((rows, said))
    assert found[0] == found[1]
    untouched = ROWS.num_rows - new.num_rows
    assert sum(v != 9 for v in found[0][0]["v"].to_pylist()) == untouched


@pytest.mark.parametrize(
    "expression",
    [
        (F("d") == DAYS[0]) & pc.starts_with(F("s"), "a"),
        F("d").isin([DAYS[0], None]),
        pc.year(F("d")) == 2020,
        (F("d") == DAYS[0]) & (F("s") == "a"),
    ],
    ids=str,
)
def test_an_overwrite_by_what_is_not_exact_looks_at_rows(expression: pc.Expression) -> None:
    """PRN-15, MRG-6: no row is replaced by a condition that is wider than the given one."""
    words = pa.array(["a", "ab", "b", None, "a", "c", "a"])
    rows = pa.table({"d": ROWS["d"], "s": words})
    table = tablefmt.create(
        f"memory://substrait-{uuid.uuid4().hex}", rows.schema, partition_by=["d"]
    )
    table.append(rows)
    expected = rows.filter(pc.if_else(pc.fill_null(_mask(rows, expression), False), False, True))
    table.truncate(expression)
    assert sorted(map(str, table.to_arrow().to_pylist())) == sorted(map(str, expected.to_pylist()))


def _mask(rows: pa.Table, expression: pc.Expression) -> pa.ChunkedArray:
    numbered = rows.append_column("at", pa.array(range(rows.num_rows)))
    kept = numbered.filter(expression)["at"]
    return pc.is_in(numbered["at"], kept.combine_chunks())


def test_null_is_no_constant_of_its_own() -> None:
    """A NULL condition selects nothing, under NOT as well."""
    null = pc.scalar(pa.scalar(None, pa.bool_()))
    assert predicates_of(null, SCHEMA) == predicates_of(~null, SCHEMA) == ([FALSE], True)
    assert NULL != FALSE
