"""Grammar of the object names in a table. Pure. Spec: KEY-1 .. KEY-3."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LOG = "_log/"
ENTRIES = "_log/0"
"""Prefix of the names of all entries, and of no other name."""
DATA = "data/"
SIDE = "_log/side/"
HINT = "_log/hint.json"
DELETES = "deletes/"
CHECKPOINTS = "_log/checkpoints/"
HISTORY = "_log/history/"

VERSION_MAX = (1 << 63) - 1

PATH_BYTES_MAX = 1024

_ENTRY = re.compile(r"_log/(\d{20})\.json")
_TRANSACTION = re.compile(r"[0-9a-f]{32}")
_SIDE = re.compile(r"_log/side/[0-9a-f]{32}\.parquet")
_ROOT = re.compile(r"_log/checkpoints/(\d{20})\.[0-9a-f]{32}\.json")
_CHECKPOINT_PART = re.compile(r"_log/checkpoints/parts/[0-9a-f]{32}\.parquet")
_BLOCK = re.compile(r"_log/history/(\d{20})-(\d{20})\.jsonl\.gz")
_DELETES = re.compile(r"deletes/[0-9a-f]{32}\.parquet")
_OWN = re.compile(r"data/[0-9a-f]{32}/[0-9A-Za-z_-]{1,64}(?:\.[0-9A-Za-z_-]{1,64}){0,8}")
_SHARED = re.compile(r"data/[0-9a-f]{32}/([0-9a-f]{32})\.parquet")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")


def entry_key(version: int) -> str:
    """Return the name of the entry of `version`, 0 <= version < 2**63."""
    if not 0 <= version <= VERSION_MAX:
        raise ValueError(f"version {version} is not between 0 and 2**63 - 1")
    return f"_log/{version:020d}.json"


def entry_version(key: str) -> int | None:
    """Return the version in an entry's name, or None for any other name."""
    match = _ENTRY.fullmatch(key)
    if match is None or not key.isascii():
        return None
    version = int(match[1])
    return version if version <= VERSION_MAX else None


def overflow_key(transaction: str) -> str:
    """Return the name of a transaction's overflow metadata file with `add` columns."""
    return f"{SIDE}{transaction}.parquet"


def is_side_key(key: str) -> bool:
    """Return True for the name of an overflow metadata file with `add` columns."""
    return _SIDE.fullmatch(key) is not None


def root_key(version: int, nonce: str) -> str:
    """Return the name of the root of a version's checkpoint; `nonce` is 32 random hex digits."""
    return f"{CHECKPOINTS}{version:020d}.{nonce}.json"


def root_version(key: str) -> int | None:
    """Return the version in the name of a checkpoint's root, or None for any other name."""
    match = _ROOT.fullmatch(key)
    if match is None or not key.isascii() or int(match[1]) > VERSION_MAX:
        return None
    return int(match[1])


def part_key(nonce: str) -> str:
    """Return the name of one Parquet object of a checkpoint."""
    return f"{CHECKPOINTS}parts/{nonce}.parquet"


def is_part_key(key: str) -> bool:
    """Return True for the name of a Parquet object of a checkpoint."""
    return _CHECKPOINT_PART.fullmatch(key) is not None


def log_segment_key(first: int, last: int) -> str:
    """Return the name of a compacted log segment, both versions inclusive (HIS-1)."""
    return f"{HISTORY}{first:020d}-{last:020d}.jsonl.gz"


def log_segment_range(key: str) -> tuple[int, int] | None:
    """Return the versions in the name of a compacted log segment, or None for any other name."""
    match = _BLOCK.fullmatch(key)
    if match is None or not key.isascii():
        return None
    return int(match[1]), int(match[2])


def deletes_key(transaction: str) -> str:
    """Return the name of the overflow metadata file with a transaction's `delete` columns
    (DEL-3).
    """
    return f"{DELETES}{transaction}.parquet"


def is_deletes_key(key: str) -> bool:
    """Return True for the name of an overflow metadata file with `delete` columns."""
    return _DELETES.fullmatch(key) is not None


def data_folder(transaction: str) -> str:
    """Return the folder of a transaction's data files, with a trailing slash."""
    return f"{DATA}{transaction}/"


def shared_folder_key(folder: str, transaction: str) -> str:
    """Return the name of a transaction's only data file in the shared folder of an earlier
    transaction.
    """
    return f"{DATA}{folder}/{transaction}.parquet"


def shared_folder_transaction(key: str) -> str | None:
    """Return the transaction whose only file has this name in a shared folder, or None."""
    match = _SHARED.fullmatch(key)
    return match[1] if match else None


def is_transaction(text: object) -> bool:
    """Return True if `text` is 32 lower-case hex digits."""
    return isinstance(text, str) and _TRANSACTION.fullmatch(text) is not None


def path_problem(path: object) -> str | None:
    """Return the error in a data file's path (KEY-2), or None."""
    if not isinstance(path, str):
        return "it is not text"
    if _OWN.fullmatch(path):
        # Writers of this package create such names. Other names need all the checks below.
        return None
    if not path.startswith(DATA):
        return f"it does not start with {DATA!r}"
    if _CONTROL.search(path):
        return "it contains a control character or a backslash"
    try:
        length = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "it is not Unicode text"
    if length > PATH_BYTES_MAX:
        return f"it is longer than {PATH_BYTES_MAX} bytes"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "it has an empty, '.' or '..' part"
    return None


RESERVED_FOLDERS = frozenset({"deletes", "metadata"})
"""First parts of paths that no imported file has (IMP-1)."""


def is_hidden(part: str) -> bool:
    """Return whether Spark skips files and folders of this name when it lists a folder of rows."""
    return part.startswith(".") or (part.startswith("_") and "=" not in part)


def imported_path_problem(path: object) -> str | None:
    """Return the error in an imported file's path (IMP-1), or None."""
    if not isinstance(path, str):
        return "it is not text"
    parts = path.split("/")
    if any(map(is_hidden, parts)):
        return "an imported path has a part that starts with '.', or with '_' and without '='"
    if parts[0] in RESERVED_FOLDERS:
        return f"{parts[0]!r} is a folder of the table's own"
    return path_problem(path if path.startswith(DATA) else DATA + path) or _length_problem(path)


def _length_problem(path: str) -> str | None:
    if len(path.encode("utf-8")) > PATH_BYTES_MAX:
        return f"it is longer than {PATH_BYTES_MAX} bytes"
    return None


_OWN_RE2 = f"^(?:{_OWN.pattern})$"


def first_path_problem(
    paths: pa.ChunkedArray, imports: pa.ChunkedArray | None = None
) -> str | None:
    """Return the error in the first refused path of many (KEY-2, IMP-1), or None.

    A check of the bytes of all paths together accepts nearly all of them. `path_problem` checks the
    others.

    Args:
        paths: the paths.
        imports: the number of the import of each file, or null; None: no file is imported.
    """
    if imports is not None and imports.null_count < len(imports):
        imported = pc.is_valid(imports)
        for path in paths.filter(imported).to_pylist():
            problem = imported_path_problem(path)
            if problem:
                return f"the path {str(path)[:100]!r} is refused: {problem}"
        paths = paths.filter(pc.invert(imported))
    for chunk in paths.chunks:
        if _are_plain(chunk):
            continue
        try:
            chunk.validate(full=True)
        except pa.ArrowInvalid:
            return "a path is refused: it is not Unicode text"
        own = pc.fill_null(pc.match_substring_regex(chunk, _OWN_RE2), False)
        for path in chunk.filter(pc.invert(own)).to_pylist():
            problem = path_problem(path)
            if problem:
                return f"the path {str(path)[:100]!r} is refused: {problem}"
    return None


def _are_plain(paths: pa.StringArray) -> bool:
    """Return True if all paths are printable ASCII below `data/`, with no part that starts with a
    dot.
    """
    if paths.type != pa.string() or paths.null_count or not len(paths):
        return False
    ends = np.frombuffer(paths.buffers()[1], np.int32)[paths.offset : paths.offset + len(paths) + 1]
    text = np.frombuffer(paths.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    if np.diff(ends).max() > PATH_BYTES_MAX or not len(text):
        return False
    if text.min() < 0x20 or text.max() >= 0x7F or np.any(text == ord("\\")):
        return False
    after = text[1:][text[:-1] == ord("/")]
    if np.any(after == ord("/")) or np.any(after == ord(".")):
        return False
    below = pc.all(pc.starts_with(paths, DATA)).as_py()
    return below and not pc.any(pc.ends_with(paths, "/")).as_py()
