"""Iceberg copies in a catalog: PyIceberg's SQL catalog in a file."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main
from tablefmt.errors import ExportBlockedError, InvalidArgumentError, StoreError
from tablefmt.export.table_export import target_of

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
    mark = target_of("iceberg").read_mark((tmp_path / "t" / older).read_bytes())
    assert mark is not None
    address = f"file://{tmp_path}/t/{older}"
    assert register(catalog, "ns.t", address, mark, table.uri) != address
    assert ids(catalog, "ns.t") == [1]


def test_another_table_is_not_replaced(catalog: Any, tmp_path: Path) -> None:
    """XPT-28."""
    catalog.create_namespace("ns")
    catalog.create_table("ns.theirs", pa.schema([("id", pa.int64())]))
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    with pytest.raises(
        ExportBlockedError, match=r"the catalog has another table with the name ns\.theirs"
    ):
        table.export("iceberg", catalog=catalog, table="ns.theirs")
    assert ids(catalog, "ns.theirs") == []
    other = tablefmt.create(str(tmp_path / "u"), "id BIGINT")
    table.export("iceberg", catalog=catalog, table="ns.t")
    with pytest.raises(ExportBlockedError, match=r"another table with the name ns\.t"):
        other.export("iceberg", catalog=catalog, table="ns.t")


def elsewhere(document: dict[str, Any]) -> None:
    document["snapshots"][0]["manifest-list"] = "s3://theirs/metadata/snap-1.avro"


def beside(document: dict[str, Any]) -> None:
    """Name a folder whose address is as long as the right one."""
    place = document["location"][:-1] + "u/metadata/snap-1.avro"
    document["snapshots"][0]["manifest-list"] = place


def above(document: dict[str, Any]) -> None:
    place = f"{document['location']}/metadata/../../u/snap-1.avro"
    document["snapshots"][0]["manifest-list"] = place


def decoded(document: dict[str, Any]) -> None:
    place = f"{document['location']}/metadata/%2e%2e%2f%2e%2e%2fu.avro"
    document["snapshots"][0]["manifest-list"] = place


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "class": (lambda d: d["properties"].update({"py-io-impl": "theirs.IO"}), "'py-io-impl'"),
    "endpoint": (lambda d: d["properties"].update({"s3.endpoint": "http://h"}), r"'s3\.endpoint'"),
    "location": (lambda d: d.update({"location": "s3://theirs"}), "'s3://theirs'"),
    "snapshot": (elsewhere, "'s3://theirs/metadata/snap-1.avro'"),
    "beside": (beside, "u/metadata/snap-1"),
    "above": (above, r"/metadata/\.\./\.\./u/"),
    "decoded": (decoded, "%2e%2e%2f"),
    "shape": (lambda d: d["snapshots"].insert(0, 7), "an unexpected structure"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_metadata_that_readers_would_obey_is_not_registered(
    catalog: Any, tmp_path: Path, kind: str
) -> None:
    """XPT-28: the newest metadata file has a right mark, and somebody changed the rest of it."""
    change, said = HOSTILE[kind]
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    table.append(pa.table({"id": [1]}))
    file = tmp_path / "t" / table.export("iceberg").place
    document = orjson.loads(file.read_bytes())
    change(document)
    file.write_bytes(orjson.dumps(document))
    with pytest.raises(ExportBlockedError, match=said):
        tablefmt.open(table.uri).export("iceberg", catalog=catalog, table="ns.t")
    assert not catalog.table_exists("ns.t")


def test_an_error_of_a_catalog_names_what_is_done(catalog: Any, tmp_path: Path) -> None:
    """XPT-28: errors of many libraries become one, in one line."""

    class Broken:
        def create_namespace(self, name: str) -> None:
            raise RuntimeError("no \x1b[31m answer\nat all")

        register_table = create_namespace

    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    with pytest.raises(StoreError) as caught:
        table.export("iceberg", catalog=Broken(), table="ns.t")
    assert str(caught.value) == (
        f"the copy at file://{table.uri}/metadata/v1.metadata.json is written, but the catalog "
        "could not register it as 'ns.t': RuntimeError: no \\u001b[31m answer\\u000aat all. "
        "Export again to register it."
    )
    table.export("iceberg", catalog=catalog, table="ns.t")
    assert ids(catalog, "ns.t") == []


SECRET = "pass/word"

SAID = [
    f"Could not infer the catalog type from the uri: mysql://me:{SECRET}@host/db",
    f"Max retries exceeded with url: https://h/x?a=1&X-Amz-Security-Token={SECRET}&sig={SECRET}",
    f"two of them: s3://me:{SECRET}@a and jdbc:x://h;Password={SECRET}",
]


@pytest.mark.parametrize("text", SAID)
def test_errors_of_catalogs_show_no_credentials(tmp_path: Path, text: str) -> None:
    """STO-13, XPT-28: neither the message, nor the repr, nor the traceback."""

    class Leaking:
        def create_namespace(self, name: str) -> None:
            raise ValueError(text)

        register_table = create_namespace

    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    with pytest.raises(StoreError) as caught:
        table.export("iceberg", catalog=Leaking(), table="ns.t")
    shown = "".join(traceback.format_exception(caught.value)).partition("StoreError")[2]
    assert SECRET not in repr(caught.value) + str(caught.value) + shown
    assert "ValueError" in str(caught.value)


def test_a_catalog_that_cannot_be_opened_shows_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-13: PyIceberg's own message has the address of its configuration."""
    import pyiceberg.catalog

    def load(name: str) -> None:
        raise ValueError(SAID[0])

    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", load)
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    with pytest.raises(InvalidArgumentError, match=r"mysql://…@host/db") as caught:
        table.export("iceberg", catalog="ours", table="ns.t")
    assert SECRET not in str(caught.value)


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
        table.export(to, **how)  # type: ignore[arg-type]
