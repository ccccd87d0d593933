"""The rows of a peer's names, and the calls that obey them.

A row says what one name or one argument of another library is here. The migration pages of the site
are made of the same rows.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Literal, TypeVar, cast

from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.model.name_matching import did_you_mean

Kind = Literal["same", "unused", "refused"]

Call = TypeVar("Call", bound=Callable[..., Any])


class CompatibilityWarning(UserWarning):
    """An argument or a call of another library that has no effect on tablefmt tables."""


@dataclass(frozen=True, slots=True)
class Row:
    """One name of a peer: a function, `Class.method`, or `Class.method(argument)`."""

    theirs: str
    ours: str
    """The names of tablefmt that do the same; "" for none."""
    note: str
    """The difference; for a refused name, the alternative."""
    kind: Kind


def same(theirs: str, ours: str, note: str = "") -> Row:
    """Return the row of a name that is translated."""
    return Row(theirs, ours, note, "same")


def unused(theirs: str, note: str) -> Row:
    """Return the row of a name that is accepted with a warning, and has no effect."""
    return Row(theirs, "", note, "unused")


def refused(theirs: str, note: str) -> Row:
    """Return the row of a name that raises an error. `note` says what to do instead."""
    return Row(theirs, "", note, "refused")


class Names:
    """All rows of one peer."""

    def __init__(self, peer: str, rows: Sequence[Row]) -> None:
        self.peer = peer
        self.rows: Mapping[str, Row] = {row.theirs: row for row in rows}
        assert len(self.rows) == len(rows), f"{peer}: a name has two rows"
        assert all(row.note for row in rows if row.kind != "same"), f"{peer}: a row says nothing"

    def refusal(self, theirs: str) -> UnsupportedFeatureError:
        """Return the error for a refused name."""
        return UnsupportedFeatureError(
            f"{self.peer}: {theirs} is not supported on tablefmt tables; {self.rows[theirs].note}",
            [f"compat:{theirs}"],
        )

    def warn(self, theirs: str) -> None:
        """Warn that a name has no effect, at the place of the caller."""
        _warn(f"{self.peer}: {theirs} has no effect on tablefmt tables; {self.rows[theirs].note}")

    def check(self, call: str, argument: str, value: Any, default: Any = None) -> None:
        """Refuse an argument, or warn about it, if its row says so and it is not the default.

        Raises:
            UnsupportedFeatureError: the argument is refused.
        """
        row = self.rows.get(f"{call}({argument})")
        if row is None or row.kind == "same" or value is default or value == default:
            return
        if row.kind == "refused":
            raise self.refusal(row.theirs)
        self.warn(row.theirs)

    def missing(self, called: str, name: str) -> Exception:
        """Return the error for an attribute that a class or module does not have."""
        full = f"{called}.{name}" if called else name
        row = self.rows.get(full)
        if row is not None and row.kind == "refused":
            return self.refusal(full)
        start = f"{called}." if called else ""
        known = [
            each.removeprefix(start)
            for each in self.rows
            if each.startswith(start) and "(" not in each
        ]
        return AttributeError(
            f"{self.peer}: there is no {full} here{did_you_mean(name, known)}", name=name
        )


def _warn(text: str) -> None:
    frame, level = sys._getframe(0), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("tablefmt."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, CompatibilityWarning, stacklevel=level)


def translated(names: Names, call: str) -> Callable[[Call], Call]:
    """Return a decorator that checks the arguments of a call against the peer's rows.

    The call raises:
        InvalidArgumentError: an argument that the peer's function does not have, or a missing one.
        UnsupportedFeatureError: a refused argument.
    """

    def decorate(function: Call) -> Call:
        signature = inspect.signature(function)
        checked = {
            name: parameter.default
            for name, parameter in signature.parameters.items()
            if names.rows.get(f"{call}({name})", same(name, "")).kind != "same"
        }

        @wraps(function)
        def checks(*positional: Any, **named: Any) -> Any:
            try:
                bound = signature.bind(*positional, **named)
            except TypeError as error:
                known = [name for name in signature.parameters if name not in ("self", "cls")]
                unknown = next((name for name in named if name not in known), "")
                raise InvalidArgumentError(
                    f"{names.peer}: {call}(): {error}; its arguments are {', '.join(known)}"
                    f"{did_you_mean(unknown, known)}"
                ) from None
            for name in checked.keys() & bound.arguments.keys():
                names.check(call, name, bound.arguments[name], checked[name])
            return function(*positional, **named)

        return cast(Call, checks)

    return decorate


def absent_name(names: Names) -> Callable[[str], Any]:
    """Return the `__getattr__` of a peer's module: it refuses a name without a counterpart."""

    def refuse(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise names.missing("", name)

    return refuse


class Translated:
    """Base of a peer's class: a name that it does not have is refused by the peer's rows."""

    _names: ClassVar[Names]
    _called: ClassVar[str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise self._names.missing(self._called, name)
