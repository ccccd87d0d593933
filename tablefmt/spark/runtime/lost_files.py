"""A file that Spark's own reader does not find: its version was given up, or it is lost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

import pyarrow.compute as pc

from tablefmt.errors import CorruptDataError, TablefmtError, VersionNotFoundError
from tablefmt.snapshot.load import LogView
from tablefmt.store.local import LocalStore

_MISSING = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] [^\n]*? file (\w+):/{1,3}([^\n]*?)/"
    r"(data/[0-9a-f]{32}/[^\n]*?\.parquet)\. File does not exist"
)


def lost_file(texts: Iterable[str]) -> TablefmtError | None:
    """What to say of it; None if no text is about a file of a table of ours.

    On a local disk the log is asked whether the newest version has the file. Elsewhere, and if the
    log cannot be read, both are said to be possible.
    """
    match = next((found for found in map(_MISSING.search, texts) if found), None)
    if match is None:
        return None
    scheme, root, key = match[1], unquote(match[2]), unquote(match[3])
    message = "it is missing: its version was vacuumed since it was read, or it is lost"
    if scheme == "file":
        try:
            view = LogView.open(LocalStore(f"/{root}"))
            is_live = pc.any(pc.equal(view.snapshot().files_with(("path",))["path"], key)).as_py()
            if view.head.totals.oldest > 0 and not is_live:
                oldest, newest = view.head.totals.oldest, view.head.version
                return VersionNotFoundError(f"the version with {key}", oldest, newest)
            message = "it is missing"
        except TablefmtError:
            pass
    return CorruptDataError(message, key=key, rule="DAT-5")
