"""Parquet folders as tables over the same files (IMP-1 .. IMP-7)."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    CorruptDataError,
    InvalidArgumentError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tablefmt.imports import parquet_source
from tablefmt.imports.parquet_source import folders_above
from tablefmt.model.log_entry import OverflowFile
from tests.imports.sources import alike, contents, hive, write


@pytest.mark.slow
def test_a_hive_folder_is_a_table_before_and_after_every_change(tmp_path: Path) -> None:
    """IMP-1, IMP-4, IMP-5, RET-3: DML, a checkpoint, compaction, restore, vacuum; nothing is
    copied or deleted."""
    rows = hive(tmp_path / "t")
    before = contents(tmp_path / "t")
    table = tablefmt.import_table(tmp_path / "t")
    assert contents(tmp_path / "t") == before
    assert alike(table.to_arrow()) == alike(rows)
    assert table.partition_by == ["region", "n"]
    expected = {row["id"]: row for row in rows.to_pylist()}

    table.delete("id = 11 or region is null")
    table.update({"v": "v + 1"}, "region = 'a b/c=d%2F' and n = 1")
    merge = table.merge(pa.table({"id": [5, 1000]}), "s.id = t.id").when_matched_delete()
    merge.when_not_matched_insert({"id": "s.id"}).execute()
    kept = {i: row for i, row in expected.items() if row["region"] is not None and i not in (5, 11)}
    for row in kept.values():
        if row["region"] == "a b/c=d%2F" and row["n"] == 1 and row["v"] is not None:
            row["v"] += 1
    new = dict.fromkeys(rows.column_names, None) | {"id": 1000}
    expected_now = sorted(map(repr, [{k: r[k] for k in sorted(r)} for r in [*kept.values(), new]]))
    assert alike(table.to_arrow()) == expected_now
    assert table.changes(after_version=0, content="net").to_arrow().num_rows == len(kept) + 1

    table.checkpoint()
    reopened = tablefmt.open(tmp_path / "t")
    assert alike(reopened.to_arrow(version=1)) == alike(rows)
    assert alike(reopened.to_arrow()) == expected_now
    assert reopened.verify(deep=True).ok
    reopened.compact("major")
    assert alike(reopened.to_arrow()) == expected_now
    reopened.restore(version=1)
    assert alike(reopened.to_arrow()) == alike(rows)
    reopened.compact("major")
    later = datetime.now(timezone.utc) + timedelta(days=30)
    assert later > reopened.timestamp
    report = reopened.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    assert report.deleted > 0
    assert contents(tmp_path / "t").items() >= before.items()
    assert alike(reopened.to_arrow()) == alike(rows)


@pytest.mark.slow
def test_conditions_and_columns_are_read_as_of_any_table(tmp_path: Path) -> None:
    """DAT-4, DAT-8: by partition, by bounds, by rows; count, limit, changed columns."""
    rows = hive(tmp_path / "t")
    table = tablefmt.import_table(tmp_path / "t")
    for where in ("n = 1", "region = 'EU'", "region is null", "id < 10 and v > 1", "st.a = 7"):
        plain = tablefmt.create(tmp_path / f"{hash(where)}", rows)
        assert alike(table.to_arrow(where=where)) == alike(plain.to_arrow(where=where)), where
        assert table.scan(where=where).count() == plain.scan(where=where).count(), where
    assert table.scan(where="region = 'EU'").files().num_rows == 3
    table.alter.rename_column("v", "w")
    table.alter.add_column("z", "bigint", default=5)
    got = table.to_arrow(columns=["w", "z", "region"], limit=3)
    assert got.num_rows == 3
    assert set(got["z"].to_pylist()) == {5}


def test_int96_is_an_instant_in_microseconds(tmp_path: Path) -> None:
    """DAT-7: also beyond 2262, where nanoseconds end."""
    far = pa.array([0, 10**16, -(10**15)], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1, 2, 3], "ts": far})
    write(tmp_path / "t" / "a.parquet", rows, use_deprecated_int96_timestamps=True)
    table = tablefmt.import_table(tmp_path / "t")
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert alike(table.to_arrow()) == alike(rows)
    table.delete("id = 2")
    assert alike(table.to_arrow()) == alike(rows.take([0, 2]))


def test_types_become_common_and_names_match_ignoring_case(tmp_path: Path) -> None:
    """IMP-5, SCH-9, IMP-4: the order of the files does not matter."""
    write(tmp_path / "t" / "a.parquet", {"A": pa.array([1], pa.int32()), "s": [{"x": 1}]})
    write(tmp_path / "t" / "b.parquet", {"a": [1.5], "s": [{"y": "q"}], "more": ["m"]})
    write(tmp_path / "t" / "c.parquet", {"a": pa.array([7], pa.int16())})
    table = tablefmt.import_table(tmp_path / "t")
    assert alike(table.to_arrow()) == alike(
        pa.table(
            {
                "A": [1.0, 1.5, 7.0],
                "s": [{"x": 1, "y": None}, {"x": None, "y": "q"}, None],
                "more": [None, "m", None],
            }
        )
    )
    assert table.to_arrow(where="A > 1.2 and A < 2")["more"].to_pylist() == ["m"]
    imports = table.context.view.head.metadata.imports.values()
    assert [(each.names, each.lookup) for each in imports] == [
        ({}, None),
        ({1: "a"}, "names"),
        ({1: "a"}, None),
    ]


def test_the_folder_wins_over_the_column_in_a_file(tmp_path: Path) -> None:
    """IMP-4: NULL and floats too."""
    write(tmp_path / "t" / "p=__HIVE_DEFAULT_PARTITION__" / "a.parquet", {"x": [1], "p": ["old"]})
    write(tmp_path / "t" / "p=b" / "a.parquet", {"x": [2], "p": ["old"]})
    table = tablefmt.import_table(tmp_path / "t")
    expected = alike(pa.table({"x": [1, 2], "p": [None, "b"]}))
    assert alike(table.to_arrow()) == expected
    assert table.scan(where="p = 'old'").count() == 0
    table.compact("major")
    assert alike(table.to_arrow()) == expected


def test_partition_values_that_are_no_dates_are_text(tmp_path: Path) -> None:
    """IMP-5: a column is `date` if all of its values are dates of the calendar."""
    for name, days, kind in (("t", ["2020-02-28", "2020-02-30"], "string"),
                             ("u", ["2020-02-29", "9999-12-31"], "date32[day]")):  # fmt: skip
        for day in days:
            write(tmp_path / name / f"d={day}" / "a.parquet", {"x": [1]})
        found = tablefmt.import_table(tmp_path / name).to_arrow()
        assert str(found["d"].type) == kind
        assert sorted(map(str, found["d"].to_pylist())) == days


def test_a_file_without_page_checksums_has_a_digest(tmp_path: Path) -> None:
    """IMP-6: one flipped bit in a large file is found by a deep verification."""
    big = pa.table({"x": pa.array([i * 2654435761 % 2**40 for i in range(40_000)])})
    write(tmp_path / "t" / "a.parquet", big, compression="none", use_dictionary=False)
    write(tmp_path / "t" / "b.parquet", big, write_page_checksum=True)
    write(tmp_path / "t" / "c.parquet", {"x": [1]})
    table = tablefmt.import_table(tmp_path / "t")
    digests = table.context.view.snapshot().files["digest"].to_pylist()
    assert [digest is not None for digest in digests] == [True, False, False]
    assert table.verify(deep=True).ok
    path = tmp_path / "t" / "a.parquet"
    body = bytearray(path.read_bytes())
    body[100_000] ^= 1
    path.write_bytes(bytes(body))
    assert table.verify().ok
    (finding,) = table.verify(deep=True).findings
    assert finding.object == "a.parquet"
    assert "IMP-6" in finding.problem


@pytest.mark.parametrize("checked", [True, False])
def test_a_first_row_group_without_rows_has_no_pages(tmp_path: Path, checked: bool) -> None:
    """IMP-6: other writers leave such row groups."""
    rows = pa.table({"x": pa.array([i * 2654435761 % 2**40 for i in range(40_000)])})
    (tmp_path / "t").mkdir()
    path = tmp_path / "t" / "a.parquet"
    with pq.ParquetWriter(
        path, rows.schema, write_page_checksum=checked, use_dictionary=False
    ) as writer:
        writer.write_table(rows.slice(0, 0))
        writer.write_table(rows)
    table = tablefmt.import_table(tmp_path / "t")
    assert table.to_arrow().equals(rows)
    assert ("digest" in table.context.view.snapshot().files.column_names) != checked


def test_a_file_that_went_is_named(tmp_path: Path) -> None:
    """DAT-5: somebody vacuumed the source."""
    hive(tmp_path / "t")
    table = tablefmt.import_table(tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "region=EU")
    with pytest.raises(CorruptDataError, match=r"region=EU/n=0/.*missing"):
        table.to_arrow()
    assert table.scan(where="region = 'x\ny'").count() == 12


def test_a_root_elsewhere_needs_the_users_word(tmp_path: Path) -> None:
    """IMP-3: the handle of the import may read it; a log alone may not."""
    rows = hive(tmp_path / "lake" / "t")
    before = contents(tmp_path / "lake")
    table = tablefmt.import_table(tmp_path / "lake" / "t", into=tmp_path / "new")
    assert alike(table.to_arrow()) == alike(rows)
    table.delete("id < 10")
    assert contents(tmp_path / "lake") == before
    with pytest.raises(UnsupportedFeatureError, match="import_roots"):
        tablefmt.open(tmp_path / "new").to_arrow()
    other = {"import_roots": [str(tmp_path / "lak")]}
    with pytest.raises(UnsupportedFeatureError, match="IMP-3"):
        tablefmt.open(tmp_path / "new", storage_options=other).to_arrow()
    options = {"import_roots": f"/nowhere, {tmp_path / 'lake'}"}
    allowed = tablefmt.open(tmp_path / "new", storage_options=options)
    assert alike(allowed.to_arrow(version=1)) == alike(rows)
    assert allowed.to_arrow().num_rows == 50
    assert allowed.verify(deep=True).ok
    allowed.compact("major")
    assert tablefmt.open(tmp_path / "new").to_arrow().num_rows == 50


def test_adopted_files_go_once_no_version_needs_them(tmp_path: Path) -> None:
    """IMP-2, RET-6: and only files that entries named."""
    rows = hive(tmp_path / "t")
    (tmp_path / "t" / "readme.txt.crc").touch()
    (tmp_path / "t" / "readme.txt.crc").unlink()
    table = tablefmt.import_table(tmp_path / "t", adopt=True)
    (tmp_path / "t" / "region=EU" / "late.parquet").write_bytes(b"of somebody else")
    table.compact("major")
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    left = [name for name in contents(tmp_path / "t") if not name.startswith("data/")]
    assert left == ["region=EU/late.parquet"]
    assert alike(table.to_arrow()) == alike(rows)


def test_drop_leaves_the_source(tmp_path: Path) -> None:
    """RET-8, IMP-2: with its data too, unless the files were adopted."""
    hive(tmp_path / "t")
    before = contents(tmp_path / "t")
    tablefmt.import_table(tmp_path / "t")
    tablefmt.drop(tmp_path / "t", delete_data=True)
    assert contents(tmp_path / "t") == before
    hive(tmp_path / "u")
    tablefmt.import_table(tmp_path / "u", adopt=True)
    tablefmt.drop(tmp_path / "u", delete_data=True)
    assert contents(tmp_path / "u") == {}


def test_a_source_that_cannot_be_a_table_is_refused_by_name(tmp_path: Path) -> None:
    """IMP-7: the import refuses it and writes no log."""
    made = tmp_path / "t"
    cases: dict[str, tuple[dict[str, Any], type[Exception]]] = {
        "two values": ({"k=1/k=2/a.parquet": {"x": [1]}}, UnsupportedFeatureError),
        r"the partition columns \['k'\]": (
            {"k=1/a.parquet": {"x": [1]}, "b.parquet": {"x": [1]}},
            UnsupportedFeatureError,
        ),
        "types string and long|types long and string": (
            {"a.parquet": {"x": [1]}, "b.parquet": {"x": ["q"]}},
            SchemaMismatchError,
        ),
        "differ only in case": ({"a.parquet": {"x": [1], "X": [1]}}, SchemaMismatchError),
        "time64": ({"a.parquet": {"x": pa.array([1], pa.time64("us"))}}, UnsupportedFeatureError),
        "fixed_size_binary": (
            {"a.parquet": {"x": pa.array([b"ab"], pa.binary(2))}},
            UnsupportedFeatureError,
        ),
        "nanoseconds": (
            {"a.parquet": {"x": pa.array([1], pa.timestamp("ns"))}},
            UnsupportedFeatureError,
        ),
        "shredded variant": (
            {"a.parquet": {"x": [{"metadata": b"m", "value": b"v", "typed_value": 1}]}},
            UnsupportedFeatureError,
        ),
        "only partition columns": ({"k=1/a.parquet": {"k": [1]}}, SchemaMismatchError),
    }
    for message, (files, error) in cases.items():
        shutil.rmtree(made, ignore_errors=True)
        for name, columns in files.items():
            write(made / name, pa.table(columns))
        with pytest.raises(error, match=message):
            tablefmt.import_table(made)
        assert not (made / "_log").exists(), message


def test_folders_that_spell_one_value_in_several_ways(tmp_path: Path) -> None:
    """IMP-5: `01` is a number as in Spark, and names of folders are percent-decoded."""
    for at, folder in enumerate(("k=1", "k=01", "k=%31", "%6B=1")):
        write(tmp_path / "t" / folder / "a.parquet", {"x": [at]})
    table = tablefmt.import_table(tmp_path / "t")
    assert sorted(table.to_arrow(where="k = 1")["x"].to_pylist()) == [0, 1, 2, 3]
    table.delete("k = 1")
    assert table.count() == 0
    write(tmp_path / "u" / "k=01" / "a.parquet", {"x": [0]})
    write(tmp_path / "u" / "k=x" / "a.parquet", {"x": [1]})
    assert tablefmt.import_table(tmp_path / "u").to_arrow(where="k = '01'")["x"].to_pylist() == [0]
    write(tmp_path / "v" / "k=1" / "K=2" / "a.parquet", {"x": [0]})
    with pytest.raises(SchemaMismatchError, match="'k' and 'K' differ only in case"):
        tablefmt.import_table(tmp_path / "v")


def test_days_of_an_older_calendar_are_refused(tmp_path: Path) -> None:
    """IMP-7, DAT-7: only where a value may be old enough to differ."""

    def made(name: str, rows: pa.Table, key: str, text: str = "", **options: object) -> Path:
        schema = rows.schema.with_metadata({key: text})
        write(tmp_path / name / "a.parquet", rows.cast(schema), **options)
        return tmp_path / name

    old = pa.table({"d": pa.array([-200_000], pa.date32())})
    new = pa.table({"d": pa.array([0, None], pa.date32())})
    times = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))})
    legacy, version = "org.apache.spark.legacyDateTime", "org.apache.spark.version"
    for path in (
        made("a", old, legacy),
        made("b", old, version, "2.4.8"),
        made("c", new, legacy, write_statistics=False),
        made("d", times, "org.apache.spark.legacyINT96", use_deprecated_int96_timestamps=True),
        made("e", times, version, "3.0.1", use_deprecated_int96_timestamps=True),
    ):
        with pytest.raises(UnsupportedFeatureError, match="legacy calendar"):
            tablefmt.import_table(path)
    for path in (
        made("f", new, legacy),
        made("g", old, version, "3.5.0"),
        made("h", times, legacy),
    ):
        assert tablefmt.import_table(path).count() > 0


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    """IMP-7, DAT-5: hidden files are ignored, as by Spark."""
    write(tmp_path / "t" / "a.parquet", {"x": [1]})
    (tmp_path / "t" / "_SUCCESS").touch()
    (tmp_path / "t" / ".a.parquet.crc").write_bytes(b"crc")
    assert tablefmt.import_table(tmp_path / "t").count() == 1
    write(tmp_path / "u" / "a.parquet", {"x": [1]})
    (tmp_path / "u" / "b.csv").write_text("x\n1\n")
    with pytest.raises(CorruptDataError, match=r"b\.csv"):
        tablefmt.import_table(tmp_path / "u")
    with pytest.raises(TableNotFoundError):
        tablefmt.import_table(tmp_path / "empty")
    with pytest.raises(InvalidArgumentError, match="parquet, delta, iceberg"):
        tablefmt.import_table(tmp_path / "u", "orc")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="adopt"):
        tablefmt.import_table(tmp_path / "u", into=tmp_path / "v", adopt=True)
    with pytest.raises(TableExistsError, match="Import to another place"):
        tablefmt.import_table(tmp_path / "t")


def test_a_source_that_changes_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMP-5: the import refuses it and writes no log."""
    write(tmp_path / "t" / "a.parquet", {"x": [1]})
    looked = getattr(parquet_source, "folder_values")  # noqa: B009 - not its public name

    def late(paths: list[str]) -> object:
        write(tmp_path / "t" / "b.parquet", {"x": [2]})
        return looked(paths)

    monkeypatch.setattr(parquet_source, "folder_values", late)
    with pytest.raises(CommitRejectedError, match=r"b\.parquet.* appeared"):
        tablefmt.import_table(tmp_path / "t")
    assert not (tmp_path / "t" / "_log").exists()


@pytest.mark.slow
def test_ten_thousand_values_are_a_small_log(tmp_path: Path) -> None:
    """ADD-6, IMP-5: six bytes a file beyond a header. Four of them are the footer's checksum."""
    for day in range(60):
        for part in range(40):
            write(tmp_path / "t" / f"day={day}" / f"{part}.parquet", {"x": [day * 40 + part]})
    table = tablefmt.import_table(tmp_path / "t")
    assert table.count() == 2400
    # A checkpoint may follow at any time, and is no part of the import.
    log = [path for path in (tmp_path / "t" / "_log").rglob("*") if "checkpoints" not in path.parts]
    size = sum(path.stat().st_size for path in log if path.is_file())
    assert size < 6_000 + 6 * 2400
    assert table.scan().files()["path"].to_pylist()[8:11] == [
        f"day=0/{part}.parquet" for part in (8, 9, 10)
    ]
    table.checkpoint()
    reopened = tablefmt.open(tmp_path / "t")
    assert reopened.to_arrow(where="day = 7 and x = 300").num_rows == 1
    assert reopened.verify().ok


@pytest.mark.slow
def test_columns_of_a_few_hundred_files_are_not_in_the_entry(tmp_path: Path) -> None:
    """ADD-6: by their size, whatever their number; every value comes back, of each type."""
    columns = {
        "ts": pa.array([10**15], pa.timestamp("us", "UTC")),
        "n": pa.array([10**15], pa.timestamp("us")),
        "d": pa.array([17], pa.date32()),
        "dec": pa.array(["1.50"]).cast(pa.decimal128(9, 2)),
        "f": pa.array([1.5], pa.float32()),
        "s": ["text"],
    }
    few = pa.table(columns)
    for part in range(500):
        write(tmp_path / "t" / f"{part}.parquet", few.append_column("x", pa.array([part])))
    table = tablefmt.import_table(tmp_path / "t")
    entry = table.context.view.entries_after(0)[0].entry
    assert isinstance(entry.add, OverflowFile)
    assert (tmp_path / "t" / "_log" / f"{1:020}.json").stat().st_size < 2_000
    assert tablefmt.open(tmp_path / "t").verify(deep=True).ok
    where = "x = 7 and d = date'1970-01-18' and dec = 1.5 and ts > timestamp'2000-01-01 00:00:00Z'"
    found = table.scan(where=where)
    assert found.files().num_rows == 1
    assert alike(found.to_arrow()) == alike(few.append_column("x", pa.array([7])))


BELOW = {
    "tablefmt": "_log/00000000000000000000.json",
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/v1.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
}


@pytest.mark.parametrize(("format", "key"), BELOW.items())
@pytest.mark.parametrize("folder", ["orders", "2024/region=EU/orders"])
def test_a_table_below_the_folder_is_refused_by_name(
    tmp_path: Path, format: str, key: str, folder: str
) -> None:
    """IMP-7: rows that the nested table deleted would come back."""
    source = tmp_path / "t"
    write(source / "a.parquet", pa.table({"id": [1, 2]}))
    write(source / folder / "b.parquet", pa.table({"id": [3]}))
    shows = source / folder / key
    shows.parent.mkdir(parents=True)
    shows.write_bytes(b"x")
    before = contents(source)
    with pytest.raises(UnsupportedFeatureError) as error:
        tablefmt.import_table(source, "parquet")
    assert f"the folder '{folder}' below {source} is a {format} table" in str(error.value)
    assert "Import each table by itself" in str(error.value)
    assert error.value.features == ["import:table"]
    assert contents(source) == before


@pytest.mark.parametrize(("format", "key"), BELOW.items())
def test_a_source_inside_a_table_is_refused_by_name(tmp_path: Path, format: str, key: str) -> None:
    """IMP-7: at any depth, in place and elsewhere, from each format of a source."""
    table, source = tmp_path / "t", tmp_path / "t" / "data" / "region=EU"
    write(source / "a.parquet", {"id": [1]})
    (table / key).parent.mkdir(parents=True)
    (table / key).write_bytes(b"x")
    before = contents(tmp_path)
    for into in (None, tmp_path / "new"):
        with pytest.raises(UnsupportedFeatureError) as error:
            tablefmt.import_table(source, "parquet", into=into)
        assert f"{source} lies in a {format} table at {table}" in str(error.value)
        assert error.value.features == ["import:table"]
    assert contents(tmp_path) == before


def test_deleted_rows_of_a_tables_files_do_not_come_back(tmp_path: Path) -> None:
    """IMP-7: a real table, and one of memory."""
    for uri in (str(tmp_path / "t"), "memory://an-import/t"):
        table = tablefmt.create(uri, pa.table({"id": [1, 2]}))
        table.delete("id = 1")
        with pytest.raises(UnsupportedFeatureError, match=r"lies in a tablefmt table"):
            tablefmt.import_table(f"{uri}/data")


def test_folders_above_an_address() -> None:
    """IMP-7: not the root of a disk, but the bucket."""
    assert folders_above("/a/b/c") == ["/a/b", "/a"]
    assert folders_above("/a") == []
    assert folders_above("s3://bucket/a/b") == ["s3://bucket/a", "s3://bucket"]
    assert folders_above("s3://bucket") == []


def test_rows_deleted_in_a_nested_table_do_not_come_back(tmp_path: Path) -> None:
    """IMP-7: a table with deleted rows, next to the files of the folder, and in a hidden one."""
    source = tmp_path / "t"
    write(source / "a.parquet", pa.table({"id": [1, 2]}))
    hidden = tablefmt.create(source / "_old" / "nested", pa.table({"id": [8, 9]}))
    hidden.delete("id = 8")
    assert tablefmt.open(source / "_old" / "nested").to_arrow()["id"].to_pylist() == [9]
    nested = tablefmt.create(tmp_path / "nested", pa.table({"id": list(range(5))}))
    nested.delete("id > 0")
    shutil.move(tmp_path / "nested", source / "nested")
    with pytest.raises(UnsupportedFeatureError, match="'nested' below"):
        tablefmt.import_table(source)
    shutil.move(source / "nested", tmp_path / "nested")
    assert sorted(tablefmt.import_table(source).to_arrow()["id"].to_pylist()) == [1, 2]


def test_folders_of_partitions_may_begin_with_an_underscore(tmp_path: Path) -> None:
    """IMP-1: Spark reads them. It skips other names that begin so."""
    for folder in ("_year=2020", "_year=2021/.hidden=1", "_tmp", "_year=2022/_x"):
        write(tmp_path / "t" / folder / "a.parquet", pa.table({"id": [len(folder)]}))
    table = tablefmt.import_table(tmp_path / "t")
    assert table.partition_by == ["_year"]
    assert table.to_arrow().to_pylist() == [{"id": 10, "_year": 2020}]
