"""Expressions carried out by DuckDB over Arrow rows; the extra `sql` installs it.

Rows go in and come out in Arrow's types; instants go in without their zone. Spec: SQL-1.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import current_process
from typing import Any

import pyarrow as pa

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.sql_to_duckdb import Translated
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Type
from tablefmt.store.private_folders import PrivateFolder

MEMORY_BYTES = 512 << 20
"""What an engine may hold by default; beyond it goes to disk."""


_MEMORY_LEAST = 32 << 20


class Engine:
    """A connection for one statement, without a way to files, extensions and settings. Not to be
    shared between threads.

    Engines of one limit share one instance, and so what that limit allows: to open one takes tens
    of milliseconds.
    """

    def __init__(self, memory_limit: int = MEMORY_BYTES) -> None:
        """Open it.

        Args:
            memory_limit: bytes that DuckDB may hold.

        Raises:
            UnsupportedFeatureError: DuckDB is not installed.
        """
        self._error = _duckdb().Error
        # A process that was forked has none of the threads of an engine it inherits.
        self.process = current_process().pid
        root = _opened(max(memory_limit, _MEMORY_LEAST) >> 20, self.process)
        self._connection = root.cursor()
        _engines.add(self)

    def close(self) -> None:
        """Let go of the connection. The engine is of no use afterwards."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def evaluate(self, rows: pa.Table, expressions: Sequence[Translated]) -> list[pa.ChunkedArray]:
        """The value of each expression for every row, in order, as `arrow_type` of its type.

        Args:
            rows: columns by their handles, those used at least.
            expressions: none of type NULL.

        Raises:
            InvalidPredicateError: a value for which it has no result: overflow, division by zero, …
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
        """The rows of a query over Arrow tables. Raises as `evaluate`."""
        try:
            for name, table in tables.items():
                self._connection.register(name, without_zones(table))
            rows: pa.Table = self._connection.sql(text).to_arrow_table()
        except self._error as error:
            if isinstance(error, _duckdb().FatalException | _duckdb().InternalException):
                # The whole instance is of no use from now on: the next statement gets another.
                _opened.cache_clear()
            raise InvalidPredicateError(f"cannot be evaluated: {_first_line(error)}") from None
        finally:
            for name in tables:
                with contextlib.suppress(_duckdb().FatalException):
                    self._connection.unregister(name)
        return rows


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


@dataclass(slots=True)
class LazyEngine:
    """Opens an engine when the first expression needs it, one for each thread that does."""

    memory_limit: int = MEMORY_BYTES
    _of_thread: threading.local = field(default_factory=threading.local)

    def __call__(self) -> Engine:
        """The engine, in a thread the same one each time. Raises as `Engine`."""
        engine: Engine | None = getattr(self._of_thread, "engine", None)
        if engine is None or engine.process != current_process().pid:
            engine = self._of_thread.engine = Engine(self.memory_limit)
        return engine


def as_ours(column: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """A column of the engine's as `arrow_type(kind)`."""
    target = arrow_type(kind)
    return column if column.type == target else column.cast(target)


def without_zones(table: pa.Table) -> pa.Table:
    """Instants as wall clocks of UTC, top-level columns alone: what the engine computes with."""
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            plain = table.column(at).cast(pa.timestamp("us"))
            table = table.set_column(at, column.name, plain)
    return table


def now_us() -> int:
    """The time of a statement, µs UTC."""
    return time.time_ns() // 1000


_CLOSED = (
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)
"""No text reaches a variable of Python's, a file, an extension, or these settings. Spec: SQL-6."""


@lru_cache(maxsize=4)
def _opened(memory_mb: int, process: int | None) -> Any:
    # Two instances must not share a folder: their files have the same names. DuckDB's own would be
    # open to other users of the machine.
    folder = PrivateFolder("tablefmt-sql-")
    opened = _duckdb().connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_mb}MiB",
            "temp_directory": folder.path,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    # In this order: the folder cannot be set any more once there is no access to files.
    for setting in _CLOSED:
        opened.execute(f"SET {setting}")
    # While the interpreter goes down, its threads would find nothing to stop them.
    atexit.register(_close, opened, process, folder)
    return opened


def _close(opened: Any, process: int | None, folder: PrivateFolder) -> None:
    if current_process().pid != process:
        return
    # What still holds an engine now, a module or a thread, would do so until the library that made
    # it is gone.
    for engine in list(_engines):
        if engine.process == process:
            # One that a thread is using refuses to close.
            with contextlib.suppress(_duckdb().Error):
                engine.close()
    _opened.cache_clear()
    opened.close()
    folder.remove()


def check_engine() -> None:
    """Say what is missing before any work is done.

    Raises:
        UnsupportedFeatureError: DuckDB is not installed.
    """
    _duckdb()


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise UnsupportedFeatureError(
            "expressions and conditions beyond comparisons of a column with constants, and MERGE, "
            "need DuckDB: pip install 'tablefmt[sql]'",
            ["sql:duckdb"],
        ) from None
    return duckdb


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
