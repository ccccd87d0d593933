"""Golden cases of data files in the shapes that writers produce."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from golden.maker import LONG, Json, Maker, field

NEWER: Json = {
    "store_decimal_as_integer": True,
    "row_group_size": 2,
    "dictionary_pagesize_limit": 128 << 10,
    "compression": "zstd",
}
"""Settings of files with decimals as integers; row groups are small to keep the case small."""

LEGAL: Json = {"row_group_size": 3, "write_page_index": True, "data_page_version": "2.0"}
"""Settings of other engines."""


def file_shapes() -> Iterator[Maker]:
    """Yield a table with files of all shapes, each with deleted rows."""
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
        "without (DAT-15, DAT-16); positions count across row groups (DEL-1)."
    )
    yield maker.good(why)


def _scaled(value: Decimal | None, factor: int | Decimal, unit: str) -> Decimal | None:
    return None if value is None else (value * factor).quantize(Decimal(unit))


DELTA: Json = {"i": "DELTA_BINARY_PACKED", "l": "DELTA_BINARY_PACKED", "t": "DELTA_BINARY_PACKED"}
SPLIT: Json = dict.fromkeys("ilfdmt", "BYTE_STREAM_SPLIT")
ENCODED: tuple[Json, ...] = (
    {**DELTA, "s": "DELTA_LENGTH_BYTE_ARRAY", "b": "DELTA_LENGTH_BYTE_ARRAY"},
    {**DELTA, "s": "DELTA_BYTE_ARRAY", "b": "DELTA_BYTE_ARRAY", "m": "DELTA_BYTE_ARRAY"},
    {**SPLIT, "s": "PLAIN", "b": "PLAIN"},
)
CODECS = ("none", "snappy", "gzip", "lz4", "zstd", "brotli")


def encodings() -> Iterator[Maker]:
    """Yield tables with all encodings and codecs that a reader must support (DAT-1, DAT-17)."""
    kinds = {"i": "integer", "l": "long", "f": "float", "d": "double", "s": "string"}
    kinds |= {"b": "binary", "m": "decimal(20,2)", "t": "timestamp"}
    fields = [field(at, name, kind) for at, (name, kind) in enumerate(kinds.items(), 1)]
    maker = Maker("encodings", fields)
    for at, encoding in enumerate(ENCODED):
        # Blocks of DELTA_BINARY_PACKED hold 128 values.
        rows = [_row(n) for n in range(140 if at == 0 else 12)]
        shape = {"column_encoding": encoding, "use_dictionary": False}
        version = {"data_page_version": "2.0" if at else "1.0"}
        maker.commit("INSERT", "WRITE", (maker.file(rows, shape={**shape, **version}),))
    yield maker.good("DELTA encodings and BYTE_STREAM_SPLIT, with NULLs among values (DAT-17).")

    maker = Maker("codecs", LONG)
    for at, codec in enumerate(CODECS):
        rows = [{"x": at * 10 + n // 4} for n in range(8)]
        maker.commit("INSERT", "WRITE", (maker.file(rows, shape={"compression": codec}),))
    yield maker.good("Files compressed with every Parquet codec in use (DAT-1).")


def _row(n: int) -> Json:
    if n % 7 == 5:
        return dict.fromkeys("ilfdsbmt")
    moment = datetime(2024, 2, 29, tzinfo=timezone.utc) + timedelta(microseconds=n * n)
    whole = {"i": n * (-1) ** n, "l": (n << 40) * (-1) ** n, "f": n / 4, "d": -n / 3}
    texts = {"s": f"prefix-{n // 3}-é", "b": bytes([n % 256, 0, 255] * (n % 4))}
    return whole | texts | {"m": Decimal(n * 10**15).scaleb(-2), "t": moment}


def footers() -> Iterator[Maker]:
    """Yield a table with checksums of footer bytes (ADD-7)."""
    maker = Maker("footer", LONG)
    plain: Json = {"use_dictionary": False, "compression": "none"}
    small = maker.file([{"x": 1}, {"x": 2}], shape=plain)
    # 9,000 values of 8 bytes: the checksum is of the last 65,536 bytes alone.
    large = maker.file([{"x": 7}] * 9000, shape={**plain, "row_group_size": 3000})
    unknown = maker.file([{"x": 3}])
    told = [*(_checksum(maker, file) for file in (small, large)), None]
    maker.commit(
        "INSERT", "WRITE", (small, large, unknown), change=lambda e: e["add"].update(footer=told)
    )
    maker.commit("UPDATE", "DELETE", delete={2: (range(3, 9000), [])})
    yield maker.good("The checksum of a small file, of a large one, and none (ADD-7).")


def _checksum(maker: Maker, file: Json) -> int:
    return zlib.crc32(maker.objects[file["path"]][-65536:])


def damaged() -> Iterator[Maker]:
    """Yield tables with damaged files: the table opens, and its rows are refused."""

    def flipped(raw: bytes, at: int) -> bytes:
        return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]

    def spoilt(name: str, raw: bytes) -> bytes | None:
        values = raw.index((3).to_bytes(8, "little") + (4).to_bytes(8, "little"))
        statistics = raw.rindex((4).to_bytes(8, "little"))
        return {
            "missing": None,
            "short": raw[:-1],
            "long": raw + b"\0",
            "no-parquet": b"x" * len(raw),
            "page": flipped(raw, values),
            "footer": flipped(raw, statistics),
        }[name]

    whys = {
        "missing": ("The file is missing (DAT-5).", "DAT-5"),
        "short": ("The last byte is missing (DAT-5).", "DAT-5"),
        "long": ("The file has one more byte (DAT-5).", "DAT-5"),
        "no-parquet": ("The file has the right length and is not Parquet (DAT-5).", "DAT-5"),
        "page": ("A bit of a value differs: its page has another checksum (DAT-5).", "DAT-5"),
        "footer": ("A bit of the statistics differs: the footer has another checksum.", "ADD-7"),
    }
    for name, (why, rule) in whys.items():
        maker = Maker(f"data-{name}", LONG)
        maker.append({"x": 1}, {"x": 2})
        file = maker.file(
            [{"x": 3}, {"x": 4}], shape={"use_dictionary": False, "compression": "none"}
        )
        told = [_checksum(maker, file)]

        def tell(entry: Json, told: list[int] = told) -> None:
            entry["add"]["footer"] = told

        maker.commit("INSERT", "WRITE", (file,), change=tell if name == "footer" else None)
        raw = spoilt(name, maker.objects.pop(file["path"]))
        if raw is not None:
            maker.objects[file["path"]] = raw
        yield _refused(maker, file, why, rule, found=name != "page")

    maker = Maker("data-rows", LONG)
    maker.append({"x": 1}, {"x": 2})
    file = {**maker.file([{"x": 3}, {"x": 4}]), "rows": 3}
    maker.commit("INSERT", "WRITE", (file,))
    yield _refused(maker, file, "The file has another number of rows (DAT-5).", "DAT-5")


def _refused(maker: Maker, file: Json, why: str, rule: str, *, found: bool = True) -> Maker:
    maker.good(why)
    del maker.expected["rows"]
    said: dict[str, Any] = {"error": "CorruptDataError", "rules": [rule], "damaged": [file["path"]]}
    maker.expected |= said | {"findings": [[2, "ADD-5"]] if found else []}
    maker.expected["about"] = [rule]
    return maker
