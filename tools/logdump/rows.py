"""Rows that entries delete from files, from spec/ alone.

Sets of positions are runs: ascending, disjoint lists of (first, end), end not included (DEL-2).
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import struct
from collections.abc import Callable
from typing import Any

from logdump.checked_parquet import BadParquetError, footer_of, names_of
from logdump.checked_parquet import columns_of as parquet_columns
from logdump.rules import DELETE, MAX_SIDE_FILES, OPEN, TIMELESS
from logdump.shapes import Json, Refusal, require, strangers

Runs = list[tuple[int, int]]

NO_RUNS, WITH_RUNS = 12346, 12347
DELETES = ("file", "rows", "deleted", "updated")


# --- sets of positions (DEL-2) -------------------------------------------------------------------


def positions(text: str | None) -> Runs:
    """Return the set in a base64 text; empty for null."""
    if text is None:
        return []
    try:
        raw = base64.b64decode(text, validate=True)
        require(base64.b64encode(raw).decode() == text, "DEL-2", "has another form of base64")
        (buckets,) = struct.unpack_from("<Q", raw)
        require(buckets, "DEL-2", "has an empty set of positions")
        found: Runs = []
        at, highs = 8, [-1]
        for _ in range(buckets):
            (high,) = struct.unpack_from("<I", raw, at)
            require(highs[-1] < high < 2**31, "DEL-2", f"has the upper half {high}")
            highs.append(high)
            at = _bucket(raw, at + 4, high << 32, found)
        require(at == len(raw), "DEL-2", "has bytes after a set of positions")
    except (struct.error, ValueError) as error:
        raise Refusal("DEL-2", f"has a set of positions that is none: {error}") from None
    return join(found)


def _bucket(raw: bytes, start: int, high: int, found: Runs) -> int:
    (cookie,) = struct.unpack_from("<I", raw, start)
    at, flags = start + 4, 0
    if cookie & 0xFFFF == WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = int.from_bytes(raw[at : at + (count + 7) // 8], "little")
        at += (count + 7) // 8
    else:
        require(cookie == NO_RUNS, "DEL-2", f"has the cookie {cookie}")
        (count,) = struct.unpack_from("<I", raw, at)
        at += 4
    require(1 <= count <= 65536, "DEL-2", f"has {count} containers")
    heads = [struct.unpack_from("<HH", raw, at + 4 * i) for i in range(count)]
    at += 4 * count
    offsets: list[int | None] = [None] * count
    if cookie == NO_RUNS or count >= 4:
        offsets = [struct.unpack_from("<I", raw, at + 4 * i)[0] for i in range(count)]
        at += 4 * count
    rises = all(a[0] < b[0] for a, b in itertools.pairwise(heads))
    require(rises, "DEL-2", "has containers in no order")
    for i, (key, less_one) in enumerate(heads):
        require(offsets[i] in (None, at - start), "DEL-2", "has a wrong offset of a container")
        runs, at = _container(raw, at, less_one + 1, bool(flags >> i & 1))
        require(size(runs) == less_one + 1, "DEL-2", "has a container of another size")
        base = high + (key << 16)
        found += [(base + first, base + end) for first, end in runs]
    return at


def _container(raw: bytes, at: int, count: int, is_runs: bool) -> tuple[Runs, int]:
    if is_runs:
        (pairs,) = struct.unpack_from("<H", raw, at)
        both = [struct.unpack_from("<HH", raw, at + 2 + 4 * i) for i in range(pairs)]
        runs = [(first, first + more + 1) for first, more in both]
        apart = all(a[1] < b[0] for a, b in itertools.pairwise(runs))
        require(apart and all(end <= 65536 for _, end in runs), "DEL-2", "has runs that overlap")
        return runs, at + 2 + 4 * pairs
    if count <= 4096:
        values = struct.unpack_from(f"<{count}H", raw, at)
        rises = all(a < b for a, b in itertools.pairwise(values))
        require(rises, "DEL-2", "has positions in no order")
        return join([(value, value + 1) for value in values]), at + 2 * count
    bits = struct.unpack_from("<8192s", raw, at)[0]
    text = f"{int.from_bytes(bits, 'little'):065536b}"[::-1]
    return [match.span() for match in re.finditer("1+", text)], at + 8192


def size(runs: Runs) -> int:
    """Return the number of positions."""
    return sum(end - first for first, end in runs)


def join(runs: Runs) -> Runs:
    """Merge adjacent runs; runs must be ascending."""
    joined: Runs = []
    for first, end in runs:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    return joined


def common(one: Runs, other: Runs) -> int:
    """Return the number of positions in both."""
    both, i, j = 0, 0, 0
    while i < len(one) and j < len(other):
        both += max(0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return both


# --- what an entry does to rows (DEL-1, DEL-3, DEL-4, LIN-1, LIN-2, RPL-6) -----------------------


def take_rows(
    entry: Json, files: dict[int, Json], removed: dict[int, Json], load: Callable[[str], bytes]
) -> int:
    """Apply the entry's `delete` to live `files`; return the number of deleted rows.

    `removed` are the files that the same entry removes. It may delete their rows too.
    """
    if "delete" not in entry:
        return 0
    columns = columns_of(entry, load)
    lines = [columns[name] for name in DELETES]
    require(lines[0] and len({len(a) for a in lines}) == 1, "DEL-1", "has columns of other lengths")
    require(sorted({*lines[0]}) == lines[0], "DEL-1", "has rows of files in no order")
    taken = 0
    for identity, rows, *texts in zip(*lines, strict=True):
        deleted, updated = map(positions, texts)
        require(not common(deleted, updated), "DEL-1", f"has a row of file {identity} twice")
        both = join(sorted(deleted + updated))
        require(size(both) == rows, "DEL-1", f"has not {rows} rows of file {identity}")
        file = files.get(identity) or removed.get(identity)
        require(file is not None, "DEL-1", f"has rows of file {identity}, which is not live")
        assert file is not None
        inside = both[-1][1] <= file["rows"]
        require(inside, "DEL-1", f"has rows beyond the end of file {identity}")
        gone = [(first, end) for first, end in file["gone"]]
        again = common(both, gone)
        require(not again, "DEL-4", f"has {again} rows of file {identity} that were gone")
        taken += rows if identity in files else 0
        gone = join(sorted(gone + both))
        after = {**file, "deleted": size(gone), "gone": [[*run] for run in gone]}
        (files if identity in files else removed)[identity] = after
    return taken


def columns_of(entry: Json, load: Callable[[str], bytes]) -> dict[str, list[Any]]:
    """Return the columns of an entry's `delete`, also from an overflow metadata file (DEL-3)."""
    deletes: Json = entry["delete"]
    return _side(deletes["side"], load) if "side" in deletes else deletes


def _side(side: Json, load: Callable[[str], bytes]) -> dict[str, list[Any]]:
    try:
        raw = load(side["path"])
        same = len(raw) == side["size"] and hashlib.sha256(raw).hexdigest() == side["sha256"]
        require(same, "DEL-3", "has an overflow metadata file of another size or SHA-256")
        footer = footer_of(raw)
        same = footer.num_rows == side["files"] <= MAX_SIDE_FILES
        require(same, "DEL-3", "has an overflow metadata file with another number of files")
        newer = strangers(dict.fromkeys(names_of(footer)), DELETE, "delete", OPEN)
        require(not newer, "VER-2", f"needs a newer version, for {side['path']} has {newer}")
        table = parquet_columns(raw, footer)
    except (OSError, BadParquetError) as error:
        raise Refusal("DEL-3", f"names {side['path']}, which cannot be read: {error}") from None
    require(
        {*DELETES} <= {*table.column_names},
        "DEL-3",
        "has an overflow metadata file with other columns",
    )
    columns = {name: table[name].to_pylist() for name in DELETES}
    for name in DELETES[2:]:
        sound = all(value is None or isinstance(value, bytes) for value in columns[name])
        require(
            sound, "DEL-3", f"has an overflow metadata file whose column {name!r} is not binary"
        )
        columns[name] = [b and base64.b64encode(b).decode() for b in columns[name]]
    sound = all(type(v) is int and v > 0 for v in columns["file"] + columns["rows"])
    require(sound, "DEL-3", "has an overflow metadata file with files or rows that are none")
    return columns


def check_lineage(
    entry: Json, added: list[Json], files: dict[int, Json], removed: dict[int, Json], unknown: int
) -> None:
    """Refuse a lineage that does not explain the rows of its outputs.

    `files` are live after the entry. `removed` are the files that it or an earlier entry removed.
    Some files below the id `unknown` were removed before the state at which the log starts
    (LOG-8).
    """
    lineage = entry.get("lineage")
    if lineage is None:
        return
    names = ("output", "input", "start", "rows", "dropped")
    columns = [lineage[name] for name in names]
    even = columns[0] and len({len(column) for column in columns}) == 1
    require(even, "LIN-1", "has a lineage of columns of other lengths")
    require(sorted(columns[0]) == columns[0], "LIN-1", "has outputs in no order")
    require(columns[0][-1] < len(added), "LIN-1", "has an output that it does not add")
    new = {file["id"] for file in added}
    before = {key: file for key, file in {**files, **removed}.items() if key not in new}
    went = {key for key in columns[1] if 0 < key < unknown and key not in before}
    known = set(columns[1]) - went <= set(before)
    require(known, "LIN-1", "has an input that was not there before")
    kept = dict.fromkeys(columns[0], 0)
    for output, identity, start, rows, text in zip(*columns, strict=True):
        dropped = positions(text)
        if identity in went:
            _check_out(files[added[output]["id"]], kept[output], rows - size(dropped), identity)
            kept[output] += rows - size(dropped)
            continue
        file = before[identity]
        require(start + rows <= file["rows"], "LIN-2", f"has a run beyond file {identity}")
        inside = common(dropped, [(start, start + rows)]) == size(dropped)
        require(inside, "LIN-2", f"drops rows of file {identity} outside of its run")
        gone = [(first, end) for first, end in file["gone"]]
        were_gone = common(dropped, gone) == size(dropped)
        require(were_gone, "LIN-2", f"drops rows of file {identity} that were live")
        left = identity in removed or common([(start, start + rows)], gone) == rows
        require(left, "LIN-2", f"moves rows of file {identity} that are still in it")
        if identity in removed and identity not in entry.get("remove", ()):
            _check_out(files[added[output]["id"]], kept[output], rows - size(dropped), identity)
        kept[output] += rows - size(dropped)
    for output, rows in kept.items():
        same = added[output]["rows"] == rows
        require(same, "LIN-2", f"explains {rows} rows of output {output}, which has others")


def _check_out(output: Json, first: int, rows: int, identity: int) -> None:
    """Refuse live output rows that were copied from a file that is already removed."""
    copies = [(first, first + rows)]
    out = [(start, end) for start, end in output["gone"]]
    left = common(copies, out) == size(copies)
    require(left, "LIN-2", f"brings rows back of file {identity}, which was gone")


def check_moves(entry: Json, before: Json, after: Json) -> None:
    """Refuse a compaction that changes the number of rows (RPL-6)."""
    rows = [sums["rows"] - sums.get("deleted", 0) for sums in (before, after)]
    same = entry["operation"]["class"] not in TIMELESS or rows[0] == rows[1]
    require(same, "RPL-6", f"moves rows, and there are {rows[1]} after {rows[0]}")
