"""What Spark's messages say: a check of a write that failed, or a file that is not found.

Checks of a write leave marks in the messages. A file that Spark's own reader does not find was
given up with its version, or it is lost. Spec: DAT-13, DAT-14.
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
    VersionNotFoundError,
)
from tablefmt.expressions.check_constraints import broken
from tablefmt.model.log_entry import AddedFiles, OverflowFile
from tablefmt.model.schema import too_long
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.local_store import LocalStore
from tablefmt.store.store_wrappers import ReadOnlyStore

END = "[tablefmt-row]"
"""Where what a guard shows of a row ends."""

_LONG = re.compile(r"\[tablefmt-length:([A-Za-z0-9_=-]+)\](\d+) (.*?)" + re.escape(END), re.DOTALL)
_BROKEN = re.compile(r"\[tablefmt-check:([A-Za-z0-9_=-]+)\](.*?)" + re.escape(END), re.DOTALL)


def broken_check(text: str) -> ConstraintViolationError | None:
    """What `guard` or `length_sql` failed with, in a message of Spark's."""
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
        # It was cut.
        pass
    return broken(name, condition, row)


_MISSING = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] [^\n]*? file (\w+):/{1,3}([^\n]*?)/"
    r"(data/[0-9a-f]{32}/[^\n]*?\.parquet)\. File does not exist"
)


def lost_file(texts: Iterable[str]) -> TablefmtError | None:
    """What to say of it; None if no text is about a file of a table of ours.

    On a local disk the log is asked whether it names the file, and whether the newest version has
    it. Elsewhere, and if the log cannot be read, a name as ours have is believed, and either reason
    said to be possible.
    """
    match = next((found for found in map(_MISSING.search, texts) if found), None)
    if match is None:
        return None
    scheme, root, key = match[1], unquote(match[2]), unquote(match[3])
    message = "it is missing: its version was vacuumed since it was read, or it is lost"
    if scheme == "file":
        # A message is text that anybody's rows may be in: nothing is written where it leads.
        store = ReadOnlyStore(LocalStore(f"/{root}"))
        try:
            view = LogView.open(store, ended=True, explain=False)
            if view.head.ended:
                return TableNotFoundError(store.uri, f"version {view.head.version} dropped it")
            is_live = pc.any(pc.equal(view.snapshot().files_with(("path",))["path"], key)).as_py()
            oldest, newest = view.head.totals.oldest, view.head.version
            if oldest > 0 and not is_live:
                return VersionNotFoundError(f"the version with {key}", oldest, newest)
            if not is_live and not any(
                _may_name(stored.entry.add, key) for stored in view.entries_after(-1)
            ):
                return None
            message = "it is missing"
        except TableNotFoundError:
            return None
        except TablefmtError:
            pass
    return CorruptDataError(message, key=key, rule="DAT-5")


def _may_name(added: AddedFiles | OverflowFile | None, key: str) -> bool:
    """Whether an entry adds a file; one that has its list beside it may."""
    return isinstance(added, OverflowFile) or (added is not None and key in added.columns["path"])
