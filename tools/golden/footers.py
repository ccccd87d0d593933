"""Golden cases of Parquet footers that contradict themselves, with right checksums (STO-26)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from golden.checkpoints import checkpoint, grown, put
from golden.maker import LONG, Json, Maker, hex_of
from golden.rows import two_files

PLAIN: Json = {"use_dictionary": False, "compression": "none"}
LEVELS = (b"\x3c\x29\x06\x19\x26", b"\x3c\x29\x06\x19\x36\x02")
"""Histogram of definition levels of an INT64 column: two numbers, and three."""

SHORT = (b"\x28\x08\x04" + b"\0" * 7, b"\x28\x07\x04" + b"\0" * 6)
"""The maximum 4 in 8 bytes, and in 7."""

TYPE = (b"\x1c\x15\x04\x19", b"\x1c\x15\x02\x19")
"""A column chunk of type INT64, and of type INT32."""

CODEC = (b"\x18\x01x\x15\x00\x16", b"\x18\x01x\x15\x22\x16")
"""The path of the column x, and the codec 0; the codec 17."""

WHYS = {
    "levels": "A histogram counts levels that its column does not have (STO-26).",
    "bound": "A maximum is shorter than the values of its column (STO-26).",
    "type": "A column chunk has another physical type than the schema (STO-26).",
    "codec": "A column chunk has an unknown compression codec (STO-26).",
    "groups": "The row groups have fewer rows together than the file (STO-26).",
    "twice": "A field comes twice (STO-26).",
    "elements": "A list claims another kind of element, which hides another footer (STO-26).",
}


def damaged_footer(raw: bytes, kind: str) -> bytes:
    """Return the bytes of a file with a damaged footer."""
    length = int.from_bytes(raw[-8:-4], "little")
    footer = _spoilt(raw[-8 - length : -8], kind)
    return raw[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _spoilt(footer: bytes, kind: str) -> bytes:
    if kind == "twice":
        return footer[:-1] + b"\x09\x08\x0c\x00"
    if kind == "groups":
        # The list of row groups becomes empty, and the file still counts its rows.
        start = footer.index(b"\x19\x1c\x19")
        return footer[:start] + b"\x19\x0c\x00"
    if kind == "elements":
        hidden = _spoilt(footer, "levels")
        at = footer.index(TYPE[0]) + 4
        end, path = (each.index(b"\x19\x18\x01", at) for each in (footer, hidden))
        # Arrow reads two numbers: 80 80 18, and the length of the text. Then it reads the text.
        text = hidden[path:]
        return footer[:at] + b"\x23\x80\x80\x18" + _number(len(text)) + text + footer[end + 4 :]
    old, new = {"levels": LEVELS, "bound": SHORT, "type": TYPE, "codec": CODEC}[kind]
    assert old in footer, kind
    return footer.replace(old, new, 1)


def _number(value: int) -> bytes:
    low = bytes([value & 127 | 128]) if value > 127 else b""
    return low + bytes([value >> 7 if low else value])


def contradictions() -> Iterator[Maker]:
    """Make tables with such data files, overflow metadata files and parts of a checkpoint."""
    for kind, why in WHYS.items():
        maker = Maker(f"data-footer-{kind}", LONG)
        maker.append({"x": 1}, {"x": 2})
        file = maker.file([{"x": 3}, {"x": 4}], shape=PLAIN)
        raw = damaged_footer(maker.objects[file["path"]], kind)
        maker.objects[file["path"]] = raw
        file["size"] = len(raw)
        maker.commit("INSERT", "WRITE", (file,))
        maker.good(why)
        del maker.expected["rows"]
        maker.expected |= {"error": "CorruptDataError", "rules": ["STO-26"]}
        maker.expected |= {"damaged": [file["path"]], "findings": [[2, "ADD-5"]]}
        yield maker

    why = "The footer of an overflow metadata file contradicts itself (STO-26)."
    for kind in ("type", "twice"):
        maker = Maker(f"side-footer-{kind}", LONG)
        path = f"_log/side/{hex_of(maker.name, 1)}.parquet"
        file = maker.file([{"x": 1}])
        maker.commit("INSERT", "WRITE", (file,), side=True, change=_spoil(maker, "add", path, kind))
        yield maker.broken(why, "CorruptTableError", (1, "ADD-6"))

        maker = two_files(f"delete-side-footer-{kind}")
        path = f"deletes/{hex_of(maker.name, 3)}.parquet"
        change = _spoil(maker, "delete", path, kind)
        marks: dict[int, tuple[list[int], list[int]]] = {1: ([0], [])}
        maker.commit("UPDATE", "DELETE", delete=marks, delete_side=True, change=change)
        yield maker.broken(why, "CorruptTableError", (3, "DEL-3"))

    maker = grown("checkpoint-footer")
    root = checkpoint(maker)
    part = root["segments"][0]
    raw = damaged_footer(maker.objects[part["path"]], "type")
    maker.objects[part["path"]] = raw
    footer = int.from_bytes(raw[-8:-4], "little") + 8
    part |= {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "footer": footer}
    part["footer_sha256"] = hashlib.sha256(raw[-footer:]).hexdigest()
    version = len(maker.documents) - 1
    put(maker, root)
    maker.append({"x": 30, "p": "b"})
    why = "The footer of a part contradicts itself (STO-26): the entries say the same (CKP-6)."
    yield maker.good(why, remarks=[[version, "CKP-3"]])


def _spoil(maker: Maker, place: str, path: str, kind: str) -> Callable[[Json], None]:
    """Return a change that damages the footer of an overflow metadata file.

    The entry records the length and the SHA-256 of the damaged file.
    """

    def change(entry: Json) -> None:
        raw = damaged_footer(maker.objects[path], kind)
        maker.objects[path] = raw
        digest = hashlib.sha256(raw).hexdigest()
        entry[place]["side"].update(size=len(raw), sha256=digest)

    return change
