"""The golden case of a schema that changes."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from make_golden import Json, Maker, field, plain_rows, schema_of


def evolved() -> Maker:
    """A table whose files were written under two schemas."""
    inner = [field(3, "a", "integer"), field(4, "b", "string")]
    old = [
        field(1, "n", "integer"),
        field(2, "s", {"struct": inner}),
        field(5, "d", "decimal(5,2)"),
        field(6, "day", "date"),
        field(7, "x", "string"),
    ]
    maker = Maker("evolved", old)
    first = {"n": 1, "s": {"a": 1, "b": "old"}, "d": Decimal("1.25"), "day": date(1970, 1, 3)}
    maker.append({**first, "x": "old"}, {**first, "s": None, "d": None, "x": None})
    inner = [field(8, "b", "string", physical="b_8"), field(3, "A", "long", physical="a")]
    new = [
        field(9, "added", "double", default=0.5, initial="NaN"),
        field(2, "s", {"struct": inner}),
        field(1, "N", "decimal(12,1)", physical="n"),
        field(5, "d", "decimal(10,4)"),
        field(6, "day", "timestamp_ntz"),
        field(10, "x", "long", physical="x_10", initial=7),
    ]
    metadata = schema_of(new)
    metadata["schema"]["dropped"] = ["b", "x"]
    maker.commit("METADATA", "ALTER", metadata=metadata)
    second = {"added": None, "s": {"b_8": "new", "a": 2**40}, "n": Decimal("2.5")}
    maker.append({**second, "d": Decimal("0.0001"), "day": datetime(1970, 1, 1, 1), "x_10": 8})
    early = {"added": float("nan"), "N": Decimal("1.0"), "day": datetime(1970, 1, 3), "x": 7}
    late = {"added": None, "s": {"b": "new", "A": 2**40}, "N": Decimal("2.5")}
    rows: list[Json] = [
        {**early, "s": {"b": None, "A": 1}, "d": Decimal("1.2500")},
        {**early, "s": None, "d": None},
        {**late, "d": Decimal("0.0001"), "day": datetime(1970, 1, 1, 1), "x": 8},
    ]
    why = (
        "Columns renamed, moved, widened, dropped, and added under the name of one that was "
        "dropped (SCH-3, SCH-8, SCH-9); values of what a file lacks (SCH-7, DAT-12)."
    )
    return maker.good(why, rows=plain_rows(rows))
