"""Two readers of damaged Parquet: both refuse it by the same rule, or both read the same.

Data files, overflow metadata files and parts of checkpoints, whose checksums are right. Spec:
STO-24, STO-25, STO-26, ADD-5, ADD-6, DEL-3, CKP-3, DAT-5.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import logdump
import orjson
import pyarrow as pa
import pytest
from golden import maker
from logdump import checked_parquet, derived
from logdump.checked_parquet import BadParquetError
from logdump.folder import Folder, TooLongError
from logdump.rules import MAX_SIDE_FILES
from logdump.shapes import Refusal
from logdump.thrift_compact import STRUCT, Cursor

import tablefmt
from tablefmt.data.file_verification import check_file
from tablefmt.errors import CorruptTableError, LostCheckpointError, TablefmtError
from tablefmt.log import bounded_parquet
from tablefmt.log.bounded_parquet import footer_of, read_bounded
from tablefmt.log.overflow_metadata import OVERFLOW_LINES_MAX
from tablefmt.log.parquet_footer import check_footer
from tablefmt.snapshot.checkpoint_root import LINES_MAX, SEGMENT_LINES_MAX, Part
from tablefmt.snapshot.part_file import PartFile
from tests.log.test_bounded_parquet import BOMBS, CODED, FLAT, packed
from tests.log.test_parquet_footer import (
    BAD,
    SOUND,
    changed,
    footer_bytes,
    once,
    with_footer,
    written,
)
from tests.log.test_parquet_footer import FLAT as COLUMNS
from tests.places import GOLDEN
from tests.snapshot.test_wrong_checkpoints import newest_root, table_of
from tests.tables import memory, new_table, rows

pytestmark = pytest.mark.broken_tables


def said(work: Callable[[], Any]) -> str:
    """Why a reader refuses something; "" if it does not."""
    try:
        work()
    except (
        ValueError,
        OSError,
        pa.ArrowException,
        CorruptTableError,
        LostCheckpointError,
    ) as error:
        return str(error) or type(error).__name__
    except Refusal as refusal:
        return " ".join(refusal.args)
    return ""


@pytest.mark.parametrize("kind", SOUND)
def test_the_second_reader_takes_footers_of_other_writers(kind: str) -> None:
    """STO-26: the second reader accepts footers of other writers."""
    body = SOUND[kind]()
    assert checked_parquet.footer_of(body).equals(footer_of(body))


@pytest.mark.parametrize("kind", BAD)
def test_the_second_reader_refuses_a_footer_that_ends_the_process(kind: str) -> None:
    """STO-26: the package refuses the same footers."""
    body = written(COLUMNS)
    footer = BAD[kind][0](footer_bytes(body))
    with pytest.raises(BadParquetError):
        checked_parquet.check_footer(footer)
    with pytest.raises(BadParquetError):
        checked_parquet.footer_of(with_footer(body, footer))


def compared(first: int, count: int) -> Counter[tuple[bool, bool]]:
    """Verdicts on changed footers: of both readers, with Arrow's for those that pass."""
    sound = [SOUND[kind]() for kind in SOUND]
    verdicts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(first, first + count):
        chance = random.Random(seed)
        body = chance.choice(sound)
        footer = changed(footer_bytes(body), chance)
        body = with_footer(body, footer)
        checks = [
            said(lambda f=footer, c=c: c(f)) for c in (check_footer, checked_parquet.check_footer)
        ]
        whole = [said(lambda b=body, o=o: o(b)) for o in (footer_of, checked_parquet.footer_of)]
        assert bool(checks[0]) == bool(checks[1]), (seed, checks)
        assert bool(whole[0]) == bool(whole[1]), (seed, whole)
        verdicts[bool(checks[0]), bool(whole[0])] += 1
    return verdicts


@pytest.mark.slow
def test_both_readers_make_the_same_of_changed_footers() -> None:
    """STO-26: a fixed sample at every change. Arrow refuses some that pass."""
    verdicts = compared(1, 1500)
    assert verdicts[True, True] > 500
    assert verdicts[False, True] > 20
    assert verdicts[False, False] > 200


@pytest.mark.soak
def test_both_readers_make_the_same_of_many_changed_footers(first_seed: int) -> None:
    """STO-26."""
    compared(first_seed, 50_000)


@pytest.mark.parametrize("check", ["_check_description", "_check_sizes", "_rows"])
def test_a_check_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch, check: str) -> None:
    """The comparison can fail: it does without a check of one reader."""

    def nothing(cursor: Cursor, kind: Any) -> int:
        cursor.skip(kind if check == "_rows" else STRUCT)
        return 0

    monkeypatch.setattr(checked_parquet, check, nothing)
    with pytest.raises(AssertionError):
        compared(1, 1500)


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "a number in full": lambda f: b"\x05\x02" + f[1:],
    "an unknown field": lambda f: f[:-1] + b"\x08\x40\x01x\x00",
    "an unknown list": lambda f: f[:-1] + b"\x09\x40\x31\x01\x02\x03\x00",
    "an unknown map": lambda f: f[:-1] + b"\x0b\x40\x01\x88\x01x\x01y\x00",
    "8 lists of lists": lambda f: f[:-1] + b"\x09\x40" + b"\x19" * 7 + b"\x13\x01\x00",
    "9 lists of lists": lambda f: f[:-1] + b"\x09\x40" + b"\x19" * 8 + b"\x13\x01\x00",
    "8 structs": lambda f: f[:-1] + b"\x0c\x40" + b"\x1c" * 7 + b"\x00" * 9,
    "9 structs": lambda f: f[:-1] + b"\x0c\x40" + b"\x1c" * 8 + b"\x00" * 10,
    "a field before the first": lambda f: b"\x05\x01" + f[1:],
    "the last field": lambda f: f[:-1] + b"\x01\xfe\xff\x03\x00",
    "a field beyond the last": lambda f: f[:-1] + b"\x01\x80\x80\x04\x00",
    "a number of ten bytes": lambda f: b"\x15" + b"\x80" * 9 + b"\x00" + f[2:],
    "a number of eleven bytes": lambda f: b"\x15" + b"\x80" * 10 + b"\x00" + f[2:],
    "a long list": lambda f: f[:-1] + b"\x09\x40\xf3\xff\x7f" + bytes(16_383) + b"\x00",
    "bytes behind it": lambda f: f + b"xyz",
    "repeated thrice": once(b"\x25\x02\x18\x01n", b"\x25\x06\x18\x01n"),
    "a negative number of columns": once(b"\x15\x06\x00\x15", b"\x15\x05\x00\x15"),
}
REFUSED = {
    "an unknown map", "9 lists of lists", "9 structs", "a field before the first",
    "a field beyond the last", "a number of eleven bytes", "a long list", "repeated thrice",
    "a negative number of columns",
}  # fmt: skip


def _long_list(footer: bytes, more: int) -> bytes:
    """A footer with a list of as many bytes as its length allows, and some more."""
    # Field 64, a list of bytes whose number takes two bytes, the list, the end of the footer.
    bytes_before = len(footer) - 1 + 3 + 2
    count = next(n for n in range(15, 1 << 14) if n >= (bytes_before + n + 1 + 8) // 8 + 64)
    count += more
    head = bytes([count & 127 | 128, count >> 7])
    return footer[:-1] + b"\x09\x40\xf3" + head + bytes(count) + b"\x00"


@pytest.mark.parametrize(("more", "refused"), [(0, False), (2, True)])
def test_both_readers_allow_the_same_elements_of_a_list(more: int, refused: bool) -> None:
    """STO-25: one for each 8 bytes of the footer beyond 64."""
    body = written(COLUMNS)
    body = with_footer(body, _long_list(footer_bytes(body), more))
    verdicts = [bool(said(lambda o=o: o(body))) for o in (footer_of, checked_parquet.footer_of)]
    assert verdicts == [refused] * 2


@pytest.mark.parametrize("form", FORMS)
def test_both_readers_take_the_same_forms_of_thrift(form: str) -> None:
    """STO-25, STO-26: forms that writers do not use are read where the protocol has them."""
    body = written(COLUMNS)
    body = with_footer(body, FORMS[form](footer_bytes(body)))
    verdicts = [bool(said(lambda o=o: o(body))) for o in (footer_of, checked_parquet.footer_of)]
    assert verdicts == [form in REFUSED] * 2


# --- objects of a table --------------------------------------------------------------------------


SIDES = {"add": ("side-file", "ADD-6"), "delete": ("deletes-side", "DEL-3")}


def sealed(objects: dict[str, bytes], place: str, body: bytes) -> None:
    """Put an overflow metadata file in the place of one; every checksum is right."""
    keys = sorted(key for key in objects if key.startswith("_log/0"))
    documents = [json.loads(objects[key]) for key in keys]
    first = next(i for i, each in enumerate(documents) if "side" in each.get(place, {}))
    side = documents[first][place]["side"]
    objects[side["path"]] = body
    side.update(size=len(body), sha256=hashlib.sha256(body).hexdigest())
    for at in range(first, len(keys)):
        del documents[at]["checksum"]
        if at > first:
            documents[at]["previous"] = hashlib.sha256(objects[keys[at - 1]]).hexdigest()
        text = json.dumps(documents[at], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        objects[keys[at]] = maker.seal(text.encode())


def changed_bodies(sound: bytes, seed: int, count: int) -> list[bytes]:
    """Parquet whose footer is damaged in every known way that there is, and in others."""
    footers = []
    for change, _ in BAD.values():
        try:
            footers.append(change(footer_bytes(sound)))
        except (AssertionError, ValueError):
            # It has no column for this change.
            continue
    assert len(footers) > len(BAD) // 2
    chance = random.Random(seed)
    footers += [changed(footer_bytes(sound), chance) for _ in range(count)]
    return [with_footer(sound, footer) for footer in footers]


@pytest.mark.parametrize("place", SIDES)
def test_both_readers_refuse_an_overflow_metadata_file_by_the_same_rule(
    tmp_path: Path, place: str
) -> None:
    """STO-26, ADD-6, DEL-3: a damaged footer is refused. A sound one gives the same files."""
    case, rule = SIDES[place]
    source = GOLDEN / case / "table"
    sound = {str(p.relative_to(source)): p.read_bytes() for p in source.rglob("*") if p.is_file()}
    entries = [json.loads(sound[key]) for key in sorted(sound) if key.startswith("_log/0")]
    path = next(e[place]["side"]["path"] for e in entries if "side" in e.get(place, {}))
    verdicts: Counter[str] = Counter()
    for at, body in enumerate(changed_bodies(sound[path], 3, 60)):
        folder, objects = tmp_path / str(at), dict(sound)
        sealed(objects, place, body)
        for name, content in objects.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        document, files = logdump.read(str(folder)), files_of_package(str(folder))
        if isinstance(files, str):
            assert files == document["findings"][0]["rule"], (at, document["findings"])
        else:
            assert document["findings"] == [], at
            names = ("path", "size", "rows")
            live = [{name: each[name] for name in names} for each in document["state"]["files"]]
            assert sorted(files, key=str) == sorted(live, key=str)
        verdicts[files if isinstance(files, str) else "taken"] += 1
        shutil.rmtree(folder)
    assert verdicts[rule] > 20
    assert verdicts["taken"] > 5


def files_of_package(uri: str) -> list[dict[str, Any]] | str:
    """The live files as the package has them, or the rule by which it refuses the table."""
    try:
        files = tablefmt.open(uri).scan().files()
    except TablefmtError as error:
        # The name of a column that was changed is one of a newer version.
        return getattr(error, "rule", None) or "VER-2"
    return list(files.select(["path", "size", "rows"]).to_pylist())


@pytest.mark.parametrize("kind", ["plain", "expired"])
def test_both_readers_refuse_a_part_of_a_checkpoint(kind: str) -> None:
    """STO-26, CKP-3: the footer is damaged."""
    objects = table_of(kind)
    root = orjson.loads(objects[newest_root(objects)])
    verdicts: Counter[bool] = Counter()
    for part in (*root["segments"][:1], *root["deletes"][:1]):
        for body in changed_bodies(objects[part["path"]], 4, 60):
            store, path = memory(), part["path"]
            length = min(len(body), int.from_bytes(body[-8:-4], "little") + 8)
            digest, end = (hashlib.sha256(each).hexdigest() for each in (body, body[-length:]))
            told = {"path": path, "size": len(body), "sha256": digest, "footer": length}
            told |= {"footer_sha256": end, "files": part["files"]}
            store.put(path, body)
            mine = PartFile(store, Part(**told))
            load = {path: body}.__getitem__
            package = said(lambda mine=mine: mine.read(mine.schema.names))
            second = said(lambda told=told, load=load: derived.part_of(told, load))
            assert bool(package) == bool(second), (package, second)
            verdicts[bool(second)] += 1
    assert min(verdicts[True], verdicts[False]) > 5


def test_a_checkpoint_whose_footer_ends_the_process_is_found() -> None:
    """STO-26, CKP-3, CKP-6: the entries show it too, and the finding names the part."""
    objects = dict(table_of("plain"))
    key = newest_root(objects)
    root = orjson.loads(objects[key])
    del root["checksum"]
    part = root["segments"][0]
    body = objects[part["path"]]
    footer = BAD["elements of another kind"][0]
    body = with_footer(body, _first_that_applies(footer_bytes(body), footer))
    length = int.from_bytes(body[-8:-4], "little") + 8
    part |= {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "footer": length}
    part["footer_sha256"] = hashlib.sha256(body[-length:]).hexdigest()
    objects[part["path"]] = body
    text = json.dumps(root, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    objects[key] = maker.seal(text.encode())
    store = memory()
    for name, content in objects.items():
        store.put(name, content)
    findings = logdump.read(store.uri, files=True)["findings"]
    assert [each["rule"] for each in findings] == ["CKP-3"]
    report = tablefmt.open(store.uri).verify()
    assert [one.object for one in report.findings] == [part["path"]]


def _first_that_applies(footer: bytes, *changes: Callable[[bytes], bytes]) -> bytes:
    for change in (*changes, *(change for change, _ in BAD.values())):
        try:
            return change(footer)
        except (AssertionError, ValueError):
            continue
    raise AssertionError("no change of BAD applies")


def test_both_readers_refuse_a_data_file(tmp_path: Path) -> None:
    """STO-26, DAT-5, ADD-5: only the footer itself shows that it is damaged."""
    table = tablefmt.create(str(tmp_path), "id BIGINT, p STRING")
    table.append(rows(1, 2))
    (path,) = (tmp_path / "data").rglob("*.parquet")
    name = str(path.relative_to(tmp_path))
    body = path.read_bytes()
    folder = Folder(str(tmp_path), None)
    verdicts: Counter[bool] = Counter()
    for other in changed_bodies(body, 5, 150):
        path.write_bytes(other)
        file = {"path": name, "size": len(other), "rows": 2, "footer": None}
        found = folder.problems(file)
        store = table.context.store
        package = check_file(store, name, len(other), 2, deep=False)
        assert bool(found) == bool(package), (found, package)
        verdicts[bool(found)] += 1
    assert min(verdicts[True], verdicts[False]) > 10


# --- bounds --------------------------------------------------------------------------------------


def columns_of(body: bytes) -> pa.Table:
    """Return the columns of an overflow metadata file by the second reader."""
    return checked_parquet.columns_of(body, checked_parquet.footer_of(body))


def columns_of_package(body: bytes) -> pa.Table:
    """Return the columns of an overflow metadata file by the package."""
    footer = footer_of(body)
    return read_bounded(pa.BufferReader(body), footer, footer.schema.to_arrow_schema().names)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"row_group_size": 1000, "data_page_version": "2.0"},
        {"compression": "none", "data_page_size": 100},
    ],
)
def test_the_second_reader_reads_what_is_within_the_bounds(options: Any) -> None:
    """STO-25: any encoding, any pages, any row groups."""
    assert columns_of(packed(FLAT, **options)).combine_chunks().equals(FLAT)


@pytest.mark.parametrize("kind", BOMBS)
def test_the_second_reader_refuses_a_bomb_before_it_is_unpacked(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-25: megabytes in a few kilobytes; the bounds are lower here, to be quick."""
    for name, value in (("MEMORY_FREE", 8 << 20), ("BATCH_BYTES", 8 << 20)):
        monkeypatch.setattr(checked_parquet, name, value)
    monkeypatch.setattr(checked_parquet, "MEMORY_FOR_A_BYTE", 64)
    with pytest.raises(BadParquetError, match="bytes of memory"):
        columns_of(BOMBS[kind]())


def _twice() -> bytes:
    return packed(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]))


CONTENTS: dict[str, Callable[[], bytes]] = {
    "lists": lambda: packed(pa.table({"x": [[1, 2]]})),
    "structs": lambda: packed(pa.table({"x": [{"a": 1}]})),
    "a dictionary": lambda: packed(CODED.slice(0, 1)),
    "a column twice": _twice,
    "no rows": lambda: packed(FLAT.slice(0, 0)),
    "no columns": lambda: packed(pa.table({"x": [1]}).select([])),
    "a page that is cut": lambda: packed(FLAT)[:100] + packed(FLAT)[150:],
    "a page that differs": lambda: _flipped(packed(FLAT, compression="none"), 3000),
    "nothing": lambda: b"",
    "no Parquet": lambda: b"x" * 5000,
    "magic bytes alone": lambda: b"PAR1",
    "a footer beyond the file": lambda: b"PAR1" + b"\xff\xff\0\0PAR1",
    "sound": lambda: packed(FLAT),
}


def _flipped(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


@pytest.mark.parametrize("kind", CONTENTS)
def test_both_readers_refuse_the_same_contents(kind: str) -> None:
    """STO-25, ADD-6: columns that are not flat, pages that are damaged, no Parquet."""
    body = CONTENTS[kind]()
    verdicts = [bool(said(lambda r=r: r(body))) for r in (columns_of_package, columns_of)]
    assert verdicts == [kind not in ("sound", "no columns")] * 2


def test_both_readers_make_the_same_of_changed_pages() -> None:
    """STO-25: headers of pages, and pages; each is read, or refused."""
    table = pa.table({"n": list(range(50)), "t": [f"t{n}" * 3 for n in range(50)]})
    sound = packed(table, compression="none")
    length = int.from_bytes(sound[-8:-4], "little") + 8
    verdicts: Counter[bool] = Counter()
    for seed in range(400):
        chance = random.Random(seed)
        body = bytearray(sound)
        for _ in range(chance.choice((1, 2))):
            at = chance.randrange(4, len(body) - length)
            body[at] = chance.choice((0, 0xFF, body[at] ^ 1 << chance.randrange(8)))
        made = [said(lambda r=r, b=bytes(body): r(b)) for r in (columns_of_package, columns_of)]
        assert bool(made[0]) == bool(made[1]), (seed, made)
        verdicts[bool(made[0])] += 1
    assert min(verdicts[True], verdicts[False]) > 20


def test_both_readers_have_the_same_bounds() -> None:
    """STO-25: the bounds are those of the specification."""
    second, package = checked_parquet, bounded_parquet
    assert (second.FOOTER_BYTES, second.PAGE_HEADER_BYTES, second.LEVELS) == (256 << 20, 65536, 256)
    assert second.FOOTER_BYTES == package.FOOTER_BYTES_MAX
    assert (second.MEMORY_FREE, second.MEMORY_FOR_A_BYTE) == (
        package.EXPANDED_FREE,
        package.EXPANSION_MAX,
    )
    assert MAX_SIDE_FILES == OVERFLOW_LINES_MAX
    assert (derived.MAX_SEGMENT_LINES, derived.MAX_LINES) == (SEGMENT_LINES_MAX, LINES_MAX)


def test_lines_are_counted_before_parts_are_read() -> None:
    """STO-25, CKP-3."""
    for files in ([(1 << 20) + 1], [1 << 20] * 129):
        root = {"segments": [{"files": count} for count in files], "deletes": []}
        with pytest.raises(Refusal, match="too many lines"):
            derived.check_parts(root)
    derived.check_parts({"segments": [{"files": 1 << 20}] * 128, "deletes": []})


def test_an_entry_that_is_too_long_is_found(tmp_path: Path) -> None:
    """STO-24, ENT-2: no byte of 20 GB is read; versions before it are shown."""
    tablefmt.create(str(tmp_path), "id BIGINT").append({"id": [1]})
    path = tmp_path / "_log" / f"{2:020d}.json"
    with open(path, "wb") as file:
        file.truncate(20 << 30)
    with pytest.raises(TooLongError, match="at most"):
        Folder(str(tmp_path), None).get(f"_log/{path.name}")
    document = logdump.read(str(tmp_path))
    assert [(each["version"], each["rule"]) for each in document["findings"]] == [(2, "ENT-2")]
    assert document["state"]["version"] == 1


def test_a_long_data_file_is_read_from_its_end(tmp_path: Path) -> None:
    """STO-24, ADD-5: its footer and its checksum take no more than its last bytes."""
    store = memory()
    new_table(store).append(rows(1, 2))
    (key,) = [one.key for one in store.list_after("data/")]
    body = store.get(key)
    path = tmp_path / key
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        file.truncate(3 << 30)
        file.seek(0, io.SEEK_END)
        file.write(body)
    size = (3 << 30) + len(body)
    file_of_log = {"path": key, "size": size, "rows": 2, "footer": None}
    assert Folder(str(tmp_path), None).problems(file_of_log) == []
    assert Folder(str(tmp_path), None).problems({**file_of_log, "rows": 3}) != []
