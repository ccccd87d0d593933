"""Parts of an export to Iceberg: Avro, values, the plan of manifests, against PyIceberg's own."""

from __future__ import annotations

import decimal
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.errors import CorruptTableError
from tablefmt.export import avro_file as avro
from tablefmt.export.avro_file import decode, encode, read_records, write_columns, write_records
from tablefmt.export.iceberg_manifests import (
    FULL,
    SMALL_MAX,
    Manifest,
    chunks,
    plan_data,
    plan_deletes,
)
from tablefmt.export.iceberg_names import name_mapping, twice_mapped
from tablefmt.export.iceberg_records import entry_schema, list_schema
from tablefmt.export.iceberg_schema import is_promotion
from tablefmt.export.iceberg_values import (
    decimal_bytes,
    lower_bound_of_zero,
    partition_values,
    single_values,
    upper_bound_of_zero,
)
from tablefmt.log.bounded_avro import long_bytes
from tablefmt.model.log_entry import Import, Metadata
from tablefmt.model.schema import Decimal, Field, Primitive, Schema, Struct, primitive

NUMBERS = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31, -(2**31), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("times", [1, 3])
def test_numbers_are_encoded_the_same_in_columns_and_one_by_one(times: int) -> None:
    """XPT-22: with few numbers, and with numpy."""
    values = np.array(NUMBERS * times)
    assert avro.longs(values).to_pylist() == [long_bytes(v) for v in NUMBERS * times]
    for number in NUMBERS:
        assert decode("long", long_bytes(number), 0) == (number, len(long_bytes(number)))


def test_maps_are_encoded_the_same_in_columns_and_one_by_one() -> None:
    """XPT-22."""
    record = entry_schema([], 2)["fields"][4]["type"]["fields"][6]["type"][1]
    columns = {7: pa.array([b"\x02", None, None]), 900: pa.array([b"\x04", None, b"\x06"])}
    wanted = [[(7, 1), (900, 2)], [], [(900, 3)]]
    made = avro.id_map(columns, 3).to_pylist()
    assert made == [encode(record, [{"key": k, "value": v} for k, v in each]) for each in wanted]
    assert avro.id_map({}, 2).to_pylist() == [b"\x00", b"\x00"]


def test_files_are_read_back_and_damage_is_found() -> None:
    """XPT-22: 2,500 records are three blocks."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "long"]}]}
    records = [{"n": None if n % 7 == 0 else n * 10**15} for n in range(2500)]
    body = write_records(schema, {"a": "b"}, records)
    assert read_records(body, "k") == records
    encoded = pa.array([encode(schema, record) for record in records], pa.binary())
    assert write_columns(schema, {"a": "b"}, encoded) == body
    for damaged in (b"", body[:-1], body[:40], b"Obj\x02" + body[4:], body[:-3] + b"xyz"):
        with pytest.raises(CorruptTableError, match=r"^k: it is not a readable Avro file"):
            read_records(damaged, "k")


@pytest.mark.parametrize("form", [2, 3])
def test_manifest_lists_are_those_of_pyiceberg(form: int) -> None:
    """XPT-22: PyIceberg's reader finds each field by its id."""
    manifest = pytest.importorskip("pyiceberg.manifest")
    record: dict[str, Any] = {
        "manifest_path": "file:///m.avro",
        "manifest_length": 5,
        "partition_spec_id": 1,
        "content": 1,
        "sequence_number": 9,
        "min_sequence_number": 8,
        "added_snapshot_id": 9,
        "added_files_count": 1,
        "existing_files_count": 2,
        "deleted_files_count": 3,
        "added_rows_count": 4,
        "existing_rows_count": 5,
        "deleted_rows_count": 6,
        "partitions": [
            {"contains_null": True, "contains_nan": None, "lower_bound": b"a", "upper_bound": b"b"}
        ],
        "key_metadata": None,
        "first_row_id": 7 if form == 3 else None,
    }
    body = write_records(list_schema(form), {}, [record])

    class There:
        location = "memory"

        def open(self, seekable: bool = True) -> io.BytesIO:
            return io.BytesIO(body)

    (found,) = manifest.read_manifest_list(There())
    assert found.manifest_path == "file:///m.avro"
    assert found.partitions[0].lower_bound == b"a"
    for name in ("added_files_count", "deleted_rows_count", "min_sequence_number"):
        assert getattr(found, name) == record[name]


DECIMALS = ["0.00", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "327.68", "-327.69", "999999.99"]


def test_decimals_have_the_fewest_bytes() -> None:
    """XPT-21: the bytes are those of Java's BigInteger."""
    for text in DECIMALS:
        array = pa.array([decimal.Decimal(text), None], pa.decimal128(8, 2))
        unscaled = int(decimal.Decimal(text) * 100)
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        wanted = unscaled.to_bytes(length, "big", signed=True)
        assert single_values(array, Decimal(8, 2)).to_pylist() == [wanted, None]
        fixed = unscaled.to_bytes(decimal_bytes(8), "big", signed=True)
        assert partition_values(array, Decimal(8, 2)).to_pylist() == [fixed, None]
    needed = [decimal_bytes(digits) for digits in (1, 2, 4, 5, 9, 10, 18, 19, 38)]
    assert needed == [1, 1, 2, 3, 4, 5, 8, 9, 16]


@pytest.mark.parametrize(
    ("name", "value", "single", "partition"),
    [
        ("boolean", True, b"\x01", b"\x01"),
        ("byte", -2, b"\xfe\xff\xff\xff", b"\x03"),
        ("integer", 1, b"\x01\0\0\0", b"\x02"),
        ("long", 1, b"\x01\0\0\0\0\0\0\0", b"\x02"),
        ("double", 1.0, b"\0\0\0\0\0\0\xf0?", b"\0\0\0\0\0\0\xf0?"),
        ("string", "é", "é".encode(), b"\x04" + "é".encode()),
        ("binary", b"\0", b"\0", b"\x02\0"),
    ],
)
def test_values_have_icebergs_bytes(name: str, value: Any, single: bytes, partition: bytes) -> None:
    """XPT-21, XPT-22."""
    from tablefmt.model.arrow_types import arrow_type

    kind = Primitive(name)
    array = pa.array([None, value, value], arrow_type(kind))[1:]
    assert single_values(array, kind).to_pylist() == [single, single]
    assert partition_values(array, kind).to_pylist() == [partition, partition]
    nothing = pa.array([None, None], arrow_type(kind))
    assert single_values(nothing, kind).to_pylist() == [None, None]


def test_bounds_of_zero_have_the_sign_of_their_side() -> None:
    """XPT-21."""
    zeros = pa.array([0.0, -0.0, 1.5, None])
    assert str(lower_bound_of_zero(zeros).to_pylist()) == "[-0.0, -0.0, 1.5, None]"
    assert str(upper_bound_of_zero(zeros).to_pylist()) == "[0.0, 0.0, 1.5, None]"


@pytest.mark.parametrize(
    ("old", "new", "takes"),
    [
        ("byte", "integer", True),
        ("short", "long", True),
        ("integer", "long", True),
        ("float", "double", True),
        ("decimal(8,2)", "decimal(12,2)", True),
        ("decimal(8,2)", "decimal(12,3)", False),
        ("integer", "double", False),
        ("long", "decimal(22,1)", False),
        ("date", "timestamp_ntz", False),
    ],
)
def test_promotions(old: str, new: str, takes: bool) -> None:
    """XPT-23."""
    assert is_promotion(primitive(old), primitive(new)) is takes


def manifest(low: int, high: int, live: int) -> Manifest:
    return Manifest({"added_files_count": live, "existing_files_count": 0}, low, high)


def test_a_commit_of_one_file_writes_one_manifest_and_seldom_more() -> None:
    """XPT-25: the number of files written again grows with the logarithm of the commits."""
    held: list[Manifest] = []
    written = 0
    for number in range(1, 5001):
        plan = plan_data(held, np.array([number]), np.zeros(0, np.int64))
        held = list(plan.kept)
        for low, high in plan.ranges:
            held.append(manifest(low, high, high - low + 1))
            written += high - low + 1
        assert len(plan.ranges) == 1
        assert len(held) <= SMALL_MAX + 1
        assert max(m.high for m in held) == number
    assert sum(m.live for m in held) == 5000
    assert written < 5000 * 8


def test_manifests_with_removed_files_are_written_again() -> None:
    """XPT-25: adjacent ones become one range; full ones that lose nothing stay."""
    held = [manifest(1, 100, 100), manifest(101, 200, 100), manifest(201, 300, FULL)]
    plan = plan_data(held, np.array([400, 401]), np.array([5, 150]))
    assert [m.low for m in plan.kept] == [201]
    assert plan.ranges == [(1, 200), (400, 401)]
    plan = plan_data(held, np.array([400]), np.array([250]))
    assert plan.ranges == [(201, 400)]
    plan = plan_data([manifest(1, 9, 0), *held[1:]], np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert ([m.low for m in plan.kept], plan.ranges) == ([101, 201], [])


def test_chunks_are_even() -> None:
    assert [len(part) for part in chunks(np.arange(10), 4)] == [4, 3, 3]
    assert chunks(np.zeros(0, np.int64), 4) == []


def test_manifests_of_replaced_vectors_are_read_again() -> None:
    """XPT-26."""
    held = [manifest(1, 50, 3), manifest(40, 90, 2), manifest(91, 99, 0)]
    kept, again = plan_deletes(held, np.array([45]))
    assert (kept, again) == ([], held[:2])
    kept, again = plan_deletes(held, np.array([95]))
    assert (kept, again) == (held[:2], [])
    many = [manifest(n, n, 1) for n in range(1, SMALL_MAX + 2)]
    kept, again = plan_deletes(many, np.zeros(0, np.int64))
    assert len(kept) + len(again) == SMALL_MAX + 1
    assert len(kept) < SMALL_MAX


def imported(names: dict[int, str | None], lookup: str | None = "names") -> Import:
    return Import(root="", names=names, format="parquet", uri="/s", lookup=lookup)


def test_the_mapping_of_names_for_imported_files() -> None:
    """XPT-29: names of imports, of dropped columns and of an older snapshot's columns."""
    inner = Field(3, "x", "x", Primitive("string"))
    fields = (Field(1, "id", "ID", Primitive("long")), Field(2, "s", "s", Struct((inner,))))
    schema = Schema(fields, 5, ("gone", "v"))
    plain = name_mapping(Metadata(schema))
    hidden = plain[2:]
    assert plain[:2] == [
        {"field-id": 1, "names": ["ID"]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},
    ]
    by_id = Metadata(schema, imports={1: imported({1: "a"}, "ids"), 2: imported({1: "b"}, None)})
    assert name_mapping(by_id, [{"field-id": 4, "names": ["v"]}]) == plain
    metadata = Metadata(schema, imports={1: imported({}), 2: imported({1: "id", 3: "X"})})
    older = [
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 5, "names": ["y"]}]},
        {"field-id": 4, "names": ["v"]},
        *hidden,
    ]
    inside = [{"field-id": 3, "names": ["x", "X"]}, {"field-id": 5, "names": ["y"]}]
    assert name_mapping(metadata, older) == [
        {"field-id": 1, "names": ["ID", "id"]},
        {"field-id": 2, "names": ["s"], "fields": inside},
        {"field-id": 4, "names": ["v"]},
        {"field-id": 2_147_483_101, "names": ["gone"]},
        *hidden,
    ]
    assert twice_mapped(metadata) == ""
    assert twice_mapped(Metadata(schema, imports={1: imported({1: "s"})})) == "s"
