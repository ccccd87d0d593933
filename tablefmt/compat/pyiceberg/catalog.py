"""Names of the module `pyiceberg.catalog`."""

from __future__ import annotations

from tablefmt.compat.pyiceberg.pyiceberg_catalog import Catalog, load_catalog
from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.translation import absent_name

__all__ = ["Catalog", "load_catalog"]

__getattr__ = absent_name(NAMES)
