"""A value worked out once per object, without a lock. Pure.

The one of Python 3.10 and 3.11 has a lock for all objects of a class: whoever reads one waits for
requests made for another, and for ever in a forked child. Here two threads may work out the same.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import Self

_Value = TypeVar("_Value")


class cached_property(functools.cached_property[_Value]):
    """As of functools, but for the lock: the value has to be the same whoever works it out."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _Value: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """The value kept, or worked out now."""
        if instance is None:
            return self
        kept, name = instance.__dict__, self.attrname
        assert name is not None
        if name not in kept:
            kept[name] = self.func(instance)
        return kept[name]
