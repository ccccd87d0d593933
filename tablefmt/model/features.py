"""Features of the format that readers or writers must know, by name. Spec: ENT-7, VER-1.

The table of spec/versions.md equals this one. A test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from tablefmt.errors import UnsupportedFeatureError


class Support(str, Enum):
    """Progress of a feature."""

    RESERVED = "reserved"
    """The name and the fields are reserved. No version of this package writes it yet."""
    KNOWN = "known"
    """Read and written by this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One line of the registry."""

    reader: bool
    """The feature is listed in `protocol.reader`. A reader that does not know it must not read."""
    writer: bool
    """The feature is listed in `protocol.writer`. A writer that does not know it must not write."""
    since: int
    """Format version that reserved the name."""
    support: Support
    fields: frozenset[str] = frozenset()
    """Places in an entry that the feature adds, as dotted names."""
    rules: tuple[str, ...] = ()
    """Ids of the rules that the feature changes."""


EXPIRY = "logExpiry"
"""Entries below a retention horizon may be removed (ENT-13)."""

IMPORTED = "importedFiles"
"""Files of another format's table are files of this table, where they are (IMP-1)."""

TAGS = "tags"
"""Tags keep versions: a writer that does not know them must not vacuum (TAG-2)."""

HIDDEN = "hiddenPartitions"
"""Transforms of columns partition a table, such as `days(ts)` (HID-1)."""

GENERATED = "generatedColumns"
"""Columns are computed from others: a writer must fill and check them (GEN-1)."""

EVOLUTION = "partitionEvolution"
"""Files of a table have different partitionings (EVO-1)."""

IDENTITY = "identityColumns"
"""The table gives values to columns: a writer must claim and fill them (IDN-1)."""

FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        "groupCommit": Feature(
            reader=True,
            writer=True,
            since=1,
            support=Support.RESERVED,
            fields=frozenset({"parts"}),
            rules=("ENT-12", "RPL-2", "RPL-5", "TIM-2", "INC-3", "CMT-4", "CFL-7"),
        ),
        IMPORTED: Feature(
            reader=True,
            writer=True,
            since=1,
            support=Support.KNOWN,
            fields=frozenset({"add.digest", "add.import", "metadata.imports"}),
            rules=("KEY-2", "ADD-1", "ENT-8", "DAT-4", "DAT-8"),
        ),
        GENERATED: Feature(
            reader=False,
            writer=True,
            since=1,
            support=Support.KNOWN,
            rules=("ENT-10", "DAT-2", "DAT-13", "SQL-4"),
        ),
        IDENTITY: Feature(
            reader=False,
            writer=True,
            since=1,
            support=Support.KNOWN,
            rules=("PTY-1", "DAT-2", "RPL-5", "CFL-5"),
        ),
        HIDDEN: Feature(
            reader=True,
            writer=True,
            since=1,
            support=Support.KNOWN,
            fields=frozenset({"metadata.schema.hidden"}),
            rules=("ENT-8", "SCH-4", "DAT-8", "PRN-8"),
        ),
        EVOLUTION: Feature(
            reader=True,
            writer=True,
            since=1,
            support=Support.KNOWN,
            fields=frozenset({"add.partitioning", "metadata.partitionings"}),
            rules=("ENT-8", "ADD-1", "HID-1", "DAT-8", "PRN-4", "RET-3"),
        ),
        EXPIRY: Feature(
            reader=True,
            writer=True,
            since=1,
            support=Support.KNOWN,
            fields=frozenset({"horizon.log"}),
            rules=("KEY-1", "ENT-13", "LOG-2", "LOG-5", "LOG-8", "RPL-1", "RET-9"),
        ),
        TAGS: Feature(
            reader=False,
            writer=True,
            since=1,
            support=Support.KNOWN,
            rules=("PTY-1", "ENT-13", "RET-4", "RET-9"),
        ),
    }
)
"""Every name ever reserved, including features that this package does not know."""

READER_FEATURES = frozenset(
    name for name, f in FEATURES.items() if f.reader and f.support is Support.KNOWN
)
"""Features of `protocol.reader` that this package knows."""

WRITER_FEATURES = frozenset(
    name for name, f in FEATURES.items() if f.writer and f.support is Support.KNOWN
)
"""Features of `protocol.writer` that this package knows."""

_BY_FIELD = {place: name for name, feature in FEATURES.items() for place in feature.fields}

assert all(f.reader or f.writer for f in FEATURES.values()), "a feature binds readers or writers"
assert len(_BY_FIELD) == sum(len(f.fields) for f in FEATURES.values()), "one feature per field"


def feature_of_field(place: str) -> str:
    """Return the name of an unknown field: the feature that adds it, else `field:<place>`."""
    return _BY_FIELD.get(place, f"field:{place}")


def needs_newer(
    where: str, features: Iterable[str], doing: str = "read"
) -> UnsupportedFeatureError:
    """Return the error for content of a newer version. It names the features and never reports
    damage.

    Args:
        where: the object with the content, as the start of a sentence.
        features: the names, in any order.
        doing: the action that is impossible: "read" or "write".
    """
    names = sorted(set(features))
    shown = [name[:100] if name.isprintable() else repr(name[:100]) for name in names[:10]]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return UnsupportedFeatureError(
        f"{where} needs a newer version of tablefmt to {doing}: it has {', '.join(shown)}{more}. "
        "Upgrade tablefmt.",
        names,
    )
