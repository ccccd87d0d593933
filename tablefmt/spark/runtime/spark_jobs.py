"""Spark's jobs: what each is for, and the micro-batch that it is part of, as one digest.

People see the description in Spark's UI and in the log `tablefmt.progress`.

A batch number identifies a batch only while the checkpoint folder is whole: a folder that was put
back gives a used number to other rows. So the digest covers the offsets between which a batch lies,
as Spark noted them before the batch ran. An offset of a source of files is a mere number, so the
digest covers the paths of the files too. Spec: STR-12.
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
    java_session,
    jvm_of,
)
from tablefmt.spark.spark_options import WriteOptions

_DESCRIPTION = "spark.job.description"

_progress = logging.getLogger("tablefmt.progress")


@contextmanager
def job_description(spark: Session, step: str) -> Iterator[None]:
    """Spark's jobs that this thread starts inside are told of as `step`; the log hears it begin.

    In a classic session it is the description of the jobs, and afterwards that is what it was. Over
    Connect a client has no say in the description; there it is a tag, without its commas.

    Args:
        spark: the session.
        step: the statement, and what it is about to do.
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
        # A session that the statement saw stopped has no properties any more.
        if not is_context_stopped(context):
            context.setLocalProperty(_DESCRIPTION, before)


_log = logging.getLogger(__name__)

QUERY = "sql.streaming.queryId"
NUMBER = "streaming.sql.batchId"
"""Local properties that Spark sets in the thread of a query."""


def with_batch(options: WriteOptions, spark: Session) -> WriteOptions:
    """Add the digest of the batch to the options of a write in `foreachBatch`.

    The options stay as they are without an application version, with one that is not the number of
    the batch, and in a session that cannot ask the JVM, as over Connect.
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
    """Return 64 hex digits that identify the rows of a batch; None: Spark does not say.

    Args:
        spark: any session of the query's application.
        query: id of the query.
        number: of the batch that the query works on.
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
                # The log holds times, watermarks and settings too; `toString` leaves them out.
                told = [end.toString() for end in ends]
                told += sorted(_files(running.lastExecution().logical()))
                return hashlib.sha256("\n".join(told).encode()).hexdigest()
            reason = "the offset log does not have the batch"
    except (Py4JError, PySparkException, TypeError, AttributeError) as error:
        # Spark may name its classes otherwise in another release.
        reason = error
    _warn(query, str(reason))
    return None


def _running(spark: Session, query: str) -> JavaObject | None:
    try:
        UUID(query)
    except ValueError:
        return None
    jvm = jvm_of(spark)
    assert jvm is not None
    queries = java_session(spark).sharedState().activeStreamingQueries()
    return queries.get(jvm.java.util.UUID.fromString(query))


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
            # As they are in the checkpoint: a file may be deleted after the batch was committed.
            found += relation.location().rootPaths().mkString("\n").split("\n")
    return found


@cache
def _warn(query: str, reason: str) -> None:
    """Log once per query and reason."""
    _log.warning(
        "query %s: cannot find out which offsets its batches have (%s). If its checkpoint folder "
        "is put back, another batch under a used number is taken for the one that was written",
        query,
        reason,
    )
