"""Dict that does not change after it is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class FrozenDict(dict[_Key, _Value]):
    """A dict whose changing methods raise TypeError. Copies and pickles are frozen too."""

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    if not TYPE_CHECKING:

        def _refuse(self, *_: Any, **__: Any) -> NoReturn:
            raise TypeError("this dict is part of an immutable value; make a new one")

        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse


def freeze_mappings(value: Any) -> None:
    """Replace each mapping in the fields of a frozen dataclass by a FrozenDict, when it is made."""
    for each in fields(value):
        held = getattr(value, each.name)
        if isinstance(held, Mapping) and not isinstance(held, FrozenDict):
            object.__setattr__(value, each.name, FrozenDict(held))
