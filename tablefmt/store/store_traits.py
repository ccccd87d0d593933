"""Facts about a store that decide how Spark, other engines and commits use it.

Every store states them, so no other code looks at an address or at the class of a store. A wrapper
that names another address has traits of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Scheme = Literal["file", "memory", "s3", "gs", "az"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts that stay the same while a store is open. They hold no secret."""

    scheme: Scheme
    """The kind of store. s3a, gcs, abfs and abfss are other spellings of s3, gs and az."""
    bucket: str = ""
    """The bucket or container; "" if the store has none."""
    path: str
    """The root: an absolute path on a disk, else a path below the bucket. "" is the whole disk or
    bucket.
    """
    remote: bool = False
    """True if a request takes a network round trip. Then early and large requests pay off."""
    on_disk: bool = False
    """True if objects are files of this machine: engines open them by path, links may exist, and a
    new folder takes as long to make durable as a file.
    """
    shared: bool = True
    """True if other processes can reach the objects."""
    imports: bool = False
    """True if the table may have imported files, which may be outside the root (IMP-3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Settings to reach the objects of a store, with credentials. No repr holds a secret.

    Two stores that reach the same objects in the same way have equal values.
    """

    untranslated: tuple[str, ...] = ()
    """Names of options that only this store's own client understands. If there are any, equal
    values may still differ.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudAccess(Access):
    """Settings to reach a bucket of Google or a container of Azure."""

    endpoint: str
    """URL of the service or the account, without a slash at the end."""
    options: tuple[tuple[str, Any], ...]
    """The options in force by our own names, sorted. Not in the repr: they may be secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(endpoint={self.endpoint!r})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AzureAccess(CloudAccess):
    """Settings to reach a container of Azure."""

    hierarchical: Callable[[], bool | None] = field(compare=False)
    """Asks whether the account has a hierarchical namespace. None: the login may not ask. Raises
    StoreError.
    """
