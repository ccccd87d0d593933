"""The error classes of delta-rs: the errors of tablefmt that mean the same."""

from __future__ import annotations

from tablefmt.errors import (
    ConcurrentModificationException,
    ConstraintViolationError,
    SchemaMismatchError,
    TablefmtError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

DeltaError = TablefmtError
CommitFailedError = ConcurrentModificationException
DeltaProtocolError = (UnsupportedFeatureError, ConstraintViolationError)
"""A pair of classes, for `except`: delta-rs raises one class for both."""

__all__ = [
    "CommitFailedError",
    "DeltaError",
    "DeltaProtocolError",
    "SchemaMismatchError",
    "TableNotFoundError",
]
