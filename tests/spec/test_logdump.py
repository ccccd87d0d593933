"""The second reader: what it prints, its exit codes, and that damage never throws it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fsspec
import hypothesis.strategies as st
import logdump
import pytest
from hypothesis import given
from logdump import folder as folder_of
from logdump import schemas
from logdump.rules import parse
from logdump.text import compact, entry_lines

import tablefmt
from tablefmt.errors import StoreError
from tests.places import GOLDEN, ROOT
from tests.scheduling import examples
from tests.spec.spoiled import spoil

TOOL = ROOT / "tools" / "logdump"
pytestmark = pytest.mark.broken_tables


def run(*arguments: str, tool: Path = TOOL) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, str(tool), *arguments], capture_output=True, text=True, encoding="utf-8"
    )
    return done.returncode, done.stdout, done.stderr


def golden(case: str) -> str:
    return str(GOLDEN / case / "table")


def test_it_imports_nothing_of_the_package() -> None:
    """An oracle that shares code with what it judges shares its errors."""
    paths = [path for top in ("logdump", "golden") for path in (ROOT / "tools" / top).rglob("*.py")]
    assert len(paths) > 25
    wrong = [
        path
        for path in (*paths, ROOT / "tools" / "logdump.py")
        if re.search(r"^\s*(?:from|import)\s+tablefmt", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert wrong == []


def test_it_runs_where_there_is_no_package(tmp_path: Path) -> None:
    """Its imports do not import the package either."""
    for folder in ("logdump", "golden"):
        shutil.copytree(ROOT / "tools" / folder, tmp_path / "tools" / folder)
    (tmp_path / "tablefmt.py").write_text('raise SystemExit("the package was imported")')
    code = "import golden.tables, golden.vectors, logdump, sys; sys.exit(logdump.main())"
    done = subprocess.run(
        [sys.executable, "-c", code, golden("appends")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, tmp_path / "tools")))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_commands_are_one() -> None:
    """`python tools/logdump` and `python tools/logdump.py`, which the public contract names."""
    one = run(golden("appends"), "--json")
    assert one == run(golden("appends"), "--json", tool=ROOT / "tools" / "logdump.py")
    assert (one[0], one[2]) == (0, "")


@pytest.mark.slow
def test_golden_tables_are_made_by_one_command(tmp_path: Path) -> None:
    """`python tools/golden` makes what spec/golden and spec/vectors have."""
    command = [sys.executable, str(ROOT / "tools" / "golden"), "--spec", str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    folders = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
    assert sorted(made.stdout.split()) == folders
    for name in ("golden/README.md", "vectors/entry-text.json"):
        assert (tmp_path / name).read_bytes() == (ROOT / "spec" / name).read_bytes()


@pytest.mark.slow
def test_exit_codes(tmp_path: Path) -> None:
    """0 sound, 1 findings, 2 usage, 3 nothing there; one line on stderr and no traceback."""
    assert run(golden("appends"))[0] == 0
    assert run(golden("missing-middle"))[0] == 1
    assert run()[0] == 2
    for arguments, code in (
        ([golden("appends"), "--as-of", "yesterday"], 2),
        ([golden("appends"), "--storage-option", "novalue"], 2),
        (["quux://nowhere"], 2),
        ([str(tmp_path)], 3),
        ([str(tmp_path / "missing")], 3),
        ([str(TOOL)], 3),
        ([golden("appends"), "--as-of", "3"], 3),
        ([golden("appends"), "--as-of", "2023-12-31T23:59:59"], 3),
    ):
        found, out, err = run(*arguments)
        assert (found, out, len(err.splitlines())) == (code, "", 1), arguments


def test_the_text_shows_every_entry_the_state_and_the_findings() -> None:
    code, out, _ = run(golden("entry-flipped-middle"))
    heads = re.findall(r"^version (\d+)  (\S+)", out, re.MULTILINE)
    assert code == 1
    assert heads == [(str(n), f"2024-01-01T{n:02}:00:00.000000Z") for n in range(3)]
    assert re.findall(r"^state at version (\d+)", out, re.MULTILINE) == ["0"]
    assert re.findall(r"^problem: version (\d).*\((\S+)\)$", out, re.MULTILINE) == [
        ("1", "ENT-1"),
        ("2", "LOG-1"),
    ]


def test_json_is_the_document_of_read() -> None:
    code, out, _ = run(golden("partitions"), "--json", "--files")
    assert code == 0
    assert json.loads(out) == logdump.read(golden("partitions"), files=True)


@pytest.mark.parametrize(
    ("as_of", "version"),
    [
        ("1", 1),
        ("2024-01-01", 0),
        ("2024-01-01T00:59:59.999999Z", 0),
        ("2024-01-01 01:00:00", 1),
        ("2024-01-01T02:00:00+01:00", 1),
        ("2999-01-01", 2),
    ],
)
def test_as_of_picks_the_state(as_of: str, version: int) -> None:
    """TIM-4: a version is exact; a time shows the largest version not after it; no zone is UTC."""
    assert logdump.read(golden("appends"), as_of=as_of)["state"]["version"] == version


@pytest.mark.parametrize("damage", ["missing", "short", "not-parquet"])
def test_damaged_data_files_are_found_when_asked_for(tmp_path: Path, damage: str) -> None:
    """ADD-5: a file that an entry names exists, with the size and rows of the entry."""
    shutil.copytree(golden("appends"), tmp_path / "t")
    path = next((tmp_path / "t" / "data").rglob("*.parquet"))
    raw = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(raw[:-1] if damage == "short" else b"x" * len(raw))
    assert logdump.read(str(tmp_path / "t"))["findings"] == []
    findings = logdump.read(str(tmp_path / "t"), files=True)["findings"]
    assert [finding["rule"] for finding in findings] == ["ADD-5"]


def test_tables_in_memory_are_read(tmp_path: Path) -> None:
    """Any store that fsspec knows will do; the document is the same but for the address."""
    store = fsspec.filesystem("memory")
    store.put(golden("side-file") + "/", "/logdump-test/t/", recursive=True)
    document = logdump.read("memory://logdump-test/t", files=True)
    assert {**document, "uri": None} == {**logdump.read(golden("side-file")), "uri": None}
    store.rm("/logdump-test", recursive=True)


@pytest.mark.slow
@examples(150)
@given(data=st.data())
def test_no_content_of_an_entry_throws_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any value in any place of a sealed entry gives a document, never a traceback."""
    folder = tmp_path_factory.mktemp("table")
    version = spoil(data, folder)
    document = logdump.read(str(folder))
    reached = document["state"]["version"] if document["state"] else -1
    assert reached == version or document["findings"] != []
    compact(document)
    assert [line for item in document["entries"] for line in entry_lines(item)]


@examples(100)
@given(data=st.data())
def test_no_prefix_and_no_flipped_bit_passes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """ENT-1: bytes that are not those that were written are found and end the state."""
    folder = tmp_path_factory.mktemp("table")
    shutil.copytree(GOLDEN / "appends" / "table" / "_log", folder / "_log")
    last = sorted((folder / "_log").glob("*.json"))[-1]
    raw = bytearray(last.read_bytes())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    last.write_bytes(raw)
    document = logdump.read(str(folder))
    assert {(f["version"], f["rule"]) for f in document["findings"]} == {(2, "ENT-1")}
    assert document["state"]["version"] == 1


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["link", "broken link", "folder", "pipe"])
def test_an_entry_that_is_no_regular_file_ends_the_state(
    tmp_path: Path, version: int, kind: str
) -> None:
    """STO-8: neither reader follows a link, hangs, or shows an older version instead."""
    root = tmp_path / "t"
    shutil.copytree(golden("appends"), root)
    path = root / "_log" / f"{version:020d}.json"
    if path.exists():
        path.rename(tmp_path / "entry")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / ("entry" if kind == "link" and version < 3 else "nothing"))
    document = logdump.read(str(root))
    first = document["findings"][0]
    assert (first["version"], first["rule"]) == (version, "STO-8")
    assert (document["state"] or {"version": -1})["version"] == version - 1
    with pytest.raises(StoreError, match=r"link|directory|pipe"):
        tablefmt.open(str(root))


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """STO-8: a path below a link is no object either."""
    root = tmp_path / "t"
    root.mkdir()
    (root / "_log").symlink_to(Path(golden("appends")) / "_log")
    assert {finding["rule"] for finding in logdump.read(str(root))["findings"]} == {"STO-8"}
    with pytest.raises(StoreError, match="link"):
        tablefmt.open(str(root))


def test_no_object_is_read_beyond_its_length(tmp_path: Path) -> None:
    """STO-24: a hint, an entry and a block of many GB, with holes; each kind has its length."""
    uri = tmp_path / "t"
    tablefmt.create(str(uri), "id BIGINT").append({"id": [1]})
    folder = folder_of.Folder(str(uri), None)
    names = ("_log/hint.json", f"_log/{2:020d}.json", f"_log/history/{0:020d}-{15:020d}.jsonl.gz")
    for name, most in zip(names, (4096, 64 << 20, 65 << 20), strict=True):
        path = uri / name
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(20 << 30)
        assert folder_of.longest(name) == most
        with pytest.raises(folder_of.TooLongError, match=f"{20 << 30} bytes; at most {most}"):
            folder.get(name)
    assert folder_of.longest("_log/checkpoints/parts/x.parquet") == 2 << 30
    assert folder_of.longest("data/x.parquet") == 2 << 30
    assert folder_of.longest("_log/checkpoints/x.json") == 256 << 20
    assert folder_of.longest("_log/other") == 64 << 20


@pytest.mark.slow
@pytest.mark.parametrize("item", [b"[],", b'{"":0},', b'"ab",'])
def test_json_of_many_values_is_not_parsed(item: bytes) -> None:
    """STO-25: megabytes that would be gigabytes of objects."""
    count = 2 << 20 if item != b'"ab",' else 5 << 20
    document, refusals = parse(b'{"x":[' + item * count + b"0]}")
    assert document is None
    assert ("STO-25", "holds more values than may be parsed") in refusals


def test_names_inside_an_import_are_of_a_newer_version() -> None:
    """VER-2, IMP-2: an entry with them is newer, and not damaged, whatever else it has."""
    one = {"root": "", "names": {}, "nans": 7, "from": {"format": "delta", "branch": "b"}}
    assert schemas.newer_in({"imports": {"1": one}}) == ["imports.nans", "imports.from.branch"]
