"""What Spark's jobs are for, as people see it: in Spark's UI and the log `tablefmt.progress`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tablefmt.spark.jvm.pyspark_parts import has_jvm, is_context_stopped
from tablefmt.spark.runtime.frames import Session

_DESCRIPTION = "spark.job.description"

_log = logging.getLogger("tablefmt.progress")


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
    _log.info("%s", step)
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
