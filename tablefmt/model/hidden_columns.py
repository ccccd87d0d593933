"""Hidden columns of data files, which are not table columns: names and Parquet ids. Spec:
DAT-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tablefmt.model.given_names import OWN_PREFIX
from tablefmt.model.schema import ID_MAX

HIDDEN_IDS: Mapping[str, int] = MappingProxyType(
    {
        "__tablefmt_file": 2_147_483_001,
        "__tablefmt_row": 2_147_483_002,
        "__tablefmt_source": 2_147_483_003,
        "__tablefmt_action": 2_147_483_004,
    }
)
"""Parquet ids by name. No schema assigns these ids (SCH-4). No id is used for another name."""

_RESERVED = range(ID_MAX + 1, 2_147_483_448)
"""Ids above this range are reserved by Iceberg."""

assert len(set(HIDDEN_IDS.values())) == len(HIDDEN_IDS)
assert all(identity in _RESERVED for identity in HIDDEN_IDS.values())
assert all(name.startswith(OWN_PREFIX) for name in HIDDEN_IDS)
