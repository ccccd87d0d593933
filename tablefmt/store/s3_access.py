"""Access settings of a bucket, independent of any library, for engines that open it themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tablefmt.store.store_traits import Access

Credentials = Literal["keys", "anonymous", "web identity", "ambient"]

_NO_EFFECT = frozenset(
    {"default_block_size", "default_fill_cache", "default_cache_type", "cache_regions"}
    | {"max_concurrency", "fixed_upload_size", "skip_instance_cache", "use_listings_cache"}
    | {"listings_expiry_time", "max_paths"}
)
"""Options of s3fs that tune its requests but do not decide whether they succeed."""

_CONFIG_NO_EFFECT = frozenset(
    {"retries", "connect_timeout", "read_timeout", "max_pool_connections", "tcp_keepalive"}
    | {"parameter_validation", "user_agent", "user_agent_extra", "user_agent_appid"}
    | {"request_checksum_calculation", "response_checksum_validation"}
)

_CLIENT_KEYS = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "endpoint_url": "endpoint_url",
    "region_name": "region_name",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access(Access):
    """Storage options and environment, resolved as s3fs resolves them. No repr holds a secret."""

    endpoint: str = ""
    """Endpoint URL; "" is AWS itself."""
    region: str = ""
    path_style: bool = False
    requester_pays: bool = False
    credentials: Credentials = "ambient"
    """keys: `key`, `secret` and perhaps `token`. ambient: the credentials of the machine itself."""
    key: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


def s3_access(options: Mapping[str, Any]) -> S3Access:
    """Resolve storage options of s3fs, `AWS_*` and the profiles of `~/.aws`. Makes no request.

    Expiring keys of a profile are the keys valid now. Machine roles stay with the engine:
    `ambient`.
    """
    given, config, unknown = _flat(options)
    session = _session(given)
    endpoint = str(given.get("endpoint_url") or _configured_endpoint(session) or "").rstrip("/")
    style = (config.get("s3") or {}).get("addressing_style") or _style_of(session)
    kind, key, secret, token = _credentials(given, session)
    region = given.get("region_name") or config.get("region_name")
    return S3Access(
        endpoint=endpoint,
        region=str(region or session.get_config_variable("region") or ""),
        path_style=style == "path" or (style != "virtual" and bool(endpoint)),
        requester_pays=bool(given.get("requester_pays")),
        credentials=kind,
        key=key,
        secret=secret,
        token=token,
        untranslated=tuple(sorted(unknown)),
    )


def resolved_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return s3fs options that do not depend on this machine's environment or `~/.aws`.

    Makes no request. Expiring keys are the keys valid now. `ambient` and web identities stay
    unresolved.
    """
    given, config, _ = _flat(options)
    session = _session(given)
    resolved = dict(options)
    endpoint = given.get("endpoint_url") or _configured_endpoint(session)
    if endpoint:
        resolved["endpoint_url"] = endpoint
    region = given.get("region_name") or config.get("region_name")
    region = region or session.get_config_variable("region")
    if region:
        client = dict(resolved.get("client_kwargs") or {})
        resolved["client_kwargs"] = {**client, "region_name": region}
    style = (config.get("s3") or {}).get("addressing_style") or _style_of(session)
    if style:
        s3 = {**(config.get("s3") or {}), "addressing_style": style}
        resolved["config_kwargs"] = {**config, "s3": s3}
    kind, key, secret, token = _credentials(given, session)
    if kind == "keys":
        # The keys come from a profile that workers may not have.
        for name in ("profile", "username", "password"):
            resolved.pop(name, None)
        resolved |= {"key": key, "secret": secret, "token": token or None}
    return resolved


def _flat(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return options by s3fs's own names, botocore's configuration, and the names of unknown
    options.
    """
    given: dict[str, Any] = {}
    unknown = []
    known = {"key", "secret", "token", "endpoint_url", "anon", "requester_pays", "profile"}
    for name, value in options.items():
        if value is None or name in _NO_EFFECT or name in ("client_kwargs", "config_kwargs"):
            continue
        name = {"username": "key", "password": "secret"}.get(name, name)
        if name in known:
            given[name] = value
        elif name == "use_ssl":
            # The endpoint's scheme decides whether the connection is encrypted.
            if not value and not options.get("endpoint_url"):
                unknown.append(name)
        elif value:
            unknown.append(name)
    for name, value in (options.get("client_kwargs") or {}).items():
        if name in _CLIENT_KEYS:
            given.setdefault(_CLIENT_KEYS[name], value)
        elif value is not None and not (name in ("verify", "use_ssl") and value is True):
            unknown.append(f"client_kwargs.{name}")
    config = dict(options.get("config_kwargs") or {})
    for name, value in config.items():
        if name == "s3":
            others = set(value or {}) - {"addressing_style"}
            unknown += [f"config_kwargs.s3.{other}" for other in others]
        elif name == "signature_version":
            if value != "s3v4":
                unknown.append("config_kwargs.signature_version")
        elif name not in _CONFIG_NO_EFFECT and name != "region_name":
            unknown.append(f"config_kwargs.{name}")
    return given, config, unknown


def _session(given: Mapping[str, Any]) -> Any:
    # This import is half of s3fs's cost, and only S3 needs it.
    import botocore.session

    # The handlers of requests are nearly all of a session's cost. Only credentials may need them.
    return botocore.session.Session(
        include_builtin_handlers=not _has_credentials(given), profile=given.get("profile")
    )


def _has_credentials(given: Mapping[str, Any]) -> bool:
    return bool(given.get("anon") or (given.get("key") and given.get("secret")))


def _scoped(session: Any) -> dict[str, Any]:
    from botocore.exceptions import ProfileNotFound

    try:
        return dict(session.get_scoped_config())
    except ProfileNotFound:
        return {}


def _configured_endpoint(session: Any) -> str | None:
    from botocore.configprovider import ConfiguredEndpointProvider

    endpoint: str | None = ConfiguredEndpointProvider(
        full_config=session.full_config,
        scoped_config=_scoped(session),
        client_name="s3",
        environ=os.environ,
    ).provide()
    return endpoint


def _style_of(session: Any) -> str | None:
    section = _scoped(session).get("s3")
    return section.get("addressing_style") if isinstance(section, dict) else None


def _credentials(given: Mapping[str, Any], session: Any) -> tuple[Credentials, str, str, str]:
    if given.get("anon"):
        return "anonymous", "", "", ""
    if given.get("key") and given.get("secret"):
        return "keys", str(given["key"]), str(given["secret"]), str(given.get("token") or "")
    chain = session.get_component("credential_provider")
    # These providers send requests. A process on a machine with a role can ask by itself.
    for machine in ("iam-role", "container-role"):
        chain.remove(machine)
    credentials = chain.load_credentials()
    if credentials is None:
        return "ambient", "", "", ""
    if credentials.method == "assume-role-with-web-identity":
        return "web identity", "", "", ""
    frozen = credentials.get_frozen_credentials()
    return "keys", frozen.access_key, frozen.secret_key, frozen.token or ""
