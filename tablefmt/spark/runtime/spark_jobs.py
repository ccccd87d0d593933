"""Descriptions of Spark's jobs, and the digest of a micro-batch.

Spark's UI and the log `tablefmt.progress` show the descriptions.

A batch number identifies a batch only while the checkpoint folder is intact. A checkpoint folder
that was restored from a copy gives a used number to other rows. So the digest covers the start and
end offsets of a batch, which Spark records before the batch runs. An offset of a file source is
only a number, so the digest covers the paths of the files, too. Spec: STR-12.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from uuid import UUID

from tablefmt.model.content_hashes import of_batch
from tablefmt.spark.pyspark_objects import (
    JavaObject,
    Session,
    context_of,
    has_jvm,
    is_context_stopped,
    java_class,
    java_session,
)
from tablefmt.spark.spark_options import WriteOptions

_DESCRIPTION = "spark.job.description"

_progress = logging.getLogger("tablefmt.progress")


@contextmanager
def job_description(spark: Session, step: str) -> Iterator[None]:
    """Describe the Spark jobs that this thread starts meanwhile as `step`, and log the step.

    A classic session sets the description of jobs, and restores it afterwards. A Connect client
    cannot set it, so it adds a tag, without commas.

    Args:
        spark: the session.
        step: the statement, and its next step.
    """
    description = f"tablefmt {step}"
    _progress.info("%s", step)
    if not has_jvm(spark):
        tag = description.replace(",", "")
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, description)
    try:
        yield
    finally:
        # If the session was stopped meanwhile, it has no properties.
        if not is_context_stopped(context):
            # None removes the property, although PySpark's type has no None.
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


_log = logging.getLogger(__name__)

QUERY = "sql.streaming.queryId"
NUMBER = "streaming.sql.batchId"
"""Local properties that Spark sets in the thread of a streaming query."""


def with_batch(options: WriteOptions, spark: Session) -> WriteOptions:
    """Add the digest of the batch to the options of a write in `foreachBatch`.

    Options without an application version, or with one other than the batch number, stay unchanged.
    So do options in a session without a JVM, as in Connect.
    """
    application = options.commit.application
    context = context_of(spark)
    if application is None or options.digest is not None or context is None:
        return options
    query, number = context.getLocalProperty(QUERY), context.getLocalProperty(NUMBER)
    if not query or number != str(application[1]):
        return options
    return replace(options, digest=of_batch(content_of(spark, query, application[1]), None))


def content_of(spark: Session, query: str, number: int) -> str | None:
    """Return 64 hex digits that identify the rows of a batch. None if Spark does not tell.

    Args:
        spark: any session of the query's application.
        query: the id of the query.
        number: the number of the batch that the query is running.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    reason: object = "the query is not running"
    try:
        running = _running(spark, query)
        if running is not None:
            log = running.offsetLog()
            ends = [log.get(number - 1), log.get(number)]
            if ends[1].isDefined():
                # `toString` leaves out the times, watermarks and settings that the log has.
                parts = [end.toString() for end in ends]
                parts += sorted(_files(running.lastExecution().logical()))
                return hashlib.sha256("\n".join(parts).encode()).hexdigest()
            reason = "the offset log does not have the batch"
    except (Py4JError, PySparkException, TypeError, AttributeError) as error:
        # Another release of Spark may use other names for its classes.
        reason = error
    _warn(query, str(reason))
    return None


def _running(spark: Session, query: str) -> JavaObject | None:
    try:
        UUID(query)
    except ValueError:
        return None
    queries = java_session(spark).sharedState().activeStreamingQueries()
    return queries.get(java_class("java.util.UUID").fromString(query))


def _files(plan: JavaObject) -> list[str]:
    """Return the paths of the files that a batch reads from sources of files."""
    found: list[str] = []
    leaves = plan.collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        if not leaf.isStreaming() or not leaf.getClass().getName().endswith(".LogicalRelation"):
            continue
        relation = leaf.relation()
        if relation.getClass().getName().endswith(".HadoopFsRelation"):
            # As in the checkpoint: a file may be deleted after the batch was committed.
            found += relation.location().rootPaths().mkString("\n").split("\n")
    return found


@cache
def _warn(query: str, reason: str) -> None:
    """Log a warning once per query and reason."""
    _log.warning(
        "query %s: cannot read the offsets of its batches (%s). If its checkpoint folder is "
        "restored from a copy, another batch with a used number counts as already written",
        query,
        reason,
    )
