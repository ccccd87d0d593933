"""Iceberg's options: each becomes ours, has no effect on rows, or is refused by name. No JVM."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.iceberg_options import ICEBERG_OPTIONS, with_icebergs
from tablefmt.spark.spark_options import OPTIONS, READ_OPTIONS, parse_options, parse_read_options
from tablefmt.spark.streams.stream_options import STREAM_OPTIONS, parse_stream_options

KNOWN = {*OPTIONS, *READ_OPTIONS, *STREAM_OPTIONS}


def test_every_option_becomes_known_ones() -> None:
    for name, row in ICEBERG_OPTIONS.items():
        made: set[str] = set()
        if row.ours is not None:
            made = {*row.ours("1")}
        for values in (row.values or {}).values():
            made |= {*values}
        assert made <= KNOWN, name


def test_reads_writes_and_streams_take_them() -> None:
    at = parse_read_options({"as-of-timestamp": "1700000000123"}, None).timestamp
    assert at == "2023-11-14T22:13:20.123000Z"
    assert parse_read_options({"snapshot-id": "3", "split-size": "9"}, None).version == 3
    assert parse_read_options({"tag": "q1"}, None).version == "q1"
    appended = parse_read_options({"start-snapshot-id": "1", "end-snapshot-id": 2}, None)
    assert not appended.change_columns
    assert appended.changes is not None
    assert {k: v for k, v in appended.changes.items() if v is not None} == {
        "after_version": 1, "ending_version": 2, "content": "append", "schema": "end",
        "expired": "error",
    }  # fmt: skip
    written = parse_options(
        {"snapshot-property.job": "night", "fanout-enabled": "true", "compression-codec": "ZSTD"}
    )
    assert written.commit.user_metadata == {"job": "night"}
    streamed = parse_stream_options(
        {
            "stream-from-timestamp": "1700000000000",
            "streaming-max-files-per-micro-batch": "5",
            "streaming-skip-overwrite-snapshots": "true",
        },
        None,
    )
    assert (streamed.max_files, streamed.skip_changes) == (5, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"branch": "audit"}, "option branch of Iceberg.*one line of versions"),
        ({"write-format": "avro"}, "write-format=avro.*Parquet"),
        ({"check-nullability": "false"}, "check-nullability=false"),
        ({"isolation-level": "serializable"}, "property isolationLevel"),
    ],
)
def test_others_are_refused_by_name(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=says):
        with_icebergs(given)


def test_a_time_is_a_number_of_milliseconds() -> None:
    with pytest.raises(InvalidRangeError, match="milliseconds"):
        with_icebergs({"as-of-timestamp": "yesterday"})
