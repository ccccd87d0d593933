"""Delta and Iceberg on Spark: they read our copies, cannot harm them, and make what we import.

They run on a PySpark that they exist for, in an environment of its own, with jars from Maven.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from checks.old_sparks import environment

import tablefmt
from tablefmt.export.delta_target import DeltaTarget, commit_key
from tablefmt.store.location import open_store
from tests.export.shapes import MAKERS, differ
from tests.imports.sources import contents, hive
from tests.operations.evolving_table import evolving, later
from tests.places import ROOT

PYSPARK = "4.1"
"""Newest version that both exist for."""

PEERS = "io.delta,io.unitycatalog,org.apache.iceberg"
"""Maven groups of their jars."""

pytestmark = pytest.mark.soak

HARM = {
    "VACUUM delta.`{0}` RETAIN 1000 HOURS": "tablefmtManaged",
    "DELETE FROM delta.`{0}` WHERE id = 1": "tablefmtManaged",
    "OPTIMIZE delta.`{0}`": "tablefmtManaged",
    "INSERT INTO delta.`{0}` SELECT * FROM delta.`{0}`": "tablefmtManaged",
    "CALL h.system.expire_snapshots(table => 'made.types', retain_last => 1, "
    "older_than => now())": "GC is disabled",
    "CALL h.system.remove_orphan_files(table => 'made.types')": "GC is disabled",
}
"""Statements that would harm the table, and a part of the error."""


def _changed(table: tablefmt.Table) -> tablefmt.Table:
    """Change a table of imported files in every way that its copies must follow."""
    table.append(table.to_arrow().slice(0, 3))
    table.delete("id % 4 = 0")
    table.alter.rename_column("v", "w")
    table.update({"w": "w + 1"}, "n = 1 AND id < 20")
    table.alter.drop_column("ts")
    table.alter.add_column("ts", "STRING")
    return table


def imported(folder: str) -> tablefmt.Table:
    """Make a table of a hive folder in place."""
    hive(Path(folder))
    return _changed(tablefmt.import_table(folder))


def imported_elsewhere(folder: str) -> tablefmt.Table:
    """Make a table of a hive folder outside of the table. Its copy in Delta holds."""
    hive(Path(f"{folder}-files"))
    return _changed(tablefmt.import_table(f"{folder}-files", into=folder))


def repartitioned(folder: str) -> tablefmt.Table:
    """Change the partitioning several times, with deletes, compaction and RESTORE in between."""
    return later(evolving(open_store(folder)))


TABLES = {
    **MAKERS,
    "repartitioned": repartitioned,
    "imported": imported,
    "imported_elsewhere": imported_elsewhere,
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All tables with both copies, and what the peers answered."""
    folder = tmp_path_factory.mktemp("peers")
    python = environment(ROOT / ".venv" / "sparks", PYSPARK)
    jars = str(folder / "jars")
    maven = ["mvn", "-q", "-f", str(ROOT / "benchmarks" / "peers.xml")]
    copy = [f"-DincludeGroupIds={PEERS}", f"-DoutputDirectory={jars}"]
    subprocess.run([*maven, "dependency:copy-dependencies", *copy], check=True)
    (folder / "sources").mkdir()
    reads, tables = [], {}
    for name, make in TABLES.items():
        table = tables[name] = make(str(folder / "made" / name))
        path = str(folder / "made" / name)
        table.export("delta", start=0)
        for version in range(table.version + 1):
            reads.append({"to": "delta", "path": path, "name": name, "version": version})
        table.export("iceberg", start=0)
        newest = folder / "made" / name / f"metadata/v{table.version + 1}.metadata.json"
        for snapshot in json.loads(newest.read_text())["snapshots"]:
            version = snapshot["snapshot-id"] - 1
            reads.append({"to": "iceberg", "path": path, "name": name, "version": version})
    for number, one in enumerate(reads):
        one["out"] = str(folder / f"{number}.arrow")
    types = folder / "made" / "types"
    before = contents(types)
    asked = {
        "warehouse": str(folder),
        "reads": reads,
        "harm": [sql.format(types) for sql in HARM],
    }
    (folder / "work.json").write_text(json.dumps(asked))
    job = ROOT / "tests" / "export" / "spark_peers_job.py"
    settings = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
    done = subprocess.run(
        [python, str(job), jars, str(folder / "work.json")],
        capture_output=True,
        text=True,
        env=settings,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    return {
        "folder": folder,
        "tables": tables,
        "reads": reads,
        "before": before,
        "errors": answers["reads"],
        "harm": answers["harm"],
    }


def rows_in(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


@pytest.mark.parametrize("to", ["delta", "iceberg"])
@pytest.mark.parametrize("name", list(TABLES))
def test_every_version_has_its_rows(work: Any, name: str, to: str) -> None:
    """XPT-2: Delta 4.4 and Iceberg 1.12."""
    table, seen = work["tables"][name], 0
    for one, error in zip(work["reads"], work["errors"], strict=True):
        if (one["name"], one["to"]) != (name, to):
            continue
        assert error == "", (one["version"], error)
        shown = one["version"]
        if to == "delta":
            mark = DeltaTarget().read_mark(table.context.store.get(commit_key(shown)))
            assert mark is not None
            shown = mark.shown
        wanted = table.to_arrow(version=shown)
        assert differ(rows_in(Path(one["out"])), wanted) == "", one["version"]
        seen += 1
    assert seen


def test_no_program_harms_a_table(work: Any) -> None:
    """XPT-6, XPT-24: each statement is refused, and no object of the table changed."""
    for (sql, why), error in zip(HARM.items(), work["harm"], strict=True):
        assert why in error, (sql, error)
    left = contents(work["folder"] / "made" / "types")
    assert {name: left.get(name) for name in work["before"]} == work["before"]


@pytest.mark.parametrize("name", ["delta", "v2", "v3", "int96"])
def test_what_they_made_becomes_a_table(work: Any, name: str) -> None:
    """IMP-4, IMP-5, DAT-7: vectors, mapped names, widening, positional deletes, INT96."""
    path = work["folder"] / "sources" / name
    wanted, before = rows_in(path.with_name(f"{name}.arrow")), contents(path)
    table = tablefmt.import_table(path)
    assert contents(path) == before
    assert differ(table.to_arrow(), wanted) == ""
    assert table.verify(deep=True).ok
    table.delete("id = 5")
    assert table.count() == wanted.num_rows - wanted["id"].to_pylist().count(5)
    table.compact("major")
    assert differ(table.to_arrow(version=1), wanted) == ""
