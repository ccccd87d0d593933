"""Bytes and entries: one form only, and nothing else is read. Checked with json and hashlib."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import CorruptEntryError, UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from
from tablefmt.log import codec
from tablefmt.log.codec import decode, encode
from tablefmt.model.log_entry import (
    AddedFiles,
    ApplicationTransaction,
    Basis,
    Constraint,
    Entry,
    Lineage,
    Metadata,
    Operation,
    OperationClass,
    OverflowFile,
    PartitionScope,
    PredicateScope,
    ProtocolFeatures,
    RowDeletes,
    RowUpdate,
    Totals,
)
from tablefmt.model.times import MICROS_MAX, MICROS_MIN
from tablefmt.session.transaction_snapshot import joined
from tests.scheduling import examples

TABLE, TRANSACTION = "ab" * 16, "0f" * 16
SCHEMA = schema_from("id BIGINT, p STRING, s STRUCT<a: INT, b: ARRAY<DECIMAL(5,2)>>")


def entry(version: int = 3, **changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "table": TABLE,
        "version": version,
        "timestamp": 1_700_000_000_000_000,
        "time_version": 1_700_000_000_000_000,
        "transaction": TRANSACTION,
        "previous": "0" * 64 if version else None,
        "operation": Operation(name="WRITE", cls=OperationClass.INSERT),
        "basis": Basis(
            read_version=2, isolation="WriteSerializable", granularity="row", blind=True
        ),
        "totals": Totals(files=1, rows=1, bytes=1, next_id=2, metadata_version=0),
        "protocol": ProtocolFeatures() if version == 0 else None,
        "metadata": Metadata(SCHEMA, (2,)) if version == 0 else None,
    }
    return Entry(**{**fields, **changes})


ADD = AddedFiles(
    {
        "path": [f"data/{TRANSACTION}/0.parquet", f"data/{TRANSACTION}/1.parquet"],
        "size": [100, 200],
        "rows": [1, 0],
        "partition.2": ["é\u2028", None],
        "lower.1": [1, None],
        "nulls.1": [0, 0],
    }
)
REAL = entry(
    add=ADD,
    remove=[4, 9],
    application=ApplicationTransaction("app", 7, "d"),
    user_metadata={"a": 1},
)


def document(of: Entry = REAL) -> dict[str, Any]:
    return json.loads(encode(of))


def signed(value: Any) -> bytes:
    """Return the value as another writer might store it: canonical, and with the right checksum."""
    value = (
        {k: v for k, v in value.items() if k != "checksum"} if isinstance(value, dict) else value
    )
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sealed(text.encode())


def sealed(body: bytes) -> bytes:
    start = body[:-1]
    return start + b',"checksum":"' + hashlib.sha256(start).hexdigest().encode() + b'"}'


def refused(body: bytes, version: int = 3) -> str:
    """The rule by which the bytes are refused."""
    with pytest.raises(CorruptEntryError) as caught:
        decode(body, version)
    assert caught.value.key == f"_log/{version:020d}.json"
    return caught.value.rule


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGER = st.integers(-(2**63), 2**63 - 1)
NATURAL = st.integers(0, 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGER | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
HEX32 = st.text("0123456789abcdef", min_size=32, max_size=32)


@st.composite
def added(draw: st.DrawFn, version: int) -> AddedFiles:
    count = draw(st.integers(1, 4))
    columns = {
        "path": [f"data/{TRANSACTION}/{i} %2F é.parquet" for i in range(count)],
        "size": draw(st.lists(st.integers(1, 2**63 - 1), min_size=count, max_size=count)),
        "rows": draw(st.lists(st.integers(0, 2**63 - 1), min_size=count, max_size=count)),
    }
    scalars = st.none() | st.booleans() | INTEGER | TEXT
    names = st.tuples(
        st.sampled_from(["partition", "lower", "upper", "nulls", "nans"]), st.integers(1, 99)
    )
    if draw(st.booleans()):
        columns["updated"] = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        columns["keys"] = draw(st.lists(st.none() | TEXT, min_size=count, max_size=count))
        versions = st.none() | st.integers(0, version)
        columns["written"] = draw(st.lists(versions, min_size=count, max_size=count))
    for group, field in draw(st.sets(names, max_size=4)):
        columns[f"{group}.{field}"] = draw(st.lists(scalars, min_size=count, max_size=count))
    return AddedFiles(columns)  # type: ignore[arg-type]


@st.composite
def deletes(draw: st.DrawFn) -> RowDeletes:
    files = sorted(draw(st.sets(st.integers(1, 2**63 - 1), min_size=1, max_size=3)))
    rows = draw(st.lists(st.integers(1, 2**63 - 1), min_size=len(files), max_size=len(files)))
    sets = st.tuples(TEXT, st.none() | TEXT) | st.tuples(st.none() | TEXT, TEXT)
    both = draw(st.lists(sets, min_size=len(files), max_size=len(files)))
    return RowDeletes(files, rows, [b[0] for b in both], [b[1] for b in both])


@st.composite
def lineages(draw: st.DrawFn, add: Any) -> Lineage | None:
    if add is None:
        return None
    outputs = sorted(draw(st.lists(st.integers(0, len(add) - 1), min_size=1, max_size=4)))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=len(outputs), max_size=len(outputs)))

    return Lineage(
        outputs,
        column(st.integers(1, 2**62)),
        column(st.integers(0, 2**63 - 1)),
        column(st.integers(1, 2**63 - 1)),
        column(st.none() | TEXT),
    )


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    version = draw(st.sampled_from([0, 1, 2**62]))
    scopes = (
        st.none()
        | st.builds(PredicateScope, TEXT)
        | st.builds(PartitionScope, st.lists(st.tuples(INTEGER, TEXT), max_size=3).map(tuple))
    )
    removed = tuple(sorted(draw(st.sets(st.integers(1, 2**63 - 1), max_size=3))))
    overflow = OverflowFile(f"_log/side/{TRANSACTION}.parquet", 3, 99, "a" * 64)
    add = draw(st.none() | added(version) | st.just(overflow))
    aside = OverflowFile(f"deletes/{TRANSACTION}.parquet", 1, 1, "b" * 64)
    ids = st.lists(st.integers(1, 2**63 - 1), unique=True, max_size=3)
    chosen = st.none() | ids.map(sorted).map(tuple)
    return entry(
        version,
        table=draw(HEX32),
        transaction=draw(HEX32),
        timestamp=draw(st.integers(MICROS_MIN, MICROS_MAX)),
        time_version=draw(st.integers(MICROS_MIN, MICROS_MAX)),
        operation=Operation(
            name=draw(TEXT),
            cls=draw(st.sampled_from(OperationClass)),
            parameters=draw(st.dictionaries(TEXT, JSON, max_size=2)),
            metrics=draw(st.dictionaries(TEXT, INTEGER, max_size=2)),
        ),
        basis=Basis(
            read_version=draw(st.none() | st.integers(0, 2**63 - 1)),
            isolation=draw(st.sampled_from(["WriteSerializable", "Serializable"])),
            granularity=draw(st.sampled_from(["row", "file", "transaction"])),
            blind=draw(st.booleans()),
            scope=draw(scopes),
            predicate=draw(st.none() | TEXT),
        ),
        totals=draw(
            st.builds(
                Totals,
                files=NATURAL,
                rows=NATURAL,
                bytes=NATURAL,
                next_id=st.integers(2**62 + 9, 2**63 - 1),
                metadata_version=NATURAL,
                deleted=NATURAL,
            )
        ),
        add=add,
        remove=removed,
        delete=draw(st.none() | deletes() | st.just(aside)),
        lineage=draw(st.none() | lineages(add)),
        update=draw(st.none() | st.builds(RowUpdate, chosen, ids.map(tuple))),
        application=draw(
            st.none() | st.builds(ApplicationTransaction, TEXT, INTEGER, st.none() | TEXT)
        ),
        user_metadata=draw(st.dictionaries(TEXT, JSON, max_size=2)),
        unknown=draw(st.dictionaries(TEXT.map(lambda key: f"x_{key}"), JSON, max_size=2)),
    )


@pytest.mark.slow
@examples(150)
@given(given_entry=entries())
def test_what_is_encoded_is_decoded_and_encoded_the_same(given_entry: Entry) -> None:
    """ENT-1, ENT-3, ENT-9, ADD-8, DEL-1, DEL-3, LIN-1, VER-2: one form; what is ignored is kept."""
    body = encode(given_entry)
    stored = decode(body, given_entry.version)
    assert stored.entry == given_entry
    assert stored.digest == hashlib.sha256(body).hexdigest()
    assert encode(stored.entry) == body


def test_the_bytes_are_those_that_json_and_hashlib_make() -> None:
    """ENT-1: sorted keys, no white space, checksum last over what is before it."""
    body = encode(REAL)
    text = body.decode()
    value = json.loads(text)
    assert list(value)[-1] == "checksum"
    start = text[: text.index(',"checksum":"')]
    assert value["checksum"] == hashlib.sha256(start.encode()).hexdigest()
    assert signed(value) == body
    assert value["add"] == {
        "lower": {"1": [1, None]},
        "nulls": {"1": [0, 0]},
        "partition": {"2": ["é\u2028", None]},
        "path": [f"data/{TRANSACTION}/0.parquet", f"data/{TRANSACTION}/1.parquet"],
        "rows": [1, 0],
        "size": [100, 200],
    }


def test_every_prefix_of_an_entry_is_refused() -> None:
    """ENT-1."""
    body = encode(REAL)
    assert {refused(body[:length]) for length in range(len(body))} == {"ENT-1"}


def test_every_flipped_bit_is_refused() -> None:
    """ENT-1: one flipped bit in every byte, and bytes after the end."""
    body = encode(REAL)
    for at in range(len(body)):
        flipped = bytearray(body)
        flipped[at] ^= 1 << at % 8
        assert refused(bytes(flipped)) == "ENT-1"
    assert {refused(body + more) for more in (b"\n", b" ", b"\0", body)} == {"ENT-1"}


MORE = b'"version":3,"x_zz":'


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.replace(b'"rows":[1,0]', b'"rows":[1,0],"rows":[1,0]'),
        lambda b: b.replace(b'"rows":[1,0]', b'"rows":[1,0],"r\\u006fws":[1,0]'),
        lambda b: b.replace(b'"format":1', b'"format":1.0'),
        lambda b: b.replace(b'"version":3', MORE + b"18446744073709551616"),
        lambda b: b.replace(b'"version":3', MORE + b" 9223372036854775808"),
        lambda b: b.replace(b'"version":3', MORE + b"1" + b"0" * 300),
        lambda b: b.replace(b'"version":3', MORE + b"1e400"),
        lambda b: b.replace(b'"version":3', MORE + b"NaN"),
        lambda b: b.replace(b'"version":3', MORE + b'"\\ud800"'),
        lambda b: b.replace(b'"version":3', MORE + b'"\xff"'),
        lambda b: b.replace(b'"version":3', b'"version":3,"checksum":1'),
        lambda b: b.replace(b'"version":3', MORE + b"[ " * 200 + b"]" * 200),
        lambda b: b"[" + b + b"]",
        lambda b: b"{}",
        lambda b: b"null ",
        lambda b: b"\xef\xbb\xbf" + b,
    ],
)
def test_what_is_no_text_of_an_entry_is_refused_though_its_checksum_is_right(change: Any) -> None:
    """ENT-1, ENT-2, ENT-3."""
    body = encode(REAL)
    bare = body[:-79] + b"}"
    changed = change(bare)
    assert changed != bare
    assert refused(sealed(changed)) in {"ENT-1", "ENT-2", "ENT-3"}


@pytest.mark.slow
@examples(100)
@given(
    given_entry=entries(), blank=st.sampled_from(["", " ", "\t", "\n"]), escapes=st.booleans(),
    backwards=st.booleans(),
)  # fmt: skip
def test_any_json_text_of_an_entry_is_read_as_the_same(
    given_entry: Entry, blank: str, escapes: bool, backwards: bool
) -> None:
    """ENT-1: escapes, white space, the order of keys and the text of doubles say nothing."""
    value = json.loads(encode(given_entry))
    del value["checksum"]
    ordered = dict(reversed(value.items())) if backwards else value
    separators = ("," + blank, blank + ":")
    text = json.dumps(ordered, ensure_ascii=escapes, separators=separators)
    stored = decode(sealed(text.encode()), given_entry.version)
    assert stored.entry == given_entry
    assert encode(stored.entry) == encode(given_entry)


PATHS = [
    "../../etc/passwd",
    "data/../../etc/passwd",
    "/etc/passwd",
    "s3://other/x",
    "file:///etc/passwd",
    "http://169.254.169.254/latest",
    "%2e%2e/x",
    "data//x",
    "data/x/",
    "data/",
    "data",
    "data/./x",
    "data\\x",
    "data/a\\b",
    "data/\0",
    "data/\x85",
    "data/\n",
    "_log/00000000000000000000.json",
    "DATA/x",
    "data/" + "x" * 1020,
    "data/" + "é" * 510,
    "",
    7,
    None,
    ["data/x"],
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leaves_the_table_is_refused(path: object) -> None:
    """KEY-2."""
    value = document()
    value["add"]["path"][1] = path
    assert refused(signed(value)) in {"KEY-2", "ADD-1"}


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        ("updated", [True, None], "ADD-1"),
        ("updated", [True], "ADD-1"),
        ("keys", [None, 1], "ADD-8"),
        ("written", [0, 4], "ADD-9"),
        ("written", [None, -1], "ADD-9"),
        ("written", [True, 0], "ADD-9"),
        ("written", [0], "ADD-1"),
        ("footer", [None, -1], "ADD-7"),
        ("size", [0, 1], "ADD-1"),
        ("rows", [1, None], "ADD-1"),
        ("path", ["data/a", "data/a"], "ADD-1"),
        ("path", ["data/a", "/etc/passwd"], "KEY-2"),
        ("lower.1", [1, [2]], "ADD-1"),
    ],
)
def test_what_readers_would_refuse_is_not_written(
    column: str, values: list[Any], rule: str
) -> None:
    """The encoder has the decoder's opinion: a writer at fault spares the table."""
    files = AddedFiles({**ADD.columns, column: values})
    with pytest.raises(CorruptEntryError) as caught:
        encode(entry(add=files))
    assert caught.value.rule == rule


def test_files_of_which_some_are_flagged_are_encoded_whole() -> None:
    """ADD-1: parts of one commit that do not all say of what kind their rows are."""
    plain = AddedFiles({"path": ["data/a"], "size": [1], "rows": [1]})
    new = AddedFiles({"path": ["data/b"], "size": [1], "rows": [1], "updated": [True]})
    whole = joined([plain, None, new])
    found = decode(encode(entry(add=whole)), 3).entry.add
    assert isinstance(found, AddedFiles)
    assert found.columns["updated"] == [False, True]


def test_a_path_is_used_as_it_stands() -> None:
    """KEY-2: percent signs, dots within names and any letter are plain characters."""
    value = document()
    paths = ["data/%2e%2e/..x/日本 😀+=%2F", "data/" + "x" * 1019]
    value["add"]["path"] = paths
    stored = decode(signed(value), 3)
    assert stored.entry.add is not None
    assert stored.entry.add.columns["path"] == paths


def test_a_newer_format_is_refused_by_its_number() -> None:
    """ENT-3: it may be in any form."""
    body = sealed(b'{"format":2, "new":[]}')
    with pytest.raises(UnsupportedFeatureError, match=r"format:2.*Upgrade") as caught:
        decode(body, 3)
    assert caught.value.features == ["format:2"]


def test_an_entry_under_another_name_is_refused() -> None:
    """ENT-3: renamed or copied."""
    with pytest.raises(CorruptEntryError, match="renamed or copied") as caught:
        decode(encode(REAL), 4)
    assert caught.value.rule == "ENT-3"


def test_an_entry_beyond_the_limit_is_neither_read_nor_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ENT-2: length, before anything is parsed."""
    body = encode(REAL)
    monkeypatch.setattr(codec, "ENTRY_BYTES_MAX", len(body) - 1)
    assert refused(body) == "ENT-2"
    with pytest.raises(UnsupportedFeatureError, match="smaller pieces"):
        encode(REAL)


@pytest.mark.parametrize(
    ("levels", "fine"), [(127, True), (128, False), (253, False), (900, False)]
)
def test_nesting_has_a_limit(levels: int, fine: bool) -> None:
    """ENT-2: 128 levels, the outermost object included."""
    body = encode(REAL)[:-79] + b',"x_z":' + b"[" * levels + b"]" * levels + b"}"
    if fine:
        assert decode(sealed(body), 3).version == 3
    else:
        assert refused(sealed(body)) == "ENT-2"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64 - 1])
def test_an_integer_beyond_64_bits_is_refused_wherever_it_is(number: int) -> None:
    """ENT-2."""
    for place in ("timestamp", "zz", "user_metadata", "operation", "remove"):
        value = document()
        inner: Any = {
            "user_metadata": {"a": [number]},
            "operation": {**value["operation"], "metrics": {"n": number}},
            "remove": [number],
        }.get(place, number)
        value[place] = inner
        assert refused(signed(value)) in {"ENT-1", "ENT-2"}


def wrong(path: str, value: Any) -> Any:
    return pytest.param(path, value, id=f"{path}={value!r:.30}")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        wrong("format", 0),
        wrong("format", "1"),
        wrong("table", "AB" * 16),
        wrong("table", None),
        wrong("transaction", "0f" * 15),
        wrong("previous", None),
        wrong("previous", "0" * 63),
        wrong("previous", 7),
        wrong("version", -3),
        wrong("timestamp", "now"),
        wrong("timestamp", True),
        wrong("timestamp", -1),
        wrong("timestamp", MICROS_MAX + 1),
        wrong("time_version", 1 << 62),
        wrong("time_version", None),
        wrong("protocol", None),
        wrong("protocol", {"reader": [], "writer": ["b", "a"]}),
        wrong("protocol", {"reader": [], "writer": ["a", "a"]}),
        wrong("protocol", {"reader": "abc", "writer": []}),
        wrong("metadata", None),
        wrong("metadata", {}),
        wrong("operation.class", ["INSERT"]),
        wrong("operation.name", None),
        wrong("operation.metrics", []),
        wrong("operation.metrics", {"a": 1.5}),
        wrong("operation.parameters", []),
        wrong("basis.blind", 1),
        wrong("basis.isolation", ["x"]),
        wrong("basis.granularity", None),
        wrong("basis.read_version", -1),
        wrong("basis.scope", 5),
        wrong("basis.scope", {}),
        wrong("basis.scope", "partitions"),
        wrong("basis.scope", {"partitions": "ab"}),
        wrong("basis.scope", {"partitions": [[{}]]}),
        wrong("basis.scope", {"partitions": [1]}),
        wrong("basis.scope", {"predicate": 1}),
        wrong("totals.next_id", 0),
        wrong("totals.rows", -1),
        wrong("totals.bytes", 1.5),
        wrong("remove", []),
        wrong("remove", None),
        wrong("remove", [2, 1]),
        wrong("remove", [1, 1]),
        wrong("remove", {"1": 1}),
        wrong("remove", "12"),
        wrong("application", {"id": 1, "version": 1, "digest": None}),
        wrong("application", {"id": "a", "version": 1}),
        wrong("application", {"id": "a", "version": 1, "digest": 5}),
        wrong("application", {"id": "a", "version": None, "digest": None}),
        wrong("user_metadata", []),
        wrong("add", {}),
        wrong("add", []),
        wrong("add", "side"),
        wrong("add.path", []),
        wrong("add.path", ["data/a", "data/a"]),
        wrong("add.size", [1, 0]),
        wrong("add.size", [1]),
        wrong("add.rows", [1, -1]),
        wrong("add.rows", [True, 1]),
        wrong("add.rows", {"0": 1, "1": 1}),
        wrong("add.footer", [1, 2**32]),
        wrong("add.lower", {"01": [1, 1]}),
        wrong("add.lower", {"x": [1, 1]}),
        wrong("add.lower", {"1": [1]}),
        wrong("add.lower", {"1": [1, {}]}),
        wrong("add.lower", {"1": [[], 1]}),
        wrong("add.lower", []),
        wrong("add", {"side": {"path": "_log/side/x.parquet", "files": 1, "size": 1}}),
        wrong("add", {"side": {}}),
    ],
)
def test_a_field_of_another_shape_is_refused(path: str, value: Any) -> None:
    """ENT-3 to ENT-8, ADD-1, ADD-6: with the documented class, and named."""
    found = document()
    *outer, last = path.split(".")
    place = found
    for name in outer:
        place = place[name]
    place[last] = value
    assert refused(signed(found))[:3] in {"ENT", "ADD", "SCH", "KEY"}


@pytest.mark.parametrize("name", sorted(set(document()) - {"checksum", "add", "remove"}))
def test_a_field_that_is_missing_is_refused(name: str) -> None:
    """ENT-3, ENT-7, ENT-8: version 0 also needs protocol and metadata."""
    optional = {"application", "user_metadata"}
    for version in (0, 3):
        found = document(entry(version, user_metadata={"a": 1}))
        needed = name in found and name not in optional
        found.pop(name, None)
        if needed:
            assert refused(signed(found), version) == "ENT-3"
        else:
            assert decode(signed(found), version).version == version


def test_metadata_names_flat_columns_once() -> None:
    """ENT-8: nested, repeated and unknown columns are refused. Properties are text."""
    for change in (
        {"partition_by": [3]},
        {"partition_by": [2, 2]},
        {"partition_by": [99]},
        {"partition_by": ["2"]},
        {"partition_by": {}},
        {"properties": {"a": 1}},
        {"properties": []},
    ):
        found = document(entry(0))
        found["metadata"].update(change)
        assert refused(signed(found), 0) == "ENT-8"


def test_constraints_are_told_apart_and_name_columns_that_are_there() -> None:
    """ENT-10: ids ascending, each once, of top-level columns; texts are texts; none is left out."""
    first, second = (f["id"] for f in document(entry(0))["metadata"]["schema"]["fields"][:2])
    whole = {"columns": [first, second], "condition": "a > b"}
    for change in (
        {},
        [],
        None,
        {"": whole},
        {"c": whole, "C": whole},
        {"c": {**whole, "columns": [second, first]}},
        {"c": {**whole, "columns": [first, first]}},
        {"c": {**whole, "columns": [99]}},
        {"c": {**whole, "columns": ["1"]}},
        {"c": {**whole, "columns": first}},
        {"c": {**whole, "condition": 1}},
    ):
        found = document(entry(0))
        found["metadata"]["constraints"] = change
        assert refused(signed(found), 0) == "ENT-10"
    found = document(entry(0))
    found["metadata"]["constraints"] = {"c": whole, "d": {"columns": [], "condition": "true"}}
    decoded = decode(signed(found), 0)
    assert decoded.entry.metadata is not None
    assert decoded.entry.metadata.constraints == {
        "c": Constraint("a > b", (first, second)),
        "d": Constraint("true", ()),
    }
    assert encode(decoded.entry) == signed(found)


@examples(150)
@given(body=st.binary(max_size=200))
def test_any_bytes_are_refused_by_name(body: bytes) -> None:
    """ENT-1: plain, and with a checksum that is right."""
    for attempt in (body, sealed(body + b"}")):
        with pytest.raises((CorruptEntryError, UnsupportedFeatureError)):
            decode(attempt, 3)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            found += places(inner, (*path, key))
        else:
            found.append((*path, key))
    return found


@examples(150)
@given(data=st.data())
def test_any_value_in_any_place_is_read_or_refused_by_name(data: st.DataObject) -> None:
    """ENT-3 to ENT-8, SCH-1 to SCH-4, ADD-1: no other error, and what is read is kept."""
    version = data.draw(st.sampled_from([0, 3]))
    found = document(entry(0, add=ADD) if version == 0 else REAL)
    *outer, last = data.draw(st.sampled_from(places(found)))
    place = found
    for name in outer:
        place = place[name]
    if isinstance(place, dict) and data.draw(st.booleans()):
        del place[last]
    else:
        place[last] = data.draw(JSON)
    body = signed(found)
    try:
        stored = decode(body, version)
    except (CorruptEntryError, UnsupportedFeatureError):
        return
    assert decode(encode(stored.entry), version).entry == stored.entry
