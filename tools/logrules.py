"""What the specification demands of one entry, for `logdump.py`: written from spec/ alone.

Bytes to JSON, then fields, paths, values, bounds and schemas. A broken rule is a `Refusal`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

Json = dict[str, Any]

MAX_ENTRY_BYTES, MAX_NESTING = 64 * 1024 * 1024, 128
MAX_ID = 2147482999
TAIL, TAIL_BYTES = re.compile(rb',"checksum":"([0-9a-f]{64})"\}\Z'), 79
HEX32, HEX64 = re.compile(r"[0-9a-f]{32}\Z"), re.compile(r"[0-9a-f]{64}\Z")
SIDE_PATH = re.compile(r"_log/side/[0-9a-f]{32}\.parquet\Z")
DELETES_PATH = re.compile(r"deletes/[0-9a-f]{32}\.parquet\Z")
JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
FIELD_ID = re.compile(r"[1-9]\d*\Z", re.ASCII)
DECIMAL_TYPE = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)\Z", re.ASCII)
DECIMAL_TEXT = re.compile(r"-?\d+(\.\d+)?\Z", re.ASCII)
BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
BITS |= {"date": 32, "timestamp": 64, "timestamp_ntz": 64}
TYPE_NAMES = {*BITS, "boolean", "float", "double", "string", "binary", "variant"}
TIMELESS = {"MINOR_COMPACT", "MAJOR_COMPACT", "CLUSTER"}
CLASSES = {*TIMELESS, "INSERT", "OVERWRITE", "UPDATE", "METADATA", "PROTOCOL"}
TOTALS = ("files", "rows", "bytes", "next_id", "metadata_version")
PER_FILE = ("partition", "lower", "upper", "nulls", "nans")


class Refusal(Exception):
    """A rule that an entry breaks so that no reader may go on."""


def require(condition: object, rule: str, message: str) -> None:
    """Refuse unless the condition holds."""
    if not condition:
        raise Refusal(rule, message)


# --- bytes to JSON (ENT-1, ENT-2) ----------------------------------------------------------------


def parse(raw: bytes) -> tuple[Json | None, list[tuple[str, str]], list[tuple[str, str]]]:
    """Give the JSON object in the bytes if there is one, refusals, and remarks on its form."""
    refusals: list[tuple[str, str]] = []
    remarks: list[tuple[str, str]] = []

    def json_object(pairs: list[tuple[str, Any]]) -> Json:
        keys = [key for key, _ in pairs]
        twice = [key for key, count in Counter(keys).items() if count > 1]
        refusals.extend(("ENT-1", f"repeats the key {key!r}") for key in twice)
        if sorted(keys) != keys and not (keys[-1] == "checksum" and sorted(keys[:-1]) == keys[:-1]):
            remarks.append(("ENT-1", f"has keys that are not sorted: {keys!r:.200}"))
        return dict(pairs)

    def integer(digits: str) -> int:
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
            refusals.append(("ENT-2", f"holds {digits:.40}, beyond signed 64 bits"))
        return int(digits[:20])

    if len(raw) > MAX_ENTRY_BYTES:
        return None, [("ENT-2", "is larger than 64 MiB")], []
    tail = TAIL.search(raw[-TAIL_BYTES:])
    if tail is None:
        refusals.append(("ENT-1", "does not end with its checksum"))
    elif hashlib.sha256(raw[:-TAIL_BYTES]).hexdigest().encode() != tail[1]:
        refusals.append(("ENT-1", "has a checksum that differs from that of its bytes"))
    try:
        bare = JSON_STRING.sub('""', raw.decode("utf-8"))
        deepest = depth = 0
        for bracket in re.findall(r"[\[\]{}]", bare):
            depth += 1 if bracket in "[{" else -1
            deepest = max(deepest, depth)
        if deepest > MAX_NESTING:
            return None, [*refusals, ("ENT-2", "is nested deeper than 128 levels")], []
        if re.search(r"\s", bare):
            remarks.append(("ENT-1", "holds white space outside strings"))
        orjson.loads(raw)  # stricter than json: no NaN, no lone surrogates
        entry = json.loads(raw, object_pairs_hook=json_object, parse_int=integer)
    except ValueError as error:
        return None, [*refusals, ("ENT-1", f"is not valid JSON: {error}")], []
    if not isinstance(entry, dict):
        return None, [*refusals, ("ENT-1", "is not a JSON object")], []
    return entry, refusals, remarks


# --- fields (ENT-3 to ENT-8, KEY-2, ADD-1) -------------------------------------------------------


def fits(value: Any, shape: Any) -> bool:
    """Whether a JSON value has a shape.

    A dict names keys ("?" at the end: may be missing), a list holds the shape of every element, a
    tuple lists choices, a set lists strings; a pattern, a type, None and a function are themselves.
    """
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            fits(value[key.rstrip("?")], inner) if key.rstrip("?") in value else key[-1] == "?"
            for key, inner in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(element, shape[0]) for element in value)
    if isinstance(shape, tuple):
        return any(fits(value, choice) for choice in shape)
    if isinstance(shape, set):
        return isinstance(value, str) and value in shape
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.match(value) is not None
    if isinstance(shape, type):
        return type(value) is shape
    return value is None if shape is None else bool(shape(value))


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _time(value: Any) -> bool:
    return _natural(value) and value < 253_402_300_800_000_000


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0


def _ascending(shape: Any) -> Callable[[Any], bool]:
    return lambda value: fits(value, [shape]) and sorted(set(value)) == value


def _different(value: Any) -> bool:
    return fits(value, [_positive]) and len(set(value)) == len(value)


def _map_of(shape: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and fits([*value.values()], [shape])


OPERATION = {"class": CLASSES, "metrics": _map_of(int), "name": str, "parameters": dict}
BASIS = {
    "read_version": (None, _natural),
    "isolation": {"WriteSerializable", "Serializable"},
    "granularity": {"row", "file", "transaction"},
    "blind": bool,
    "scope": (None, {"partitions": [list]}, {"predicate": str}),
    "predicate?": str,
}
SUMS = {**dict.fromkeys(TOTALS, _natural), "deleted?": _positive}
FIELD = {"id": int, "name": str, "nullable": bool, "physical": str, "type": (str, dict)}
FIELD |= dict.fromkeys(("default?", "initial?"), (bool, int, float, str)) | {"text?": str}
SCHEMA: dict[str, Any] = {"fields": [FIELD], "last_id": int}
SCHEMA["dropped?"] = lambda value: value and _ascending(str)(value)
COMMENT_MAX = 4000
METADATA = {"partition_by": [int], "properties": _map_of(str), "schema": SCHEMA}
CONSTRAINT = {"columns": _ascending(_positive), "condition": str}
SIDE = {"files": _natural, "path": SIDE_PATH, "sha256": HEX64, "size": _natural}
COLUMNS: dict[str, Any] = {"path": [str], "size": [_natural], "rows": [_natural]}
COLUMNS |= {f"{name}?": _map_of(list) for name in PER_FILE}
COLUMNS |= {"updated?": [bool], "keys?": [(None, str)], "written?": [(None, _natural)]}
TEXTS = [(None, str)]
DELETE = {"file": [_positive], "rows": [_positive], "deleted": TEXTS, "updated": TEXTS}
LINEAGE: dict[str, Any] = {
    "output": [_natural],
    "input": [_positive],
    "start": [_natural],
    "rows": [_positive],
}
LINEAGE |= {"dropped": TEXTS}
UPDATE = {"keys": _different, "set": (None, _ascending(_positive))}
ENTRY: dict[str, tuple[str, Any]] = {
    "format": ("ENT-3", int),
    "table": ("ENT-3", HEX32),
    "version": ("ENT-3", _natural),
    "timestamp": ("ENT-3", _time),
    "time_version": ("ENT-3", _time),
    "transaction": ("ENT-3", HEX32),
    "previous": ("ENT-3", (None, HEX64)),
    "operation": ("ENT-4", OPERATION),
    "basis": ("ENT-5", BASIS),
    "totals": ("ENT-6", SUMS),
    "protocol?": ("ENT-7", {"reader": _ascending(str), "writer": _ascending(str)}),
    "metadata?": ("ENT-8", METADATA),
    "add?": ("ADD-1", ({"side": SIDE}, COLUMNS)),
    "remove?": ("ENT-3", lambda value: value and _ascending(int)(value)),
    "delete?": ("DEL-1", ({"side": {**SIDE, "path": DELETES_PATH}}, DELETE)),
    "lineage?": ("LIN-1", LINEAGE),
    "update?": ("ENT-9", UPDATE),
    "application?": ("ENT-3", {"id": str, "version": int, "digest": (None, str)}),
    "user_metadata?": ("ENT-3", dict),
}


def check_fields(entry: Json, version: int) -> None:
    """Refuse an entry whose own fields break a rule, whatever came before it."""
    number = entry.get("format")
    require(number == 1, "ENT-3", f"is of format {number!r:.40}; this reader knows format 1")
    for key, (rule, shape) in ENTRY.items():
        name = key.rstrip("?")
        needed = name == key or (version == 0 and name in ("protocol", "metadata"))
        require(name in entry or not needed, "ENT-3", f"lacks the field {name}")
        sound = name not in entry or fits(entry[name], shape)
        require(sound, rule, f"has a wrong field {name}: {entry.get(name)!r:.150}")
    require(entry["version"] == version, "ENT-3", f"says that it is version {entry['version']}")
    first = entry["previous"] is None
    require(first == (version == 0), "ENT-3", "has null for previous, or version 0 has not")


def check_path(path: str) -> None:
    """Refuse a path that is not relative, normalised and inside `data/` (KEY-2)."""
    parts = path.split("/")
    bad = any(ord(c) < 32 or 127 <= ord(c) < 160 or c == "\\" for c in path)
    inside = parts[0] == "data" and len(parts) > 1 and not {"", ".", ".."} & set(parts)
    sound = inside and not bad and len(path.encode()) <= 1024
    require(sound, "KEY-2", f"adds the path {path!r:.200}, which no table may hold")


def files_of(
    add: Json, fields: dict[str, Json], partition_by: list[int], remarks: list[tuple[str, str]]
) -> list[Json]:
    """Turn the columns of `add` into a dict a file, checking values (ADD-1, VAL-1 to VAL-4).

    Bounds and counts that cannot be are remarks: a reader takes them for unknown.
    """
    groups: dict[str, Json] = {name: add.get(name, {}) for name in PER_FILE}
    arrays = [add["size"], add["rows"], *(a for group in groups.values() for a in group.values())]
    arrays += [add[name] for name in ("footer", "updated", "keys", "written") if name in add]
    count = len(add["path"])
    require(count and {len(a) for a in arrays} == {count}, "ADD-1", "has columns of uneven length")
    ids = all(FIELD_ID.match(key) for group in groups.values() for key in group)
    require(ids, "ADD-1", "has columns that are not keyed by field ids")
    keys = set(groups["partition"])
    require(keys == {str(i) for i in partition_by}, "ADD-1", f"has partition values for {keys}")
    files = []
    for i, path in enumerate(add["path"]):
        check_path(path)
        size, rows = add["size"][i], add["rows"][i]
        require(size > 0, "ADD-1", f"adds the file {path!r} of no bytes")
        own = {name: {key: a[i] for key, a in group.items()} for name, group in groups.items()}
        for key, value in own["partition"].items():
            decoded = decode(value, fields[key]["type"])
            require(repr(decoded) != "-0.0", "VAL-2", "has negative zero for a partition")
        try:
            for counts in (own["nulls"], own["nans"]):
                sound = all(v is None or (_natural(v) and v <= rows) for v in counts.values())
                require(sound, "ADD-1", f"counts more than the {rows} rows of {path!r}")
            for key in {*own["lower"], *own["upper"]} & set(fields):
                check_bounds(own["lower"].get(key), own["upper"].get(key), fields[key]["type"])
        except Refusal as refusal:
            remarks.append(refusal.args)
        own["written"] = add["written"][i] if "written" in add else None
        files.append({"path": path, "size": size, "rows": rows, "deleted": 0, "gone": [], **own})
    return files


def side_columns(raw: bytes) -> Json:
    """The `add` columns in a side file, its values encoded as in an entry (ADD-6)."""
    try:
        table = pq.read_table(io.BytesIO(raw))
    except (OSError, ValueError) as error:
        raise Refusal("ADD-6", f"has a side file that is not Parquet: {error}") from None
    add: Json = {}
    for name in table.column_names:
        group, _, key = name.partition(".")
        values = encode(table[name])
        if key:
            add.setdefault(group, {})[key] = values
        else:
            add[name] = values
    require(fits(add, COLUMNS), "ADD-6", "has a side file with other columns")
    return add


# --- values and schemas (VAL, SCH) ---------------------------------------------------------------


def encode(column: pa.ChunkedArray) -> list[Any]:
    """A Parquet column's values as VAL-1 writes them."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    values = column.to_pylist()
    if pa.types.is_binary(column.type):
        return [None if value is None else base64.b64encode(value).decode() for value in values]
    if pa.types.is_decimal(column.type):
        return [None if value is None else f"{value:f}" for value in values]
    if pa.types.is_floating(column.type):
        special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return [special.get(repr(value), value) for value in values]
    return list(values)


def decode(value: Any, kind: Any) -> Any:
    """Refuse a value that its type does not encode so (VAL-1); give it as one to compare."""
    if value is None:
        return None
    sound, decoded = False, value
    if kind in ("float", "double"):
        sound = fits(value, ({"NaN", "Infinity", "-Infinity"}, int, float))
        decoded = float(value) if sound else None
    elif kind in ("boolean", "string"):
        sound = type(value) is {"boolean": bool, "string": str}[kind]
    elif isinstance(kind, str) and kind in BITS:
        limit = 2 ** (BITS[kind] - 1)
        sound = type(value) is int and -limit <= value < limit
    elif kind == "binary" and isinstance(value, str):
        try:
            decoded = base64.b64decode(value, validate=True)
            sound = base64.b64encode(decoded).decode() == value
        except ValueError:
            sound = False
    elif isinstance(kind, str) and isinstance(value, str) and DECIMAL_TEXT.match(value):
        decoded = Decimal(value)
        sound = _is_written(decoded, value, kind)
    require(sound, "VAL-1", f"holds {value!r:.100} where the type is {kind!r:.100}")
    return decoded


def _is_written(number: Decimal, text: str, kind: str) -> bool:
    """Whether a decimal has exactly its type's digits, and no sign on zero."""
    match = DECIMAL_TYPE.match(kind)
    if match is None:
        return False
    precision, scale = int(match[1]), int(match[2])
    plain = f"{number.copy_abs():.{scale}f}"
    digits = plain.replace(".", "").lstrip("0")
    return text == ("-" if number < 0 else "") + plain and len(digits) <= precision


def check_bounds(lower: Any, upper: Any, kind: Any) -> None:
    """Refuse bounds that are too long, NaN, of another type, or upside down."""
    low, high = decode(lower, kind), decode(upper, kind)
    require("NaN" not in (lower, upper) or kind == "string", "VAL-4", "has NaN for a bound")
    short = kind not in ("string", "binary") or all(len(b or "") <= 32 for b in (low, high))
    require(short, "VAL-3", "has a bound longer than 32")
    ordered = low is None or high is None or low <= high
    require(ordered, "VAL-3", f"has the bounds {lower!r:.60} and {upper!r:.60}, upside down")


def fields_of(children: list[Json], depth: int = 1) -> Iterator[Json]:
    """Every field of a schema, nested ones too, each checked with its siblings."""
    require(fits(children, [FIELD]), "SCH-1", f"has a schema with the fields {children!r:.100}")
    require(depth <= 64 and len(children) <= 10_000, "SCH-2", "has too many columns or levels")
    names = Counter(field["name"].lower() for field in children)
    twice = [name for name, count in names.items() if count > 1]
    require(not twice, "SCH-2", f"has columns that differ by case alone: {twice}")
    for field in children:
        name = field["name"]
        sound = name and "\0" not in name and len(name.encode()) <= 1024
        require(sound, "SCH-2", f"has a column named {name!r:.100}")
        yield field
        yield from _nested(field["type"], depth)


def _nested(kind: Any, depth: int) -> Iterator[Json]:
    if isinstance(kind, str):
        match = DECIMAL_TYPE.match(kind)
        sound = match and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1])
        require(sound or kind in TYPE_NAMES, "SCH-1", f"has the type {kind!r:.100}")
    elif fits(kind, {"struct": list}):
        yield from fields_of(kind["struct"], depth + 1)
    else:
        choices = (
            {"array": (str, dict), "element_id": int, "nullable": bool},
            {"map": [(str, dict)], "key_id": int, "value_id": int, "nullable": bool},
        )
        sound = fits(kind, choices) and len(kind.get("map", "kv")) == 2
        require(sound, "SCH-1", f"has the type {kind!r:.100}")
        for element in kind.get("map", [kind.get("array")]):
            yield from _nested(element, depth + 1)


def ids_of(fields: list[Json]) -> list[int]:
    """The ids of fields that `fields_of` gives, and of the elements, keys and values in them."""
    found = [field["id"] for field in fields]
    kinds = [field["type"] for field in fields]
    while kinds:
        kind = kinds.pop()
        if isinstance(kind, dict) and "struct" not in kind:
            found += [kind[name] for name in ("element_id", "key_id", "value_id") if name in kind]
            kinds += kind.get("map", [kind.get("array")])
    return found


def _check_values(schema: Json, fields: list[Json]) -> None:
    """Refuse defaults that are none of a flat column (SCH-7)."""
    top = [id(field) for field in schema["fields"]]
    for field in fields:
        for name in {"default", "initial"} & set(field):
            flat = isinstance(field["type"], str) and field["type"] not in ("binary", "variant")
            inside = id(field) not in top
            require(flat and not inside, "SCH-7", f"has a {name} of {field['name']!r:.100}")
            try:
                decode(field[name], field["type"])
            except Refusal as refusal:
                raise Refusal("SCH-7", refusal.args[1]) from None
        if "text" in field:
            _check_text(field, id(field) in top)


def _check_text(field: Json, top: bool) -> None:
    """Refuse a length that is none, and a default of another one (SCH-10)."""
    match = re.fullmatch(r"(var)?char\(([1-9]\d{0,9})\)", str(field["text"]), re.ASCII)
    if not match or int(match[2]) >= 1 << 31 or not top or field["type"] != "string":
        said = f"has the length {field['text']!r:.100} of {field['name']!r:.100}"
        raise Refusal("SCH-1", said)
    for name in {"default", "initial"} & set(field):
        value, most = field[name], int(match[2])
        fits = len(value) <= most if match[1] else len(value) == most
        require(fits, "SCH-10", f"has a {name} {value!r:.100} of another length")


def _check_dropped(schema: Json, before: Json, ids: set[str]) -> None:
    """Refuse a schema that forgets the name of a column that is gone (SCH-8)."""
    gone = set(before.get("dropped", ()))
    stack = list(before["fields"])
    while stack:
        field = stack.pop()
        if str(field["id"]) not in ids:
            gone.add(field["physical"])
            continue
        kinds = [field["type"]]
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, dict):
                stack += kind.get("struct", [])
                kinds += [kind["array"]] if "array" in kind else kind.get("map", [])
    left = gone - set(schema.get("dropped", ()))
    require(not left, "SCH-8", f"forgets the physical names of dropped columns: {sorted(left)}")


def _check_constraints(checks: Any, columns: set[int]) -> None:
    """Refuse constraints that are none (ENT-10)."""
    sound = checks and _map_of(CONSTRAINT)(checks) and "" not in checks
    require(sound, "ENT-10", f"has constraints that are none: {checks!r:.100}")
    sound = all(set(check["columns"]) <= columns for check in checks.values())
    require(sound, "ENT-10", f"has constraints on columns that are not there: {checks!r:.100}")
    sound = len({name.casefold() for name in checks}) == len(checks)
    require(sound, "ENT-10", f"has two constraints of one name: {sorted(checks)!r:.100}")


def check_metadata(metadata: Json, before: Json | None) -> dict[str, Json]:
    """Refuse metadata that breaks a rule; give its fields by id."""
    schema, keys = metadata["schema"], metadata["partition_by"]
    fields = list(fields_of(schema["fields"]))
    by_id = {str(field["id"]): field for field in fields}
    ids = ids_of(fields)
    sound = len(set(ids)) == len(ids) and all(1 <= i <= schema["last_id"] <= MAX_ID for i in ids)
    require(sound, "SCH-4", "has column ids that are not positive, different and given out")
    flat = {
        field["id"]
        for field in schema["fields"]
        if isinstance(field["type"], str) and field["type"] != "variant"
    }
    sound = len(set(keys)) == len(keys) and set(keys) <= flat
    require(sound, "ENT-8", f"is partitioned by {keys!r:.100}, which are not flat columns")
    _check_values(schema, fields)
    for said in (metadata, *fields):
        if "comment" in said:
            sound = isinstance(said["comment"], str) and 0 < len(said["comment"]) <= COMMENT_MAX
            require(sound, "ENT-11", f"has a comment that is none: {said['comment']!r:.100}")
    if "constraints" in metadata:
        _check_constraints(metadata["constraints"], {f["id"] for f in schema["fields"]})
    if before is not None:
        _check_dropped(schema, before["schema"], set(by_id))
        last, old_fields = before["schema"]["last_id"], list(fields_of(before["schema"]["fields"]))
        require(schema["last_id"] >= last, "SCH-4", "has a last_id that fell")
        again = [i for i in set(ids).difference(ids_of(old_fields)) if i <= last]
        require(not again, "SCH-4", f"gives out ids that were given out before: {again}")
        for old in old_fields:
            same = by_id.get(str(old["id"]), old)["physical"] == old["physical"]
            require(same, "SCH-3", f"changes the physical name of {old['name']!r}")
    return by_id
