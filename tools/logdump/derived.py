"""Compare checkpoints with the replayed state: from spec/ alone (CKP-1)."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import zlib
from collections.abc import Callable, Iterable

import pyarrow as pa

from logdump.checked_parquet import BadParquetError, columns_of, footer_of
from logdump.cursors import KEPT
from logdump.evolution import fields_in_order, partitionings
from logdump.rows import join, positions, size
from logdump.rules import MAX_ROOT_BYTES, parse
from logdump.shapes import Json, Refusal, fits, map_of, natural, positive, require, time
from logdump.values import encode

ROOT_NAME = re.compile(r"(\d{20})\.[0-9a-f]{32}\.json\Z", re.ASCII)
BLOCK_NAME = re.compile(r"(\d{20})-(\d{20})\.jsonl\.gz\Z", re.ASCII)
PART_NAME = re.compile(r"_log/checkpoints/parts/[0-9a-f]{32}\.parquet\Z", re.ASCII)
HEX32, HEX64 = re.compile(r"[0-9a-f]{32}\Z"), re.compile(r"[0-9a-f]{64}\Z")
PART = {
    "path": PART_NAME,
    "size": positive,
    "sha256": HEX64,
    "footer": positive,
    "footer_sha256": HEX64,
    "files": positive,
}
SEGMENT = {
    **PART,
    "gone": (None, str),
    "rows": (None, positive),
    "ids": [positive],
    "added": natural,
    "bounds": dict,
}
ROOT = {
    "format": lambda value: value == 1 and type(value) is int,
    "table": HEX32,
    "version": natural,
    "digest": HEX64,
    "timestamp": time,
    "time_version": time,
    "created": time,
    "described": natural,
    "totals": dict,
    "protocol": dict,
    "metadata": dict,
    "applications": map_of({"version": int, "digest": (None, HEX64, str), "at": natural}),
    "cursors?": [KEPT],
    "segments": [SEGMENT],
    "deletes": [PART],
}
MAX_BLOCK_BYTES = 64 << 20
"""Maximum bytes of all entries of a block, without their line ends (STO-25)."""

MAX_SEGMENT_LINES, MAX_LINES = 1 << 20, 1 << 27
"""Maximum lines of a segment, and of all parts together (STO-25)."""

COMPARED = ("path", "size", "rows", "deleted", "added", "written", "import")

Load = Callable[[str], bytes]


def versions_of(names: Iterable[str]) -> dict[str, int]:
    """Return the roots among the names in `_log/checkpoints/`, with their versions (CKP-2)."""
    matches = ((name, ROOT_NAME.match(name)) for name in names)
    return {name: int(match[1]) for name, match in matches if match}


def block_problems(
    names: Iterable[str], load: Load, raw: dict[int, bytes]
) -> list[tuple[int, str, str]]:
    """Return problems of compacted log segments in `_log/history/`: version, rule, text (HIS-1)."""
    found = []
    for name in sorted(names):
        match = BLOCK_NAME.match(name)
        if match is None:
            continue
        first, last = map(int, match.groups())
        length = last - first + 1
        if length not in (16, 256, 4096) or first % length:
            found.append((first, "HIS-1", f"has the block {name}, which is no run"))
            continue
        entries = [raw.get(version) for version in range(first, last + 1)]
        wanted = b"".join((each or b"") + b"\n" for each in entries)
        try:
            same = _unpacked(load(f"_log/history/{name}"), length) == wanted
        except (OSError, zlib.error):
            same = False
        if not same and None not in entries:
            found.append((first, "HIS-2", f"has the block {name}, which is not its entries"))
    return found


def _unpacked(block: bytes, entries: int) -> bytes | None:
    """Return the bytes of `entries` entries in a block; None if it is not one whole gzip member.

    Decompress at most the bytes that a block may have (STO-25).
    """
    gzip = zlib.decompressobj(31)
    whole = gzip.decompress(block, MAX_BLOCK_BYTES + entries)
    return whole if gzip.eof and not gzip.unused_data else None


def problems(
    name: str, version: int, load: Load, raw: dict[int, bytes], state: Json | None
) -> list[tuple[str, str]]:
    """Return the problems of a checkpoint; none for a checkpoint of another log (CKP-5).

    Args:
        name: the name of the root in `_log/checkpoints/`.
        version: the version in the name.
        load: reads an object.
        raw: the entries' bytes.
        state: the result of `Replay.state` at the version, with `described`; None: there is none.
    """
    try:
        body = load(f"_log/checkpoints/{name}")
    except OSError as error:
        return [("CKP-2", f"has the checkpoint {name}, which cannot be read: {error}")]
    try:
        root, refusals = parse(body, MAX_ROOT_BYTES)
        if root is None or refusals:
            return [("CKP-2", f"has the checkpoint {name}, which is damaged")]
        entry = raw.get(version)
        ours = entry is not None and root.get("digest") == hashlib.sha256(entry).hexdigest()
        if not ours or root.get("format") != 1:
            return []
        needed = {name for name in ROOT if not name.endswith("?")}
        sound = {*root} - {"cursors"} == {*needed, "checksum"} and fits(root, ROOT)
        sound = sound and root.get("cursors") != []
        require(sound and root["version"] == version, "CKP-2", f"has {name}, which is no root")
        check_parts(root)
        if state is not None:
            _check_state(root, raw, state)
            _check_files(_files(root, load), state)
    except Refusal as refusal:
        rule, message = refusal.args
        return [(rule if rule.startswith("CKP") else "CKP-3", f"{message} (checkpoint {name})")]
    except (OSError, KeyError, TypeError, ValueError) as error:
        return [("CKP-3", f"has the checkpoint {name}, of which a part cannot be read: {error}")]
    return []


def _check_state(root: Json, raw: dict[int, bytes], state: Json) -> None:
    for key in ("table", "timestamp", "time_version", "totals", "protocol"):
        require(root[key] == state[key], "CKP-1", f"has another `{key}` in a checkpoint")
    first, _ = parse(raw[0]) if 0 in raw else (None, [])
    created = first["timestamp"] if first else root["created"]
    require(root["created"] == created, "CKP-1", "has another `created` in a checkpoint")
    require(root["metadata"] == state["metadata"], "CKP-1", "has other metadata in a checkpoint")
    described = root["described"] == state["described"]
    require(described, "CKP-1", "has another `described` in a checkpoint")
    versions = {name: each["version"] for name, each in root["applications"].items()}
    require(versions == state["applications"], "CKP-1", "has other applications in a checkpoint")
    require(root.get("cursors", []) == state["cursors"], "CKP-1", "has other cursors")
    for name, each in root["applications"].items():
        entry, _ = parse(raw[each["at"]]) if each["at"] in raw else (None, [])
        said = {"id": name, "version": each["version"], "digest": each["digest"]}
        same = entry is None or entry.get("application") == said
        require(same, "CKP-1", f"says that version {each['at']} set application {name!r}")


def _files(root: Json, load: Load) -> dict[int, Json]:
    """Return the files in the parts, by id."""
    files: dict[int, Json] = {}
    numbered = partitionings(root["metadata"])
    shared = {str(i) for i in set.intersection(*map(set, numbered.values()))}
    order = [str(i) for i in fields_in_order(root["metadata"])]
    for segment in root["segments"]:
        columns = _columns(segment, load)
        ids, added = columns.pop("id"), columns.pop("added")
        partition = columns.get("partition", {})
        require(shared <= set(partition), "CKP-3", "lacks partition values in a segment")
        numbers = [number or 0 for number in columns.get("partitioning", [0] * len(ids))]
        if len(numbered) == 1:
            numbers = [*numbered] * len(ids)
        unknown = {*numbers} - numbered.keys()
        require(not unknown, "CKP-3", f"has files of unknown partitionings {sorted(unknown)}")
        low, high = segment["ids"]
        inside = all(low <= i <= high for i in ids) and max(added) <= segment["added"]
        require(inside, "CKP-3", "has ids or versions outside of what its root says")
        gone = positions(segment["gone"])
        inside = not gone or gone[-1][1] <= len(ids)
        require(inside, "CKP-3", "has `gone` lines beyond the end of a segment")
        lost = {at for first, end in gone for at in range(first, end)}
        for at, identity in enumerate(ids):
            if at in lost:
                continue
            require(identity not in files, "CKP-3", f"has file {identity} twice")
            file = {name: columns[name][at] for name in ("path", "size", "rows", "written")}
            file["import"] = columns["import"][at] if "import" in columns else None
            file |= {"id": identity, "added": added[at], "deleted": 0, "gone": []}
            own = {str(i) for i in numbered[numbers[at]]}
            values = [partition[key][at] if key in own else None for key in order]
            files[identity] = file | {"partition": values}
    for part in root["deletes"]:
        table = part_of(part, load)
        lines = [table[name].to_pylist() for name in ("file", "rows", "deleted", "updated")]
        for identity, rows, *packed in zip(*lines, strict=True):
            if identity in files:
                _take(files[identity], rows, packed)
    return files


def _take(file: Json, rows: int, packed: list[bytes | None]) -> None:
    texts = [None if raw is None else base64.b64encode(raw).decode() for raw in packed]
    both = join(sorted(itertools.chain.from_iterable(map(positions, texts))))
    require(size(both) == rows, "CKP-3", f"has not {rows} rows of file {file['id']}")
    file["gone"] = join(sorted([*map(tuple, file["gone"]), *both]))
    file["deleted"] = size(file["gone"])


def _columns(segment: Json, load: Load) -> Json:
    table = part_of(segment, load)
    missing = {"id", "added", *COMPARED[:3], "written"} - {*table.column_names}
    require(not missing, "CKP-3", f"has a segment without {sorted(missing)}")
    columns: Json = {"partition": {}}
    for name in table.column_names:
        group, _, key = name.partition(".")
        if group == "partition":
            columns["partition"][key] = encode(table[name])
        elif not key:
            columns[name] = encode(table[name])
    return columns


def check_parts(root: Json) -> None:
    """Refuse a root whose parts have more lines than a reader may read (STO-25)."""
    lines = [part["files"] for part in (*root["segments"], *root["deletes"])]
    longest = max([segment["files"] for segment in root["segments"]], default=0)
    few = longest <= MAX_SEGMENT_LINES and sum(lines) <= MAX_LINES
    require(few, "CKP-3", "has parts with too many lines")


def part_of(part: Json, load: Load) -> pa.Table:
    """Return the columns of a part, after comparing the part with its root (CKP-3)."""
    raw = load(part["path"])
    end = raw[max(0, len(raw) - part["footer"]) :]
    same = len(raw) == part["size"] and hashlib.sha256(raw).hexdigest() == part["sha256"]
    same = same and len(end) == part["footer"]
    same = same and hashlib.sha256(end).hexdigest() == part["footer_sha256"]
    require(same, "CKP-3", f"has the part {part['path']}, which is not what its root says")
    try:
        footer = footer_of(end)
        require(
            footer.num_rows == part["files"], "CKP-3", "has a part with another number of lines"
        )
        return columns_of(raw, footer)
    except BadParquetError as error:
        raise Refusal("CKP-3", f"has a part that is not Parquet: {error}") from None


def _check_files(files: dict[int, Json], state: Json) -> None:
    said = {file["id"]: file for file in state["files"]}
    missing = {*said} ^ {*files}
    require(not missing, "CKP-1", f"has other files in a checkpoint: {sorted(missing)!r:.100}")
    for identity, file in said.items():
        other = files[identity]
        differing = [key for key in COMPARED if file[key] != other[key]]
        same_rows = [tuple(run) for run in file["gone"]] == [tuple(run) for run in other["gone"]]
        same = not differing and same_rows and [*file["partition"].values()] == other["partition"]
        require(same, "CKP-1", f"has file {identity} otherwise in a checkpoint: {differing}")
