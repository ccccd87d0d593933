"""Footers at which Arrow's objects would end the process are refused before they are asked.

Spec: STO-26.
"""

from __future__ import annotations

import io
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import orjson
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import CorruptDataError
from tablefmt.log import parquet_footer
from tablefmt.log.bounded_parquet import footer_of, open_checked
from tablefmt.log.codec import seal
from tablefmt.log.object_names import entry_key
from tablefmt.log.parquet_footer import check_footer, leaves_of, top_level
from tablefmt.store.memory_store import MemoryStore
from tests.tables import handle, memory, new_table, rows

MR = Path(__file__).parent.parent / "data" / "parquet_mr"

Change = Callable[[bytes], bytes]

FLAT = pa.table({"n": pa.array([1, 2, None]), "t": ["x", None, "y"], "b": [True, False, None]})
WIDTHS = pa.table({"f": pa.array([1.5, 2.5]), "d": pa.array([b"1234", b"5678"], pa.binary(4))})
DEEP = pa.table({"l": [[{"a": [1, 2]}], None], "s": [{"u": {"v": "x"}}, {"u": None}]})


def written(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def footer_bytes(body: bytes) -> bytes:
    return body[-8 - int.from_bytes(body[-8:-4], "little") : -8]


def with_footer(body: bytes, footer: bytes) -> bytes:
    start = body[: -8 - int.from_bytes(body[-8:-4], "little")]
    return start + footer + len(footer).to_bytes(4, "little") + b"PAR1"


SIZES = b"\x3c\x29\x06\x19\x26"
"""The sizes of an INT64 column in the form that pyarrow writes: no texts, levels (0, 1)."""


def once(old: bytes, new: bytes) -> Change:
    def changed(footer: bytes) -> bytes:
        assert footer.count(old) >= 1
        return footer.replace(old, new, 1)

    return changed


BAD: dict[str, tuple[Change, str]] = {
    "levels of definition": (once(SIZES, b"\x3c\x29\x06\x19\x36\x02"), "counts levels"),
    "levels of repetition": (once(SIZES, b"\x3c\x29\x26\x02\x04\x19\x26"), "counts levels"),
    "levels of another kind": (once(SIZES, b"\x3c\x29\x06\x19\x25"), "counts levels"),
    "texts of a number": (once(SIZES, b"\x3c\x16\x02\x29\x26"), "without texts"),
    "a short minimum": (once(b"\x28\x08\x02" + b"\0" * 7, b"\x28\x07\x02" + b"\0" * 6), "short"),
    "an empty old minimum": (once(b"\x18\x08\x02" + b"\0" * 7, b"\x18\x00"), "too short"),
    "another type": (
        once(b"\x1c\x15\x04\x19", b"\x1c\x15\x02\x19"),
        "a different type in the schema",
    ),
    "an unknown codec": (lambda f: _other_codec(f), "unknown compression codec"),
    "one column fewer": (lambda f: _drop_column(f), "columns, and the schema"),
    "encrypted": (lambda f: _encrypted(f), "is encrypted"),
    "row groups twice": (lambda f: f[:-1] + b"\x09\x08\x0c\x00", "do not ascend"),
    "elements of another kind": (lambda f: _two_meanings(f), "elements of the wrong kind"),
    "rows of a group": (lambda f: _other_rows(f), "count different numbers of rows"),
    "an unknown type": (once(b"\x15\x04\x25\x02\x18", b"\x15\x28\x25\x02\x18"), "unknown type"),
    "a cut footer": (lambda f: f[:-20], "ends too early"),
}


def _drop_column(footer: bytes) -> bytes:
    at = footer.index(b"\x19\x1c\x19") + 4
    _, end = parquet_footer.fields(footer, at)
    return footer[: at - 1] + bytes([footer[at - 1] - 16]) + footer[end:]


def _other_codec(footer: bytes) -> bytes:
    """A footer whose first column chunk has the codec 17."""
    group = footer.index(b"\x19\x1c\x19") + 4
    _, chunk = parquet_footer.fields(footer, group)[0][3]
    _, at = parquet_footer.fields(footer, chunk)[0][4]
    return footer[:at] + b"\x22" + footer[at + 1 :]


def _other_rows(footer: bytes) -> bytes:
    """A footer whose last row group has another number of rows than the file."""
    at = footer.index(b"\x19\x1c\x19") + 3
    count, _, start = parquet_footer.list_header(footer, at)
    for _ in range(count):
        _, start = parquet_footer.fields(footer, start)
    # The length of the row group in bytes comes before its rows.
    assert footer[start] == 0x16
    start = parquet_footer.skip(footer, start + 1, parquet_footer.INT64)
    assert footer[start] == 0x16
    return footer[: start + 1] + b"\x00" + footer[start + 2 :]


def _two_meanings(footer: bytes) -> bytes:
    """A footer with a list of two bytes that Arrow reads as numbers: longer ones.

    What follows the list is a text for one reader, and the rest of another footer for Arrow.
    """
    bad = BAD["levels of definition"][0](footer)
    at, hidden_at = (each.index(b"\x1c\x15\x04\x19") + 4 for each in (footer, bad))
    path = parquet_footer.skip(footer, at, parquet_footer.LIST)
    hidden = bad[hidden_at + path - at :]
    both = b"\x23\x80\x80" + b"\x18" + _varint(len(hidden)) + hidden
    return footer[:at] + both + footer[parquet_footer.skip(footer, path + 1, 9) :]


def _encrypted(footer: bytes) -> bytes:
    at = footer.index(b"\x19\x1c\x19") + 4
    _, end = parquet_footer.fields(footer, at)
    # Field 8 of the chunk: a struct with a key of the column.
    return footer[: end - 1] + b"\x5c\x2c\x19\x18\x01n\x00\x00\x00" + footer[end:]


@pytest.mark.parametrize("kind", BAD)
def test_a_footer_that_ends_the_process_is_refused(kind: str) -> None:
    """STO-26: each of them by what is wrong."""
    body = written(FLAT)
    change, said = BAD[kind]
    check_footer(footer_bytes(body))
    with pytest.raises(ValueError, match=said):
        footer_of(with_footer(body, change(footer_bytes(body))))


@pytest.mark.broken_tables
@pytest.mark.parametrize("where", [None, "id > 1", "p = 'a'"])
@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "a cut footer"])
def test_a_data_file_that_ends_the_process_is_damage(kind: str, where: str | None) -> None:
    """STO-26, DAT-5: scans read statistics, or none. The log has no checksum of the end."""
    store = memory()
    table = new_table(store)
    table.append(rows(1, 2))
    spoil_footer(store, kind)
    with pytest.raises(CorruptDataError, match="cannot be read"):
        handle(store).to_arrow(where=where)


@pytest.mark.broken_tables
@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "a cut footer"])
def test_files_that_arrows_scanner_cannot_read_are_checked_too(kind: str) -> None:
    """STO-26, DAT-5: a column has a name of the scanner's own; a deep check decodes every page."""
    store = memory()
    table = tablefmt.create(store.uri, "id BIGINT, __filename STRING")
    table.append({"id": [1, 2], "__filename": ["a", "b"]})
    key, body, changed = spoil_footer(store, kind)
    with pytest.raises(CorruptDataError, match="cannot be read"):
        tablefmt.open(store.uri).to_arrow()
    assert [f.object for f in tablefmt.open(store.uri).verify(deep=True).findings] == [key]
    with pytest.raises(ValueError):
        open_checked(io.BytesIO(changed))
    with open_checked(io.BytesIO(body)) as file:
        assert file.read().to_pydict() == {"id": [1, 2], "__filename": ["a", "b"]}


def spoil_footer(store: MemoryStore, kind: str) -> tuple[str, bytes, bytes]:
    """Spoil the footer of a table's only data file. Return its key, and the bytes before and after.

    The entry has no checksum of the end.
    """
    (key,) = [one.key for one in store.list_after("data/")]
    body = store.get(key)
    change, _ = BAD[kind]
    changed = with_footer(body, change(footer_bytes(body)))
    store.delete(key)
    store.put(key, changed)
    _say_of_end(store, len(changed))
    return key, body, changed


def _say_of_end(store: MemoryStore, size: int) -> None:
    """Put an entry in place of the one that added a file: another length, no checksum."""
    (key,) = [one.key for one in store.list_after("_log/") if one.key == entry_key(1)]
    document = orjson.loads(store.get(key))
    document["add"]["size"] = [size]
    document["totals"]["bytes"] = size
    del document["add"]["footer"], document["checksum"]
    for one in list(store.list_after("_log/hint")):
        store.delete(one.key)
    store.delete(key)
    store.put(key, seal(document))


SOUND: dict[str, Callable[[], bytes]] = {
    "flat": lambda: written(FLAT),
    "widths": lambda: written(WIDTHS),
    "deep": lambda: written(DEEP),
    "without statistics": lambda: written(FLAT, write_statistics=False),
    "indexed": lambda: written(FLAT, write_page_index=True, row_group_size=1),
    "old": lambda: written(FLAT, version="1.0", data_page_version="2.0", use_dictionary=False),
    "long texts": lambda: written(pa.table({"x" * 300: ["y" * 3000]})),
    "no columns": lambda: written(pa.table({"x": [1]}).select([])),
    "duckdb": lambda: _by_duckdb(),
    "polars": lambda: _by_polars(),
}


def _by_duckdb() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        duckdb.sql(
            f"COPY (SELECT i, 't' || i AS t, [i] AS l, i / 3 AS d, i::DECIMAL(30, 2) AS n "
            f"FROM range(5000) t(i)) TO '{folder}/x.parquet' (ROW_GROUP_SIZE 2048)"
        )
        return Path(folder, "x.parquet").read_bytes()


def _by_polars() -> bytes:
    sink = io.BytesIO()
    polars.from_arrow(pa.concat_tables([FLAT] * 50)).write_parquet(sink)
    return sink.getvalue()


@pytest.mark.parametrize("kind", SOUND)
def test_footers_of_other_writers_pass(kind: str) -> None:
    """STO-26: the check accepts footers of other writers."""
    body = SOUND[kind]()
    assert footer_of(body).equals(pq.read_metadata(io.BytesIO(body)))


@pytest.mark.parametrize("path", sorted(MR.glob("*.parquet")), ids=lambda path: path.stem)
def test_footers_of_parquet_mr_pass(path: Path) -> None:
    """STO-26: the check accepts footers that Spark writes."""
    assert footer_of(path.read_bytes()).equals(pq.read_metadata(path))


def changed(footer: bytes, chance: random.Random) -> bytes:
    body = bytearray(footer)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(body))
        kind = chance.randrange(4)
        if kind == 0:
            del body[at]
        elif kind == 1:
            body.insert(at, chance.randrange(256))
        else:
            body[at] = chance.choice(
                (0, 0xFF, body[at] ^ 1 << chance.randrange(8), body[at] + 16 & 255)
            )
    return bytes(body)


def verdict(footer: bytes) -> bool:
    try:
        check_footer(footer)
    except ValueError:
        return False
    return True


def test_a_short_minimum_of_long_values_is_refused() -> None:
    """STO-26: each value has 200 bytes, so its length takes two bytes."""
    check_footer(footer_bytes(written(pa.table({"d": pa.array([b"a" * 200], pa.binary(200))}))))
    short = footer_bytes(written(pa.table({"d": pa.array([b"a" * 4], pa.binary(4))})))
    footer = once(b"\x15\x0e\x15\x08", b"\x15\x0e\x15\x90\x03")(short)
    with pytest.raises(ValueError, match="too short"):
        check_footer(footer)


def test_a_number_of_a_field_may_be_written_in_full() -> None:
    """STO-26: Thrift has two ways to write it, and libraries read both."""
    body = written(FLAT)
    footer = footer_bytes(body)
    assert footer[0] == 0x15
    whole = with_footer(body, b"\x05\x02" + footer[1:])
    assert footer_of(whole).equals(footer_of(body))


def test_a_footer_has_its_own_limits_and_not_those_of_the_file() -> None:
    """STO-25: 200,000 bytes before it allow no longer list in it."""
    body = written(pa.table({"t": ["".join(map(chr, range(65, 91))) * 8000]}), compression="none")
    footer = footer_bytes(body)
    assert len(body) > 200_000 > 100 * len(footer)
    encodings = b"\x19\xf5" + _varint(2000) + bytes(2000)
    at = footer.index(b"\x1c\x15\x0c\x19") + 3
    end = parquet_footer.skip(footer, at + 1, 9)
    long = footer[:at] + encodings + footer[end:]
    check_footer(long)
    with pytest.raises(OSError, match="size limit"):
        footer_of(with_footer(body, long))
    assert footer_of(body).num_rows == 1


def test_the_usual_form_is_what_the_walk_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-26: the faster way answers as the walk does."""
    chance = random.Random(5)
    footers = [footer_bytes(SOUND[kind]()) for kind in ("flat", "widths", "deep", "indexed")]
    samples = [changed(chance.choice(footers), chance) for _ in range(1500)]
    usual = parquet_footer._after_usual
    matched = []
    monkeypatch.setattr(
        parquet_footer, "_after_usual", lambda *given: matched.append(usual(*given)) or matched[-1]
    )
    fast = list(map(verdict, samples))
    assert min(map(bool, matched)) is False
    assert sum(map(bool, matched)) > 1000
    monkeypatch.setattr(parquet_footer, "_after_usual", lambda *_: 0)
    assert fast == list(map(verdict, samples))
    assert 50 < sum(fast) < 1450


@pytest.mark.parametrize("count", [1, 2, 14, 15, 200, 1 << 40])
@pytest.mark.parametrize("change", [None, (0, 0x2C), (1, 0x15), (2, 0x1C), (2, 0x80)])
@pytest.mark.parametrize("depth", range(4))
def test_orders_of_columns_are_read_at_once_as_the_walk_reads_them(
    monkeypatch: pytest.MonkeyPatch, count: int, change: tuple[int, int] | None, depth: int
) -> None:
    """STO-26: a list of the usual form is skipped as by the walk, whatever length it claims."""
    kind = parquet_footer.STRUCT
    size = bytes([count << 4 | kind]) if count < 15 else b"\xfc" + _varint(count)
    orders = bytearray(b"\x1c\x00\x00" * min(count, 200))
    if change is not None:
        orders[-3 + change[0]] = change[1]
    for end in (b"", b"\x00", b"\x00\x00\x00"):
        data = size + bytes(orders) + end

        def skipped(data: bytes = data) -> int | str:
            try:
                return parquet_footer.skip(data, 0, parquet_footer.LIST, depth)
            except (IndexError, ValueError) as error:
                return f"{type(error).__name__}"

        at_once = skipped()
        with monkeypatch.context() as patch:
            patch.setattr(parquet_footer, "_ORDER", b"never")
            assert at_once == skipped()


def test_a_known_schema_is_not_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-26: the files of a table have one schema; few are kept."""
    monkeypatch.setattr(parquet_footer, "_known", ())
    for number in range(parquet_footer._KNOWN_SCHEMAS + 3):
        check_footer(footer_bytes(written(pa.table({f"c{number}": [1]}))))
    first = parquet_footer._known
    assert len(first) == parquet_footer._KNOWN_SCHEMAS
    check_footer(footer_bytes(written(pa.table({f"c{number}": [2, 3]}))))
    assert parquet_footer._known is first


def test_a_schema_too_deep_is_refused() -> None:
    """STO-26: Arrow descends by recursion, and a footer could be deeper than its stack."""
    group = b"\x35\x00\x18\x01g\x15\x02\x00"
    for levels in (parquet_footer.SCHEMA_DEPTH_MAX + 2, 100_000):
        head = b"\x15\x02\x19\xfc" + _varint(levels + 1)
        schema = group * levels + b"\x15\x04\x25\x00\x18\x01x\x00"
        with pytest.raises(ValueError, match="too deep"):
            check_footer(head + schema + b"\x16\x00\x19\x0c\x00")


def _varint(number: int) -> bytes:
    body = b""
    while number > 0x7F:
        body, number = body + bytes([number & 0x7F | 0x80]), number >> 7
    return body + bytes([number])


ASKED = """
import random, sys
import pyarrow as pa, pyarrow.dataset as ds, pyarrow.compute as pc
from tests.log.test_parquet_footer import SOUND, changed, footer_bytes, footer_of, with_footer
first, count = map(int, sys.argv[1:])
sound = [SOUND[kind]() for kind in ("flat", "widths", "deep", "indexed", "old")]
asked = 0
for seed in range(first, first + count):
    print(seed, file=sys.stderr, flush=True)
    chance = random.Random(seed)
    body = chance.choice(sound)
    body = with_footer(body, changed(footer_bytes(body), chance))
    try:
        footer = footer_of(body)
        names = footer.schema.to_arrow_schema().names
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                column.to_dict(), column.statistics and column.statistics.min_raw
                column.path_in_schema, column.encodings, column.compression
        asked += 1
        fragment = ds.ParquetFileFormat().make_fragment(pa.py_buffer(body))
        for name in names:
            list(fragment.subset(filter=pc.field(name).is_valid()).row_groups)
    except (ValueError, OSError, pa.ArrowException, MemoryError):
        pass
print(asked)
"""


def asked(first: int, count: int) -> int:
    """Ask Arrow about changed footers that passed, in a process of its own; how many did."""
    command = [sys.executable, "-c", ASKED, str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    return int(done.stdout)


@pytest.mark.slow
def test_footers_that_pass_end_no_process() -> None:
    """STO-26: a fixed sample at every change."""
    assert asked(1, 300) > 30


@pytest.mark.soak
def test_many_footers_that_pass_end_no_process(first_seed: int) -> None:
    """STO-26."""
    assert asked(first_seed, 20_000) > 2000


@pytest.mark.slow
def test_without_the_check_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-26: without the check, the sample crashes Arrow."""
    without = "from tablefmt.log import bounded_parquet\nbounded_parquet.check_end = print\n"
    monkeypatch.setitem(globals(), "ASKED", without + ASKED)
    with pytest.raises(AssertionError, match="terminate called"):
        asked(1, 300)


@pytest.mark.parametrize("depth", [0, 1, 13, 14, 15, 130])
def test_columns_have_their_names_and_paths_as_the_footer_has_them(depth: int) -> None:
    kind, value = pa.int32(), 1
    for level in range(depth):
        kind, value = pa.struct([(f"level {level}", kind)]), {f"level {level}": value}  # type: ignore[assignment]
    names = ["é", "a.b", "a column with a long name"]
    columns = [pa.array([value, None], kind), pa.array([[1], []]), pa.array(["x", "y"])]
    footer = footer_bytes(written(pa.table(columns, names)))
    assert check_footer(footer).rows == 2
    leaves = leaves_of(footer)
    assert len(leaves) == 3
    assert all(leaf.path in footer for leaf in leaves)
    assert top_level(leaves) == {*names}
    broken = footer.replace("é".encode(), b"\xff\xff")
    assert top_level(leaves_of(broken)) == frozenset()
