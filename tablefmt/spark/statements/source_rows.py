"""Store the source rows of a MERGE once, so that every read of the source returns the same rows.

Each stored row has a number. The module also lists the source's keys, or their bounds. Rows are
stored before the first use (decision 0035). If an executor dies while they are stored, Spark
recomputes them. If an executor dies later, its stored rows are lost. `is_lost` recognizes that
failure, and `again_if_lost` runs the statement again from its source. Pipes use both, too.

Spec: MRG-3, PIP-5.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.conflict.read_write_sets import Keys
from tablefmt.errors import CommitRejectedError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.merge_statement import SourceValues, values_of
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.cached_property import cached_property
from tablefmt.model.content_hashes import KEYS_MAX
from tablefmt.model.schema import Field, Schema
from tablefmt.session.merge_analysis import NAME, EquatedColumn, MergeAnalysis
from tablefmt.session.merge_pairs import source_keys
from tablefmt.spark.backends.backend_protocol import SOURCE
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import Column, DataFrame, functions_of, java_rows_if_any
from tablefmt.spark.runtime.spark_jobs import job_description
from tablefmt.spark.statements.frame_reads import shown_rows

LISTED_MAX = KEYS_MAX
"""Most source rows with keys that are listed on the driver. Larger sources send key bounds only."""

BROADCAST_MAX = 64 << 20
"""Estimated bytes of the largest source that is broadcast to every task."""

LISTED_FIRST_BYTES = 4 << 20
"""Largest size estimate of a source with keys and rows that one job lists and counts."""

SMALL_ROWS = 200_000
"""Most rows that a single task inserts."""

_NUMBER_BYTES, _OTHER_BYTES = 8, 32
_WHOLE = ("byte", "tinyint", "short", "smallint", "integer", "long", "bigint")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_OF_ONE_SIZE = frozenset((*_WHOLE, *_TIMES, "boolean", "float", "double"))
"""Spark's names of types with values of `_NUMBER_BYTES`."""

ATTEMPTS = 3
"""Attempts of a statement, if executors die with the stored rows."""

SOURCE_LOST = (
    f"executors that stored the source's rows died in {ATTEMPTS} attempts of this {{}}; see "
    "Spark's UI for the reason, or write the source to files first, to be independent of executors"
)

_Done = TypeVar("_Done")
_log = logging.getLogger("tablefmt.spark")

_LOST = re.compile(r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block rdd_\d+_\d+ not found")


def is_lost(error: BaseException) -> bool:
    """Return whether a job failed because an executor died with stored rows."""
    return _LOST.search(str(error)) is not None


def again_if_lost(name: str, statement: Callable[[], _Done]) -> _Done:
    """Run a statement that stores rows, and run it again if executors died with the rows.

    Args:
        name: the name of the statement, for messages.
        statement: reads its source again in each attempt, and leaves nothing behind if it fails.

    Raises:
        CommitRejectedError: the rows were lost in every attempt. Other errors of `statement`.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return statement()
        except Exception as error:
            if not is_lost(error):
                raise
            if not left:
                raise CommitRejectedError(SOURCE_LOST.format(name)) from error
            _log.warning("%s: an executor died with stored source rows; running it again", name)
    raise AssertionError("the last attempt neither returned nor failed")


def stored_once(rows: DataFrame, name: str) -> DataFrame:
    """Store the rows of a DataFrame, and number each row in column SOURCE.

    Later reads return these rows, or fail with an error that `is_lost` recognizes.

    Args:
        rows: the DataFrame.
        name: the name of the statement, for messages.
    """
    functions = functions_of(rows)
    numbered = rows.select("*", functions.monotonically_increasing_id().alias(SOURCE))
    if is_repeatable(rows):
        return numbered.localCheckpoint(eager=False)
    if rows.sparkSession.conf.get("spark.speculation", "false") == "true":
        # Both copies of a stored partition read the same shuffled rows.
        numbered = numbered.repartition(numbered[SOURCE])
    with job_description(rows.sparkSession, f"{name}: storing the source"):
        return numbered.localCheckpoint(eager=True)


def is_repeatable(source: DataFrame) -> bool:
    """Return whether a task of the query returns the same rows if it runs again."""
    plan = java_rows_if_any(source)
    spark = source.sparkSession
    if plan is None or java_classes.problem(spark):
        return False
    walker = java_classes.cached_in_jvm(
        spark, "RepeatableRows", lambda: java_classes.new_instance(spark, "RepeatableRows")
    )
    return bool(walker.of(plan))


class SourceRows:
    """Source rows that are the same in every read."""

    def __init__(
        self,
        rows: DataFrame,
        bind: Callable[[DataFrame], DataFrame],
        equated: Sequence[EquatedColumn],
    ) -> None:
        self.rows = bind(rows)
        """The rows as a DataFrame, with column SOURCE."""
        self._equated = equated

    @classmethod
    @contextmanager
    def stored(
        cls, source: DataFrame, bind: Callable[[DataFrame], DataFrame], analysis: MergeAnalysis
    ) -> Iterator[SourceRows]:
        """Compute and store the rows of a DataFrame. Spark frees stored rows without references.

        Args:
            source: the DataFrame.
            bind: gives the stored rows the column names that expressions use.
            analysis: the analysis of the statement.
        """
        yield cls(stored_once(source, NAME), bind, analysis.equated)

    @cached_property
    def _summarized(self) -> pa.Table:
        """One row: the number of rows, and for each key the non-NULL count, minimum and maximum."""
        functions = functions_of(self.rows)
        columns = [functions.count(functions.lit(1)).alias("count")]
        for at, value in enumerate(self._values):
            columns.append(functions.count(value).alias(f"known{at}"))
            columns.append(functions.min(value).alias(f"least{at}"))
            columns.append(functions.max(value).alias(f"most{at}"))
        return self.rows.agg(*columns).toArrow()

    @cached_property
    def _lists_keys_first(self) -> bool:
        """True if the source is so small that one job lists its keys and counts its rows."""
        plan = java_rows_if_any(self.rows)
        if plan is None or not self._equated:
            return False
        # py4j returns a small BigInt as a Python int, a large one as a JVM object.
        size = str(plan.queryExecution().optimizedPlan().stats().sizeInBytes())
        return int(size) <= LISTED_FIRST_BYTES

    @cached_property
    def count(self) -> int:
        """Number of rows."""
        if self._lists_keys_first:
            assert self._listed is not None, "keys of a small source are listed"
            return int(self._listed.num_rows)
        counted: int = self._summarized["count"][0].as_py()
        return counted

    @property
    def is_small(self) -> bool:
        """True if a single task can write the rows."""
        return self.count <= SMALL_ROWS

    @property
    def _values(self) -> list[Column]:
        return [_of_type(each.value, each.field) for each in self._equated]

    @cached_property
    def _listed(self) -> pa.Table | None:
        """All keys, one column per key. None if there are too many."""
        if not self._equated or (not self._lists_keys_first and self.count > LISTED_MAX):
            return None
        names = [f"k{at}" for at in range(len(self._equated))]
        rows = self.rows.select(
            *(v.alias(n) for v, n in zip(self._values, names, strict=True))
        ).toArrow()
        kinds = [arrow_type(each.field.type) for each in self._equated]
        columns = [rows[n].cast(kind) for n, kind in zip(names, kinds, strict=True)]
        return pa.table(columns, names)

    def values(self) -> list[SourceValues]:
        """Return the values of each of `MergeAnalysis.equated` in the source."""
        return [self._summary(at) for at in range(len(self._equated))]

    def _summary(self, at: int) -> SourceValues:
        field = self._equated[at].field
        if self._listed is not None:
            return values_of(self._listed.column(at), field)
        row = self._summarized
        has_null = row[f"known{at}"][0].as_py() < self.count
        if str(field.type) == "boolean" or row[f"least{at}"].null_count:
            return SourceValues(has_null=has_null)
        ends = []
        for end in ("least", "most"):
            column = row[f"{end}{at}"].cast(arrow_type(field.type))
            values = values_of(column, field).values
            assert values is not None, "a single value is always listed"
            ends.append(values[0])
        return SourceValues(lower=ends[0], upper=ends[1], has_null=has_null)

    def keys(self, analysis: MergeAnalysis) -> Keys | None:
        """Return the keys of all rows, as `source_keys`."""
        listed = self._listed
        if listed is None:
            return None

        def columns() -> list[pa.ChunkedArray]:
            return [listed[f"k{at}"] for at in analysis.key_parts]

        return source_keys(analysis, listed.num_rows, columns, later=True)

    def for_join(self) -> DataFrame:
        """Return the rows for a join. A small source is broadcast to every task."""
        kinds = [field.dataType.typeName() for field in self.rows.schema.fields]
        width = sum(_NUMBER_BYTES if kind in _OF_ONE_SIZE else _OTHER_BYTES for kind in kinds)
        conf = self.rows.sparkSession.conf
        allowed = not str(conf.get("spark.sql.autoBroadcastJoinThreshold")).startswith("-")
        if allowed and self.count * width <= BROADCAST_MAX:
            return functions_of(self.rows).broadcast(self.rows)
        return self.rows

    def without(self, numbers: NDArray[np.int64]) -> DataFrame:
        """Return the rows without those with the given numbers, which are sorted."""
        if not len(numbers):
            return self.rows
        session = self.rows.sparkSession
        left_out = session.createDataFrame(pa.table({SOURCE: numbers}))
        broadcast = functions_of(self.rows).broadcast
        return self.rows.join(
            broadcast(left_out), self.rows[SOURCE] == left_out[SOURCE], "left_anti"
        )

    def named(self, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the keys of some rows for messages, or the whole rows if ON compares no keys."""
        chosen = self.rows.where(self.rows[SOURCE].isin([int(n) for n in numbers]))
        if self._equated:
            names = [each.field.name for each in self._equated]
            chosen = chosen.select(*(v.alias(n) for v, n in zip(self._values, names, strict=True)))
        else:
            chosen = chosen.drop(SOURCE)
        return shown_rows(chosen)


def _of_type(value: Column, field: Field) -> Column:
    """Return a key in the table column's type. NULL if it does not fit, so that no row matches."""
    from pyspark.sql.types import StructType

    fields = to_spark_json(Schema((field,), field.id))["fields"]
    kind = StructType.fromJson({"type": "struct", "fields": fields})[0].dataType
    return value.try_cast(kind)
