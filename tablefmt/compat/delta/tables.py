"""The same names for imports from `delta.tables`."""

from __future__ import annotations

from tablefmt.compat import delta
from tablefmt.compat.delta import *  # noqa: F403 - the list is in one place

__all__ = delta.__all__
