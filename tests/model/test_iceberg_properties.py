"""Iceberg's table properties: each becomes one of ours, needs none, or is refused by name."""

from __future__ import annotations

import pytest

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.iceberg_properties import ICEBERG_PROPERTIES
from tablefmt.model.peer_properties import our_name, translate_properties
from tablefmt.model.properties import PROPERTIES, check_properties


def test_every_row_becomes_a_known_property_with_valid_values() -> None:
    for row in ICEBERG_PROPERTIES.values():
        assert row.ours is None or row.ours in PROPERTIES
        for value in row.values.values():
            if row.ours is not None:
                assert value is not None
                assert check_properties({row.ours: value}) == {row.ours: value}


def test_first_words_that_others_use_too_leave_names_of_ones_own_alone() -> None:
    given = {"schema.owner": "me", "engine.size": "3", "schema.name-mapping.default": "[]"}
    assert translate_properties({**given, "engine.hive.enabled": "true"}) == {
        "user.schema.owner": "me",
        "user.engine.size": "3",
    }


def test_properties_of_both_peers_and_own_names_are_translated() -> None:
    given = {
        "format-version": "2",
        "write.delete.mode": "Merge-On-Read",
        "WRITE.merge.mode": "merge-on-read",
        "write.target-file-size-bytes": "1048576",
        "write.parquet.page-size-bytes": "1",
        "commit.retry.num-retries": "10",
        "history.expire.max-snapshot-age-ms": "864000000",
        "delta.appendOnly": "true",
        "department": "sales",
        "user.team": "x",
        "checkpointInterval": "50",
    }
    assert check_properties(translate_properties(given)) == {
        "deleteMode": "merge-on-read",
        "targetFileSize": "1048576",
        "deletedFileRetentionDuration": "interval 864000 seconds",
        "appendOnly": "true",
        "user.department": "sales",
        "user.team": "x",
        "checkpointInterval": "50",
    }
    names = ["write.merge.mode", "read.split.target-size", "department", "user.team", "appendOnly"]
    assert [our_name(name) for name in names] == [
        "deleteMode", None, "user.department", "user.team", "appendOnly",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"write.format.default": "orc"}, "write.format.default is 'orc'.*Parquet"),
        ({"write.wap.enabled": "true"}, "one line of versions"),
        ({"write.data.path": "/x"}, "below the table's folder"),
        ({"write.newest.thing": "1"}, "write.newest.thing"),
        ({"write.delete.mod": "x"}, "did you mean 'write.delete.mode'"),
        ({"history.expire.max-snapshot-age-ms": "1500"}, "whole seconds"),
        ({"history.expire.min-snapshots-to-keep": "100"}, "tag"),
        (
            {"write.delete.mode": "merge-on-read", "write.merge.mode": "copy-on-write"},
            "deleteMode.*set it once",
        ),
    ],
)
def test_others_are_refused_by_name(given: dict[str, str], says: str) -> None:
    with pytest.raises(SchemaMismatchError, match=says):
        translate_properties(given)


def test_a_name_that_is_nearly_ours_is_no_name_of_the_users_own() -> None:
    with pytest.raises(SchemaMismatchError, match="did you mean 'appendOnly'"):
        check_properties(translate_properties({"apendOnly": "true"}))
