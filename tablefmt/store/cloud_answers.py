"""Requests that failed, on every store, and the answers of Google Cloud Storage and Azure. Pure.

HTTP status and error code decide, never the text of a message. Spec: STO-4 .. STO-6 and the table
of spec/store.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from tablefmt.store.object_store import Cause, Exists, NoAnswer, PutReply, Refused


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


class RequestFailedError(Exception):
    """Exception with a failure that is already decoded."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


def date_to_us(date: str | None) -> int | None:
    """Return microseconds since 1970 for an HTTP date; None if it cannot be parsed."""
    if not date:
        return None
    try:
        return int(parsedate_to_datetime(date).timestamp()) * 1_000_000
    except (TypeError, ValueError, OverflowError):
        return None


def shown_status(failure: Failure) -> str:
    """Return the status and the code of an answer, for a message."""
    status, code = failure.status, failure.code
    return f"HTTP {status}" + (f", {code}" if code and code != str(status) else "")


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


@dataclass(frozen=True, slots=True)
class Dialect:
    """Codes of one cloud, and the names of its parts in messages."""

    place: str
    """The word for what holds objects: bucket, container."""
    taken: frozenset[str]
    """Codes, besides status 412, of a create whose key was taken."""
    no_place: frozenset[str]
    """Codes of a 404 without an object because the place for objects does not exist."""
    wrong_credentials: frozenset[str]
    remedy: str
    """Advice on credentials, for messages."""

    def put_reply(self, failure: Failure, bucket: str) -> PutReply:
        """Return the reply for a conditional create that did not end in 2xx. Pure."""
        reason = self.explain(failure, bucket)
        if failure.never_sent:
            return Refused(reason, "wrong-credentials")
        if failure.status == 412 or failure.code in self.taken:
            return Exists()
        if _is_final(failure) and not failure.resent:
            return Refused(reason, self._cause(failure))
        return NoAnswer(reason)

    def _cause(self, failure: Failure) -> Cause:
        if failure.status == 404:
            return "no-place"
        if failure.code in self.wrong_credentials or failure.status == 401:
            return "wrong-credentials"
        return ""

    def is_retryable(self, failure: Failure) -> bool:
        """Return whether the same request may succeed later without any change."""
        return not failure.never_sent and not _is_final(failure)

    def is_absent(self, failure: Failure) -> bool:
        """Return whether a request for an object failed because the object does not exist."""
        return failure.status == 404 and failure.code not in self.no_place

    def explain(self, failure: Failure, bucket: str) -> str:
        """Return one clause: the problem, and the remedy. It holds no secret."""
        status, code = failure.status, failure.code
        if failure.never_sent:
            return f"no usable credentials were found ({code}); {self.remedy}"
        if status == 0:
            return f"no answer came ({code}); check the endpoint and the network"
        shown = shown_status(failure)
        if status == 404:
            return (
                f"the {self.place} {bucket!r} does not exist; create it or check its name ({shown})"
            )
        if code in self.wrong_credentials or status == 401:
            return f"the credentials are wrong or missing; {self.remedy} ({shown})"
        if status == 403:
            return f"access is denied; grant it to these credentials ({shown})"
        if 300 <= status < 400:
            return f"the store redirects to another address; check the endpoint ({shown})"
        return explain_status(status, shown)


GOOGLE = Dialect(
    place="bucket",
    taken=frozenset(),
    # Bucket and object have one code here. The store asks again: `GcsStore`.
    no_place=frozenset({"NoSuchBucket"}),
    wrong_credentials=frozenset({"authError", "invalidCredentials"}),
    remedy="set GOOGLE_APPLICATION_CREDENTIALS, or pass google_application_credentials as a "
    "storage option",
)
AZURE = Dialect(
    place="container",
    taken=frozenset(
        # The last two only come where an object is.
        {"BlobAlreadyExists", "UnauthorizedBlobOverwrite", "BlobImmutableDueToPolicy"}
    ),
    no_place=frozenset({"ContainerNotFound", "ResourceNotFound", "AccountNotFound"}),
    wrong_credentials=frozenset(
        {"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"}
    ),
    remedy="set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or "
    "AZURE_STORAGE_CONNECTION_STRING, or pass azure_storage_account_key as a storage option",
)


def _is_final(failure: Failure) -> bool:
    if failure.status in (408, 409, 429):
        return False
    return 300 <= failure.status < 500 or failure.status == 501
