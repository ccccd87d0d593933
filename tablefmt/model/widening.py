"""Type widening: types that hold every value of another and so can read its files. Pure. Spec:
SCH-9.
"""

from __future__ import annotations

from dataclasses import replace

from tablefmt.model.defaults import recoded
from tablefmt.model.schema import Array, Decimal, Field, Map, Primitive, Struct, Type

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
