"""Meaning of S3 answers, by HTTP status and error code. Pure.

The text of a message never decides. Spec: STO-4 .. STO-6 and the table of spec/store.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.store.cloud_answers import Failure, RequestFailedError, explain_status, shown_status
from tablefmt.store.object_store import Cause, Exists, NoAnswer, PutReply, Refused, TooLong

# Errors that are raised before anything is sent.
_NEVER_SENT = {
    "NoCredentialsError": "no credentials were found; set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or pass key and secret as storage options",
    "PartialCredentialsError": "the credentials are incomplete; give both key and secret",
    "CredentialRetrievalError": "the credentials could not be fetched; check their provider",
    "TokenRetrievalError": "the sign-on token could not be fetched; sign on again",
    "UnauthorizedSSOTokenError": "the sign-on has expired; sign on again",
    "ProfileNotFound": "the credentials profile does not exist; check its name",
    "NoRegionError": "no region is set; set AWS_DEFAULT_REGION",
    "InvalidRegionError": "the region has no valid name; check it",
    "ParamValidationError": "the installed botocore cannot send this request; check the bucket's "
    "name, and update botocore to 1.36 or later",
}
_NEVER_SENT_CAUSE: dict[str, Cause] = {
    "NoCredentialsError": "wrong-credentials",
    "PartialCredentialsError": "wrong-credentials",
    "CredentialRetrievalError": "wrong-credentials",
    "ProfileNotFound": "wrong-credentials",
    "TokenRetrievalError": "expired-credentials",
    "UnauthorizedSSOTokenError": "expired-credentials",
}
_WRONG_CREDENTIALS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthorizationHeaderMalformed"}
)
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})
_WRONG_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})
# Errors of an answer that arrived but cannot be used as the object.
_BAD_ANSWER = {
    "FlexibleChecksumError": "the bytes do not match the checksum in the answer: they changed on "
    "the way, or the store sends the checksum of the whole object with a range. Try again. If it "
    "persists, set the storage option "
    "config_kwargs.response_checksum_validation=when_required, or use another store",
    "ResponseParserError": "the answer is not an S3 answer; check the endpoint",
}
_NO_PLACE = frozenset({"NoSuchBucket", "NoSuchAccessPoint"})
"""Codes of answers without an object because the place for objects does not exist."""
_MAX_CODE_CHARACTERS = 60


def failure_of(error: BaseException) -> Failure:
    """Decode the failure from an exception of s3fs or botocore, or from its cause."""
    if isinstance(error, RequestFailedError):
        return error.failure
    link: BaseException | None = error
    while link is not None:
        response = getattr(link, "response", None)
        if isinstance(response, Mapping) and "ResponseMetadata" in response:
            return _answered(response)
        link = link.__cause__
    name = type(error).__name__
    return Failure(0, name, resent=False, never_sent=name in _NEVER_SENT)


def _answered(response: Mapping[str, Any]) -> Failure:
    metadata = response["ResponseMetadata"]
    code = str(response.get("Error", {}).get("Code", ""))[:_MAX_CODE_CHARACTERS]
    return Failure(
        status=int(metadata.get("HTTPStatusCode") or 0),
        code=code,
        resent=int(metadata.get("RetryAttempts") or 0) > 0,
        never_sent=False,
        date=date_of(response),
    )


def date_of(response: Mapping[str, Any]) -> str | None:
    """Return the Date header of an answer."""
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders") or {}
    return headers.get("date")


async def body_of(answer: Mapping[str, Any], most: int) -> bytes:
    """Read the body of an answer, unless it is longer than `most` bytes (STO-24)."""
    body, length = answer["Body"], answer.get("ContentLength")
    if length is not None:
        return TooLong(length) if length > most else bytes(await body.read())
    parts, left = [], most + 1
    while left > 0 and (part := await body.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if left > 0 else TooLong(most + 1)


def put_reply(failure: Failure, bucket: str) -> PutReply:
    """Return the reply for a conditional create that did not end in 2xx. Pure."""
    reason = explain(failure, bucket)
    if failure.never_sent:
        return Refused(reason, _NEVER_SENT_CAUSE.get(failure.code, ""))
    if failure.status == 412:
        return Exists()
    # A refusal of the last attempt proves nothing about earlier attempts of the SDK.
    if _is_final(failure) and not failure.resent:
        return Refused(reason, _cause(failure))
    return NoAnswer(reason)


def _cause(failure: Failure) -> Cause:
    if failure.code in _NO_PLACE:
        return "no-place"
    if failure.code in _EXPIRED:
        return "expired-credentials"
    if failure.code in _WRONG_CLOCK:
        return "wrong-clock"
    if failure.code in _WRONG_CREDENTIALS or failure.status == 401:
        return "wrong-credentials"
    return ""


def _is_final(failure: Failure) -> bool:
    if failure.code == "RequestTimeout":
        return False
    if failure.status in (408, 409, 429):
        return False
    return 300 <= failure.status < 500 or failure.status == 501


def is_retryable(failure: Failure) -> bool:
    """Return whether the same request may succeed later without any change."""
    if failure.never_sent or failure.code in _BAD_ANSWER:
        return False
    return not _is_final(failure)


def is_absent(failure: Failure) -> bool:
    """Return whether a request for an object failed because the object does not exist."""
    return failure.status == 404 and failure.code not in _NO_PLACE


def explain(failure: Failure, bucket: str) -> str:
    """Return one clause: the problem, and the remedy. It holds no secret."""
    if failure.never_sent:
        return _NEVER_SENT.get(
            failure.code, f"the request could not be sent ({failure.code}); check the options"
        )
    status, code = failure.status, failure.code
    if code in _BAD_ANSWER:
        return f"{_BAD_ANSWER[code]} ({code})"
    if status == 0:
        return f"no answer came ({code}); check the endpoint and the network"
    shown = shown_status(failure)
    if code == "NoSuchUpload":
        return f"the upload no longer exists; write the object again ({shown})"
    if code == "NoSuchBucket":
        return f"the bucket {bucket!r} does not exist; create it or check its name ({shown})"
    if code in _EXPIRED:
        return f"the credentials have expired; renew them ({shown})"
    if code in _WRONG_CREDENTIALS or status == 401:
        return f"the credentials are wrong; check key, secret and region ({shown})"
    if code in _WRONG_CLOCK:
        return (
            "this machine's clock and the store's differ too much for a valid signature; "
            f"set this machine's clock ({shown})"
        )
    if status == 403:
        return (
            "access is denied; grant it to these credentials (without the right to list, S3 "
            f"answers the same for absent objects) ({shown})"
        )
    if 300 <= status < 400:
        return (
            f"the bucket {bucket!r} is in another region or at another endpoint; set it ({shown})"
        )
    return explain_status(status, shown)
