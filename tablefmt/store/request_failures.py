"""Requests that failed: what is known of them, on every object store. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """One request that did not end in 2xx.

    Attributes:
        status: HTTP status; 0 if no answer came.
        code: error code in the answer's body; the exception's class if no answer came.
        resent: True if the SDK sent the request more than once.
        never_sent: True if it failed before the first byte was sent.
    """

    status: int
    code: str
    resent: bool
    never_sent: bool
    date: str | None = None


def date_to_us(date: str | None) -> int | None:
    """Return microseconds since 1970 for an HTTP date; None if it cannot be parsed."""
    if not date:
        return None
    try:
        return int(parsedate_to_datetime(date).timestamp()) * 1_000_000
    except (TypeError, ValueError, OverflowError):
        return None


def explain_status(status: int, shown: str) -> str:
    """Return the clause for a status that has one meaning on every store."""
    if status == 501:
        return (
            f"the store does not support this request; use a store with conditional writes "
            f"({shown})"
        )
    if status in (429, 503):
        return f"the store asks to slow down ({shown}); try again later"
    if status == 409:
        return f"another request for this key is in progress ({shown}); try again"
    return f"the store answered {shown}"
