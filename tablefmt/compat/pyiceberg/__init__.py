"""The names of PyIceberg, over tables of tablefmt.

`from tablefmt.compat.pyiceberg.catalog import load_catalog` replaces the import from
`pyiceberg.catalog`. Types, schemas, transforms and expressions stay those of PyIceberg.
A catalog is a folder, `warehouse`: the table `ns.t` is the folder `ns/t` in it. A snapshot id is a
version number.
"""

from __future__ import annotations

from tablefmt.compat.pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from tablefmt.compat.pyiceberg.pyiceberg_catalog import Catalog, load_catalog
from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.pyiceberg.pyiceberg_table import DataScan, InspectTable, Table, UpsertResult
from tablefmt.compat.translation import absent_name

__all__ = [
    "Catalog",
    "CommitFailedException",
    "CommitStateUnknownException",
    "DataScan",
    "InspectTable",
    "NoSuchTableError",
    "Table",
    "TableAlreadyExistsError",
    "UpsertResult",
    "load_catalog",
]

__getattr__ = absent_name(NAMES)
