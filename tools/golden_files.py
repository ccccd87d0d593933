"""Golden cases of data files in the shapes that writers give them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from golden_maker import Json, Maker, field

NEWER: Json = {
    "store_decimal_as_integer": True,
    "row_group_size": 2,
    "dictionary_pagesize_limit": 128 << 10,
    "compression": "zstd",
}
"""As files are written since decimals are integers; row groups are small, for the case to be."""

LEGAL: Json = {"row_group_size": 3, "write_page_index": True, "data_page_version": "2.0"}
"""What other engines write."""


def file_shapes() -> Iterator[Maker]:
    """Files of every age side by side, with rows gone from each."""
    kinds = {"a": "decimal(9,2)", "b": "decimal(18,4)", "c": "decimal(38,10)", "f": "double"}
    fields = [field(i, name, kind) for i, (name, kind) in enumerate(kinds.items(), 1)]
    maker = Maker("file-shapes", [*fields, field(5, "x", "long")])
    ends = [Decimal(9_999_999), Decimal("-9999999.99"), Decimal("0.01"), Decimal(0), None]
    for shape in ({}, NEWER, LEGAL):
        rows = [
            {
                "a": _scaled(end, 1, "0.01"),
                "b": _scaled(end, 10_000_000, "0.0001"),
                "c": _scaled(end, Decimal("0.001"), "0.0000000001"),
                "f": float("nan") if place == 4 else place / 2,
                "x": len(maker.documents) * 10 + place,
            }
            for place, end in enumerate(ends)
        ]
        # The statistics of no row group speak of a column with NaN in any (DAT-9).
        told = {"write_statistics": ["a", "b", "c", "x"]}
        file = maker.file(rows, shape={**shape, **told})
        maker.commit("INSERT", "WRITE", (file,))
    maker.commit("UPDATE", "DELETE", delete={1: ([4], []), 2: ([0, 3], []), 3: ([2], [])})
    why = (
        "Decimals as bytes and as integers, one row group and several, with a page index and "
        "without (DAT-15, DAT-16); positions count through row groups (DEL-1)."
    )
    yield maker.good(why)


def _scaled(value: Decimal | None, factor: int | Decimal, unit: str) -> Decimal | None:
    return None if value is None else (value * factor).quantize(Decimal(unit))
