"""The digest of content: equal rows have one digest in any Arrow layout, other rows another.

Spec: CFL-6, CFL-7.
"""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tablefmt.errors import IdempotenceError
from tablefmt.model.content_hashes import differ
from tablefmt.session.statement import digest_of
from tests.scheduling import examples
from tests.tables import handle, new_table, rows

ROOT = Path(__file__).resolve().parents[2]

LEAVES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-3, 3) | st.sampled_from([2**62, -(2**63)])),
    "double": (
        pa.float64(),
        st.sampled_from([0.0, -0.0, 1.0, 0.1, float("nan"), float("inf"), 2.0**63, -(2.0**63)]),
    ),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ab", "é", "a\0"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"a", b"\0"])),
    "boolean": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(10, 2), st.decimals(-3, 3, places=2)),
    "date": (pa.date32(), st.sampled_from([dt.date(1, 1, 1), dt.date(1970, 1, 2)])),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.sampled_from([dt.datetime(2024, 1, n, tzinfo=dt.timezone.utc) for n in (1, 2)]),
    ),
}


def _types() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = inner.map(lambda p: (pa.list_(p[0]), st.lists(st.none() | p[1], max_size=2)))
        structs = st.tuples(inner, inner).map(
            lambda ps: (
                pa.struct([("x", ps[0][0]), ("y", ps[1][0])]),
                st.fixed_dictionaries({"x": st.none() | ps[0][1], "y": st.none() | ps[1][1]}),
            )
        )
        maps = inner.map(
            lambda p: (
                pa.map_(pa.string(), p[0]),
                st.dictionaries(st.sampled_from("ab"), st.none() | p[1], max_size=2).map(
                    lambda d: sorted(d.items())
                ),
            )
        )
        return lists | structs | maps

    return st.recursive(
        st.sampled_from(sorted(LEAVES)).map(LEAVES.__getitem__), nested, max_leaves=3
    )


@st.composite
def tables(draw: Any) -> pa.Table:
    """A column of some type, and one of numbers."""
    kind, values = draw(_types())
    held = draw(st.lists(st.none() | values, max_size=7))
    numbers = draw(st.lists(st.none() | st.integers(0, 3), min_size=len(held), max_size=len(held)))
    return pa.table({"v": pa.array(held, kind), "n": pa.array(numbers, pa.int64())})


def meaning(value: Any) -> Any:
    """A value as something that is equal exactly where the values are."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, dict):
        return tuple(sorted((k, meaning(v)) for k, v in value.items() if v is not None)), "struct"
    if isinstance(value, list | tuple):
        return tuple(map(meaning, value))
    return (isinstance(value, bool), value)


def told(table: pa.Table) -> Any:
    """All rows of a table so."""
    return [[(name, meaning(row[name])) for name in sorted(row)] for row in table.to_pylist()]


def digest(table: pa.Table) -> str:
    return digest_of(table.to_reader(), "WRITE")


def garbage(values: pa.Array) -> pa.Array:
    """The same values with others beneath the NULLs."""
    kind = values.type
    if values.null_count == 0 or len(values) == values.null_count or pa.types.is_boolean(kind):
        return values
    first = values.drop_null()[0]
    filled = pc.if_else(values.is_valid(), values, first)
    parts = filled.buffers()
    if len(parts) > 3 or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return values
    mask = pa.array(values.is_valid().to_pylist(), pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [mask, *parts[1:]], offset=filled.offset)


def nested_garbage(values: pa.Array) -> pa.Array:
    """Structs and lists with parts beneath their NULLs."""
    kind = values.type
    if values.null_count == 0:
        return values
    mask = values.is_null()
    if pa.types.is_struct(kind):
        present = values.drop_null()
        if not len(present):
            return values
        full = pc.if_else(values.is_valid(), values, present[0])
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(full.flatten(), fields=fields, mask=mask)
    if pa.types.is_list(kind) and len(values.drop_null()):
        full = pc.if_else(values.is_valid(), values, values.drop_null()[0])
        full = pa.concat_arrays([full])
        return pa.ListArray.from_arrays(full.offsets, full.values, kind, mask=mask)
    return values


def by_columns(change: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    def run(table: pa.Table) -> pa.Table:
        return pa.table(
            {
                name: pa.chunked_array([change(c) for c in column.chunks] or [], None)
                if column.chunks
                else column
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
        )

    return run


def sliced(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table, table]).combine_chunks().slice(len(table), len(table))


def chunked(table: pa.Table) -> pa.Table:
    return pa.Table.from_batches(table.to_batches(max_chunksize=2), table.schema)


def encoded(values: pa.Array) -> pa.Array:
    return values if pa.types.is_nested(values.type) else values.dictionary_encode()


OTHERS = {
    pa.string(): [pa.large_string(), pa.string_view()],
    pa.binary(): [pa.large_binary(), pa.binary_view()],
    pa.timestamp("us", "UTC"): [pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("s", "UTC")],
    pa.decimal128(10, 2): [pa.decimal128(38, 20), pa.decimal256(70, 3)],
    pa.date32(): [pa.date64()],
}


def cast(at: int) -> Callable[[pa.Array], pa.Array]:
    def run(values: pa.Array) -> pa.Array:
        others = OTHERS.get(values.type, [values.type])
        return values.cast(others[at % len(others)])

    return run


def large_lists(values: pa.Array) -> pa.Array:
    if not pa.types.is_list(values.type):
        return values
    return values.cast(pa.large_list(values.type.value_field))


HELD: dict[str, Callable[[pa.Table], pa.Table]] = {
    "in chunks": chunked,
    "as a slice": sliced,
    "as slices of chunks": lambda t: chunked(sliced(t)),
    "over garbage": by_columns(garbage),
    "over nested garbage": by_columns(nested_garbage),
    "as dictionaries": by_columns(encoded),
    "of another type": by_columns(cast(0)),
    "of yet another type": by_columns(cast(1)),
    "as large lists": by_columns(large_lists),
    "in another order": lambda t: t.select(["n", "v"]),
    "under other names": lambda t: t.rename_columns(["V", "N"]),
    "with metadata": lambda t: t.replace_schema_metadata({"pandas": "{}"}),
    "NOT NULL": lambda t: (
        t
        if t["n"].null_count
        else t.cast(pa.schema([t.schema.field("v"), pa.field("n", pa.int64(), nullable=False)]))
    ),
}


@pytest.mark.slow
@examples(80)
@given(tables())
def test_equal_rows_have_one_digest_however_they_are_held(table: pa.Table) -> None:
    """CFL-7: the digest is of values."""
    expected = digest(table)
    for name, held in HELD.items():
        other = held(table)
        assert digest(other) == expected, name


@pytest.mark.slow
@examples(120)
@given(st.data())
def test_digests_are_equal_exactly_where_rows_are(data: st.DataObject) -> None:
    """CFL-7: compared in Python."""
    one = data.draw(tables())
    other = data.draw(tables())
    same_kind = data.draw(st.booleans())
    if same_kind and len(one):
        at = data.draw(st.lists(st.integers(0, len(one) - 1), max_size=7))
        other = one.take(pa.array(at, pa.int64()))
    kinds = {str(each.schema.field("v").type) for each in (one, other)}
    # In Python a map is a list of pairs.
    assume(len(kinds) == 1 or not any("map" in kind for kind in kinds))
    assert (digest(one) == digest(other)) == (told(one) == told(other))


PAIRS: list[tuple[bool, Any, Any]] = [
    (True, pa.array([1, None]), pa.array([1.0, None])),
    (True, pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.uint64())),
    (True, pa.array([1, 2]), pa.array([Decimal("1.00"), Decimal("2.00")])),
    (True, pa.array([None, None]), pa.array([None, None], pa.list_(pa.string()))),
    (True, pa.array([0.0]), pa.array([-0.0])),
    (True, pa.array([0.5], pa.float32()), pa.array([0.5])),
    (
        True,
        pa.array(np.array([0x7FF8000000000000], np.int64).view(np.float64), from_pandas=False),
        pa.array(np.array([0x7FF8000000000123], np.int64).view(np.float64), from_pandas=False),
    ),
    (True, pa.array([{"x": 1}]), pa.array([{"x": 1, "y": None}])),
    (True, pa.array([{"x": 1, "y": 2}]), pa.array([{"Y": 2, "x": 1}])),
    (True, pa.array([[1], None]), pa.array([[1], None], pa.list_view(pa.int32()))),
    (True, pa.array([[1, 2]]), pa.array([[1, 2]], pa.list_(pa.int64(), 2))),
    (True, pa.array([b"ab"]), pa.array([b"ab"], pa.binary(2))),
    (False, pa.array([0.1], pa.float32()), pa.array([0.1])),
    (False, pa.array([1.5]), pa.array([1])),
    (False, pa.array([2**64 - 1], pa.uint64()), pa.array([-1])),
    (False, pa.array([float("nan")]), pa.array([None], pa.float64())),
    (False, pa.array([True]), pa.array([1])),
    (False, pa.array(["1"]), pa.array([1])),
    (False, pa.array(["a"]), pa.array([b"a"])),
    (False, pa.array([[]], pa.list_(pa.int32())), pa.array([None], pa.list_(pa.int32()))),
    (False, pa.array([["a", "b"]]), pa.array([["ab"]])),
    (False, pa.array(["a", "bc"]), pa.array(["ab", "c"])),
    (False, pa.array([[1], [2, 3]]), pa.array([[1, 2], [3]])),
    (False, pa.array([1, 2]), pa.array([2, 1])),
    (False, pa.array([1, None]), pa.array([None, 1])),
    (
        False,
        pa.array([1_700_000_000_000_000_001], pa.timestamp("ns")),
        pa.array([1_700_000_000_000_000_000], pa.timestamp("ns")),
    ),
    (False, pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
    (False, pa.array([{"x": None}]), pa.array([None], pa.struct([("x", pa.int64())]))),
]


@pytest.mark.parametrize(("same", "one", "other"), PAIRS)
def test_what_counts_as_equal(same: bool, one: pa.Array, other: pa.Array) -> None:
    """CFL-7: one zero, one NaN; numbers across types; a field that is NULL or not there."""
    assert (digest(pa.table({"v": one})) == digest(pa.table({"v": other}))) is same


def test_columns_and_rows_are_told_apart() -> None:
    """CFL-7."""
    one = pa.table({"a": [1], "b": [2]})
    others = [
        pa.table({"a": [2], "b": [1]}),
        pa.table({"a": [1]}),
        pa.table({"a": [1, 1], "b": [2, 2]}),
        pa.table({"a": [1], "c": [2]}),
        one.slice(0, 0),
    ]
    found = [digest(each) for each in (one, *others)]
    assert len(set(found)) == len(found)
    assert digest_of(one.to_reader(), "A") != digest_of(one.to_reader(), "B")


def test_a_frame_and_a_table_are_one_content() -> None:
    """CFL-7: integers that pandas keeps as floats because of a NULL, text, times."""
    table = new_table()
    data = pa.table({"id": [1, None, 3], "p": ["x", None, ""]})
    assert data.to_pandas()["id"].dtype == np.float64
    first = table.append(data, application=("job", 1))
    for again in (data.to_pandas(), chunked(data), data.select(["p", "id"]), data.to_reader()):
        commit_result = table.append(again, application=("job", 1))
        assert (commit_result.already_applied, commit_result.version) == (True, first.version)
    with pytest.raises(IdempotenceError):
        table.append(pa.table({"id": [1, None, 4], "p": ["x", None, ""]}), application=("job", 1))


OLD_ROWS = "ab" * 32
OLD_TEXT = hashlib.sha256(b"DELETE\0id = 1").hexdigest()
TEXT = digest_of(None, "DELETE", "id = 1")


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        (None, "rows:1", False),
        ("rows:1", "rows:1", False),
        ("rows:1", "rows:2", True),
        ("rows:1", "text:1", True),
        (OLD_ROWS, "rows:1", False),
        (OLD_ROWS, TEXT, True),
        (OLD_TEXT, TEXT, False),
        (OLD_TEXT, OLD_ROWS, True),
        ("another:1", "rows:1", False),
        ("another:1", OLD_ROWS, False),
        # STR-12: digests of streams. Two runs in a race always differ.
        ("run:a", "run:b", True),
        ("run:a/1", "run:b/1", True),
        ("run:a/1", "batch:1", False),
        ("run:a/1", "batch:2", True),
        ("run:a", "batch:1", False),
        ("batch:1", "batch:2", True),
        ("batch:1", "rows:1", False),
        ("batch:1", TEXT, False),
        ("batch:1", OLD_ROWS, False),
    ],
)
def test_which_digests_are_of_other_content(
    one: str | None, other: str | None, differs: bool
) -> None:
    """CFL-7: row digests of older writers are not compared with those of now."""
    assert differ(one, other) is differ(other, one) is differs


def test_rows_with_an_application_version_are_not_all_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """CFL-7: read once where it is new, and not at all where it is older than the last one."""
    table = new_table()

    def stream() -> pa.RecordBatchReader:
        batches = (rows(n).to_batches()[0] for n in range(3))
        return pa.RecordBatchReader.from_batches(rows().schema, batches)

    assert table.append(stream(), application=("job", 2)).version == 1
    assert table.append(stream(), application=("job", 2)).already_applied
    older = stream()
    assert table.append(older, application=("job", 1)).already_applied
    assert older.read_all().num_rows == 3
    assert handle(table.context.store).scan().count() == 3


def framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part


def eight(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


class Streams:
    """The values of a column as CFL-23 has them: one by one, without Arrow."""

    def __init__(self) -> None:
        self.streams: dict[str, bytes] = {}
        self.parts: dict[str, Streams] = {}

    def add(self, name: str, more: bytes) -> None:
        self.streams[name] = self.streams.get(name, b"") + more

    def part(self, name: str) -> Streams:
        return self.parts.setdefault(name, Streams())

    def digest(self) -> bytes:
        raw = b""
        for name in sorted(self.streams):
            if self.streams[name]:
                raw += framed(name.encode()) + hashlib.sha256(self.streams[name]).digest()
        for name in sorted(self.parts):
            if self.parts[name].streams["kinds"].strip(b"\0"):
                raw += framed(f".{name}".encode()) + self.parts[name].digest()
        return hashlib.sha256(raw).digest()

    def take(self, value: Any, kind: pa.DataType) -> None:
        self.add("kinds", bytes([0 if value is None else self.present(value, kind)]))

    def present(self, value: Any, kind: pa.DataType) -> int:
        if pa.types.is_struct(kind):
            for field in kind:
                self.part(field.name.casefold()).take(value[field.name], field.type)
            return 13
        if pa.types.is_map(kind):
            self.add("lengths", eight(len(value)))
            for key, item in value:
                self.part("key").take(key, kind.key_type)
                self.part("value").take(item, kind.item_type)
            return 14
        if pa.types.is_list(kind):
            self.add("lengths", eight(len(value)))
            for item in value:
                self.part("element").take(item, kind.value_type)
            return 12
        return self.flat(value)

    def flat(self, value: Any) -> int:
        if isinstance(value, str | bytes):
            raw = value.encode() if isinstance(value, str) else value
            self.add("lengths", eight(len(raw)))
            self.add("bytes", raw)
            return 5 if isinstance(value, str) else 6
        if isinstance(value, bool):
            self.add("booleans", bytes([value]))
            return 1
        if isinstance(value, dt.datetime):
            epoch = dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)
            self.add("times", eight((value - epoch) // dt.timedelta(microseconds=1)))
            return 10 if value.tzinfo is None else 8
        if isinstance(value, dt.date):
            days = (value - dt.date(1970, 1, 1)).days
            self.add("dates", days.to_bytes(4, "little", signed=True))
            return 7
        if value == value and abs(value) <= 2**63 and value % 1 == 0 and value < 2**63:
            self.add("integers", eight(int(value)))
            return 2
        if isinstance(value, Decimal):
            self.add("decimals", int(value.scaleb(38)).to_bytes(32, "little", signed=True))
            return 4
        raw = struct.pack("<d", value) if value == value else bytes.fromhex("000000000000f87f")
        self.add("floats", raw)
        return 3


def by_the_page(table: pa.Table, *texts: str) -> str:
    """Return the digest of rows by the rule in spec/conflicts.md."""
    raw = table.num_rows.to_bytes(8, "little")
    for field in sorted(table.schema, key=lambda field: field.name.casefold().encode()):
        column = Streams()
        for value in table[field.name].to_pylist():
            column.take(value, field.type)
        raw += framed(field.name.casefold().encode() + b"\x000") + column.digest()
    return "rows:" + hashlib.sha256(raw + "\0".join(texts).encode()).hexdigest()


@examples(80)
@given(tables(), st.lists(st.sampled_from(["", "WRITE", "é", "a = 1"]), max_size=2))
def test_who_has_only_the_page_makes_the_same_digest(table: pa.Table, texts: list[str]) -> None:
    """CFL-23: every byte of it."""
    with decimal.localcontext(decimal.Context(prec=100)):
        assert digest_of(table.to_reader(), *texts) == by_the_page(table, *texts)
        odd = table.rename_columns(["Ünï Straße", "N"])
        assert digest_of(odd.to_reader(), *texts) == by_the_page(odd, *texts)


def test_digests_that_are_published() -> None:
    """CFL-23: the page has these examples."""
    page = (ROOT / "spec" / "conflicts.md").read_text(encoding="utf-8")
    table = pa.table({"id": pa.array([1, None], pa.int64()), "p": ["a", "é"]})
    published = re.findall(r"`((?:rows|text):[0-9a-f]{64})`", page)
    assert published == [digest_of(table.to_reader(), "WRITE"), digest_of(None, "DELETE", "TRUE")]


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (lambda t, a: t.append(rows(2), application=a), None),
        (lambda t, a: t.delete("id  = 1", application=a), ["DELETE", "`id` = 1"]),
        (lambda t, a: t.delete(application=a), ["DELETE", "TRUE"]),
        (
            lambda t, a: t.update({"p": "'x'", "id": "id + 1"}, "id = 1", application=a),
            ["UPDATE", "`id` = 1", "p\0'x'", "id\0id + 1"],
        ),
        (lambda t, a: t.truncate(application=a), ["TRUNCATE", "None", "False"]),
        (
            lambda t, a: t.alter.set_properties({"user.b": "é", "user.a": 1}, application=a),
            ["SET TBLPROPERTIES", '{"properties":{"user.a":"1","user.b":"é"}}'],
        ),
    ],
)
def test_texts_of_statements_are_those_of_the_page(change: Any, texts: list[str] | None) -> None:
    """CFL-23."""
    table = new_table()
    table.append(rows(1))
    change(table, ("app", 1))
    digest = handle(table.context.store).context.view.head.applications["app"][0].digest
    whole = by_the_page(rows(2), "WRITE")
    if texts is not None:
        whole = "text:" + hashlib.sha256("\0".join(texts).encode()).hexdigest()
    assert digest == whole


def test_texts_of_a_merge_and_of_an_overwrite_are_those_of_the_page() -> None:
    """CFL-23."""
    table = new_table(partitioned=True)
    table.append(rows(1))
    merge = table.merge(rows(1), "t.id = s.id").when_matched_update({"p": "'é'"}, "t.id > 0")
    merge.when_not_matched_insert_all().execute(application=("merge", 1))
    table.overwrite(rows(5), where="p = 'a'", application=("where", 1))
    table.overwrite(rows(5), dynamic_partitions=True, application=("dynamic", 1))
    applied = handle(table.context.store).context.view.head.applications
    clauses = [
        '["matched","update","t.id > 0",[["p","\'é\'"]]]',
        '["not_matched","insert",null,null]',
    ]
    assert applied["merge"][0].digest == by_the_page(
        rows(1), "MERGE", "t.id = s.id", "s", "t", "False", *clauses
    )
    replaced = ("OVERWRITE", "p = 'a'", "False"), ("OVERWRITE", "None", "True")
    for name, texts in zip(("where", "dynamic"), replaced, strict=True):
        assert applied[name][0].digest == by_the_page(rows(5), *texts)


def odd(condition: pc.Expression) -> pc.Expression:
    """The same rows, by what is no predicate."""
    return condition & (pc.add(pc.field("id"), 1) > 0)


LONG = "length(p) = 1 AND p <> '" + "x" * 2000

Change = Callable[[Any, Any, tuple[str, int]], Any]


@pytest.mark.parametrize(
    "change",
    [
        lambda t, where, a: t.delete(where, application=a),
        lambda t, where, a: t.update({"p": "'y'"}, where, application=a),
        lambda t, where, a: t.overwrite(rows(8, p="z"), where=where, application=a),
    ],
)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{LONG}1'", f"{LONG}2'"),
        (f"{LONG}1'", f"{LONG}11'"),
        *[
            (odd(pc.field(c).isin([0, *ids])), odd(pc.field(c).isin([0, *ids[:500], *ids[501:]])))
            for ids in [list(range(8, 2000))]
            for c in ("id", 0)
        ],
        (
            odd(~pc.field("p").isin(["x" * 200 + "1"])),
            odd(~pc.field("p").isin(["x" * 200 + "2"])),
        ),
    ],
    ids=["end", "length", "list", "list-by-place", "text-in-list"],
)
def test_conditions_that_begin_alike_are_not_one_content(
    change: Change, one: Any, other: Any
) -> None:
    """CFL-23: the digest covers the whole condition, also the part that is cut for display."""
    table = new_table()
    table.append(rows(0, 1))
    before = change(table, one, ("app", 1)).version
    assert change(table, one, ("app", 1)).already_applied
    with pytest.raises(IdempotenceError):
        change(table, other, ("app", 1))
    assert handle(table.context.store).version == before


def test_a_long_condition_is_kept_as_the_page_says() -> None:
    """CFL-23: its beginning, and what tells it from others."""
    table = new_table()
    table.append(rows(1))
    where = f"{LONG}'"
    table.delete(where, application=("app", 1))
    (parameters,) = table.history(limit=1).column("operationParameters").to_pylist()
    kept = f"{where[:1000]} … SHA-256 {hashlib.sha256(where.encode()).hexdigest()}"
    assert dict(parameters)["predicate"] == kept
    digest = handle(table.context.store).context.view.head.applications["app"][0].digest
    assert digest == "text:" + hashlib.sha256(f"DELETE\0{kept}".encode()).hexdigest()


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(18, 0),
        pa.decimal128(18, 17),
        pa.decimal128(1, 0),
        pa.decimal256(9, 4),
        pa.decimal64(18, 9),
        pa.decimal32(9, 2),
    ],
    ids=str,
)
def test_decimals_of_few_digits_are_what_they_are_with_many(kind: pa.DataType) -> None:
    """CFL-23: whole ones are integers, in slices, with NULLs, of every width."""
    most, one = 10**kind.precision - 1, 10**kind.scale
    unscaled = [
        0,
        most,
        -most,
        one,
        -one,
        None,
        one - 1,
        -1,
        min(most, 7 * one),
        min(most, one + 1),
    ]
    unit = Decimal(1).scaleb(-kind.scale)
    exact = [None if v is None else v * unit for v in unscaled]
    wide = pa.array(exact, pa.decimal128(38, kind.scale))
    narrow = wide.cast(kind)
    for part in (slice(0, 10), slice(3, 8), slice(5, 6), slice(0, 0)):
        tables = [pa.table({"d": values[part]}) for values in (narrow, wide)]
        few, many = (digest_of(table.to_reader()) for table in tables)
        assert few == many
        assert few == by_the_page(tables[1])
