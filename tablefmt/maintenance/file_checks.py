"""Checks of data files against the log: existence, length, footer, and with `deep` every page.

Live files are checked in groups, several groups in parallel, so memory stays bounded. Older files
are compared with a listing. Spec: DAT-5, ADD-7, VAL-3, IMP-6, VFY-1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.bound_checks import BoundCheck
from tablefmt.data.file_checksum import file_digest, read_ends
from tablefmt.data.file_verification import MISSING, check_file
from tablefmt.data.imported_files import missing_in
from tablefmt.errors import TablefmtError
from tablefmt.model.import_layouts import LAYOUT, NUMBER, layout_of
from tablefmt.model.schema import Schema
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.segments import NEVER
from tablefmt.store.import_roots import folder_of
from tablefmt.store.object_store import Store

GROUP = 128
"""Files of a group."""
THREADS = 4
"""Groups checked in parallel. A group reads at most 64 KiB of each file at once."""

_COLUMNS = (
    ("path", pa.string()),
    ("size", pa.int64()),
    ("rows", pa.int64()),
    ("footer", pa.int64()),
    (LAYOUT, pa.string()),
    ("digest", pa.binary()),
    ("added", pa.int64()),
)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One file with a problem."""

    path: str
    kind: str
    problem: str
    added: int
    """First version with the file."""
    removed: int | None = None
    """Version that removed it; None: it is live."""


def live_problems(
    store: Store,
    files: pa.Table,
    schema: Schema,
    *,
    deep: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[FileProblem]:
    """Yield the problems of live files, in the order of the files.

    Args:
        store: the table's root.
        files: the live files of a snapshot.
        schema: the schema of the table.
        deep: read every page, and compare the rows with the bounds.
        progress: called with files done, and their total.
    """
    for name, kind in _COLUMNS:
        if name not in files.column_names:
            files = files.append_column(name, pa.nulls(files.num_rows, kind))
    size = 1 if deep else GROUP
    groups = (files.slice(start, size) for start in range(0, files.num_rows, size))
    done = 0

    def check(group: pa.Table) -> list[FileProblem]:
        return _deep_problems(store, group, schema) if deep else _problems(store, group)

    with ThreadPoolExecutor(THREADS) as pool:
        # Groups in flight are bounded, and so is the memory of their footers.
        while some := list(islice(groups, THREADS * 2)):
            for group, problems in zip(some, pool.map(check, some), strict=True):
                yield from problems
                done += group.num_rows
            if progress is not None:
                progress(done, files.num_rows)


def _problems(store: Store, group: pa.Table) -> list[FileProblem]:
    """Return the problems of some files by their lengths and footers."""
    columns = [group[name].to_pylist() for name, _ in _COLUMNS]
    rows = list(zip(*columns, strict=True))
    # Only a footer with a checksum in the log need not be decoded.
    quick = [at for at, row in enumerate(rows) if row[3] is not None and row[4] is None]
    sound: set[int] = set()
    try:
        ends = read_ends(store, [(rows[at][0], rows[at][1]) for at in quick])
        sound = {
            at
            for at, end in zip(quick, ends, strict=True)
            if end is not None and end.is_sound(rows[at][1], rows[at][3])
        }
    except TablefmtError:
        # One of the files is a link or a folder. The checks one by one find it.
        pass
    found = (
        _problem(store, row, None, deep=False) for at, row in enumerate(rows) if at not in sound
    )
    return [problem for problem in found if problem is not None]


def _deep_problems(store: Store, group: pa.Table, schema: Schema) -> list[FileProblem]:
    found = []
    for at, row in enumerate(zip(*(group[name].to_pylist() for name, _ in _COLUMNS), strict=True)):
        own_names = row[4] is not None
        bounds = None if own_names else BoundCheck(group.slice(at, 1), schema)
        found.append(_problem(store, row, bounds, deep=True))
    return [problem for problem in found if problem is not None]


_Row = tuple[str, int, int, "int | None", "str | None", "bytes | None", int]


def _problem(
    store: Store, row: _Row, bounds: BoundCheck | None, *, deep: bool
) -> FileProblem | None:
    path, size, rows, footer, layout, digest, added = row
    root = "" if layout is None else layout_of(layout)[0]
    see = None if bounds is None else bounds.see
    try:
        folder = folder_of(store, root)
        problem = check_file(folder, path, size, rows, deep=deep, footer=footer, see=see)
        if problem == MISSING:
            return FileProblem(path, "missing-file", missing_in(root) if root else problem, added)
        if problem is None and deep and digest is not None:
            # Its pages have no checksums (IMP-6).
            same = file_digest(folder, path, size) == digest
            problem = None if same else "its bytes do not match the digest in the log (IMP-6)"
        if problem is None and bounds is not None and (untrue := bounds.finish()):
            return FileProblem(path, "wrong-bounds", untrue, added)
    except TablefmtError as error:
        return FileProblem(path, "not-checked", str(error), added)
    return None if problem is None else FileProblem(path, "damaged-file", problem, added)


def old_problems(view: LogView, listing: pa.Table) -> Iterator[FileProblem]:
    """Yield the problems of files that only older kept versions have, by a listing.

    Args:
        view: the whole log.
        listing: objects below `data/`: key and size.
    """
    oldest = view.timeline.oldest
    for segment in view.snapshot().history.segments:
        kept = (segment.removed > oldest) & (segment.removed != NEVER)
        places = np.flatnonzero(kept)
        if not len(places):
            continue
        files = segment.files.take(places, ["path", "size", NUMBER])
        at = pc.index_in(files["path"], value_set=listing["key"])
        sizes = listing["size"].take(at)
        wrong = pc.fill_null(pc.not_equal(sizes, files["size"]), True)
        # A listing of this table has no imported files of other folders.
        own = pc.starts_with(files["path"], "data/")
        if NUMBER in files.column_names:
            own = pc.and_(own, pc.is_null(files[NUMBER]))
        for line in np.flatnonzero(pc.and_(wrong, own).to_numpy()).tolist():
            length, path = sizes[line].as_py(), files["path"][line].as_py()
            said = f"it is {length} bytes long, but the log says {files['size'][line].as_py()}"
            place = int(places[line])
            yield FileProblem(
                path,
                "missing-old-file",
                MISSING if length is None else said,
                int(segment.files.added[place]),
                int(segment.removed[place]),
            )
