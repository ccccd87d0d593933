"""Find the jars that Spark needs for S3 in a folder, or download them from Maven Central: 12 MB.

hadoop-aws must have exactly the version of Hadoop that Spark bundles, and needs one version of the
AWS SDK. Only the modules that S3A uses are installed: the bundle that hadoop-aws depends on has
690 MB.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from tablefmt.errors import UnsupportedFeatureError

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
