"""Hadoop's S3A: its jars, and its settings for a table (location, credentials and committer).

Each combination of credentials and endpoint gets its own URI scheme. The settings are passed with
each scan and write, and never stored in the session.

The jars come from a folder, or from Maven Central: 12 MB. hadoop-aws must have exactly the version
of Hadoop that Spark bundles, and needs one version of the AWS SDK. Only the modules that S3A uses
are installed: the bundle that hadoop-aws depends on has 690 MB.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import urllib.error
import urllib.request
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.backends.native.file_system_schemes import scheme_for
from tablefmt.spark.pyspark_objects import JavaObject, Session, gateway, java_class
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
    scheme = scheme_for("s3a", bucket, settings)
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


_found_classes: weakref.WeakKeyDictionary[JavaObject, set[str]] = weakref.WeakKeyDictionary()
"""Names of classes by the JVM that has them."""


def has_s3a(spark: Session) -> bool:
    """Return whether the JVM of a classic session has all of `CLASSES`."""
    return has_classes(spark, CLASSES)


def has_classes(spark: Session, names: Iterable[str]) -> bool:
    """Return whether the JVM of a classic session has these classes.

    Every read and write asks. A class that was found is not looked for again in the same JVM.
    """
    from py4j.protocol import Py4JError

    found = _found_classes.setdefault(gateway(spark), set())
    missing = [name for name in names if name not in found]
    try:
        if missing:
            loader = java_class("org.apache.spark.util.Utils").getContextOrSparkClassLoader()
        for name in missing:
            java_class("java.lang.Class").forName(name, False, loader)
            found.add(name)
    except (Py4JError, TypeError):
        return False
    return True


def magic_folders(folder: str, keys: Iterable[str]) -> set[str]:
    """Return the folders directly below `folder` that have records of S3A's committer."""
    parts = {key.removeprefix(folder).split("/")[0] for key in keys if key.startswith(folder)}
    return {folder + part for part in parts if _MAGIC.fullmatch(part)}


def abort_uploads(store: Store, folder: str) -> None:
    """Abort the uploads of a failed job, as its tasks recorded them.

    S3A would list the uploads below the folder. But some servers, such as MinIO, list uploads by
    exact key only, and so return none.
    """
    root = _address(store)[1].removeprefix("/")
    for one in list(store.list_after(folder)):
        notes = magic_folders(folder, [one.key]) and one.key.endswith((".pending", ".pendingset"))
        if notes:
            pending = json.loads(store.get(one.key))
            for upload in pending.get("commits", [pending]):
                key = str(upload["destinationKey"])
                key = key.removeprefix(f"{root}/") if root else key
                store.abort_upload(key, str(upload["uploadId"]))


def _problem(bucket: str, access: S3Access) -> str:
    if not _BUCKET.fullmatch(bucket):
        return f"Hadoop cannot open the bucket {bucket!r}: its name is not a valid host name"
    if access.untranslated:
        names = ", ".join(map(repr, access.untranslated))
        return f"Hadoop has no counterpart of the storage options {names}"
    return ""


def _address(store: Store) -> tuple[str, str]:
    bucket, prefix = store.traits.bucket, store.traits.path
    return bucket, f"/{prefix}" if prefix else ""


def _access(store: Store) -> S3Access:
    access = store.access()
    assert isinstance(access, S3Access)
    return access


MAVEN = "https://repo1.maven.org/maven2"
MAVEN_VARIABLE = "TABLEFMT_MAVEN"
"""Environment variable with the URL of another repository, such as a mirror or `file:///…`."""

_PARALLEL = 8
_SECONDS = 60
_FEATURE = ["spark:s3-jars"]


@dataclass(frozen=True, slots=True)
class Jar:
    """A Maven artifact and its expected checksum."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """File name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Path below a repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def s3_jars(folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the paths of the jars for the installed PySpark.

    Args:
        folder: has all of them. Default: the user's cache folder, filled from Maven Central the
            first time. Several processes may do that at once.

    Raises:
        UnsupportedFeatureError: an unknown version of Hadoop, a jar that the folder lacks, or a jar
            that cannot be downloaded or has a wrong checksum.
    """
    jars = jars_for(bundled_hadoop())
    if folder is not None:
        return _in_folder(Path(folder), jars)
    kept = cache_folder()
    missing = [jar for jar in jars if _digest(kept / jar.name) != jar.sha256]
    if missing:
        base = os.environ.get(MAVEN_VARIABLE, MAVEN).rstrip("/")
        try:
            _make_private(kept)
            with ThreadPoolExecutor(_PARALLEL) as pool:
                list(pool.map(lambda jar: _download(base, jar, kept), missing))
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise UnsupportedFeatureError(
                f"the jars for S3 could not be downloaded to {kept} ({reason}); set "
                f"{MAVEN_VARIABLE} to the URL of a Maven repository that can be reached, or put "
                "the jars into a folder and pass s3='/that/folder'. Missing: "
                f"{', '.join(jar.name for jar in missing)}",
                _FEATURE,
            ) from None
    return [kept / jar.name for jar in jars]


def jars_for(hadoop: str) -> list[Jar]:
    """Return the jars for a version of Hadoop.

    Raises:
        UnsupportedFeatureError: the version is unknown.
    """
    lines = (resources.files("tablefmt.spark") / "s3_jars.tsv").read_text("utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    jars = []
    for release, jar, sha256 in rows:
        if release == hadoop:
            group, artifact, version = jar.split(":")
            jars.append(Jar(group, artifact, version, sha256))
    if not jars:
        known = ", ".join(sorted({row[0] for row in rows}))
        raise UnsupportedFeatureError(
            f"no jars for S3 are known for Hadoop {hadoop}, which this Spark bundles; known "
            f"versions: {known}. Start Spark with hadoop-aws {hadoop} and spark-hadoop-cloud "
            "yourself",
            _FEATURE,
        )
    return jars


def bundled_hadoop() -> str:
    """Return the version of Hadoop in the installed Spark.

    Raises:
        UnsupportedFeatureError: Spark has no Hadoop.
    """
    from pyspark.find_spark_home import _find_spark_home

    folder = Path(_find_spark_home()) / "jars"
    for path in sorted(folder.glob("hadoop-client-api-*.jar")):
        release = re.fullmatch(r"hadoop-client-api-(.+)\.jar", path.name)
        if release:
            return release[1]
    raise UnsupportedFeatureError(
        f"this Spark comes without Hadoop: {folder} has no hadoop-client-api jar", _FEATURE
    )


def cache_folder() -> Path:
    """Return the cache folder of jars, below XDG_CACHE_HOME or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tablefmt" / "jars"


def _make_private(kept: Path) -> None:
    """Make the folder of the jars and its parent, writable by this user only (SEC-3)."""
    kept.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in (kept.parent, kept):
        folder.mkdir(exist_ok=True, mode=0o700)
        if folder.stat().st_mode & 0o022:
            folder.chmod(0o700)


def _in_folder(folder: Path, jars: list[Jar]) -> list[Path]:
    there = {path.name for path in folder.glob("*.jar")} if folder.is_dir() else set()
    missing = [jar.name for jar in jars if jar.name not in there]
    if missing:
        raise UnsupportedFeatureError(
            f"{folder} lacks {len(missing)} of {len(jars)} jars for S3: {', '.join(missing)}. "
            "s3=True downloads them from Maven Central",
            _FEATURE,
        )
    return [folder / jar.name for jar in jars]


def _download(base: str, jar: Jar, folder: Path) -> None:
    with urllib.request.urlopen(f"{base}/{jar.path}", timeout=_SECONDS) as answer:
        body = answer.read()
    if hashlib.sha256(body).hexdigest() != jar.sha256:
        raise OSError(f"{jar.name} has the wrong SHA-256")
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        os.replace(temporary, folder / jar.name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
