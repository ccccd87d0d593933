"""What a stream asks of its sink, and whether a batch may go on top of what the table holds. Pure.

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
"""Options that Spark keeps for itself, and hands on all the same; in lower case. With an underscore
it does not know them, so they would mean nothing to anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """What a query was told about where its rows go."""

    uri: str
    complete: bool
    """Every batch is the whole table."""
    partition_by: tuple[str, ...]
    application: str | None
    """The id that somebody gave; None: the query's own."""
    options: WriteOptions
    """Of the write of every batch, but for its application version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch, by the names that Spark has for it."""

    number: int
    """From 0; a batch that is repeated has the number that it had."""
    query: str | None
    """Id of the query, which its checkpoint keeps; None: not known."""
    run: str | None
    """Id of this run of the query."""
    content: str | None = None
    """Digits that tell its rows; None: not known."""


def sink_of(mode: str, given: Mapping[str, str], partition_by: Sequence[str] = ()) -> Sink:
    """Check what `writeStream` was told.

    Args:
        mode: Spark's output mode.
        given: the options, as they were written.
        partition_by: what `partitionBy` was given; without, the options say it.

    Raises:
        UnsupportedFeatureError: update mode, clusterBy, or an option that there is not.
        InvalidArgumentError: no path, or an option's value or presence that makes no sense.
    """
    lowered = folded(mode)
    if lowered not in ("append", "complete"):
        raise UnsupportedFeatureError(
            f"output mode {lowered} is not supported by format('tablefmt'): which rows a batch "
            "takes the place of, Spark does not say; use writeStream.foreachBatch(…) with "
            "MERGE: SparkTable.merge(batch, on).….execute(application=(query_id, batch_id))",
            [f"mode:{lowered}"],
        )
    options = {n: v for n, v in given.items() if folded(n) not in OF_THE_QUERY}
    check_not_clustered(options)
    uri = pop_option(options, "path")
    if not uri:
        raise InvalidArgumentError("there is no path; give one to start(), or option 'path'")
    by_options = pop_partition_by(options)
    application = pop_option(options, "txnAppId")
    for name in ("txnVersion", "application"):
        if pop_option(options, name) is not None:
            raise InvalidArgumentError(
                f"{name} means nothing to a stream: the application version is the number of the "
                "batch; txnAppId alone may be given"
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
    if options.replace_where or options.dynamic_partitions:
        what = "complete mode replaces the whole table" if complete else "append replaces nothing"
        raise InvalidArgumentError(
            f"replaceWhere and partitionOverwriteMode mean nothing to a stream: {what}; "
            "foreachBatch can overwrite a part"
        )
    if options.overwrite_schema and not complete:
        raise InvalidArgumentError(
            "overwriteSchema means nothing in append mode; use mergeSchema, or complete mode"
        )
    return options


def application_of(sink: Sink, batch: Batch) -> str:
    """The application id under which a batch is applied once (STR-11).

    Raises:
        UnsupportedFeatureError: there is none to be had.
    """
    application = sink.application or batch.query
    if not application:
        raise UnsupportedFeatureError(
            "Spark does not say which query this stream is, so a batch that it repeats could not "
            "be told from a new one; give the option txnAppId, a name that this query and its "
            "checkpoint keep for good",
            ["option:txnAppId"],
        )
    return application


def options_of(sink: Sink, batch: Batch) -> WriteOptions:
    """The options of the write of one batch. Raises as `application_of`."""
    application = application_of(sink, batch), batch.number
    return replace(
        sink.options,
        commit=replace(sink.options.commit, application=application),
        digest=of_batch(batch.content, batch.run),
    )


def check_there(uri: str, batch: Batch, table: str | None) -> None:
    """Where there is no table: whether the batch may be the one that makes it (STR-14).

    Args:
        uri: the place.
        batch: about to be written.
        table: id of the table that was there when the query began; None: there was none.

    Raises:
        TableNotFoundError: earlier batches went to a table that is gone.
    """
    if batch.number > 0 or table is not None:
        raise TableNotFoundError(
            uri,
            f"batch {batch.number} of a stream goes there, and what was before it is gone or is "
            "elsewhere; a query that is to begin anew needs a new checkpoint",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The newest batch of an application id that a table knows of."""

    number: int
    version: int
    """The table's, which brought it."""


def check_follows(
    uri: str, batch: Batch, last: Applied | None, there: str, begun: str | None
) -> None:
    """Whether a batch may go on top of what a table holds (STR-14).

    Args:
        uri: the place.
        batch: about to be written.
        last: the newest of this application id; None: there is none.
        there: id of the table.
        begun: of the one that the query found before; None: none yet.

    Raises:
        TableReplacedError: rows of earlier batches are not in this table.
        ConcurrentTransactionException: somebody else wrote batches after this one.
    """
    if begun is not None and there != begun:
        raise TableReplacedError(
            f"another table is at {uri} than when the query began: its earlier batches are not "
            "there. Begin anew with a new checkpoint",
            rule="STR-14",
        )
    newest = -1 if last is None else last.number
    if last is not None and batch.number < newest:
        # An engine repeats its last batch at most. Its rows are not those that were written.
        raise ConcurrentTransactionException(
            f"the table at {uri} has batches up to {newest} of this query, and batch "
            f"{batch.number} is to be written: by a checkpoint that another run is ahead of, that "
            "was put back, or that was begun anew under an id in use",
            winner_version=last.version,
            winner_operation=f"batch {newest}",
            rule="STR-14",
            advice="End the other run; or give a new checkpoint, and with it a new txnAppId.",
        )
    if batch.number <= newest + 1:
        return
    known = "no batch" if last is None else f"batches up to {newest}"
    raise TableReplacedError(
        f"the table at {uri} knows {known} of this query, and batch {batch.number} is to be "
        "written: what was between went elsewhere, or the table was made anew, or has forgotten "
        "(applicationRetentionDuration). Begin anew with a new checkpoint; or, if the table is to "
        "be gone on with as it is, tell it so: append no rows with application=(id, "
        f"{batch.number - 1}), where id is the query's, or what txnAppId says",
        rule="STR-14",
    )
