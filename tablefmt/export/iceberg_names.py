"""Mapping of column names in files to ids, for readers of Iceberg. Pure.

A reader asks the mapping if a file has no field ids: an imported file, or a hidden column of an
older writer. Some readers look up every column of such a file, and fail if the mapping lacks one.
Spec: XPT-23, XPT-29.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from tablefmt.export.iceberg_schema import HIDDEN_IDS, HIDDEN_NAMES, Json
from tablefmt.model.log_entry import Import, Metadata
from tablefmt.model.schema import Array, Field, Map, Struct, Type

_DROPPED_IDS = range(HIDDEN_IDS + 100, 2_147_483_448)
"""Ids of names that no column of the table has. No column of a table or of Iceberg has one."""

_Aliases = Mapping[int, Sequence[str]]


def name_mapping(metadata: Metadata, before: Sequence[Json] = ()) -> list[Json]:
    """Return the mapping of a version.

    Args:
        metadata: in force at the version.
        before: the mapping of the version before. Its names stay for imported files: an older
            snapshot may have a column that was dropped since.
    """
    aliases = _aliases(metadata.imports.values())
    made = _mapped(metadata.schema.fields, aliases)
    if any(each.lookup == "names" for each in metadata.imports.values()):
        made = _joined(made, before)
        known = {name for entry in made for name in entry["names"]}
        others = (name for name in metadata.schema.dropped if name not in known)
        made += [
            {"field-id": field_id, "names": [name]}
            for field_id, name in zip(_DROPPED_IDS, islice(others, len(_DROPPED_IDS)), strict=False)
        ]
    known = {name for entry in made for name in entry["names"]}
    hidden = [
        {"field-id": HIDDEN_IDS + at, "names": [name]}
        for at, name in enumerate(HIDDEN_NAMES)
        if name not in known
    ]
    return [*made, *hidden]


def twice_mapped(metadata: Metadata) -> str:
    """Return a name that imported files use for two columns of one struct; "" for none."""
    return next(_twice(name_mapping(metadata)), "")


def _twice(entries: Iterable[Json]) -> Iterator[str]:
    entries = list(entries)
    counts = Counter(name for entry in entries for name in entry["names"])
    yield from (name for name, count in counts.items() if count > 1)
    for entry in entries:
        yield from _twice(entry.get("fields", ()))


def _aliases(imports: Iterable[Import]) -> _Aliases:
    """Return the names of columns in imported files without ids, by field id."""
    found: dict[int, list[str]] = {}
    for each in imports:
        for field_id, name in each.names.items() if each.lookup == "names" else ():
            if name is not None and name not in found.setdefault(field_id, []):
                found[field_id].append(name)
    return found


def _mapped(fields: Iterable[Field], aliases: _Aliases) -> list[Json]:
    return [_mapped_as(f.id, [f.physical, *aliases.get(f.id, ())], f.type, aliases) for f in fields]


def _mapped_as(field_id: int, names: list[str], kind: Type, aliases: _Aliases) -> Json:
    made: Json = {"field-id": field_id, "names": names}
    inside: list[Json] = []
    if isinstance(kind, Struct):
        inside = _mapped(kind.fields, aliases)
    elif isinstance(kind, Array):
        inside = [_mapped_as(kind.element_id, ["element"], kind.element, aliases)]
    elif isinstance(kind, Map):
        inside = [
            _mapped_as(kind.key_id, ["key"], kind.key, aliases),
            _mapped_as(kind.value_id, ["value"], kind.value, aliases),
        ]
    return made | ({"fields": inside} if inside else {})


def _joined(now: list[Json], before: Sequence[Json]) -> list[Json]:
    """Return the entries of a mapping, and those of dropped columns from the one before."""
    known = {entry["field-id"]: entry for entry in before}
    made = []
    for entry in now:
        older = known.pop(entry["field-id"], None)
        inside = _joined(entry.get("fields", []), older.get("fields", ())) if older else []
        made.append(entry | ({"fields": inside} if inside else {}))
    names = {name for entry in made for name in entry["names"]}
    made += [
        entry
        for entry in known.values()
        if entry["field-id"] < HIDDEN_IDS and names.isdisjoint(entry["names"])
    ]
    return made
