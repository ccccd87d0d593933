"""Tables whose stored bytes somebody changed, opened in a process that may take 1 GB.

    PYTHONPATH=tools python -m tests.system.fuzzed_bytes SEED CASES [GATE to leave out]

Every case changes objects of a real table and reads it in every way. It prints what is neither the
right rows nor an error of the tree, and ends with 1 if there was any. The second reader,
`tools/logdump`, reads it too, and gives a document whatever the bytes are.

The limit is RLIMIT_DATA: it counts what the process may write to, and neither code nor files that
are mapped. It is 1 GB beyond what the process has when it is idle: pools of imported libraries
reserve as much, and touch little of it. Arrow takes its memory from malloc, whose arenas are few,
for the same reason (ENVIRONMENT). A lower limit of resident memory tells what was touched:
Arrow may take a failed allocation for damage, which would hide it.
"""

from __future__ import annotations

import base64
import faulthandler
import gzip
import io
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import logdump
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from logdump.text import document_lines

from tablefmt.commit import driver
from tablefmt.errors import TablefmtError
from tablefmt.log import bounded_parquet, compacted_log, log_reader, strict_json
from tablefmt.log.codec import digest, seal
from tablefmt.log.object_names import (
    VERSION_MAX,
    entry_key,
    entry_version,
    log_segment_key,
    root_key,
    root_version,
)
from tablefmt.store import object_store
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.shared_commit_queue import QueueFileEntries
from tests.places import ROOT
from tests.snapshot.forged import store_of
from tests.system.page_headers import with_another_header
from tests.tables import contents_of, handle, memory, new_table, rows

MEMORY_BYTES = 1 << 30
RESIDENT_BYTES = 700 << 20
SECONDS = 20.0
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join((str(ROOT / "tools"), os.environ.get("PYTHONPATH", ""))),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
MIB = 1 << 20
NASTY = (
    0, -1, 1, 255, 1 << 20, 1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, 0.5, 1e300,
    None, True, "", "x", "data/x", "../x", [], {}, [None], [[]], {"side": 1}, "A" * 1000,
    base64.b64encode(b"\x01" + b"\0" * 30).decode(),
)  # fmt: skip

Objects = dict[str, bytes]
Change = Callable[[Objects, random.Random], None]


class Known:
    """A table with an object of each kind, and the rows of each of its versions."""

    def __init__(self) -> None:
        store = memory()
        table = new_table(store)
        bounds = vars(driver)
        bounds.update(OVERFLOW_ABOVE_BYTES=1, DELETES_ABOVE_BYTES=1)
        driver.OVERFLOW_FROM_FILES = 0
        table.append(rows(1, 2, 3, 4))
        table.append(rows(5, 6, p="b"))
        table.delete("id = 2")
        bounds.update(OVERFLOW_ABOVE_BYTES=1 << 20, DELETES_ABOVE_BYTES=1 << 20)
        for number in range(10, 24):
            table.append(rows(number, p=str(number % 3)), user_metadata={"n": number})
        table.delete("id = 11 OR id = 3")
        table.compact()
        table.checkpoint()
        table.append(rows(30, 31))
        table.delete("id = 31")
        self.objects = contents_of(store)
        self.version = table.version
        self.rows = {v: _rows(table.to_arrow(version=v)) for v in range(1, table.version + 1)}
        assert any(key.startswith("_log/side/") for key in self.objects)
        assert any(key.startswith("deletes/") for key in self.objects)
        assert log_segment_key(0, 15) in self.objects


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def look(known: Known, objects: Objects, same: bool) -> None:
    """Read a table in every way. `same`: each answer must have the right rows."""
    store = store_of(objects)
    table = None
    _second_reader(store, known, same)
    for work in (_opened, _all, _some, _older, _changes, _history, _verify, _append):
        try:
            table = work(table, store, known, same) or table
        except TablefmtError:
            if table is None:
                break
    for key in list(objects):
        store.delete(key)


def _second_reader(store: MemoryStore, known: Known, same: bool) -> None:
    try:
        document = logdump.read(store.uri, files=True, changes=True)
    except logdump.NothingThereError:
        return
    assert document_lines(document)
    state = document["state"]
    if same and state is not None:
        live = sum(file["rows"] - file["deleted"] for file in state["files"])
        right = known.rows.get(state["version"], [])
        assert live == len(right), ("second reader", state["version"], live)


def _opened(table: Any, store: Any, known: Known, same: bool) -> Any:
    return handle(store)


def _all(table: Any, store: Any, known: Known, same: bool) -> None:
    found = _rows(table.to_arrow())
    assert not same or found == known.rows[table.version], ("rows", table.version, found)


def _some(table: Any, store: Any, known: Known, same: bool) -> None:
    found = _rows(table.to_arrow(where="id > 5 AND p = 'a'"))
    right = [row for row in known.rows.get(table.version, []) if row[0] > 5 and row[1] == "a"]
    assert not same or found == right, ("some", found)


def _older(table: Any, store: Any, known: Known, same: bool) -> None:
    found = _rows(table.to_arrow(version=4))
    assert not same or found == known.rows[4], ("older", found)


def _changes(table: Any, store: Any, known: Known, same: bool) -> None:
    table.changes(after_version=1, content="net").to_arrow()


def _history(table: Any, store: Any, known: Known, same: bool) -> None:
    table.history()


def _verify(table: Any, store: Any, known: Known, same: bool) -> None:
    table.verify()


def _append(table: Any, store: Any, known: Known, same: bool) -> None:
    table.append(rows(77))


# Changes of bytes, with no checksum put right.


def change_bytes(objects: Objects, chance: random.Random) -> None:
    key = chance.choice(sorted(objects))
    body = bytearray(objects[key])
    for _ in range(chance.choice((1, 1, 3))):
        at = chance.randrange(len(body) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(body):
            body[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del body[at:]
        elif kind == 2:
            body[at:at] = chance.randbytes(chance.choice((1, 4, 100)))
        elif kind == 3:
            del body[at : at + chance.choice((1, 4, 100))]
        else:
            body[at : at + 8] = chance.choice((b"\0", b"\xff", b"9")) * 8
    objects[key] = bytes(body)


def lose(objects: Objects, chance: random.Random) -> None:
    del objects[chance.choice([key for key in sorted(objects) if key != entry_key(0)])]


# Names in a listing.


def names(objects: Objects, chance: random.Random) -> None:
    number = chance.choice((60, 10**6, 10**12, VERSION_MAX - 1, VERSION_MAX))
    body = chance.choice((b"", b"{}", objects[entry_key(3)], chance.randbytes(50)))
    root = next(key for key in sorted(objects) if root_version(key) is not None)
    key = chance.choice(
        (
            entry_key(number),
            root_key(number, "ab" * 16),
            log_segment_key(number // 16 * 16, min(number // 16 * 16 + 15, VERSION_MAX)),
            "_log/side/" + "ab" * 16 + ".parquet",
        )
    )
    objects[key] = objects[root] if chance.random() < 0.3 else body
    if chance.random() < 0.5:
        named = root_key(number, "ab" * 16) if chance.random() < 0.5 else root
        hint = {"table": "ab" * 16, "version": number, "checkpoint": named}
        objects["_log/hint.json"] = orjson.dumps(hint)


# Changes with right checksums: the result is an error of the package, or rows.


def chained(objects: Objects, version: int, document: dict[str, Any]) -> None:
    """Put an entry in the log, chain the later ones to it, and drop derived objects."""
    while True:
        document.pop("checksum", None)
        objects[entry_key(version)] = seal(document)
        version += 1
        if entry_key(version) not in objects:
            break
        previous = digest(objects[entry_key(version - 1)])
        document = orjson.loads(objects[entry_key(version)])
        document["previous"] = previous
    drop_derived(objects)


def drop_derived(objects: Objects) -> None:
    """Leave the entries alone, so that a reader needs them."""
    for key in list(objects):
        if key.startswith(("_log/checkpoints/", "_log/history/", "_log/hint")):
            del objects[key]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every object or list in a document, with each of its keys."""
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


def spoil(document: dict[str, Any], chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 2, 4))):
        found = places(document)
        if not found:
            return
        where, key = chance.choice(found)
        kind = chance.randrange(8)
        if kind == 0:
            del where[key]
        elif kind == 1 and isinstance(where[key], list):
            where[key] = where[key] * chance.choice((0, 2, 1000))
        elif kind == 2 and type(where[key]) is int:
            where[key] += chance.choice((1, -1, 1 << 32, 1 << 61))
        else:
            where[key] = chance.choice(NASTY)


def sealed(document: dict[str, Any]) -> bytes | None:
    try:
        return seal(document)
    except TypeError:
        return None


def entry(objects: Objects, chance: random.Random) -> None:
    version = chance.choice([v for v in map(entry_version, sorted(objects)) if v is not None])
    document = orjson.loads(objects[entry_key(version)])
    spoil(document, chance)
    if sealed(document) is not None:
        chained(objects, version, document)


def newest_root(objects: Objects) -> str:
    return max(key for key in objects if root_version(key) is not None)


def root(objects: Objects, chance: random.Random) -> None:
    key = newest_root(objects)
    document = orjson.loads(objects[key])
    document.pop("checksum")
    spoil(document, chance)
    body = sealed(document)
    if body is not None:
        objects[key] = body
    objects["_log/hint.json"] = orjson.dumps({"table": "ab" * 16, "version": 20, "checkpoint": key})


def bomb(sound: bytes, kind: int) -> bytes:
    """A few kilobytes of Parquet that would be hundreds of megabytes."""
    table = pq.read_table(io.BytesIO(sound))
    columns = dict(zip(table.column_names, table.columns, strict=True))
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False}
    if kind == 0:
        text = next(n for n in columns if not pa.types.is_integer(columns[n].type))
        value = pa.array([b"a" * (300 * MIB)], pa.large_binary())
        columns = {name: column.slice(0, 1) for name, column in columns.items()}
        columns[text] = value if "file" in columns else value.cast(pa.large_string())
        options["use_dictionary"] = False
    elif kind == 1:
        lines = pa.array([0] * 3000)
        columns = {n: pa.array(["b" * MIB]).dictionary_encode().take(lines) for n in columns}
    else:
        columns = {n: pa.array(["c" * MIB] * 100) for n in columns}
        options |= {
            "use_dictionary": False,
            "column_encoding": dict.fromkeys(columns, "DELTA_BYTE_ARRAY"),
        }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def make_bombs(path: str) -> None:
    """Write what takes memory to make: in a process of its own."""
    objects = Known().objects
    made: dict[str, list[bytes]] = {}
    for key, body in objects.items():
        if key.endswith(".parquet") and not key.startswith("data/"):
            names_ = ",".join(pq.read_schema(io.BytesIO(body)).names)
            if names_ not in made:
                made[names_] = [bomb(body, kind) for kind in range(3)]
    made["block"] = [
        gzip.compress(b"\n" * (64 * MIB), 1),
        gzip.compress(b" " * (500 * MIB), 1),
        gzip.compress((b" " * (3 * MIB) + b"\n") * 16, 1),
    ]
    Path(path).write_bytes(
        orjson.dumps({n: [base64.b64encode(b).decode() for b in each] for n, each in made.items()})
    )


BOMBS: dict[str, list[bytes]] = {}


def parquet(sound: bytes, chance: random.Random) -> bytes:
    """Parquet in place of other: spoilt, or a bomb."""
    kind = chance.randrange(8)
    if kind < 3:
        return BOMBS[",".join(pq.read_schema(io.BytesIO(sound)).names)][kind]
    if kind == 3:
        claimed = bytearray(b"\x15\x02\x19\xfc")
        number = chance.choice((1000, 100_000, 999_999))
        while number > 0x7F:
            claimed.append(number & 0x7F | 0x80)
            number >>= 7
        claimed += bytes([number]) + b"\0" * 40
        return b"PAR1" + bytes(claimed) + struct.pack("<I", len(claimed)) + b"PAR1"
    body = bytearray(sound)
    length = int.from_bytes(body[-8:-4], "little") + 8
    for _ in range(chance.choice((1, 2, 5))):
        at = -chance.randrange(9, length) if kind < 7 else chance.randrange(len(body) - 8)
        body[at] = chance.choice((0xFF, 0, body[at] ^ 1 << chance.randrange(8)))
    return bytes(body)


def lines_of(body: bytes, known: int) -> int:
    """Return the number of lines of a bomb, otherwise the known number."""
    is_bomb = any(body in bodies for bodies in BOMBS.values())
    return int(pq.read_metadata(io.BytesIO(body)).num_rows) if is_bomb else known


def side(objects: Objects, chance: random.Random) -> None:
    """Spoil an overflow file of `add` or `delete`."""
    versions = [v for v in map(entry_version, sorted(objects)) if v is not None]
    documents = {v: orjson.loads(objects[entry_key(v)]) for v in versions}
    places_ = [
        (v, part)
        for v, document in documents.items()
        for part in ("add", "delete")
        if "side" in document.get(part, {})
    ]
    version, part = chance.choice(places_)
    said = documents[version][part]["side"]
    body = parquet(objects[said["path"]], chance)
    objects[said["path"]] = body
    more = lines_of(body, said["files"]) - said["files"]
    said |= {"sha256": digest(body), "size": len(body), "files": said["files"] + more}
    if part == "add":
        for later in [v for v in versions if v >= version]:
            totals = documents[later]["totals"]
            totals["files"], totals["next_id"] = totals["files"] + more, totals["next_id"] + more
            documents[later].pop("checksum", None)
            objects[entry_key(later)] = seal(documents[later])
    chained(objects, version, documents[version])


def part(objects: Objects, chance: random.Random) -> None:
    """A part of the checkpoint."""
    key = newest_root(objects)
    document = orjson.loads(objects[key])
    document.pop("checksum")
    said = chance.choice(document["segments"] + document["deletes"])
    body = parquet(objects[said["path"]], chance)
    footer = min(len(body), int.from_bytes(body[-8:-4], "little") + 8)
    objects[said["path"]] = body
    said |= {"sha256": digest(body), "size": len(body), "footer": footer}
    said["footer_sha256"] = digest(body[-footer:])
    objects[key] = seal(document)


def block(objects: Objects, chance: random.Random) -> None:
    """A block of entries, with the hint that leads to it."""
    key = log_segment_key(0, 15)
    whole = gzip.decompress(objects[key])
    kind = chance.randrange(5)
    if kind < 3:
        objects[key] = BOMBS["block"][kind]
    else:
        body = bytearray(whole)
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        objects[key] = gzip.compress(bytes(body))


def footer(objects: Objects, chance: random.Random) -> None:
    """Spoil the end of a data file, with a matching checksum in the entry."""
    versions = [v for v in map(entry_version, sorted(objects)) if v is not None]
    documents = {v: orjson.loads(objects[entry_key(v)]) for v in versions}
    version = chance.choice([v for v, d in documents.items() if "path" in d.get("add", {})])
    add = documents[version]["add"]
    body = bytearray(objects[add["path"][0]])
    length = int.from_bytes(body[-8:-4], "little") + 8
    for _ in range(chance.choice((1, 2, 5))):
        at = -chance.randrange(1, length)
        body[at] = chance.choice((0xFF, 0, body[at] ^ 1 << chance.randrange(8)))
    objects[add["path"][0]] = bytes(body)
    add.pop("footer", None)
    chained(objects, version, documents[version])


def page(objects: Objects, chance: random.Random) -> None:
    """Change what a page of a data file claims. The entry has no checksum of the whole file."""
    versions = [v for v in map(entry_version, sorted(objects)) if v is not None]
    documents = {v: orjson.loads(objects[entry_key(v)]) for v in versions}
    version = chance.choice([v for v, d in documents.items() if "path" in d.get("add", {})])
    add = documents[version]["add"]
    objects[add["path"][0]] = with_another_header(objects[add["path"][0]], chance)
    add.pop("footer", None)
    chained(objects, version, documents[version])


def json_bomb(objects: Objects, chance: random.Random) -> None:
    """An entry of 60 MB that would be 2 GB of objects."""
    item = chance.choice((b"[],", b'{"":0},', b'"ab",', b"0,", b"1e1,"))
    body = b'{"x_":[' + item * (60 * MIB // len(item)) + b"0]"
    objects[entry_key(3)] = body + b',"checksum":"' + digest(body).encode() + b'"}'
    drop_derived(objects)


def long(objects: Objects, chance: random.Random) -> None:
    """Objects beyond their lengths."""
    key = chance.choice(
        ("_log/hint.json", newest_root(objects), log_segment_key(0, 15), entry_key(3))
    )
    objects[key] = b" " * (
        object_store.most_of(key) + 1 if key != newest_root(objects) else 9 * MIB
    )


def posts(objects: Objects, chance: random.Random) -> None:
    """Spoil shared entries of a commit queue and read them here. A table in memory has none."""
    fd = os.memfd_create("posts")
    try:
        shared = QueueFileEntries(fd)
        shared.leave([(v, objects[entry_key(v)]) for v in range(4)])
        body = bytearray(os.pread(fd, 1 << 20, 0))
        for _ in range(chance.choice((1, 3))):
            body[chance.randrange(16, len(body))] = chance.randrange(256)
        os.pwrite(fd, bytes(body), 0)
        found = QueueFileEntries(fd).read()
        right = [(v, objects[entry_key(v)]) for v in range(4)]
        assert found in ([], right), "posts"
    finally:
        os.close(fd)


SAME: Mapping[str, Change] = {"bytes": change_bytes, "lose": lose, "names": names, "posts": posts}
"""Changes after which each answer must be right. Derived objects may be skipped."""

FORGED: Mapping[str, Change] = {
    "entry": entry, "root": root, "side": side, "part": part, "block": block, "footer": footer,
    "page": page, "json": json_bomb, "long": long,
}  # fmt: skip
RARE = frozenset({"json", "long"})
"""Changes that take seconds."""


def without(gate: str) -> None:
    """Leave a gate out, to see that it is missed."""
    endless = 1 << 60
    if gate == "pages":
        for name in ("EXPANDED_FREE", "BATCH_BYTES"):
            setattr(bounded_parquet, name, endless)
    elif gate == "json":
        strict_json.CONTAINERS_MAX = strict_json.TEXTS_MAX = endless
        strict_json.COMMAS_MAX = endless
    elif gate == "block":
        vars(compacted_log)["zlib"] = _Unbounded()
    elif gate == "far":
        log_reader.WINDOW_MAX = endless
    else:
        raise ValueError(gate)


class _Unbounded:
    """zlib whose output has no end."""

    def __getattr__(self, name: str) -> Any:
        import zlib

        if name != "decompressobj":
            return getattr(zlib, name)

        class Grow:
            unused_data, eof = b"", True

            def decompress(self, body: bytes, most: int) -> bytes:
                return zlib.decompress(body, 31)

        return lambda kind: Grow()


def resident_bytes() -> int:
    """The most that this process had in memory. `ru_maxrss` would count its parent before exec."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


def case(known: Known, seed: int, kind: str) -> str:
    """One case; "" or what is wrong with it."""
    objects = dict(known.objects)

    def run() -> None:
        {**SAME, **FORGED}[kind](objects, random.Random(seed))
        look(known, objects, kind in SAME)

    return problem_of(run)


def problem_of(run: Callable[[], None]) -> str:
    """Run a case. Return "", or what is wrong with it: an error, or its time or memory."""
    began = time.process_time()
    try:
        run()
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.300}"
    if time.process_time() - began > SECONDS:
        return f"it took {time.process_time() - began:.0f} s"
    resident = resident_bytes()
    return f"{resident >> 20} MB were in memory" if resident > RESIDENT_BYTES else ""


def load_bombs() -> None:
    """Have a process of its own make what takes memory to make."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([sys.executable, "-m", __spec__.name, "bombs", file.name], check=True)
        BOMBS.update(
            (name, list(map(base64.b64decode, bodies)))
            for name, bodies in orjson.loads(Path(file.name).read_bytes()).items()
        )


def reserved() -> int:
    """Return the bytes of data that the process has reserved. Pools reserve more than they use."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmData:")[2].split()[0]) << 10


def with_few_threads() -> None:
    """Make this process small, so that a bound on its memory is a bound on the work."""
    faulthandler.enable()
    threading.stack_size(1 << 20)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def run_cases(
    numbers: Iterable[int], kind_of: Callable[[int], str], case: Callable[[int, str], str]
) -> int:
    """Run cases within a bound of memory, and print the wrong ones; 1 if there is one."""
    most = reserved() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    wrong = 0
    for number in numbers:
        kind = kind_of(number)
        print(f"case {number} {kind}", file=sys.stderr, flush=True)
        problem = case(number, kind)
        if problem:
            wrong += 1
            print(f"TABLEFMT_TEST_SEED={number} ({kind}): {problem}", flush=True)
            if "in memory" in problem:
                break
    return int(wrong > 0)


def main(seed: int, cases: int, gate: str = "", only: str = "") -> int:
    """Run cases from a seed on; 1 if one of them is wrong."""
    with_few_threads()
    known = Known()
    if only in ("", "side", "part", "block"):
        load_bombs()
    if gate:
        without(gate)
    kinds = [*SAME, *FORGED]

    def kind_of(number: int) -> str:
        chance = random.Random(number)
        kind = only or chance.choice(kinds)
        return "entry" if kind in RARE and not only and chance.random() < 0.8 else kind

    return run_cases(range(seed, seed + cases), kind_of, lambda n, kind: case(known, n, kind))


if __name__ == "__main__":
    if sys.argv[1] == "bombs":
        make_bombs(sys.argv[2])
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
