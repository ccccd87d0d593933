"""Roots of tables in the form that Hadoop takes, with the settings of scans and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.backends.native import azure_connector, gcs_connector, s3a
from tablefmt.spark.pyspark_objects import Session
from tablefmt.store.object_store import Store

LOCAL_OPTIONS = {
    # The default local file system writes a hidden checksum file beside every file.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@dataclass(frozen=True, slots=True)
class HadoopRoot:
    """Root of a table for Hadoop, with nothing escaped."""

    scheme: str
    authority: str | None
    """The bucket. None on a local disk."""
    path: str
    """An absolute path."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Hadoop settings of a scan or a write, possibly with credentials."""
    write_options: Mapping[str, str] = field(default_factory=dict)
    """More settings of a write."""
    session_conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session copy that writes."""
    direct: bool = False
    """Tasks write files at their final names: here a rename is a copy. See `DirectFiles`."""
    folder_marks: Literal["each folder", "emptied folders"] | None = None
    """For which folders Hadoop writes an empty object, without need: each folder, by its name; or
    those whose last file is deleted, by the name and a slash."""

    def __truediv__(self, below: str) -> str:
        """Return a path below the root as text that Hadoop reads without unescaping."""
        place = f"//{self.authority}" if self.authority else ""
        return f"{self.scheme}:{place}{self.path}/{below}"


def hadoop_root(spark: Session, store: Store) -> HadoopRoot:
    """Return the root of the table for Hadoop.

    Args:
        spark: a classic session.
        store: the table's store.

    Raises:
        UnsupportedFeatureError: Hadoop cannot open the store.
    """
    traits = store.traits
    if traits.on_disk:
        return HadoopRoot("file", None, traits.path, write_options=LOCAL_OPTIONS)
    if traits.scheme == "s3":
        bucket = s3a.s3_place(store)
        return HadoopRoot(
            bucket.scheme,
            bucket.bucket,
            bucket.path,
            bucket.settings,
            s3a.WRITE_OPTIONS,
            s3a.SESSION_CONF,
        )
    problem = f"Hadoop has no file system for {traits.scheme}://"
    if traits.scheme == "gs":
        settings = gcs_connector.gcs_settings(store)
        if isinstance(settings, str):
            problem = settings
        elif not gcs_connector.has_connector(spark):
            problem = gcs_connector.NO_JAR
        else:
            path = f"/{traits.path}" if traits.path else ""
            conf = gcs_connector.SESSION_CONF
            return HadoopRoot(
                "gs",
                traits.bucket,
                path,
                settings,
                session_conf=conf,
                direct=True,
                folder_marks="emptied folders",
            )
    if traits.scheme == "az":
        place = azure_connector.azure_place(spark, store)
        if isinstance(place, str):
            problem = place
        else:
            return HadoopRoot(
                place.scheme,
                place.authority,
                f"/{traits.path}" if traits.path else "",
                place.settings,
                session_conf=azure_connector.SESSION_CONF,
                direct=True,
                folder_marks=None if place.hierarchical else "each folder",
            )
    raise UnsupportedFeatureError(
        f"Spark cannot open the files of the table at {store.uri} by itself: {problem}",
        [f"spark:{traits.scheme}"],
    )
