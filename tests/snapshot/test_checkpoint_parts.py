"""A part of a checkpoint is sound, or its reader raises an error that names it.

Spec: CKP-3, CKP-6, CKP-9.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from tablefmt.errors import LostCheckpointError
from tablefmt.expressions.predicate import And, Comparison
from tablefmt.expressions.sql_to_predicate import parse_conjuncts
from tablefmt.log import bounded_parquet
from tablefmt.log.codec import digest
from tablefmt.model.schema import Decimal, Field, Schema
from tablefmt.snapshot import part_file
from tablefmt.snapshot.checkpoint_parts import StoredColumns, StoredDeletes
from tablefmt.snapshot.checkpoint_root import Part, SegmentPart
from tablefmt.snapshot.checkpoint_writer import bounds_of
from tablefmt.snapshot.part_file import (
    GAP_BYTES,
    PartFile,
    _merged,
    _Ranges,
    encode_part,
    write_part,
)
from tablefmt.snapshot.segments import HeldColumns
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import ForwardingStore
from tests.snapshot.test_checkpoint_checks import DELETES, LIMITS, SEGMENT, exchanged, part
from tests.tables import memory

LINES = pa.table({"id": pa.array(range(20)), "path": pa.array([f"data/{n}" for n in range(20)])})


class Remote(ForwardingStore):
    """A store that has no files, only ranges."""

    def open_file(self, key: str) -> None:
        return None


@pytest.fixture(params=["ranges", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Remote(memory()) if request.param == "ranges" else LocalStore(str(tmp_path))


def lost(part: Part, reason: str) -> Any:
    """Expect the error that names a part."""
    return pytest.raises(LostCheckpointError, match=rf"{part.path}.*{reason}")


def test_a_part_gives_what_was_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """CKP-3: all lines, or those of some row groups."""
    monkeypatch.setattr(part_file, "ROW_GROUP", 8)
    file = PartFile(store, write_part(store, "1", LINES))
    assert file.read(["path", "id"]).equals(LINES.select(["path", "id"]))
    assert file.starts.tolist() == [0, 8, 16, 20]
    assert file.read(["id"], [0, 2])["id"].to_pylist() == [*range(8), *range(16, 20)]
    assert file.schema == LINES.schema


def test_a_part_that_is_missing_is_named(store: Store) -> None:
    """CKP-6: before the footer is read, and after."""
    written = write_part(store, "1", LINES)
    opened = PartFile(store, written)
    assert opened.footer.num_rows == 20
    store.delete(written.path)
    with lost(written, "it is missing"):
        assert PartFile(store, written).footer
    with lost(written, "it is missing"):
        opened.read(["id"])


def other_footer(body: bytes, written: Part) -> tuple[bytes, Part]:
    """A sound part of equal length with other names."""
    return body.replace(b"path", b"past"), written


def longer(body: bytes, written: Part) -> tuple[bytes, Part]:
    return body + b"1", written


def no_footer(body: bytes, written: Part) -> tuple[bytes, Part]:
    """A root that describes bytes which are no footer."""
    changed = body[:-4] + b"PAR0"
    return changed, with_footer(changed, written)


def empty_footer(body: bytes, written: Part) -> tuple[bytes, Part]:
    changed = body[: -written.footer] + bytes(written.footer - 8) + body[-8:]
    return changed, with_footer(changed, written)


def with_footer(body: bytes, written: Part) -> Part:
    return replace(written, footer_sha256=digest(body[-written.footer :]))


def more_lines(body: bytes, written: Part) -> tuple[bytes, Part]:
    return body, replace(written, files=21)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_footer, "its footer differs from the root"),
        (longer, "its footer differs from the root"),
        (no_footer, "cannot be read: "),
        (empty_footer, "cannot be read: "),
        (more_lines, "its number of lines differs from the root"),
    ],
)
def test_a_footer_that_the_root_does_not_describe(
    store: Store, change: Callable[[bytes, Part], tuple[bytes, Part]], reason: str
) -> None:
    """CKP-3: its bytes have the root's checksum, are a footer, and have the root's lines."""
    written = write_part(store, "1", LINES)
    body, described = change(store.get(written.path), written)
    store.delete(written.path)
    store.put(written.path, body)
    with lost(written, reason):
        assert PartFile(store, described).footer


def test_pages_with_fewer_lines_than_the_footer(store: Store) -> None:
    """CKP-9: footer and pages each have a right checksum."""
    long, short = (encode_part(pa.table({"id": pa.array([7] * n)})) for n in (4, 3))
    footer = int.from_bytes(long[-8:-4], "little") + 8
    assert len(long) == len(short)
    written = write_part(store, "1", pa.table({"id": pa.array([7] * 4)}))
    store.delete(written.path)
    store.put(written.path, short[:-footer] + long[-footer:])
    with lost(written, "its number of lines differs from its footer"):
        PartFile(store, written).read(["id"])


def test_pages_that_are_damaged(store: Store) -> None:
    """CKP-3: the checksum of a page."""
    written = write_part(store, "1", LINES)
    body = bytearray(store.get(written.path))
    body[60] ^= 1
    store.delete(written.path)
    store.put(written.path, bytes(body))
    with lost(written, "cannot be read: "):
        PartFile(store, written).read(LINES.column_names)


ERRORS = (pa.ArrowNotImplementedError, OSError, ValueError)


@pytest.mark.parametrize("raised", [*ERRORS, OverflowError])
def test_errors_of_libraries_are_errors_of_the_part(
    raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-6: whichever Arrow or Python raise at damaged bytes."""
    store = memory()
    written = write_part(store, "1", LINES)
    opened = PartFile(store, written)
    assert opened.footer.num_rows == 20

    def failing(*_: Any) -> Any:
        raise raised("as said")

    monkeypatch.setattr(part_file, "read_bounded", failing)
    with lost(written, "as said"):
        opened.read(["id"])
    if raised in ERRORS:
        monkeypatch.setattr(part_file, "footer_of", failing)
        with lost(written, "as said"):
            assert PartFile(store, written).footer
        other = PartFile(store, written)
        other.__dict__["footer"] = _Footer(failing)
        with lost(written, "as said"):
            assert other.schema


class _Footer:
    """A footer whose columns Arrow cannot convert."""

    def __init__(self, failing: Callable[..., Any]) -> None:
        self.schema = self
        self.to_arrow_schema = failing


def stored(changed: pa.Table, **said: Any) -> tuple[StoredColumns, Part]:
    """Files of a part, described as SEGMENT."""
    store = memory()
    written = write_part(store, "1", changed)
    described: dict[str, Any] = {
        **{name: getattr(SEGMENT, name) for name in ("rows", "ids", "added", "bounds")},
        "gone": None,
        **asdict(written),
        **said,
    }
    segment = SegmentPart(**described)
    return StoredColumns(PartFile(store, written), segment, LIMITS), written


def test_columns_of_files_are_those_that_were_written() -> None:
    """CKP-3: any columns of any files are the same as in memory."""
    whole = part()
    files, _ = stored(whole)
    held = HeldColumns(whole["id"].to_numpy(), whole["added"].to_numpy(), whole)
    assert files.names == [n for n in whole.column_names if n not in ("id", "added")]
    assert files.ids.tolist() == held.ids.tolist()
    assert files.added.tolist() == held.added.tolist()
    for names in (["path"], ["lower.1"], ["path", "rows", "nulls.2"]):
        fresh, _ = stored(whole)
        assert fresh.take(np.array([2]), names).equals(held.take(np.array([2]), names))
        assert fresh.columns(names).equals(held.columns(names))


def test_files_of_a_version_are_those_it_had_added() -> None:
    """CKP-3: the newest `added` of the segment decides without reading."""
    whole = part()
    held = HeldColumns(whole["id"].to_numpy(), whole["added"].to_numpy(), whole)
    for version in range(9):
        files, _ = stored(whole)
        assert files.added_by(version).tolist() == held.added_by(version).tolist()
        assert ("_numbers" in files.__dict__) == (version < SEGMENT.added)


def test_a_part_has_the_encodings_of_its_columns() -> None:
    """CKP-3: whole numbers and days by difference, floats by bytes, partition values by
    dictionary, paths plain, no statistics."""
    days = pa.array([1, 2, 3], pa.int32()).view(pa.date32())
    columns = part().append_column("lower.7", days).append_column("upper.7", days)
    footer = pq.ParquetFile(pa.BufferReader(encode_part(columns))).metadata.row_group(0)
    found = {}
    for at in range(footer.num_columns):
        column = footer.column(at)
        found[column.path_in_schema] = {*column.encodings} - {"RLE", "PLAIN"}
        assert (column.is_stats_set, column.compression) == (False, "ZSTD")
    kinds = {name: columns.schema.field(name).type for name in found}
    expected = {
        name: {"RLE_DICTIONARY"}
        if name.startswith("partition.")
        else {"BYTE_STREAM_SPLIT"}
        if pa.types.is_floating(kind)
        else {"DELTA_BINARY_PACKED"}
        if pa.types.is_integer(kind) or pa.types.is_date(kind)
        else set()
        for name, kind in kinds.items()
    }
    assert found == expected
    assert {"lower.1", "upper.7", "nulls.1", "id"} <= {
        name for name, kind in found.items() if kind == {"DELTA_BINARY_PACKED"}
    }
    assert found["path"] == set()
    assert encode_part(columns) == encode_part(columns)


def test_paths_of_few_files_are_decoded_from_their_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-3: the same texts as from whole columns, from disk and from ranges."""
    monkeypatch.setattr(part_file, "ROW_GROUP", 4096)
    monkeypatch.setattr(part_file, "PAGE_BYTES", 1 << 12)
    count = 10_000
    lines = pa.table(
        {
            "id": np.arange(count),
            "path": [f"data/{at % 7}/{'x' * (at % 90)}{at}.parquet" for at in range(count)],
            "lower.1": [None if at % 3 == 0 else f"text {at}" for at in range(count)],
            "size": np.arange(count) * 3,
        }
    )
    decoded: list[Sequence[str]] = []
    read_bounded = bounded_parquet.read_bounded

    def noted(source: Any, footer: Any, names: Sequence[str], groups: Any) -> pa.Table:
        decoded.append(names)
        return read_bounded(source, footer, names, groups)

    monkeypatch.setattr(part_file, "read_bounded", noted)
    file = PartFile(store, write_part(store, "1", lines))
    names = ["path", "size", "lower.1"]
    for places in ([0], [4095, 4096], [5, 700, 9_999], [*range(3000, 3400)]):
        found = file.read_lines(names, np.array(places))
        assert found.equals(lines.select(names).take(places).combine_chunks())
    assert decoded == [["size"]] * 4
    decoded.clear()
    for many in (np.arange(count), np.arange(0, count, 3), np.arange(0, count, 100)):
        found = file.read_lines(names, many)
        assert found.equals(lines.select(names).take(many).combine_chunks())
    assert decoded == [names] * 3
    assert file.read_lines(names, np.zeros(0, np.intp)).num_rows == 0


def test_near_ranges_are_requested_as_one() -> None:
    """CKP-3: a gap of at most 64 KiB is read along; a range inside another one is not repeated."""
    gap = GAP_BYTES
    far = 10 * gap
    assert _merged([]) == []
    assert _merged([(far, far + 9), (far + 9 + gap, far + 10 + gap)]) == [(far, far + 10 + gap)]
    assert _merged([(far, far + 9), (far + 10 + gap, far + 11 + gap)]) == [
        (far, far + 9),
        (far + 10 + gap, far + 11 + gap),
    ]
    assert _merged([(0, 100), (5, 50), (60, 120)]) == [(0, 120)]
    assert _merged([(0, 100), (5, 50)]) == [(0, 100)]
    assert _merged([(0, 9), (far, far + 50), (far + 5, far + 9)]) == [(0, 9), (far, far + 50)]
    assert _merged([(0, 9), (far, far + 9), (far + 9, far + 20)]) == [(0, 9), (far, far + 20)]


def test_a_lost_part_is_named_with_one_line(store: Store) -> None:
    """CKP-6: the first line of what a library says, up to 200 characters."""
    file = PartFile(store, write_part(store, "1", LINES))
    assert "cannot be read: first (rule" in str(file.lost("first\nsecond"))
    assert file.lost("x" * 300).detail.endswith(": " + "x" * 200)


def test_ranges_are_read_like_a_file() -> None:
    """CKP-3: up to the end of a range, and nothing outside them."""
    file = _Ranges(100, [("k", 10, 5), ("k", 40, 3)], [b"abcde", b"xyz"])
    found = []
    for at, size in ((10, -1), (12, 2), (12, 99), (14, 1), (15, 1), (9, 4), (42, 5), (43, 1)):
        file.seek(at)
        found.append(file.read(size))
    assert found == [b"abcde", b"cd", b"cde", b"e", b"", b"", b"z", b""]
    file.seek(40)
    assert [file.read(1), file.read(), file.tell()] == [b"x", b"yz", 43]


def test_a_root_has_every_bound_of_a_column() -> None:
    """CKP-4: NaN is counted, and unknown values are left out."""
    known = {
        "lower.3": pa.array([0.5]), "upper.3": pa.array([None], pa.float64()),
        "nulls.3": pa.array([2]), "nans.3": pa.chunked_array([[3]]),
    }  # fmt: skip
    found = bounds_of(known, LIMITS.fields[3])
    assert repr(found) == "{'lower': 0.5, 'nulls': 2, 'nans': 3}"
    price = Field(1, "d", "d", Decimal(5, 2))
    known = {
        "lower.1": pa.array([decimal.Decimal("1.50")], pa.decimal128(5, 2)),
        "nulls.1": pa.array([2]),
    }
    assert repr(bounds_of(known, price)) == "{'lower': '1.50', 'nulls': 2}"


@pytest.mark.parametrize(
    ("places", "groups"), [([7], [1]), ([0, 19], [0, 4]), ([*range(10)], [0, 1, 2])]
)
def test_few_files_are_read_from_their_row_groups(
    places: list[int], groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-3: more than half of the files are read with all others, and kept."""
    monkeypatch.setattr(part_file, "ROW_GROUP", 4)
    columns = pa.table(
        {
            "id": np.arange(1, 21),
            "added": np.ones(20, np.int64),
            "path": [f"data/{at}.parquet" for at in range(20)],
            "size": np.full(20, 9),
            "rows": np.ones(20, np.int64),
        }
    )
    store = memory()
    file = PartFile(store, write_part(store, "1", columns))
    asked: list[Any] = []
    read_bounded = bounded_parquet.read_bounded

    def noted(source: Any, footer: Any, names: Any, of: Any) -> pa.Table:
        asked.append(of)
        return read_bounded(source, footer, names, of)

    monkeypatch.setattr(part_file, "read_bounded", noted)
    segment = SegmentPart(**asdict(file.part), gone=None, rows=20, ids=(1, 20), added=1, bounds={})
    none = frozenset[int]()
    limits = replace(LIMITS, next_id=21, partition_ids=none, all_partition_ids=none)
    files = StoredColumns(file, segment, limits)
    taken = files.take(np.array(places), ["path"])
    assert taken["path"].to_pylist() == [f"data/{at}.parquet" for at in places]
    assert asked == [groups]
    whole = [0, 1, 2, 3, 4]
    taken = files.take(np.arange(11), ["path"])
    assert taken["path"].to_pylist() == [f"data/{at}.parquet" for at in range(11)]
    taken = files.take(np.array([3]), ["rows"])
    assert (taken["rows"].to_pylist(), asked) == ([1], [groups, whole, [0]])
    assert files.columns(["rows"])["rows"].to_pylist() == [1] * 20
    taken = files.take(np.array([19, 3]), ["rows"])
    assert (taken["rows"].to_pylist(), asked) == ([1, 1], [groups, whole, [0], whole])


def test_a_remote_part_is_fetched_up_to_the_end_of_its_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CKP-3: one round of requests, and no byte behind the columns that are asked for."""
    monkeypatch.setattr(part_file, "ROW_GROUP", 4)
    store = memory()
    columns = pa.table({"id": np.arange(12), "path": ["x"] * 12, "size": np.full(12, 9)})
    file = PartFile(store, write_part(store, "1", columns))
    fetched: list[Any] = []
    get_ranges = store.get_ranges

    def noted(ranges: Any) -> Any:
        fetched.append(ranges)
        return get_ranges(ranges)

    monkeypatch.setattr(store, "open_file", lambda key: None)
    monkeypatch.setattr(store, "get_ranges", noted)
    assert file.read(["path"], [1, 2])["path"].to_pylist() == ["x"] * 8
    chunks = [file.footer.row_group(at).column(1) for at in (1, 2)]
    starts = [one.dictionary_page_offset or one.data_page_offset for one in chunks]
    end = starts[1] + chunks[1].total_compressed_size
    assert fetched == [[(file.part.path, starts[0], end - starts[0])]]


def test_a_file_of_an_import_has_a_path_of_its_own() -> None:
    """IMP-1: the number of its import is read along, to check the path."""
    paths = ["data/a.parquet", "p=1/part of another.parquet", "data/c.parquet"]
    imported = part(path=paths, **{"import": [None, 1, None]})
    for places in (np.array([1]), np.array([0, 1, 2])):
        for names in (["path"], ["path", "import"]):
            files, _ = stored(imported)
            found = files.take(places, names)
            assert found.column_names == names
            assert found["path"].to_pylist() == [paths[at] for at in places]
        none, _ = stored(part().drop_columns(["import"]))
        assert none.take(places, ["path"]).equals(part().select(["path"]).take(places))


@pytest.mark.parametrize(
    ("changed", "names", "reason"),
    [
        ({"extra": pa.array([1, 2, 3])}, ["path"], "'extra' is not a column of files"),
        ({"path": ["..", "data/b", "data/c"]}, ["path"], "the path '..' is refused"),
        ({"id": [5, 4, 6]}, ["id"], "its ids or versions differ from the root"),
        ({"rows": [3, 4, 4]}, ["rows"], "its number of rows differs from the root"),
        (
            {"lower_1": [2, 0, 3]},
            ["lower.1", "upper.1"],
            "'lower.1' outside the bounds in the root",
        ),
    ],
)
def test_each_check_of_a_segment_is_made_where_it_is_read(
    changed: dict[str, Any], names: list[str], reason: str
) -> None:
    """CKP-9: all files are read, or a few lines, which have no sums."""
    files, written = stored(part(**changed))
    with lost(written, reason):
        assert files.ids.size if names == ["id"] else files.columns(names)
    if "root" not in reason:
        files, written = stored(part(**changed))
        with lost(written, reason):
            files.take(np.array([0]), names)


@pytest.mark.parametrize("value", [None, "x", {}, [], 0.5, True, 1 << 70, "1e999", b"x"])
@pytest.mark.parametrize("field", [1, 2, 3])
def test_a_root_with_bounds_of_another_type_is_damaged(field: int, value: Any) -> None:
    """CKP-4, CKP-9: no error of a library, whichever value it is."""
    for known in ({"lower": value}, {"upper": value}, {"nulls": value}):
        for ask in ("columns", "summary"):
            files, _ = stored(part(), bounds={str(field): known})
            with suppress(LostCheckpointError):
                if ask == "columns":
                    files.columns(
                        [f"{group}.{field}" for group in ("partition", "lower", "upper", "nulls")]
                    )
                else:
                    files.summary(field, field == 2)


def test_a_segment_without_some_of_its_lines() -> None:
    """CKP-3: the lines in `gone` are no files; sums are those of all lines."""
    whole = part()
    files, _ = stored(whole, gone=BitMap64([1]))
    assert len(files) == 2
    assert files.ids.tolist() == [5, 7]
    assert files.added.tolist() == [2, 6]
    assert files.lines.tolist() == [0, 2]
    names = ["path", "rows", "lower.1"]
    assert files.columns(names).equals(whole.select(names).take([0, 2]).combine_chunks())
    assert files.find(np.array([4, 7, 5]))[0].tolist() == [1, 0]
    fewer = files.narrowed(np.array([1]))
    assert (fewer.ids.tolist(), len(fewer)) == ([7], 1)
    assert fewer.columns(names).equals(whole.select(names).take([2]).combine_chunks())


def test_the_summary_of_a_segment_is_the_roots() -> None:
    """CKP-4: a dropped column has none, and no column that the root does not describe."""
    files, _ = stored(part())
    for field, known in ((1, SEGMENT.bounds["1"]), (2, SEGMENT.bounds["2"]), (4, {}), (5, {})):
        found = files.summary(field, field == 2)
        assert {name: value.to_pylist() for name, value in found.items()} == {
            f"{name}.{field}": [value] for name, value in known.items()
        }
    bare, _ = stored(part(), bounds={})
    assert bare.summary(1, False) == {}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (DELETES.drop_columns(["rows"]), "does not have the columns of deleted rows"),
        (exchanged(DELETES, "rows", {0: 0}), "invalid number in 'rows'"),
        (exchanged(DELETES, "rows", {0: 2}), "differs from its entry"),
    ],
)
def test_each_check_of_deleted_rows_is_made_where_they_are_read(
    changed: pa.Table, reason: str
) -> None:
    """CKP-9: file 1 is live and has all three deleted rows that count; file 19 is not."""
    store, live = memory(), HeldColumns(np.array([1, 7]), np.array([0, 0]), part())
    sound = exchanged(DELETES, "rows", {0: 3})
    for table in (sound, changed):
        written = write_part(store, "1", table)
        deletes = StoredDeletes([PartFile(store, written)], [live], LIMITS)
        if table is sound:
            assert deletes.parts[0].rows.tolist() == [3, 5]
            assert deletes.parts[0].maps.column_names == ["file", "rows", "deleted", "updated"]
        else:
            with lost(written, reason):
                assert deletes.columns
        store.delete(written.path)


SUMMARIES: list[dict[str, Any]] = [
    {"1": {"lower": 1, "upper": 9, "nulls": 1}, "3": {"lower": 0.5, "upper": 2.5, "nulls": 0}},
    {"1": {"lower": 20, "upper": 29, "nulls": 0}, "3": {"lower": 0, "upper": 1, "nans": 0}},
    {"1": {"upper": 4}, "2": {"lower": "a", "upper": "c", "nulls": 0}},
    {"1": {"lower": 9, "upper": 1, "nulls": 12}, "2": {"lower": "x", "upper": "z"}},
    {"1": {"nulls": 12}},
    {},
]


@pytest.mark.parametrize(
    "condition",
    [
        "n = 5",
        "NOT (n <= 9 OR p <> 'b')",
        "n IS NULL",
        "n IS NOT NULL",
        "n <> 3",
        "n IN (1, 25)",
        "p LIKE 'x%'",
        "p NOT LIKE 'x%'",
        "x > 2",
        "x = double('nan')",
        "x < 0.5 OR n = 3",
    ],
)
def test_segments_checked_at_once_pass_as_one_by_one(condition: str) -> None:
    """PRN-4: a summary that lacks a value is unknown, whatever the summaries beside it have."""
    schema = Schema(tuple(LIMITS.fields.values()), 5)
    conjuncts, _ = parse_conjuncts(condition, schema, "UTC")
    predicate = And(tuple(conjuncts))
    whole = part()
    files = [
        stored(whole, bounds=bounds, rows=rows)[0] for bounds in SUMMARIES for rows in (12, None)
    ]
    single = [file.may_match(predicate, frozenset({2})) for file in files]
    together = StoredColumns.each_may_match(files, predicate, frozenset({2}))
    assert together.tolist() == single
    assert together[-2:].all()


def test_a_segment_of_a_wider_type_is_checked_in_its_type() -> None:
    """SCH-9: segments of two types, each with its own."""
    whole, wide = part(), Field(id=1, name="n", physical="n", type=Decimal(20, 0))
    files = [stored(whole)[0], stored(whole)[0].retyped(wide)]
    assert isinstance(files[1], StoredColumns)
    for value, matches in ((5, True), (50, False)):
        predicate = Comparison(wide, "=", decimal.Decimal(value))
        found = StoredColumns.each_may_match(files, predicate, frozenset())  # type: ignore[arg-type]
        # The other segment's bounds have another type, so they say nothing.
        assert found.tolist() == [True, matches]


def test_summaries_that_fit_no_table_are_checked_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PRN-4: and those of other types as before."""
    whole, wide = part(), Field(id=1, name="n", physical="n", type=Decimal(20, 0))
    (predicate,), _ = parse_conjuncts("n = 5", Schema(tuple(LIMITS.fields.values()), 5), "UTC")
    files = [stored(whole)[0], stored(whole)[0].retyped(wide), stored(whole)[0]]
    single = [file.may_match(predicate, frozenset()) for file in files]
    assert single[0]
    summaries = StoredColumns._summaries
    calls: list[int] = []

    def first_fails(some: Any, ids: Any) -> pa.Table:
        calls.append(len(some))
        if len(calls) == 1:
            raise pa.ArrowInvalid("too long")
        return summaries(some, ids)

    monkeypatch.setattr(StoredColumns, "_summaries", staticmethod(first_fails))
    found = StoredColumns.each_may_match(files, predicate, frozenset())  # type: ignore[arg-type]
    assert (found.tolist(), calls) == (single, [2, 1])


def test_a_damaged_summary_among_sound_ones_is_named() -> None:
    """CKP-6: the error names the segment, though all are checked at once."""
    (predicate,), _ = parse_conjuncts("n = 5", Schema(tuple(LIMITS.fields.values()), 5), "UTC")
    sound, (damaged, written) = stored(part())[0], stored(part(), bounds={"1": {"lower": "x"}})
    with lost(written, "does not fit its type"):
        StoredColumns.each_may_match([sound, damaged], predicate, frozenset())
