"""Sources of imports and copies of exports whose bytes somebody changed, in a process with 1 GB.

    PYTHONPATH=tools python -m tests.system.fuzzed_copies SEED CASES [only this change]

Each case changes objects of a Delta or Iceberg table, and imports it, or exports to it again and
checks it. It prints what is neither an answer nor an error of the tree, and ends with 1 if there
was any. The limits are those of `fuzzed_bytes`.
"""

from __future__ import annotations

import io
import pickle
import random
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import TablefmtError
from tablefmt.export.table_export import copies_of
from tablefmt.imports.import_table import import_source
from tablefmt.log.bounded_avro import long_bytes, walked_blocks
from tablefmt.store.memory_store import MemoryStore
from tests.system import fuzzed_bytes
from tests.system.fuzzed_bytes import MIB, NASTY, Objects, change_bytes, spoil
from tests.tables import contents_of, handle, memory, new_table, rows

DELTA, ICEBERG = "_delta_log/", "metadata/"


@dataclass
class Sources:
    """Two tables with copies for Delta and Iceberg, and the bombs that fit into them."""

    tables: list[tuple[str, Objects]]
    """Address and objects."""
    nested: list[bytes]
    """For the checkpoint of a Delta table."""
    flat: list[bytes]
    """For a file of deleted positions."""
    avro: list[tuple[int, bytes, str]]
    """Records, bytes and codec of a block of a manifest."""

    @classmethod
    def made(cls) -> Sources:
        """Make them. It takes much memory."""
        tables = [_table("2"), _table("3")]
        checkpoint = next(v for k, v in tables[0][1].items() if k.endswith(".checkpoint.parquet"))
        nested = [nested_bomb(checkpoint, kind) for kind in range(3)]
        return cls(tables, nested, [flat_bomb()], avro_bombs())

    @classmethod
    def loaded(cls) -> Sources:
        """Have a process of its own make them."""
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([sys.executable, "-m", __name__, "make", file.name], check=True)
            made = pickle.loads(Path(file.name).read_bytes())
        assert isinstance(made, cls)
        return made


def _table(form: str) -> tuple[str, Objects]:
    """Return a table's address, and its objects with both copies."""
    store = memory()
    table = new_table(store)
    table.append(rows(*range(1, 40)))
    table.append(rows(*range(40, 60), p="b"))
    table.delete("id = 2 OR id = 50")
    table.alter.set_properties({"export.iceberg.format": form})
    table.export("delta")
    table.export("iceberg")
    for number in (70, 71):
        table.append(rows(number, number + 10, p=str(number)))
        table.delete(f"id = {number} OR id = {number - 40}")
        table.export("delta")
        table.export("iceberg")
    return store.uri, contents_of(store)


def nested_bomb(sound: bytes, kind: int) -> bytes:
    """Return a checkpoint of Delta of a few kilobytes, which would take gigabytes."""
    text = "a" * MIB
    path = pa.array([text]).dictionary_encode().take(pa.array([0] * (4000 if kind == 0 else 1)))
    pairs = [] if kind == 0 else [("k", text)] * (100 if kind == 1 else 60)
    count = len(path)
    maps = pa.array([pairs] * count, pa.map_(pa.string(), pa.string()))
    if kind == 0:
        struct = pa.StructArray.from_arrays(
            [path, pa.array([1] * count), maps], ["path", "size", "partitionValues"]
        )
    else:
        struct = pa.StructArray.from_arrays(
            [pa.array(["x"] * count), pa.array([1] * count), maps],
            ["path", "size", "partitionValues"],
        )
    old = pq.read_table(io.BytesIO(sound))
    first = {name: old[name].combine_chunks() for name in ("metaData", "protocol")}
    columns = {
        name: pa.concat_arrays([values, pa.nulls(count, values.type)])
        for name, values in first.items()
    }
    columns["add"] = pa.concat_arrays([pa.nulls(old.num_rows, struct.type), struct])
    sink = io.BytesIO()
    pq.write_table(
        pa.table(columns),
        sink,
        compression="zstd",
        store_schema=False,
        use_dictionary=kind < 2,
        row_group_size=4096,
        dictionary_pagesize_limit=64 * MIB,
    )
    return sink.getvalue()


def flat_bomb() -> bytes:
    """Return a file of deleted positions of a few kilobytes, which would take gigabytes."""
    lines = pa.array([0] * 3000)
    table = pa.table(
        {
            "file_path": pa.array(["b" * MIB]).dictionary_encode().take(lines),
            "pos": pa.array([0] * 3000, pa.int64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def avro_file(schema: Any, blocks: list[tuple[int, bytes]], facts: Any, codec: str) -> bytes:
    """Return an Avro file of blocks that are packed already."""
    meta = {**facts, "avro.schema": orjson.dumps(schema), "avro.codec": codec.encode()}
    parts = [b"Obj\x01", long_bytes(len(meta))]
    for name, value in meta.items():
        parts += [long_bytes(len(name)), name.encode(), long_bytes(len(value)), value]
    parts += [b"\x00", b"s" * 16]
    for count, data in blocks:
        parts += [long_bytes(count), long_bytes(len(data)), data, b"s" * 16]
    return b"".join(parts)


def deflated(data: bytes) -> bytes:
    """Return bytes compressed as in Avro."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def avro_bombs() -> list[tuple[int, bytes, str]]:
    """Return count of records, bytes and codec of blocks that would take gigabytes."""
    return [
        (1, deflated(b"\0" * (900 * MIB)), "deflate"),
        (1 << 40, deflated(b""), "deflate"),
        (1 << 62, b"", "null"),
        (-1, b"\0" * 100, "null"),
        (10, b"\x80" * 2000, "null"),
    ]


def unpacked_avro(body: bytes) -> tuple[Any, dict[str, bytes], list[tuple[int, bytes]]]:
    """Return schema, facts and blocks of a sound Avro file."""
    found = walked_blocks(body)
    own = ("avro.schema", "avro.codec")
    facts = {name: value for name, value in found.meta.items() if name not in own}
    return orjson.loads(found.meta["avro.schema"]), facts, found.blocks


# Changes. Each takes the objects of one table.


def some_bytes(sources: Sources, objects: Objects, chance: random.Random) -> None:
    part = {k: v for k, v in objects.items() if not k.startswith(("_log/", "data/"))}
    change_bytes(part, chance)
    objects.update(part)


def documents(sources: Sources, objects: Objects, chance: random.Random) -> None:
    """Spoil a line of JSON."""
    keys = [k for k in objects if k.startswith((DELTA, ICEBERG)) and k.endswith(".json")]
    keys += [k for k in objects if k.endswith("_last_checkpoint")]
    keys += [max(k for k in keys if k.startswith(f)) for f in (DELTA + "0", ICEBERG + "v")] * 4
    key = chance.choice(sorted(keys))
    lines = objects[key].split(b"\n")
    at = chance.randrange(len(lines))
    try:
        document = orjson.loads(lines[at])
        for place in ("schemaString",):
            held = document.get("metaData", {})
            if place in held and chance.random() < 0.5:
                inner = orjson.loads(held[place])
                spoil(inner, chance)
                held[place] = orjson.dumps(inner).decode()
        tags = document.get("commitInfo", {}).get("tags")
        if tags is not None and chance.random() < 0.6:
            state = orjson.loads(tags["tablefmt.state"])
            spoil(state, chance)
            tags["tablefmt.state"] = orjson.dumps(state).decode()
        else:
            if document:
                spoil(document, chance)
        lines[at] = orjson.dumps(document)
        if chance.random() < 0.1:
            lines[at] = lines[at].replace(b":1", b":1e999").replace(b":0", b":-1e999")
        if chance.random() < 0.05:
            lines[at] = b'{"add":' + b'{"a":' * 900 + b"1" + b"}" * 901
        if chance.random() < 0.05:
            deep = '{"type":"array","containsNull":true,"elementType":' * 900 + '"long"' + "}" * 900
            column = '{"name":"x","nullable":true,"metadata":{},"type":' + deep + "}"
            text = '{"type":"struct","fields":[' + column + "]}"
            lines[at] = orjson.dumps({"metaData": {"schemaString": text}})
    except (orjson.JSONDecodeError, TypeError, IndexError):
        # It has nothing left to spoil.
        return
    objects[key] = b"\n".join(lines)


def parquets(sources: Sources, objects: Objects, chance: random.Random) -> None:
    """Spoil the checkpoint of Delta, or a file of deleted positions."""
    keys = [k for k in objects if k.endswith(".parquet") and not k.startswith(("data/", "_log/"))]
    key = chance.choice(sorted(keys))
    kind = chance.randrange(6)
    if kind < 2:
        bombs = sources.nested if key.startswith(DELTA) else sources.flat
        objects[key] = chance.choice(bombs)
        return
    body = bytearray(objects[key])
    length = int.from_bytes(body[-8:-4], "little") + 8
    for _ in range(chance.choice((1, 2, 5))):
        at = -chance.randrange(9, length) if kind < 5 else chance.randrange(len(body) - 8)
        body[at] = chance.choice((0xFF, 0, body[at] ^ 1 << chance.randrange(8)))
    objects[key] = bytes(body)


def avros(sources: Sources, objects: Objects, chance: random.Random) -> None:
    """Spoil a manifest or a manifest list, with a right marker at the end of each block."""
    keys = [k for k in objects if k.endswith(".avro")]
    keys += [k for k in keys if k.startswith((ICEBERG + "snap-9", ICEBERG + "data-8"))] * 5
    key = chance.choice(sorted(keys))
    schema, facts, blocks = unpacked_avro(objects[key])
    kind = chance.randrange(6)
    codec = "deflate"
    if kind == 0:
        count, data, codec = chance.choice(sources.avro)
        packed = [(count, data)]
    else:
        if kind == 1:
            spoil(schema, chance)
        if kind == 2:
            schema["fields"].append(
                {"name": "z", "field-id": 9999, "type": {"type": "array", "items": "null"}}
            )
            blocks = [(1, blocks[0][1][:200] + long_bytes(1 << 40))] if blocks else []
        if kind > 2:
            changed = []
            for count, data in blocks:
                body = bytearray(data)
                for _ in range(chance.choice((1, 3))):
                    at = chance.randrange(len(body))
                    body[at] = chance.choice((0xFF, 0x80, 0, body[at] ^ 1 << chance.randrange(8)))
                changed.append((count + chance.choice((0, 0, 0, 1, 1000)), bytes(body)))
            blocks = changed
        packed = [(count, deflated(data)) for count, data in blocks]
    objects[key] = avro_file(schema, packed, facts, codec)


def names(sources: Sources, objects: Objects, chance: random.Random) -> None:
    """Add far names, or lose an object."""
    number = chance.choice((9, 60, 10**6, 10**12, (1 << 63) - 1, 10**20 - 1))
    body = chance.choice(
        (b"", b"{}", b"[]", b"9" * 5000, orjson.dumps(chance.choice(NASTY)), chance.randbytes(50))
    )
    key = chance.choice(
        (
            f"{DELTA}{number:020d}.json",
            f"{DELTA}{number:020d}.checkpoint.parquet",
            f"{DELTA}{number:020d}.checkpoint.{1:010d}.{chance.choice((1, 10**9)):010d}.parquet",
            f"{DELTA}_last_checkpoint",
            f"{ICEBERG}v{number}.metadata.json",
            f"{ICEBERG}version-hint.text",
            f"{ICEBERG}tablefmt-start.json",
            f"{DELTA}_tablefmt_start.json",
        )
    )
    if chance.random() < 0.3:
        del objects[chance.choice(sorted(k for k in objects if not k.startswith("_log/")))]
    objects[key] = body


CHANGES: dict[str, Callable[[Sources, Objects, random.Random], None]] = {
    "bytes": some_bytes,
    "documents": documents,
    "parquets": parquets,
    "avros": avros,
    "names": names,
}


# Ways to read.


def store_of(uri: str, objects: Objects) -> MemoryStore:
    """Return a store at the address of the table, because Iceberg's addresses are absolute."""
    store = MemoryStore(uri.removeprefix("memory://").lstrip("/"))
    for one in list(store.list_after("")):
        store.delete(one.key)
    for key, body in objects.items():
        store.put(key, body)
    return store


def _import(form: str) -> Callable[[str, Objects], None]:
    def work(uri: str, objects: Objects) -> None:
        other = ICEBERG if form == "delta" else DELTA
        source = {k: v for k, v in objects.items() if not k.startswith(("_log/", other))}
        store = store_of(uri, source)
        import_source(store, None, form)
        handle(store).to_arrow()

    return work


def _copies(uri: str, objects: Objects) -> None:
    store = store_of(uri, objects)
    for step in (
        lambda: handle(store).export("delta"),
        lambda: handle(store).export("iceberg"),
        lambda: handle(store).append(rows(99)),
        lambda: handle(store).export("delta"),
        lambda: handle(store).export("iceberg"),
        lambda: copies_of(store, handle(store).context.view),
        lambda: handle(store).vacuum(dry_run=True),
        lambda: handle(store).verify(),
    ):
        try:
            step()
        except TablefmtError:
            pass
    # A copy never stops a reader or a writer.
    table = handle(store)
    table.append(rows(100))
    assert table.to_arrow(where="id = 100").num_rows == 1


WAYS = {"delta": _import("delta"), "iceberg": _import("iceberg"), "copies": _copies}


def case(sources: Sources, seed: int, kind: str) -> str:
    """One case; "" or what is wrong with it."""
    chance = random.Random(seed)
    uri, sound = chance.choice(sources.tables)
    objects = dict(sound)
    began = time.process_time()
    Path("/proc/self/clear_refs").write_text("5")
    wrong = ""
    try:
        CHANGES[kind](sources, objects, chance)
    except BaseException as error:
        return f"the change itself: {error!r}"
    for name, work in WAYS.items():
        try:
            work(uri, objects)
        except TablefmtError:
            pass
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)
            own = [f"{f.filename.rpartition('tablefmt/')[2]}:{f.lineno}" for f in place]
            wrong += f" {name}: {type(error).__name__}: {error!s:.200} {own[-4:]}"
    if time.process_time() - began > fuzzed_bytes.SECONDS:
        return f"it took {time.process_time() - began:.0f} s"
    resident = fuzzed_bytes.resident_bytes()
    too_much = resident > fuzzed_bytes.RESIDENT_BYTES
    return wrong + (f" {resident >> 20} MB were in memory" if too_much else "")


def main(seed: int, cases: int, only: str = "") -> int:
    """Run cases from a seed on; 1 if one of them is wrong."""
    fuzzed_bytes.with_few_threads()
    sources = Sources.loaded()
    return fuzzed_bytes.run_cases(
        range(seed, seed + cases),
        lambda number: only or random.Random(-number).choice(list(CHANGES)),
        lambda number, kind: case(sources, number, kind),
    )


if __name__ == "__main__":
    if sys.argv[1] == "make":
        from tests.system import fuzzed_copies

        Path(sys.argv[2]).write_bytes(pickle.dumps(fuzzed_copies.Sources.made()))
        sys.exit()
    from tests.system import fuzzed_copies

    sys.exit(fuzzed_copies.main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
