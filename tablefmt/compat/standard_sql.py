"""Standard SQL, which delta-rs and PyIceberg read, as the SQL of Spark that tablefmt reads. Pure.

There a name may be in double quotes, and a backslash in a text is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.literals import literal_sql
from tablefmt.expressions.predicate import quote_name

_QUOTED = re.compile(r"""'(?P<text>(?:[^']|'')*)'|"(?P<name>(?:[^"]|"")*)"|`(?:[^`]|``)*`""")
_PART = r"(?:`(?:[^`]|``)+`|[A-Za-z_$][\w$]*)"
_STRING = r"'(?:[^']|'')*'"
_LISTED = rf"\s*(?:{_STRING}|[\w.+-]+)\s*"
_PHRASE = re.compile(
    rf"""(?P<column>{_PART}(?:\s*\.\s*{_PART})*)\s+
        (?:IS\s+(?P<not_nan>NOT\s+)?(?P<nan>NAN)\b
          |(?P<not_in>NOT\s+)?IN\s*\((?P<listed>{_LISTED}(?:,{_LISTED})+)\))
      |(?P<like>\bLIKE\s+)'(?P<pattern>(?:[^']|'')*)'
      |{_STRING}|`(?:[^`]|``)*`""",
    re.IGNORECASE | re.VERBOSE,
)
_WILDCARD = re.compile(r"(?<!\\)%")


def spark_sql(given: Any) -> Any:
    """Return a text of standard SQL in the SQL of Spark. Other values stay as they are."""
    return _QUOTED.sub(_requoted, given) if isinstance(given, str) else given


def spark_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return texts of standard SQL by name, in the SQL of Spark."""
    return {name: spark_sql(text) for name, text in given.items()}


def is_nan(column: str, *, negated: bool = False) -> str:
    """Return the condition that a column is NaN, or is another number. It is NULL for NULL."""
    return f"({column} {'<>' if negated else '='} CAST('NaN' AS DOUBLE))"


def is_in(column: str, listed: str, *, negated: bool = False) -> str:
    """Return the condition that a column has one of several values, or none of them.

    For PyIceberg, NULL has none of them.
    """
    if negated:
        return f"({column} NOT IN ({listed}) OR {column} IS NULL)"
    return f"({column} IN ({listed}) AND {column} IS NOT NULL)"


def _requoted(found: re.Match[str]) -> str:
    if found["text"] is not None:
        return literal_sql(found["text"].replace("''", "'"), "string")
    if found["name"] is not None:
        return quote_name(found["name"].replace('""', '"'))
    return found[0]


def spark_condition(given: Any) -> Any:
    """Return a row filter in PyIceberg's grammar as a condition in the SQL of Spark.

    It is standard SQL with `IS NAN`, and with LIKE that has one wildcard: `%` at the end. NULL has
    none of several values (`NOT IN`).

    Raises:
        InvalidPredicateError: LIKE with `%` elsewhere.
    """
    if not isinstance(given, str):
        return given
    # Names first: a phrase begins with the name of a column.
    named = _QUOTED.sub(_renamed, given)
    return spark_sql(_PHRASE.sub(_rephrased, named))


def _renamed(found: re.Match[str]) -> str:
    return found[0] if found["name"] is None else _requoted(found)


def _rephrased(found: re.Match[str]) -> str:
    if found["nan"] is not None:
        return is_nan(found["column"], negated=found["not_nan"] is not None)
    if found["listed"] is not None:
        return is_in(found["column"], found["listed"], negated=found["not_in"] is not None)
    if found["like"] is None:
        return found[0]
    pattern = found["pattern"]
    wild = _WILDCARD.search(pattern)
    if wild is not None and wild.end() != len(pattern):
        raise InvalidPredicateError(
            f"pyiceberg: LIKE '{pattern:.200}': PyIceberg takes the wildcard % at the end only"
        )
    start = (pattern if wild is None else pattern[:-1]).replace("\\%", "%")
    plain = re.sub(r"[\\%_]", r"\\\g<0>", start)
    return f"{found['like']}'{plain}{'' if wild is None else '%'}'"
