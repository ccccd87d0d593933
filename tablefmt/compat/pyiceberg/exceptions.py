"""Names of the module `pyiceberg.exceptions`, which are errors of tablefmt."""

from __future__ import annotations

from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.translation import absent_name
from tablefmt.errors import (
    CommitUnknownError,
    ConcurrentModificationException,
    TableExistsError,
    TableNotFoundError,
)

NoSuchTableError = TableNotFoundError
TableAlreadyExistsError = TableExistsError
CommitFailedException = ConcurrentModificationException
CommitStateUnknownException = CommitUnknownError

__all__ = [
    "CommitFailedException",
    "CommitStateUnknownException",
    "NoSuchTableError",
    "TableAlreadyExistsError",
]

__getattr__ = absent_name(NAMES)
