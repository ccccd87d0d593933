"""Checkpoints whose checksums are right and whose content is wrong, and what a table answers."""

from __future__ import annotations

import copy
import datetime
import hashlib
import struct
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.log.codec import seal
from tablefmt.maintenance.verify import verify
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tests.tables import Clock, handle, memory

Objects = Mapping[str, bytes]
Change = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Forgery:
    """A change of a checkpoint after which every checksum is right."""

    name: str
    key: str
    """The checkpoint root that is forged."""
    bodies: dict[str, bytes]
    """The objects that it replaces."""

    def apply(self, store: Store) -> None:
        for key, body in self.bodies.items():
            store.put(key, body)


def store_of(bodies: Objects) -> MemoryStore:
    """A store of its own with these objects."""
    store = memory()
    for key, body in bodies.items():
        store.put(key, body)
    return store


def part_body(columns: pa.Table) -> bytes:
    """The bytes of a part, however wrong."""
    sink = pa.BufferOutputStream()
    pq.write_table(columns, sink, row_group_size=4, write_page_checksum=True, compression="zstd")
    return bytes(sink.getvalue())


def signed_root(document: Mapping[str, Any]) -> bytes:
    """The bytes of a root with the checksum over them."""
    return seal({name: value for name, value in document.items() if name != "checksum"})


def with_part(root: Mapping[str, Any], path: str, columns: pa.Table) -> dict[str, bytes]:
    """The root's document beside the part that it names, both with right checksums."""
    body = part_body(columns)
    footer = struct.unpack("<I", body[-8:-4])[0] + 8
    document = copy.deepcopy(dict(root))
    for part in (*document["segments"], *document["deletes"]):
        if part["path"] == path:
            part["size"], part["sha256"] = len(body), hashlib.sha256(body).hexdigest()
            part["footer"] = footer
            part["footer_sha256"] = hashlib.sha256(body[-footer:]).hexdigest()
    return {path: body, "": signed_root(document)}


def part_forgeries(bodies: Objects, key: str) -> Iterator[Forgery]:
    """Every change of every column of every part of a checkpoint."""
    root = orjson.loads(bodies[key])
    for place in ("segments", "deletes"):
        for number, part in enumerate(root[place]):
            path = part["path"]
            columns = pq.read_table(pa.BufferReader(bodies[path]))
            for name, change in changes_of(columns, place):
                try:
                    changed = change(columns)
                    if changed.equals(columns):
                        continue
                    new = with_part(root, path, changed)
                except (pa.ArrowException, OverflowError, TypeError):
                    continue
                new[key] = new.pop("")
                yield Forgery(f"{place}[{number}] {name}", key, new)


NUMBERS = {"-1": -1, "0": 0, "2^62": 1 << 62, "2^63-1": (1 << 63) - 1, "2^31": 1 << 31}
DECOMPOSED = unicodedata.normalize("NFD", "data/é/x.parquet")
PATHS = {
    "..": "data/../../other/x.parquet",
    "absolute": "/etc/passwd",
    "other table": "../other/data/x.parquet",
    "url": "s3://bucket/data/x.parquet",
    "log": "_log/00000000000000000000.json",
    "control": "data/a\nb.parquet",
    "backslash": "data\\a.parquet",
    "empty": "",
    "dot": "data/./x.parquet",
    "slash": "data//x.parquet",
    "long": "data/" + "x" * 2000,
    "decomposed": DECOMPOSED,
}
OTHER_TYPES = (
    pa.string(),
    pa.binary(),
    pa.float64(),
    pa.bool_(),
    pa.int16(),
    pa.uint64(),
    pa.date32(),
)
OTHER_VALUES: dict[pa.DataType, list[Any]] = {
    pa.string(): ["zzz", "", "0", None],
    pa.int32(): [77],
    pa.binary(): [b"", b"\xff\x00junk", b"\x01" * 8],
    pa.date32(): [datetime.date(1, 1, 1)],
}


def changes_of(columns: pa.Table, place: str) -> Iterator[tuple[str, Change]]:
    """Changes of one part by name."""
    for name in columns.column_names:
        for at in sorted({0, columns.num_rows - 1}):
            yield from _changed_values(columns, name, at)
        kind = columns.schema.field(name).type
        for other in OTHER_TYPES:
            if other != kind:
                yield f"{name} as {other}", lambda t, n=name, o=other: _retyped(t, n, o)
        yield f"{name} all null", lambda t, n=name: _put(t, n, pa.nulls(len(t), t[n].type))
        yield f"{name} as null", lambda t, n=name: _put(t, n, pa.nulls(len(t)))
        yield f"{name} missing", lambda t, n=name: t.drop_columns([n])
        yield f"{name} twice", lambda t, n=name: t.append_column(n, t[n])
        yield f"{name} a struct", lambda t, n=name: _put(t, n, pa.array([{"a": 1}] * len(t)))
        yield f"{name} lists", lambda t, n=name: _put(t, n, pa.array([[1]] * len(t)))
        yield f"{name} reversed", lambda t, n=name: _put(t, n, t[n].take(_backwards(t)))
    for extra in ("extra", "lower.99", "partition.99", "lower.x", "id.1", "nulls.-1", "keys", ""):
        yield f"with {extra!r}", lambda t, n=extra: t.append_column(n, pa.array([1] * len(t)))
    yield "lines reversed", lambda t: t.take(_backwards(t))
    yield "a line twice", lambda t: pa.concat_tables([t, t.slice(0, 1)])
    yield "a line less", lambda t: t.slice(1)
    yield "no line", lambda t: t.slice(0, 0)
    yield "a line instead of another", lambda t: t.take(pa.array([0, 0, *range(2, len(t))]))
    yield (
        "the last instead of the first",
        lambda t: t.take(pa.array([*range(1, len(t)), len(t) - 1])),
    )


def _changed_values(columns: pa.Table, name: str, at: int) -> Iterator[tuple[str, Change]]:
    kind = columns.schema.field(name).type
    values: dict[str, Any] = {"null": None}
    if pa.types.is_integer(kind):
        values |= NUMBERS | {"another line's": columns[name][len(columns) - 1 - at].as_py()}
        values["one more"] = (columns[name][at].as_py() or 0) + 1
    elif name == "path":
        values |= PATHS
    else:
        values |= {f"{value!r}": value for value in OTHER_VALUES.get(kind, [])}
    for what, value in values.items():
        yield f"{name}[{at}] is {what}", lambda t, v=value: _put_value(t, name, at, v)


def _backwards(columns: pa.Table) -> pa.Array:
    return pa.array(range(len(columns) - 1, -1, -1), pa.int64())


def _put(columns: pa.Table, name: str, values: Any) -> pa.Table:
    return columns.set_column(columns.column_names.index(name), name, values)


def _put_value(columns: pa.Table, name: str, at: int, value: Any) -> pa.Table:
    values = columns[name].to_pylist()
    values[at] = value
    return _put(columns, name, pa.array(values, columns[name].type))


def _retyped(columns: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    values = columns[name]
    if kind == pa.binary() and not pa.types.is_string(values.type):
        values = values.cast(pa.string())
    if pa.types.is_boolean(kind):
        return _put(columns, name, pa.array([True] * len(columns)))
    try:
        return _put(columns, name, values.cast(kind))
    except pa.ArrowException:
        return _put(columns, name, pa.array([None] * len(columns), kind))


WIDE = ((1 << 62), (1 << 63) - 1, 1 << 64)
JUNK: tuple[Any, ...] = (None, -1, 0, 1, *WIDE, 0.5, True, "", "x", [], {}, [1], {"1": 1})


def root_forgeries(bodies: Objects, key: str) -> Iterator[Forgery]:
    """Every value of a root that is something else, and every one that is missing."""
    root = orjson.loads(bodies[key])
    root.pop("checksum")
    for path in _places(root):
        held = _at(root, path)
        others = [value for value in JUNK if value is not held]
        if type(held) is int:
            others += [held + 1, held - 1]
        if isinstance(held, list) and held:
            others += [held + held[:1], held[1:], held[::-1]]
        for other in [*others, ...]:
            document = copy.deepcopy(root)
            owner = _at(document, path[:-1])
            if other is ...:
                del owner[path[-1]]
            else:
                owner[path[-1]] = other
            if document == root and type(other) is type(held):
                continue
            try:
                body = signed_root(document)
            except TypeError:
                continue
            name = ".".join(map(str, path))
            what = "missing" if other is ... else repr(other)[:40]
            yield Forgery(f"root {name} is {what}", key, {key: body})


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in items:
        yield (*path, name)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*path, name))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def lines(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in an order of their own."""
    names = sorted(table.column_names)
    return sorted((tuple(row[n] for n in names) for row in table.to_pylist()), key=repr)


def fresh(store: Store) -> Any:
    """A handle that knows nothing, years after all that was done."""
    return handle(store, Clock(1_900_000_000_000_000))


def written_to(store: Store) -> list[Any]:
    """Rows and history of a table after it was changed, and after a checkpoint of that."""
    table = fresh(store)
    table.append(pa.table({"id": [1000], "p": ["a"]}))
    fresh(store).delete("id = 4 OR id = 1000 OR id = 12")
    once = lines(fresh(store).to_arrow())
    fresh(store).checkpoint()
    return [once, lines(fresh(store).to_arrow())]


def verified(store: Store) -> int | None:
    """The version that is verified; None where the finding names an object of a checkpoint."""
    report = verify(store)
    if report.version is None:
        (finding,) = report.findings
        assert finding.object.startswith("_log/checkpoints/"), str(report)
    return report.version


def questions(first: int) -> dict[str, Callable[[Store], Any]]:
    """Return questions by name. Those for changes begin after version `first`."""
    return {
        "rows": lambda s: lines(fresh(s).to_arrow()),
        "count": lambda s: fresh(s).count(),
        "count a": lambda s: fresh(s).count(where="p = 'a'"),
        "a": lambda s: lines(fresh(s).to_arrow(where="p = 'a'")),
        "point": lambda s: lines(fresh(s).to_arrow(where="id = 7")),
        "range": lambda s: lines(fresh(s).to_arrow(where="id BETWEEN 3 AND 12")),
        "null": lambda s: lines(fresh(s).to_arrow(where="p IS NULL OR id < 3")),
        "files": lambda s: lines(fresh(s).scan().files()),
        "before": lambda s: lines(fresh(s).to_arrow(version=first)),
        "changes": lambda s: lines(fresh(s).changes(after_version=first).to_arrow()),
        "history": lambda s: lines(fresh(s).history().select(["version", "operation"])),
        "written": written_to,
        "verify": verified,
    }
