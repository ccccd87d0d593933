"""Check metadata against the specification, from spec/ alone (SCH)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from logdump.evolution import check_partitionings, partitionings
from logdump.hidden import check_hidden_kept, hidden_fields, newer_hidden
from logdump.shapes import Json, Refusal, ascending, fits, map_of, positive, require
from logdump.values import BITS, DECIMAL_TYPE, decode

MAX_ID = 2147482999
TYPE_NAMES = {*BITS, "boolean", "float", "double", "string", "binary", "variant"}
FIELD = {"id": int, "name": str, "nullable": bool, "physical": str, "type": (str, dict)}
FIELD |= dict.fromkeys(("default?", "initial?"), (bool, int, float, str)) | {"text?": str}
FIELD["comment?"] = lambda value: True
COMMENT_MAX = 4000
SCHEMA: dict[str, Any] = {"fields": [FIELD], "last_id": int}
SCHEMA["hidden?"] = list
SCHEMA["dropped?"] = lambda value: value and ascending(str)(value)
METADATA = {"partition_by": [int], "properties": map_of(str), "schema": SCHEMA}
CONSTRAINT = {"columns": ascending(positive), "condition": str}
TYPES: tuple[Json, ...] = (
    {"array": (str, dict), "element_id": int, "nullable": bool},
    {"map": [(str, dict)], "key_id": int, "value_id": int, "nullable": bool},
)


YOUNGER = {0x1C89, 0x2C2F, 0xA7C0, 0xA7CB, 0xA7CC, 0xA7CE, 0xA7D0, 0xA7D2, 0xA7D4, 0xA7D6, 0xA7D8}
YOUNGER |= {0xA7DA, 0xA7DC, *range(0x10570, 0x10596), *range(0x10D50, 0x10D66)}
YOUNGER |= {*range(0x16EA0, 0x16EB9)}
"""Letters that only Unicode versions after 13.0 fold (SCH-2)."""


def folded(name: str) -> str:
    """Fold case fully, as Unicode 13.0 does (SCH-2)."""
    return "".join(c if ord(c) in YOUNGER else c.casefold() for c in name)


IMPORT = {"root", "names", "from", "adopt", "lookup"}
IMPORT_FROM = {"format", "uri", "version"}


def newer_in(metadata: Any) -> list[str]:
    """Return types, and names in fields and constraints, that version 1 lacks (VER-2)."""
    schema = metadata.get("schema") if isinstance(metadata, dict) else None
    checks = metadata.get("constraints") if isinstance(metadata, dict) else None
    each = checks.values() if isinstance(checks, dict) else ()
    found = [f"constraints.{n}" for c in each if isinstance(c, dict) for n in c.keys() - CONSTRAINT]
    imports = metadata.get("imports") if isinstance(metadata, dict) else None
    for one in imports.values() if isinstance(imports, dict) else ():
        if isinstance(one, dict):
            found += [f"imports.{name}" for name in one.keys() - IMPORT]
            source = one.get("from")
            known = source.keys() if isinstance(source, dict) else set()
            found += [f"imports.from.{name}" for name in known - IMPORT_FROM]
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return found + newer_hidden(schema) + _newer_fields(fields, 1)


def _newer_fields(fields: Any, depth: int) -> list[str]:
    known, found = {key.rstrip("?") for key in FIELD}, []
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            found += [f"field {name}" for name in field.keys() - known]
            found += _newer_type(field.get("type"), depth)
    return found


def _newer_type(kind: Any, depth: int) -> list[str]:
    if isinstance(kind, str):
        sound = kind in TYPE_NAMES or kind.startswith("decimal(")
        return [] if sound else [f"type {kind:.100}"]
    if not isinstance(kind, dict) or depth > 64:
        return []
    names = next((set(t) for t in TYPES if t.keys() & kind.keys() - {"nullable"}), {"struct"})
    if "struct" in kind:
        names = {"struct"}
    found = [f"type {name:.100}" for name in kind.keys() - names - {"nullable"}]
    if found and not names & kind.keys() - {"nullable"}:
        return found
    inner = kind.get("map")
    for one in [kind.get("array"), *(inner if isinstance(inner, list) else ())]:
        found += _newer_type(one, depth + 1)
    return found + _newer_fields(kind.get("struct"), depth + 1)


def fields_of(children: list[Json], depth: int = 1) -> Iterator[Json]:
    """Yield every field of a schema, also nested, each checked with its siblings."""
    require(fits(children, [FIELD]), "SCH-1", f"has a schema with the fields {children!r:.100}")
    require(children, "SCH-1", "has a schema, or a struct in it, without fields")
    require(len(children) <= 10_000, "SCH-2", "has too many columns")
    names = Counter(folded(field["name"]) for field in children)
    twice = [name for name, count in names.items() if count > 1]
    require(not twice, "SCH-2", f"has columns that differ by case alone: {twice}")
    physical = Counter(folded(field["physical"]) for field in children)
    twice = [name for name, count in physical.items() if count > 1]
    require(not twice, "SCH-8", f"has siblings of one physical name: {twice}")
    for field in children:
        name = field["name"]
        sound = name and "\0" not in name and len(name.encode()) <= 1024
        require(sound, "SCH-2", f"has a column named {name!r:.100}")
        yield field
        yield from _nested(field["type"], depth)


def _nested(kind: Any, depth: int) -> Iterator[Json]:
    require(depth <= 64, "SCH-2", "has types that nest deeper than 64 levels")
    if isinstance(kind, str):
        match = DECIMAL_TYPE.match(kind)
        sound = match and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1])
        require(sound or kind in TYPE_NAMES, "SCH-1", f"has the type {kind!r:.100}")
    elif fits(kind, {"struct": list}):
        yield from fields_of(kind["struct"], depth + 1)
    else:
        sound = fits(kind, TYPES) and len(kind.get("map", "kv")) == 2
        require(sound, "SCH-1", f"has the type {kind!r:.100}")
        if "map" in kind:
            require(not _has_variant(kind["map"][0]), "SCH-6", "has a variant in a map's key")
        for element in kind.get("map", [kind.get("array")]):
            yield from _nested(element, depth + 1)


def _has_variant(kind: Any) -> bool:
    """Return True if a type is or contains a variant."""
    kinds = [kind]
    while kinds:
        kind = kinds.pop()
        if kind == "variant":
            return True
        if isinstance(kind, dict):
            inner = kind.get("map", [kind.get("array")])
            kinds += inner if isinstance(inner, list) else []
            fields = kind.get("struct")
            each = fields if isinstance(fields, list) else []
            kinds += [field.get("type") for field in each if isinstance(field, dict)]
    return False


def ids_of(fields: list[Json]) -> list[int]:
    """Return the ids of the fields of `fields_of`, and of the elements, keys and values in them."""
    found = [field["id"] for field in fields]
    kinds = [field["type"] for field in fields]
    while kinds:
        kind = kinds.pop()
        if isinstance(kind, dict) and "struct" not in kind:
            found += [kind[name] for name in ("element_id", "key_id", "value_id") if name in kind]
            kinds += kind.get("map", [kind.get("array")])
    return found


def _homes(fields: list[Json]) -> dict[int, tuple[str, int]]:
    """Return the kind and the parent's id (0: the table) for each id."""
    homes: dict[int, tuple[str, int]] = {}
    stack: list[tuple[Any, int]] = [({"struct": fields}, 0)]
    while stack:
        kind, home = stack.pop()
        if not isinstance(kind, dict):
            continue
        for field in kind.get("struct", []):
            homes[field["id"]] = ("field", home)
            stack.append((field["type"], field["id"]))
        inner = kind["map"] if "map" in kind else [kind.get("array")]
        names = ("key_id", "value_id") if "map" in kind else ("element_id",)
        for name, each in zip(names, inner, strict=True):
            if name in kind:
                homes[kind[name]] = (name, home)
                stack.append((each, kind[name]))
    return homes


def _check_kept(schema: Json, before: Json) -> None:
    """Refuse ids that now belong to another part, and changed ids of a list or map (SCH-4)."""
    old, new = _homes(before["fields"]), _homes(schema["fields"])
    moved = [i for i in old.keys() & new.keys() if old[i] != new[i]]
    require(not moved, "SCH-4", f"gives ids of one thing to another: {sorted(moved)}")
    parts = {home: i for i, home in old.items() if home[0] != "field"}
    changed = [i for i, home in new.items() if parts.get(home, i) != i]
    require(not changed, "SCH-4", f"has other ids in lists or maps that stay: {sorted(changed)}")


def _types(fields: list[Json]) -> dict[int, Any]:
    """Return the type of each field, element, key or value by id."""
    types: dict[int, Any] = {}
    stack = [(field["id"], field["type"]) for field in fields]
    while stack:
        identity, kind = stack.pop()
        types[identity] = kind
        if isinstance(kind, dict) and "struct" in kind:
            stack += [(field["id"], field["type"]) for field in kind["struct"]]
        elif isinstance(kind, dict) and "array" in kind:
            stack.append((kind["element_id"], kind["array"]))
        elif isinstance(kind, dict):
            stack += zip((kind["key_id"], kind["value_id"]), kind["map"], strict=True)
    return types


def _is_wider(old: Any, new: Any) -> bool:
    """Return True if SCH-9 allows the change, or if both types are nested and of one kind."""
    if isinstance(old, dict) or isinstance(new, dict):
        nested = isinstance(old, dict) and isinstance(new, dict)
        return nested and any(name in old and name in new for name in ("struct", "array", "map"))
    if old == new or (old, new) in (("float", "double"), ("date", "timestamp_ntz")):
        return True
    whole = ("byte", "short", "integer", "long")
    ours, theirs = DECIMAL_TYPE.match(old), DECIMAL_TYPE.match(new)
    if theirs is None:
        longer = old in whole and new in whole and whole.index(old) < whole.index(new)
        return longer or (new == "double" and old in whole[:3])
    digits, scale = int(theirs[1]) - int(theirs[2]), int(theirs[2])
    if ours is not None:
        return int(ours[1]) - int(ours[2]) <= digits and int(ours[2]) <= scale
    return old in whole and digits >= (20 if old == "long" else 10)


def _check_types(schema: Json, before: Json, restores: bool) -> None:
    """Refuse a type that is neither equal nor wider; for a restore, an unrelated one (SCH-9)."""
    old_types, origins = _types(before["fields"]), (*BITS, "float")
    for identity, new in _types(schema["fields"]).items():
        old = old_types.get(identity, new)
        sound = _is_wider(old, new)
        if restores and not sound and isinstance(old, str) and isinstance(new, str):
            sound = _is_wider(new, old) or old[:7] == new[:7] == "decimal"
            sound = sound or any(_is_wider(o, old) and _is_wider(o, new) for o in origins)
        require(sound, "SCH-9", f"makes {new!r:.60} of id {identity}, which was {old!r:.60}")


def _check_values(schema: Json, fields: list[Json]) -> None:
    """Refuse invalid defaults, and defaults of nested columns (SCH-7)."""
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
    """Refuse an invalid length, and a default of another length (SCH-10)."""
    match = re.fullmatch(r"(var)?char\(([1-9]\d{0,9})\)", str(field["text"]), re.ASCII)
    if not match or int(match[2]) >= 1 << 31 or not top or field["type"] != "string":
        said = f"has the length {field['text']!r:.100} of {field['name']!r:.100}"
        raise Refusal("SCH-1", said)
    for name in {"default", "initial"} & set(field):
        value, most = field[name], int(match[2])
        fits = len(value) <= most if match[1] else len(value) == most
        require(fits, "SCH-10", f"has a {name} {value!r:.100} of another length")


def _check_new(schema: Json, before: Json, known: set[int]) -> None:
    """Refuse new columns with the physical name of a dropped one (SCH-8)."""
    taken = {folded(name) for name in before.get("dropped", ())}
    stack = list(schema["fields"])
    while stack:
        field = stack.pop()
        if field["id"] not in known:
            # What is inside a new one is in no file yet.
            again = field["id"] > before["last_id"] and folded(field["physical"]) in taken
            require(not again, "SCH-8", f"gives {field['name']!r:.100} the name of one dropped")
            continue
        stack += _inside(field["type"])


def _inside(kind: Any) -> list[Json]:
    """Return the fields of the outermost structs in a type."""
    if not isinstance(kind, dict):
        return []
    if "struct" in kind:
        found: list[Json] = kind["struct"]
        return found
    inner = [kind["array"]] if "array" in kind else kind["map"]
    return [field for each in inner for field in _inside(each)]


def _check_dropped(schema: Json, before: Json, ids: set[str]) -> None:
    """Refuse a schema without the name of a dropped column (SCH-8)."""
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
    """Refuse invalid constraints (ENT-10)."""
    sound = checks and map_of(CONSTRAINT)(checks) and "" not in checks
    require(sound, "ENT-10", f"has constraints that are none: {checks!r:.100}")
    sound = all(set(check["columns"]) <= columns for check in checks.values())
    require(sound, "ENT-10", f"has constraints on columns that are not there: {checks!r:.100}")
    sound = len({folded(name) for name in checks}) == len(checks)
    require(sound, "ENT-10", f"has two constraints of one name: {sorted(checks)!r:.100}")


def _back(schema: Json, before: Json) -> set[int]:
    """Return the ids of dropped fields that come back, and of their parts (SCH-8)."""
    there, dropped = set(ids_of(list(fields_of(before["fields"])))), set(before.get("dropped", ()))
    roots = [
        field
        for field in fields_of(schema["fields"])
        if field["id"] not in there and field["physical"] in dropped
    ]
    return {i for root in roots for i in ids_of(list(fields_of([root])))}


def check_metadata(metadata: Json, before: Json | None, restores: bool = False) -> dict[str, Json]:
    """Refuse metadata that breaks a rule; return its fields by id.

    `restores`: the entry may bring back dropped fields.
    """
    schema, keys = metadata["schema"], metadata["partition_by"]
    fields = list(fields_of(schema["fields"]))
    by_id = {str(field["id"]): field for field in fields}
    numbered = partitionings(metadata)
    hidden = hidden_fields(schema, [i for ids in numbered.values() for i in ids], folded)
    ids = [*ids_of(fields), *map(int, hidden)]
    sound = len(set(ids)) == len(ids) and all(1 <= i <= schema["last_id"] <= MAX_ID for i in ids)
    require(sound, "SCH-4", "has column ids that are not positive, different and given out")
    flat = {field["id"] for field in hidden.values()} | {
        field["id"]
        for field in schema["fields"]
        if isinstance(field["type"], str) and field["type"] != "variant"
    }
    sound = len(set(keys)) == len(keys) and set(keys) <= flat
    require(sound, "ENT-8", f"is partitioned by {keys!r:.100}, which are not flat columns")
    check_partitionings(metadata, flat)
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
        known = {*ids_of(old_fields), *(_back(schema, before["schema"]) if restores else ())}
        known |= {each["id"] for each in before["schema"].get("hidden", ())}
        known |= set(map(int, hidden)) if restores else set()
        again = [i for i in set(ids) - known if i <= last]
        require(not again, "SCH-4", f"gives out ids that were given out before: {again}")
        _check_kept(schema, before["schema"])
        check_hidden_kept(schema, before["schema"])
        _check_types(schema, before["schema"], restores)
        _check_new(schema, before["schema"], set(ids_of(old_fields)))
        for old in old_fields:
            same = by_id.get(str(old["id"]), old)["physical"] == old["physical"]
            require(same, "SCH-3", f"changes the physical name of {old['name']!r}")
    return by_id | hidden
