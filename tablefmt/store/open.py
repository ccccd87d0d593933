"""From an address to a store.

Spec: STO-11 (spec/store.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Union
from urllib.parse import unquote

from tablefmt.errors import StoreError, UnsupportedFeatureError
from tablefmt.store.local import LocalStore
from tablefmt.store.protocol import Store

Uri = Union[str, "os.PathLike[str]"]
"""Where a table is."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LATER = ("gs", "gcs", "abfs", "abfss", "az", "adl", "hdfs")
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)(.*)", re.DOTALL)
_NO_SLASH = re.compile(r"(s3|s3a|s3n|file|memory|dbfs|hdfs|gs|abfss?):(?!/)", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:(?:\\|/(?!/))")


def open_store(uri: Uri, storage_options: Mapping[str, Any] | None = None) -> Store:
    """The store at `uri`: a local path, file://, s3:// (or s3a://), memory://.

    Two spellings of one place give stores of the same `uri`. `storage_options` go to s3fs for S3;
    `unsafe_single_writer` is taken by every store (STO-12).

    Raises:
        UnsupportedFeatureError: another scheme, or s3fs is not installed.
        StoreError: an address or an option that makes no sense.
    """
    options = _checked(storage_options)
    unsafe = options.pop("unsafe_single_writer", False)
    if not isinstance(unsafe, bool):
        raise StoreError("the option unsafe_single_writer is refused: pass True or False.")
    if not isinstance(uri, str | os.PathLike) or not isinstance(text := os.fspath(uri), str):
        raise StoreError(f"the address of a table is text or a path, not {type(uri).__name__}.")
    _check_text(text)
    _check_spelling(text)
    scheme, rest = _scheme(text)
    if scheme in ("s3", "s3a"):
        # s3fs comes with an extra and costs half a second to import.
        from tablefmt.store.s3 import S3Store

        bucket, prefix = _bucket(rest)
        return S3Store(bucket, prefix, options, unsafe_single_writer=unsafe)
    if scheme not in ("", "file", "memory"):
        later = " Support for it is planned for later." if scheme in _LATER else ""
        raise UnsupportedFeatureError(
            f"tables at {scheme}:// are not supported.{later} "
            "Use a local path, file://, s3:// or memory://.",
            features=[f"scheme:{scheme}"],
        )
    if options:
        names = ", ".join(sorted(map(repr, options)))
        raise StoreError(
            f"the storage options {names} mean nothing for a {scheme or 'local'} table. Drop them."
        )
    if scheme == "memory":
        # fsspec brings asyncio along.
        from tablefmt.store.memory import MemoryStore

        return MemoryStore(_plain_parts(rest), unsafe_single_writer=unsafe)
    return LocalStore(_local_path(scheme, rest), unsafe_single_writer=unsafe)


def _checked(options: Any) -> dict[str, Any]:
    """The options as a dict of one's own. Nothing of them is repeated: they may be secrets."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise StoreError(
            "storage_options are a dict of values by name, and every name is text; what was passed "
            f"is a {type(options).__name__} that is none."
        )
    return dict(options)


def scheme_of(uri: Uri) -> str:
    """Of which kind the store of an address is: "file", "s3", "memory", or one that is none."""
    scheme, _ = _scheme(str(uri))
    return {"": "file", "s3a": "s3"}.get(scheme, scheme)


def _check_text(text: str) -> None:
    """Refuse what no file system or bucket takes for a name."""
    if "\0" in text:
        raise StoreError("the address of a table holds a NUL. Pass a path without.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StoreError(f"the address {text!r} is not Unicode text. Use another.") from None


def _check_spelling(text: str) -> None:
    """Refuse an address that is meant for another place, and names a local folder as it stands.

    The address is not repeated: it may hold a secret (STO-13).
    """
    if _DRIVE.match(text):
        raise StoreError(
            f"an address that begins with {text[:3]!r} is a path of Windows. Pass a path of this "
            "machine, such as /data/table."
        )
    match = _ONE_SLASH.match(text) or _NO_SLASH.match(text)
    scheme = match[1].lower() if match else ""
    if scheme and not (scheme == "file" and _ONE_SLASH.match(text)) and _is_ours(scheme, text):
        raise StoreError(
            f"an address that begins with '{scheme}:' needs two slashes: write {scheme}://…. For a "
            f"local folder of that name, write ./{scheme}:…"
        )


def _is_ours(scheme: str, text: str) -> bool:
    """Return whether a scheme is one that tables can have; others are refused by name (STO-11)."""
    return scheme in ("s3", "s3a", "memory", "file") or _NO_SLASH.match(text) is not None


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.fullmatch(text) or _ONE_SLASH.fullmatch(text)
    if match is None:
        return "", text
    scheme = match[1].lower()
    one_slash = match.re is _ONE_SLASH
    return scheme, "/" + match[2] if one_slash and scheme == "file" else match[2]


def _local_path(scheme: str, rest: str) -> str:
    if not rest:
        raise StoreError("the address of a table is empty. Pass a path.")
    if not scheme:
        return _expanded(rest)
    path = rest[len("localhost") :] if rest.startswith("localhost/") else rest
    if not path.startswith("/"):
        raise StoreError("a file:// address names this machine: write file:///absolute/path.")
    try:
        path = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise StoreError("the escapes of a file:// address are not UTF-8. Use others.") from None
    _check_text(path)
    return path


def _expanded(path: str) -> str:
    """The path with a leading `~` or `~user` replaced by the home directory, as shells do."""
    expanded = os.path.expanduser(path)
    if expanded.startswith("~/") or expanded == "~":
        raise StoreError("the address begins with '~', and no home directory is known. Set HOME.")
    return expanded


def _bucket(rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    # A secret may hold a slash, so that the "@" lands in the prefix; its ":" does not. An access
    # point's name (arn:…) holds colons too.
    has_secret = "@" in bucket or (":" in bucket and not bucket.startswith("arn:"))
    if not bucket or has_secret:
        raise StoreError(
            "an S3 address is s3://bucket/prefix; credentials go to storage_options, not into it."
        )
    return bucket, _plain_parts(prefix) if prefix.strip("/") else ""


def _plain_parts(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if not parts or any(part in (".", "..") or "\0" in part or "\\" in part for part in parts):
        raise StoreError("the address of a table is empty, or has '.', '..' or '\\' in it.")
    return "/".join(parts)
