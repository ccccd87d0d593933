"""What Spark refuses of a statement, told as the errors of this package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tablefmt.errors import InvalidPredicateError, TablefmtError
from tablefmt.spark.runtime.failures import raised_for

_OWN = re.compile(r", `__tablefmt_\w+`|`__tablefmt_\w+`(, )?")
"""Columns of ours among those that Spark suggests."""


@contextmanager
def statement_errors() -> Iterator[None]:
    """Spark's refusals of an expression come out as ours."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except TablefmtError:
        raise
    except (AnalysisException, ParseException) as error:
        # A text that cannot be parsed is told of after an empty line.
        first = _OWN.sub("", str(error).strip().splitlines()[0])
        raise InvalidPredicateError(f"Spark refuses the statement: {first}") from None
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        raise raised_for(java) or error from None
