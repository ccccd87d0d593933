"""Properties of a table as people see them: without tags and definitions of columns. Pure."""

from __future__ import annotations

from tablefmt.model.identity_columns import without_identities
from tablefmt.model.log_entry import Metadata
from tablefmt.model.tags import without_tags


def plain_properties(metadata: Metadata) -> dict[str, str]:
    """Return the properties that are neither tags (TAG-1) nor identity columns (IDN-1)."""
    return without_tags(without_identities(metadata).properties)
