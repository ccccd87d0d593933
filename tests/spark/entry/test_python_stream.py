"""STR-1 .. STR-5: the source where there is no JVM at hand, as Spark calls it, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

import tablefmt
from tablefmt.errors import ChangesExpiredError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.spark.entry.python_source import StreamReader, UnlimitedReader, stream_schema
from tablefmt.spark.statements import execution
from tests.log.test_horizon import raise_horizon

READERS: list[type[StreamReader]] = [UnlimitedReader]
try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from tablefmt.spark.entry.python_source import LimitedReader
except ImportError:
    pass
else:
    READERS.append(LimitedReader)

Offset = dict[str, Any]


class Query:
    """The checkpoint of a query, and the calls that Spark makes to a reader. A test may kill it."""

    def __init__(self, kind: type[StreamReader], uri: str, **options: Any) -> None:
        self._kind, self._options = kind, {"path": uri, **options}
        self._offsets: list[Offset] = []
        self._done = 0
        self.start()

    def start(self) -> None:
        """A process of its own."""
        execution._views.clear()
        # The kinds have different signatures.
        self._reader: Any = self._kind(self._options, *stream_schema(self._options, "UTC"))

    def note(self) -> None:
        """The end of the next batch."""
        known = self._offsets[-1] if self._offsets else None
        if self._kind is UnlimitedReader:
            end = self._reader.latestOffset()
        else:
            start = known or self._reader.initialOffset()
            end = self._reader.latestOffset(start, ReadAllAvailable())
        if end != known:
            self._offsets.append(end)

    @property
    def batches(self) -> int:
        """Return the number of ends in the checkpoint."""
        return len(self._offsets)

    def run(self) -> list[int]:
        """The ids that the batches have which were noted and not finished."""
        found: list[int] = []
        while self._done < len(self._offsets):
            end = self._offsets[self._done]
            start = self._offsets[self._done - 1] if self._done else self._reader.initialOffset()
            for part in self._reader.partitions(start, end):
                for batch in self._reader.read(part):
                    found += batch["id"].to_pylist()
            self._done += 1
        return sorted(found)


@pytest.fixture
def table(tmp_path: Path) -> tablefmt.Table:
    """Versions 1 to 3 bring the rows of their numbers."""
    table = tablefmt.create(str(tmp_path / "table"), "id BIGINT")
    for number in (1, 2, 3):
        table.append({"id": [number]})
    return table


BEGINNINGS = [
    ({}, [1, 2, 3]),
    ({"startingVersion": "earliest"}, [1, 2, 3]),
    ({"startingVersion": "latest"}, []),
    ({"startingVersion": "2"}, [2, 3]),
]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("options", "first"), BEGINNINGS)
def test_a_query_that_is_killed_before_its_first_batch_is_done_has_the_same_rows_again(
    table: tablefmt.Table, kind: type[StreamReader], options: dict[str, str], first: list[int]
) -> None:
    """STR-2: the offset of its end decides. The options may name another start by now."""
    query = Query(kind, table.uri, **options)
    query.note()
    for number in (4, 5):
        table.append({"id": [number]})
    query.start()

    assert query.run() == first
    query.note()
    assert query.run() == [4, 5]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("options", "first"), BEGINNINGS)
def test_a_query_that_is_started_again_and_again_reads_every_row_once(
    table: tablefmt.Table, kind: type[StreamReader], options: dict[str, str], first: list[int]
) -> None:
    """STR-2: offsets lead on, whether or not the batch was done that was noted last."""
    query = Query(kind, table.uri, **options)
    query.note()
    found = query.run()
    for number in range(4, 10):
        table.append({"id": [number]})
        query.start()
        query.note()
        if number % 2:
            query.start()
        found += query.run()

    assert found == [*first, *range(4, 10)]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("options", "first"), BEGINNINGS)
def test_a_query_that_is_started_again_and_finds_nothing_new_makes_no_batch(
    table: tablefmt.Table, kind: type[StreamReader], options: dict[str, str], first: list[int]
) -> None:
    """STR-2: the same versions have the same offset in every batch."""
    query = Query(kind, table.uri, **options)
    query.note()
    found = query.run()
    for number in (4, 5, 6):
        query.note()
        assert query.run() == []
        table.append({"id": [number]})
        query.note()
        found += query.run()
        query.start()
    query.note()

    assert query.batches == 4
    assert query.run() == []
    assert found == [*first, 4, 5, 6]


@pytest.mark.parametrize("limit", ["maxFilesPerTrigger", "max_bytes_per_trigger"])
def test_limits_are_refused_where_they_would_mean_nothing(
    table: tablefmt.Table, limit: str
) -> None:
    """STR-4: the limits bound the size of a batch."""
    options = {"path": table.uri, limit: "1"}
    with pytest.raises(UnsupportedFeatureError, match=r"Spark 4\.2") as refused:
        UnlimitedReader(options, *stream_schema(options, "UTC"))
    (feature,) = refused.value.features
    assert feature in ("option:maxFilesPerTrigger", "option:maxBytesPerTrigger")
    for kind in READERS[1:]:
        kind(options, *stream_schema(options, "UTC"))


@pytest.mark.parametrize("kind", READERS)
def test_a_first_batch_whose_versions_are_no_longer_kept_is_an_error(
    table: tablefmt.Table, kind: type[StreamReader]
) -> None:
    """STR-5: versions that it had to have are not left out because `earliest` is another now."""
    query = Query(kind, table.uri, startingVersion="earliest")
    query.note()
    raise_horizon(table.context.store, 2)
    query.start()

    with pytest.raises(ChangesExpiredError, match="version 0"):
        query.run()


@pytest.mark.parametrize("kind", READERS)
def test_a_stream_that_is_past_its_beginning_goes_on_when_that_is_no_longer_kept(
    table: tablefmt.Table, kind: type[StreamReader]
) -> None:
    """STR-1: a beginning is for a stream that begins."""
    query = Query(kind, table.uri, startingVersion="1")
    query.note()
    assert query.run() == [1, 2, 3]
    raise_horizon(table.context.store, 2)
    table.append({"id": [5]})
    query.start()

    query.note()

    assert query.run() == [5]


def test_columns_that_are_not_the_streams_are_refused_each_time(table: tablefmt.Table) -> None:
    """STR-1: a reader that was refused once is checked again."""
    columns = StructType([StructField("id", StringType())])
    for kind in READERS:
        reader = kind({"path": table.uri}, columns, None)
        for _ in range(2):
            with pytest.raises(SchemaMismatchError, match="the stream has the schema"):
                reader.initialOffset()
