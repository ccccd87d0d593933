"""Detection of files that belong to others: Delta, Iceberg or Hudi tables, and plain data files.

A program that cleans up its own table deletes every file that it does not know, ours too. The check
runs before a table is created, and after an open has found no table. Spec: STO-23.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from tablefmt.errors import ForeignTableError, StoreError, TableNotFoundError
from tablefmt.store.local import LocalStore
from tablefmt.store.protocol import Store

LISTED_MAX = 1000
"""Most keys to examine: one page of an S3 listing."""

TABLE_FORMATS = {
    "_delta_log/": ("a Delta table", re.compile(r"_delta_log/.+")),
    "metadata/": (
        "an Iceberg table",
        re.compile(r"metadata/([^/]+\.metadata\.json|version-hint\.text)"),
    ),
    ".hoodie/": ("a Hudi table", re.compile(r"\.hoodie/.+")),
}
"""For each metadata folder: the name of the format, and the files that identify it."""

FILE_FORMATS = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}

_DATA_FOLDER = r"(?:data/)?(?:[^/=._][^/=]*=[^/]*/)*"
"""The root, `data`, and folders named after a partition value."""
_DATA_FILE = re.compile(_DATA_FOLDER + r"[^/._][^/]*\.(parquet|orc|avro)", re.IGNORECASE)
_PART_FILE = re.compile(_DATA_FOLDER + r"part-\d{5}[^/]*")
"""Names that Spark, Hive and Hadoop tasks give to their files."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A table or data file of another program."""

    found: str
    """A clause for messages: "a Delta table is there"."""
    where: str
    """The file that identifies it."""


def check_place(store: Store) -> None:
    """Refuse to create a table among files of other programs.

    Costs one listing. On a local disk it also lists the metadata folders of each parent folder.

    Raises:
        ForeignTableError: other files are at the place (STO-23).
    """
    foreign = foreign_at(store)
    if foreign is not None:
        raise ForeignTableError(store.uri, foreign.found, foreign.where)


def not_found(store: Store) -> TableNotFoundError:
    """Return the error for an open that found no table.

    It names any foreign table or files there.
    """
    try:
        foreign = foreign_at(store)
    except StoreError:
        # A caller without the right to list still gets the plain answer.
        foreign = None
    if foreign is None:
        return TableNotFoundError(store.uri)
    return TableNotFoundError(store.uri, foreign.where, foreign.found)


def foreign_at(store: Store) -> Foreign | None:
    """Return the foreign table or files at the root of a store, or in a local parent folder."""
    if store.has_folders:
        # List each metadata folder by name, because one page of the root may end before it.
        found = _table_format(_first_keys(store, prefix) for prefix in TABLE_FORMATS)
        if found is not None:
            return Foreign(f"{found[0]} is there", found[1])
    keys = list(_first_keys(store, ""))
    found = _table_format([keys]) if not store.has_folders else None
    if found is not None:
        return Foreign(f"{found[0]} is there", found[1])
    files = _data_files(keys)
    if files is not None:
        return Foreign(f"{files[0]} are there", files[1])
    for folder in _folders_above(store.uri):
        above = LocalStore(folder)
        found = _table_format(_first_keys(above, prefix) for prefix in TABLE_FORMATS)
        if found is not None:
            return Foreign(f"it lies in {found[0]} at {folder}", found[1])
    return None


def _first_keys(store: Store, prefix: str) -> Iterator[str]:
    try:
        for one in islice(store.list_after(prefix), LISTED_MAX):
            yield one.key
    except StoreError:
        # A parent folder may be unreadable for this user. The root itself must be readable.
        if prefix == "" or not store.has_folders:
            raise


def _table_format(keys: Iterable[Iterable[str]]) -> tuple[str, str] | None:
    """Return the first table format that the keys identify, with its key. Pure."""
    for some in keys:
        for key in some:
            for name, pattern in TABLE_FORMATS.values():
                if pattern.fullmatch(key):
                    return name, key
    return None


def _data_files(keys: Iterable[str]) -> tuple[str, str] | None:
    """Return the kind of the first foreign data file, with its key. Pure."""
    for key in keys:
        match = _DATA_FILE.fullmatch(key)
        if match is not None:
            return f"plain {FILE_FORMATS[match[1].lower()]} files", key
        if _PART_FILE.fullmatch(key) and not key.endswith(".crc"):
            return "data files", key
    return None


def _folders_above(uri: str) -> Iterator[str]:
    """Yield the parents of a local folder, nearest first, without the root of the disk.

    Yields nothing for other stores. Pure.
    """
    while uri.startswith("/"):
        uri = uri.rpartition("/")[0]
        if uri:
            yield uri
