"""Golden cases of imported files (IMP)."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from golden.maker import CORRUPT, Json, Maker, encode, field, schema_of

FEATURE: Json = {"reader": ["importedFiles"], "writer": ["importedFiles"]}
FIELDS = [field(1, "x", "long"), field(2, "v", "string"), field(3, "p", "string")]


def imported(name: str, imports: Json, protocol: Json | None = None) -> Maker:
    """Make a table, partitioned by p, whose version 0 describes imports."""
    maker = Maker(name, FIELDS, (3,))
    maker.documents.clear()
    maker.objects.clear()
    metadata = {**schema_of(FIELDS, (3,)), **({"imports": imports} if imports else {})}
    maker.commit(
        "PROTOCOL",
        "CREATE TABLE",
        metadata=metadata,
        protocol=FEATURE if protocol is None else protocol,
    )
    return maker


def source(names: Json, **other: Any) -> Json:
    """Describe an import."""
    origin = {"format": "parquet", "uri": "/lake/events", "version": None}
    return {"from": origin, "names": names, "root": "", **other}


def foreign(maker: Maker, path: str, held: pa.Table, rows: list[Json], number: int) -> Json:
    """Write a file of another writer; `rows` are its rows as readers must show them."""
    sink = io.BytesIO()
    pq.write_table(held, sink)
    raw = sink.getvalue()
    maker.objects[path] = raw
    file = {"path": path, "size": len(raw), "rows": len(rows), "content": rows, "import": number}
    digest = base64.b64encode(hashlib.sha256(raw).digest()).decode()
    file |= {"written": 0, "partition": {3: encode(rows[0]["p"])}, "digest": digest}
    return file


def imports() -> Iterator[Maker]:
    """Yield tables with imported files, sound and broken."""
    yield from _sound()
    yield from _paths()
    yield from _descriptions()
    yield from _entries()


def _sound() -> Iterator[Maker]:
    maker = imported("imported", {"1": source({}), "2": source({"1": "id", "2": None})})
    plain = pa.table({"x": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
    rows = [{"x": n, "v": v, "p": "a b/c"} for n, v in ((1, "a"), (2, "b"))]
    first = foreign(maker, "p=a b%2Fc/f.parquet", plain, rows, 1)
    held = pa.table({"x": [9, 9], "id": [3, 4], "v": ["old", "old"], "p": ["", ""]})
    rows = [{"x": n, "v": None, "p": None} for n in (3, 4)]
    second = foreign(maker, "data/g.parquet", held, rows, 2)
    maker.commit("INSERT", "IMPORT", (first, second), delete={2: ({1}, set())})
    maker.append({"x": 5, "v": "c", "p": "own"})
    why = (
        "Imported files (IMP-1, IMP-2): a name of their own, a column that they lack, a partition "
        "value from the entry that replaces the file's (IMP-4), and a row deleted in that entry."
    )
    yield maker.good(why)

    maker = imported("imported-path-partition", {"1": source({})})
    maker.commit("INSERT", "IMPORT", (_small(maker, "_p=1/_q=/f.parquet"),))
    yield maker.good("An imported file below folders of partitions whose names start with `_`.")

    maker = imported("imported-looked-up", {"1": source({}, lookup="names")})
    plain = pa.table({"x": pa.array([1], pa.int64()), "v": ["a"]})
    file = foreign(maker, "p=own/f.parquet", plain, [{"x": 1, "v": "a", "p": "own"}], 1)
    maker.commit("INSERT", "IMPORT", (file,))
    yield maker.good("An import that says how readers of Iceberg find its columns (IMP-8).")


def _paths() -> Iterator[Maker]:
    paths = {
        "hidden": "p=a/_x/f.parquet",
        "dotted": ".x/f.parquet",
        "metadata": "metadata/f.parquet",
        "outside": "../f.parquet",
        "absolute": "/f.parquet",
    }
    for name, path in paths.items():
        maker = imported(f"imported-path-{name}", {"1": source({})})
        maker.commit("INSERT", "IMPORT", (_small(maker, path),))
        yield maker.broken(
            f"An imported path that is refused: {path}.", CORRUPT, (1, "IMP-1"), also="KEY-2"
        )


def _descriptions() -> Iterator[Maker]:
    spoilt: dict[str, tuple[Json, str]] = {
        "empty": ({}, "IMP-2"),
        "key": ({"0": source({})}, "IMP-2"),
        "names": ({"1": source({"x": "y"})}, "IMP-2"),
        "name": ({"1": source({"1": 7})}, "IMP-2"),
        "root": ({"1": {**source({}), "root": None}}, "IMP-2"),
        "adopt": ({"1": source({}, adopt=False)}, "IMP-2"),
        "lookup": ({"1": source({}, lookup="order")}, "IMP-2"),
        "adopt-elsewhere": ({"1": source({}, adopt=True, root="s3://b/t")}, "IMP-2"),
    }
    for name, (described, rule) in spoilt.items():
        maker = imported(f"imported-{name}", {"1": source({})})
        metadata = {**maker.metadata, "imports": described}
        maker.commit("METADATA", "ALTER", metadata=metadata)
        yield maker.broken("Imports of another shape.", CORRUPT, (1, rule))


def _entries() -> Iterator[Maker]:
    changes: dict[str, tuple[str, Callable[[Json], Any]]] = {
        "unknown": ("IMP-1", lambda e: e["add"].update({"import": [9]})),
        "zero": ("ADD-1", lambda e: e["add"].update({"import": [0]})),
        "digest": ("ADD-1", lambda e: e["add"].update(digest=["00"])),
    }
    for name, (rule, change) in changes.items():
        also = {"zero": "IMP-1", "digest": "IMP-6"}.get(name, "ADD-1")
        maker = imported(f"imported-{name}", {"1": source({})})
        maker.commit("INSERT", "IMPORT", (_small(maker, "f.parquet"),), change=change)
        yield maker.broken(
            "An invalid number or digest of an imported file.", CORRUPT, (1, rule), also=also
        )

    maker = imported("imported-changed", {"1": source({})})
    metadata = {**maker.metadata, "imports": {"1": source({"1": "y"})}}
    maker.commit("METADATA", "ALTER", metadata=metadata)
    yield maker.broken("A number gets another meaning.", CORRUPT, (1, "IMP-2"))

    maker = imported("imported-unsaid", {}, {"reader": [], "writer": []})
    metadata = {**maker.metadata, "imports": {"1": source({})}}
    maker.commit("METADATA", "ALTER", metadata=metadata)
    yield maker.broken("Imports without their feature.", CORRUPT, (1, "VER-4"))


def _small(maker: Maker, path: str) -> Json:
    rows = [{"x": 1, "v": "a", "p": "q"}]
    return foreign(maker, path, pa.table({"x": [1], "v": ["a"]}), rows, 1)
