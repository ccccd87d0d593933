"""Iceberg copies in a catalog: PyIceberg's SQL catalog in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main
from tablefmt.errors import ExportBlockedError, InvalidArgumentError

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A catalog that PyIceberg's configuration names `ours`."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    place = {"URI": f"sqlite:///{tmp_path}/catalog.db", "WAREHOUSE": f"file://{tmp_path}/w"}
    for name, value in {"TYPE": "sql", **place}.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__OURS__{name}", value)
    # PyIceberg read the environment when it was imported.
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    return load_catalog("ours")


def ids(catalog: Any, name: str, **how: Any) -> list[int]:
    return sorted(catalog.load_table(name).scan(**how).to_arrow()["id"].to_pylist())


def test_a_copy_is_registered_and_brought_up_to_date(catalog: Any, tmp_path: Path) -> None:
    """XPT-28: by the catalog, by its name, and by the command."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT")
    table.append(pa.table({"id": [1, 2]}))
    report = table.export("iceberg", catalog=catalog, table="ns.t")
    assert (report.registered, ids(catalog, "ns.t")) == ("ns.t", [1, 2])
    table.append(pa.table({"id": [3]}))
    assert ids(catalog, "ns.t") == [1, 2]
    table.export("iceberg", catalog="ours", table="ns.t")
    assert ids(catalog, "ns.t") == [1, 2, 3]
    table.delete("id = 1")
    command = ["export", uri, "--to", "iceberg", "--catalog", "ours", "--table", "ns.t"]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, "in the catalog as ns.t" in done.output) == (0, True), done.output
    assert ids(catalog, "ns.t") == [2, 3]
    assert ids(catalog, "ns.t", snapshot_id=3) == [1, 2, 3]
    assert table.export("iceberg", catalog=catalog, table="ns.t").written == 0
    assert ids(catalog, "ns.t") == [2, 3]


def test_a_newer_copy_stays_registered(catalog: Any, tmp_path: Path) -> None:
    """XPT-28: a slow exporter does not take the catalog back."""
    from tablefmt.export.iceberg_catalog import register

    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    older = table.export("iceberg", catalog=catalog, table="ns.t").place
    table.append(pa.table({"id": [1]}))
    table.export("iceberg", catalog=catalog, table="ns.t")
    body = (tmp_path / "t" / older).read_bytes()
    address = f"file://{tmp_path}/t/{older}"
    assert register(catalog, "ns.t", address, body, table.uri) != address
    assert ids(catalog, "ns.t") == [1]


def test_another_table_is_not_replaced(catalog: Any, tmp_path: Path) -> None:
    """XPT-28."""
    catalog.create_namespace("ns")
    catalog.create_table("ns.theirs", pa.schema([("id", pa.int64())]))
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    with pytest.raises(ExportBlockedError, match=r"ns\.theirs is another table in the catalog"):
        table.export("iceberg", catalog=catalog, table="ns.theirs")
    assert ids(catalog, "ns.theirs") == []
    other = tablefmt.create(str(tmp_path / "u"), "id BIGINT")
    table.export("iceberg", catalog=catalog, table="ns.t")
    with pytest.raises(ExportBlockedError, match=r"ns\.t is another table"):
        other.export("iceberg", catalog=catalog, table="ns.t")


@pytest.mark.parametrize(
    ("to", "how", "why"),
    [
        ("delta", {"catalog": "ours", "table": "ns.t"}, "export to iceberg"),
        ("iceberg", {"catalog": "ours"}, "pass both"),
        ("iceberg", {"table": "ns.t"}, "pass both"),
        ("iceberg", {"catalog": 5, "table": "ns.t"}, "expected the name of a catalog"),
        ("iceberg", {"catalog": "unknown", "table": "ns.t"}, "cannot open the catalog"),
        ("iceberg", {"catalog": "ours", "table": "t"}, "expected a namespace and a name"),
    ],
)
def test_arguments_that_make_no_sense(
    catalog: Any, tmp_path: Path, to: str, how: dict[str, Any], why: str
) -> None:
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    with pytest.raises(InvalidArgumentError, match=why):
        table.export(to, **how)
