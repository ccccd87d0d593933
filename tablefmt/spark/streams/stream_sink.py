"""Settings of a stream's sink, and the check that a batch follows the table's last one. Pure.

Spec: STR-10 .. STR-15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tablefmt.errors import (
    ConcurrentTransactionException,
    InvalidArgumentError,
    TableNotFoundError,
    TableReplacedError,
    UnsupportedFeatureError,
)
from tablefmt.model.content_hashes import of_batch
from tablefmt.model.name_matching import folded
from tablefmt.spark.spark_options import (
    WriteOptions,
    check_not_clustered,
    parse_options,
    pop_option,
    pop_partition_by,
)

OF_THE_QUERY = ("checkpointlocation", "queryname")
"""Options that Spark uses itself and still passes on, in lower case.

Spark does not know them with an underscore. Then they would have no effect at all.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Settings of the sink of a query."""

    uri: str
    complete: bool
    """True if every batch is the whole table."""
    partition_by: tuple[str, ...]
    application: str | None
    """Application id that the user gave. None: the id of the query."""
    options: WriteOptions
    """Options of the write of every batch, without its application version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch, identified as Spark does."""

    number: int
    """Number from 0. A repeated batch has the same number."""
    query: str | None
    """Id of the query, which its checkpoint stores. None: unknown."""
    run: str | None
    """Id of this run of the query."""
    content: str | None = None
    """Hash that identifies its rows. None: unknown."""


def sink_of(mode: str, given: Mapping[str, str], partition_by: Sequence[str] = ()) -> Sink:
    """Return the sink of `writeStream`'s settings.

    Args:
        mode: Spark's output mode.
        given: the options, as they were written.
        partition_by: the arguments of `partitionBy`. Without them, the options have the columns.

    Raises:
        UnsupportedFeatureError: update mode, clusterBy, or an unknown option.
        InvalidArgumentError: the path is missing, or an option is invalid or not allowed.
    """
    lowered = folded(mode)
    if lowered not in ("append", "complete"):
        raise UnsupportedFeatureError(
            f"output mode {lowered} is not supported by format('tablefmt'), because Spark does not "
            "say which rows a batch replaces; use writeStream.foreachBatch(…) with MERGE: "
            "SparkTable.merge(batch, on).….execute(application=(query_id, batch_id))",
            [f"mode:{lowered}"],
        )
    options = {n: v for n, v in given.items() if folded(n) not in OF_THE_QUERY}
    check_not_clustered(options)
    uri = pop_option(options, "path")
    if not uri:
        raise InvalidArgumentError("the path is missing; give it to start(), or set option 'path'")
    by_options = pop_partition_by(options)
    application = pop_option(options, "txnAppId")
    for name in ("txnVersion", "application"):
        if pop_option(options, name) is not None:
            raise InvalidArgumentError(
                f"a stream does not take {name}: its application version is the number of the "
                "batch; give txnAppId only"
            )
    complete = lowered == "complete"
    return Sink(
        uri=uri,
        complete=complete,
        partition_by=tuple(partition_by or by_options),
        application=application,
        options=_checked(parse_options(options), complete=complete),
    )


def _checked(options: WriteOptions, *, complete: bool) -> WriteOptions:
    if options.part:
        what = "complete mode replaces the whole table" if complete else "append replaces nothing"
        raise InvalidArgumentError(
            f"a stream does not take {options.part}: {what}; use "
            "foreachBatch to overwrite a part of the table"
        )
    if options.overwrite_schema and not complete:
        raise InvalidArgumentError(
            "overwriteSchema has no effect in append mode; use mergeSchema, or complete mode"
        )
    return options


def application_of(sink: Sink, batch: Batch) -> str:
    """Return the application id under which a batch is applied exactly once (STR-11).

    Raises:
        UnsupportedFeatureError: the query's id is unknown, and txnAppId is not set.
    """
    application = sink.application or batch.query
    if not application:
        raise UnsupportedFeatureError(
            "Spark does not pass the id of this query, so a repeated batch could not be "
            "recognized. Set the option txnAppId to a name that is unique to this query and its "
            "checkpoint, and never changes",
            ["option:txnAppId"],
        )
    return application


def options_of(sink: Sink, batch: Batch) -> WriteOptions:
    """Return the options of the write of one batch. Raises as `application_of`."""
    application = application_of(sink, batch), batch.number
    return replace(
        sink.options,
        commit=replace(sink.options.commit, application=application),
        digest=of_batch(batch.content, batch.run),
    )


def check_there(uri: str, batch: Batch, table: str | None) -> None:
    """Check that a batch may create the table, where there is none (STR-14).

    Args:
        uri: the location of the table.
        batch: the batch to write.
        table: the id of the table when the query began. None: there was no table.

    Raises:
        TableNotFoundError: earlier batches went to a table that no longer exists.
    """
    if batch.number > 0 or table is not None:
        raise TableNotFoundError(
            uri,
            f"batch {batch.number} of a stream is to be written there, but the table with the "
            "earlier batches was removed or moved; to start the query from the beginning, use a "
            "new checkpoint",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Newest batch of an application id in a table."""

    number: int
    version: int
    """Version of the table with the batch."""


def check_follows(
    uri: str, batch: Batch, last: Applied | None, there: str, begun: str | None
) -> None:
    """Check that a batch may follow the last batch in a table (STR-14).

    Args:
        uri: the location of the table.
        batch: the batch to write.
        last: the newest batch of this application id. None: there is none.
        there: the id of the table.
        begun: the id of the table that the query found before. None: none yet.

    Raises:
        TableReplacedError: rows of earlier batches are not in this table.
        ConcurrentTransactionException: another run wrote later batches.
    """
    if begun is not None and there != begun:
        raise TableReplacedError(
            f"the table at {uri} was replaced after the query began, so its earlier batches are "
            "missing; start from the beginning with a new checkpoint",
            rule="STR-14",
        )
    newest = -1 if last is None else last.number
    if last is not None and batch.number < newest:
        # An engine repeats only its last batch. So these rows differ from those written before.
        raise ConcurrentTransactionException(
            f"the table at {uri} has batches up to {newest} of this query, but batch "
            f"{batch.number} is to be written. The checkpoint is behind another run, was restored "
            "from a copy, or is a new one under an id in use",
            winner_version=last.version,
            winner_operation=f"batch {newest}",
            rule="STR-14",
            advice="Stop the other run; or use a new checkpoint with a new txnAppId.",
        )
    if batch.number <= newest + 1:
        return
    known = "no batch" if last is None else f"batches up to {newest}"
    raise TableReplacedError(
        f"the table at {uri} has {known} of this query, but batch {batch.number} is to be "
        "written. The batches between went to another table, or the table was created again. "
        "Start from the beginning with a new checkpoint; or, to continue with the table as it is, "
        "append no rows with "
        f"application=(id, {batch.number - 1}), where id is the query's id or txnAppId",
        rule="STR-14",
    )
