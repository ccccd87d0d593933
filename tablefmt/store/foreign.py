"""Files of others at the place of a table: Delta, Iceberg, Hudi, and data files without a table.

A program that cleans up its own table deletes every file that it does not know, ours too.
Asked before a table is made, and once an open has found no table. Spec: STO-23.
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
"""Keys that are looked at: one page of a listing of S3."""

TABLE_FORMATS = {
    "_delta_log/": ("a Delta table", re.compile(r"_delta_log/.+")),
    "metadata/": (
        "an Iceberg table",
        re.compile(r"metadata/([^/]+\.metadata\.json|version-hint\.text)"),
    ),
    ".hoodie/": ("a Hudi table", re.compile(r"\.hoodie/.+")),
}
"""By the folder in which a format keeps its metadata: its name, and the files that show it."""

FILE_FORMATS = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}

_DATA_FOLDER = r"(?:data/)?(?:[^/=._][^/=]*=[^/]*/)*"
"""The root, `data`, and folders that are named by a value of a partition."""
_DATA_FILE = re.compile(_DATA_FOLDER + r"[^/._][^/]*\.(parquet|orc|avro)", re.IGNORECASE)
_PART_FILE = re.compile(_DATA_FOLDER + r"part-\d{5}[^/]*")
"""As Spark, Hive and Hadoop call the files that their tasks write."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """What was found."""

    found: str
    """For people, a clause: "a Delta table is there"."""
    where: str
    """The file that shows it."""


def check_place(store: Store) -> None:
    """Refuse to make a table among files of others.

    Costs one listing, and on a local disk a look into each folder above.

    Raises:
        ForeignTableError: STO-23.
    """
    foreign = foreign_at(store)
    if foreign is not None:
        raise ForeignTableError(store.uri, foreign.found, foreign.where)


def not_found(store: Store) -> TableNotFoundError:
    """Return the error of an open that found no table: it says what is there instead."""
    try:
        foreign = foreign_at(store)
    except StoreError:
        # A reader that may not list is told what it asked.
        foreign = None
    if foreign is None:
        return TableNotFoundError(store.uri)
    return TableNotFoundError(store.uri, foreign.where, foreign.found)


def foreign_at(store: Store) -> Foreign | None:
    """Return what others have at the root of a store, or on a local disk above it."""
    if store.has_folders:
        # Folders by name: a page of the listing may end before them.
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
        # A folder above may not be ours to read. What is at the root itself has to be known.
        if prefix == "" or not store.has_folders:
            raise


def _table_format(keys: Iterable[Iterable[str]]) -> tuple[str, str] | None:
    """The first table format that keys show, with the key. Pure."""
    for some in keys:
        for key in some:
            for name, pattern in TABLE_FORMATS.values():
                if pattern.fullmatch(key):
                    return name, key
    return None


def _data_files(keys: Iterable[str]) -> tuple[str, str] | None:
    """The kind of the first data file that belongs to no table of ours, with its key. Pure."""
    for key in keys:
        match = _DATA_FILE.fullmatch(key)
        if match is not None:
            return f"plain {FILE_FORMATS[match[1].lower()]} files", key
        if _PART_FILE.fullmatch(key) and not key.endswith(".crc"):
            return "data files", key
    return None


def _folders_above(uri: str) -> Iterator[str]:
    """The folders above a local one, the nearest first, without the root of the disk; none for
    another store. Pure."""
    while uri.startswith("/"):
        uri = uri.rpartition("/")[0]
        if uri:
            yield uri
