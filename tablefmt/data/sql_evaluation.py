"""Evaluation of SQL expressions over Arrow rows, by Arrow's own functions where they suffice.

Other expressions are executed by DuckDB; the extra `sql` installs it. Arrow is already loaded.
DuckDB takes a tenth of a second or more to load and open. Rows enter and leave as Arrow types.
Timestamps with a zone enter as UTC without one. Spec: SQL-1.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.value_conversion import relabelled
from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.arrow_values import Call, ColumnValue, Value
from tablefmt.expressions.sql_to_duckdb import Translated
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Schema, Type
from tablefmt.store.local_folders import PrivateFolder

if TYPE_CHECKING:
    import duckdb

MEMORY_BYTES = 512 << 20
"""Default memory limit of an engine; beyond it, DuckDB uses temporary files."""


_MEMORY_LEAST = 32 << 20


class Engine:
    """A connection for one statement, without access to files, extensions or settings.

    Not thread-safe. Engines of one limit share one DuckDB instance and its memory limit, because
    opening an instance takes tens of milliseconds.
    """

    def __init__(self, memory_limit: int = MEMORY_BYTES) -> None:
        """Open the engine.

        Args:
            memory_limit: bytes that DuckDB may hold.

        Raises:
            UnsupportedFeatureError: DuckDB is not installed.
        """
        self._error = _duckdb().Error
        # A forked process lacks the threads of an inherited engine.
        self.process = current_process().pid
        root = _opened(max(memory_limit, _MEMORY_LEAST) >> 20, self.process)
        self._connection: duckdb.DuckDBPyConnection | None = root.cursor()
        _engines.add(self)

    def close(self) -> None:
        """Close the connection. The engine cannot be used afterwards."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def evaluate(self, rows: pa.Table, expressions: Sequence[Translated]) -> list[pa.ChunkedArray]:
        """Return the value of each expression for every row, in order, as `arrow_type` of its type.

        Args:
            rows: columns by their handles; at least the columns that the expressions use.
            expressions: none of type NULL.

        Raises:
            InvalidPredicateError: an expression has no result, such as overflow or division by
                zero.
        """
        used = sorted(set().union(*(each.columns for each in expressions)))
        chosen = rows.select(used) if used else pa.table({"none": [0]})
        listed = ", ".join(f"{each.sql} AS e{at}" for at, each in enumerate(expressions))
        answer = self.query(f"SELECT {listed} FROM rows", rows=chosen)
        columns = []
        for at, each in enumerate(expressions):
            assert each.type is not None
            column = answer[f"e{at}"]
            if not used:
                column = pa.chunked_array([pa.repeat(column[0], rows.num_rows)], column.type)
            try:
                columns.append(as_ours(column, each.type))
            except pa.ArrowInvalid as error:
                raise InvalidPredicateError(f"cannot be evaluated: {_first_line(error)}") from None
        return columns

    def query(self, text: str, **tables: pa.Table) -> pa.Table:
        """Return the rows of a query over Arrow tables. Raises as `evaluate`."""
        connection = self._connection
        assert connection is not None, "the engine is closed"
        try:
            for name, table in tables.items():
                connection.register(name, without_zones(table))
            rows: pa.Table = connection.sql(text).to_arrow_table()
        except self._error as error:
            if isinstance(error, _duckdb().FatalException | _duckdb().InternalException):
                # The whole instance is now unusable. The next statement opens another.
                _opened.cache_clear()
            raise InvalidPredicateError(f"cannot be evaluated: {_first_line(error)}") from None
        finally:
            for name in tables:
                with contextlib.suppress(_duckdb().FatalException):
                    connection.unregister(name)
        return rows


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


@dataclass(slots=True)
class LazyEngine:
    """Opens an engine for each thread when its first expression needs one."""

    memory_limit: int = MEMORY_BYTES
    _of_thread: threading.local = field(default_factory=threading.local)

    def __call__(self) -> Engine:
        """Return the engine of this thread, always the same one. Raises as `Engine`."""
        engine: Engine | None = getattr(self._of_thread, "engine", None)
        if engine is None or engine.process != current_process().pid:
            engine = self._of_thread.engine = Engine(self.memory_limit)
        return engine


def as_ours(column: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """Return a column of the engine as `arrow_type(kind)`."""
    target = arrow_type(kind)
    return column if column.type == target else column.cast(target)


def without_zones(table: pa.Table) -> pa.Table:
    """Return top-level timestamps as UTC wall clock, the form that the engine computes with."""
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            plain = table.column(at).cast(pa.timestamp("us"))
            table = table.set_column(at, column.name, plain)
    return table


def now_us() -> int:
    """Return the time of a statement, in µs since 1970 UTC."""
    return time.time_ns() // 1000


_CLOSED = (
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)
"""Settings that keep SQL text from Python variables, files, extensions and settings. Spec: SQL-6.
"""


@lru_cache(maxsize=4)
def _opened(memory_mb: int, process: int | None) -> duckdb.DuckDBPyConnection:
    # Two instances must not share a folder, because their files have the same names. Other users
    # could read DuckDB's default folder.
    folder = PrivateFolder("tablefmt-sql-")
    opened: duckdb.DuckDBPyConnection = _duckdb().connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_mb}MiB",
            "temp_directory": folder.path,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    # The order matters: without access to files, the folder cannot be set any more.
    for setting in _CLOSED:
        opened.execute(f"SET {setting}")
    # Close before the interpreter exits, while DuckDB's threads can still be stopped.
    atexit.register(_close, opened, process, folder)
    return opened


def _close(opened: duckdb.DuckDBPyConnection, process: int | None, folder: PrivateFolder) -> None:
    if current_process().pid != process:
        return
    # A module or a thread that still holds an engine would keep it until the DuckDB library is
    # unloaded.
    for engine in list(_engines):
        if engine.process == process:
            # An engine in use by a thread refuses to close.
            with contextlib.suppress(_duckdb().Error):
                engine.close()
    _opened.cache_clear()
    opened.close()
    folder.remove()


def check_engine() -> None:
    """Raise if DuckDB is missing, before any work is done.

    Raises:
        UnsupportedFeatureError: DuckDB is not installed.
    """
    _duckdb()


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise UnsupportedFeatureError(
            "this expression needs DuckDB, which is not installed. Only simple comparisons, "
            "arithmetic and CASE, and a MERGE with equality conditions work without it. Run: "
            "pip install 'tablefmt[sql]'",
            ["sql:duckdb"],
        ) from None
    return duckdb


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


_NO_RESULT = (pa.ArrowException, RecursionError, OverflowError)


def check_carried_out(expressions: Sequence[Translated]) -> None:
    """Raise if an expression needs DuckDB and it is missing, before any work is done.

    Raises:
        UnsupportedFeatureError: an expression needs DuckDB, and it is not installed.
    """
    if any(each.arrow is None for each in expressions):
        check_engine()


def evaluate(
    engine: Callable[[], Engine], rows: pa.Table, expressions: Sequence[Translated]
) -> list[pa.ChunkedArray]:
    """Return the value of each expression for every row, in order, as `arrow_type` of its type.

    Args:
        engine: called only if it is needed.
        rows: columns by their handles; at least the columns that the expressions use.
        expressions: none of type NULL.

    Raises:
        InvalidPredicateError: an expression has no result, such as overflow or division by zero.
        UnsupportedFeatureError: the engine is needed and not installed.
    """
    columns = by_arrow(rows, expressions)
    return engine().evaluate(rows, expressions) if columns is None else columns


def by_arrow(rows: pa.Table, expressions: Sequence[Translated]) -> list[pa.ChunkedArray] | None:
    """Return the same values by Arrow alone; None if the engine is needed."""
    columns = []
    for each in expressions:
        if each.arrow is None:
            return None
        assert each.type is not None, "NULL is no computation"
        try:
            columns.append(_column(_value(each.arrow, rows), arrow_type(each.type), rows.num_rows))
        except _NO_RESULT:
            # The error may come from a branch that SQL does not evaluate.
            return None
    return columns


def _value(value: Value, rows: pa.Table) -> pa.ChunkedArray | pa.Array | pa.Scalar:
    if isinstance(value, ColumnValue):
        return rows[value.handle]
    if isinstance(value, Call):
        operands = [_value(operand, rows) for operand in value.operands]
        return pc.call_function(value.function, operands, value.options)
    return pa.scalar(value.value, arrow_type(value.type))


def _column(
    value: pa.ChunkedArray | pa.Array | pa.Scalar, kind: pa.DataType, rows: int
) -> pa.ChunkedArray:
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, rows)
    column = value if isinstance(value, pa.ChunkedArray) else pa.chunked_array([value])
    assert column.type == kind, "it has the type that it was translated to"
    return column


@dataclass(slots=True)
class RowTest:
    """A condition on rows of data files."""

    schema: Schema
    condition: Translated
    """The condition over one relation: the schema, with the prefix `t`."""
    engine: LazyEngine = field(default_factory=LazyEngine)

    def __call__(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether the condition is TRUE. Columns have physical names.

        Raises:
            InvalidPredicateError: the condition has no result for a row.
        """
        columns = {}
        for at, column in enumerate(self.schema.fields):
            if f"t{at}" in self.condition.columns:
                values = batch.column(column.physical)
                columns[f"t{at}"] = relabelled(values, arrow_type(column.type))
        rows = pa.table(columns) if columns else pa.table({"none": pa.nulls(batch.num_rows)})
        (truth,) = evaluate(self.engine, rows, [self.condition])
        return pc.fill_null(truth, False).combine_chunks()
