"""Resolution of a table's location to a store, and storage options given as text.

The command line and Spark give options as text. Spec: STO-11 (spec/store.md).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Union
from urllib.parse import unquote

from tablefmt.errors import InvalidArgumentError, StoreError, UnsupportedFeatureError
from tablefmt.store.import_roots import OPTION, ImportingStore, roots_of
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import Store
from tablefmt.store.store_traits import Scheme

_WHOLE = re.compile(r"[0-9]+")
_SECRET = re.compile(r"secret|password|token|key|username|credential", re.IGNORECASE)
_WORDS = {"true": True, "false": False}


def add_text_option(options: dict[str, Any], path: str, value: Any) -> None:
    """Add one option to nested `options`: `client_kwargs.region_name` goes into `client_kwargs`.

    The texts true and false (in any case), whole numbers and JSON objects are converted, because
    s3fs does not parse text. A value whose name suggests a secret is never converted.

    Raises:
        InvalidArgumentError: a part of the path is empty, or one name is both a value and a group.
            The message shows no value.
    """
    *outer, last = path.split(".")
    if not last or not all(outer):
        raise InvalidArgumentError(
            "a storage option has an empty name or name part. Write NAME or GROUP.NAME."
        )
    inner = options
    for part in outer:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InvalidArgumentError(
                f"the storage option {path} is both a value and a group. Set one of them."
            )
    read = value if _SECRET.search(last) else _typed(value)
    there = inner.get(last)
    if isinstance(there, dict) != isinstance(read, dict) and last in inner:
        raise InvalidArgumentError(
            f"the storage option {path} is both a value and a group. Set one of them."
        )
    inner[last] = {**read, **there} if isinstance(there, dict) else read


def _typed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value):
        return int(value)
    if value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return _WORDS.get(value.lower(), value)


Uri = Union[str, "os.PathLike[str]"]
"""Address of a table."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LATER = ("adl", "hdfs")
_KINDS: Mapping[str, Scheme] = {
    "": "file",
    "file": "file",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "az",
    "abfss": "az",
    "az": "az",
}
"""The kind of store by the scheme of an address. Later code asks `Store.traits`."""
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)(.*)", re.DOTALL)
_NO_SLASH = re.compile(r"(s3|s3a|s3n|file|memory|dbfs|hdfs|gs|gcs|abfss?):(?!/)", re.IGNORECASE)
_CONTAINER = re.compile(r"(\$?[a-z0-9-]{1,63})(?:@([A-Za-z0-9]+(?:\.[A-Za-z0-9-]+)+))?")
_DRIVE = re.compile(r"[A-Za-z]:(?:\\|/(?!/))")


def open_store(uri: Uri, storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store at `uri`: a local path, file://, s3://, gs://, abfss://, az://, memory://.

    Two spellings of one place give stores of the same `uri`. `storage_options` go to s3fs for S3.
    s3a:// is s3://, gcs:// is gs://, and abfs:// is abfss://.
    Every store accepts `unsafe_single_writer` (STO-12), and `import_roots` (IMP-3).

    Raises:
        UnsupportedFeatureError: the scheme is not supported, or its client is not installed.
        StoreError: the address or an option is invalid.
    """
    options = _checked(storage_options)
    if OPTION in options:
        roots = roots_of(options.pop(OPTION))
        allowed = {open_store(root, options).uri: options for root in roots}
        return ImportingStore(open_store(uri, options), allowed, open_store)
    unsafe = options.pop("unsafe_single_writer", False)
    if not isinstance(unsafe, bool):
        raise StoreError(
            f"unsafe_single_writer: expected True or False, got {type(unsafe).__name__}."
        )
    if not isinstance(uri, str | os.PathLike) or not isinstance(text := os.fspath(uri), str):
        raise StoreError(f"table address: expected text or a path, got {type(uri).__name__}.")
    _check_text(text)
    _check_spelling(text)
    scheme, rest = _scheme(text)
    kind = _KINDS.get(scheme)
    if kind == "s3":
        # s3fs is an optional extra and takes half a second to import.
        from tablefmt.store.s3_store import S3Store

        bucket, prefix = _bucket(rest)
        return S3Store(bucket, prefix, options, unsafe_single_writer=unsafe)
    if kind == "gs":
        from tablefmt.store.gcs_store import GcsStore

        bucket, prefix = _bucket(rest, "Google Cloud Storage", "gs")
        return GcsStore(bucket, prefix, options, unsafe_single_writer=unsafe)
    if kind == "az":
        from tablefmt.store.azure_store import AzureStore

        container, account, prefix = _container(rest)
        return AzureStore(container, account, prefix, options, unsafe_single_writer=unsafe)
    if kind is None:
        later = " Support for it is planned for later." if scheme in _LATER else ""
        raise UnsupportedFeatureError(
            f"tables at {scheme}:// are not supported.{later} "
            "Use a local path, file://, s3://, gs://, abfss://, az:// or memory://.",
            features=[f"scheme:{scheme}"],
        )
    if options:
        names = ", ".join(sorted(map(repr, options)))
        raise StoreError(
            f"unknown storage options {names} for a {scheme or 'local'} table. Remove them."
        )
    if kind == "memory":
        # fsspec imports asyncio.
        from tablefmt.store.memory_store import MemoryStore

        return MemoryStore(_plain_parts(rest), unsafe_single_writer=unsafe)
    return LocalStore(_local_path(scheme, rest), unsafe_single_writer=unsafe)


def _checked(options: Any) -> dict[str, Any]:
    """Return a copy of the options as a dict. Messages show no values, because values may be
    secrets.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        others = isinstance(options, Mapping)
        found = "a key of another type" if others else type(options).__name__
        raise StoreError(
            f"storage_options: expected a dict with text keys, got {found}. Pass a dict of values "
            "by option name."
        )
    return dict(options)


def scheme_of(uri: Uri) -> str:
    """Return the kind of store for an address, or the scheme that no store has. Pure."""
    scheme, _ = _scheme(str(uri))
    return _KINDS.get(scheme, scheme)


def is_same_place(one: Uri, other: Uri) -> bool:
    """Return whether two addresses are spellings of one place, as far as text tells. Pure."""
    (first, here), (second, there) = _scheme(str(one)), _scheme(str(other))
    same = _KINDS.get(first, first) == _KINDS.get(second, second)
    return same and _parts(here) == _parts(there)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _check_text(text: str) -> None:
    """Refuse text that no file system and no bucket accepts as a name."""
    if "\0" in text:
        raise StoreError("the table address contains a NUL character. Pass a path without it.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StoreError(
            f"the table address {text!r} is not Unicode text. Pass a path in UTF-8."
        ) from None


def _check_spelling(text: str) -> None:
    """Refuse an address that looks like another scheme but would name a local folder.

    The message does not repeat the address: it may hold a secret (STO-13).
    """
    if _DRIVE.match(text):
        raise StoreError(
            f"the table address begins with {text[:3]!r}, a Windows drive. Pass a path of this "
            "machine, such as /data/table."
        )
    match = _ONE_SLASH.match(text) or _NO_SLASH.match(text)
    scheme = match[1].lower() if match else ""
    if scheme and not (scheme == "file" and _ONE_SLASH.match(text)) and _is_ours(scheme, text):
        raise StoreError(
            f"the table address begins with '{scheme}:' without '//'. Write {scheme}://…; for a "
            f"local folder of that name, write ./{scheme}:…"
        )


def _is_ours(scheme: str, text: str) -> bool:
    """Return whether tables support this scheme. Other schemes are refused by name (STO-11)."""
    return scheme in _KINDS or _NO_SLASH.match(text) is not None


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.fullmatch(text) or _ONE_SLASH.fullmatch(text)
    if match is None:
        return "", text
    scheme = match[1].lower()
    one_slash = match.re is _ONE_SLASH
    return scheme, "/" + match[2] if one_slash and scheme == "file" else match[2]


def _local_path(scheme: str, rest: str) -> str:
    if not rest:
        raise StoreError("the table address is empty. Pass a path.")
    if not scheme:
        return _expanded(rest)
    path = rest[len("localhost") :] if rest.startswith("localhost/") else rest
    if not path.startswith("/"):
        raise StoreError(
            "a file:// address must be absolute and on this machine. Write file:///absolute/path."
        )
    try:
        path = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise StoreError(
            "the file:// address has %-escapes that are not UTF-8. Encode the path as UTF-8."
        ) from None
    _check_text(path)
    return path


def _expanded(path: str) -> str:
    """Return the path with a leading `~` or `~user` replaced by the home directory, as shells
    do.
    """
    expanded = os.path.expanduser(path)
    if expanded.startswith("~/") or expanded == "~":
        raise StoreError(
            "the table address begins with '~', but no home directory is known. Set HOME."
        )
    return expanded


def _bucket(rest: str, cloud: str = "S3", scheme: str = "s3") -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    # A secret may contain a slash. Then its "@" is in the prefix, but its ":" is in the bucket. The
    # name of an access point (arn:…) contains colons too.
    has_secret = "@" in bucket or (":" in bucket and not bucket.startswith("arn:"))
    if not bucket or has_secret:
        raise StoreError(
            f"invalid {cloud} address: expected {scheme}://bucket/prefix. Pass credentials in "
            "storage_options."
        )
    return bucket, _plain_parts(prefix) if prefix.strip("/") else ""


def _container(rest: str) -> tuple[str, str, str]:
    """Return the container, the host of the account or "", and the prefix."""
    place, _, prefix = rest.partition("/")
    match = _CONTAINER.fullmatch(place)
    # A "@" or "?" in the prefix may be the end of a secret with a slash, or of a SAS address.
    if match is None:
        raise StoreError(
            "invalid Azure address: expected abfss://container@account.dfs.core.windows.net/path "
            "or az://container/path. Pass credentials in storage_options."
        )
    host = (match[2] or "").lower()
    return match[1], host, _plain_parts(prefix) if prefix.strip("/") else ""


def _plain_parts(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if not parts or any(part in (".", "..") or "\0" in part or "\\" in part for part in parts):
        raise StoreError(
            "the table address is empty, or contains '.', '..' or '\\'. Pass a plain path."
        )
    return "/".join(parts)
