"""Partition transforms with Iceberg's values: `days(ts)`, `bucket(16, id)`, `truncate(4, s)`. Pure.

One literal is the parser's table, the check of types, and the computation over Arrow arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.name_matching import did_you_mean, there_are
from tablefmt.model.schema import (
    Decimal,
    Field,
    Primitive,
    Schema,
    Transform,
    Type,
    kind_name,
    parts_of,
)

Values = Callable[[pa.Array, Type, int], pa.Array]
"""Function of an array of a column, the column's type, and the parameter (0 without one)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One transform."""

    iceberg: str
    """Iceberg's name."""
    types: frozenset[str]
    """Types of columns, by `kind_name`."""
    values: Values
    result: str | None
    """Type of the values; None: the column's own type."""
    suffix: str
    """Suffix of the name of the partition field, as Iceberg's writers choose it."""
    takes_number: bool = False


@dataclass(frozen=True, slots=True)
class PartitionTransform:
    """A transform of one column."""

    kind: str
    """Key of `TRANSFORMS`."""
    column: Field
    number: int = 0
    """Buckets, or the width; 0 without one."""
    given_name: str | None = None
    """Name that the declaration gives to the partition field."""

    @property
    def rule(self) -> Rule:
        """Return the transform's line of the table."""
        return TRANSFORMS[self.kind]

    @property
    def iceberg(self) -> str:
        """Return the transform as Iceberg's metadata says it."""
        return f"{self.rule.iceberg}[{self.number}]" if self.number else self.rule.iceberg

    @property
    def type(self) -> Type:
        """Return the type of the values."""
        return self.column.type if self.rule.result is None else Primitive(self.rule.result)

    @property
    def name(self) -> str:
        """Return the name of the partition field: the given one, or Iceberg's usual one."""
        return self.given_name or f"{self.column.name}_{self.rule.suffix}"

    def __str__(self) -> str:
        number = f"{self.number}, " if self.number else ""
        name = self.column.name
        plain = re.fullmatch(r"\w+", name) is not None
        quoted = name if plain else "`" + name.replace("`", "``") + "`"
        return f"{self.kind}({number}{quoted})"

    def field(self, number: int, name: str | None = None) -> Field:
        """Return the hidden partition field of that id, with its own name unless given."""
        own = self.name if name is None else name
        transform = Transform(self.kind, self.column.id, self.number)
        return Field(number, own, own, self.type, transform=transform)

    def values(self, column: pa.Array) -> pa.Array:
        """Return the partition value of each row; NULL for NULL.

        Raises:
            ConstraintViolationError: a value near the end of its type has no multiple in the type.
        """
        try:
            return self.rule.values(column, self.column.type, self.number)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise ConstraintViolationError(
                f"{self} has no value in {self.type} for some row of column "
                f"{self.column.name!r}: {error}. Nothing was written."
            ) from None


def transform_of(hidden: Field, schema: Schema) -> PartitionTransform:
    """Return the transform of a hidden partition field."""
    given = hidden.transform
    assert given is not None, hidden
    return PartitionTransform(given.kind, schema.by_id(given.source), given.number)


def declared(field: Field, schema: Schema) -> str:
    """Return how `partition_by` names a partition field, such as `region` or `days(ts)`."""
    return field.name if field.transform is None else str(transform_of(field, schema))


_ICEBERG = re.compile(r"(year|month|day|hour)|(bucket|truncate)\[([1-9][0-9]{0,9})\]")


def transform_from(text: str, column: Field) -> PartitionTransform:
    """Return the transform that a log names as Iceberg does.

    Raises:
        ValueError: there is none of that name for the column's type.
    """
    match = _ICEBERG.fullmatch(text)
    number = int(match[3]) if match is not None and match[3] else 0
    if match is None or number >= 1 << 31:
        raise ValueError(f"{text!r:.100} is not a transform")
    kind = _ALIASES[match[1] or match[2]]
    if kind_name(column.type) not in TRANSFORMS[kind].types:
        raise ValueError(f"{text} of a column of type {column.type}")
    return PartitionTransform(kind, column, number)


_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_NAMED = re.compile(r"(.*[\s)`])AS\s+(`(?:[^`]|``)+`|\w+)\s*", re.DOTALL | re.IGNORECASE)


def with_name(text: str, name: str | None) -> str:
    """Return the declaration of a partition field, with a name for the field if there is one."""
    return text if name is None else f"{text} AS `{name.replace('`', '``')}`"


def named(text: str, schema: Schema) -> tuple[str, str | None]:
    """Return a declaration of `partition_by` without a name at its end, and the name.

    It is None for `bucket(16, id)`, and `shard` for `bucket(16, id) AS shard`.
    """
    match = None if schema.find(text) is not None else _NAMED.fullmatch(text)
    return (text, None) if match is None else (match[1].strip(), parts_of(match[2])[0])


def parsed_transform(text: str, schema: Schema) -> PartitionTransform | None:
    """Return the transform that a text of `partition_by` means; None for the name of a column.

    Args:
        text: such as `days(ts)`, `bucket(16, id) AS shard` or `region`.
        schema: the columns.

    Raises:
        SchemaMismatchError: an unknown transform or column; the column's type has no such
            transform; a number that is missing, not positive, or not expected.
    """
    call, name = named(text, schema)
    match = None if schema.find(call) is not None else _CALL.fullmatch(call)
    if match is None:
        return None
    kind = _ALIASES.get(match[1].lower(), match[1].lower())
    rule = TRANSFORMS.get(kind)
    if rule is None:
        raise SchemaMismatchError(
            f"cannot partition by {text!r:.200}: there is no transform {match[1]!r:.100}; there "
            f"are {', '.join(TRANSFORMS)}{did_you_mean(match[1], TRANSFORMS)}"
        )
    number, column = _arguments(text, match[2], rule, schema)
    if kind_name(column.type) not in rule.types:
        raise SchemaMismatchError(
            f"cannot partition by {text!r:.200}: {kind} takes {', '.join(sorted(rule.types))}, and "
            f"column {column.name!r} is {column.type}",
            [column.name],
        )
    return PartitionTransform(kind, column, number, name)


def _arguments(text: str, inner: str, rule: Rule, schema: Schema) -> tuple[int, Field]:
    """Return the number and the column, in either order, as Spark and Iceberg write them."""
    # A comma inside backticks belongs to a name.
    pieces = [piece.strip() for piece in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", inner)]
    count = 2 if rule.takes_number else 1
    digits = [piece for piece in pieces if re.fullmatch(r"[+-]?[0-9]+", piece)]
    names = [piece for piece in pieces if piece not in digits]
    if len(pieces) != count or len(names) != 1:
        form = "a number and a column" if rule.takes_number else "one column"
        raise SchemaMismatchError(f"cannot partition by {text!r:.200}: expected {form}")
    number = int(digits[0]) if digits else 0
    if digits and not 0 < number < 1 << 31:
        raise SchemaMismatchError(
            f"cannot partition by {text!r:.200}: {number} is not a number from 1 to {(1 << 31) - 1}"
        )
    parts = parts_of(names[0])
    column = schema.find(parts[0]) if len(parts) == 1 else None
    if column is None and len(parts) > 1 and schema.find(parts[0]) is not None:
        raise SchemaMismatchError(
            f"cannot partition by {text!r:.200}: {names[0]} is inside a column; add a generated "
            "column with its value, and partition by that",
            [names[0]],
        )
    if column is None:
        raise SchemaMismatchError(
            f"cannot partition by {text!r:.200}: no such column; "
            f"{there_are(names[0], schema.names)}",
            [names[0]],
        )
    return number, column


# --- times ---


def _days(column: pa.Array, kind: Type, number: int) -> pa.Array:
    return _floored(column, kind, 86_400_000_000).cast(pa.date32())


def _hours(column: pa.Array, kind: Type, number: int) -> pa.Array:
    return _floored(column, kind, 3_600_000_000)


def _floored(column: pa.Array, kind: Type, unit: int) -> pa.Array:
    """Return whole units since 1970 of a time in UTC; days of a date."""
    if kind == Primitive("date"):
        return column.view(pa.int32())
    return _numbers(column.view(pa.int64()), lambda micros: micros // unit).cast(pa.int32())


def _months(column: pa.Array, kind: Type, number: int) -> pa.Array:
    return _calendar(column, kind, "M")


def _years(column: pa.Array, kind: Type, number: int) -> pa.Array:
    return _calendar(column, kind, "Y")


def _calendar(column: pa.Array, kind: Type, unit: str) -> pa.Array:
    days = _floored(column, kind, 86_400_000_000)
    count = _numbers(
        days.cast(pa.int64()),
        lambda each: each.astype("M8[D]").astype(f"M8[{unit}]").astype(np.int64),
    )
    return count.cast(pa.int32())


def _numbers(
    column: pa.Array, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]
) -> pa.Array:
    """Return a function of the values; NULL stays NULL."""
    filled = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return pa.array(change(filled), mask=pc.is_null(column).to_numpy(zero_copy_only=False))


# --- truncate ---


def _truncated(column: pa.Array, kind: Type, width: int) -> pa.Array:
    if kind == Primitive("string"):
        return pc.utf8_slice_codeunits(column, 0, width)
    if kind == Primitive("binary"):
        return pc.binary_slice(column, 0, width)
    if isinstance(kind, Decimal):
        return _truncated_decimals(column, kind, width)
    wide = _numbers(column.cast(pa.int64()), lambda each: each - each % width)
    # A value near the smallest one has no smaller multiple in its type: Arrow's cast refuses it.
    return wide.cast(column.type)


def _truncated_decimals(column: pa.Array, kind: Decimal, width: int) -> pa.Array:
    unique = column.dictionary_encode()
    scale = -kind.scale
    values = []
    for value in unique.dictionary.to_pylist():
        unscaled = int(value.scaleb(kind.scale))
        values.append(type(value)(unscaled - unscaled % width).scaleb(scale))
    return pa.array(values, column.type).take(unique.indices)


# --- buckets ---


def _buckets(column: pa.Array, kind: Type, count: int) -> pa.Array:
    hashes = _hashes(column, kind)
    buckets = (hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)
    mask = pc.is_null(column).to_numpy(zero_copy_only=False)
    return pa.array(buckets.astype(np.int32), pa.int32(), mask=mask)


def _hashes(column: pa.Array, kind: Type) -> NDArray[np.uint32]:
    """Return Iceberg's 32-bit Murmur3 hash of each value; of NULL, any number."""
    name = kind_name(kind)
    if name in ("string", "binary"):
        return _hashes_of_bytes(column.cast(pa.large_binary()))
    if name == "decimal":
        unique = column.dictionary_encode()
        plain = [_decimal_bytes(v, kind) for v in unique.dictionary.to_pylist()]
        known = _hashes_of_bytes(pa.array(plain, pa.large_binary()))
        places = pc.fill_null(unique.indices, 0).to_numpy(zero_copy_only=False)
        return known[places] if len(known) else np.zeros(len(column), np.uint32)
    storage = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}
    numbers = column.view(storage[name]) if name in storage else column
    longs = pc.fill_null(numbers.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return murmur3(np.ascontiguousarray(longs.astype("<i8")).view(np.uint8).reshape(-1, 8))


def _decimal_bytes(value: Any, kind: Type) -> bytes:
    """Return the unscaled value in the fewest bytes, big-endian in two's complement."""
    assert isinstance(kind, Decimal)
    unscaled = int(value.scaleb(kind.scale))
    length = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
    return unscaled.to_bytes(length, "big", signed=True)


def _hashes_of_bytes(column: pa.Array) -> NDArray[np.uint32]:
    offsets = np.frombuffer(column.buffers()[1], np.int64)[
        column.offset : column.offset + len(column) + 1
    ]
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets) if len(column) else np.zeros(0, np.int64)
    result = np.zeros(len(column), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        places = offsets[rows][:, None] + np.arange(length)
        result[rows] = murmur3(data[places] if length else np.zeros((len(rows), 0), np.uint8))
    return result


def murmur3(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the 32-bit Murmur3 hash, x86 form with seed 0, of byte strings of one length.

    Args:
        rows: shape (number of strings, length).
    """
    count, length = rows.shape
    state = np.zeros(count, np.uint32)
    whole = length // 4
    if whole:
        blocks = np.ascontiguousarray(rows[:, : whole * 4]).view("<u4")
        for at in range(whole):
            state ^= _mixed(blocks[:, at].astype(np.uint32))
            state = _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    tail = np.zeros(count, np.uint32)
    for at in range(whole * 4, length):
        tail |= rows[:, at].astype(np.uint32) << np.uint32(8 * (at - whole * 4))
    state ^= _mixed(tail) if length % 4 else np.uint32(0)
    state ^= np.uint32(length)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state ^= state >> np.uint32(shift)
        state *= np.uint32(factor)
    result: NDArray[np.uint32] = state ^ (state >> np.uint32(16))
    return result


def _mixed(block: NDArray[np.uint32]) -> NDArray[np.uint32]:
    mixed: NDArray[np.uint32] = _rotated(block * np.uint32(0xCC9E2D51), 15)
    mixed *= np.uint32(0x1B873593)
    return mixed


def _rotated(numbers: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    turned: NDArray[np.uint32] = (numbers << np.uint32(by)) | (numbers >> np.uint32(32 - by))
    return turned


_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_DATES = _TIMES | {"date"}
_WHOLE = frozenset({"integer", "long"})
_SMALL = frozenset({"byte", "short"})

TRANSFORMS: Mapping[str, Rule] = {
    "years": Rule("year", _DATES, _years, "integer", "year"),
    "months": Rule("month", _DATES, _months, "integer", "month"),
    "days": Rule("day", _DATES, _days, "date", "day"),
    "hours": Rule("hour", _TIMES, _hours, "integer", "hour"),
    "bucket": Rule(
        "bucket",
        _WHOLE | _SMALL | _DATES | {"decimal", "string", "binary"},
        _buckets,
        "integer",
        "bucket",
        takes_number=True,
    ),
    "truncate": Rule(
        "truncate",
        _WHOLE | _SMALL | {"decimal", "string", "binary"},
        _truncated,
        None,
        "trunc",
        takes_number=True,
    ),
}
"""Transforms by the names that Spark and this package use."""

_ALIASES: Mapping[str, str] = {
    **{rule.iceberg: kind for kind, rule in TRANSFORMS.items()},
    "date": "days",
    "date_hour": "hours",
}
"""Other names, in lower case."""

assert not set(_ALIASES) - set(TRANSFORMS) & set(TRANSFORMS), "an alias is no other transform"
