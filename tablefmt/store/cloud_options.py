"""Storage options for Google Cloud Storage and Azure, by the names of deltalake and obstore. Pure.

Names are matched in any case. Spec: STO-27 (spec/store.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import StoreError

_WORDS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one cloud.

    Attributes:
        cloud: its name for messages.
        names: for each name that users type, the option that it sets.
        variables: for each environment variable, the option that it sets if the user leaves it
            open.
        logins: options of which at most one may be set.
        hint: the names for messages.
    """

    cloud: str
    names: Mapping[str, str]
    variables: Mapping[str, str]
    logins: frozenset[str]
    hint: str


FLAGS = frozenset({"anonymous", "allow_http", "use_emulator"})
NUMBERS = frozenset({"timeout"})

_BOTH = {
    "endpoint": "endpoint",
    "endpoint_url": "endpoint",
    "skip_signature": "anonymous",
    "anon": "anonymous",
    "allow_http": "allow_http",
    "timeout": "timeout",
}


def _prefixed(names: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    return {f"{prefix}{name}": to for name, to in names.items() for prefix in ("", *prefixes)}


GOOGLE_OPTIONS = Options(
    cloud="Google Cloud Storage",
    names=_prefixed(
        {
            **_BOTH,
            "base_url": "endpoint",
            "service_account": "account_file",
            "service_account_path": "account_file",
            "application_credentials": "account_file",
            "service_account_key": "account_key",
            "bearer_token": "token",
            "token": "token",
        },
        "google_",
    ),
    variables={
        "GOOGLE_SERVICE_ACCOUNT": "account_file",
        "GOOGLE_SERVICE_ACCOUNT_PATH": "account_file",
        "GOOGLE_SERVICE_ACCOUNT_KEY": "account_key",
        "STORAGE_EMULATOR_HOST": "endpoint",
    },
    logins=frozenset({"account_file", "account_key", "token", "anonymous"}),
    hint="google_service_account, google_service_account_key, google_application_credentials, "
    "google_skip_signature, endpoint, allow_http, timeout",
)

AZURE_OPTIONS = Options(
    cloud="Azure",
    names=_prefixed(
        {
            **_BOTH,
            "account_name": "account",
            "account_key": "key",
            "access_key": "key",
            "master_key": "key",
            "sas_token": "sas",
            "sas_key": "sas",
            "connection_string": "connection_string",
            "token": "token",
            "bearer_token": "token",
            "client_id": "client_id",
            "client_secret": "client_secret",
            "tenant_id": "tenant_id",
            "authority_id": "tenant_id",
            "use_emulator": "use_emulator",
        },
        "azure_",
        "azure_storage_",
    ),
    variables={
        "AZURE_STORAGE_CONNECTION_STRING": "connection_string",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ACCOUNT": "account",
        "AZURE_STORAGE_ACCOUNT_KEY": "key",
        "AZURE_STORAGE_KEY": "key",
        "AZURE_STORAGE_SAS_TOKEN": "sas",
        "AZURE_STORAGE_ENDPOINT": "endpoint",
    },
    logins=frozenset({"key", "sas", "connection_string", "token", "client_secret", "anonymous"}),
    hint="azure_storage_account_name, azure_storage_account_key, azure_storage_sas_token, "
    "azure_storage_connection_string, azure_storage_client_id, azure_storage_client_secret, "
    "azure_storage_tenant_id, endpoint, allow_http, timeout",
)


def given_options(options: Mapping[str, Any], known: Options) -> dict[str, Any]:
    """Return storage options by our own names. None leaves an option open.

    Raises:
        StoreError: an unknown name, a value of another type, two names that set one option to
            different values, or two ways to log in. It shows no value of an option.
    """
    unknown = sorted(name for name in options if name.lower() not in known.names)
    if unknown:
        near = difflib.get_close_matches(unknown[0].lower()[:255], known.names, n=1)
        did_you = f"; did you mean {near[0]!r}?" if near else "."
        raise StoreError(
            f"unknown storage options {', '.join(map(repr, unknown))} for {known.cloud}{did_you} "
            f"The options are {known.hint}."
        )
    result: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in options.items():
        if value is None:
            continue
        target = known.names[name.lower()]
        read = _read(name, target, value)
        if target in result and result[target] != read:
            raise StoreError(
                f"the storage options {names[target]!r} and {name!r} have one meaning, but "
                "different values. Remove one of them."
            )
        result[target], names[target] = read, name
    logins = [names[one] for one in sorted(known.logins) if result.get(one)]
    if len(logins) > 1:
        raise StoreError(
            f"the storage options {' and '.join(map(repr, logins))} are two ways to log in. "
            "Remove one of them."
        )
    endpoint = str(result.get("endpoint", "")).lower()
    if result.get("allow_http") is False and endpoint.startswith("http:"):
        raise StoreError(
            f"the storage option {names['allow_http']!r} forbids the endpoint's http://. Use "
            "https://, or set it to true."
        )
    return result


def completed(
    given: Mapping[str, Any], environment: Mapping[str, str], known: Options
) -> dict[str, Any]:
    """Return options with what the environment sets and the caller left open. Pure.

    A caller's way to log in, or endpoint, turns off all of them that the environment has.
    """
    result = dict(given)
    has_login = any(given.get(one) for one in known.logins) or bool(given.get("use_emulator"))
    for variable, target in known.variables.items():
        value = environment.get(variable)
        # An endpoint that the caller gave may be a stranger to the environment's credentials.
        closed = has_login and target in known.logins
        if value and target not in result and not closed:
            result[target] = value
    return result


def public_options(options: Mapping[str, Any], known: Options) -> dict[str, Any]:
    """Return options by names that `given_options` accepts. Pure."""
    name_of = {target: name for name, target in known.names.items()}
    return {name_of[target]: value for target, value in options.items()}


def _read(name: str, target: str, value: Any) -> Any:
    if target in FLAGS:
        read = _WORDS.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(read, bool):
            raise StoreError(f"the storage option {name!r}: expected true or false.")
        return read
    if target in NUMBERS:
        try:
            seconds = float(str(value).removesuffix("s"))
        except ValueError:
            seconds = 0.0
        if isinstance(value, bool) or not 0 < seconds < 1e6:
            raise StoreError(f"the storage option {name!r}: expected seconds, more than 0.")
        return seconds
    if not isinstance(value, str) or not value:
        raise StoreError(f"the storage option {name!r}: expected text.")
    return value
