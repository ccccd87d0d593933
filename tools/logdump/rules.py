"""Check one entry against the specification, from spec/ alone.

Bytes to JSON, then names, fields, paths and files. A broken rule is a `Refusal`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from typing import Any

import orjson
import pyarrow as pa

from logdump.checked_parquet import BadParquetError, columns_of, footer_of, names_of
from logdump.cursors import BACK, DERIVED, check_cursors
from logdump.evolution import Numbered, numbers_of, partition_values
from logdump.schemas import METADATA, newer_in
from logdump.shapes import (
    Json,
    Refusal,
    address,
    ascending,
    different,
    fits,
    map_of,
    natural,
    positive,
    require,
    strangers,
    time,
)
from logdump.values import check_bounds, decode, encode

MAX_ENTRY_BYTES, MAX_ROOT_BYTES, MAX_NESTING = 64 << 20, 256 << 20, 128
MAX_SIDE_FILES = 1 << 27
MAX_CONTAINERS, MAX_TEXTS, MAX_COMMAS = 1 << 20, 1 << 22, 1 << 23
"""Maximum numbers of objects and arrays, of texts including names, and of commas (STO-25)."""
TAIL, TAIL_BYTES = re.compile(rb',"checksum":"([0-9a-f]{64})"\}\Z'), 79
HEX32, HEX64 = re.compile(r"[0-9a-f]{32}\Z"), re.compile(r"[0-9a-f]{64}\Z")
BASE64_32 = re.compile(r"[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=\Z")
SIDE_PATH = re.compile(r"_log/side/[0-9a-f]{32}\.parquet\Z")
ROOT_PATH = re.compile(r"_log/checkpoints/\d{20}\.[0-9a-f]{32}\.json\Z", re.ASCII)
DELETES_PATH = re.compile(r"deletes/[0-9a-f]{32}\.parquet\Z")
JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
FLOATS = re.compile(
    r"/add/(partition|lower|upper)/[^/]*/\[\]\Z|/metadata/schema/fields/\[\]/(default|initial)\Z"
    r"|/basis/scope/partitions/\[\]/\[\]\Z|/segments/\[\]/bounds/[^/]*/(lower|upper)\Z"
)
FIELD_ID = re.compile(r"[1-9]\d*\Z", re.ASCII)
TIMELESS = {"MINOR_COMPACT", "MAJOR_COMPACT", "CLUSTER"}
CLASSES = {*TIMELESS, "INSERT", "OVERWRITE", "UPDATE", "METADATA", "PROTOCOL"}
ISOLATIONS = {"WriteSerializable", "Serializable"}
GRANULARITIES = {"row", "file", "transaction"}
TOTALS = ("files", "rows", "bytes", "next_id", "metadata_version")
PER_FILE = ("partition", "lower", "upper", "nulls", "nans")
OPEN = {"", "operation", "basis", "add", "delete", "lineage", "update", "application"}


Remarks = list[tuple[str, str]]


# --- bytes to JSON (ENT-1, ENT-2) ----------------------------------------------------------------


def parse(raw: bytes, most: int = MAX_ENTRY_BYTES) -> tuple[Json | None, list[tuple[str, str]]]:
    """Return the JSON object in at most `most` bytes, if there is one, and refusals.

    Any JSON text is accepted: the checksum covers the stored bytes (ENT-1).
    """
    refusals: list[tuple[str, str]] = []

    def json_object(pairs: list[tuple[str, Any]]) -> Json:
        keys = [key for key, _ in pairs]
        twice = [key for key, count in Counter(keys).items() if count > 1]
        refusals.extend(("ENT-1", f"repeats the key {key!r}") for key in twice)
        return dict(pairs)

    if len(raw) > most:
        return None, [("ENT-2", f"is larger than {most >> 20} MiB")]
    tail = TAIL.search(raw[-TAIL_BYTES:])
    if tail is None:
        refusals.append(("ENT-1", "does not end with its checksum"))
    elif hashlib.sha256(raw[:-TAIL_BYTES]).hexdigest().encode() != tail[1]:
        refusals.append(("ENT-1", "has a checksum that differs from that of its bytes"))
    try:
        bare = without_strings(raw.decode("utf-8"))
        if bare is None:
            return None, [*refusals, ("STO-25", "holds more values than may be parsed")]
        deepest = depth = 0
        for bracket in re.findall(r"[\[\]{}]", bare):
            depth += 1 if bracket in "[{" else -1
            deepest = max(deepest, depth)
        if deepest > MAX_NESTING:
            return None, [*refusals, ("ENT-2", "is nested deeper than 128 levels")]
        orjson.loads(raw)  # stricter than json: no NaN, no infinite number, no lone surrogates
        entry = json.loads(raw, object_pairs_hook=json_object)
    except ValueError as error:
        return None, [*refusals, ("ENT-1", f"is not valid JSON: {error}")]
    if not isinstance(entry, dict):
        return None, [*refusals, ("ENT-1", "is not a JSON object")]
    refusals += [("ENT-2", f"holds {n}, beyond signed 64 bits") for n in wide_integers(entry)]
    return entry, refusals


def without_strings(text: str) -> str | None:
    """Return JSON text with empty strings, if a reader may parse it (STO-25)."""
    if any(True for _ in itertools.islice(JSON_STRING.finditer(text), MAX_TEXTS, None)):
        return None
    bare = JSON_STRING.sub('""', text)
    too_many = bare.count("[") + bare.count("{") > MAX_CONTAINERS or bare.count(",") > MAX_COMMAS
    return None if too_many else bare


def wide_integers(value: Any, place: str = "") -> list[int]:
    """Return integers beyond signed 64 bits, except where a column may be of floats (VAL-1)."""
    if type(value) is int:
        beyond = not -(2**63) <= value < 2**63
        return [value] if beyond and not FLOATS.match(place) else []
    if isinstance(value, dict):
        return [n for key, v in value.items() for n in wide_integers(v, f"{place}/{key}")]
    if isinstance(value, list):
        return [n for v in value for n in wide_integers(v, f"{place}/[]")]
    return []


# --- fields (ENT-3 to ENT-8, KEY-2, ADD-1) -------------------------------------------------------


OPERATION = {"class": CLASSES, "metrics": map_of(int), "name": str, "parameters": dict}
BASIS = {
    "read_version": (None, natural),
    "isolation": ISOLATIONS,
    "granularity": GRANULARITIES,
    "blind": bool,
    "scope": (None, {"partitions": [list]}, {"predicate": str}),
    "predicate?": str,
}
SUMS = {**dict.fromkeys(TOTALS, natural), "deleted?": positive, "oldest?": positive}
KEPT = {"path": ROOT_PATH, "sha256": HEX64, "size": positive, "version": natural}
LOG = {
    "checkpoints": lambda value: fits(value, [KEPT]) and len(value) >= 2,
    "previous": HEX64,
    "version": positive,
}
SIDE = {"files": natural, "path": SIDE_PATH, "sha256": HEX64, "size": natural}
FLAT = ("footer", "updated", "keys", "written", "import", "digest", "partitioning")
FEATURES = frozenset({"hiddenPartitions", "importedFiles", "logExpiry", "partitionEvolution"})
COLUMNS: dict[str, Any] = {"path": [str], "size": [natural], "rows": [natural]}
COLUMNS |= {f"{name}?": map_of(list) for name in PER_FILE}
COLUMNS |= {
    "updated?": [bool],
    "keys?": [(None, str)],
    "footer?": [(None, natural)],
    "written?": list,
    "import?": [(None, positive)],
    "partitioning?": [(None, natural)],
    "digest?": [(None, BASE64_32)],
}
TEXTS = [(None, str)]
DELETE = {"file": [positive], "rows": [positive], "deleted": TEXTS, "updated": TEXTS}
LINEAGE: dict[str, Any] = {
    "output": [natural],
    "input": [positive],
    "start": [natural],
    "rows": [positive],
}
LINEAGE |= {"dropped": TEXTS}
UPDATE = {"keys": different, "set": (None, ascending(positive))}
ENTRY: dict[str, tuple[str, Any]] = {
    "format": ("ENT-3", int),
    "table": ("ENT-3", HEX32),
    "version": ("ENT-3", natural),
    "timestamp": ("ENT-3", time),
    "time_version": ("ENT-3", time),
    "transaction": ("ENT-3", HEX32),
    "previous": ("ENT-3", (None, HEX64)),
    "operation": ("ENT-4", OPERATION),
    "basis": ("ENT-5", BASIS),
    "totals": ("ENT-6", SUMS),
    "protocol?": ("ENT-7", {"reader": ascending(str), "writer": ascending(str)}),
    "metadata?": ("ENT-8", METADATA),
    "add?": ("ADD-1", ({"side": SIDE}, COLUMNS)),
    "remove?": ("ENT-3", lambda value: value and ascending(int)(value)),
    "delete?": ("DEL-1", ({"side": {**SIDE, "path": DELETES_PATH}}, DELETE)),
    "lineage?": ("LIN-1", LINEAGE),
    "update?": ("ENT-9", UPDATE),
    "application?": ("ENT-3", {"id": str, "version": int, "digest": (None, str)}),
    "derived_from?": ("ENT-15", DERIVED),
    "cursors?": ("ENT-16", [BACK]),
    "horizon?": ("ENT-13", {"version": positive, "log?": LOG}),
    "ends?": ("ENT-14", lambda value: value is True),
    "user_metadata?": ("ENT-3", dict),
}
KNOWN = {key: shape for key, (_, shape) in ENTRY.items()} | {"checksum": HEX64}
KNOWN["horizon?"] = {"version": positive, "log?": {**LOG, "checkpoints": [KEPT]}}
KNOWN["metadata?"] = {
    **METADATA,
    "constraints?": dict,
    "comment?": str,
    "imports?": dict,
    "partitionings?": dict,
}
IMPORT = {
    "root": address,
    "names": map_of((None, str)),
    "from": {"format": address, "uri": address, "version": (None, natural)},
    "adopt?": lambda value: value is True,
    "lookup?": lambda value: value in ("ids", "names"),
}
LISTED = (
    ("operation", "class", CLASSES),
    ("basis", "isolation", ISOLATIONS),
    ("basis", "granularity", GRANULARITIES),
)


def check_names(entry: Json) -> None:
    """Refuse names of a newer version, before any check for damage (VER-2)."""
    newer = strangers(entry, KNOWN, "", OPEN) + newer_in(entry.get("metadata"))
    for place, name, listed in LISTED:
        value = entry[place].get(name) if isinstance(entry.get(place), dict) else None
        if isinstance(value, str) and value not in listed:
            newer.append(f"{name} {value:.100}")
    require(not newer, "VER-2", f"needs a newer version, for it has {sorted(newer)}")
    protocol = entry.get("protocol")
    named = protocol.get("reader") if isinstance(protocol, dict) else None
    unknown = [n for n in (named if isinstance(named, list) else ()) if isinstance(n, str)]
    unknown = [name for name in unknown if name not in FEATURES]
    require(not unknown, "ENT-7", f"needs features that this reader lacks: {unknown}")


def check_fields(entry: Json, version: int) -> None:
    """Refuse an entry whose own fields break a rule, independent of earlier entries."""
    number = entry.get("format")
    higher = type(number) is int and number > 1
    require(not higher, "ENT-3", f"needs a newer version, for it is of format {number}")
    require(number == 1 and type(number) is int, "ENT-3", f"is of the format {number!r:.40}")
    check_names(entry)
    for key, (rule, shape) in ENTRY.items():
        name = key.rstrip("?")
        needed = name == key or (version == 0 and name in ("protocol", "metadata"))
        require(name in entry or not needed, "ENT-3", f"lacks the field {name}")
        sound = name not in entry or fits(entry[name], shape)
        require(sound, rule, f"has a wrong field {name}: {entry.get(name)!r:.150}")
    require(entry["version"] == version, "ENT-3", f"says that it is version {entry['version']}")
    for name, rule in (("add", "ADD-6"), ("delete", "DEL-3")):
        columns = {*PER_FILE, *(key.rstrip("?") for key in (*COLUMNS, *DELETE))}
        group = entry.get(name, {}).keys()
        both = "side" in group and columns & group
        require(not both, rule, f"has `{name}` in a overflow metadata file, and in the entry")
    both = {"partitions", "predicate"} <= (entry["basis"]["scope"] or {}).keys()
    require(not both, "ENT-5", "has a scope of partitions, and of a condition")
    check_cursors(entry)
    first = entry["previous"] is None
    require(first == (version == 0), "ENT-3", "has null for previous, or version 0 has not")
    creates = not first or entry["operation"]["class"] == "PROTOCOL"
    require(creates, "ENT-4", "creates the table, and is not of the class PROTOCOL")
    require(not (first and "ends" in entry), "ENT-14", "creates the table, and drops it")


def check_path(path: str, imported: bool = False) -> None:
    """Refuse a path that is not relative, normalised and inside `data/` (KEY-2, IMP-1)."""
    parts = path.split("/")
    bad = any(ord(c) < 32 or 127 <= ord(c) < 160 or c == "\\" for c in path)
    inside = parts[0] == "data" and len(parts) > 1 and not {"", ".", ".."} & set(parts)
    if imported:
        hidden = any(
            part[:1] in (".", "") or (part[:1] == "_" and "=" not in part) for part in parts
        )
        own = parts[0] in ("deletes", "metadata")
        require(not hidden and not own, "IMP-1", f"imports the path {path!r:.200}")
        inside = True
    sound = inside and not bad and len(path.encode()) <= 1024
    require(sound, "KEY-2", f"adds the path {path!r:.200}, which no table may hold")


def check_imports(metadata: Json, before: Json, added: list[Json], protocol: Json) -> None:
    """Refuse imports that break a rule, and files of an import that is not described."""
    imports, numbers = metadata.get("imports", {}), {file["import"] for file in added} - {None}
    if "imports" not in metadata and not numbers:
        return
    known = all("importedFiles" in protocol[side] for side in ("reader", "writer"))
    require(known, "VER-4", "has imports, and no entry up to it has importedFiles")
    sound = isinstance(imports, dict) and imports and all(map(FIELD_ID.match, imports))
    require(sound or "imports" not in metadata, "IMP-2", "has imports that are none")
    for each in imports.values():
        newer = strangers(each, IMPORT, "metadata.imports", set()) if isinstance(each, dict) else []
        require(not newer, "VER-2", f"needs a newer version, for an import has {newer}")
        sound = fits(each, IMPORT) and all(map(FIELD_ID.match, each["names"]))
        require(sound, "IMP-2", f"has the import {each!r:.150}")
        require(not (each["root"] and "adopt" in each), "IMP-2", "adopts files elsewhere")
    for number, each in before.get("imports", {}).items():
        require(imports.get(number, each) == each, "IMP-2", f"changes the import {number}")
    lost = {number for number in numbers if str(number) not in imports}
    require(not lost, "IMP-1", f"adds files of unknown imports: {sorted(lost)}")


def files_of(
    add: Json,
    fields: dict[str, Json],
    numbered: Numbered,
    current: int,
    remarks: Remarks,
) -> list[Json]:
    """Convert the columns of `add` into a dict for each file; check values (ADD-1, VAL-1 to VAL-4).

    Impossible bounds and counts are remarks: a reader treats them as unknown.
    """
    groups: dict[str, Json] = {name: add.get(name, {}) for name in PER_FILE}
    arrays = [add["size"], add["rows"], *(a for group in groups.values() for a in group.values())]
    arrays += [add[name] for name in FLAT if name in add]
    count = len(add["path"])
    require(count and {len(a) for a in arrays} == {count}, "ADD-1", "has columns of uneven length")
    ids = all(FIELD_ID.match(key) for group in groups.values() for key in group)
    require(ids, "ADD-1", "has columns that are not keyed by field ids")
    values = [value for group in groups.values() for a in group.values() for value in a]
    flat = not any(isinstance(value, list | dict) for value in values)
    require(flat, "ADD-1", "has an array or an object for a value of a column")
    numbers = numbers_of(add, numbered, current)
    keys, used = set(groups["partition"]), {str(i) for n in numbers for i in numbered[n]}
    require(keys == used, "ADD-1", f"has partition values for {keys}")
    files = []
    for i, path in enumerate(add["path"]):
        number = add["import"][i] if "import" in add else None
        check_path(path, number is not None)
        size, rows = add["size"][i], add["rows"][i]
        require(size > 0, "ADD-1", f"adds the file {path!r} of no bytes")
        own: Json = {
            name: {key: a[i] for key, a in group.items()} for name, group in groups.items()
        }
        own["partitioning"] = numbers[i]
        own["partition"] = partition_values(own["partition"], numbered[numbers[i]])
        for key, value in own["partition"].items():
            decoded = decode(value, fields[key]["type"])
            require(repr(decoded) != "-0.0", "VAL-2", "has negative zero for a partition")
            if isinstance(decoded, float) and isinstance(value, int | float):
                own["partition"][key] = decoded
        remarks += _implausible(own, rows, path, fields)
        own["written"] = written = add["written"][i] if "written" in add else None
        require(written is None or natural(written), "ADD-9", f"says {written!r:.40} for a version")
        own["import"] = number
        own["footer"] = add["footer"][i] if "footer" in add else None
        files.append({"path": path, "size": size, "rows": rows, "deleted": 0, "gone": [], **own})
    return files


def check_partition(values: list[Any], kinds: list[Any]) -> None:
    """Refuse a partition of a scope with values that its columns cannot have (ENT-5)."""
    for value, kind in zip(values, kinds, strict=True):
        try:
            zero = repr(decode(value, kind)) == "-0.0"
        except Refusal as refusal:
            raise Refusal("ENT-5", f"has a scope that {refusal.args[1]}") from None
        require(not zero, "VAL-2", "has a scope with a partition of negative zero")


def _implausible(own: Json, rows: int, path: str, fields: dict[str, Json]) -> Remarks:
    """Return the impossible counts and bounds of a file, which say nothing about it (PRN-6).

    Values of other types are refused.
    """
    counts = [v for group in ("nulls", "nans") for v in own[group].values()]
    for value in counts:
        decode(value, "long")
    bounds = [(own["lower"].get(key), own["upper"].get(key), key) for key in fields]
    for *pair, key in bounds:
        for value in pair:
            decode(value, fields[key]["type"])
    try:
        sound = all(v is None or 0 <= v <= rows for v in counts)
        require(sound, "ADD-1", f"counts that cannot be of the {rows} rows of {path!r}")
        for lower, upper, key in bounds:
            check_bounds(lower, upper, fields[key]["type"])
    except Refusal as refusal:
        return [refusal.args]
    return []


def side_columns(raw: bytes, files: int) -> Json:
    """Return the `add` columns of an overflow metadata file with `files` files (ADD-6)."""
    require(files <= MAX_SIDE_FILES, "ADD-6", f"has an overflow metadata file of {files} files")
    try:
        footer = footer_of(raw)
        require(
            footer.num_rows == files,
            "ADD-6",
            f"has an overflow metadata file that does not hold {files} files",
        )
        _check_columns(dict.fromkeys(names_of(footer)))
        table = columns_of(raw, footer)
    except BadParquetError as error:
        raise Refusal(
            "ADD-6", f"has an overflow metadata file that is not Parquet: {error}"
        ) from None
    return add_columns(table)


def add_columns(table: pa.Table) -> Json:
    """Return the `add` columns of an overflow metadata file or a segment, as in an entry."""
    add: Json = {}
    for name in table.column_names:
        group, _, key = name.partition(".")
        values = encode(table[name])
        if key:
            plain = group not in PER_FILE and {group, f"{group}?"} & COLUMNS.keys()
            require(
                not plain, "ADD-6", f"has an overflow metadata file with a column {name!r:.100}"
            )
            add.setdefault(group, {})[key] = values
        else:
            add[name] = values
    _check_columns(add)
    require(fits(add, COLUMNS), "ADD-6", "has an overflow metadata file with other columns")
    return add


def _check_columns(columns: Json) -> None:
    """Refuse columns that a newer version wrote, by their names (VER-2)."""
    newer = strangers({name.partition(".")[0]: None for name in columns}, COLUMNS, "add", OPEN)
    require(
        not newer, "VER-2", f"needs a newer version, for its overflow metadata file has {newer}"
    )
