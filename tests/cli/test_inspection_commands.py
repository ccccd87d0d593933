"""JSON and text of the commands that explain a table: published schema, widths, hostile names."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.cli.main import main
from tests.cli.conftest import run
from tests.places import ROOT

SCHEMA = json.loads((ROOT / "spec/schemas/inspection.schema.json").read_text("utf-8"))
HOSTILE = "\x1b[31m</td>\u202e"


def fits(document: Any, name: str) -> Any:
    """Validate a document against one definition, and return it."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(schema).validate(document)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tablefmt.Table:
    """Return a table with DML, a rebase, a tag, a checkpoint, given up versions and left-overs."""
    uri = tmp_path_factory.mktemp("inspection") / "t"
    schema = pa.schema([("id", pa.int64()), ("region", pa.string()), (HOSTILE, pa.float64())])
    table = tablefmt.create(uri, schema, partition_by=["region"])
    behind = table.transaction()
    behind.append({"id": [1, 2], "region": ["EU", HOSTILE], HOSTILE: [1.5, float("nan")]})
    table.append({"id": [3], "region": [None]}, user_metadata={"job": HOSTILE})
    behind.commit(application=("app", 1))
    table.delete("id = 2")
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    table.update({"id": "id + 10"}, "id = 3")
    table.compact(kind="major")
    table.alter.set_tag("q1", version=table.version)
    table.overwrite({"id": [9], "region": ["EU"]}, where="region = 'EU'")
    table.checkpoint()
    left = Path(table.uri) / "data" / f"{5:032x}"
    left.mkdir()
    (left / "0-0.parquet").write_bytes(b"left over")
    return table


COMMANDS = [
    ("blame", ["blame", "--where", "id > 0"]),
    ("blame", ["blame", "--where", "id > 0", "--since", "5", "--until", "q1"]),
    ("blame", ["blame", "--partition", "region=EU"]),
    ("blame", ["blame", "--partition", "region=NULL"]),
    ("blame", ["blame", "--file", "1"]),
    ("why_scan", ["why", "--where", "id > 5"]),
    ("why_scan", ["why", "--where", "id > 5", "--version", "q1"]),
    ("why_scan", ["why", "--where", f"`{HOSTILE}` > 1"]),
    ("why_vacuum", ["why", "--vacuum"]),
    ("why_vacuum", ["why", "--file", "1"]),
    ("why_version", ["why", "--version", "1"]),
    ("why_version", ["why", "--version", "99"]),
    ("why_version", ["why", "--as-of", "q1"]),
    ("conflicts", ["conflicts"]),
]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("name", "words"), COMMANDS)
def test_documents_fit_the_schema(
    table: tablefmt.Table, name: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-1: so does the text, in a pipe and on terminals of 80 and 200 columns."""
    command = [words[0], table.uri, *words[1:]]
    document = fits(run(*command, "--json").document, name)
    assert document["uri"] == table.uri
    piped = run(*command)
    assert (piped.code, piped.err) == (0, "")
    assert all(char.isprintable() or char == "\n" for char in piped.out)
    for width in (80, 200):
        lines = on_terminal(command, width, monkeypatch)
        shown = [line for line in lines if not line.startswith((f"{table.uri}:", "  "))]
        records = any(line.startswith("-- row ") for line in lines)
        assert records or name == "why_version" or max(map(len, shown), default=0) <= width


class Terminal(io.StringIO):
    """Text that goes to a person."""

    def isatty(self) -> bool:
        return True


def on_terminal(command: list[str], width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a command on a terminal, and return its lines without styles."""
    screen = Terminal()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setattr(sys, "stdout", screen)
        assert main(command, standalone_mode=False) == 0
    text = re.sub(r"\x1b\[\d*m", "", screen.getvalue())
    assert all(char.isprintable() or char == "\n" for char in text)
    return text.splitlines()


def test_the_documents_are_the_reports(table: tablefmt.Table) -> None:
    found = run("why", table.uri, "--where", "id > 5", "--json").document
    report = table.why(where="id > 5", version=table.refresh().version)
    assert found["files"] == report.files.to_pylist()
    assert (found["files_read"], found["left_out"]) == (report.read, report.left_out)
    blamed = run("blame", table.uri, "--where", "id > 0", "--json").document["commits"]
    report_rows = table.blame(where="id > 0").commits.to_pylist()
    names = ("version", "change", "files", "rows", "rows_max", "paths", "user_metadata")
    assert [[b[n] for n in names] for b in blamed] == [[r[n] for n in names] for r in report_rows]
    assert any(b["rows"] is None for b in blamed), "a vacuumed file cannot be counted"
    kept = run("why", table.uri, "--vacuum", "--json").document
    assert kept["kept"] == table.why(vacuum=True).kept
    assert {"live", "young", "checkpoint"} <= kept["kept"].keys()
    report_path = Path(table.uri).parent / "r.html"
    written = run("report", table.uri, "-o", str(report_path), "--json").document
    assert fits(written, "report")["bytes"] == report_path.stat().st_size


def test_wrong_usage_is_refused(table: tablefmt.Table) -> None:
    for words in (
        ["blame"],
        ["blame", "--file", "1", "--where", "id = 1"],
        ["blame", "--partition", "region"],
        ["blame", "--partition", "=x"],
        ["blame", "--partition", "id=1"],
        ["blame", "--file", "data/none"],
        ["blame", "--where", "nope = 1"],
        ["why"],
        ["why", "--vacuum", "--version", "1"],
        ["why", "--where", "id = 1", "--vacuum"],
        ["why", "--where", "id = 1", "--file", "99"],
        ["why", "--file", "data/none"],
    ):
        done = run(words[0], table.uri, *words[1:])
        assert done.code == 2, (words, done)
        assert done.err.strip().count("\n") <= 3
        assert "Traceback" not in done.err
    assert run("why", table.uri, "--version", "none").code == 3
    assert run("why", table.uri, "--where", "id = 1", "--version", "99").code == 3
