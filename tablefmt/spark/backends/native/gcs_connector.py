"""Hadoop's connector of Google Cloud Storage: its settings for a table.

The user starts Spark with its jar. Settings go with each scan and write, and never into the
session. Hadoop caches one file system per scheme and bucket in every process, and ignores later
changes of settings. The connector accepts the scheme gs alone, so its file systems are not cached.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tablefmt.spark.backends.native.s3a import has_classes
from tablefmt.spark.pyspark_objects import Session
from tablefmt.store.object_store import Store
from tablefmt.store.store_traits import CloudAccess

_CLASS = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
_CLASSES = (_CLASS, "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystemBase")
"""The second one is only in version 2. Later versions take no key but from a file of the worker."""
_MIB = 1 << 20

NO_JAR = (
    "this Spark session lacks Hadoop's connector for gs://; start Spark with the jar of "
    "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.28 (shaded)"
)
_SETTINGS = {
    "fs.gs.impl": _CLASS,
    "fs.gs.impl.disable.cache": "true",
    # Hadoop 3.5 has defaults for a connector of its own, with units that this one cannot read.
    "fs.gs.block.size": str(64 * _MIB),
    "fs.gs.outputstream.buffer.size": str(8 * _MIB),
    "fs.gs.inputstream.inplace.seek.limit": str(8 * _MIB),
    "fs.gs.inputstream.min.range.request.size": str(2 * _MIB),
    "fs.gs.rewrite.max.chunk.size": str(512 * _MIB),
}
SESSION_CONF = {
    # Plans show the writer's options, and the user's setting may not redact them.
    "spark.sql.redaction.options.regex": "(?i)url|fs[.]gs[.]",
}
"""Settings of the session copy that writes."""


def has_connector(spark: Session) -> bool:
    """Return whether the JVM of a classic session has the connector."""
    return has_classes(spark, _CLASSES)


def gcs_settings(store: Store) -> Mapping[str, str] | str:
    """Return Hadoop's settings for a table, with credentials; or why Hadoop cannot open it.

    Credentials that only a machine's role gives are left to each process.
    """
    access = store.access()
    assert isinstance(access, CloudAccess)
    options = dict(access.options)
    settings = {**_SETTINGS, "fs.gs.storage.root.url": f"{access.endpoint}/"}
    if "token" in options:
        return "Hadoop's connector takes no token; give a service account"
    key = store.portable_options().get("google_service_account_key")
    if key:
        try:
            account = json.loads(key)
            given = {
                "enable": "true",
                "email": account["client_email"],
                "private.key.id": account.get("private_key_id", "-"),
                "private.key": account["private_key"],
            }
        except (ValueError, KeyError, TypeError):
            return "Hadoop's connector takes the key of a service account, and no other login"
        if account.get("token_uri"):
            settings["fs.gs.token.server.url"] = account["token_uri"]
        settings |= {f"fs.gs.auth.service.account.{name}": v for name, v in given.items()}
    elif options.get("anonymous") or access.endpoint.lower().startswith("http://"):
        settings |= {"fs.gs.auth.service.account.enable": "false", "fs.gs.auth.null.enable": "true"}
    return settings
