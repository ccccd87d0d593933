"""Golden tables with checkpoints (CKP)."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from golden.maker import (
    START,
    Json,
    Maker,
    arrow_type,
    canonical,
    field,
    hex_of,
    schema_of,
    seal,
)
from golden.positions import text_of

COLUMNS = [field(1, "x", "long"), field(2, "p", "string")]


def grown(name: str) -> Maker:
    """Make two partitions and four files with deleted rows, an application and properties."""
    maker = Maker(name, COLUMNS, (2,))
    maker.commit("INSERT", "WRITE", (rows_of(maker, "a", 1, 2, 3), rows_of(maker, "b", 4, 5)))
    application = {"id": "app", "version": 7, "digest": None}
    maker.commit("INSERT", "WRITE", (rows_of(maker, "a", 10),), application=application)
    maker.commit("UPDATE", "DELETE", delete={1: ([1], [])})
    metadata = schema_of(COLUMNS, (2,), **{"user.note": "x"})
    maker.commit("METADATA", "SET TBLPROPERTIES", metadata=metadata)
    maker.commit("OVERWRITE", "WRITE", (rows_of(maker, None, 20),), (2,))
    return maker


def rows_of(maker: Maker, place: str | None, *values: int) -> Json:
    """Return the rows of a file of one partition."""
    return maker.file([{"x": value, "p": place} for value in values])


def checkpoint(maker: Maker, *, gone: bool = False, copy: str = "") -> Json:
    """Write a checkpoint of the newest version; return the document of its root.

    `gone`: the segment has lines of files that are no longer live. `copy` distinguishes it from
    another checkpoint of the same version; the two have no object in common.
    """
    version, entry = len(maker.documents) - 1, maker.documents[-1]
    files, added = dict(maker.live), _added(maker)
    lines = sorted(files)
    if gone:
        lines = sorted({*lines, *(i for i in added if i not in files)})
    segment = _segment(maker, lines, added, copy)
    lost = [at for at, identity in enumerate(lines) if identity not in files]
    segment["gone"] = text_of(lost) if lost else None
    root = {
        "format": 1,
        "table": maker.table,
        "version": version,
        "digest": hashlib.sha256(maker.objects[maker.key(version)]).hexdigest(),
        "timestamp": entry["timestamp"],
        "time_version": entry["time_version"],
        "created": START,
        "described": maker.described,
        "totals": entry["totals"],
        "protocol": maker.protocol,
        "metadata": maker.metadata,
        "applications": _applications(maker),
        "segments": [segment],
        "deletes": [_deletes(maker, copy)] if any("delete" in d for d in maker.documents) else [],
    }
    cursors = _cursors(maker)
    if cursors:
        root["cursors"] = cursors
    put(maker, root, copy)
    return root


def put(maker: Maker, root: Json, copy: str = "") -> None:
    """Store a root, and a hint that names it."""
    key = f"_log/checkpoints/{root['version']:020d}.{hex_of(maker.name, f'{copy}root')}.json"
    maker.objects[key] = seal(canonical(root))
    hint = {"table": maker.table, "version": root["version"], "checkpoint": key}
    maker.objects["_log/hint.json"] = json.dumps(hint).encode()


def _added(maker: Maker) -> dict[int, int]:
    """Return the version that added each file, by file id."""
    added: dict[int, int] = {}
    for document in maker.documents:
        count = len(document.get("add", {}).get("path", ()))
        first = document["totals"]["next_id"] - count
        added |= {i: int(document["version"]) for i in range(first, first + count)}
    return added


def _applications(maker: Maker) -> Json:
    known: Json = {}
    for document in maker.documents:
        if "application" in document:
            own = document["application"]
            known[own["id"]] = {
                "at": document["version"],
                "digest": own["digest"],
                "version": own["version"],
            }
    return known


def _cursors(maker: Maker) -> list[Json]:
    known: dict[tuple[str, str], Json] = {}
    for document in maker.documents:
        own = document.get("derived_from")
        for one in [*document.get("cursors", ()), *([own] if own else ())]:
            key = (one["source"], one["name"])
            moved = {name: value for name, value in one.items() if name != "from"}
            known[key] = {**known.get(key, {}), **moved, "at": document["version"]}
    return [known[key] for key in sorted(known)]


def _segment(maker: Maker, lines: list[int], added: dict[int, int], copy: str) -> Json:
    """Write a segment with a line for each file, live or not."""
    said: dict[int, Json] = {}
    for document in maker.documents:
        add = document.get("add", {})
        first = document["totals"]["next_id"] - len(add.get("path", ()))
        for at in range(len(add.get("path", ()))):
            flat = {name: add[name][at] for name in ("path", "size", "rows", "written")}
            for group in ("partition", "lower", "upper", "nulls"):
                flat |= {f"{group}.{k}": v[at] for k, v in add.get(group, {}).items()}
            said[first + at] = flat
    kinds = {str(f["id"]): arrow_type(f["type"]) for f in maker.metadata["schema"]["fields"]}
    columns: Json = {"id": pa.array(lines, pa.int64())}
    columns["added"] = pa.array([added[i] for i in lines], pa.int64())
    for name in sorted({name for i in lines for name in said[i]}):
        group, _, key = name.partition(".")
        kind = kinds[key] if group in ("partition", "lower", "upper") else pa.int64()
        kind = pa.string() if name == "path" else kind
        columns[name] = pa.array([said[i].get(name) for i in lines], kind)
    x = [(said[i]["lower.1"], said[i]["upper.1"]) for i in lines]
    return _part(maker, f"{copy}segment", pa.table(columns)) | {
        "rows": sum(said[i]["rows"] for i in lines),
        "ids": [min(lines), max(lines)],
        "added": max(added[i] for i in lines),
        "bounds": {"1": {"lower": min(a for a, _ in x), "upper": max(b for _, b in x), "nulls": 0}},
    }


def _deletes(maker: Maker, copy: str) -> Json:
    """Write the deleted rows of live files and of others."""
    lines: dict[str, list[Any]] = {name: [] for name in ("file", "rows", "deleted", "updated")}
    versions = []
    for document in maker.documents:
        for name, values in document.get("delete", {}).items():
            lines[name] += values
        versions += [document["version"]] * len(document.get("delete", {}).get("file", ()))
    columns = {name: pa.array(lines[name], pa.int64()) for name in ("file", "rows")}
    for name in ("deleted", "updated"):
        raw = [text and base64.b64decode(text) for text in lines[name]]
        columns[name] = pa.array(raw, pa.binary())
    columns["version"] = pa.array(versions, pa.int64())
    return _part(maker, f"{copy}deletes", pa.table(columns))


def _part(maker: Maker, kind: str, columns: pa.Table) -> Json:
    sink = io.BytesIO()
    pq.write_table(columns, sink, write_page_checksum=True)
    raw = sink.getvalue()
    path = f"_log/checkpoints/parts/{hex_of(maker.name, kind)}.parquet"
    maker.objects[path] = raw
    footer = struct.unpack("<I", raw[-8:-4])[0] + 8
    return {
        "path": path,
        "size": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "footer": footer,
        "footer_sha256": hashlib.sha256(raw[-footer:]).hexdigest(),
        "files": columns.num_rows,
    }


def checkpoints() -> Iterator[Maker]:
    """Yield tables that are, or must not be, opened at a checkpoint."""
    maker = grown("checkpoint-base")
    checkpoint(maker)
    maker.append({"x": 30, "p": "b"})
    maker.commit("UPDATE", "DELETE", delete={1: ([0], [])})
    times = [[START + version * 3_600_000_000, version] for version in range(8)]
    yield maker.good("A reader may start from a checkpoint (CKP-1, CKP-3, CKP-8).", times=times)

    maker = grown("checkpoint-gone-lines")
    checkpoint(maker, gone=True)
    maker.append({"x": 30, "p": "b"})
    yield maker.good("A segment has lines of files that are no longer live (CKP-3).")

    maker = grown("checkpoint-other-log")
    root = checkpoint(maker)
    put(maker, {**root, "digest": "0" * 64, "segments": [], "totals": root["totals"]})
    yield maker.good("A checkpoint of another log changes nothing (CKP-5).")

    for name, key in (("root", ".json"), ("part", ".parquet")):
        maker = grown(f"checkpoint-flipped-{name}")
        checkpoint(maker)
        version = len(maker.documents) - 1
        for path in [p for p in maker.objects if "checkpoints/" in p and p.endswith(key)]:
            raw = bytearray(maker.objects[path])
            raw[len(raw) // 3] ^= 1
            maker.objects[path] = bytes(raw)
        maker.append({"x": 30, "p": "b"})
        rule = {"root": "CKP-2", "part": "CKP-3"}[name]
        why = f"A {name} of a checkpoint is damaged: the entries say the same (CKP-6)."
        yield maker.good(why, remarks=[[version, rule]])

    maker = grown("checkpoint-newer")
    put(maker, {**checkpoint(maker), "sorted": [1]})
    yield maker.good(
        "A root in a newer form is ignored (CKP-2).",
        remarks=[[len(maker.documents) - 1, "CKP-2"]],
    )
