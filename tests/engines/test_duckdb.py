"""DuckDB's own reader over live files gives the rows that we give."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from golden import maker

import tablefmt
import tablefmt.duckdb
from tablefmt import errors
from tablefmt.engines import table_argument
from tests.data.test_known_values import partitioned_by_what_came_later, without_columns
from tests.engines.places import (
    BEYOND_DUCKDB,
    BROKEN,
    EXPECTED,
    GOOD,
    ODD,
    changed_table,
    golden,
    plain,
    shown,
)
from tests.s3server import S3Server


@pytest.fixture
def connection() -> Any:
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'America/New_York'")
        yield opened


def rows_of(relation: Any) -> pa.Table:
    return relation.to_arrow_table() if hasattr(relation, "to_arrow_table") else relation.arrow()


def in_utc(rows: pa.Table) -> pa.Table:
    """Instants as we tell them: DuckDB shows them in the zone of its session."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            rows = rows.set_column(at, field.name, rows.column(at).cast(pa.timestamp("us", "UTC")))
    return rows


def told(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


@pytest.mark.share(6)
@pytest.mark.broken_tables
@pytest.mark.parametrize("name", GOOD)
def test_every_golden_table_has_its_rows(name: str, tmp_path: Path, connection: Any) -> None:
    """DAT-4, DAT-8, DAT-12, DEL-4: the session has another time zone."""
    uri = golden(name, tmp_path)
    if name in BEYOND_DUCKDB:
        with pytest.raises((errors.UnsupportedFeatureError, duckdb.Error, pa.ArrowInvalid)):
            rows_of(tablefmt.duckdb.relation(uri, connection=connection))
        return
    relation = tablefmt.duckdb.relation(uri, connection=connection)
    ours = tablefmt.open(uri).schema
    rows = rows_of(relation)
    assert rows.schema.names == ours.names
    made = maker.plain_rows(in_utc(rows).to_pylist())
    assert sorted(map(told, made)) == sorted(map(told, EXPECTED[name]["rows"]))


@pytest.mark.soak
@pytest.mark.broken_tables
@pytest.mark.parametrize("name", BROKEN)
def test_no_broken_table_is_read(name: str, tmp_path: Path, connection: Any) -> None:
    """The class of the error is the one in the specification."""
    with pytest.raises(errors.TablefmtError) as caught:
        rows_of(tablefmt.duckdb.relation(golden(name, tmp_path), connection=connection))
    assert type(caught.value).__name__ == EXPECTED[name]["error"]


CONDITIONS = [
    ("id > 50", lambda r: r["id"] > 50),
    ([("id", "in", [1, 3, 1001])], lambda r: r["id"] in (1, 3, 1001)),
    ("f > 20 AND id < 200", lambda r: (r["f"] != r["f"] or r["f"] > 20) and r["id"] < 200),
    ("f = 0D", lambda r: r["f"] == 0),
    ("isnan(f)", lambda r: r["f"] != r["f"]),
    ("NOT isnan(f) AND gone IS NULL", lambda r: r["f"] == r["f"] and r["gone"] is None),
    ("gone <=> NULL OR gone = 7 AND id = 4", lambda r: r["gone"] is None or r["id"] == 4),
    (f"`{ODD}2` LIKE 't\\'1_'", lambda r: r[f"{ODD}2"][:3] == "t'1" and len(r[f"{ODD}2"]) == 4),
    ("b < X'0500FF'", lambda r: r["b"] < bytes([5, 0, 255])),
    ("day >= TIMESTAMP_NTZ '1970-03-01 00:00:00'", lambda r: r["day"].timetuple()[1] >= 3),
    ("n = 6BD", lambda r: r["n"] == 6),
    ("id % 2 = 0 AND s.a > 5", lambda r: r["id"] % 2 == 0 and r["s"] and r["s"]["a"] > 5),
    ("FALSE", lambda r: False),
]


@pytest.mark.share(2)
@pytest.mark.parametrize("at", range(len(CONDITIONS)))
def test_conditions_mean_what_they_mean_to_us(at: int, tmp_path: Path, connection: Any) -> None:
    """PRN-2, PRN-16: conditions of the grammar agree on NaN, NULL and deleted rows."""
    table, model = changed_table(str(tmp_path / "t"))
    where, keeps = CONDITIONS[at]
    relation = tablefmt.duckdb.relation(table.uri, connection=connection, where=where)
    assert plain(rows_of(relation)) == shown([row for row in model if keeps(row)])


def test_files_of_several_schemas(tmp_path: Path, connection: Any) -> None:
    """DAT-4, DAT-12, SCH-3, SCH-7, SCH-9: renamed, dropped, added, widened, at any depth."""
    table, model = changed_table(str(tmp_path / ODD))
    relation = tablefmt.duckdb.relation(table.uri, connection=connection)
    assert plain(rows_of(relation)) == shown(model)
    few = tablefmt.duckdb.relation(
        table.uri, connection=connection, columns=["id", f"{ODD}2"], where="gone = 7"
    )
    names = ("id", f"{ODD}2")
    assert plain(rows_of(few)) == shown(
        [{name: row[name] for name in names} for row in model if row["gone"] == 7]
    )
    # DuckDB's own conditions reach the files too.
    over = relation.filter("gone = 7 AND n < 50").aggregate("count(*) AS n, sum(id) AS ids")
    kept = [row["id"] for row in model if row["gone"] == 7 and row["n"] < 50]
    assert over.fetchall() == [(len(kept), sum(kept))]


def test_a_relation_stays_at_its_version(tmp_path: Path, connection: Any) -> None:
    """It stays at its version by number and by time, after any change of the table."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    first = table.append(pa.table({"id": [1, 2, 3]}))
    relation = tablefmt.duckdb.relation(table.uri, connection=connection)
    table.delete("id = 2")
    assert sorted(relation.fetchall()) == [(1,), (2,), (3,)]
    for point in ({"version": 1}, {"timestamp": first.timestamp}):
        then = tablefmt.duckdb.relation(table.uri, connection=connection, **point)
        assert sorted(then.fetchall()) == [(1,), (2,), (3,)]
    now = tablefmt.duckdb.relation(table.uri, connection=connection)
    assert sorted(now.fetchall()) == [(1,), (3,)]
    with pytest.raises(errors.VersionNotFoundError):
        tablefmt.duckdb.relation(table.uri, connection=connection, version=9)


def test_a_view_is_replaced_by_attaching_again(tmp_path: Path, connection: Any) -> None:
    """The new view replaces the old one completely. Names are quoted."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    view = 'a "view"; DROP TABLE x; --'
    quoted = '"a ""view""; DROP TABLE x; --"'
    tablefmt.duckdb.attach(connection, view, table.uri)
    table.delete("id = 3")
    assert sorted(connection.execute(f"FROM {quoted}").fetchall()) == [(1,), (3,)]
    tablefmt.duckdb.attach(connection, view, table.uri)
    assert connection.execute(f"FROM {quoted}").fetchall() == [(1,)]
    kept = "SELECT count(*) FROM duckdb_tables() WHERE temporary"
    assert connection.execute(kept).fetchall() == [(1,)]
    tablefmt.duckdb.attach(connection, view, table.uri, version=1)
    assert sorted(connection.execute(f"FROM {quoted}").fetchall()) == [(1,), (2,), (3,)]
    assert connection.execute(kept).fetchall() == [(0,)]


@pytest.mark.parametrize(("name", "again", "left"), [("a:b", "a", 2), ("a", "A", 1), ("é", "É", 2)])
def test_a_view_leaves_those_of_other_names_alone(
    name: str, again: str, left: int, tmp_path: Path, connection: Any
) -> None:
    """A view replaces the view of its own name, ignoring ASCII case. Others stay."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    for view in (name, again):
        tablefmt.duckdb.attach(connection, view, table.uri)
    for view in (name, again):
        assert sorted(connection.execute(f'FROM "{view}"').fetchall()) == [(1,), (3,)]
    kept = "SELECT count(*) FROM duckdb_tables() WHERE temporary"
    assert connection.execute(kept).fetchall() == [(left,)]


@pytest.mark.parametrize("make", [without_columns, partitioned_by_what_came_later])
def test_partition_values_come_from_the_log_where_files_lack_them(
    make: Any, tmp_path: Path, connection: Any
) -> None:
    """DAT-8: partition values of every type, also in conditions. NULL is no initial value."""
    table, expected = make(str(tmp_path / "t"))
    rows = rows_of(tablefmt.duckdb.relation(table.uri, connection=connection))
    assert plain(in_utc(rows)) == shown(expected)
    for where in ("f > 1", "f IS NULL"):
        few = rows_of(tablefmt.duckdb.relation(table.uri, connection=connection, where=where))
        assert plain(in_utc(few)) == plain(table.to_arrow(where=where))


@pytest.mark.broken_tables
@pytest.mark.parametrize("damage", ["gone", "longer", "shorter", "footer", "other rows", "link"])
def test_damage_of_ends_is_found(damage: str, tmp_path: Path, connection: Any) -> None:
    """DAT-5, ADD-7: before a row is read."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT, s STRING")
    texts = [f"{i * 7919:x}" * 5 for i in range(20_000)]
    table.append(pa.table({"id": range(20_000), "s": texts}))
    (file,) = Path(table.uri).glob("data/**/*.parquet")
    body = file.read_bytes()
    if damage == "gone":
        file.unlink()
    elif damage == "link":
        other = tmp_path / "other.parquet"
        file.rename(other)
        file.symlink_to(other)
    else:
        file.unlink()
        flipped = bytearray(body)
        flipped[-100] ^= 1
        bodies = {"longer": body + b"x", "shorter": body[:-1], "footer": bytes(flipped)}
        if damage == "other rows":
            tablefmt.create(str(tmp_path / "u"), "id BIGINT, s STRING").append(
                pa.table({"id": range(20_001), "s": [*texts, "x"]})
            )
            (less,) = (tmp_path / "u").glob("data/**/*.parquet")
            bodies[damage] = less.read_bytes()
        file.write_bytes(bodies[damage])
    with pytest.raises(errors.CorruptDataError):
        tablefmt.duckdb.relation(table.uri, connection=connection)


def test_columns_called_as_what_duckdb_counts_by(tmp_path: Path, connection: Any) -> None:
    """DEL-4: names that its reader gives to positions, files and paths are columns like others."""
    names = ("file_row_number", "File_Index", "filename", "branch", "bits", "f", "gone")
    ddl = ", ".join(f"{name} BIGINT" for name in names)
    table = tablefmt.create(str(tmp_path / "t"), ddl)
    model = [{name: 10 * i + at for at, name in enumerate(names)} for i in range(20)]
    for half in (model[:10], model[10:]):
        table.append(pa.Table.from_pylist(half, schema=table.schema))
    table.delete("filename IN (2, 112, 192)")
    kept = [row for row in model if row["filename"] not in (2, 112, 192)]
    relation = tablefmt.duckdb.relation(table.uri, connection=connection)
    assert plain(rows_of(relation)) == shown(kept)
    few = tablefmt.duckdb.relation(
        table.uri, connection=connection, columns=["gone"], where="file_index > 100"
    )
    assert sorted(few.fetchall()) == [(row["gone"],) for row in kept if row["File_Index"] > 100]


def test_tables_in_memory(connection: Any) -> None:
    """A store without files is read through itself."""
    table, model = changed_table("memory://engines/duckdb/t")
    relation = tablefmt.duckdb.relation(table.uri, connection=connection)
    assert plain(rows_of(relation)) == shown(model)
    tablefmt.duckdb.attach(connection, "v", table.uri)
    assert plain(rows_of(connection.sql("FROM v"))) == shown(model)


@pytest.mark.slow
def test_tables_on_s3(s3_uri: str, s3_server: S3Server, connection: Any) -> None:
    """It reads ranges of the requested columns. No text of the session shows the credentials."""
    options = s3_server.options
    table = tablefmt.create(s3_uri, "id BIGINT, s STRING", storage_options=options)
    texts = [f"{i * 7919:x}" * 9 for i in range(60_000)]
    table.append(pa.table({"id": range(60_000), "s": texts}))
    table.delete("id = 7")
    tablefmt.duckdb.attach(connection, "v", s3_uri, storage_options=options)
    assert connection.execute("SELECT count(*), sum(id) FROM v").fetchall() == [
        (59_999, sum(range(60_000)) - 7)
    ]
    found = connection.execute("SELECT s FROM v WHERE id = 59999").fetchall()
    assert found == [(texts[59_999],)]
    views = connection.execute("SELECT sql FROM duckdb_views() WHERE temporary").fetchall()
    assert "tablefmt://" in repr(views)
    assert s3_server.secret not in repr(views)
    assert s3_server.key not in repr(views)


def test_what_makes_no_relation(tmp_path: Path, connection: Any) -> None:
    """No column, a condition that Arrow alone knows, names that are not there, no table."""
    import pyarrow.compute as pc

    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT, s STRING")
    table.append(pa.table({"id": [1], "s": ["a"]}))
    with pytest.raises(errors.SchemaMismatchError):
        tablefmt.duckdb.relation(table.uri, connection=connection, columns=[])
    with pytest.raises(errors.SchemaMismatchError):
        tablefmt.duckdb.relation(table.uri, connection=connection, columns=["nope"])
    odd = pc.utf8_length(pc.field("s")) == 1
    with pytest.raises(errors.InvalidPredicateError):
        tablefmt.duckdb.relation(table.uri, connection=connection, where=odd)
    with pytest.raises(errors.TableNotFoundError):
        tablefmt.duckdb.relation(str(tmp_path / "nowhere"), connection=connection)


def test_connections_and_names_of_views_that_are_none(tmp_path: Path, connection: Any) -> None:
    """Refused by name, before anything is read; the module itself is its default connection."""
    uri = str(tmp_path / "t")
    tablefmt.create(uri, {"id": [1]})
    for name in (None, 5, "", "\ud800"):
        with pytest.raises(errors.InvalidArgumentError, match="view name"):
            tablefmt.duckdb.attach(connection, name, uri)  # type: ignore[arg-type]
    for other in (5, "x", object()):
        with pytest.raises(errors.InvalidArgumentError, match="expected a DuckDBPyConnection, got"):
            tablefmt.duckdb.attach(other, "v", uri)
        with pytest.raises(errors.InvalidArgumentError, match="expected a DuckDBPyConnection, got"):
            tablefmt.duckdb.relation(uri, connection=other)
    assert (
        connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []
    )
    assert tablefmt.duckdb.relation(uri, connection=duckdb).fetchall() == [(1,)]
    assert tablefmt.duckdb.relation(uri, connection=connection.cursor()).fetchall() == [(1,)]


def test_a_table_that_is_open_is_taken_at_its_version(tmp_path: Path, connection: Any) -> None:
    """Relations and views; with another version if asked."""
    table = tablefmt.create(str(tmp_path), {"id": [1]})
    later = tablefmt.open(str(tmp_path))
    later.append({"id": [2]})
    assert tablefmt.duckdb.relation(table, connection=connection).fetchall() == [(1,)]
    tablefmt.duckdb.attach(connection, "v", later)
    assert connection.sql("FROM v ORDER BY id").fetchall() == [(1,), (2,)]
    tablefmt.duckdb.attach(connection, "v", later, version=1)
    assert connection.sql("FROM v").fetchall() == [(1,)]
    with pytest.raises(errors.InvalidRangeError, match="storage_options"):
        tablefmt.duckdb.relation(table, connection=connection, storage_options={"key": "x"})
    with pytest.raises(errors.StoreError, match="address"):
        tablefmt.duckdb.relation(7, connection=connection)  # type: ignore[arg-type]


def test_instants_come_as_values_of_python(tmp_path: Path, connection: Any) -> None:
    """DuckDB asks for pytz then: the extra `sql` brings it."""
    when = datetime(2024, 1, 31, 12, tzinfo=timezone.utc)
    table = tablefmt.create(str(tmp_path), {"t": [when]})
    assert tablefmt.duckdb.relation(table, connection=connection).fetchall() == [(when,)]


# --- tables that are kept open -------------------------------------------------------------------


def _ids(uri: Path, **given: Any) -> list[int]:
    return sorted(row[0] for row in tablefmt.duckdb.relation(uri, **given).fetchall())


def test_an_address_is_opened_once_and_read_at_its_newest_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = []
    really = tablefmt.table.open
    monkeypatch.setattr("tablefmt.table.open", lambda *a, **k: opens.append(a) or really(*a, **k))
    table = tablefmt.create(tmp_path / "t", "id BIGINT")
    for number in range(3):
        table.append({"id": [number]})
        assert _ids(tmp_path / "t") == list(range(number + 1))
    assert _ids(tmp_path / "t", version=1) == [0]
    assert len(opens) == 1
    monkeypatch.chdir(tmp_path)
    assert _ids(Path("t")) == [0, 1, 2]
    assert len(opens) == 1


def test_a_table_made_anew_at_an_address_is_opened_anew(tmp_path: Path) -> None:
    """ENT-1: the kept table has the same address, and versions that the new one has too."""
    uri = tmp_path / "t"
    for first in (0, 100):
        table = tablefmt.create(uri, "id BIGINT")
        for number in range(first, first + 3):
            table.append({"id": [number]})
        assert _ids(uri) == [first, first + 1, first + 2]
        shutil.rmtree(uri)
        with pytest.raises(errors.TableNotFoundError):
            _ids(uri)


def test_few_tables_are_kept_open_and_none_that_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        tablefmt.create(tmp_path / name, "id BIGINT").append({"id": [1]})
        assert _ids(tmp_path / name) == [1]
    assert [Path(kept).name for kept in table_argument._kept.tables] == ["b", "c"]
    monkeypatch.setattr(table_argument, "FILES_MAX", 0)
    assert _ids(tmp_path / "c") == [1]
    assert [Path(kept).name for kept in table_argument._kept.tables] == ["b"]
