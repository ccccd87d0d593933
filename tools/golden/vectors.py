"""Generate spec/vectors/entry-text.json: entries in the text forms of other writers.

The writer is made from spec/ alone, like `golden.tables`. Every vector is a text of version 1 of
one table, whose version 0 is `first`. Both readers are tested with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from golden.maker import HOUR, START, Json, canonical, field, hex_of, schema_of, seal

DOUBLE, SINGLE, LONG = "1", "2", "3"
"""Columns of the table: `d DOUBLE`, `f FLOAT`, `n BIGINT`."""

NUMBERS = {
    "1.0": "as a double is mostly written",
    "1": "an integer is exact (VAL-1)",
    "-7": "a negative integer",
    "0": "an integer zero",
    "-0": "the integer 0",
    "-0.0": "a bound may be negative zero",
    "1e0": "an exponent",
    "1E+00": "a capital letter, a sign, zeros",
    "10e-1": "an exponent below zero",
    "1.000000000000000000000": "digits that say nothing",
    "0.0000019": "no exponent where others write one",
    "1.9e-6": "the same with an exponent",
    "1e-07": "an exponent of two digits",
    "1e-7": "the same with one",
    "1e16": "no sign in the exponent",
    "1e+16": "a sign in the exponent",
    "1e20": "above 64 bits, with an exponent",
    "100000000000000000000": "above 64 bits, as JavaScript writes it",
    "9223372036854775808": "2^63",
    "-9223372036854775809": "below 64 bits",
    "9007199254740993": "between two doubles: the even one",
    "0.1": "the nearest double",
    "0.1000000000000000055511151231257827": "more digits than a double has",
    "123456789012345678": "an integer of 18 digits: the nearest double",
    "5e-324": "the least double",
    "1e-400": "the nearest double is zero",
    "1.7976931348623157e308": "the greatest double",
}
NO_NUMBERS = {
    "1e400": ("ENT-1", "its nearest double is infinite"),
    "1" + "0" * 400: ("ENT-1", "an integer whose nearest double is infinite"),
    "01": ("ENT-1", "a leading zero is no JSON"),
    "+1": ("ENT-1", "a plus sign is no JSON"),
    "1.": ("ENT-1", "a point without digits is no JSON"),
    ".5": ("ENT-1", "a point without a digit before it is no JSON"),
    "NaN": ("ENT-1", 'no JSON: VAL-1 has the text "NaN"'),
    "Infinity": ("ENT-1", 'no JSON: VAL-1 has the text "Infinity"'),
    '"1.0"': ("VAL-1", "text is no number"),
    "true": ("VAL-1", "a truth value is no number"),
    "[1.0]": ("ADD-1", "an array is no element of a column"),
}
TEXTS = {
    '"\\u00e9"': "an escape of what needs none",
    '"é"': "the same without",
    '"\\u00E9"': "capital digits",
    '"\\/"': "a slash may be escaped",
    '"\\u007f"': "DEL needs no escape",
    '"\\u2028"': "nor does a line separator",
    '"\\ud83d\\ude00"': "a surrogate pair",
    '"😀"': "the same as one character",
    '"\\u0041\\t\\u0000"': "escapes of each kind",
    '""': "no character at all",
    '"e\\u0301"': "nothing is composed: not the same text as é",
}
NO_TEXTS = {
    '"\\ud800"': "half a surrogate pair",
    '"\\ude00\\ud83d"': "two halves in the wrong order",
    '"\\x41"': "no escape of JSON",
    '"\t"': "a control character that is not escaped",
}


def first() -> bytes:
    """Return version 0."""
    columns = [field(1, "d", "double"), field(2, "f", "float"), field(3, "n", "long")]
    return seal(canonical(_entry(0, "CREATE TABLE", "PROTOCOL", None) | {
        "metadata": schema_of(columns),
        "protocol": {"reader": [], "writer": []},
    }))  # fmt: skip


def _entry(version: int, name: str, kind: str, previous: str | None) -> Json:
    return {
        "format": 1,
        "table": hex_of("vectors"),
        "version": version,
        "timestamp": START + version * HOUR,
        "time_version": START + version * HOUR,
        "transaction": hex_of("vectors", version),
        "previous": previous,
        "operation": {"class": kind, "metrics": {}, "name": name, "parameters": {}},
        "basis": {
            "blind": version > 0,
            "granularity": "row",
            "isolation": "WriteSerializable",
            "read_version": version - 1 if version else None,
            "scope": None,
        },
        "totals": {"bytes": 0, "files": 0, "metadata_version": 0, "next_id": 1, "rows": 0},
    }


def second(column: str = DOUBLE, number: str = "1.0", text: str = '"a"') -> str:
    """Return version 1 without its checksum, with the given texts of a bound and user metadata."""
    previous = hashlib.sha256(first()).hexdigest()
    entry = _entry(1, "WRITE", "INSERT", previous)
    entry["add"] = {
        "lower": {column: ["@number@"]},
        "path": [f"data/{hex_of('vectors', 1)}/0.parquet"],
        "rows": [1],
        "size": [100],
    }
    entry["totals"] |= {"bytes": 100, "files": 1, "next_id": 2, "rows": 1}
    entry["user_metadata"] = {"t": "@text@"}
    plain = canonical(entry).decode()
    return plain.replace('"@number@"', number).replace('"@text@"', text)


def vector(name: str, why: str, raw: bytes, rule: str | None = None, **more: Any) -> Json:
    """Return one vector: the bytes of version 1, as text if they are text."""
    try:
        shown: Json = {"entry": raw.decode()}
    except UnicodeDecodeError:
        shown = {"base64": base64.b64encode(raw).decode()}
    verdict = {"verdict": "refuse", "rule": rule} if rule else {"verdict": "accept"}
    return {"name": name, "why": why, **verdict, **more, **shown}


def numbers() -> Iterator[Json]:
    """Yield bounds in many text forms; `double` has the 64 bits of the value in hex."""
    for number, why in NUMBERS.items():
        value = float(int(number)) if number.lstrip("-").isdigit() else float(number)
        bits = struct.pack(">d", value).hex()
        yield vector(f"number {number}", why, _sealed(second(number=number)), double=bits)
    for number, (rule, why) in NO_NUMBERS.items():
        yield vector(f"number {number:.40}", why, _sealed(second(number=number)), rule)
    bits = struct.pack(">d", struct.unpack("<f", struct.pack("<f", 0.1))[0]).hex()
    short = second(SINGLE, "0.1")
    yield vector("float 0.1", "the nearest that a FLOAT has", _sealed(short), double=bits)
    wide = _sealed(second(SINGLE, "1e39"))
    yield vector("float 1e39", "the nearest that a FLOAT has is infinite", wide, "VAL-1")
    for number, rule in (("1.0", "VAL-1"), ("1e3", "VAL-1"), ("9223372036854775808", "VAL-1")):
        why = "a BIGINT is an integer within 64 bits"
        yield vector(f"long {number}", why, _sealed(second(LONG, number)), rule)


def texts() -> Iterator[Json]:
    """Yield strings in many text forms; `code_points` has their values."""
    for text, why in TEXTS.items():
        points = [ord(character) for character in json.loads(text)]
        yield vector(f"text {text}", why, _sealed(second(text=text)), code_points=points)
    for text, why in NO_TEXTS.items():
        yield vector(f"text {text!r:.40}", why, _sealed(second(text=text)), "ENT-1")
    raw = second().encode().replace(b'"t":"a"', b'"t":"\xff"')
    yield vector("text not UTF-8", "bytes that are no UTF-8", seal(raw), "ENT-1")
    raw = second().encode().replace(b'"t":"a"', b'"t":"\xed\xa0\x80"')
    yield vector("text half a pair in UTF-8", "a surrogate as bytes", seal(raw), "ENT-1")


def forms() -> Iterator[Json]:
    """Yield objects and ends of entries in many text forms."""
    plain = second()
    document = json.loads(plain)
    yield vector("plain", "as writers should write it", _sealed(plain))
    backwards = dict(reversed(document.items()))
    yield vector("order", "keys in another order", _sealed(_dumped(backwards)))
    spaced = json.dumps(document, sort_keys=True)
    yield vector("blanks", "white space between tokens", _sealed(spaced))
    lines = json.dumps(document, indent=1)
    yield vector("lines", "line ends between tokens", _sealed(lines))
    keyed = plain.replace('"rows":[1]', '"r\\u006fws":[1]')
    yield vector("key escaped", "an escape in a key", _sealed(keyed))
    for key, text in (
        ("rows", '"rows":[1],"rows":[1]'),
        ("rows escaped", '"rows":[1],"r\\u006fws":[1]'),
    ):
        twice = plain.replace('"rows":[1]', text)
        yield vector(f"{key} twice", "a key is repeated", _sealed(twice), "ENT-1")
    inner = plain.replace('"basis":', '"checksum":"' + "0" * 64 + '","basis":')
    yield vector("checksum twice", "a key is repeated", _sealed(inner), "ENT-1")
    same = plain.replace('"t":"a"', '"t":"a","u":{"t":"a","checksum":"b"}')
    yield vector("keys of others", "equal keys of different objects", _sealed(same))
    for field_text, other in (('"version":1', '"version":1.0'), ('"rows":[1]', '"rows":[1e0]')):
        wrong = plain.replace(field_text, other, 1)
        assert wrong != plain
        rule = "ENT-3" if "version" in other else "ADD-1"
        yield vector(f"field {other}", "an integer has no point", _sealed(wrong), rule)
    zero = plain.replace('"read_version":0', '"read_version":-0')
    yield vector("field -0", "the integer 0", _sealed(zero))
    wide = plain.replace('"t":"a"', '"t":9223372036854775808')
    yield vector(
        "wide integer", "beyond 64 bits, and in no column of floats", _sealed(wide), "ENT-2"
    )
    wider = plain.replace('"t":"a"', '"t": 18446744073709551616')
    yield vector("wider integer", "the same above 2^64", _sealed(wider), "ENT-2")
    number = plain.replace('"format":1', '"format":9223372036854775808')
    yield vector(
        "wide format", "the form comes before the number (VER-2)", _sealed(number), "ENT-2"
    )
    yield vector("line end", "an entry ends with its checksum", _sealed(plain) + b"\n", "ENT-1")
    yield vector("byte order mark", "no part of JSON", _sealed("\ufeff" + plain), "ENT-1")
    blank = _sealed(plain).replace(b',"checksum":"', b', "checksum":"')
    yield vector("blank at the end", "the last 79 bytes have one form", blank, "ENT-1")
    flipped = _sealed(plain).replace(b'"size":[100]', b'"size":[101]')
    yield vector("another value", "the checksum is not of these bytes", flipped, "ENT-1")


def _sealed(text: str) -> bytes:
    return seal(text.encode())


def _dumped(document: Json) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def vectors() -> Json:
    """Return the document."""
    about = (
        "Each vector is version 1 of the table whose version 0 is `first`. `entry` has its bytes "
        "as UTF-8, or `base64`. A reader refuses it by `rule`, or accepts it. Then `double` has "
        "the 64 bits (IEEE 754, in hex) of the lower bound, and `code_points` the characters of "
        "user_metadata.t."
    )
    found = [*forms(), *numbers(), *texts()]
    return {"about": about, "first": first().decode(), "vectors": found}


def write(path: Path) -> None:
    """Write the document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(vectors(), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
