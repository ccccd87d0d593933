"""Type widening: types that hold every value of another and so can read its files. Pure.

Also the narrowest types that hold the values of several schemas. A restore brings an older type
back, and the column may then be widened differently. So a range of versions can hold types that
have no widest one. Spec: SCH-9, INC-4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tablefmt.model.defaults import recoded
from tablefmt.model.schema import Array, Decimal, Field, Map, Primitive, Schema, Struct, Type

_INTEGERS = ("byte", "short", "integer", "long")
"""Integer types from the narrowest."""

INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Digits before the point that a decimal needs for all values of an integer type, by Spark's
count.
"""


def is_widening(old: Type, new: Type) -> bool:
    """Return True if files with values of `old` can be read as `new` without loss. Spec: SCH-9.

    These are the pairs that Spark's Parquet reader converts itself.
    """
    if is_wider_of_kind(old, new):
        return True
    if not isinstance(old, Primitive):
        return False
    if isinstance(new, Decimal):
        digits = INTEGER_DIGITS.get(old.name)
        return digits is not None and new.precision - new.scale >= digits
    pair = (old.name, str(new))
    return pair == ("date", "timestamp_ntz") or (old.name in _INTEGERS[:3] and pair[1] == "double")


def is_wider_of_kind(old: Type, new: Type) -> bool:
    """Return True if `new` is a wider type of the same kind. Merging schemas widens only to
    these.
    """
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        whole = (old.precision - old.scale, new.precision - new.scale)
        return old != new and whole[0] <= whole[1] and old.scale <= new.scale
    if not isinstance(old, Primitive) or not isinstance(new, Primitive):
        return False
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
    return (old.name, new.name) == ("float", "double")


def same_kind(one: Type, other: Type) -> bool:
    """Return True if types are equal, or both structs, lists or maps, whose parts have their own
    ids.
    """
    return one == other or (type(one) is type(other) and isinstance(one, Struct | Array | Map))


def share_origin(one: Type, other: Type) -> bool:
    """Return True if a column may have had both types: some type can widen to each.

    A restore brings the older type back, and a different widening may follow (RET-3).
    """
    if one == other or is_widening(one, other) or is_widening(other, one):
        return True
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return True
    origins = (Primitive(name) for name in (*_INTEGERS, "float", "date"))
    return any(is_widening(origin, one) and is_widening(origin, other) for origin in origins)


def with_type(field: Field, kind: Type) -> Field:
    """Return the field with another type, and its default and initial value converted to it."""
    if kind == field.type:
        return field
    values = (recoded(v, field.type, kind) for v in (field.default, field.initial))
    return replace(field, type=kind, default=next(values), initial=next(values))


DIGITS_MAX = 38
"""Maximum number of digits of a decimal."""

_DOUBLE = Primitive("double")

Place = tuple[int | str, ...]
"""Column, or part of one: field ids, and the words of `_PARTS`."""


@dataclass(frozen=True, slots=True)
class Era:
    """Schema of a range of versions, both ends inclusive."""

    first: int
    last: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Leaf:
    """Column, or part of one, that has no parts itself."""

    name: str
    """Full path, including the names of the enclosing columns: `s.list.element`."""
    type: Type


def common_type(one: Type, other: Type) -> Type | None:
    """Return the narrowest type that SCH-9 widens both types to; None if there is none.

    Neither type has parts. The order of the arguments does not matter. The order in which several
    types are joined does not matter either.
    """
    if one == other or is_widening(other, one):
        return one
    if is_widening(one, other):
        return other
    if is_widening(one, _DOUBLE) and is_widening(other, _DOUBLE):
        return _DOUBLE
    first, second = _digits(one), _digits(other)
    if first is None or second is None:
        return None
    whole, scale = map(max, first, second)
    return Decimal(whole + scale, scale) if whole + scale <= DIGITS_MAX else None


def leaves(schema: Schema) -> dict[Place, Leaf]:
    """Return every column, and every part of a column, that has no parts itself."""
    return {place: leaf for field in schema.fields for place, leaf in _leaves(field, (), "")}


def common_types(schema: Schema, others: Iterable[Schema]) -> tuple[Schema, list[Place]]:
    """Return a schema's columns with the narrowest types that also hold the values of other
    schemas.

    Args:
        schema: the columns to return; columns it lacks are ignored.
        others: later or earlier schemas of the same table.

    Returns:
        The schema, and the places that have no common type. These keep their own type.
    """
    own = leaves(schema)
    joined: dict[Place, Type | None] = {place: leaf.type for place, leaf in own.items()}
    for other in others:
        if other == schema:
            continue
        theirs = leaves(other)
        for place in joined.keys() & theirs.keys():
            known = joined[place]
            joined[place] = None if known is None else common_type(known, theirs[place].type)
    none = [place for place, kind in joined.items() if kind is None]
    types = {place: kind or own[place].type for place, kind in joined.items()}
    fields = tuple(with_type(f, _retyped(f.type, (f.id,), types)) for f in schema.fields)
    return replace(schema, fields=fields), none


def described(place: Place, eras: Sequence[Era]) -> str:
    """Return the types of a column by version range, as text for people."""
    known = [(era, leaf.type) for era in eras if (leaf := leaves(era.schema).get(place))]
    runs: list[tuple[int, int, Type]] = []
    for era, kind in known:
        if runs and runs[-1][2] == kind and runs[-1][1] + 1 == era.first:
            runs[-1] = (runs[-1][0], era.last, kind)
        else:
            runs.append((era.first, era.last, kind))
    return ", ".join(f"{kind} {_versions(first, last)}" for first, last, kind in runs)


def splits(places: Iterable[Place], eras: Sequence[Era]) -> list[int]:
    """Return the versions at which to split a range so that each part has common types.

    A part begins with the version before its first, so that version's type counts in two parts. A
    commit can have no common type for its own two sides. It is then in no part: it ends one part,
    as the version before, and begins the next.
    """
    types = [leaves(era.schema) for era in eras]
    cuts: set[int] = set()
    for place in places:
        held: Type | None = None
        for at, known in enumerate(types):
            if place not in known:
                continue
            kind = known[place].type
            both = kind if held is None else common_type(held, kind)
            if both is None:
                before = types[at - 1].get(place)
                cuts.add(eras[at].first - 1)
                both = kind if before is None else common_type(before.type, kind)
            if both is None:
                cuts.add(eras[at].first)
                both = kind
            held = both
    return sorted(cuts)


def parts(first: int, last: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges (after, ending) between cuts, from after `first` to `last`."""
    bounds = [first, *(cut for cut in cuts if first < cut < last), last]
    return list(pairwise(bounds))


def _versions(first: int, last: int) -> str:
    return f"at version {first}" if first == last else f"at versions {first} to {last}"


def _digits(kind: Type) -> tuple[int, int] | None:
    """Return the digits before and after the point that a decimal needs for every value."""
    if isinstance(kind, Decimal):
        return kind.precision - kind.scale, kind.scale
    whole = INTEGER_DIGITS.get(str(kind))
    return None if whole is None else (whole, 0)


def _parts(kind: Type) -> Mapping[str, Type]:
    if isinstance(kind, Array):
        return {"element": kind.element}
    if isinstance(kind, Map):
        return {"key": kind.key, "value": kind.value}
    return {}


def _leaves(field: Field, above: Place, path: str) -> Iterator[tuple[Place, Leaf]]:
    name = f"{path}.{field.name}" if path else field.name
    yield from _inside(field.type, (*above, field.id), name)


def _inside(kind: Type, place: Place, name: str) -> Iterator[tuple[Place, Leaf]]:
    if isinstance(kind, Struct):
        for field in kind.fields:
            yield from _leaves(field, place, name)
    elif inner := _parts(kind):
        for word, part in inner.items():
            yield from _inside(part, (*place, word), f"{name}.{word}")
    else:
        yield place, Leaf(name, kind)


def _retyped(kind: Type, place: Place, types: Mapping[Place, Type]) -> Type:
    if isinstance(kind, Struct):
        inside = (replace(f, type=_retyped(f.type, (*place, f.id), types)) for f in kind.fields)
        return replace(kind, fields=tuple(inside))
    inner = {word: _retyped(p, (*place, word), types) for word, p in _parts(kind).items()}
    if isinstance(kind, Array):
        return replace(kind, element=inner["element"])
    if isinstance(kind, Map):
        return replace(kind, key=inner["key"], value=inner["value"])
    return types[place]
