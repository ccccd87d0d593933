"""Read a table's objects for logdump, with fsspec and the names of spec/."""

from __future__ import annotations

import os
import re
import stat
import zlib

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from logdump.checked_parquet import BadParquetError, footer_length, footer_of
from logdump.shapes import Json

ENTRY_NAME, MAX_VERSION = re.compile(r"\d{20}\.json\Z", re.ASCII), 2**63 - 1


LENGTHS = (
    (r"_log/hint\.json", 4096),
    (r"_log/\d{20}\.json", 64 << 20),
    (r"_log/checkpoints/[^/]*\.json", 256 << 20),
    (r"_log/history/.*", 65 << 20),
    (r"_log/(checkpoints/parts|side)/.*|(?!_log/).*", 2 << 30),
    (r".*", 64 << 20),
)
"""Maximum bytes of an object by its name (STO-24). The first match counts."""


def longest(name: str) -> int:
    """Return the maximum bytes of an object with this name."""
    return next(most for form, most in LENGTHS if re.fullmatch(form, name, re.DOTALL))


END_BYTES = 65536
"""Bytes at the end of a data file that its checksum covers, if no footer is longer (ADD-7)."""


class NotRegularError(OSError):
    """Raised for a link, a folder or a pipe with the name of an object (STO-8)."""


class TooLongError(OSError):
    """An object is longer than its name allows (STO-24)."""


class Folder:
    """Reader of a table's objects by name."""

    def __init__(self, uri: str, options: Json | None) -> None:
        uri = re.sub(r"^s3[an]://", "s3://", uri)
        if "://" in uri:
            self.store, root = fsspec.core.url_to_fs(uri, **(options or {}))
        else:
            self.store, root = fsspec.filesystem("file", **(options or {})), os.path.abspath(uri)
        self.root = root.rstrip("/")
        self.on_disk = isinstance(self.store, LocalFileSystem)
        self.barred: dict[int, tuple[str, str]] = {}
        """Versions whose entries are not read, with rule and message (STO-8, STO-24)."""

    def get(self, name: str) -> bytes:
        """Return an object. Raises OSError: it is no regular file, or too long (STO-8, STO-24)."""
        size = self.size(name)
        if size > longest(name):
            raise TooLongError(f"{name} has {size} bytes; at most {longest(name)}")
        return self.last(name, size, size)

    def size(self, name: str) -> int:
        """Return the length of an object, without reading it. Raises NotRegularError (STO-8)."""
        if self.on_disk:
            self._check_regular(name)
        path = f"{self.root}/{name}"
        if isinstance(self.store, MemoryFileSystem) and path in self.store.store:
            # Its own `size` visits the names of all objects there are.
            return int(self.store.store[path].size)
        size: int = self.store.size(path)
        return size

    def last(self, name: str, size: int, count: int) -> bytes:
        """Return the last `count` bytes of an object of that size, or all of a shorter one."""
        if not size:
            return b""
        path, start = f"{self.root}/{name}", max(0, size - count)
        # An object that has grown since then gives no more bytes.
        data: bytes = self.store.cat_file(path, start=start, end=size)
        return data

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder below `_log/`."""
        try:
            paths = self.store.ls(f"{self.root}/_log/{folder}", False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [path.rsplit("/", 1)[-1] for path in paths]

    def entries(self) -> dict[int, bytes]:
        """Return the bytes of entries by version: listed, or found by a get (LOG-4)."""
        self.store.invalidate_cache()
        try:
            names = [path.rsplit("/", 1)[-1] for path in self.store.ls(f"{self.root}/_log", False)]
        except (FileNotFoundError, NotADirectoryError):
            names = []
        listed = {int(name[:20]) for name in names if ENTRY_NAME.match(name)}
        queue = sorted({0, *(n + step for n in listed for step in (-1, 0, 1))})
        found: dict[int, bytes] = {}
        for version in queue:
            try:
                if 0 <= version <= MAX_VERSION:
                    found[version] = self.get(f"_log/{version:020d}.json")
                    if version == queue[-1]:
                        queue.append(version + 1)
            except (NotRegularError, TooLongError) as error:
                long = isinstance(error, TooLongError)
                why = (
                    ("ENT-2", f"is too long: {error}") if long else ("STO-8", "is no regular file")
                )
                self.barred[version] = why
                found[version] = b""
            except (FileNotFoundError, NotADirectoryError):
                continue
        return found

    def _check_regular(self, name: str) -> None:
        """Refuse links in the path of a file of the table, and objects that are not files."""
        path = self.root
        *folders, last = name.split("/")
        for folder in folders:
            path = f"{path}/{folder}"
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise NotRegularError(f"{path} is a link")
        if not stat.S_ISREG(os.lstat(f"{path}/{last}").st_mode):
            raise NotRegularError(f"{name} is no regular file")

    def problems(self, file: Json) -> list[str]:
        """Return the problems of the object of a live data file."""
        path = file["path"]
        try:
            size = self.size(path)
            end = self.last(path, size, END_BYTES)
            if footer_length(end) > len(end):
                end = self.last(path, size, footer_length(end))
            rows = footer_of(end).num_rows
        except FileNotFoundError:
            return [f"added {path!r}, which is missing"]
        except (OSError, BadParquetError) as error:
            return [f"added {path!r}, which is not Parquet: {error}"]
        if file["footer"] not in (None, zlib.crc32(end)):
            return [f"added {path!r}, whose end has another checksum (ADD-7)"]
        same = (size, rows) == (file["size"], file["rows"])
        return [] if same else [f"added {path!r}, which has {size} bytes and {rows} rows"]
