"""Read checkpoints of a log whose first entries were removed, from spec/ alone.

Spec: ENT-13, LOG-8, CKP-2, CKP-3, CKP-5.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from logdump.changes import without
from logdump.derived import check_parts, part_of
from logdump.evolution import current, partitionings
from logdump.rows import Runs, join, positions, size
from logdump.rules import MAX_ROOT_BYTES, add_columns, files_of, parse
from logdump.schemas import check_metadata
from logdump.shapes import Json, Refusal, require

Load = Callable[[str], bytes]


def standing(raw: dict[int, bytes], load: Load, roots: Iterable[str], oldest: int) -> Json | None:
    """Return the state from which a log with expired entries starts.

    None if no checkpoint is sound, or if entries between it and `oldest` are missing. The state is
    `{"version", "root", "files"}`, with the files by id as in `Replay`. `roots` are the names in
    `_log/checkpoints/`. The roots that the newest retention horizon names come first.
    """
    names = [{"path": f"_log/checkpoints/{name}"} for name in sorted(roots, reverse=True)]
    for named in [*_named(raw), *names]:
        try:
            return _state(named, raw, load, oldest)
        except (Refusal, OSError, KeyError, TypeError, ValueError):
            continue
    return None


def _named(raw: dict[int, bytes]) -> list[Json]:
    """Return the checkpoints of the newest retention horizon with `log`."""
    for version in sorted(raw, reverse=True):
        entry, refusals = parse(raw[version])
        horizon = entry.get("horizon") if entry and not refusals else None
        log = horizon.get("log") if isinstance(horizon, dict) else None
        if isinstance(log, dict):
            return list(log.get("checkpoints", ()))
    return []


def _state(named: Json, raw: dict[int, bytes], load: Load, oldest: int) -> Json:
    root = load(named["path"])
    if "sha256" in named:
        root = _checked(load, named["path"], named["size"], named["sha256"])
    document, refusals = parse(root, MAX_ROOT_BYTES)
    require(document is not None and not refusals, "CKP-2", "is no root")
    assert document is not None
    version = int(named["path"].rsplit("/", 1)[-1][:20])
    same = document["version"] == version == named.get("version", version) and version in raw
    require(same, "CKP-5", "is of another version, or of one that is not there")
    whole = set(range(version, oldest + 1)) <= raw.keys()
    require(whole, "LOG-8", "is followed by entries that are not there")
    digest = hashlib.sha256(raw[version]).hexdigest()
    require(document["digest"] == digest, "CKP-5", "is of another log")
    check_parts(document)
    fields = check_metadata(document["metadata"], None)
    files: dict[int, Json] = {}
    for part in document["segments"]:
        files |= _segment(part, load, document["metadata"], fields)
    for part in document["deletes"]:
        _take_out(part, load, files)
    require(len(files) == document["totals"]["files"], "CKP-3", "lacks files")
    return {"version": version, "root": document, "files": dict(sorted(files.items()))}


def _checked(load: Load, path: str, length: int, sha256: str) -> bytes:
    body = load(path)
    same = len(body) == length and hashlib.sha256(body).hexdigest() == sha256
    require(same, "CKP-3", f"{path} is not what is said of it")
    return body


def _segment(part: Json, load: Load, metadata: Json, fields: dict[str, Json]) -> dict[int, Json]:
    """Return the live files of a segment: all lines except those in `gone`."""
    table = part_of(part, load)
    whole: Runs = [(0, table.num_rows)]
    lines = [at for run in without(whole, positions(part["gone"])) for at in range(*run)]
    if not lines:
        return {}
    table = table.take(pa.array(lines))
    ids, added = (table[name].to_pylist() for name in ("id", "added"))
    if "updated" in table.column_names:
        # Files of entries that say nothing of it lie beside others (ADD-1).
        at = table.column_names.index("updated")
        table = table.set_column(at, "updated", table["updated"].fill_null(False))
    numbered = partitionings(metadata)
    # NULL is 0 in a part: a partitioning that never changed (CKP-3).
    found = []
    for at in range(table.num_rows):
        one = add_columns(table.slice(at, 1).drop_columns(["id", "added"]))
        if len(numbered) == 1:
            one.pop("partitioning", None)
        first = 0 if len(numbered) > 1 else current(metadata)
        number = (one.get("partitioning") or [None])[0] or first
        kept = {str(i) for i in numbered[number]}
        one["partition"] = {k: v for k, v in one.get("partition", {}).items() if k in kept}
        found += files_of(one, fields, numbered, first, [])
    for file, identity, version in zip(found, ids, added, strict=True):
        file |= {"id": identity, "added": version}
    return dict(zip(ids, found, strict=True))


def _take_out(part: Json, load: Load, files: dict[int, Json]) -> None:
    """Apply the deleted rows of live files; those of other files have no meaning."""
    for line in part_of(part, load).to_pylist():
        file: Any = files.get(line["file"])
        if file is None:
            continue
        gone = [(first, end) for first, end in file["gone"]]
        for name in ("deleted", "updated"):
            if line[name] is not None:
                gone += positions(_text(line[name]))
        gone = join(sorted(gone))
        file |= {"deleted": size(gone), "gone": [[*run] for run in gone]}


def _text(packed: bytes) -> str:
    return base64.b64encode(packed).decode()
