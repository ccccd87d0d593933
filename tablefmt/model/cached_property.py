"""Property that is computed once per object, without a lock. Pure.

`functools.cached_property` of Python 3.10 and 3.11 has one lock for all objects of a class. A
reader of one object then waits for requests made for another. In a forked child it waits for ever.
Here, two threads may compute the same value.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import Self

_Value = TypeVar("_Value")


class cached_property(functools.cached_property[_Value]):
    """`functools.cached_property` without the lock. Every thread must compute the same value."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _Value: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the cached value, or compute it now."""
        if instance is None:
            return self
        kept, name = instance.__dict__, self.attrname
        assert name is not None
        if name not in kept:
            kept[name] = self.func(instance)
        return kept[name]
