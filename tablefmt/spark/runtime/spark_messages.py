"""Recognize failures in Spark's messages: a failed check of a write, a missing data file, no S3A.

Checks of a write add marks to their messages. A file that Spark's reader does not find was removed
by a vacuum, or is lost. Spec: DAT-13, DAT-14.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import pyarrow.compute as pc

from tablefmt.errors import (
    ConstraintViolationError,
    CorruptDataError,
    TablefmtError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.expressions.check_constraints import broken
from tablefmt.model.log_entry import AddedFiles, OverflowFile
from tablefmt.model.schema import too_long
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.local_store import LocalStore
from tablefmt.store.store_wrappers import ReadOnlyStore

END = "[tablefmt-row]"
"""End of the row that a check shows in its message."""

_LONG = re.compile(r"\[tablefmt-length:([A-Za-z0-9_=-]+)\](\d+) (.*?)" + re.escape(END), re.DOTALL)
_BROKEN = re.compile(r"\[tablefmt-check:([A-Za-z0-9_=-]+)\](.*?)" + re.escape(END), re.DOTALL)


def broken_check(text: str) -> ConstraintViolationError | None:
    """Return the error of a check by `guard` or `length_sql` in a message of Spark."""
    long = _LONG.search(text)
    if long is not None:
        try:
            column, declared = json.loads(base64.urlsafe_b64decode(long[1]))
        except ValueError:
            return None
        return too_long(column, declared, int(long[2]), long[3])
    broken_row = _BROKEN.search(text)
    if broken_row is None:
        return None
    try:
        name, condition = json.loads(base64.urlsafe_b64decode(broken_row[1]))
    except ValueError:
        return None
    row: Any = broken_row[2] or None
    try:
        row = json.loads(broken_row[2])
    except ValueError:
        # The row's text was truncated.
        pass
    return broken(name, condition, row)


_MISSING = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] [^\n]*? file (\w+):/{1,3}([^\n]*?)/"
    r"(data/[0-9a-f]{32}/[^\n]*?\.parquet)\. File does not exist"
)


ENTRIES_MAX = 1000
"""Most entries that are searched for a missing file."""


def lost_file(texts: Iterable[str]) -> TablefmtError | None:
    """Return the error for a missing file. None if no text is about a file of a tablefmt table.

    On a local disk, the log tells whether an entry names the file, and whether the file is live.
    Elsewhere, or if the log cannot be read or is too long to be searched, a file name in tablefmt's
    scheme is enough, and the error names both possible reasons.
    """
    match = next((found for found in map(_MISSING.search, texts) if found), None)
    if match is None:
        return None
    scheme, root, key = match[1], unquote(match[2]), unquote(match[3])
    message = "it is missing: a vacuum removed its version after it was read, or it is lost"
    if scheme == "file":
        # Rows of any user may be in a message, so the path is not trusted: the store is read-only.
        store = ReadOnlyStore(LocalStore(f"/{root}"))
        try:
            view = LogView.open(store, ended=True, explain=False)
            if view.head.ended:
                return TableNotFoundError(store.uri, f"version {view.head.version} dropped it")
            is_live = pc.any(pc.equal(view.snapshot().files_with(("path",))["path"], key)).as_py()
            oldest, newest = view.head.totals.oldest, view.head.version
            if oldest > 0 and not is_live:
                return VersionNotFoundError(f"the version with {key}", oldest, newest)
            first = max(0, newest + 1 - ENTRIES_MAX)
            if is_live or any(
                _may_name(stored.entry.add, key) for stored in view.entries_after(first - 1)
            ):
                message = "it is missing"
            elif first == 0:
                return None
        except TableNotFoundError:
            return None
        except TablefmtError:
            pass
    return CorruptDataError(message, key=key, rule="DAT-5")


_OUR_S3A = re.compile(r"\bs3a-[0-9a-f]{10}://")
_NO_S3A = re.compile(r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a\.\w+ not found")


def without_s3a(texts: Iterable[str]) -> UnsupportedFeatureError | None:
    """Return the error for a scan of a tablefmt table on S3 in a session without Hadoop's S3A."""
    text = "\n".join(texts)
    if _OUR_S3A.search(text) is None or _NO_S3A.search(text) is None:
        return None
    return UnsupportedFeatureError(
        "SQL queries and catalog tables on s3:// need Hadoop's S3A classes, and this Spark session "
        "lacks them. Start the session with tablefmt.spark.session(s3=True). Or read with "
        "spark.read.format('tablefmt').load(path), which goes through Arrow",
        ["spark:s3-jars"],
    )


def _may_name(added: AddedFiles | OverflowFile | None, key: str) -> bool:
    """Return whether an entry adds a file. True if its files are in an overflow file."""
    return isinstance(added, OverflowFile) or (added is not None and key in added.columns["path"])
