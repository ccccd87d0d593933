"""A statement, which is an operation with its arguments, and the digest that identifies its
content.

Equal content has an equal digest. Rows count by their values, in their order. Columns count by
name, ignoring case and position. The form of an Arrow value does not matter: chunks, slices,
dictionaries, views, widths, units, metadata, and bytes beneath a NULL. Numbers are equal across
integers, floats and decimals if their values are. There is one zero and one NaN.
Spec: CFL-6, CFL-7, CFL-23.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.value_conversion import plain_values
from tablefmt.model.arrow_types import is_list
from tablefmt.model.content_hashes import ROWS, TEXT
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema
from tablefmt.session.input_rows import source_reader, without_handles
from tablefmt.session.measurements import Measured
from tablefmt.session.transaction_snapshot import TransactionFiles, TransactionSnapshot
from tablefmt.store.clocks import Moment

PIECE_ROWS = 65_536
"""Rows hashed at once. It bounds memory, and does not change the digest."""


class ContentDigest:
    """Digest of rows, read once, and of the statement's text."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, int], _Values] = {}
        self._rows = 0

    def through(self, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Return a reader of the same rows. They are in the digest after they were read to the
        end."""
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def of(self, *parameters: str) -> str:
        """Return the digest of the rows read and the statement's text: its form, and 64 hex
        digits."""
        whole = hashlib.sha256(self._rows.to_bytes(8, "little"))
        for (name, at), values in sorted(self._columns.items(), key=lambda pair: pair[0]):
            whole.update(_framed(f"{name}\0{at}".encode()))
            whole.update(values.digest())
        whole.update("\0".join(parameters).encode())
        return f"{ROWS}:{whole.hexdigest()}"

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        names: dict[str, int] = {}
        keys = []
        for name in reader.schema.names:
            lowered = folded(name)
            keys.append((lowered, names.setdefault(lowered, 0)))
            names[lowered] += 1
        self._columns = {key: _Values() for key in keys}
        for batch in reader:
            yield batch
            self._rows += batch.num_rows
            for start in range(0, batch.num_rows, PIECE_ROWS):
                piece = batch.slice(start, PIECE_ROWS)
                for key, column in zip(keys, piece.columns, strict=True):
                    self._columns[key].take(column)


_NULL, _BOOL, _INTEGER, _FLOAT, _DECIMAL, _STRING, _BINARY = range(7)
_DATE, _INSTANT, _INSTANT_NS, _LOCAL, _LOCAL_NS, _LIST, _STRUCT, _MAP, _OTHER = range(7, 16)
"""Kinds of values."""

_EXACT = pa.decimal256(76, 38)
"""Holds every decimal that a column can have, exactly."""

_DIGITS_OF_INT64 = 18
_WHOLE = pa.decimal256(38, 0)


class _Values:
    """Hash of the values of a column or a part of one: the kind of each value, and values by kind.

    Each kind has one stream of bytes over all batches, so the bounds of batches do not matter.
    """

    def __init__(self) -> None:
        self._streams: dict[str, Any] = {}
        self._parts: dict[str, _Values] = {}
        self._known = False

    def digest(self) -> bytes:
        """Return the digest of all values taken."""
        whole = hashlib.sha256()
        for name, stream in sorted(self._streams.items()):
            whole.update(_framed(name.encode()) + stream.digest())
        for name, part in sorted(self._parts.items()):
            # A field that is always NULL counts as a missing field.
            if part._known:
                whole.update(_framed(b"." + name.encode()) + part.digest())
        return whole.digest()

    def take(self, values: pa.Array) -> None:
        """Add values, in order."""
        values = _plain(values)
        there = values.is_valid().to_numpy(zero_copy_only=False)
        kinds = np.zeros(len(values), np.uint8)
        if there.any():
            self._known = True
            kinds[there] = self._present(values)
        self._add("kinds", kinds)

    def _add(self, name: str, values: NDArray[Any] | pa.Buffer) -> None:
        if len(values):
            stream = self._streams.setdefault(name, hashlib.sha256())
            stream.update(
                np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values
            )

    def _part(self, name: str) -> _Values:
        return self._parts.setdefault(name, _Values())

    def _present(self, values: pa.Array) -> int | NDArray[np.uint8]:
        """Add the values that are not NULL. Return their kinds, or the one kind of all of them."""
        kind = values.type
        if pa.types.is_struct(kind):
            fields = values.drop_null().flatten()
            for name, field in zip(_names(kind), fields, strict=True):
                self._part(name).take(field)
            return _STRUCT
        if pa.types.is_map(kind):
            values = values.drop_null()
            offsets = values.offsets.to_numpy()
            self._add("lengths", np.diff(offsets).astype("<i8"))
            start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
            self._part("key").take(values.keys.slice(start, count))
            self._part("value").take(values.items.slice(start, count))
            return _MAP
        if is_list(kind):
            lengths = pc.list_value_length(values).drop_null()
            self._add("lengths", lengths.cast(pa.int64()).to_numpy())
            self._part("element").take(values.flatten())
            return _LIST
        return self._flat(values)

    def _flat(self, values: pa.Array) -> int | NDArray[np.uint8]:
        kind = values.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind, "string"):
            return self._bytes(values.cast(pa.large_string()), _STRING)
        if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind):
            return self._bytes(values.cast(pa.large_binary()), _BINARY)
        if pa.types.is_large_binary(kind) or _is_view(kind, "binary"):
            return self._bytes(values.cast(pa.large_binary()), _BINARY)
        values = values.drop_null()
        if pa.types.is_boolean(kind):
            self._add("booleans", values.cast(pa.uint8()).to_numpy())
            return _BOOL
        if pa.types.is_integer(kind):
            return self._integers(values)
        if pa.types.is_floating(kind):
            return self._floats(values.to_numpy(zero_copy_only=False).astype("<f8"))
        if pa.types.is_decimal(kind):
            return self._decimals(values)
        if pa.types.is_date(kind):
            days = values.cast(pa.date32(), safe=False)
            self._add("dates", days.cast(pa.int32()).to_numpy())
            return _DATE
        if pa.types.is_timestamp(kind):
            return self._times(values)
        # No column has values of this type, so they were never applied.
        self._add(f"other {kind}", np.ones(len(values), np.uint8))
        return _OTHER

    def _bytes(self, values: pa.Array, kind: int) -> int:
        values = values.drop_null()
        offsets = np.frombuffer(values.buffers()[1], np.int64)
        offsets = offsets[values.offset : values.offset + len(values) + 1]
        self._add("lengths", np.diff(offsets).astype("<i8"))
        body = values.buffers()[2]
        if body is not None:
            self._add("bytes", body.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))
        return kind

    def _integers(self, values: pa.Array) -> int | NDArray[np.uint8]:
        if pa.types.is_uint64(values.type):
            return self._decimals(values.cast(pa.decimal128(20, 0)))
        self._add("integers", values.cast(pa.int64()).to_numpy())
        return _INTEGER

    def _floats(self, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        whole = (values >= -(2.0**63)) & (values < 2.0**63) & (np.floor(values) == values)
        self._add("integers", values[whole].astype("<i8"))
        rest = values[~whole]
        self._add("floats", np.where(np.isnan(rest), np.nan, rest).astype("<f8"))
        return np.where(whole, _INTEGER, _FLOAT).astype(np.uint8)

    def _decimals(self, values: pa.Array) -> int | NDArray[np.uint8]:
        if values.type.precision <= _DIGITS_OF_INT64 and values.type.scale >= 0:
            return self._short_decimals(values)
        try:
            exact = values.cast(_EXACT)
        except pa.ArrowInvalid:
            # More digits than a column can have.
            self._add(f"other {values.type}", np.ones(len(values), np.uint8))
            return _OTHER
        cut = exact.cast(_WHOLE, safe=False)
        low, high = (pa.scalar(v, pa.decimal128(20, 0)).cast(_WHOLE) for v in (-(2**63), 2**63 - 1))
        fits = pc.and_(pc.greater_equal(cut, low), pc.less_equal(cut, high))
        whole = pc.and_(pc.equal(cut.cast(_EXACT), exact), fits)
        self._add("integers", cut.filter(whole).cast(pa.int64()).to_numpy())
        rest = exact.filter(pc.invert(whole))
        if len(rest):
            self._add("decimals", rest.buffers()[1].slice(rest.offset * 32, len(rest) * 32))
        kinds = np.where(whole.to_numpy(zero_copy_only=False), _INTEGER, _DECIMAL)
        return kinds.astype(np.uint8)

    def _short_decimals(self, values: pa.Array) -> NDArray[np.uint8]:
        """Add decimals as `_decimals` does, faster, if their unscaled values are 64-bit
        integers."""
        kind = pa.decimal128(_DIGITS_OF_INT64, values.type.scale)
        values = values.cast(kind)
        halves = np.frombuffer(values.buffers()[1], "<i8")[2 * values.offset :]
        unscaled = halves[: 2 * len(values) : 2]
        whole = unscaled % 10**kind.scale == 0
        self._add("integers", unscaled[whole] // 10**kind.scale)
        rest = values.filter(pa.array(~whole)).cast(_EXACT)
        if len(rest):
            self._add("decimals", rest.buffers()[1].slice(rest.offset * 32, len(rest) * 32))
        return np.where(whole, _INTEGER, _DECIMAL).astype(np.uint8)

    def _times(self, values: pa.Array) -> NDArray[np.uint8]:
        unit, zoned = values.type.unit, values.type.tz is not None
        ticks = values.cast(pa.int64()).to_numpy()
        micros = ticks // 1000 if unit == "ns" else ticks
        exact = micros * 1000 == ticks if unit == "ns" else np.ones(len(ticks), np.bool_)
        factor = {"s": 1_000_000, "ms": 1000}.get(unit, 1)
        beyond = np.abs(micros) > (2**63 - 1) // factor
        if beyond.any():
            # No column has such times.
            self._add(f"other {values.type}", ticks)
            return np.full(len(ticks), _OTHER, np.uint8)
        self._add("times", (micros * factor)[exact])
        self._add("nanoseconds", ticks[~exact])
        fine, finer = (_INSTANT, _INSTANT_NS) if zoned else (_LOCAL, _LOCAL_NS)
        return np.where(exact, fine, finer).astype(np.uint8)


def _plain(values: pa.Array) -> pa.Array:
    """Return the plain values of dictionaries, run-end encoded arrays and extension types."""
    while True:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        elif pa.types.is_dictionary(values.type) or pa.types.is_run_end_encoded(values.type):
            values = plain_values(values)
        else:
            return values


def _names(kind: pa.StructType) -> list[str]:
    return [folded(kind.field(at).name) for at in range(kind.num_fields)]


def _is_view(kind: pa.DataType, of: str) -> bool:
    test = getattr(pa.types, f"is_{of}_view", None)
    return test is not None and bool(test(kind))


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part


def digest_of(rows: pa.RecordBatchReader | None, *parameters: str) -> str:
    """Return the digest of a statement's text and of its input rows, if any. Reads the rows."""
    if rows is None:
        return f"{TEXT}:{hashlib.sha256(chr(0).join(parameters).encode()).hexdigest()}"
    content = ContentDigest()
    for _ in content.through(rows):
        pass
    return content.of(*parameters)


def digest_of_all(digests: list[str | None]) -> str | None:
    """Return the digest of several statements in order; None if there is none, or one is
    unknown."""
    known = [digest for digest in digests if digest is not None]
    if len(known) < len(digests) or not known:
        return None
    if len(known) == 1:
        return known[0]
    return f"{ROWS}:{hashlib.sha256(''.join(known).encode()).hexdigest()}"


Stage = Callable[[TransactionSnapshot], Staged]
"""Reads the transaction snapshot, writes data files through it, and returns the work to commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRows:
    """Rows that an engine reads and writes by itself. Their values are unknown here."""

    digest: str | None = None
    """Identifies the content of a streaming batch. None: unknown."""
    versions_read: Callable[[TransactionSnapshot], Sequence[int]] = lambda txn: ()
    """Gives the table versions that the engine's query reads in full, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An operation with its arguments."""

    name: str
    stage: Callable[[TransactionSnapshot, Any], Staged]
    """Does the work on a transaction snapshot and the input rows, which are a reader or None."""
    text: Callable[[Metadata], tuple[str, ...]] = lambda metadata: ()
    """Gives the rest of the text: everything that decides what the statement does to a table with
    this metadata. Raises errors that need no work to be found."""
    takes_rows: bool = False
    source: Any = None
    """Source of the input rows, if there are any: see `source_reader`."""
    replaces_columns: bool = False
    """The columns of the rows replace those of the table."""
    engine: EngineRows | None = None
    """Rows of an engine, which `stage` handles by itself; None: no such rows."""
    files_of: Callable[[TransactionSnapshot], TransactionFiles] | None = None
    """Gives the files that an engine wrote; None: `stage` writes them in this process."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", without_handles(self.source))

    def rows(self, schema: Schema) -> pa.RecordBatchReader | None:
        """Return the input rows for a table with these columns; None if the statement has none.

        Raises as `source_reader`.
        """
        if not self.takes_rows:
            return None
        return source_reader(self.source, None if self.replaces_columns else schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A transaction with files that were written before its statement runs."""

    transaction: str
    version: int
    """The version that it read."""
    measured: Measured | None = None
    """Measurement since the start; None: another process began the transaction."""
    began: Moment | None = None
    """Start of the transaction, if another process began it; None: unknown."""


class Content:
    """Content of a statement: its text, and its rows as they are read."""

    def __init__(
        self,
        rows: pa.RecordBatchReader | None,
        text: tuple[str, ...],
        engine: EngineRows | None = None,
    ) -> None:
        self._text = text
        self._engine = engine
        self._digest = None if rows is None else ContentDigest()
        self.rows = rows if self._digest is None or rows is None else self._digest.through(rows)

    def digest(self) -> str | None:
        """Return the digest of text and rows, after all rows were read; None: unknown."""
        if self._engine is not None:
            return self._engine.digest
        if self._digest is None:
            return digest_of(None, *self._text)
        return self._digest.of(*self._text)
