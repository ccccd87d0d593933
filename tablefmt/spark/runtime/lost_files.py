"""A file that Spark's own reader does not find: its version was given up, or it is lost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

import pyarrow.compute as pc

from tablefmt.errors import (
    CorruptDataError,
    TablefmtError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tablefmt.model.entry import AddedFiles, SideFile
from tablefmt.snapshot.load import LogView
from tablefmt.store.local import LocalStore
from tablefmt.store.wrap import ReadOnlyStore

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


def _may_name(added: AddedFiles | SideFile | None, key: str) -> bool:
    """Whether an entry adds a file; one that has its list beside it may."""
    return isinstance(added, SideFile) or (added is not None and key in added.columns["path"])
