"""Delta's table properties: each becomes one of ours, needs none, or is refused by name."""

from __future__ import annotations

import pytest

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.delta_properties import DELTA_PROPERTIES
from tablefmt.model.peer_properties import translate_properties
from tablefmt.model.properties import PROPERTIES, check_properties


def test_every_row_becomes_a_known_property_with_valid_values() -> None:
    for row in DELTA_PROPERTIES.values():
        assert row.ours is None or row.ours in PROPERTIES
        if row.ours is not None:
            for value in row.values.values():
                if value is not None:
                    assert check_properties({row.ours: value}) == {row.ours: value}


def test_properties_are_translated() -> None:
    given = {
        "delta.appendOnly": "true",
        "DELTA.LogRetentionDuration": "interval 30 days",
        "delta.autoOptimize.autoCompact": "auto",
        "delta.columnMapping.mode": "name",
        "delta.enableDeletionVectors": "false",
        "delta.feature.deletionVectors": "supported",
        "delta.minReaderVersion": "3",
        "delta.enableIcebergCompatV2": "true",
        "delta.universalFormat.enabledFormats": "iceberg",
        "user.team": "sales",
    }
    assert check_properties(translate_properties(given)) == {
        "appendOnly": "true",
        "logRetentionDuration": "interval 30 days",
        "autoCompact": "true",
        "deleteMode": "copy-on-write",
        "export": "iceberg",
        "user.team": "sales",
    }


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("delta.dataSkippingNumIndexedCols", "8", "statsColumns"),
        ("delta.parquet.compression.codec", "gzip", "option compression"),
        ("delta.universalFormat.enabledFormats", "hudi", "iceberg and delta"),
        ("delta.feature.identityColumns", "supported", "do not have this feature"),
        ("delta.constraints.positive", "id > 0", "add_constraint"),
        ("delta.apendOnly", "true", "did you mean 'delta.appendOnly'"),
        ("delta.columnMapping.mode", "other", "name or id or none"),
    ],
)
def test_others_are_refused_by_name(name: str, value: str, says: str) -> None:
    with pytest.raises(SchemaMismatchError, match=says) as error:
        translate_properties({name: value})
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("size", "count"),
    [("1000", "1000"), ("64mb", "67108864"), ("2 GiB", "2147483648"), ("3K", "3072"), (7, "7")],
)
def test_a_size_has_a_unit(size: object, count: str) -> None:
    given = {"delta.targetFileSize": size}
    assert check_properties(translate_properties(given)) == {"targetFileSize": count}


@pytest.mark.parametrize("size", ["0", "64xb", "-1mb", "1.5g", "9999t"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    says = rf"the property delta\.targetFileSize is '{size}'; expected a size such as .* 128mb"
    with pytest.raises(SchemaMismatchError, match=says):
        translate_properties({"delta.targetFileSize": size})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.checkpointInterval", "often"),
        ("delta.deletedFileRetentionDuration", "a while"),
        ("delta.isolationLevel", "none"),
        ("write.target-file-size-bytes", "64mb"),
        ("write.target-file-size-bytes", "0"),
    ],
)
def test_a_wrong_value_is_refused_under_the_name_that_was_written(name: str, value: str) -> None:
    with pytest.raises(SchemaMismatchError, match=f"the property {name} is '{value}'; expected"):
        translate_properties({name: value})


def test_two_properties_that_become_one_must_agree() -> None:
    with pytest.raises(SchemaMismatchError, match="appendOnly"):
        translate_properties({"appendOnly": "false", "delta.appendOnly": "true"})
