"""Features of the format: what readers or writers have to know, by name. Spec: ENT-7, VER-1.

The table of spec/versions.md and this one are the same; a test holds them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from tablefmt.errors import UnsupportedFeatureError


class Standing(str, Enum):
    """How far a feature has come."""

    RESERVED = "reserved"
    """Its name and its fields are given out; nobody writes it yet."""
    KNOWN = "known"
    """This package reads and writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One line of the registry."""

    reader: bool
    """It stands in `protocol.reader`: who does not know it reads nothing."""
    writer: bool
    """It stands in `protocol.writer`: who does not know it writes nothing."""
    since: int
    """The version of the format that gave the name out."""
    standing: Standing
    fields: frozenset[str] = frozenset()
    """Places in an entry that it brings, by dotted names."""
    rules: tuple[str, ...] = ()
    """Ids of the rules that it touches."""


EXPIRY = "logExpiry"
"""Entries below a horizon may be removed (ENT-13)."""

FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        "groupCommit": Feature(
            reader=True,
            writer=True,
            since=1,
            standing=Standing.RESERVED,
            fields=frozenset({"parts"}),
            rules=("ENT-12", "RPL-2", "RPL-5", "TIM-2", "INC-3", "CMT-4", "CFL-7"),
        ),
        "importedFiles": Feature(
            reader=True,
            writer=True,
            since=1,
            standing=Standing.RESERVED,
            fields=frozenset({"add.import", "metadata.imports"}),
            rules=("KEY-2", "ADD-1", "ENT-8", "DAT-4", "DAT-8"),
        ),
        EXPIRY: Feature(
            reader=True,
            writer=True,
            since=1,
            standing=Standing.KNOWN,
            fields=frozenset({"horizon.log"}),
            rules=("KEY-1", "ENT-13", "LOG-2", "LOG-5", "LOG-8", "RPL-1", "RET-9"),
        ),
    }
)
"""Every name that was ever given out, whether or not this package knows the feature."""

READER_FEATURES = frozenset(
    name for name, f in FEATURES.items() if f.reader and f.standing is Standing.KNOWN
)
"""Those of `protocol.reader` that this package knows."""

WRITER_FEATURES = frozenset(
    name for name, f in FEATURES.items() if f.writer and f.standing is Standing.KNOWN
)
"""Those of `protocol.writer` that this package knows."""

_BY_FIELD = {place: name for name, feature in FEATURES.items() for place in feature.fields}

assert all(f.reader or f.writer for f in FEATURES.values()), "a feature binds somebody"
assert len(_BY_FIELD) == sum(len(f.fields) for f in FEATURES.values()), "a field is of one feature"


def feature_of_field(place: str) -> str:
    """What to call an unknown field: the feature that brings it, else `field:<place>`."""
    return _BY_FIELD.get(place, f"field:{place}")


def needs_newer(
    where: str, features: Iterable[str], doing: str = "read"
) -> UnsupportedFeatureError:
    """The error of who meets what a newer version wrote: never damage, always by name.

    Args:
        where: what was met, to begin a sentence with.
        features: the names, in any order.
        doing: what cannot be done: "read" or "write".
    """
    names = sorted(set(features))
    shown = [name[:100] if name.isprintable() else repr(name[:100]) for name in names[:10]]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return UnsupportedFeatureError(
        f"{where} needs a newer version of tablefmt to {doing}: it has {', '.join(shown)}{more}. "
        "Upgrade tablefmt.",
        names,
    )
