"""What Spark's driver asks of Python: the verbs behind `format("tablefmt")` and SQL.

The Java classes decide nothing; each of their calls comes in here. What is a Java map or array of
text there comes as JSON text: one call into the JVM an element would be slow.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import TablefmtError
from tablefmt.spark.entry import (
    define_verbs,
    read_verbs,
    sink_verbs,
    statement_verbs,
    write_verbs,
)
from tablefmt.spark.entry.refusals import REFUSALS
from tablefmt.spark.runtime.failures import FAILED, cause_of, hand_over
from tablefmt.spark.runtime.frames import JavaObject

VERBS: Mapping[str, Callable[..., Any]] = {
    **read_verbs.VERBS,
    **write_verbs.VERBS,
    **define_verbs.VERBS,
    **statement_verbs.VERBS,
    **sink_verbs.VERBS,
    **REFUSALS,
}

_log = logging.getLogger("tablefmt.spark")


def answer(request: JavaObject) -> Any:
    """Answer one call of Bridge.java. Errors go back as values: py4j would wrap them in text."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    verb, arguments = request[0], list(request[1])
    try:
        return VERBS[verb](*arguments)
    except TablefmtError as error:
        return FAILED + hand_over(error)
    except Py4JJavaError as error:
        cause = cause_of(error.java_exception)
        return FAILED + hand_over(cause) if isinstance(cause, TablefmtError) else cause
    except CapturedException as error:
        if error._origin is not None:
            return error._origin
        return FAILED + str(error)
    except Exception as error:
        _log.debug("tablefmt failed in a callback", exc_info=True)
        return FAILED + "".join(traceback.format_exception(error))
