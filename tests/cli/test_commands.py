"""Every command against real tables: whole answers, compared with what was written."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main as commands
from tests.cli.conftest import SCHEMA, row, run
from tests.operations.evolving_table import evolving
from tests.places import GOLDEN
from tests.tables import memory

Json = dict[str, Any]
ESCAPE = "\x1b[31m/"


def as_json(given: Json) -> Json:
    """Return a row as JSON must show it, without the code under test."""
    return {
        **given,
        "amount": f"{given['amount']:.2f}",
        "day": given["day"].isoformat(),
        "at": f"2024-01-01T00:00:00.{given['at'].microsecond:06}Z",
        "raw": base64.b64encode(given["raw"]).decode(),
        "ratio": "NaN" if given["id"] == 2 else given["ratio"],
    }


def times(table: tablefmt.Table) -> list[str]:
    """Commit timestamps by version, as text."""
    found = table.history().sort_by("version").column("timestamp").to_pylist()
    return [f"{when:%Y-%m-%dT%H:%M:%S.%f}Z" for when in found]


def test_log_prints_every_entry_whole_one_object_a_line(table: tablefmt.Table, uri: str) -> None:
    done = run("log", uri, "--json")
    history = table.history().sort_by("version").to_pylist()
    shown = [
        {
            "version": e["version"],
            "timestamp": e["timestamp"],
            "time_version": e["time_version"],
            "operation": e["operation"],
            "transaction": e["transaction"],
            "user_metadata": e["user_metadata"],
        }
        for e in done.lines
    ]
    expected = [
        {
            "version": h["version"],
            "timestamp": time,
            "time_version": time,
            "operation": h["operation"],
            "transaction": h["transaction"],
            "user_metadata": json.loads(h["userMetadata"] or "{}"),
        }
        for h, time in zip(history, times(table), strict=True)
    ]
    assert (done.code, shown) == (0, expected)
    assert [[f["rows"] for f in e["added"]] for e in done.lines] == [[], [1, 1], [1, 1], [1]]
    partitions = [sorted((f["partition"]["part"] or "") for f in e["added"]) for e in done.lines]
    assert partitions == [[], ["", "a"], sorted(["a", ESCAPE]), ["a"]]
    by_part = {f["partition"]["part"]: f for e in done.lines[1:3] for f in e["added"]}
    assert by_part[ESCAPE]["lower"]["id"] == by_part[ESCAPE]["upper"]["id"] == 4
    removed = {i for e in done.lines for i in e["removed_ids"]}
    in_a = {f["id"] for e in done.lines[:3] for f in e["added"] if f["partition"]["part"] == "a"}
    assert removed == in_a


def test_log_ranges_are_inclusive_by_version_and_by_time(table: tablefmt.Table, uri: str) -> None:
    t = times(table)
    for arguments, expected in (
        ([], [0, 1, 2, 3]),
        (["--since", "1", "--until", "2"], [1, 2]),
        (["--since", t[1], "--until", t[2]], [1, 2]),
        (["--since", "1", "--until", t[1]], [1]),
        (["--since", "2999-01-01"], []),
        (["--until", "1999-01-01"], []),
        (["--limit", "2"], [2, 3]),
        (["--until", "1", "--limit", "1"], [1]),
        (["--limit", "0"], []),
    ):
        done = run("log", uri, "--json", *arguments)
        assert (done.code, [e["version"] for e in done.lines]) == (0, expected), arguments


def test_log_as_text_is_one_line_an_entry(table: tablefmt.Table, uri: str) -> None:
    lines = [line.split() for line in run("log", uri).out.splitlines()]
    t = times(table)
    sizes = {f["version"]: 0 for f in run("files", uri, "--json").document}
    assert lines[0] == [
        "version",
        "timestamp",
        "operation",
        "files",
        "rows",
        "bytes",
        "total",
        "rows",
    ]
    assert [[*line[:2], *line[-5:-2], line[-1]] for line in lines[1:]] == [
        ["0", t[0], "+0", "-0", "+0", "0"],
        ["1", t[1], "+2", "-0", "+2", "2"],
        ["2", t[2], "+2", "-0", "+2", "4"],
        ["3", t[3], "+1", "-2", "+1", "3"],
    ]
    assert sorted(sizes) == [1, 2, 3]


def test_show_is_the_line_of_the_log_with_the_files_removed(
    table: tablefmt.Table, uri: str
) -> None:
    log = run("log", uri, "--json").lines
    for version, when in enumerate(times(table)):
        shown = run("show", uri, str(version), "--json").document
        removed = shown.pop("removed")
        assert shown == log[version]
        assert [f["id"] for f in removed] == shown["removed_ids"]
        assert run("show", uri, when, "--json").document["version"] == version
    assert {f["path"] for f in removed} == {
        f["path"] for e in log[1:3] for f in e["added"] if f["partition"]["part"] == "a"
    }


def test_history_has_deltas_columns_newest_first(table: tablefmt.Table, uri: str) -> None:
    found = run("history", uri, "--json").document
    assert [h["version"] for h in found] == [3, 2, 1, 0]
    assert list(found[0]) == table.history().column_names
    assert [h["timestamp"] for h in found] == times(table)[::-1]
    assert json.loads(found[1]["userMetadata"]) == {"job": 7}
    assert run("history", uri, "--json", "--limit", "1").document == found[:1]


def test_history_as_text_has_the_metrics_that_are_not_zero(table: tablefmt.Table, uri: str) -> None:
    lines = run("history", uri).out.splitlines()
    assert lines[0].split() == [
        "version", "timestamp", "operation", "operationMetrics", "userMetadata"
    ]  # fmt: skip
    for line, commit in zip(lines[1:], run("history", uri, "--json").document, strict=True):
        metrics = commit["operationMetrics"]
        shown = ", ".join(f"{name}={value}" for name, value in metrics.items() if value != "0")
        assert line.split()[0] == str(commit["version"])
        assert f" {shown} " in line
        assert "=0" not in line


def test_describe_at_the_head_and_as_of(table: tablefmt.Table, uri: str) -> None:
    t = times(table)
    sums = {v: run("diff", uri, "0", str(v), "--json").document["to"] for v in (1, 3)}
    for as_of, version, files in (([], 3, 3), (["--as-of", "1"], 1, 2), (["--as-of", t[1]], 1, 2)):
        assert run("describe", uri, "--json", *as_of).document == {
            "format": "tablefmt",
            "id": table.id,
            "location": table.uri,
            "createdAt": t[0],
            "version": version,
            "oldestVersion": 0,
            "lastModified": t[version],
            "timeVersion": t[version],
            "numFiles": files,
            "numRows": table.scan(version=version).count(),
            "sizeInBytes": sums[version]["bytes"],
            "description": None,
            "partitionColumns": ["part"],
            "clusteringColumns": [],
            "properties": {"user.owner": "me"},
            "constraints": {},
            "readerFeatures": [],
            "writerFeatures": [],
            "schema": "`id` BIGINT, `part` STRING, `amount` DECIMAL(10,2), `day` DATE, "
            "`at` TIMESTAMP, `raw` BINARY, `ratio` DOUBLE",
            **({} if as_of else {"maintenance": {}}),
        }


def test_schema_is_sparks_json(table: tablefmt.Table, uri: str) -> None:
    types = ["long", "string", "decimal(10,2)", "date", "timestamp", "binary", "double"]
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in zip(SCHEMA.names, types, strict=True)
    ]
    assert run("schema", uri, "--json").document == {"type": "struct", "fields": fields}
    table.alter.add_column("extra", "INT", default=7)
    fields.append(
        {
            "name": "extra",
            "type": "integer",
            "nullable": True,
            "metadata": {"CURRENT_DEFAULT": "CAST(7 AS INTEGER)"},
        }
    )
    assert run("schema", uri, "--json").document == {"type": "struct", "fields": fields}
    assert run("schema", uri).out.splitlines()[-1].split() == [
        "8", "extra", "integer", "true", "false", "7"
    ]  # fmt: skip


def test_files_are_the_live_ones_of_the_version(table: tablefmt.Table, uri: str) -> None:
    for version in range(4):
        found = run("files", uri, "--json", "--as-of", str(version)).document
        expected = table.scan(version=version).files().to_pylist()
        assert found == expected
    if not uri.startswith("memory"):
        sizes = [(Path(uri) / file["path"]).stat().st_size for file in found]
        assert [file["size"] for file in found] == sizes
    only = run("files", uri, "--json", "--where", "part = 'a'").document
    assert only == [file for file in found if file["partition"] == {"part": "a"}]


REGION, BOTH, DAY = "region", "region, days(ts)", "days(ts)"
OWN = [
    ({"region": "EU"}, REGION),
    ({"region": "US"}, REGION),
    ({"region": None}, REGION),
    ({"region": "EU", "ts_day": "2026-01-01"}, BOTH),
    ({"region": "US", "ts_day": "2026-01-02"}, BOTH),
    ({"ts_day": "2026-01-01"}, DAY),
    ({"ts_day": "2026-01-02"}, DAY),
]


def test_files_have_the_values_of_their_own_partitioning() -> None:
    """EVO-2, HID-1: in each command that lists files, hidden fields too."""
    table = evolving(memory())
    uri = str(table.uri)
    found = run("files", uri, "--json").document
    assert [(f["partition"], f["partitioned_by"]) for f in found] == OWN
    assert '{"region":"EU","ts_day":"2026-01-01"}  region, days(ts)' in run("files", uri).out
    entries = [run("show", uri, str(version), "--json").document for version in (1, 3, 6)]
    assert entries == [
        {**json.loads(line), "removed": []}
        for at, line in enumerate(run("log", uri, "--json").out.splitlines())
        if at in (1, 3, 6)
    ]
    assert [f["partition"] for one in entries for f in one["added"]] == [each for each, _ in OWN]
    changed = run("show", uri, "5", "--json").document["metadata"]
    assert changed["partitionings"] == {
        "0": ["region"],
        "1": ["region", "days(ts)"],
        "2": ["days(ts)"],
    }
    table.alter.rename_column("region", "area")
    table.repartition()
    went = run("diff", uri, "1", str(table.version), "--json").document
    assert [f["partition"] for f in went["files_removed"]] == [
        {"area": "EU"},
        {"area": "US"},
        {"area": None},
    ]
    assert [f["partition"] for f in went["files_added"]] == [
        *({"ts_day": f"2026-01-0{day}"} for day in (1, 2)),
        *({"ts_day": f"2026-01-0{day}"} for day in (1, 2, 3)),
    ]
    removed = run("show", uri, str(table.version - 1), "--json").document["removed"]
    assert [(f["partition"].get("area"), f["partitioned_by"]) for f in removed] == [
        *((region, "area") for region in ("EU", "US", None)),
        *((region, "area, days(ts)") for region in ("EU", "US")),
    ]


def test_partitions_sum_up_their_files(table: tablefmt.Table, uri: str) -> None:
    table.append(table.to_arrow(where="part = 'a'"))
    files = run("files", uri, "--json").document
    expected = [
        {
            "values": {"part": part},
            "files": len(inside),
            "rows": sum(f["rows"] for f in inside),
            "bytes": sum(f["size"] for f in inside),
        }
        for part in (ESCAPE, "a", None)
        for inside in [[f for f in files if f["partition"]["part"] == part]]
    ]
    assert [e["files"] for e in expected] == [1, 2, 1]
    assert run("partitions", uri, "--json").document == expected


def test_changes_are_exact_rows_with_the_range_they_cover(table: tablefmt.Table, uri: str) -> None:
    t = times(table)

    def change(version: int, kind: str, number: int, part: str | None) -> Json:
        marks = {
            "_change_type": kind,
            "_commit_version": version,
            "_commit_timestamp": t[version],
        }
        return {**as_json(row(number, part)), **marks}

    every = [
        change(1, "insert", 1, "a"),
        change(1, "insert", 2, None),
        change(2, "insert", 3, "a"),
        change(2, "insert", 4, ESCAPE),
        change(3, "delete", 1, "a"),
        change(3, "delete", 3, "a"),
        change(3, "insert", 5, "a"),
    ]

    def in_order(found: list[Json]) -> list[Json]:
        return sorted(found, key=lambda c: (c["_commit_version"], c["_change_type"], c["id"]))

    for arguments, first, last in (
        (["--since", "0"], 0, 3),
        (["--after", "1"], 2, 3),
        (["--since", "1", "--until", "2"], 1, 2),
        (["--after", t[1], "--until", t[2]], 2, 2),
        (["--since", t[2], "--until", t[2]], 2, 2),
        (["--after", "3"], 4, 3),
    ):
        found = run("changes", uri, "--json", *arguments).document
        expected = [c for c in every if first <= c["_commit_version"] <= last]
        assert in_order(found.pop("changes")) == expected, arguments
        assert found == {"first_version": first, "last_version": last, "settled": True}


def test_diff_names_files_rows_and_metadata_that_differ(table: tablefmt.Table, uri: str) -> None:
    t = times(table)
    files = {v: {f["id"]: f for f in run("files", uri, "--json", "--as-of", str(v)).document}
             for v in range(4)}  # fmt: skip

    def end(version: int) -> Json:
        live = files[version].values()
        return {
            "version": version,
            "timestamp": t[version],
            "files": len(live),
            "rows": sum(f["rows"] for f in live),
            "bytes": sum(f["size"] for f in live),
        }

    def only(these: int, those: int) -> list[Json]:
        gone = [f for i, f in files[these].items() if i not in files[those]]
        keys = ("id", "path", "size", "rows", "deleted", "partition")
        return [{k: f[k] for k in keys} for f in gone]

    for a, b, names in ((1, 3, ("1", "3")), (3, 0, ("3", t[0])), (2, 2, (t[2], "2"))):
        added, removed = only(b, a), only(a, b)
        assert run("diff", uri, *names, "--json").document == {
            "from": end(a),
            "to": end(b),
            "files_added": added,
            "files_removed": removed,
            "rows_added": sum(f["rows"] for f in added),
            "rows_removed": sum(f["rows"] for f in removed),
            "columns": [],
            "properties": {},
            "partition_by": None,
        }


def test_diff_tells_a_rename_from_a_new_column() -> None:
    """The golden table `metadata` renames column 1, adds column 2 and sets a property."""
    golden = GOLDEN / "metadata" / "table"
    found = run("diff", str(golden), "0", "4", "--json").document
    assert found["columns"] == [
        {
            "id": 1,
            "from": {"name": "x", "type": "long", "nullable": True},
            "to": {"name": "y", "type": "long", "nullable": True},
        },
        {"id": 2, "from": None, "to": {"name": "x", "type": "string", "nullable": True}},
    ]
    assert found["properties"] == {"owner": {"from": None, "to": "me"}}


def test_verify_of_a_sound_table(table: tablefmt.Table, uri: str) -> None:
    for deep in (False, True):
        found = run("verify", uri, "--json", *(["--deep"] if deep else [])).document
        assert found == {
            "uri": table.uri,
            "version": 3,
            "files": 3,
            "deep": deep,
            "findings": [],
            "unnamed": [],
            "newest_readable": 3,
            "first_damaged": None,
            "ok": True,
        }


@pytest.mark.parametrize(
    "arguments",
    [
        ["log"],
        ["show", "3"],
        ["history"],
        ["tags"],
        ["describe"],
        ["schema"],
        ["files"],
        ["partitions"],
        ["changes", "--since", "0"],
        ["diff", "0", "3"],
        ["verify"],
    ],
    ids=lambda a: a[0],
)
def test_text_to_a_pipe_is_whole_and_drives_no_terminal(
    table: tablefmt.Table, uri: str, arguments: list[str]
) -> None:
    """No colour, no control character of the table's, no trailing blanks, nothing cut."""
    done = run(arguments[0], uri, *arguments[1:])
    assert (done.code, done.err) == (0, "")
    assert all(line.isprintable() and line == line.rstrip() for line in done.out.splitlines())
    assert "…" not in done.out
    if arguments[0] in ("files", "show", "diff"):
        path = table.scan(where="part = 'a'").files().column("path")[0].as_py()
        assert path in done.out


@pytest.mark.slow
def test_a_reader_that_closes_early_is_no_error(tmp_path: Path) -> None:
    """The output is far larger than the buffer of the pipe, and its reader has closed it."""
    uri = str(tmp_path / "t")
    made = tablefmt.create(uri, "x BIGINT")
    import pyarrow as pa

    made.append(pa.table({"x": range(50_000)}))
    command = [sys.executable, "-m", "tablefmt", "changes", uri, "--since", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


def test_restore_says_what_it_made(table: tablefmt.Table, uri: str) -> None:
    """RET-1."""
    done = run("restore", uri, "--version", "2", "--json")
    said = done.document
    assert (done.code, said["version"], said["operation"], said["no_op"]) == (
        0,
        4,
        "RESTORE",
        False,
    )
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    done = run("restore", uri, "--as-of", times(table)[1])
    assert done.out.splitlines()[0] == "version    5"
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 2]


def test_vacuum_is_a_dry_run_unless_told(table: tablefmt.Table, uri: str) -> None:
    """RET-5, RET-7: the dry run lists files to remove, the reason, and the versions kept."""
    short = ("--retention", "0 seconds", "--breaks-running-transactions")
    went = table.scan(version=2).files()["path"].to_pylist()
    went = sorted(set(went) - set(table.scan().files()["path"].to_pylist()))
    dry = run("vacuum", uri, *short, "--json").document
    assert (dry["dry_run"], dry["deleted"], dry["oldest"]) == (True, 0, 3)
    assert sorted(file["path"] for file in dry["files"]) == went
    assert {file["removed_version"] for file in dry["files"]} == {3}
    assert table.refresh().version == 3
    assert "nothing was removed: this was a dry run" in run("vacuum", uri, *short).out
    assert "would remove 0 of" in run("vacuum", uri).out
    done = run("vacuum", uri, *short, "--delete")
    assert (done.code, done.out.splitlines()[0].split(": ")[1].split(",")[0]) == (
        0,
        f"removed {len(went)} of {len(went) + 3} files",
    )
    assert run("describe", uri, "--json").document["oldestVersion"] == 3
    assert run("show", uri, "2").code == 0
    assert run("describe", uri, "--as-of", "2").code == 3
    assert run("restore", uri, "--version", "2").code == 3
    assert run("vacuum", uri, "--retention", "0 seconds").code == 2
    assert run("vacuum", uri, "--retention", "soon").code == 2
    assert run("history", uri, "--json").document[0]["operation"] == "VACUUM"


def test_compact_and_cluster_say_what_they_would_do_and_do_it(
    table: tablefmt.Table, uri: str
) -> None:
    """CMP-1 .. CMP-5: the same rows, fewer files; names that hold a comma in backticks."""
    table.append(pa.Table.from_pylist([row(n, "x") for n in range(20, 23)], SCHEMA))
    table.append(pa.Table.from_pylist([row(n, "x") for n in range(30, 33)], SCHEMA))
    before = sorted(table.to_arrow()["id"].to_pylist())
    version = table.refresh().version
    dry = run("compact", uri, "--where", "part = 'x'", "--dry-run", "--json").document
    assert (dry["version"], dry["operation"]) == (version, "COMPACT MINOR")
    ((group),) = dry["groups"]
    assert [f["id"] for f in dry["files"] if f["group"] == 0] == group["files"]
    assert {f["partition"]["part"] for f in dry["files"]} == {"x"}
    assert "files: small" in run("compact", uri, "--where", "part = 'x'", "--dry-run").out
    assert table.refresh().version == version
    done = run("compact", uri, "--where", "part = 'x'", "--json").document
    assert (done["version"], done["no_op"]) == (version + 1, False)
    assert done["metrics"]["numRemovedFiles"] == len(group["files"])
    assert run("compact", uri, "--kind", "minor", "--commit-every", "1").code == 0
    assert "its partition is clustered" in run("cluster", uri, "--by", "id,amount", "--dry-run").out
    done = run("cluster", uri, "--by", "`id`, amount", "--curve", "hilbert", "--json").document
    assert done["operation"] == "CLUSTER"
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == before
    assert run("cluster", uri, "--by", "nope").code == 2
    for wrong in (["--target-file-size", "0"], ["--kind", "x"], ["--commit-every", "0"]):
        assert run("compact", uri, *wrong).code == 2
    assert run("cluster", uri).code == 2
    assert run("compact", uri, "--where", "length(part) = 1").code == 2


def test_repartition_rewrites_older_files() -> None:
    """EVO-5."""
    table = evolving(memory())
    uri, before = str(table.uri), sorted(table.to_arrow()["id"].to_pylist())
    dry = run("repartition", uri, "--dry-run", "--json").document
    assert (dry["version"], dry["operation"]) == (table.version, "REPARTITION")
    done = run("repartition", uri, "--commit-every", "1", "--json").document
    assert (done["no_op"], done["metrics"]["numRemovedFiles"]) == (False, 5)
    assert run("repartition", uri, "--json").document["no_op"]
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == before
    assert {f["partitioned_by"] for f in run("files", uri, "--json").document if
            "partitioned_by" in f} == set()  # fmt: skip
    assert run("repartition", uri, "--commit-every", "0").code == 2


def test_tags_are_listed(table: tablefmt.Table, uri: str) -> None:
    """TAG-1."""
    assert run("tags", uri, "--json").document == []
    table.alter.set_tag("2026-Q3", version=1)
    assert run("tags", uri, "--json").document == [
        {"name": "2026-Q3", "version": 1, "retain_until": None, "can_be_read": True}
    ]


@pytest.mark.parametrize(
    "command",
    [
        ["describe", "T", "--as-of", "V"],
        ["schema", "T", "--as-of", "V"],
        ["files", "T", "--as-of", "V"],
        ["partitions", "T", "--as-of", "V"],
        ["show", "T", "V"],
        ["diff", "T", "0", "V"],
        ["changes", "T", "--after", "0", "--until", "V"],
        ["changes", "T", "--since", "V"],
        ["changes", "T", "--after", "V"],
    ],
    ids=" ".join,
)
def test_a_tag_stands_for_its_version(table: tablefmt.Table, uri: str, command: list[str]) -> None:
    """TAG-1: wherever a command takes a state. A time that is a tag's name is refused."""
    table.alter.set_tag("2026-Q3", version=1)
    table.alter.set_tag("2026-10-01", version=1)

    def asked(point: str) -> list[str]:
        return [{"T": uri, "V": point}.get(word, word) for word in command]

    assert run(*asked("2026-Q3"), "--json").document == run(*asked("1"), "--json").document
    for bad, code in {"2026-Q4": 3, "2026-10-01": 2}.items():
        done = run(*asked(bad))
        assert (done.code, done.out) == (code, "")
        assert bad in done.err


def test_a_restore_takes_a_tag(table: tablefmt.Table, uri: str) -> None:
    """TAG-1."""
    wanted = sorted(map(repr, table.to_arrow(version=1).to_pylist()))
    table.alter.set_tag("2026-Q3", version=1)
    assert run("restore", uri, "--as-of", "2026-Q3").code == 0
    assert sorted(map(repr, table.refresh().to_arrow().to_pylist())) == wanted
    assert run("restore", uri, "--as-of", "none").code == 3


def test_clones_are_made(table: tablefmt.Table, uri: str, tmp_path: Path) -> None:
    """CLN-1 .. CLN-4."""
    table.alter.set_tag("q", version=1)
    files = table.scan(version=1).files()
    wanted = {"version": 0, "files": files.num_rows, "rows": table.scan(version=1).count()}
    wanted["bytes"] = sum(files["size"].to_pylist())
    for name, more in {"one": [], "two": ["--deep"], "three": ["--hold"]}.items():
        place = str(tmp_path / name)
        document = run("clone", uri, place, "--as-of", "q", *more, "--json").document
        assert document == {"uri": place, **wanted}
        options = ["--storage-option", f"import_roots={uri}"]
        assert len(run("files", place, *options, "--json").document) == wanted["files"]
    assert [t["version"] for t in run("tags", uri, "--json").document if t["name"] != "q"] == [1]
    done = run("clone", uri, str(tmp_path / "four"), "--deep")
    assert "copied files" in done.out
    assert run("clone", uri, str(tmp_path / "four")).code == 1
    again = run("clone", uri, str(tmp_path / "four"), "--deep", "--replace", "--json").document
    assert (again["version"], again["rows"]) == (1, table.refresh().count())
    assert run("clone", uri, str(tmp_path / "five"), "--deep", "--hold").code == 2
    assert run("clone", uri, str(tmp_path / "five"), "--as-of", "99").code == 3
    assert run("clone", uri).code == 2
    assert not (tmp_path / "five").exists()


def test_the_list_of_commands_fits_80_columns_without_cuts() -> None:
    """Each command has one whole line in the overview."""
    text = CliRunner().invoke(commands, ["--help"], terminal_width=80).output
    lines = text.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in lines] == sorted(commands.commands)
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []
