"""The narrowest type that holds the values of several, beside a search among all types.

Spec: INC-4, SCH-9.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tablefmt.expressions.ddl import schema_from
from tablefmt.model.schema import Decimal, Primitive, Type
from tablefmt.model.schema_evolution import with_default
from tablefmt.model.type_widening import (
    Era,
    common_type,
    common_types,
    described,
    is_widening,
    parts,
    splits,
)

PLAIN = [
    Primitive(name)
    for name in ("byte", "short", "integer", "long", "float", "double", "date", "timestamp_ntz")
]
ALL: list[Type] = [*PLAIN, *(Decimal(p, s) for p in range(1, 39) for s in range(p + 1))]
SOME: list[Type] = [
    *PLAIN, Primitive("string"), Primitive("timestamp"), Decimal(3, 0), Decimal(5, 5),
    Decimal(10, 0), Decimal(12, 2), Decimal(20, 0), Decimal(20, 19), Decimal(38, 0),
    Decimal(38, 18), Decimal(38, 19),
]  # fmt: skip


def holds(kind: Type, other: Type) -> bool:
    return kind == other or is_widening(other, kind)


def narrowest(kinds: tuple[Type, ...]) -> Type | None:
    """Return the narrowest common type by trying all types."""
    above = [kind for kind in {*ALL, *kinds} if all(holds(kind, each) for each in kinds)]
    least = [kind for kind in above if all(holds(other, kind) for other in above)]
    assert len(least) == bool(above), kinds
    return least[0] if least else None


@pytest.mark.parametrize("one", SOME, ids=str)
def test_no_other_type_that_holds_both_is_narrower(one: Type) -> None:
    """INC-4: the type of a column."""
    for other in SOME:
        assert common_type(one, other) == common_type(other, one) == narrowest((one, other))


def test_the_order_of_types_means_nothing() -> None:
    """INC-4: three types joined one after another give one type, in any order."""
    chance = random.Random(24)
    for kinds in chance.sample(list(itertools.combinations(SOME, 3)), 150):
        joined = set()
        for first, second, third in itertools.permutations(kinds):
            both = common_type(first, second)
            joined.add(None if both is None else common_type(both, third))
        assert joined == {narrowest(kinds)}, kinds


AT_EVERY_DEPTH = "v {0}, s STRUCT<a: {0}, b: STRING>, l ARRAY<{0}>, m MAP<{1}, STRUCT<x: {0}>>"


def test_types_at_every_depth_are_joined() -> None:
    """INC-4: fields of structs, elements, keys and values."""
    one, other, both = (
        schema_from(AT_EVERY_DEPTH.format(*kinds))
        for kinds in (
            ("BIGINT", "DECIMAL(5, 4)"), ("DECIMAL(12, 2)", "DECIMAL(7, 1)"),
            ("DECIMAL(22, 2)", "DECIMAL(10, 4)"),
        )
    )  # fmt: skip
    assert common_types(one, [other]) == (both, [])
    assert common_types(other, [one, other]) == (both, [])
    none = schema_from(AT_EVERY_DEPTH.format("DOUBLE", "DECIMAL(38, 38)"))
    places = common_types(one, [other, none])[1]
    assert [described(place, [Era(0, 1, one), Era(2, 2, none)]) for place in places] == [
        "long at versions 0 to 1, double at version 2",
        "long at versions 0 to 1, double at version 2",
        "long at versions 0 to 1, double at version 2",
        "decimal(5,4) at versions 0 to 1, decimal(38,38) at version 2",
        "long at versions 0 to 1, double at version 2",
    ]


def test_a_default_gets_the_type_that_is_joined() -> None:
    """INC-4, SCH-7."""
    one = with_default(schema_from("v BIGINT"), "v", 7)
    assert common_types(one, [schema_from("v DECIMAL(12, 2)")])[0].fields[0].default == "7.00"


@pytest.mark.parametrize(
    ("kinds", "cuts", "ranges"),
    [
        # Rows of version 2 are read as long, and those of version 3 go as int.
        (["INT", "BIGINT", "INT", "DOUBLE"], [5], [(0, 5), (5, 7)]),
        (["BIGINT", "DOUBLE"], [1, 2], [(0, 1), (1, 2), (2, 3)]),
        (["INT", "BIGINT", "INT", "DOUBLE", "INT", "BIGINT"], [5, 9], [(0, 5), (5, 9), (9, 11)]),
        (["INT", "DOUBLE"], [], [(0, 3)]),
    ],
)
def test_a_range_is_cut_where_types_part(
    kinds: list[str], cuts: list[int], ranges: list[tuple[int, int]]
) -> None:
    """INC-4: two versions of each type."""
    eras = [Era(2 * n, 2 * n + 1, schema_from(f"v {kind}")) for n, kind in enumerate(kinds)]
    places = [(1,)]
    assert splits(places, eras) == cuts
    assert parts(0, eras[-1].last, cuts) == ranges
