"""Iceberg copies of tables with imported files: rows in readers of other projects (XPT-29)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.export.iceberg_metadata import NAMES, metadata_key
from tests.export.iceberg_readers import DuckDBIceberg, Polars, PyIceberg
from tests.imports.sources import alike, hive, write
from tests.imports.test_iceberg_tables import made as iceberg_table

pytest.importorskip("pyiceberg")


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    duckdb = DuckDBIceberg(tmp_path_factory.mktemp("duckdb"), "avro", "iceberg")
    yield [duckdb, PyIceberg(), Polars()]
    duckdb.close()


@pytest.fixture
def check(readers: list[Any]) -> Callable[..., None]:
    """Export a table, and compare the rows of versions in all readers with its own."""

    def compare(table: tablefmt.Table, *versions: int) -> None:
        report = table.export("iceberg")
        assert (report.held, report.version) == (None, table.version)
        for version in versions or (table.version,):
            wanted = alike(table.to_arrow(version=version))
            for reader in readers:
                found = alike(reader.read(str(table.uri).removeprefix("file://"), version))
                assert found == wanted, (reader.name, version)
        assert table.verify().ok

    return compare


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_hive_folder_and_the_life_of_its_table(
    elsewhere: bool, tmp_path: Path, check: Callable[..., None]
) -> None:
    """XPT-29: odd partition values, lists, deletes, a rename, a drop and a compaction."""
    rows = hive(tmp_path / "s")
    into = tmp_path / "t" if elsewhere else None
    table = tablefmt.import_table(tmp_path / "s", into=into)
    check(table)
    first = table.version
    table.append(rows.slice(0, 5))
    table.delete("id % 4 = 0")
    check(table)
    table.alter.rename_column("v", "w")
    table.update({"w": "w + 1"}, "n = 1 AND id < 20")
    check(table, first, table.version)
    table.alter.drop_column("ts")
    table.alter.add_column("ts", "STRING", default="new")
    check(table, first, table.version)
    table.delete("region = 'EU'")
    table.compact("major")
    check(table, first, table.version)


def test_names_of_a_dropped_column_stay_mapped(tmp_path: Path, check: Callable[..., None]) -> None:
    """XPT-29: PyIceberg asks for every column of a file, and a copy may begin after the drop."""
    hive(tmp_path / "s")
    table = tablefmt.import_table(tmp_path / "s")
    table.alter.drop_column("v")
    check(table)
    document = json.loads(table.context.store.get(metadata_key(table.version)))
    mapped = {n for entry in json.loads(document["properties"][NAMES]) for n in entry["names"]}
    assert {"id", "region", "v"} <= mapped


def test_names_that_differ_in_case_and_types_that_differ(
    tmp_path: Path, check: Callable[..., None]
) -> None:
    """XPT-29: each file has names, types and columns of its own."""
    ids = pa.array([1, 2], pa.int32())
    write(tmp_path / "s/a.parquet", pa.table({"ID": ids, "x": ["a", "b"]}))
    write(tmp_path / "s/b.parquet", {"id": [1 << 40], "X": ["c"]})
    write(tmp_path / "s/c.parquet", {"Id": [4], "y": [1.5]})
    table = tablefmt.import_table(tmp_path / "s")
    imports = table.context.view.head.metadata.imports
    assert [(each.names, each.lookup) for each in imports.values()] == [
        ({}, "names"),
        ({1: "id", 2: "X"}, "names"),
        ({1: "Id"}, "names"),
    ]
    check(table)


VALUES = {
    "i": (pa.int32(), [1, 2, None]),
    "d": (pa.date32(), [0, -1, None]),
    "t": (pa.string(), ["a b", "ü/=%", None]),
    "b": (pa.bool_(), [True, False, None]),
    "m": (pa.decimal128(6, 2), [Decimal("0.50"), Decimal("12.25"), None]),
    "z": (pa.timestamp("us", "UTC"), [0, 1_700_000_000_123_456, None]),
}
"""Partition values by type that files lack."""


def test_partition_values_of_every_type(tmp_path: Path, check: Callable[..., None]) -> None:
    """XPT-29: readers take a value from the metadata if the file lacks the column."""
    columns = {name: pa.array(held, kind) for name, (kind, held) in VALUES.items()}
    rows = pa.table({"id": pa.array(range(3), pa.int64()), **columns})
    deltalake.write_deltalake(tmp_path / "s", rows, partition_by=list(VALUES))
    table = tablefmt.import_table(tmp_path / "s")
    assert alike(table.to_arrow()) == alike(rows)
    check(table)
    table.delete("i = 1")
    check(table)


def test_an_iceberg_table_with_renames(tmp_path: Path, check: Callable[..., None]) -> None:
    """XPT-29: files have the ids of the table. A partition column in them has one value."""
    rows = pa.table(
        {
            "id": pa.array(range(6), pa.int64()),
            "v": pa.array(range(6), pa.int64()),
            "s": [{"a": [i]} for i in range(6)],
            "p": ["x", "y", None] * 2,
        }
    )
    ice = iceberg_table(tmp_path, rows.slice(0, 0))
    with ice.update_spec() as spec:
        spec.add_identity("p")
    ice.append(rows)
    with ice.update_schema() as change:
        change.rename_column("v", "w")
        change.rename_column(("s", "a"), "b")
    table = tablefmt.import_table(tmp_path / "db" / "t", into=tmp_path / "u")
    (described,) = table.context.view.head.metadata.imports.values()
    assert (described.lookup, described.names) == ("ids", {2: "v", 5: "a"})
    check(table)
    table.alter.add_column("v", "STRING", default="new")
    table.delete("p = 'x' AND id > 2")
    check(table)
    assert set(table.to_arrow()["v"].to_pylist()) == {"new"}


@pytest.mark.parametrize(
    ("held", "where"),
    [
        pytest.param(
            {"id": [1], "k": pa.array([5], pa.int64())}, "k=1/a.parquet", id="another value"
        ),
        pytest.param({"id": pa.array([10**18], pa.timestamp("ns"))}, "a.parquet", id="INT96"),
    ],
)
def test_files_that_readers_would_misread_are_held_by_name(
    held: dict[str, Any], where: str, tmp_path: Path, check: Callable[..., None]
) -> None:
    """XPT-5, XPT-29: no copy begins. After a compaction, it does."""
    write(tmp_path / "s" / where, held, use_deprecated_int96_timestamps=True)
    table = tablefmt.import_table(tmp_path / "s")
    with pytest.raises(UnsupportedFeatureError, match=f"{where} is an imported file"):
        table.export("iceberg")
    table.compact("major")
    check(table)


def test_a_partition_value_that_the_file_has_too(
    tmp_path: Path, check: Callable[..., None]
) -> None:
    """XPT-29: by the footer, the file holds this value alone."""
    write(tmp_path / "s/k=1/a.parquet", {"id": [1, 2], "k": pa.array([1, 1], pa.int64())})
    check(tablefmt.import_table(tmp_path / "s"))


def test_only_allowed_folders_are_named(tmp_path: Path) -> None:
    """IMP-3: a log cannot make an exporter name any folder."""
    hive(tmp_path / "s")
    tablefmt.import_table(tmp_path / "s", into=tmp_path / "t")
    with pytest.raises(UnsupportedFeatureError, match="import_roots"):
        tablefmt.open(tmp_path / "t").export("iceberg")
    allowed = {"import_roots": [str(tmp_path / "s")]}
    table = tablefmt.open(tmp_path / "t", storage_options=allowed)
    assert table.export("iceberg").held is None


def with_default(folder: Path) -> Path:
    """Make an Iceberg table with a column that its file lacks; return its folder."""
    iceberg_table(folder, pa.table({"id": pa.array([1, 2], pa.int64())}))
    newest = max((folder / "db" / "t").glob("metadata/*.metadata.json"))
    document = json.loads(newest.read_text())
    (schema,) = document["schemas"]
    more = {"id": 2, "name": "n", "required": False, "type": "long", "initial-default": 7}
    schema["fields"].append({**more, "write-default": 7})
    document |= {"format-version": 3, "next-row-id": 2, "last-column-id": 2}
    for snapshot in document["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 2}
    newest.write_text(json.dumps(document))
    return folder / "db" / "t"


def test_a_default_of_an_imported_column(tmp_path: Path, check: Callable[..., None]) -> None:
    """XPT-11, XPT-23, SCH-7: a file may lack a column that had a default at the import."""
    here = tablefmt.import_table(with_default(tmp_path / "here"))
    with pytest.raises(UnsupportedFeatureError, match="'n' has a default"):
        here.export("delta")
    there = tablefmt.import_table(with_default(tmp_path / "there"), into=tmp_path / "t")
    assert there.to_arrow().to_pylist() == [{"id": 1, "n": 7}, {"id": 2, "n": 7}]
    check(there)


@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_of_an_import_is_held_by_name(
    shallow: bool, tmp_path: Path, check: Callable[..., None]
) -> None:
    """CLN-3, XPT-29: types of a clone may be wider than at the import."""
    write(tmp_path / "s/k=1/a.parquet", {"id": pa.array([1], pa.int32())})
    table = tablefmt.import_table(tmp_path / "s")
    table.alter.widen_column("id", "BIGINT")
    copy = table.clone(tmp_path / "c", shallow=shallow)
    with pytest.raises(UnsupportedFeatureError, match=r"is an imported file.*is a clone"):
        copy.export("iceberg")
    copy.compact("major")
    check(copy)
