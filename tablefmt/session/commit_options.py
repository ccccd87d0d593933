"""Options of every commit, given as keywords and checked before any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypedDict, cast

import orjson

from tablefmt.errors import CorruptEntryError, InvalidArgumentError
from tablefmt.log.strict_json import check_limits
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.identity_columns import COUNTER_PREFIX
from tablefmt.model.log_entry import ApplicationTransaction, DerivedFrom


class CommitKeywords(TypedDict, total=False):
    """The keywords of every commit. See `CommitOptions`."""

    application: tuple[str, int] | None
    user_metadata: Mapping[str, Any]
    deadline: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """Options of every operation that commits."""

    application: tuple[str, int] | None = None
    """Application id and version. The commit is applied at most once for them."""
    user_metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values to keep in the entry."""
    deadline: float | None = None
    """Seconds after which the commit gives up."""
    derived_from: DerivedFrom | None = None
    """The batch range taken from another table. Not a keyword for callers."""

    @property
    def is_recorded(self) -> bool:
        """Return whether an application version or a cursor makes a version without changes (CFL-7,
        CFL-24)."""
        return self.application is not None or self.derived_from is not None

    def __post_init__(self) -> None:
        try:
            kept = orjson.loads(orjson.dumps(dict(self.user_metadata)))
            # Level 2, because these values are inside the outermost object of an entry.
            check_limits(kept, 2)
            if kept != self.user_metadata:
                raise ValueError("a value would change (NaN, dates, tuples, …)")
        except CorruptEntryError as error:
            raise InvalidArgumentError(f"invalid user_metadata: {error.detail}") from None
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"user_metadata cannot be written as JSON: {error}"
            ) from None
        if self.application is not None:
            object.__setattr__(self, "application", _checked_application(self.application))
        if self.deadline is None:
            return
        if not (isinstance(self.deadline, Real) and self.deadline >= 0):
            raise InvalidArgumentError(
                f"expected a deadline in seconds, at least 0, got {self.deadline!r}"
            )
        try:
            object.__setattr__(self, "deadline", float(self.deadline))
        except OverflowError:
            raise InvalidArgumentError(
                "the deadline has more seconds than a float can hold"
            ) from None


def _checked_application(application: Any) -> tuple[str, int]:
    pair = tuple(application) if isinstance(application, tuple | list) else ()
    number = whole_number(pair[1]) if len(pair) == 2 else None
    if number is None or not isinstance(pair[0], str):
        raise InvalidArgumentError(
            f"expected application=(text, whole number), got {application!r}"
        )
    checked = str(pair[0]), number
    if checked[0].startswith(COUNTER_PREFIX):
        raise InvalidArgumentError(
            f"application ids that begin with {COUNTER_PREFIX!r} count the values of identity "
            f"columns; give another id than {checked[0]!r:.200}"
        )
    try:
        check_limits(list(checked))
        checked[0].encode()
    except CorruptEntryError as error:
        raise InvalidArgumentError(f"invalid application={application!r}: {error.detail}") from None
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"invalid application={application!r}: {error}") from None
    return checked


def commit_options(given: Mapping[str, object]) -> CommitOptions:
    """Return the commit options of an operation's keywords.

    Raises:
        InvalidArgumentError: an unknown keyword, or a value of the wrong kind.
    """
    unknown = sorted(given.keys() - CommitKeywords.__annotations__.keys())
    if unknown:
        raise InvalidArgumentError(
            f"unknown argument {', '.join(unknown)}; expected one of "
            f"{', '.join(CommitKeywords.__annotations__)}"
        )
    return CommitOptions(**cast(CommitKeywords, given))


def application_of(options: CommitOptions, digest: str | None) -> ApplicationTransaction | None:
    """Return the `application` field of the entry."""
    if options.application is None:
        return None
    application_id, version = options.application
    return ApplicationTransaction(application_id, version, digest)
