"""Features that need a missing extra name the extra to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tablefmt

PROGRAM = '''
import json, sys

lacking, folder = sys.argv[1:]


class Lacking:
    """The first to be asked for a module: it has none of these."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == lacking:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Lacking())

import tablefmt

table = tablefmt.create(f"{folder}/t", "id BIGINT, s STRING")
table.append([{"id": 1, "s": "a"}])
odd = "upper(s) = 'A'"


def merge(on, **values):
    merge = table.merge(table.to_arrow(), on).when_matched_update(values or None)
    merge.execute()


def duckdb_relation():
    import tablefmt.duckdb

    tablefmt.duckdb.relation(table.uri)


def duckdb_attach():
    import tablefmt.duckdb

    tablefmt.duckdb.attach(None, "t", table.uri)


def polars_import():
    import tablefmt.polars


def polars_from():
    from tablefmt.polars import scan


def spark_session():
    import tablefmt.spark

    tablefmt.spark.session()


CASES = {
    "pandas": {
        "table": lambda: table.to_pandas(),
        "scan": lambda: table.scan(where="id = 1").to_pandas(),
        "changes": lambda: table.changes(after_version=0).to_pandas(),
    },
    "polars": {
        "table": lambda: table.to_polars(),
        "scan": lambda: table.scan(where="id = 1").to_polars(),
        "changes": lambda: table.changes(after_version=0).to_polars(),
        "import": polars_import,
        "from": polars_from,
    },
    "duckdb": {
        "relation": duckdb_relation,
        "attach": duckdb_attach,
        "scan": lambda: table.scan(where=odd),
        "to_arrow": lambda: table.to_arrow(where=odd),
        "count": lambda: table.count(where=odd),
        "changes": lambda: table.changes(after_version=0, where=odd).to_arrow(),
        "delete": lambda: table.delete(odd),
        "update": lambda: table.update({"s": "upper(s)"}),
        "update where": lambda: table.update({"s": "'x'"}, odd),
        "overwrite": lambda: table.overwrite([{"id": 1, "s": "a"}], where=odd),
        "merge": lambda: merge("t.id = s.id AND upper(t.s) = 'A'"),
        "merge set": lambda: merge("t.id = s.id", s="upper(s.s)"),
        "constraint": lambda: table.alter.add_constraint("c", odd),
        "transaction": lambda: table.transaction().delete(odd),
    },
    "s3fs": {
        "open": lambda: tablefmt.open("s3://bucket/t"),
        "create": lambda: tablefmt.create("s3://bucket/t", "id INT"),
        "write": lambda: tablefmt.write([{"id": 1}], "s3://bucket/t"),
        "exists": lambda: tablefmt.exists("s3://bucket/t"),
    },
    "pyspark": {"session": spark_session},
}

told = {}
for name, case in CASES[lacking].items():
    try:
        case()
        told[name] = "nothing"
    except tablefmt.errors.UnsupportedFeatureError as error:
        told[name] = str(error)
    except Exception as error:
        told[name] = repr(error)
# All else works.
rows = table.to_arrow(where=[("id", ">", 0)]).to_pylist()
print(json.dumps([told, table.version, rows]))
'''

EXTRAS = {"pandas": "pandas", "polars": "polars", "duckdb": "sql", "s3fs": "s3", "pyspark": "spark"}


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("lacking", EXTRAS)
def test_what_is_missing_is_named_with_its_extra(lacking: str, tmp_path: Path) -> None:
    """The error comes before any write, and all else works."""
    command = [sys.executable, "-c", PROGRAM, lacking, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    told, version, rows = json.loads(run.stdout)
    install = f"pip install 'tablefmt[{EXTRAS[lacking]}]'"
    assert told
    assert {name: text for name, text in told.items() if install not in text} == {}
    assert (version, rows) == (1, [{"id": 1, "s": "a"}])


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("lacking", "arguments"),
    [
        ("s3fs", ["log", "s3://bucket/t"]),
        ("duckdb", ["files", "{}/t", "--where", "upper(s) = ''"]),
    ],
)
def test_the_command_line_names_it_too(lacking: str, arguments: list[str], tmp_path: Path) -> None:
    """One line, no traceback."""
    tablefmt.create(tmp_path / "t", "id BIGINT, s STRING")
    told = ["tablefmt", *(argument.format(tmp_path) for argument in arguments)]
    program = (
        f"import sys; sys.modules[{lacking!r}] = None; sys.argv = {told!r}; "
        "from tablefmt.cli.main import main; main()"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert f"pip install 'tablefmt[{EXTRAS[lacking]}]'" in run.stderr
    assert run.stderr.count("\n") == 1
