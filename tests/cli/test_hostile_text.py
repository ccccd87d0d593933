"""Text of a log that would drive a terminal, hide text, or begin a line of its own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt import errors
from tablefmt.cli import output
from tablefmt.cli.main import main
from tablefmt.cli.output import json_text
from tablefmt.errors import CorruptTableError
from tablefmt.log.codec import decode, encode
from tablefmt.model.log_entry import DerivedFrom
from tablefmt.printable import printable, printable_json, printable_lines
from tests.places import ROOT

C0 = [chr(code) for code in range(0x20) if code]
C1 = [chr(code) for code in range(0x80, 0xA0)]
BIDI = [*"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"]
LINES = ["\u2028", "\u2029"]
DRIVING = [*C0, "\x7f", *C1, *BIDI, *LINES, "\ufeff", "\U000e0041"]
TEXT = "a" + "".join(DRIVING) + "\nINJECTED"
"""Raw output of this text has a line that begins with INJECTED."""


def driving(text: str) -> list[str]:
    """Characters of a printed text that do not print, but for the ends of lines."""
    return sorted({c for c in text if c != "\n" and not c.isprintable()})


def injected(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("INJECTED")]


NEWEST = 6


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table in which every text that a log may hold is TEXT."""
    place = tmp_path_factory.mktemp("hostile") / "t"
    columns = pa.schema([("id", pa.int64()), ("p", pa.string()), (TEXT, pa.string())])
    table = tablefmt.create(place, columns, partition_by=["p"])
    table.append({"id": [1], "p": [TEXT], TEXT: [TEXT]}, user_metadata={TEXT: TEXT})
    table.append({"id": [2], "p": ["b"]})
    table.delete("id = 2")
    table.alter.add_constraint(TEXT, "id > 0")
    table.alter.set_comment(TEXT)
    version = table.append({"id": [3], "p": [TEXT]}).version
    assert version == NEWEST
    path = place / "_log" / f"{version:020d}.json"
    entry = decode(path.read_bytes(), version).entry
    derived = DerivedFrom("0" * 32, TEXT, None, 5, "0" * 64, TEXT)
    operation = replace(entry.operation, name="WRITE", parameters={TEXT: TEXT})
    path.write_bytes(
        encode(
            replace(
                entry,
                operation=operation,
                derived_from=derived,
                user_metadata={TEXT: [TEXT, {TEXT: TEXT}]},
            )
        )
    )
    return str(place)


COMMANDS = [
    ("log",),
    ("show", "1"),
    ("show", "4"),
    ("show", str(NEWEST)),
    ("history",),
    ("describe",),
    ("schema",),
    ("files",),
    ("partitions",),
    ("changes", "--after", "0"),
    ("diff", "0", str(NEWEST)),
    ("verify",),
    ("lag",),
    ("compact", "--dry-run"),
    ("vacuum",),
    ("maintain", "--dry-run"),
]


@pytest.mark.broken_tables
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_command_prints_what_drives_a_terminal(
    uri: str, command: tuple[str, ...], as_json: bool
) -> None:
    """SEC-1: every line of the output is the command's own."""
    arguments = [command[0], uri, *command[1:], *(["--json"] if as_json else [])]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (0, 1), result.output
    assert "a" in result.output
    assert driving(result.output) == []
    assert injected(result.output) == []
    if as_json:
        lines = result.output.splitlines() if command[0] == "log" else [result.output]
        assert all(json.loads(line) is not None for line in lines)


MAKING = [
    ("import",),
    ("checkpoint",),
    ("cluster", "--by", "id"),
    ("restore", "0"),
    ("tags",),
    ("export", "--to", "delta"),
    ("export", "--to", "delta", "--check"),
    ("export", "--to", "iceberg"),
    ("vacuum", "--delete"),
    ("expire-log",),
    ("describe",),
    ("import", "--adopt"),
    ("show", TEXT),
    ("export", "--to", TEXT),
    ("restore", TEXT),
    ("files", "--where", TEXT),
    ("changes", "--after", TEXT),
    (TEXT,),
]
"""Commands in order, in a folder whose name is TEXT."""


def test_an_address_and_an_argument_start_no_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-1: the output and errors of commands, and lines of the log, at every level."""
    place = tmp_path / TEXT[:100] / "t\nINJECTED"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1], TEXT: [2]}), place / "a.parquet")
    caplog.set_level(logging.DEBUG, "tablefmt")
    for command, *rest in MAKING:
        for more in ([], ["--json"]):
            result = CliRunner().invoke(main, [command, str(place), *rest, *more])
            assert result.exception is None or isinstance(result.exception, SystemExit)
            assert driving(result.output) == [], command
            assert injected(result.output) == [], command
    messages = [record.getMessage() for record in caplog.records if record.name[:8] == "tablefmt"]
    assert messages
    assert [text for text in messages if driving(text) or "\n" in text] == []


@pytest.mark.broken_tables
def test_json_holds_the_text_as_it_is(uri: str) -> None:
    """SEC-1: the output uses the escapes of JSON, so a parser returns the text unchanged."""
    output = CliRunner().invoke(main, ["show", uri, str(NEWEST), "--json"]).output
    record = json.loads(output)
    assert record["user_metadata"] == {TEXT: [TEXT, {TEXT: TEXT}]}
    assert (record["derived_from"]["location"], record["derived_from"]["name"]) == (TEXT, TEXT)
    assert record["parameters"] == {TEXT: TEXT}
    assert record["added"][0]["partition"] == {"p": TEXT}


@pytest.mark.slow
@pytest.mark.broken_tables
def test_the_second_reader_prints_none_either(uri: str) -> None:
    """SEC-1: tools/logdump.py, as text and as JSON."""
    for more in ([], ["--json"]):
        program = [sys.executable, str(ROOT / "tools" / "logdump.py"), uri, *more]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert driving(done.stdout) == []
        assert injected(done.stdout) == []
        if more:
            entry = json.loads(done.stdout)["entries"][NEWEST]["entry"]
            assert entry["user_metadata"] == {TEXT: [TEXT, {TEXT: TEXT}]}


def test_errors_print_in_one_line() -> None:
    """SEC-1: the printed error is one line. The attributes of the error keep the text unchanged."""
    built: list[errors.TablefmtError] = [
        errors.TableNotFoundError(TEXT),
        errors.CorruptEntryError(TEXT, key=TEXT, rule="ENT-1"),
        errors.SchemaMismatchError(TEXT, [TEXT]),
        errors.InvalidRangeError(TEXT),
        errors.ConcurrentAppendException(
            TEXT, winner_version=1, winner_operation=TEXT, rule="CFL-1", evidence={"files": [TEXT]}
        ),
    ]
    for error in built:
        assert driving(str(error)) == []
        assert "\n" not in str(error)
        assert TEXT in error.args[0]
    story = built[-1]
    assert isinstance(story, errors.ConcurrentModificationException)
    assert driving(story.explain()) == []
    assert injected(story.explain()) == []


def test_reports_have_no_lines_but_their_own(uri: str) -> None:
    """SEC-1: `print` of a handle, a report and a plan adds no line."""
    table = tablefmt.open(uri)
    shown: list[Any] = [table, table.lag(), table.compact(dry_run=True), table.vacuum()]
    for one in shown:
        assert driving(str(one) + repr(one)) == []
        assert injected(str(one)) == []
    assert len(str(table.lag()).splitlines()) == 2


@pytest.mark.parametrize("character", DRIVING, ids=lambda c: f"U+{ord(c):04X}")
def test_a_character_becomes_its_escape(character: str) -> None:
    """SEC-1: JSON's, in two halves beyond U+FFFF; ends of lines only between lines."""
    shown = printable(f"a{character}b")
    assert shown.isascii()
    assert json.loads(f'"{shown}"') == f"a{character}b"
    assert printable_lines(["x", character]) == f"x\n{shown[1:-1]}"
    text = json.dumps({character: [character]}, ensure_ascii=False, indent=2)
    assert json.loads(printable_json(text)) == {character: [character]}
    assert driving(printable_json(text)) == []
    for indent in (False, True):
        text = json_text({f"a{character}": [character, "é"]}, indent=indent)
        assert json.loads(text) == {f"a{character}": [character, "é"]}
        assert driving(text) == []


@pytest.mark.parametrize("at_once", [1, 30, 10_000])
def test_lines_before_an_error_are_printed(
    at_once: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEC-1: however many lines go out together, each is printed once and in order."""
    monkeypatch.setattr(output, "CHARACTERS_AT_ONCE", at_once)

    def values() -> Iterator[Any]:
        yield from ({"n": number} for number in range(20))
        raise CorruptTableError("damage", key="k")

    with pytest.raises(CorruptTableError):
        output.print_lines(values())
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [{"n": number} for number in range(20)]
    output.print_lines([])
    assert capsys.readouterr().out == ""


def test_text_that_prints_stays() -> None:
    """SEC-1: letters of any script, and what JSON calls an escape already."""
    for text in ("", "plain", "naïve Ünïcödé 日本 😀 עברית", 'a "quoted" \\n', "a b  c"):
        assert printable(text) == text
