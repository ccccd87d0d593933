"""Versions of tables as LazyFrames of polars.

Columns of data files become polars expressions, with the names and types of a version.
Spec: DAT-4, DAT-8, DAT-12, SCH-7.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars
import pyarrow as pa
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from tablefmt.data.file_verification import AlikeFiles, alike_files, sorted_out
from tablefmt.data.imported_files import has_imported
from tablefmt.data.row_reader import read_files
from tablefmt.data.selection import filter_of
from tablefmt.engines.table_argument import opened
from tablefmt.errors import CorruptDataError, UnsupportedFeatureError
from tablefmt.expressions.polars_to_predicate import implied_by, is_conjunction, is_passing_hint
from tablefmt.expressions.predicate import Predicate, all_of
from tablefmt.model.argument_names import check_names
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.positions import live_mask
from tablefmt.model.schema import Array, Decimal, Field, Map, Struct, Type
from tablefmt.model.times import Time
from tablefmt.session.table_scan import ReadableTable, Scan, explain_given_up_version
from tablefmt.snapshot.file_columns import WITHOUT_BOUNDS
from tablefmt.store.location import Uri


def polars_type(kind: pa.DataType) -> polars.DataType:
    """Return the polars type of an Arrow type."""
    frame = polars.from_arrow(pa.table({"c": pa.nulls(0, kind)}))
    assert isinstance(frame, polars.DataFrame)
    return frame.schema["c"]


def column(group: AlikeFiles, field: Field) -> polars.Expr:
    """Return a column of alike files as an expression."""
    place = group.columns.get_field_index(field.physical)
    if place >= 0:
        stored = group.columns.field(place).type
        return _value(polars.col(field.physical), field.type, stored).alias(field.name)
    return _constant(group.lacked(field)).alias(field.name)


def _constant(known: pa.Scalar) -> polars.Expr:
    """Return a constant over which polars can push down a condition."""
    kind = polars_type(known.type)
    if not known.is_valid:
        return polars.lit(None, dtype=kind)
    if pa.types.is_temporal(known.type):
        # Beyond Python's calendar, only days and microseconds are available.
        plain = known.cast(pa.int32() if pa.types.is_date(known.type) else pa.int64())
        return polars.lit(plain.as_py()).cast(kind)
    return polars.lit(known.as_py(), dtype=kind)


def is_read_exactly(stored: pa.DataType, kind: Type) -> bool:
    """Return whether `column` reads a file's column exactly as `arrow_type(kind)`."""
    types = pa.types
    if isinstance(kind, Struct):
        return bool(types.is_struct(stored)) and all(
            (at := stored.get_field_index(f.physical)) < 0
            or is_read_exactly(stored.field(at).type, f.type)
            for f in kind.fields
        )
    if isinstance(kind, Array):
        return bool(types.is_list(stored)) and is_read_exactly(stored.value_type, kind.element)
    if isinstance(kind, Map):
        return bool(stored == arrow_type(kind))
    if isinstance(kind, Decimal):
        return bool(types.is_signed_integer(stored) or types.is_decimal(stored))
    return bool(stored == arrow_type(kind)) or str(stored) in _WIDENED.get(kind.name, ())


_WIDENED = {
    "short": ("int8",),
    "integer": ("int8", "int16"),
    "long": ("int8", "int16", "int32"),
    "double": ("int8", "int16", "int32", "float"),
    "timestamp_ntz": ("date32[day]",),
}
"""Arrow's names of file types that polars casts exactly (SCH-9)."""


def _value(value: polars.Expr, kind: Type, stored: pa.DataType) -> polars.Expr:
    if isinstance(kind, Struct):
        if _is_as_written(kind, stored):
            return value
        parts = []
        for f in kind.fields:
            at = stored.get_field_index(f.physical)
            if at < 0:
                part = polars.lit(None, dtype=polars_type(arrow_type(f.type)))
            else:
                part = _value(value.struct.field(f.physical), f.type, stored.field(at).type)
            parts.append(part.alias(f.name))
        return polars.when(value.is_not_null()).then(polars.struct(parts))
    if isinstance(kind, Array):
        if _is_as_written(kind, stored):
            return value
        return value.list.eval(_value(polars.element(), kind.element, stored.value_type))
    target = arrow_type(kind)
    return value if stored == target else value.cast(polars_type(target))


def _is_as_written(kind: Type, stored: pa.DataType) -> bool:
    """Return whether names and types at every depth equal those of the file."""
    if isinstance(kind, Struct):
        return [f.name for f in kind.fields] == [
            stored.field(at).name for at in range(stored.num_fields)
        ] and all(
            f.name == f.physical and _is_as_written(f.type, stored.field(at).type)
            for at, f in enumerate(kind.fields)
        )
    if isinstance(kind, Array):
        return _is_as_written(kind.element, stored.value_type)
    return bool(stored == arrow_type(kind))


_ROW, _LIVE = "\0row", "\0live"
"""Column names that no table column can have (SCH-2)."""

KNOWN_MAX = 8
"""Sets of files and columns whose checks a frame caches."""

SCAN_TASK_BYTES = 256 << 20
"""Bytes of files that are read at once, before any row is returned."""


@check_names
def scan(
    uri: Uri | ReadableTable,
    *,
    version: int | str | None = None,
    timestamp: Time | None = None,
    storage_options: dict[str, Any] | None = None,
) -> polars.LazyFrame:
    """Return the live rows of one version as a LazyFrame, which reads them when it is collected.

    The frame stays at its version. Columns, conditions and a limit are pushed down. The understood
    part of a condition skips files by the log; polars filters the rest.

    Args:
        uri: as for `tablefmt.open`; or an open table, for its version.
        version: a whole number, or the name of a tag; None: the newest.
        timestamp: alternative to `version`: the time as of which to read (TIM-4).
        storage_options: as for `tablefmt.open`.

    Raises:
        UnsupportedFeatureError: polars is not installed.
        TableNotFoundError, VersionNotFoundError, InvalidRangeError: as `tablefmt.open` and
            `Table.scan`.
        CorruptDataError: DAT-5, ADD-7, on collect: a live file is missing, has another length or
            row count, or its footer bytes do not match the checksum.
    """
    table = opened(uri, storage_options)
    scan = table.scan(version=version, timestamp=timestamp)
    empty = polars.from_arrow(scan.schema.empty_table())
    assert isinstance(empty, polars.DataFrame)

    reader = _Reader(scan)

    def source(
        names: list[str] | None, condition: polars.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[polars.DataFrame]:
        return reader.frames(empty.columns if names is None else names, condition, limit)

    return register_io_source(source, schema=dict(empty.schema), is_pure=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Rows of some files."""

    rows: polars.LazyFrame
    live: polars.Series | None = None
    """Live flag of each row, indexed by the column _ROW of `rows`; None: `rows` has live rows
    only.
    """


class _Reader:
    """Reader of one version, for repeated use."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._known: dict[object, list[_Part] | None] = {}

    def frames(
        self, wanted: list[str], condition: polars.Expr | None, limit: int | None
    ) -> Iterator[polars.DataFrame]:
        """Yield rows of these columns for which the condition is true, among the first `limit`
        rows.

        Raises:
            VersionNotFoundError: the version expired after it was chosen.
            CorruptDataError: DAT-5, a file is missing or damaged.
        """
        store = self._scan.store
        with explain_given_up_version(store, self._scan.version):
            try:
                yield from self._frames(wanted, condition, limit)
            except FileNotFoundError as error:
                # Polars raises this for a file that existed when it was checked.
                key = str(error).rpartition(f"{store.uri}/")[2]
                raise CorruptDataError("it is missing", key=key, rule="DAT-5") from None
            except BaseException as error:
                told = str(error)
                damaged = (
                    isinstance(error, polars.exceptions.ComputeError)
                    and told.startswith("parquet: ")
                    and not told.startswith("parquet: Not yet supported")
                )
                if not damaged and type(error).__name__ != "PanicException":
                    raise
                # Polars fails or panics at pages that claim wrong sizes. It names no file.
                raise CorruptDataError(
                    f"polars cannot read a page of a data file: {error!s:.200}. `tablefmt verify "
                    "--deep` names the file",
                    key=store.uri,
                    rule="DAT-5",
                ) from None

    def _frames(
        self, wanted: list[str], condition: polars.Expr | None, limit: int | None
    ) -> Iterator[polars.DataFrame]:
        """Yield the chosen rows, read by polars itself or, where it cannot, by our own reader."""
        snapshot = self._scan.snapshot
        condition, predicate = _understood(condition, self._scan)
        read = set(wanted) | set([] if condition is None else condition.meta.root_names())
        columns = [field for field in snapshot.schema.fields if field.name in read]
        if limit is not None:
            # The limit counts rows before the condition applies.
            predicate = None
        if limit is None:
            files = snapshot.matching(predicate, WITHOUT_BOUNDS)
        else:
            files = snapshot.first(limit, WITHOUT_BOUNDS)
        parts = self._parts(files, columns, condition is not None and limit is None)
        queries: Iterable[_Part]
        if parts is None:
            frames = self._by_us(files, columns, predicate, limit)
            queries = (_Part(frame.lazy()) for frame in frames)
        else:
            queries = parts
        left = limit
        for part in queries:
            query = part.rows
            if left is not None:
                first = query.head(left).collect(engine="streaming")
                left -= first.height
                query = first.lazy()
            if condition is not None:
                query = query.filter(condition)
            # Polars processes the output of a source one frame at a time. A collect here uses all
            # threads.
            if part.live is None:
                yield query.select(wanted).collect(engine="streaming")
            else:
                chosen = query.select([*wanted, _ROW]).collect(engine="streaming")
                yield chosen.filter(part.live.gather(chosen[_ROW])).select(wanted)
            if left == 0:
                return

    def _parts(self, files: pa.Table, columns: Sequence[Field], by_row: bool) -> list[_Part] | None:
        """Return the result of `_by_polars`, cached by files and columns."""
        key = (files["id"].to_numpy().tobytes(), tuple(c.id for c in columns), by_row)
        if key not in self._known:
            vectors = self._scan.snapshot.with_vectors(files)
            parts = _by_polars(self._scan, vectors, columns, by_row)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = parts
            return parts
        return self._known[key]

    def _by_us(
        self,
        files: pa.Table,
        columns: Sequence[Field],
        predicate: Predicate | None,
        first: int | None,
    ) -> Iterator[polars.DataFrame]:
        schema, store = self._scan.snapshot.schema, self._scan.store
        kept = None if predicate is None else filter_of(predicate, schema)
        vectors = self._scan.snapshot.with_vectors(files)
        for batch in read_files(store, vectors, schema, columns, kept, first=first):
            frame = polars.from_arrow(batch)
            assert isinstance(frame, polars.DataFrame)
            yield frame


def _understood(
    condition: polars.Expr | None, scan: Scan
) -> tuple[polars.Expr | None, Predicate | None]:
    """Return the condition to evaluate, and the part of it that prunes files."""
    if condition is None:
        return None, None
    parts: list[polars.Expr] = []
    stack = [condition]
    while stack:
        part = stack.pop()
        told = _told(part)
        if not is_passing_hint(told):
            parts.append(part)
        elif is_conjunction(told):
            stack += part.meta.pop()
        elif '"Display"' not in told[:12]:
            raise UnsupportedFeatureError(
                "polars put an optional condition inside another condition, which the scan cannot "
                "evaluate. Call collect() before the filter or join.",
                ["polars:hint"],
            )
    if not parts:
        return None, None
    whole = reduce(operator.and_, parts)
    predicates = [implied_by(_told(part), scan.snapshot.schema) for part in parts]
    known = [each for each in predicates if each is not None]
    return whole, all_of(known) if known else None


def _told(part: polars.Expr) -> str:
    """Return a condition as JSON; empty if polars cannot serialize it."""
    try:
        return str(part.meta.serialize(format="json"))
    except polars.exceptions.PolarsError:
        return ""


def _by_polars(
    scan: Scan, files: pa.Table, columns: Sequence[Field], by_row: bool
) -> list[_Part] | None:
    """Return the rows by polars' own reader, in parts; None if it cannot read them."""
    store = scan.store
    if has_imported(files) or not store.traits.on_disk:
        return None
    if not files.num_rows or not columns:
        return None
    groups = alike_files(store, files, columns)
    if not all(_is_exact(group, columns) for group in groups):
        return None
    live = _with_rows if by_row else _live_by_mask
    return [
        read(store.traits.path, task, group, columns)
        for group in groups
        for some, read in zip(sorted_out(group.files), (_all, live), strict=True)
        for task in _scan_tasks(some)
    ]


def _scan_tasks(files: pa.Table) -> Iterator[pa.Table]:
    """Yield runs of files of at most SCAN_TASK_BYTES in total, or of one file."""
    start = size = 0
    for at, length in enumerate(files["size"].to_pylist()):
        if at > start and size + length > SCAN_TASK_BYTES:
            yield files.slice(start, at - start)
            start, size = at, 0
        size += length
    if start < files.num_rows:
        yield files.slice(start)


def _is_exact(group: AlikeFiles, columns: Sequence[Field]) -> bool:
    places = [(c, group.columns.get_field_index(c.physical)) for c in columns]
    return all(is_read_exactly(group.columns.field(at).type, c.type) for c, at in places if at >= 0)


def _scanned(root: str, files: pa.Table, row: str | None = None) -> polars.LazyFrame:
    return polars.scan_parquet(
        [f"{root}/{path}" for path in files["path"].to_pylist()],
        glob=False,
        hive_partitioning=False,
        row_index_name=row,
    )


def _shaped(
    rows: polars.LazyFrame, group: AlikeFiles, columns: Sequence[Field], *others: polars.Expr
) -> polars.LazyFrame:
    values = [column(group, field) for field in columns]
    if others or any(field.physical in group.columns.names for field in columns):
        return rows.select(*values, *others)
    # A selection of constants alone would return one row.
    return rows.with_columns(values).select([field.name for field in columns])


def _all(root: str, files: pa.Table, group: AlikeFiles, columns: Sequence[Field]) -> _Part:
    return _Part(_shaped(_scanned(root, files), group, columns))


def _live_by_mask(root: str, files: pa.Table, group: AlikeFiles, columns: Sequence[Field]) -> _Part:
    """Read all rows beside a live mask, which is cheaper than a lookup for each row."""
    mask = polars.DataFrame({_LIVE: _live(files)}).lazy()
    rows = _shaped(_scanned(root, files), group, columns)
    both = polars.concat([rows, mask], how="horizontal")
    return _Part(both.filter(polars.col(_LIVE)).drop(_LIVE))


def _with_rows(root: str, files: pa.Table, group: AlikeFiles, columns: Sequence[Field]) -> _Part:
    """Read rows with positions, for a lookup after a condition has selected some."""
    rows = _shaped(_scanned(root, files, _ROW), group, columns, polars.col(_ROW))
    return _Part(rows, polars.Series(_live(files)))


def _live(files: pa.Table) -> NDArray[np.bool_]:
    """Return for each row of these files whether it is live."""
    vectors = zip(files["vector"].to_pylist(), files["rows"].to_pylist(), strict=True)
    return np.concatenate([live_mask(*one) for one in vectors])
