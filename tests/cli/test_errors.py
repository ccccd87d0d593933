"""Bad input: exit codes, one line on stderr, no traceback, no secret."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import OPTIONS, as_options, main
from tests.cli.conftest import run
from tests.places import GOLDEN

APPENDS = str(GOLDEN / "appends" / "table")


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (2, ["log"]),
        (2, ["nosuch", APPENDS]),
        (2, ["log", APPENDS, "--nosuch"]),
        (2, ["log", APPENDS, "--since", "yesterday"]),
        (2, ["log", APPENDS, "--since", "2", "--until", "1"]),
        (2, ["log", APPENDS, "--limit", "-1"]),
        (2, ["log", APPENDS, "--follow", "--until", "1"]),
        (2, ["log", APPENDS, "--follow", "--poll", "0"]),
        (2, ["log", APPENDS, "--follow", "--poll", "nan"]),
        (3, ["log", APPENDS, "--follow", "--since", "3"]),
        (3, ["log", "no/such/table", "--follow"]),
        (2, ["changes", APPENDS, "--after", "0", "--follow", "--until", "1"]),
        (2, ["cluster", APPENDS, "--by", "nope"]),
        (2, ["cluster", APPENDS, "--by", "nope", "--dry-run"]),
        (2, ["cluster", APPENDS, "--by", ""]),
        (2, ["describe", ""]),
        (2, ["verify", ""]),
        (2, ["verify", APPENDS, "--dry-run"]),
        (2, ["verify", APPENDS, "--accept-loss", "data/x"]),
        (2, ["verify", APPENDS, "--repair", "--dry-run", "--accept-loss", "data/x"]),
        (2, ["show", "", "0"]),
        (2, ["describe", "s3://"]),
        (2, ["describe", "memory://"]),
        (2, ["describe", APPENDS, "--storage-option", "a=b"]),
        (2, ["lag", APPENDS, "--storage-option", "a=b"]),
        (2, ["vacuum", APPENDS, "--retention", "0"]),
        (2, ["vacuum", APPENDS, "--retention", "0 seconds"]),
        (2, ["vacuum", APPENDS, "--retention", "nan"]),
        (2, ["vacuum", APPENDS, "--retention", "soon"]),
        (2, ["expire-log", APPENDS, "--retention", "5"]),
        (3, ["describe", str(GOLDEN / "appends" / "expected.json")]),
        (2, ["describe", APPENDS, "--as-of", "-1"]),
        (2, ["changes", APPENDS]),
        (2, ["changes", APPENDS, "--after", "0", "--since", "0"]),
        (2, ["changes", APPENDS, "--since", "2", "--until", "1"]),
        (2, ["files", APPENDS, "--where", "nosuch = 1"]),
        (2, ["files", APPENDS, "--where", "x = = 1"]),
        (2, ["log", "quux://somewhere"]),
        (3, ["log", APPENDS, "--since", "3"]),
        (3, ["log", APPENDS, "--until", "3"]),
        (3, ["show", APPENDS, "3"]),
        (3, ["show", APPENDS, "1999-01-01"]),
        (3, ["describe", APPENDS, "--as-of", "3"]),
        (3, ["describe", APPENDS, "--as-of", "1999-01-01"]),
        (3, ["changes", APPENDS, "--after", "3"]),
        (3, ["diff", APPENDS, "0", "3"]),
        (2, ["restore", APPENDS]),
        (2, ["restore", APPENDS, "--version", "0", "--timestamp", "2024-01-01"]),
        (2, ["restore", APPENDS, "--timestamp", "soon"]),
        (3, ["restore", APPENDS, "--as-of", "soon"]),
        (2, ["restore", APPENDS, "--as-of", "0", "--version", "0"]),
        (3, ["restore", APPENDS, "--as-of", "3"]),
        (3, ["restore", APPENDS, "--version", "3"]),
        (3, ["restore", APPENDS, "--timestamp", "1999-01-01"]),
        *(
            (3, [command, "no/such/table", *more])
            for command, *more in (
                ["log"],
                ["show", "0"],
                ["history"],
                ["describe"],
                ["schema"],
                ["files"],
                ["partitions"],
                ["changes", "--since", "0"],
                ["diff", "0", "1"],
                ["verify"],
                ["restore", "--version", "0"],
                ["vacuum"],
                ["compact"],
                ["cluster", "--by", "id"],
            )
        ),
    ],
    ids=lambda value: " ".join(value).replace(APPENDS, "T") if isinstance(value, list) else None,
)
def test_usage_is_2_and_not_found_is_3(code: int, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1), done.err
    assert done.err.startswith("tablefmt: ")


def test_no_arguments_are_answered_with_help() -> None:
    done = run()
    assert done.code == 2
    assert "Commands:" in done.err + done.out


@pytest.mark.broken_tables
def test_a_damaged_log_is_printed_up_to_the_damage() -> None:
    """ENT-1: the entry of version 1 is flipped."""
    uri = str(GOLDEN / "entry-flipped-middle" / "table")
    done = run("log", uri, "--json")
    assert (done.code, [e["version"] for e in done.lines]) == (1, [0])
    assert "_log/00000000000000000001.json" in done.err
    assert len(done.err.splitlines()) == 1
    assert run("show", uri, "0").code == 0
    assert run("show", uri, "1").code == 1
    assert run("describe", uri).code == 1


@pytest.mark.broken_tables
def test_a_gap_ends_the_dump_and_is_named() -> None:
    """LOG-2."""
    done = run("log", str(GOLDEN / "missing-middle" / "table"), "--json")
    assert (done.code, [e["version"] for e in done.lines]) == (1, [0])
    assert "not version 1" in done.err


@pytest.mark.broken_tables
@pytest.mark.parametrize("damage", ["missing", "short", "flipped"])
def test_verify_names_the_damaged_file(tmp_path: Path, damage: str) -> None:
    """DAT-5: exit code 1, the finding names the object; flipped pages are found with --deep."""
    uri = tmp_path / "t"
    shutil.copytree(APPENDS, uri)
    path = sorted((uri / "data").rglob("*.parquet"))[0]
    body = bytearray(path.read_bytes())
    path.unlink()
    if damage == "short":
        path.write_bytes(body[:-1])
    elif damage == "flipped":
        # The last byte of the first page, which lies before the footer.
        body[len(body) // 8] ^= 1
        path.write_bytes(body)
    done = run("verify", str(uri), "--deep")
    assert (done.code, done.err) == (1, "")
    assert str(path.relative_to(uri)) in done.out


@pytest.mark.broken_tables
def test_verify_reports_a_damaged_log() -> None:
    uri = str(GOLDEN / "entry-flipped-middle" / "table")
    done = run("verify", uri, "--json")
    assert done.code == 1
    (finding,) = json.loads(done.out)["findings"]
    assert (finding["object"], finding["rule"]) == ("_log/00000000000000000001.json", "ENT-1")


def test_a_foreign_exception_is_one_line_unless_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("first\nsecond \x1b[0m hunter22")

    monkeypatch.setattr("tablefmt.cli.command_options.open_store", broken)
    secret = ["--storage-option", "secret=hunter22"]
    done = run("log", "x", *secret)
    assert (done.code, done.out) == (1, "")
    assert done.err == "tablefmt: ZeroDivisionError: first second \\u001b[0m ***\n"
    for arguments in (["--debug", "log", "x"], ["log", "x", "--debug"]):
        assert isinstance(CliRunner().invoke(main, arguments).exception, ZeroDivisionError)


def test_storage_options_nest_and_keep_secrets_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def remember(uri: str, options: Any) -> Any:
        seen.append(options)
        raise tablefmt.errors.TableNotFoundError(uri)

    monkeypatch.setattr("tablefmt.cli.command_options.open_store", remember)
    given = ("key=0123", "secret=a=b", "client_kwargs.region_name=r", "anon=false",
             "config_kwargs.max_pool_connections=50", "client_kwargs.verify=True")  # fmt: skip
    run("log", "x", *(part for text in given for part in ("--storage-option", text)))
    assert seen == [
        {
            "key": "0123",
            "secret": "a=b",
            "client_kwargs": {"region_name": "r", "verify": True},
            "anon": False,
            "config_kwargs": {"max_pool_connections": 50},
        }
    ]


@pytest.mark.parametrize("text", ["hunter22", "=hunter22", "a..b=hunter22", ".=hunter22"])
def test_a_storage_option_that_is_none_is_not_repeated(text: str) -> None:
    done = run("log", "x", "--storage-option", text)
    assert (done.code, done.out) == (2, "")
    assert "hunter22" not in done.err


@pytest.mark.slow
def test_tables_on_s3_are_read_with_storage_options(s3_server: Any, s3_uri: str) -> None:
    table = tablefmt.create(s3_uri, "x BIGINT", storage_options=s3_server.options)
    given = s3_server.arguments
    assert run("describe", s3_uri, "--json", *given).document["id"] == table.id
    wrong = run("log", s3_uri + "-none", *given)
    assert (wrong.code, wrong.out) == (3, "")
    gone = run("log", "s3://no-such-bucket/t", *given)
    assert (gone.code, gone.out, len(gone.err.splitlines())) == (1, "", 1)
    for done in (wrong, gone):
        assert s3_server.secret not in done.err


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["vacuum", APPENDS, "--retention", "0"], "pass --breaks-running-transactions if"),
        (["expire-log", APPENDS, "--retention", "0"], "pass --breaks-running-transactions if"),
        (["compact", APPENDS, "--commit-every", "0"], "at least 1 as --commit-every, got 0"),
        (
            ["compact", APPENDS, "--target-file-size", "0"],
            "at least 1, as --target-file-size, got 0",
        ),
        (
            ["changes", APPENDS, "--after", "0", "--follow", "--until", "1"],
            "cannot be combined with --until",
        ),
        (["describe", "s3://k:s@b/t"], "Pass credentials in --storage-option"),
    ],
)
def test_errors_speak_of_options(arguments: list[str], advice: str) -> None:
    """Errors do not name the Python arguments behind the options."""
    done = run(*arguments)
    assert (done.code, done.out, advice in done.err) == (2, "", True), done.err
    assert "_" not in done.err.replace(APPENDS, "")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass breaks_running_transactions=True if", "pass --breaks-running-transactions if"),
        ("give exactly one of starting_version, after_version, starting_timestamp and "
         "after_timestamp", "give exactly one of --since, --after, --since and --after"),
        ("give ending_version or ending_timestamp, not both", "give --until, not both"),
        ("has no end: leave ending_… out", "has no end: leave --until out"),
        ("no column 'dry_run', nor `dry_run`", "no column 'dry_run', nor `dry_run`"),
        ("my_dry_run and dry_runs", "my_dry_run and dry_runs"),
        ("no table at /x/dry_run/t", "no table at /x/dry_run/t"),
        ("no table at s3://dry_run.x/storage_options", "no table at s3://dry_run.x/storage_options"),
    ],
)  # fmt: skip
def test_what_is_called_otherwise_on_the_command_line(message: str, shown: str) -> None:
    assert as_options(message) == shown


def test_every_option_that_is_spoken_of_is_one() -> None:
    there = {name for c in main.commands.values() for p in c.params for name in p.opts}
    assert set(OPTIONS.values()) <= there


def test_a_number_alone_is_seconds(tmp_path: Path) -> None:
    """RET-4: `vacuum(retention=…)` reads numbers the same way."""
    uri = tmp_path / "t"
    shutil.copytree(APPENDS, uri)
    given = ["--breaks-running-transactions", "--json", "--retention"]
    for text, seconds in (("0", 0), ("1.5", 1.5), ("2 hours", 7200)):
        assert run("vacuum", str(uri), *given, text).document["retention_seconds"] == seconds
        assert run("expire-log", str(uri), *given, text).document["retention_seconds"] == seconds
