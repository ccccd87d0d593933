"""Store in a prefix of a container of Azure Blob Storage, or Data Lake Storage.

azure-storage-blob signs and sends the requests; its retries are off, so one call is one request.
Spec: STO-1 .. STO-11 (spec/store.md).
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from tablefmt.errors import StoreError, UnsupportedFeatureError
from tablefmt.store.cloud_answers import AZURE, Failure
from tablefmt.store.cloud_options import AZURE_OPTIONS, completed, given_options, public_options
from tablefmt.store.cloud_store import (
    TIMEOUT_SECONDS,
    CloudStore,
    KeptClients,
    Parts,
    prepared,
)
from tablefmt.store.object_store import ENTRY_BYTES_MAX, TooLong
from tablefmt.store.store_traits import AzureAccess

try:
    import requests
    from azure.core.credentials import AccessToken
    from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
    from azure.core.pipeline.transport import RequestsTransport
    from azure.storage.blob import BlobBlock, ContainerClient
except ImportError:
    requests = None

_HOST = "blob.core.windows.net"
_EMULATOR = "http://127.0.0.1:10000/devstoreaccount1"
_EMULATOR_ACCOUNT = "devstoreaccount1"
# The key of the emulator that Microsoft documents. It opens nothing else.
_EMULATOR_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_CLIENTS = KeptClients(("AZURE_",))
_CLIENT_VARIABLES = {
    "AZURE_TENANT_ID": "tenant_id",
    "AZURE_CLIENT_ID": "client_id",
    "AZURE_CLIENT_SECRET": "client_secret",
}
"""Variables that azure-identity reads first."""
_MAY_ASK = ("key", "sas")
"""Logins with which Azure tells the kind of an account."""
_hierarchical: dict[str, bool] = {}
"""Kinds of accounts that this process asked for, by the account's URL."""
_ONE_PUT_BYTES = 2 * ENTRY_BYTES_MAX
"""Every entry is one request: two requests of a create would not be one condition."""
_ONE_GET_BYTES = 64 << 20
_MAX_CODE_CHARACTERS = 60


class AzureStore(CloudStore):
    """Objects below `abfss://container@account.dfs.core.windows.net/prefix`, or `az://container/…`.

    `options` are named as in deltalake and obstore (STO-27). Without options, the environment
    applies: AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and so on, else what
    azure-identity finds.
    """

    answers = AZURE

    def __init__(
        self,
        container: str,
        host: str,
        prefix: str,
        options: Mapping[str, Any] | None = None,
        *,
        unsafe_single_writer: bool = False,
    ) -> None:
        if requests is None:
            raise UnsupportedFeatureError(
                "tables on Azure need azure-storage-blob and azure-identity, which are not "
                "installed. Run: pip install 'tablefmt[azure]'",
                features=["extra:azure"],
            )
        self._given, self._host = dict(options or {}), host
        given = given_options(self._given, AZURE_OPTIONS)
        options = _connected(completed(given, os.environ, AZURE_OPTIONS))
        address = _address(host, options)
        super().__init__(
            "az",
            container,
            prefix,
            uri=_uri(container, address, prefix),
            endpoint=address,
            options=options,
            unsafe_single_writer=unsafe_single_writer,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self._bucket, self._host, self._prefix)
        return _reopen, (*place, self._given, self.unsafe_single_writer)

    def portable_options(self) -> dict[str, Any]:
        """Return the options with what the environment of this process sets.

        Roles of a machine are left to the process that runs there.
        """
        options = dict(self._options)
        if not any(options.get(one) for one in AZURE_OPTIONS.logins):
            known = {to: os.environ.get(name) for name, to in _CLIENT_VARIABLES.items()}
            options |= known if all(known.values()) else {}
        return public_options(options, AZURE_OPTIONS)

    def with_credentials(self) -> AzureStore:
        """Return this store with options that do not depend on this machine's environment."""
        options, place = self.portable_options(), (self._bucket, self._host, self._prefix)
        return _reopen(*place, options, self.unsafe_single_writer)

    def access(self) -> AzureAccess:
        """Return the endpoint and the options in force, of caller and environment."""
        return AzureAccess(
            endpoint=self._endpoint,
            options=tuple(sorted(self._options.items())),
            hierarchical=self._is_hierarchical,
        )

    def _is_hierarchical(self) -> bool | None:
        if not any(self._options.get(one) for one in _MAY_ASK):
            return None
        if self._endpoint not in _hierarchical:
            ask = self._client().get_account_information
            told = self._run("ask for the kind of account at", "", ask)
            # The emulator, which has flat accounts only, says nothing.
            _hierarchical[self._endpoint] = bool(told.get("is_hns_enabled"))
        return _hierarchical[self._endpoint]

    # Requests

    def _failure(self, error: Exception) -> Failure | None:
        if not isinstance(error, AzureError):
            return None
        given = getattr(error, "error_code", None) or ""
        code = str(getattr(given, "value", given))[:_MAX_CODE_CHARACTERS]
        answer = getattr(error, "response", None)
        if isinstance(error, ClientAuthenticationError) and not code:
            # From azure-identity, before the request.
            return Failure(0, type(error).__name__, resent=False, never_sent=True)
        if isinstance(error, HttpResponseError) and answer is not None:
            date = answer.headers.get("Date")
            return Failure(int(answer.status_code), code, False, False, date)
        return Failure(0, type(error).__name__, resent=False, never_sent=False)

    def _client(self) -> Any:
        key = {**self._options, "address": self._endpoint, "container": self._bucket}
        return _CLIENTS.get(key, lambda: _new_client(self._endpoint, self._bucket, self._options))

    def _note(self, response: Any) -> None:
        self.note_date(response.http_response.headers.get("Date"))

    def _blob(self, name: str) -> Any:
        return self._client().get_blob_client(name)

    def _create(self, name: str, body: bytes) -> None:
        self._blob(name).upload_blob(
            body, length=len(body), overwrite=False, raw_response_hook=self._note
        )

    def _write(self, name: str, body: bytes) -> None:
        self._blob(name).upload_blob(
            body, length=len(body), overwrite=True, raw_response_hook=self._note
        )

    def _fetch(self, name: str, most: int, start: int | None) -> bytes:
        whole = 0

        def note(response: Any) -> None:
            nonlocal whole
            self._note(response)
            # The client reports the length of the range as that of the object.
            total = response.http_response.headers.get("Content-Range", "").rpartition("/")[2]
            whole = int(total) if total.isdecimal() else whole

        try:
            stream = self._blob(name).download_blob(
                offset=start or 0, length=most, max_concurrency=1, raw_response_hook=note
            )
        except HttpResponseError as error:
            if start is None and error.status_code == 416:
                return b""  # the client always asks for a range, and an empty object has none
            raise
        if start is None and whole > most:
            return TooLong(whole)
        body = bytes(stream.readall())
        if len(body) > most:
            raise StoreError(
                f"{self.uri} answered {len(body)} bytes to a request for {most} bytes. "
                "Use a store that supports range requests."
            )
        return body

    def _length(self, name: str) -> int:
        return int(self._blob(name).get_blob_properties(raw_response_hook=self._note).size)

    def _remove(self, name: str) -> None:
        self._blob(name).delete_blob(raw_response_hook=self._note)

    def _page(self, prefix: str, after: str | None, token: str | None) -> tuple[Any, str | None]:
        # A store that does not know `start_from` lists from the beginning of the prefix.
        begin = {} if after is None or not after.startswith(prefix) else {"start_from": after}
        pages = (
            self._client()
            .list_blobs(
                name_starts_with=prefix or None,
                include=["metadata"],
                raw_response_hook=self._note,
                **begin,
            )
            .by_page(token)
        )
        found = []
        for one in next(pages):
            # A folder of an account with a hierarchical namespace is no object.
            folder = (one.metadata or {}).get("hdi_isfolder", "")
            if folder.lower() != "true":
                when = one.last_modified
                found.append((one.name, int(one.size), 0 if when is None else _micros(when)))
        return found, pages.continuation_token or None

    def _parts(self, name: str) -> Parts:
        return _Blocks(self, name)


class _Blocks(Parts):
    """Blocks that a last request makes an object. Without it they vanish after a week."""

    def __init__(self, store: AzureStore, name: str) -> None:
        self._store, self._name = store, name
        self._blocks: list[str] = []

    def send(self, part: bytes) -> None:
        block = b64encode(b"%08d" % len(self._blocks)).decode()
        blob = self._store._blob(self._name)
        blob.stage_block(block, part, length=len(part), raw_response_hook=self._store._note)
        self._blocks.append(block)

    def finish(self, rest: bytes) -> None:
        if not self._blocks:
            self._store._write(self._name, rest)
            return
        self.send(rest)
        blocks = [BlobBlock(block) for block in self._blocks]
        self._store._blob(self._name).commit_block_list(blocks, raw_response_hook=self._store._note)

    def abort(self) -> None:
        """Do nothing: blocks that no list names are no object."""


class _Token:
    """A credential of a token that the caller has."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *_: str, **__: Any) -> Any:
        """Return the token. Its end is not known here."""
        return AccessToken(self._token, 1 << 40)


def _micros(when: Any) -> int:
    return int(when.timestamp()) * 1_000_000


def _connected(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the parts of a connection string, and those of the emulator."""
    text = options.pop("connection_string", None)
    if text is not None:
        parts = dict(part.partition("=")[::2] for part in text.split(";") if part.strip())
        parts = {name.strip().lower(): value.strip() for name, value in parts.items()}
        suffix = parts.get("endpointsuffix", "core.windows.net")
        scheme = parts.get("defaultendpointsprotocol", "https")
        account = parts.get("accountname")
        address = parts.get("blobendpoint") or (
            f"{scheme}://{account}.blob.{suffix}" if account else None
        )
        if parts.get("usedevelopmentstorage", "").lower() == "true":
            options["use_emulator"] = True
        elif address is None:
            raise StoreError(
                "the Azure connection string has neither AccountName nor BlobEndpoint. Copy it "
                "from the account's access keys."
            )
        read = {
            "account": account,
            "key": parts.get("accountkey"),
            "sas": parts.get("sharedaccesssignature"),
            "endpoint": address,
        }
        for name, value in read.items():
            if value is not None:
                options.setdefault(name, value)
    if options.get("use_emulator"):
        options.setdefault("account", _EMULATOR_ACCOUNT)
        options.setdefault("endpoint", _EMULATOR)
        if not any(options.get(one) for one in AZURE_OPTIONS.logins):
            options["key"] = _EMULATOR_KEY
    return options


def _address(host: str, options: Mapping[str, Any]) -> str:
    """Return the URL of the account, without a slash at the end.

    Raises:
        StoreError: no account is given, or two different ones.
    """
    named = host.partition(".")[0]
    account = str(options.get("account") or "").lower()
    if named and account and named != account:
        raise StoreError(
            f"the address names the Azure account {named!r}, and the storage options or the "
            f"environment name {account!r}. Use one account."
        )
    endpoint = str(options.get("endpoint") or "").rstrip("/")
    if endpoint:
        if (
            not re.match(r"https?://", endpoint, re.IGNORECASE)
            or "@" in endpoint
            or "?" in endpoint
        ):
            raise StoreError(
                "the endpoint of the Azure account: expected http://… or https://… without "
                "credentials and query. Pass those as other storage options."
            )
        return endpoint
    if host:
        return f"https://{re.sub(r'[.]dfs[.]', '.blob.', host, count=1)}"
    if not account:
        raise StoreError(
            "no Azure account is given. Pass azure_storage_account_name as a storage option, set "
            "AZURE_STORAGE_ACCOUNT_NAME, or write abfss://container@account.dfs.core.windows.net/…"
        )
    return f"https://{account}.{_HOST}"


def _uri(container: str, address: str, prefix: str) -> str:
    """Return one address for all spellings of a place. At an endpoint of one's own it is az://."""
    host = address.removeprefix("https://")
    if "://" in host or ".blob." not in host:
        return f"az://{container}/{prefix}".rstrip("/")
    host = host.replace(".blob.", ".dfs.", 1)
    return f"abfss://{container}@{host}/{prefix}".rstrip("/")


def _credential(options: Mapping[str, Any]) -> Any:
    """Return what the client takes as credentials; None for anonymous requests."""
    if options.get("anonymous"):
        return None
    if "key" in options:
        # The client would take the account's name from the host, which an emulator has not in it.
        name = options.get("account")
        key = options["key"]
        return {"account_name": name, "account_key": key} if name else key
    if "sas" in options:
        return options["sas"].lstrip("?")
    if "token" in options:
        return _Token(options["token"])
    from azure import identity  # half a second

    if "client_secret" in options:
        if "client_id" not in options or "tenant_id" not in options:
            raise StoreError(
                "the storage option azure_storage_client_secret needs azure_storage_client_id and "
                "azure_storage_tenant_id. Pass them too."
            )
        return identity.ClientSecretCredential(
            options["tenant_id"], options["client_id"], options["client_secret"]
        )
    known = {"managed_identity_client_id": options["client_id"]} if "client_id" in options else {}
    return identity.DefaultAzureCredential(**known)


def _new_client(address: str, container: str, options: Mapping[str, Any]) -> Any:
    session = prepared(requests.Session())
    seconds = options.get("timeout", TIMEOUT_SECONDS)
    try:
        return ContainerClient(
            address,
            container,
            credential=_credential(options),
            transport=RequestsTransport(session=session, session_owner=False),
            retry_total=0,
            permit_redirects=False,
            connection_timeout=seconds,
            read_timeout=seconds,
            max_single_put_size=_ONE_PUT_BYTES,
            max_single_get_size=_ONE_GET_BYTES,
            max_chunk_get_size=_ONE_GET_BYTES,
        )
    except (ValueError, TypeError, AttributeError) as error:
        # The message may hold parts of a key.
        raise StoreError(
            f"the Azure client refuses the storage options ({type(error).__name__}). Check the "
            "account and its key."
        ) from None


def _reopen(
    container: str, host: str, prefix: str, options: dict[str, Any], unsafe: bool
) -> AzureStore:
    return AzureStore(container, host, prefix, options, unsafe_single_writer=unsafe)
