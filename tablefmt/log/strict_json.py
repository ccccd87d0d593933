"""Strict JSON of sealed objects: parser, known names, and checks of values. Pure.

The checksum covers the bytes as they are, so any JSON text is allowed. Another writer may format
numbers, escapes and white space in its own way. The parser serializes the object again and
compares, which is cheap. It examines the text only if this differs.

Unknown names come from a newer version. They are reported by name before any check for damage.
Spec: ENT-1 .. ENT-5, ENT-7, VAL-1, VER-2, SCH-1.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson

from tablefmt.errors import CorruptEntryError
from tablefmt.model.features import READER_FEATURES, feature_of_field
from tablefmt.model.log_entry import GRANULARITIES, ISOLATIONS, OperationClass
from tablefmt.model.partition_transforms import TRANSFORMS
from tablefmt.model.schema import DEPTH_MAX, is_type_name

INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 63) - 1

DIGEST = re.compile(r"[0-9a-f]{64}")
"""SHA-256 in hex."""

FIELD_ID = re.compile(r"[1-9][0-9]{0,18}")
"""Field id as text."""


def is_field_id(text: str) -> bool:
    """Return True if a text is the id of a field."""
    return FIELD_ID.fullmatch(text) is not None


_BASE64_DIGEST = re.compile(r"[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=")


def is_base64_digest(text: str) -> bool:
    """Return True if a text is a SHA-256 in base64."""
    return _BASE64_DIGEST.fullmatch(text) is not None


def bad(rule: str, message: str) -> CorruptEntryError:
    """Return the error for an entry that breaks `rule`. The caller adds the entry's key."""
    return CorruptEntryError(message, rule=rule)


def integer(mapping: Mapping[str, Any], name: str, low: int = INTEGER_MIN) -> int:
    """Return the integer under `name`, from `low` to 2**63 - 1.

    Raises:
        CorruptEntryError: ENT-2, it is not such an integer. KeyError: it is missing.
    """
    value = mapping[name]
    if type(value) is not int or not low <= value <= INTEGER_MAX:
        raise bad("ENT-2", f"`{name}` is not an integer from {low} to 2**63 - 1")
    return int(value)


def are_counts(values: Sequence[object], low: int) -> bool:
    """Return True if all values are integers from `low` to 2**63 - 1."""
    if not values:
        return True
    numbers = [value for value in values if type(value) is int]
    return len(numbers) == len(values) and low <= min(numbers) and max(numbers) <= INTEGER_MAX


NESTING_MAX = 128
"""Maximum levels of objects and arrays, including the outermost object. ENT-2."""

CONTAINERS_MAX = 1 << 20
"""Maximum number of objects and arrays: an empty one takes 3 bytes of text, and 80 in memory.
STO-25.
"""

TEXTS_MAX = 1 << 22
"""Maximum number of texts, including names: one takes 3 bytes of text, and 64 in memory. STO-25."""

COMMAS_MAX = 1 << 23
"""Maximum number of commas outside texts: a number takes 2 bytes of text, and 32 in memory. STO-25.
"""

_CHUNK_BYTES = 1 << 20

_MAYBE_WIDE = re.compile(rb"[:\[,]-?[1-9][0-9]{18}")
_ANY_DIGIT = bytes.maketrans(b"123456789", b"000000000")
_WIDE_RUN = b"0" * 19
_WIDE = re.compile(rb"(?<![0-9.eE+-])-?[1-9][0-9]{18,}(?![0-9.eE])")
_QUOTE = ord('"')
_BY_COLUMN = ("partition", "lower", "upper")


def object_of(text: bytes) -> dict[str, Any]:
    """Return the object of a sealed JSON text.

    Args:
        text: the object without its checksum.

    Raises:
        CorruptEntryError: ENT-1, not a JSON object, or a repeated key; ENT-2.
    """
    problem = amount_problem(text)
    if problem is not None:
        raise bad("ENT-2", problem)
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise bad("ENT-1", f"not JSON: {error}") from None
    if type(document) is not dict:
        raise bad("ENT-1", "not a JSON object")
    # The walk costs more than the parse, so skip it for entries that cannot break a limit.
    if text.count(b"[") + text.count(b"{") > NESTING_MAX or _may_be_wide(text):
        _round_wide(document)
        check_limits(document)
    if orjson.dumps(document, option=orjson.OPT_SORT_KEYS) != text:
        document = _examined(text, document)
    if "checksum" in document:
        raise bad("ENT-1", "the key 'checksum' is repeated")
    found: dict[str, Any] = document
    return found


def _may_be_wide(text: bytes) -> bool:
    """Return whether a text may hold an integer beyond 64 bits. It has a run of 19 digits then."""
    # The expression alone takes a fifth of the time of reading an entry.
    return _WIDE_RUN in text.translate(_ANY_DIGIT) and _MAYBE_WIDE.search(text) is not None


def amount_problem(text: bytes) -> str | None:
    """Return the STO-25 limit that a text exceeds, as an error text; None if it can be parsed."""
    if len(text) <= CONTAINERS_MAX or (
        text.count(b"[") + text.count(b"{") <= CONTAINERS_MAX
        and text.count(b'"') <= 2 * TEXTS_MAX
        and text.count(b",") <= COMMAS_MAX
    ):
        return None
    # Brackets and escaped quotes inside texts do not count.
    text = _without_escapes(text)
    texts = text.count(b'"') // 2
    if texts > TEXTS_MAX:
        return f"it holds {texts} texts; at most {TEXTS_MAX} are allowed"
    containers = commas = 0
    for bare in _chunks_without_strings(text):
        containers += bare.count(b"[") + bare.count(b"{")
        commas += bare.count(b",")
    if containers > CONTAINERS_MAX:
        return f"it holds {containers} objects and arrays; at most {CONTAINERS_MAX} are allowed"
    if commas > COMMAS_MAX:
        return f"it holds {commas} commas between values; at most {COMMAS_MAX} are allowed"
    return None


def bounded_json(text: bytes) -> Any:
    """Return the value of a JSON text that is not of this format, within STO-25.

    Raises:
        ValueError: it is not JSON, or exceeds a limit.
    """
    problem = amount_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return orjson.loads(text)


def json_lines(body: bytes) -> Iterator[Any]:
    """Yield the values of a text with one JSON value in each line. Raises as `bounded_json`."""
    return (bounded_json(line) for line in io.BytesIO(body) if line.strip())


def check_limits(value: Mapping[str, object] | list[object], level: int = 1) -> None:
    """Refuse JSON that nests too deep or holds an integer beyond 64 bits.

    Args:
        value: an object or an array.
        level: the level of `value` in its entry, 1 for the outermost object.

    Raises:
        CorruptEntryError: ENT-2.
    """
    if level > NESTING_MAX:
        raise bad("ENT-2", f"it nests deeper than {NESTING_MAX} levels")
    items: Iterable[object] = value.values() if isinstance(value, dict) else value
    kinds = set(map(type, items))
    if int in kinds and any(type(v) is int and not INTEGER_MIN <= v <= INTEGER_MAX for v in items):
        raise bad("ENT-2", "it holds an integer beyond signed 64 bits")
    if dict in kinds or list in kinds:
        for inner in items:
            if isinstance(inner, dict | list):
                check_limits(inner, level + 1)


def _examined(text: bytes, document: dict[str, Any]) -> dict[str, Any]:
    """Return the object of another writer's text, after checks that the parser does not make."""
    bare = _without_strings(text)
    if bare.count(b":") != _members(document):
        raise bad("ENT-1", "a key is repeated")
    if _WIDE.search(bare):
        # The fast parser turns an integer beyond 64 bits into a float.
        try:
            document = json.loads(text)
        except ValueError as error:
            raise bad("ENT-2", f"it holds an integer that is too long: {error}") from None
        _round_wide(document)
    check_limits(document)
    return document


def _without_strings(text: bytes) -> bytes:
    """Return JSON text without its strings and keys."""
    return b"".join(_chunks_without_strings(_without_escapes(text)))


def _chunks_without_strings(text: bytes) -> Iterator[bytes]:
    """Yield a text that has no escapes, without its strings, in pieces: masks are as long."""
    is_inside = False
    for at in range(0, len(text), _CHUNK_BYTES):
        codes = np.frombuffer(text[at : at + _CHUNK_BYTES], np.uint8)
        quotes = codes == _QUOTE
        inside = np.logical_xor.accumulate(quotes) ^ is_inside
        yield codes[~(inside | quotes)].tobytes()
        is_inside = bool(inside[-1])


def _without_escapes(text: bytes) -> bytes:
    """Return JSON text without backslashes and escaped quotes."""
    # Backslashes occur only in strings, so escapes can be removed without tracking position.
    return text.replace(rb"\\", b"").replace(rb"\"", b"")


def _members(document: Mapping[str, Any]) -> int:
    """Return the number of keys of the objects in a document, at all levels."""
    count = 0
    level: list[Any] = [document]
    while level:
        count += sum(len(each) for each in level if isinstance(each, dict))
        values = (each.values() if isinstance(each, dict) else each for each in level)
        level = [v for each in values for v in each if isinstance(v, dict | list)]
    return count


def _round_wide(document: dict[str, Any]) -> None:
    """Replace integers beyond 64 bits by floats where a column may be of floats (VAL-1).

    Some writers leave out the exponent: 1e20 is `100000000000000000000` in JavaScript. In other
    columns, the type check refuses the float.
    """
    for values, places in _typed_values(document):
        for at in places:
            value = values[at]
            if type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
                try:
                    values[at] = float(value)
                except OverflowError:
                    raise bad("ENT-2", "it holds an integer that no double can hold") from None


def _typed_values(document: dict[str, Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yield the lists and objects that hold column values, each with the places of these values.

    The document is an entry, or the root of a checkpoint.
    """
    for group in _BY_COLUMN:
        by_field = _inner(document, "add", group)
        yield from ((v, range(len(v))) for v in by_field.values() if isinstance(v, list))
    for field in _objects(_inner(document, "metadata", "schema").get("fields")):
        yield field, [name for name in ("default", "initial") if name in field]
    rows = _inner(document, "basis", "scope").get("partitions")
    for row in rows if isinstance(rows, list) else ():
        yield row, range(len(row) if isinstance(row, list) else 0)
    for segment in _objects(document.get("segments")):
        for bounds in _objects(list(_inner(segment, "bounds").values())):
            yield bounds, [name for name in ("lower", "upper") if name in bounds]


def _inner(document: dict[str, Any], *way: str) -> dict[str, Any]:
    """Return the object at the end of a path of keys; an empty one if it is missing."""
    found: Any = document
    for step in way:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _objects(values: Any) -> list[dict[str, Any]]:
    return [v for v in values if isinstance(v, dict)] if isinstance(values, list) else []


IGNORABLE = "x_"
"""Prefix of names that a reader may ignore, in the objects of `_OPEN`."""

_SIDE = frozenset({"files", "path", "sha256", "size"})

NAMES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "": frozenset(
            {
                "format", "table", "version", "timestamp", "time_version", "transaction",
                "previous", "operation", "basis", "totals", "protocol", "metadata", "add",
                "remove", "delete", "lineage", "update", "application", "derived_from",
                "cursors", "horizon", "ends", "user_metadata", "checksum",
            }
        ),
        "operation": frozenset({"class", "metrics", "name", "parameters"}),
        "basis": frozenset(
            {"read_version", "isolation", "granularity", "blind", "scope", "predicate"}
        ),
        "basis.scope": frozenset({"partitions", "predicate"}),
        "totals": frozenset(
            {"files", "rows", "bytes", "next_id", "metadata_version", "deleted", "oldest"}
        ),
        "protocol": frozenset({"reader", "writer"}),
        "metadata": frozenset(
            {
                "schema", "partition_by", "properties", "constraints", "comment", "imports",
                "partitionings",
            }
        ),
        "metadata.schema": frozenset({"fields", "last_id", "dropped", "hidden"}),
        "add": frozenset(
            {
                "path", "size", "rows", "partition", "lower", "upper", "nulls", "nans", "footer",
                "updated", "keys", "written", "import", "digest", "partitioning", "side",
            }
        ),
        "add.side": _SIDE,
        "delete": frozenset({"file", "rows", "deleted", "updated", "side"}),
        "delete.side": _SIDE,
        "lineage": frozenset({"output", "input", "start", "rows", "dropped"}),
        "update": frozenset({"keys", "set"}),
        "application": frozenset({"id", "version", "digest"}),
        "derived_from": frozenset({"source", "name", "from", "to", "digest", "location"}),
        "horizon": frozenset({"version", "log"}),
        "horizon.log": frozenset({"version", "previous", "checkpoints"}),
    }
)  # fmt: skip
"""Known names by the dotted name of the object. Any name is allowed in an object not listed
here.
"""

_OPEN = frozenset({"", "operation", "basis", "add", "delete", "lineage", "update", "application"})
"""Objects that describe only their own entry. Later entries do not depend on their content."""

_CURSOR = frozenset({"source", "name", "to", "digest"})
_CHECKPOINT = frozenset({"path", "sha256", "size", "version"})
_CONSTRAINT = frozenset({"columns", "condition"})
_IMPORT = frozenset({"root", "names", "from", "adopt", "lookup"})
_IMPORT_FROM = frozenset({"format", "uri", "version"})
_FIELD = frozenset(
    {"id", "name", "nullable", "physical", "type", "default", "initial", "text", "comment"}
)
_HIDDEN = frozenset({"id", "name", "source", "transform"})
_TRANSFORMS = frozenset(rule.iceberg for rule in TRANSFORMS.values())
_TYPES = (
    frozenset({"struct"}),
    frozenset({"array", "element_id", "nullable"}),
    frozenset({"map", "key_id", "value_id", "nullable"}),
)
_LISTED: tuple[tuple[str, str, str, frozenset[str]], ...] = (
    ("operation", "class", "operationClass", frozenset(cls.value for cls in OperationClass)),
    ("basis", "isolation", "isolation", ISOLATIONS),
    ("basis", "granularity", "granularity", GRANULARITIES),
)
"""Fields with a fixed list of values: the object, the field, the feature name of an unknown
value.
"""

_PLACES = tuple((place, *place.rpartition(".")[::2]) for place in NAMES if place)
"""The places below the entry itself: each with the place above it, and its name there."""

assert NAMES.keys() >= _OPEN
assert all(above in list(NAMES)[:at] for at, (_, above, _) in enumerate(_PLACES, 1))


def unknown_names(document: Mapping[str, Any]) -> list[str]:
    """Return the unknown names of an entry, as names for `features`.

    Args:
        document: the whole entry, of any shape. Its shape is checked later.
    """
    objects = _objects_by_place(document)
    beyond = list(_reader_features(objects.get("protocol", {})))
    for place, value in objects.items():
        known = NAMES[place]
        # Nearly all entries contain only known names.
        if not known.issuperset(value):
            beyond.extend(
                feature_of_field(f"{place}.{name}" if place else name)
                for name in value.keys() - known
                if not (place in _OPEN and name.startswith(IGNORABLE))
            )
    for place, name, what, listed in _LISTED:
        given = objects.get(place, {}).get(name)
        if isinstance(given, str) and given not in listed:
            beyond.append(f"{what}:{given}")
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        beyond.extend(_of_metadata(metadata))
    kept = objects.get("horizon.log", {}).get("checkpoints")
    beyond.extend(_of_listed("horizon.log.checkpoints", kept, _CHECKPOINT))
    beyond.extend(_of_listed("cursors", document.get("cursors"), _CURSOR))
    return beyond


def unknown_columns(names: list[str], place: str = "add") -> list[str]:
    """Return the unknown columns of an overflow metadata file; `lower.7` belongs to `lower`."""
    known = NAMES[place] - {"side"}
    groups = dict.fromkeys(name.partition(".")[0] for name in names)
    return [
        feature_of_field(f"{place}.{group}")
        for group in groups
        if group not in known and not group.startswith(IGNORABLE)
    ]


def _objects_by_place(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the objects of an entry that are there, by the names in `NAMES`."""
    found: dict[str, Mapping[str, Any]] = {"": document}
    for place, above, name in _PLACES:
        value = found[above].get(name) if above in found else None
        if isinstance(value, dict):
            found[place] = value
    return found


def _reader_features(protocol: Mapping[str, Any]) -> Iterator[str]:
    named = protocol.get("reader")
    for name in named if isinstance(named, list) else ():
        if isinstance(name, str) and name not in READER_FEATURES:
            yield name


def _of_listed(place: str, objects: Any, known: frozenset[str]) -> Iterator[str]:
    for each in objects if isinstance(objects, list) else ():
        if isinstance(each, dict):
            yield from (f"field:{place}.{name}" for name in each.keys() - known)


def _of_metadata(metadata: Mapping[str, Any]) -> Iterator[str]:
    constraints = metadata.get("constraints")
    for each in constraints.values() if isinstance(constraints, dict) else ():
        if isinstance(each, dict):
            yield from (f"field:metadata.constraints.{name}" for name in each.keys() - _CONSTRAINT)
    imports = metadata.get("imports")
    for each in imports.values() if isinstance(imports, dict) else ():
        if isinstance(each, dict):
            yield from (f"field:metadata.imports.{name}" for name in each.keys() - _IMPORT)
            source = each.get("from")
            known = source.keys() if isinstance(source, dict) else frozenset()
            yield from (f"field:metadata.imports.from.{n}" for n in known - _IMPORT_FROM)
    schema = metadata.get("schema")
    fields = schema.get("fields") if isinstance(schema, dict) else None
    yield from _of_fields(fields, 1)
    hidden = schema.get("hidden") if isinstance(schema, dict) else None
    for each in hidden if isinstance(hidden, list) else ():
        if isinstance(each, dict):
            yield from (f"field:schema.hidden.{name}" for name in each.keys() - _HIDDEN)
            text = each.get("transform")
            if isinstance(text, str) and text.partition("[")[0] not in _TRANSFORMS:
                yield f"transform:{text}"


def _of_fields(fields: Any, depth: int) -> Iterator[str]:
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            yield from (f"field:schema.{name}" for name in field.keys() - _FIELD)
            yield from _of_type(field.get("type"), depth)


def _of_type(kind: Any, depth: int) -> Iterator[str]:
    if isinstance(kind, str) and not is_type_name(kind):
        yield f"type:{kind}"
    if not isinstance(kind, dict) or depth > DEPTH_MAX:
        return
    given = kind.keys() - {"nullable"}
    known = next((names for names in _TYPES if not names.isdisjoint(given)), None)
    if known is None:
        yield from (f"type:{name}" for name in given)
        return
    yield from (f"field:schema.type.{name}" for name in kind.keys() - known)
    yield from _of_fields(kind.get("struct"), depth + 1)
    inner = kind.get("map")
    for one in [kind.get("array"), *(inner if isinstance(inner, list) else ())]:
        yield from _of_type(one, depth + 1)
