"""Hadoop's S3A settings for a table: location, credentials, and committer.

Each combination of credentials and endpoint gets its own URI scheme, such as `s3a-1f0c9b27d4`.
Hadoop caches one file system per scheme and bucket in every process, and ignores later changes of
settings. With separate schemes, two tables of one bucket can have different credentials, and new
keys take effect at once. The settings are passed with each scan and write, and never stored in the
session.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.pyspark_objects import Session, jvm_of
from tablefmt.store.object_store import Store
from tablefmt.store.s3_access import S3Access

CLASSES = (
    "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    "software.amazon.awssdk.services.s3.S3Client",
    "software.amazon.awssdk.transfer.s3.S3TransferManager",
    "software.amazon.s3.analyticsaccelerator.request.ObjectClient",
)
"""Required classes, one of each jar that may be missing."""

SESSION_CONF = {
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": (
        "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
    ),
    # Plans show the writer's options, and the user's setting may not redact them.
    "spark.sql.redaction.options.regex": "(?i)url|fs[.]s3a[.]bucket",
}
"""Settings of the session copy that writes. Files get their final names without a rename."""

WRITE_OPTIONS = {
    "fs.s3a.committer.name": "magic",
    "fs.s3a.committer.magic.enabled": "true",
    # The file system and the committer read this under different names. If a session's setting
    # reached only one of them, a job would commit nothing and report success.
    "fs.s3a.committer.magic.track.commits.in.memory.enabled": "false",
    # The committer's records of uploads stay until `abort_uploads`, or the writer, has read them.
    "fs.s3a.committer.magic.cleanup.enabled": "false",
}

_PROVIDERS = {
    "keys": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "temporary": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "anonymous": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    "web identity": (
        "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
    ),
}

_MAGIC = re.compile(r"__magic(_job-[^/=]*)?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# Plans and logs show schemes. The salt keeps them from confirming a guessed secret.
_SALT = secrets.token_bytes(16)


@dataclass(frozen=True, slots=True)
class S3Place:
    """Root of a table in the form that Hadoop takes."""

    scheme: str
    bucket: str
    path: str
    """Absolute path. "" is the bucket itself."""
    settings: Mapping[str, str] = field(repr=False)
    """Hadoop settings of a scan or a write, including credentials."""


def s3_place(store: Store) -> S3Place:
    """Return the root of an S3 table.

    Raises:
        UnsupportedFeatureError: Hadoop cannot open the table. The message is that of `why_not`.
    """
    bucket, path = _address(store)
    access = _access(store)
    problem = _problem(bucket, access)
    if problem:
        raise UnsupportedFeatureError(problem, ["spark:s3"])
    settings = bucket_settings(bucket, access)
    text = json.dumps([bucket, sorted(settings.items())])
    digest = hmac.new(_SALT, text.encode(), hashlib.sha256).hexdigest()
    scheme = f"s3a-{digest[:10]}"
    named = {
        f"fs.{scheme}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"mapreduce.outputcommitter.factory.scheme.{scheme}": (
            "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
        ),
    }
    return S3Place(scheme, bucket, path, {**settings, **named})


def why_not(store: Store) -> str:
    """Return why Hadoop cannot open an S3 table as s3fs does. "" if it can."""
    return _problem(_address(store)[0], _access(store))


def bucket_settings(bucket: str, access: S3Access) -> dict[str, str]:
    """Return Hadoop's settings for one bucket. Pure.

    All settings are per bucket, and so override the session's. Unknown ones are left to the
    session.
    """
    settings = {
        # Settings that the session has for its own tables are not safe with our file system.
        "committer.magic.enabled": "true",
        "committer.magic.track.commits.in.memory.enabled": "false",
        # Write no empty object in place of a folder when its last file is deleted.
        "performance.flags": "delete",
        "directory.operations.purge.uploads": "true",
        "path.style.access": str(access.path_style).lower(),
    }
    if access.endpoint:
        settings["endpoint"] = access.endpoint
        settings["connection.ssl.enabled"] = str(not access.endpoint.startswith("http:")).lower()
    if access.endpoint or access.region:
        settings["endpoint.region"] = access.region or "us-east-1"
    if access.requester_pays:
        settings["requester.pays.enabled"] = "true"
    if access.credentials == "keys":
        settings["access.key"] = access.key
        settings["secret.key"] = access.secret
        if access.token:
            settings["session.token"] = access.token
    kind = "temporary" if access.token else access.credentials
    if kind in _PROVIDERS:
        settings["aws.credentials.provider"] = _PROVIDERS[kind]
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in settings.items()}


def has_s3a(spark: Session) -> bool:
    """Return whether the JVM of a classic session has all of `CLASSES`."""
    from py4j.protocol import Py4JError

    jvm = jvm_of(spark)
    try:
        loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        for name in CLASSES:
            jvm.java.lang.Class.forName(name, False, loader)
    except (Py4JError, TypeError):
        return False
    return True


def remove_markers(store: Store, folder: str) -> None:
    """Delete the empty object that S3A's committer leaves in place of a folder."""
    remove = getattr(store, "delete_folder_marker", None)
    if remove is not None:
        remove(folder)


def magic_folders(folder: str, keys: Iterable[str]) -> set[str]:
    """Return the folders directly below `folder` that have records of S3A's committer."""
    parts = {key.removeprefix(folder).split("/")[0] for key in keys if key.startswith(folder)}
    return {folder + part for part in parts if _MAGIC.fullmatch(part)}


def abort_uploads(store: Store, folder: str) -> None:
    """Abort the uploads of a failed job, as its tasks recorded them.

    S3A would list the uploads below the folder. But some servers, such as MinIO, list uploads by
    exact key only, and so return none.
    """
    abort = getattr(store, "abort_upload", None)
    if abort is None:
        return
    root = _address(store)[1].removeprefix("/")
    for one in list(store.list_after(folder)):
        notes = magic_folders(folder, [one.key]) and one.key.endswith((".pending", ".pendingset"))
        if notes:
            pending = json.loads(store.get(one.key))
            for upload in pending.get("commits", [pending]):
                key = str(upload["destinationKey"])
                abort(key.removeprefix(f"{root}/") if root else key, str(upload["uploadId"]))


def _problem(bucket: str, access: S3Access) -> str:
    if not _BUCKET.fullmatch(bucket):
        return f"Hadoop cannot open the bucket {bucket!r}: its name is not a valid host name"
    if access.untranslated:
        names = ", ".join(map(repr, access.untranslated))
        return f"Hadoop has no counterpart of the storage options {names}"
    return ""


def _address(store: Store) -> tuple[str, str]:
    bucket, _, prefix = store.uri.removeprefix("s3://").partition("/")
    return bucket, f"/{prefix}" if prefix else ""


def _access(store: Store) -> S3Access:
    ask = getattr(store, "access", None)
    if ask is None:
        return S3Access(untranslated=(type(store).__name__,))
    access: S3Access = ask()
    return access
