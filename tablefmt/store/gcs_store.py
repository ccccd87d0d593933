"""Store in a prefix of a Google Cloud Storage bucket, through its JSON API.

google-auth gives the credentials; the requests are our own, so that status, Date and re-sends are
known. Spec: STO-1 .. STO-11 (spec/store.md).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from tablefmt.errors import StoreError, UnsupportedFeatureError
from tablefmt.store.cloud_answers import GOOGLE, Failure, RequestFailedError
from tablefmt.store.cloud_options import GOOGLE_OPTIONS, completed, given_options, public_options
from tablefmt.store.cloud_store import (
    OUTPUT_PART_BYTES,
    TIMEOUT_SECONDS,
    CloudStore,
    KeptClients,
    Parts,
    prepared,
)
from tablefmt.store.object_store import Request, TooLong

try:
    import requests
    from google.auth import default, load_credentials_from_dict
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession
    from google.oauth2 import service_account
    from google.oauth2.credentials import Credentials
except ImportError:
    requests = None

_GOOGLE = "https://storage.googleapis.com"
_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_CLIENTS = KeptClients(("GOOGLE_", "STORAGE_EMULATOR_HOST", "GCLOUD_", "CLOUDSDK_"))
_FOUND: set[tuple[str, str]] = set()
"""Endpoints and buckets that have answered for an object or a listing in this process."""
_BODY = {"Content-Type": "application/octet-stream"}
_MAX_CODE_CHARACTERS = 60
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z")


class GcsStore(CloudStore):
    """Objects below `gs://bucket/prefix`. `options` are named as in deltalake and obstore (STO-27).

    Without options, the environment applies: GOOGLE_APPLICATION_CREDENTIALS, STORAGE_EMULATOR_HOST,
    and what else google-auth knows.
    """

    answers = GOOGLE

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: Mapping[str, Any] | None = None,
        *,
        unsafe_single_writer: bool = False,
    ) -> None:
        if requests is None:
            raise UnsupportedFeatureError(
                "tables on Google Cloud Storage need google-auth and requests, which are not "
                "installed. Run: pip install 'tablefmt[gcs]'",
                features=["extra:gcs"],
            )
        self._given = dict(options or {})
        given = given_options(self._given, GOOGLE_OPTIONS)
        options = completed(given, os.environ, GOOGLE_OPTIONS)
        super().__init__(
            "gs",
            bucket,
            prefix,
            uri=f"gs://{bucket}/{prefix}".rstrip("/"),
            endpoint=_address(options.get("endpoint")),
            options=options,
            unsafe_single_writer=unsafe_single_writer,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._bucket, self._prefix, self._given, self.unsafe_single_writer)

    def portable_options(self) -> dict[str, Any]:
        """Return the options with what the environment of this process sets.

        A file of credentials is sent as its text, because other machines do not have it. Roles
        of a machine are left to the process that runs there.
        """
        options = dict(self._options)
        path = options.get("account_file")
        if path is None and not _has_login(options) and not _is_plain(self._endpoint):
            path = os.environ.get(_VARIABLE) or _known_file()
        if path is not None:
            options.pop("account_file", None)
            options["account_key"] = _text_of(path)
        return public_options(options, GOOGLE_OPTIONS)

    def with_credentials(self) -> GcsStore:
        """Return this store with options that do not depend on this machine's environment."""
        options = self.portable_options()
        return _reopen(self._bucket, self._prefix, options, self.unsafe_single_writer)

    # Requests

    def _failure(self, error: Exception) -> Failure | None:
        if isinstance(error, RequestFailedError):
            return error.failure
        name = type(error).__name__
        if isinstance(error, GoogleAuthError):
            return Failure(0, name, resent=False, never_sent=True)
        if isinstance(error, requests.RequestException):
            return Failure(0, name, resent=False, never_sent=False)
        return None

    def _session(self) -> Any:
        return _CLIENTS.get(self._options, lambda: _new_session(self._options))

    def _ask(self, method: str, path: str, **arguments: Any) -> Any:
        """Send one request, and return its answer with the body unread.

        Raises:
            RequestFailedError: the answer is no success.
        """
        headers = {"Accept-Encoding": "identity", **arguments.pop("headers", {})}
        answer = self._session().request(
            method,
            path if "://" in path else self._endpoint + path,
            headers=headers,
            timeout=self._options.get("timeout", TIMEOUT_SECONDS),
            allow_redirects=False,
            stream=True,
            **arguments,
        )
        self.note_date(answer.headers.get("Date"))
        # 308 asks for the next part of an upload.
        if answer.status_code >= 300 and answer.status_code != 308:
            with answer:
                raise RequestFailedError(_failure_of(answer))
        _FOUND.add((self._endpoint, self._bucket))
        return answer

    def _done(self, method: str, path: str, **arguments: Any) -> None:
        with self._ask(method, path, **arguments) as answer:
            _drain(answer)

    def _upload(self, name: str, kind: str, **more: str) -> tuple[str, dict[str, str]]:
        path = f"/upload/storage/v1/b/{quote(self._bucket, safe='')}/o"
        return path, {"uploadType": kind, "name": name, "fields": "generation", **more}

    def _object(self, name: str) -> str:
        return f"/storage/v1/b/{quote(self._bucket, safe='')}/o/{quote(name, safe='')}"

    def _create(self, name: str, body: bytes) -> None:
        path, query = self._upload(name, "media", ifGenerationMatch="0")
        self._done("POST", path, params=query, data=body, headers=_BODY)

    def _write(self, name: str, body: bytes) -> None:
        path, query = self._upload(name, "media")
        self._done("POST", path, params=query, data=body, headers=_BODY)

    def _fetch(self, name: str, most: int, start: int | None) -> bytes:
        headers = {} if start is None else {"Range": f"bytes={start}-{start + most - 1}"}
        query = {"alt": "media"}
        with self._ask("GET", self._object(name), params=query, headers=headers) as answer:
            body = _body_of(answer, most)
        if start is not None and isinstance(body, TooLong):
            raise StoreError(
                f"{self.uri} answered {body.length} bytes to a request for {most} bytes. "
                "Use a store that supports range requests."
            )
        return body

    def _length(self, name: str) -> int:
        with self._ask("GET", self._object(name), params={"fields": "size"}) as answer:
            return int(_json_of(answer, self.uri)["size"])

    def _remove(self, name: str) -> None:
        self._done("DELETE", self._object(name))

    def _page(self, prefix: str, after: str | None, token: str | None) -> tuple[Any, str | None]:
        query = {
            "prefix": prefix,
            "startOffset": after,
            "pageToken": token,
            "fields": "items(name,size,updated),nextPageToken",
        }
        path = f"/storage/v1/b/{quote(self._bucket, safe='')}/o"
        with self._ask("GET", path, params=query) as answer:
            page = _json_of(answer, self.uri)
        found = [
            (one["name"], int(one["size"]), _micros(one.get("updated")))
            for one in page.get("items") or ()
        ]
        return found, page.get("nextPageToken")

    def _confirm_bucket(self) -> bool:
        """Ask for one key of the bucket, once: an absent bucket has the answer of an absent object.

        Raises:
            StoreError: the store does not say.
        """
        if (self._endpoint, self._bucket) in _FOUND:
            return True
        self.tally.add(Request.LIST)
        path = f"/storage/v1/b/{quote(self._bucket, safe='')}/o"
        try:
            self._done("GET", path, params={"maxResults": "1", "fields": "nextPageToken"})
        except RequestFailedError as error:
            if error.failure.status == 404:
                return False
            raise self._error("list", ".", error.failure) from None
        except Exception as error:
            raise self._error("list", ".", self._decoded(error)) from None
        return True

    def _parts(self, name: str) -> Parts:
        return _Upload(self, name)


class _Upload(Parts):
    """A resumable upload. A short object is one request."""

    def __init__(self, store: GcsStore, name: str) -> None:
        self._store, self._name = store, name
        self._session = ""
        self._sent = 0

    def send(self, part: bytes) -> None:
        if not self._session:
            path, query = self._store._upload(self._name, "resumable")
            with self._store._ask("POST", path, params=query, json={}) as answer:
                _drain(answer)
                self._session = answer.headers["Location"]
        end = self._sent + len(part)
        self._put(part, f"bytes {self._sent}-{end - 1}/*", 308)
        self._sent = end

    def finish(self, rest: bytes) -> None:
        if not self._session:
            self._store._write(self._name, rest)
            return
        end = self._sent + len(rest)
        self._put(rest, f"bytes {self._sent}-{end - 1}/{end}", 200)

    def _put(self, part: bytes, span: str, expected: int) -> None:
        headers = {**_BODY, "Content-Range": span}
        with self._store._ask("PUT", self._session, data=part, headers=headers) as answer:
            _drain(answer)
        wanted = {200, 201} if expected == 200 else {expected}
        kept = answer.headers.get("Range")
        end = span.partition("-")[2].partition("/")[0]
        # The server may keep less than a part. It never does for whole MiB, so this is a failure.
        if answer.status_code not in wanted or (
            expected == 308 and kept is not None and kept.rpartition("-")[2] != end
        ):
            raise RequestFailedError(Failure(answer.status_code, "IncompleteUpload", False, False))

    def abort(self) -> None:
        """Cancel the upload. If that fails, it expires after a week."""
        if self._session:
            try:
                self._store._done("DELETE", self._session)
            except Exception:
                pass


assert OUTPUT_PART_BYTES % (256 << 10) == 0  # what resumable uploads ask of every part


def _failure_of(answer: Any) -> Failure:
    code = ""
    try:
        shown = json.loads(answer.raw.read(65536, decode_content=True))["error"]
        code = str(shown["errors"][0]["reason"])[:_MAX_CODE_CHARACTERS]
    except Exception:
        # A proxy's page, or a body that broke off: the status decides.
        pass
    return Failure(answer.status_code, code, False, False, answer.headers.get("Date"))


def _body_of(answer: Any, most: int) -> bytes:
    """Read the body of an answer, unless it is longer than `most` bytes (STO-24)."""
    length = answer.headers.get("Content-Length")
    if length is not None and length.isdecimal() and int(length) > most:
        return TooLong(int(length))
    parts, left = [], most + 1
    for part in answer.iter_content(1 << 20):
        parts.append(part[:left])
        left -= len(part)
        if left <= 0:
            return TooLong(most + 1)
    body = b"".join(parts)
    if length is not None and length.isdecimal() and len(body) != int(length):
        raise requests.exceptions.ConnectionError("the body broke off")
    return body


def _json_of(answer: Any, uri: str) -> dict[str, Any]:
    try:
        value = json.loads(answer.content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise StoreError(f"{uri} did not answer with a JSON object. Check the endpoint.")
    return value


def _drain(answer: Any) -> None:
    """Read the rest of an answer, so that its connection can be used again."""
    try:
        answer.content  # noqa: B018
    except requests.RequestException:
        # The status has come, and says enough.
        pass


def _micros(time: str | None) -> int:
    """Return µs since 1970; 0, which counts as young (RET-4), if the time is missing or odd."""
    match = _TIME.fullmatch(time or "")
    if match is None:
        return 0
    whole = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return int(whole.timestamp()) * 1_000_000 + int((match[2] or "").ljust(6, "0")[:6])


def _address(endpoint: Any) -> str:
    """Return the endpoint as a URL without a slash at the end."""
    text = str(endpoint or _GOOGLE).rstrip("/")
    if "://" not in text:
        text = f"http://{text}"  # the form of STORAGE_EMULATOR_HOST
    if "@" in text:
        raise StoreError("the endpoint contains credentials. Pass them as other storage options.")
    return text


def _new_session(options: Mapping[str, Any]) -> Any:
    credentials = _credentials(options)
    return prepared(requests.Session() if credentials is None else AuthorizedSession(credentials))


def _credentials(options: Mapping[str, Any]) -> Any:
    """Return credentials of google-auth; None for anonymous requests.

    An endpoint without TLS gets no credentials that the caller did not give.
    """
    if options.get("anonymous"):
        return None
    if "token" in options:
        return Credentials(options["token"])
    try:
        if "account_key" in options:
            return _loaded(json.loads(options["account_key"]))
        if "account_file" in options:
            return _loaded(json.loads(_text_of(options["account_file"])))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, GoogleAuthError) as error:
        # The message may hold parts of the key.
        raise StoreError(
            f"the Google credentials cannot be read ({type(error).__name__}). Pass the JSON text "
            "as google_service_account_key, or its file as google_service_account."
        ) from None
    if _is_plain(_address(options.get("endpoint"))):
        return None
    found, _ = default(scopes=_SCOPES)
    return found


def _loaded(account: dict[str, Any]) -> Any:
    if account.get("type") == "service_account":
        return service_account.Credentials.from_service_account_info(account, scopes=_SCOPES)
    if account.get("type") == "authorized_user":
        return Credentials.from_authorized_user_info(account, scopes=_SCOPES)
    # google-auth warns about kinds that read files or run programs of this machine.
    found, _ = load_credentials_from_dict(account, scopes=_SCOPES)
    return found


def _has_login(options: Mapping[str, Any]) -> bool:
    return any(options.get(one) for one in GOOGLE_OPTIONS.logins)


def _is_plain(endpoint: str) -> bool:
    return endpoint.lower().startswith("http://")


def _known_file() -> str | None:
    """Return the file of `gcloud auth application-default login`, if there is one."""
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    path = os.path.join(folder, "application_default_credentials.json")
    return path if os.path.isfile(path) else None


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise StoreError(
            f"the file of Google credentials cannot be read ({type(error).__name__}). Check "
            f"google_service_account or {_VARIABLE}."
        ) from None


def _reopen(bucket: str, prefix: str, options: dict[str, Any], unsafe: bool) -> GcsStore:
    return GcsStore(bucket, prefix, options, unsafe_single_writer=unsafe)
