"""Hadoop's connector of Azure, hadoop-azure: its settings for a table.

The user starts Spark with its jar. Settings go with each scan and write, and never into the
session. Data files are written at their final names (`DirectFiles`), so nothing is renamed or
listed: a rename is a copy on a flat account, and an emulator's order of listings confuses the
connector.

An account has either a hierarchical or a flat namespace. The connector uses another endpoint for
each, and fails if it has the wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tablefmt.errors import StoreError
from tablefmt.spark.backends.native.file_system_schemes import scheme_for
from tablefmt.spark.backends.native.s3a import has_classes
from tablefmt.spark.pyspark_objects import Session, java_session
from tablefmt.store.cloud_options import AZURE_OPTIONS, given_options
from tablefmt.store.object_store import Store
from tablefmt.store.store_traits import AzureAccess

_PACKAGE = "org.apache.hadoop.fs.azurebfs."
_CLASSES = (_PACKAGE + "AzureBlobFileSystem", _PACKAGE + "services.AbfsBlobClient")
"""The second one is in versions that can use the Blob API: 3.4.2 and later."""

NAMESPACE = "fs.azure.account.hns.enabled"
"""Hadoop's setting, true for a hierarchical namespace."""

NO_JAR = (
    "this Spark session lacks Hadoop's connector for abfss://; start Spark with the jar of "
    "org.apache.hadoop:hadoop-azure, in the version of Hadoop that Spark bundles"
)
NO_NAMESPACE = (
    "Azure does not say with this login whether the account has a hierarchical namespace; set "
    f"spark.hadoop.{NAMESPACE} to true or false when Spark starts"
)
SESSION_CONF = {
    # Plans show the writer's options, and the user's setting may not redact them.
    "spark.sql.redaction.options.regex": "(?i)url|fs[.]azure[.]",
}
"""Settings of the session copy that writes."""

_LOGIN_SETTINGS = ("fs.azure.account.auth.type", "fs.azure.account.key")
_LOGIN = "https://login.microsoftonline.com"
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_HOST = re.compile(r"(?P<account>[a-z0-9]{3,24})[.]blob[.](?P<domain>[a-z0-9.-]+)")
_EMULATED = re.compile(r"(?P<host>[a-z0-9.-]+:[0-9]+)/(?P<account>[a-z0-9]{3,24})")
_DOMAIN = "core.windows.net"


@dataclass(frozen=True, slots=True)
class AzurePlace:
    """Root of a table in the form that Hadoop takes."""

    scheme: str
    authority: str
    """The container and the account's host."""
    hierarchical: bool
    """The account has a hierarchical namespace."""
    settings: Mapping[str, str] = field(repr=False)
    """Hadoop settings of a scan or a write, including credentials."""


def azure_place(spark: Session, store: Store) -> AzurePlace | str:
    """Return the root of a table on Azure; or why Hadoop cannot open it.

    Asks the account once in a process for the kind of its namespace, unless the session says it.
    """
    if not has_classes(spark, _CLASSES):
        return NO_JAR
    access = store.access()
    assert isinstance(access, AzureAccess)
    session = _session_settings(spark)
    options = given_options(store.portable_options(), AZURE_OPTIONS)
    flat, other = (
        place_for(store.traits.bucket, access.endpoint, options, session, hierarchical=kind)
        for kind in (False, True)
    )
    # Checked first: a place that Hadoop cannot open costs no request.
    if isinstance(flat, str) and isinstance(other, str):
        return flat
    said = session.get(NAMESPACE, "").strip().lower()
    if said in ("true", "false"):
        hierarchical: bool | None = said == "true"
    else:
        try:
            hierarchical = access.hierarchical()
        except StoreError:
            hierarchical = None
    if hierarchical is None:
        return NO_NAMESPACE
    return other if hierarchical else flat


def place_for(
    container: str,
    endpoint: str,
    options: Mapping[str, Any],
    session: Mapping[str, str],
    *,
    hierarchical: bool,
) -> AzurePlace | str:
    """Return the root of a table, with credentials; or why Hadoop cannot open it. Pure.

    Args:
        container: the container's name.
        endpoint: the URL of the account's Blob API.
        options: storage options by our own names.
        session: Hadoop's settings of the session.
        hierarchical: the account has a hierarchical namespace.
    """
    scheme, _, rest = endpoint.lower().partition("://")
    named, emulated = _HOST.fullmatch(rest), _EMULATED.fullmatch(rest)
    settings = {
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.always.use.https": str(scheme == "https").lower(),
    }
    if named is not None:
        account, domain = named["account"], named["domain"]
    elif emulated is not None:
        account, domain = emulated["account"], _DOMAIN
        settings["fs.azure.abfs.endpoint"] = emulated["host"]
    else:
        return (
            "Hadoop's connector opens https://ACCOUNT.blob.DOMAIN or http://HOST:PORT/ACCOUNT, "
            "and the endpoint of this table is another"
        )
    # At a port, the connector finds the account only in a name with dfs.
    api = "dfs" if hierarchical or emulated is not None else "blob"
    host = f"{account}.{api}.{domain}"
    login = _login(options, session, host, container)
    if isinstance(login, str):
        return login
    settings |= login
    settings[NAMESPACE] = str(hierarchical).lower()
    if not hierarchical:
        settings["fs.azure.fns.account.service.type"] = "BLOB"
    own = scheme_for("abfs", f"{container}@{host}", settings)
    secure = "Secure" if scheme == "https" else ""
    settings[f"fs.{own}.impl"] = f"{_PACKAGE}{secure}AzureBlobFileSystem"
    return AzurePlace(own, f"{container}@{host}", hierarchical, settings)


def _login(
    options: Mapping[str, Any], session: Mapping[str, str], host: str, container: str
) -> dict[str, str] | str:
    """Return Hadoop's settings of a login, which override the session's; or why there are none."""

    def of_account(values: Mapping[str, str]) -> dict[str, str]:
        return {f"fs.azure.{name}.{host}": value for name, value in values.items()}

    if options.get("anonymous"):
        return "Hadoop's connector sends no anonymous requests"
    if "token" in options:
        return "Hadoop's connector takes no token; give a key, a SAS or a client secret"
    if "key" in options:
        return of_account({"account.auth.type": "SharedKey", "account.key": options["key"]})
    if "sas" in options:
        token = options["sas"].lstrip("?")
        own = {f"fs.azure.sas.fixed.token.{container}.{host}": token}
        return of_account({"account.auth.type": "SAS", "sas.fixed.token": token}) | own
    identity = {"account.auth.type": "OAuth"}
    provider = "account.oauth.provider.type"
    if "client_secret" in options:
        tenant = options.get("tenant_id")
        if not tenant or not options.get("client_id"):
            return "a client secret needs azure_storage_client_id and azure_storage_tenant_id"
        return of_account(
            {
                **identity,
                provider: _PACKAGE + "oauth2.ClientCredsTokenProvider",
                "account.oauth2.client.endpoint": f"{_LOGIN}/{tenant}/oauth2/token",
                "account.oauth2.client.id": options["client_id"],
                "account.oauth2.client.secret": options["client_secret"],
            }
        )
    if "client_id" in options:
        given = {
            **identity,
            provider: _PACKAGE + "oauth2.MsiTokenProvider",
            "account.oauth2.client.id": options["client_id"],
        }
        if options.get("tenant_id"):
            given["account.oauth2.msi.tenant"] = options["tenant_id"]
        return of_account(given)
    # The setting of another account would not open this one.
    if any(f"{name}{end}" in session for name in _LOGIN_SETTINGS for end in ("", f".{host}")):
        return {}
    return (
        "no storage option has a login, and the Spark session has none for Hadoop; pass "
        "azure_storage_account_key, azure_storage_sas_token, a client secret or the client id of "
        f"a managed identity, or set spark.hadoop.{_LOGIN_SETTINGS[0]} when Spark starts"
    )


def _session_settings(spark: Session) -> dict[str, str]:
    """Return the Hadoop settings of the session for Azure that decide how it is opened."""
    conf = java_session(spark).sessionState().newHadoopConf()
    found = conf.getPropsWithPrefix("fs.azure.account.")
    return {f"fs.azure.account.{name}": str(found[name]) for name in found}
