"""Storage options for S3 by the names of deltalake, polars and obstore, as options of s3fs. Pure.

These names are matched in any case. Those of s3fs are not. Spec: STO-27 (spec/store.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from tablefmt.errors import StoreError

_WORDS = {"true": True, "1": True, "false": False, "0": False}

_TEXTS: Mapping[str, str] = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "token": "token",
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "endpoint_url_s3": "endpoint_url",
    "region": "client_kwargs.region_name",
    "default_region": "client_kwargs.region_name",
    "profile": "profile",
    "conditional_put": "conditional_put",
}
_FLAGS: Mapping[str, str] = {
    "skip_signature": "anon",
    "request_payer": "requester_pays",
    "allow_http": "allow_http",
    "virtual_hosted_style_request": "virtual_hosted_style_request",
}
_OPTIONS = {**_TEXTS, **_FLAGS}
OPTIONS: Mapping[str, str] = {**_OPTIONS, **{f"aws_{name}": to for name, to in _OPTIONS.items()}}
"""For each name: the option of s3fs that it sets, or an option that is only checked here."""

assert not set(_TEXTS) & set(_FLAGS)


def s3fs_options(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return storage options by the names of s3fs.

    Args:
        options: the caller's options. None leaves an option open.
        known: the names that s3fs knows. They have priority, and are not changed.

    Raises:
        StoreError: an unknown name, a value of another type, two names that set one option to
            different values, or a combination that s3fs cannot do. It shows no value of an option.
    """
    unknown = sorted(n for n in options if n not in known and n.lower() not in OPTIONS)
    if unknown:
        raise _unknown(unknown, known)
    result = {name: value for name, value in options.items() if name in known}
    given: dict[str, tuple[str, Any]] = {}
    for name, value in options.items():
        if name in known or value is None:
            continue
        target = OPTIONS[name.lower()]
        read = _read(name, value)
        there = given.get(target) or _native(result, target)
        if there is not None and there[1] != read:
            raise StoreError(
                f"the storage options {there[0]!r} and {name!r} have one meaning, but different "
                "values. Remove one of them."
            )
        given[target] = (name, read)
    _check_put(given.pop("conditional_put", None))
    allow, virtual = given.pop("allow_http", None), given.pop("virtual_hosted_style_request", None)
    for target, (_, value) in given.items():
        _put(result, target, value)
    endpoint = result.get("endpoint_url")
    if allow is not None and not allow[1] and str(endpoint or "").lower().startswith("http:"):
        raise StoreError(
            f"the storage option {allow[0]!r} forbids the endpoint's http://. Use https://, or set "
            "it to true."
        )
    if virtual is not None:
        _address(result, virtual, endpoint)
    return result


def _unknown(names: list[str], known: Collection[str]) -> StoreError:
    shown = ", ".join(map(repr, names))
    near = difflib.get_close_matches(names[0].lower()[:255], [*known, *OPTIONS], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return StoreError(
        f"unknown storage options {shown} for S3{hint} Use those of s3fs (key, secret, token, "
        "endpoint_url, anon, profile, client_kwargs, config_kwargs), or aws_access_key_id, "
        "aws_secret_access_key, aws_session_token, aws_region, aws_endpoint_url and so on."
    )


def _read(name: str, value: Any) -> Any:
    if name.lower().removeprefix("aws_") in _TEXTS:
        if not isinstance(value, str):
            raise StoreError(
                f"the storage option {name!r}: expected text, got {type(value).__name__}."
            )
        return value
    if name.lower().endswith("request_payer") and value in ("requester", "REQUESTER"):
        return True
    read = _WORDS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise StoreError(f"the storage option {name!r}: expected true or false.")
    return read


def _native(options: Mapping[str, Any], target: str) -> tuple[str, Any] | None:
    """Return the name and the value of an option that the caller gave by the name of s3fs."""
    group, _, inner = target.rpartition(".")
    values = (options.get(group) or {}) if group else options
    value = values.get(inner) if isinstance(values, Mapping) else None
    if value is None and target in _IN_CLIENT:
        client = options.get("client_kwargs")
        inner = _IN_CLIENT[target]
        value = client.get(inner) if isinstance(client, Mapping) else None
        target = f"client_kwargs.{inner}"
    return None if value is None else (target, value)


_IN_CLIENT = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "endpoint_url": "endpoint_url",
}
"""Names that s3fs accepts in `client_kwargs` too."""


def _put(options: dict[str, Any], target: str, value: Any) -> None:
    group, _, inner = target.rpartition(".")
    if group:
        options[group] = {**(options.get(group) or {}), inner: value}
    else:
        options[target] = value


def _check_put(given: tuple[str, Any] | None) -> None:
    if given is not None and given[1].lower() != "etag":
        raise StoreError(
            f"the storage option {given[0]!r}: expected 'etag', which creates objects with "
            "If-None-Match. Remove the option."
        )


def _address(options: dict[str, Any], given: tuple[str, bool], endpoint: Any) -> None:
    if given[1] and endpoint:
        # There the endpoint contains the bucket's name; s3fs puts it before the endpoint itself.
        raise StoreError(
            f"the storage option {given[0]!r} is ambiguous with an endpoint. Pass the endpoint "
            "without the bucket's name, and config_kwargs.s3.addressing_style=virtual."
        )
    config = dict(options.get("config_kwargs") or {})
    style = "virtual" if given[1] else "path"
    if (config.get("s3") or {}).get("addressing_style", style) != style:
        raise StoreError(
            f"the storage options {given[0]!r} and 'config_kwargs.s3.addressing_style' have "
            "one meaning, but different values. Remove one of them."
        )
    options["config_kwargs"] = {
        **config,
        "s3": {**(config.get("s3") or {}), "addressing_style": style},
    }
