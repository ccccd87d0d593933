"""Check of a Parquet footer, before Arrow's objects may read its columns.

pyarrow's objects for row groups and columns cannot report an error: C++ throws, and the process
ends. A scan that skips row groups by their statistics ends in the same way. So this module walks
the bytes of each footer first, and refuses content at which Arrow would throw. The walk also
refuses deep schemas, which Arrow descends recursively. Spec: STO-26.

Most column chunks have the form that pyarrow and parquet-mr give them. Two regular expressions
match that form and capture the relevant numbers, many times faster than the walk. They match
exactly what Thrift would read. A chunk that they do not match is walked.

Footers and page headers are in Thrift's compact protocol. Every function for it reads from a byte
offset on. It raises IndexError if the bytes end too early, and ValueError if the value is invalid.
Each element of a list takes at least one byte, so no loop runs longer than the number of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

BOOLEANS, BYTE, VARINTS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Kinds of values."""

INT32, INT64, LIST = 5, 6, 9

DEPTH = 8
"""Maximum nesting of structs and lists below the value that is read."""

_FIELD_MAX = (1 << 15) - 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number at a byte offset, and its end."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("a number in Thrift is too long")
    return value | data[at] << shift, at + 1


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return the signed number at a byte offset, and its end."""
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def number(data: bytes, at: int) -> int:
    """Return the signed number at a byte offset."""
    return zigzag(data, at)[0]


def whole_number(digits: bytes) -> int:
    """Return the signed number that these bytes are, as a pattern has captured them."""
    count = len(digits)
    if count == 1:
        value = digits[0]
    elif count == 2:
        value = digits[0] & 0x7F | digits[1] << 7
    elif count == 3:
        value = digits[0] & 0x7F | (digits[1] & 0x7F) << 7 | digits[2] << 14
    elif count <= 5:
        # Without a loop: a scan reads thousands of checksums.
        value = int.from_bytes(digits, "little")
        low = value & 0x7F | value >> 1 & 0x3F80 | value >> 2 & 0x1FC000
        value = low | value >> 3 & 0xFE00000 | value >> 4 & 0x7F0000000
    else:
        value = varint(digits, 0)[0]
    return (value >> 1) ^ -(value & 1)


def binary(data: bytes, at: int) -> tuple[int, int]:
    """Return the start and the end of the bytes of a text."""
    length, at = varint(data, at)
    return at, at + length


def list_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of elements of a list, their kind, and the start of the first one."""
    count, kind = data[at] >> 4, data[at] & 15
    at += 1
    if count == 15:
        count, at = varint(data, at)
    return count, kind, at


_ORDER = bytes([1 << 4 | STRUCT, 0, 0])
"""A struct with an empty struct as its field 1: how writers state the order of a column."""


def skip(data: bytes, at: int, kind: int, depth: int = DEPTH) -> int:
    """Return the end of a value of that kind."""
    if kind in VARINTS:
        return varint(data, at)[1]
    if kind in BOOLEANS:
        return at
    if kind == BYTE:
        return at + 1
    if kind == DOUBLE:
        return at + 8
    if kind == BINARY:
        end = binary(data, at)[1]
        data[end]
        return end
    if kind == STRUCT and depth:
        return fields(data, at, depth - 1)[1]
    if kind in LISTS and depth:
        count, inner, at = list_header(data, at)
        if inner == STRUCT and depth > 2 and 0 < count * len(_ORDER) < len(data) - at:
            # All columns in the usual order, at once.
            if data.startswith(_ORDER * count, at):
                return at + count * len(_ORDER)
        elif inner in BOOLEANS:
            inner = BYTE
        for _ in range(count):
            at = skip(data, at, inner, depth - 1)
            data[at]
        return at
    raise ValueError(f"Thrift has a value of unknown kind {kind}, or one nested too deeply")


Fields = dict[int, tuple[int, int]]
"""Fields of a struct by number: the kind of each, and its start."""


def fields(data: bytes, at: int, depth: int = DEPTH, last: int = 0) -> tuple[Fields, int]:
    """Return the fields of a struct from the start of a field on, and the end of the struct.

    The numbers of the fields must ascend, as all writers write them. A reader that accepts a field
    twice would mix both. `last` is the number of the field before.
    """
    found: Fields = {}
    while head := data[at]:
        at += 1
        before, step = last, head >> 4
        if step:
            last += step
        else:
            last, at = zigzag(data, at)
        if not before < last <= _FIELD_MAX:
            raise ValueError("the fields of a struct do not ascend")
        kind = head & 15
        found[last] = (kind, at)
        at = skip(data, at, kind, depth)
    return found, at + 1


SCHEMA_DEPTH_MAX = 256
"""Maximum levels of a Parquet schema. A type of 64 levels needs at most three for each."""

_BYTE_ARRAY, _FIXED = 6, 7
_CODEC_MAX = 7
"""Highest number of a compression codec."""

_WIDTHS = {0: 1, 1: 4, 2: 8, 4: 4, 5: 8}
"""Bytes of a value of a physical type. INT96 has no order, so no reader uses its minimum."""

_KNOWN_SCHEMAS = 16
"""Maximum number of cached schemas. The files of a table have few."""


class Leaf(NamedTuple):
    """Column of a file, from the schema."""

    kind: int
    """Physical type."""
    width: int
    """Minimum bytes of a lower or upper bound."""
    levels: tuple[int, int]
    """Highest repetition level, and highest definition level."""
    path: bytes
    """Path, as column chunks repeat it."""
    element: bytes = b""
    """Its element of the schema, as the file has it."""


class Outline(NamedTuple):
    """Parts of a footer. Files of one writer with the same columns differ in `rows` only."""

    rows: int
    columns: bytes
    """Bytes up to the end of the schema."""
    rest: bytes
    """Bytes after the row groups."""


class _Schema(NamedTuple):
    encoded: bytes
    """All bytes of the footer up to the end of the schema."""
    leaves: tuple[Leaf, ...]


_known: tuple[_Schema, ...] = ()
"""Most recently used schemas. The tuple is replaced as a whole, so threads need no lock."""


def leaves_of(footer: bytes) -> tuple[Leaf, ...]:
    """Return the columns of a footer that passed `check_footer`, in the order of its chunks."""
    return _schema(footer).leaves


@lru_cache(16)
def top_level(leaves: tuple[Leaf, ...]) -> frozenset[str]:
    """Return the names of the top-level columns; none if a name is invalid."""
    firsts = [(leaf.path, list_header(leaf.path, 0)[2]) for leaf in leaves]
    try:
        return frozenset(path[slice(*binary(path, at))].decode() for path, at in firsts)
    except UnicodeDecodeError:
        return frozenset()


def schema_bytes(footer: bytes) -> bytes:
    """Return the bytes of a footer up to the end of its schema. Raises as `check_footer`."""
    try:
        return _schema(footer).encoded
    except IndexError:
        raise ValueError("its footer ends too early") from None


def rows_after(footer: bytes, schema: bytes) -> int | None:
    """Return the number of rows of a footer that begins with `schema`; None for another footer."""
    at = len(schema)
    # The header of the next field: its number is one more, and its value has 64 bits.
    if not footer.startswith(schema) or footer[at : at + 1] != bytes((1 << 4 | INT64,)):
        return None
    try:
        return number(footer, at + 1)
    except (IndexError, ValueError):
        return None


def check_footer(footer: bytes) -> Outline:
    """Check that Arrow can be asked about every column chunk of a footer.

    Args:
        footer: the bytes of the struct FileMetaData.

    Returns:
        Its parts.

    Raises:
        ValueError: it is damaged, or one of its columns is encrypted.
    """
    try:
        schema = _schema(footer)
        at, last = len(schema.encoded), 2
        found: Fields = {}
        while last < 4:
            last, kind, at = _field_at(footer, at, last)
            if last < 4:
                found[last] = (kind, at)
                at = skip(footer, at, kind)
        if last != 4:
            raise ValueError("its footer has no row groups")
        rows, at = _after_groups(footer, kind, at, schema.leaves)
        if rows != _row_count(footer, found):
            raise ValueError("its footer and its row groups count different numbers of rows")
        # A repeated field would be read twice.
        found, _ = fields(footer, at, last=last)
        _check_lists(footer, found, _FILE_LISTS)
        return Outline(rows, schema.encoded, footer[at:])
    except IndexError:
        raise ValueError("its footer ends too early") from None


def _field_at(footer: bytes, at: int, last: int) -> tuple[int, int, int]:
    """Return the number and the kind of the field whose header is at a byte, and its start."""
    head = footer[at]
    if not head:
        raise ValueError("its footer lacks a field")
    name, start = (last + (head >> 4), at + 1) if head >> 4 else zigzag(footer, at + 1)
    if not last < name <= _FIELD_MAX:
        raise ValueError("the fields of a struct do not ascend")
    return name, head & 15, start


def _schema(footer: bytes) -> _Schema:
    global _known
    for known in _known:
        if footer.startswith(known.encoded):
            return known
    last, kind, at = _field_at(footer, 0, 0)
    if last == 1:
        last, kind, at = _field_at(footer, skip(footer, at, kind), last)
    if last != 2:
        raise ValueError("its footer has no schema")
    count, at = _structs(footer, kind, at)
    elements, encoded = [], []
    for _ in range(count):
        start = at
        element, at = fields(footer, at)
        elements.append(element)
        encoded.append(footer[start:at])
    schema = _Schema(footer[:at], _leaves(footer, elements, encoded))
    _known = (schema, *_known[: _KNOWN_SCHEMAS - 1])
    return schema


def _structs(data: bytes, kind: int, at: int) -> tuple[int, int]:
    """Return the number of structs in a list, and the start of the first one."""
    if kind != LIST:
        raise ValueError("its footer lacks a list where Parquet has one")
    count, inner, at = list_header(data, at)
    if count and inner != STRUCT:
        raise ValueError("its footer has a list without structs where Parquet has structs")
    return count, at


_FILE_LISTS = {5: STRUCT, 7: STRUCT}
_GROUP_LISTS = {4: STRUCT}
_COLUMN_LISTS = {2: INT32, 3: BINARY, 8: STRUCT, 13: STRUCT}
_GEOSPATIAL, _GEOSPATIAL_LISTS = 17, {2: INT32}
"""Kinds of elements of the lists that Parquet has in a footer, by the list's field. Arrow reads the
elements as this kind, whatever kind the list claims. So a list that claims another kind would show
Arrow other fields than this module checks.
"""


def _check_lists(data: bytes, found: Fields, kinds: Mapping[int, int]) -> None:
    """Check that lists claim the kind of elements that a reader of Parquet expects."""
    for name, expected in kinds.items():
        kind, at = found.get(name, (0, 0))
        if kind == LIST:
            count, inner, _ = list_header(data, at)
            if count and inner != expected:
                raise ValueError("a list in its footer has elements of the wrong kind")


def _number(data: bytes, found: Fields, name: int, absent: int, kind: int = INT32) -> int:
    """Return a number of a struct; `absent` if it has none."""
    if name not in found:
        return absent
    if found[name][0] != kind:
        raise ValueError("its footer lacks a number where Parquet has one")
    value, _ = zigzag(data, found[name][1])
    if kind == INT32 and not -(1 << 31) <= value < 1 << 31:
        raise ValueError("its footer has a number that is too large")
    return value


def _leaves(data: bytes, elements: Sequence[Fields], encoded: Sequence[bytes]) -> tuple[Leaf, ...]:
    """Return the columns of a schema, whose elements stand in the order of a walk.

    Args:
        data: the footer.
        elements: type 1, length 2, repetition 3, name 4, number of children 5.
        encoded: the bytes of each element.
    """
    leaves: list[Leaf] = []
    # For each open group: remaining children, levels, names.
    groups: list[tuple[int, tuple[int, int], tuple[bytes, ...]]] = []
    for place, element in enumerate(elements):
        children = _number(data, element, 5, 0)
        repeated = _number(data, element, 3, 0)
        if children < 0 or not 0 <= repeated <= 2:
            raise ValueError("its schema is invalid")
        levels: tuple[int, int] = (0, 0)
        path: tuple[bytes, ...] = ()
        if place:
            while groups and not groups[-1][0]:
                groups.pop()
            if not groups:
                raise ValueError("its schema has more columns than it says")
            if len(groups) > SCHEMA_DEPTH_MAX:
                raise ValueError("its schema is too deep")
            left, (r, d), names = groups.pop()
            groups.append((left - 1, (r, d), names))
            levels = (r + (repeated == 2), d + (repeated > 0))
            path = (*names, _name(data, element))
        if not children and 1 in element:
            leaves.append(_leaf(data, element, levels, path)._replace(element=encoded[place]))
        else:
            groups.append((children, levels, path))
    if any(left for left, _, _ in groups):
        raise ValueError("its schema has fewer columns than it says")
    return tuple(leaves)


def _name(data: bytes, element: Fields) -> bytes:
    kind, at = element.get(4, (0, 0))
    if kind != BINARY:
        raise ValueError("its schema has a column without a name")
    return data[at : binary(data, at)[1]]


def _leaf(data: bytes, element: Fields, levels: tuple[int, int], path: tuple[bytes, ...]) -> Leaf:
    kind = _number(data, element, 1, -1)
    if not 0 <= kind <= _FIXED:
        raise ValueError("its schema has a column of an unknown type")
    width = _WIDTHS.get(kind, 0)
    if kind == _FIXED:
        width = max(0, _number(data, element, 2, 0))
    # Encode a list of texts. From 15 texts on, their number comes after the first byte.
    count = len(path)
    head = bytes([count << 4 | BINARY]) if count < 15 else bytes([0xF0 | BINARY, count])
    if count > 0x7F:
        head = bytes([0xF0 | BINARY, count & 0x7F | 0x80, count >> 7])
    return Leaf(kind, width, levels, head + b"".join(path))


def _row_count(data: bytes, found: Fields) -> int:
    """Return the number of rows of a file or of a row group: field 3 of both."""
    kind, at = found.get(3, (0, 0))
    rows = number(data, at) if kind == INT64 else -1
    if not 0 <= rows < 1 << 63:
        raise ValueError("its footer has an invalid number of rows")
    return rows


def _after_groups(data: bytes, kind: int, at: int, leaves: Sequence[Leaf]) -> tuple[int, int]:
    """Check all row groups; return their rows, and where their list ends."""
    rows = 0
    count, at = _structs(data, kind, at)
    for _ in range(count):
        last, kind, at = _field_at(data, at, 0)
        chunks, at = _structs(data, kind, at)
        if last != 1 or chunks != len(leaves):
            raise ValueError(f"a row group has {chunks} columns, and the schema {len(leaves)}")
        for leaf in leaves:
            at = _after_usual(data, at, leaf) or _after_chunk(data, at, leaf)
        rest, at = fields(data, at, last=1)
        _check_lists(data, rest, _GROUP_LISTS)
        rows += _row_count(data, rest)
    return rows, at


def _after_chunk(data: bytes, at: int, leaf: Leaf) -> int:
    """Check a column chunk: file 1, offset 2, description 3, encryption 8; return its end."""
    chunk, end = fields(data, at)
    if 8 in chunk:
        raise ValueError("one of its columns is encrypted")
    kind, at = chunk.get(3, (0, 0))
    if kind != STRUCT:
        raise ValueError("one of its columns is not described")
    # Type 1, codec 4, statistics 12, sizes 16.
    described, _ = fields(data, at)
    if _number(data, described, 1, -1) != leaf.kind:
        raise ValueError("one of its columns has a different type in the schema")
    if not 0 <= _number(data, described, 4, -1) <= _CODEC_MAX:
        raise ValueError("one of its columns has an unknown compression codec")
    _check_lists(data, described, _COLUMN_LISTS)
    kind, at = described.get(_GEOSPATIAL, (0, 0))
    if kind == STRUCT:
        _check_lists(data, fields(data, at)[0], _GEOSPATIAL_LISTS)
    if 12 in described:
        _check_statistics(data, described[12], leaf)
    if 16 in described:
        _check_sizes(data, described[16], leaf)
    return end


def _check_statistics(data: bytes, place: tuple[int, int], leaf: Leaf) -> None:
    """Check minima and maxima, which Arrow decodes: old ones 2 and 1, and new ones 6 and 5."""
    if place[0] != STRUCT:
        raise ValueError("statistics of a column are invalid")
    found, _ = fields(data, place[1])
    for name in (1, 2, 5, 6):
        if name in found:
            kind, at = found[name]
            start, end = binary(data, at) if kind == BINARY else (0, -1)
            if end - start < leaf.width:
                raise ValueError("a minimum or maximum is too short for its column")


def _check_sizes(data: bytes, place: tuple[int, int], leaf: Leaf) -> None:
    """Check the sizes that Arrow checks: bytes of texts 1, repetition levels 2, definition levels
    3.
    """
    if place[0] != STRUCT:
        raise ValueError("sizes of a column are invalid")
    found, _ = fields(data, place[1])
    if 1 in found and leaf.kind != _BYTE_ARRAY:
        raise ValueError("a column without texts records the length of its texts")
    for name, highest in zip((2, 3), leaf.levels, strict=True):
        if name in found:
            kind, at = found[name]
            count, inner, _ = list_header(data, at) if kind == LIST else (-1, INT64, 0)
            if count not in (0, highest + 1) or (count and inner != INT64):
                raise ValueError("a column counts levels that it does not have")


def _after_usual(data: bytes, at: int, leaf: Leaf) -> int:
    """Return the end of a column chunk that has the usual form and no fault; 0: walk it."""
    before, after = _usual(leaf.kind, leaf.width, leaf.levels)
    found = before.match(data, at)
    if not found or not data.startswith(leaf.path, found.end()):
        return 0
    found = after.match(data, found.end() + len(leaf.path))
    return found.end() if found else 0


_V = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_LENGTHS = [8, 4, *(length for length in range(1, 65) if length not in (4, 8))]
"""Lengths of texts. Those of numbers come first, because alternatives are tried in order."""
_TEXT = b"(?:" + b"|".join(rb"\x%02x.{%d}" % (n, n) for n in _LENGTHS) + rb"|\x00)"
_PAGES = rb"\x15[\x00-\x7f]\x15[\x00-\x7f]\x15" + _V + rb"\x00"
"""Patterns: a number, a text of up to 64 bytes, and the number of pages with an encoding."""


def _usual_list(kind: int, element: bytes, *counts: int) -> bytes:
    forms = [rb"\x%02x" % (count << 4 | kind) + element * count for count in counts]
    return b"(?:" + b"|".join(forms) + b")"


def _usual_statistics(value: bytes) -> bytes:
    exact = rb"(?:[\x11\x12][\x11\x12])?"
    newer = rb"\x28" + value + rb"\x18" + value + exact
    older = rb"\x18" + value + rb"\x18" + value + rb"\x16" + _V
    return b"(?:" + older + rb"|\x36" + _V + b")(?:" + newer + rb")?\x00"


_NUMBER = rb"\x15(" + _V + rb")"

USUAL_DATA_PAGE = re.compile(
    rb"\x15\x00" + _NUMBER * 2
    # With a checksum or without one.
    + rb"(?:" + _NUMBER + rb"\x1c|\x2c)"
    + _NUMBER + rb"(?:\x15[\x00-\x7f]){3}"
    + rb"(?:\x1c(?:" + _usual_statistics(_TEXT) + rb"|\x00))?\x00\x00",
    re.DOTALL,
)  # fmt: skip
"""Pattern of the header of a data page, as pyarrow writes it.

Its groups are the unpacked bytes, the stored bytes, the checksum and the number of values.
"""

USUAL_DICTIONARY_PAGE = re.compile(
    rb"\x15\x04" + _NUMBER * 2
    # With a checksum or without one.
    + rb"(?:" + _NUMBER + rb"\x3c|\x4c)"
    + _NUMBER + rb"\x15[\x00-\x7f][\x11\x12]?\x00\x00",
    re.DOTALL,
)  # fmt: skip
"""Pattern of the header of a dictionary, with the groups of USUAL_DATA_PAGE."""


@lru_cache(64)
def _usual(
    kind: int, width: int, levels: tuple[int, int]
) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return the patterns of a column chunk before its path, and after it.

    Each field header holds the difference of its number from the field before. So a pattern fixes
    the fields that exist. A list here is shorter than 15.
    """
    type_ = rb"\x%02x" % (2 * kind)
    before = rb"\x26" + _V + rb"\x1c\x15" + type_
    before += rb"\x19" + _usual_list(INT32, rb"[\x00-\x7f]", 1, 2, 3, 4, 5) + rb"\x19"
    value = rb"\x%02x.{%d}" % (width, width) if 0 < width < 128 else _TEXT
    if width >= 128:
        # The length takes more than a byte: walk it.
        value = rb"(?!)"
    statistics = _usual_statistics(value)
    repeated, defined = (_usual_list(INT64, _V, 0, min(level, 13) + 1) for level in levels)
    counted = rb"\x29" + repeated + rb"\x19" + defined + rb"|\x39" + defined + b"|"
    if kind == _BYTE_ARRAY:
        after_texts = rb"\x19" + repeated + rb"\x19" + defined + rb"|\x29" + defined + b"|"
        counted = rb"\x16" + _V + b"(?:" + after_texts + b")"
    encodings = _usual_list(STRUCT, _PAGES, 1, 2, 3, 4)
    after = rb"\x15[\x00\x02\x04\x06\x08\x0a\x0c\x0e]" + (rb"\x16" + _V) * 3 + rb"\x26" + _V
    after += rb"(?:(?:\x26" + _V + rb"\x1c|\x3c)" + statistics + rb"\x19"
    after += rb"|\x26" + _V + rb"\x29|\x49)" + encodings
    after += rb"(?:\x3c(?:" + counted + rb")\x00)?\x00"
    index = rb"\x16" + _V + rb"\x15" + _V
    after += b"(?:" + index + b"(?:" + index + rb")?)?\x00"
    return re.compile(before, re.DOTALL), re.compile(after, re.DOTALL)
