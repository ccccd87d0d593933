"""The jars that Spark lacks for S3: 12 MB, found in a folder or brought from Maven Central.

hadoop-aws has to be of exactly the Hadoop that Spark bundles, and asks for one release of the AWS
SDK. Of that only what S3A uses is taken: the bundle that hadoop-aws itself names has 690 MB.
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
"""Names another repository by its URL, such as a mirror or `file:///…`."""

_PARALLEL = 8
_SECONDS = 60
_FEATURE = ["spark:s3-jars"]


@dataclass(frozen=True, slots=True)
class Jar:
    """One artefact of Maven, and what it has to hold."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """Of the file."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Below a repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def s3_jars(folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Paths of the jars for the installed PySpark.

    Args:
        folder: has all of them; by default they are kept in the user's cache folder, and brought
            from Maven Central the first time. Several processes may do so at once.

    Raises:
        UnsupportedFeatureError: a Hadoop that no set is known for, jars that the folder lacks, or
            that cannot be brought here or are not what they should be.
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
                list(pool.map(lambda jar: _bring(base, jar, kept), missing))
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise UnsupportedFeatureError(
                f"the jars for S3 could not be brought to {kept} ({reason}); set {MAVEN_VARIABLE} "
                "to the URL of a Maven repository that can be reached, or put them into a folder "
                f"and pass s3='/that/folder'. Missing: {', '.join(jar.name for jar in missing)}",
                _FEATURE,
            ) from None
    return [kept / jar.name for jar in jars]


def jars_for(hadoop: str) -> list[Jar]:
    """The set for a release of Hadoop.

    Raises:
        UnsupportedFeatureError: none is known.
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
            f"no jars for S3 are known for Hadoop {hadoop}, which this Spark has; known are those "
            f"for {known}. Start Spark with hadoop-aws {hadoop} and spark-hadoop-cloud yourself",
            _FEATURE,
        )
    return jars


def bundled_hadoop() -> str:
    """The release of Hadoop in the installed Spark.

    Raises:
        UnsupportedFeatureError: it has none.
    """
    from pyspark.find_spark_home import _find_spark_home

    folder = Path(_find_spark_home()) / "jars"
    for path in sorted(folder.glob("hadoop-client-api-*.jar")):
        release = re.fullmatch(r"hadoop-client-api-(.+)\.jar", path.name)
        if release:
            return release[1]
    raise UnsupportedFeatureError(f"this Spark comes without Hadoop ({folder})", _FEATURE)


def cache_folder() -> Path:
    """Where jars are kept: below XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tablefmt" / "jars"


def _make_private(kept: Path) -> None:
    """Make the folder of the jars, and ours above it: nobody else may put a jar there (SEC-3)."""
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
            "s3=True brings them from Maven Central",
            _FEATURE,
        )
    return [folder / jar.name for jar in jars]


def _bring(base: str, jar: Jar, folder: Path) -> None:
    with urllib.request.urlopen(f"{base}/{jar.path}", timeout=_SECONDS) as answer:
        body = answer.read()
    if hashlib.sha256(body).hexdigest() != jar.sha256:
        raise OSError(f"{jar.name} is not what it should be: its SHA-256 differs")
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
