"""Folders of Parquet files, perhaps with partition values in the names of folders. Spec: IMP-5."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from tablefmt.errors import StoreError, TableNotFoundError
from tablefmt.imports.partition_values import folder_values
from tablefmt.imports.source import Source, refused
from tablefmt.log.object_names import imported_path_problem, is_hidden
from tablefmt.store.object_store import Store

_Listing = list[tuple[str, int, int]]

_TABLE_BELOW = re.compile(
    r"(?P<folder>[^/_.][^/]*(?:/[^/_.][^/]*)*?)/"
    r"(?:(?P<tablefmt>_log/.+)|(?P<Delta>_delta_log/.+)|(?P<Hudi>\.hoodie/.+)"
    r"|(?P<Iceberg>metadata/(?:[^/]+\.metadata\.json(?:\.gz)?|version-hint\.text)))"
)
"""A key that shows a table in a visible folder below the source."""


def parquet_source(store: Store) -> Source:
    """Return the files of a folder. Names are hidden as in Spark: see `is_hidden`.

    Raises:
        TableNotFoundError: there is no file.
        UnsupportedFeatureError: IMP-7.
    """
    listing = _listing(store, refuse_tables=True)
    if not listing:
        raise TableNotFoundError(store.uri, "it holds no Parquet file to import")
    # Writers count files up, so adjacent values differ little, and the log is smaller.
    by_number = sorted(listing, key=lambda one: (counting_order(one[0]), one[0]))
    paths = [path for path, _, _ in by_number]
    for path in paths:
        problem = imported_path_problem(path)
        if problem is not None:
            raise refused(f"the path {path!r:.300}: {problem} (rule IMP-1)", "import:path")
    names, values = folder_values(paths)

    def changed() -> str | None:
        now = _listing(store)
        if now == listing:
            return None
        different = sorted({*now} ^ {*listing})
        return f"the file {different[0][0]!r:.200} appeared, changed or was removed"

    return Source(
        format="parquet",
        version=None,
        paths=paths,
        sizes=[size for _, size, _ in by_number],
        partition_names=names,
        partitions=values,
        changed=changed,
    )


_NUMBER = re.compile("([0-9]+)")


def counting_order(path: str) -> list[str | int]:
    """Return a key that sorts part-9 before part-10. Pure."""
    parts = enumerate(_NUMBER.split(path))
    return [int(part) if at % 2 else part for at, part in parts]


def table_below(key: str) -> tuple[str, str] | None:
    """Return the folder and the format of the table that a key shows, if any. Pure."""
    match = _TABLE_BELOW.fullmatch(key)
    if match is None:
        return None
    return match["folder"], str(match.lastgroup)


_TABLE_ABOVE = re.compile(
    r"(?P<tablefmt>_log/[0-9]{20}\.json)|(?P<Delta>_delta_log/.+)|(?P<Hudi>\.hoodie/.+)"
    r"|(?P<Iceberg>metadata/(?:[^/]+\.metadata\.json(?:\.gz)?|version-hint\.text))"
)
"""A key that shows a table in the folder itself."""

_LOOKED_AT = 1000
"""Keys of a metadata folder to examine: one page of a listing."""


def folders_above(uri: str) -> list[str]:
    """Return the addresses of the folders above one, nearest first, without a disk's root. Pure."""
    scheme, mark, path = uri.rpartition("://")
    parts = path.rstrip("/").split("/")
    above = ["/".join(parts[:stop]) for stop in range(len(parts) - 1, 0, -1)]
    return [f"{scheme}{mark}{one}" for one in above if one]


def refuse_inside(source: str, above: Iterable[Store]) -> None:
    """Refuse a source in the folder of a table: its files may have rows that the table deleted.

    Args:
        source: its address, for the message.
        above: stores of the folders above it, nearest first. An unreadable one is skipped.

    Raises:
        UnsupportedFeatureError: IMP-7.
    """
    for store in above:
        for prefix in ("_log/", "_delta_log/", "metadata/", ".hoodie/"):
            with suppress(StoreError):
                keys = (one.key for one in islice(store.list_after(prefix), _LOOKED_AT))
                match = next((m for m in map(_TABLE_ABOVE.fullmatch, keys) if m), None)
                if match is not None:
                    raise refused(
                        f"{source:.300} lies in a {match.lastgroup} table at {store.uri:.300} "
                        f"({match[0]:.200}), and not all of its files are rows (rule IMP-7)",
                        "import:table",
                        advice=f"Read or import the table at {store.uri:.300} instead.",
                    )


def _listing(store: Store, *, refuse_tables: bool = False) -> _Listing:
    """Return path, size and time of all visible files.

    Raises:
        UnsupportedFeatureError: with `refuse_tables`, a folder below is a table of its own (IMP-7).
    """
    found: _Listing = []
    for one in store.list_after(""):
        if refuse_tables and (table := table_below(one.key)) is not None:
            raise refused(
                f"the folder {table[0]!r:.300} below {store.uri} is a {table[1]} table "
                f"({one.key:.300}), and not all of its files are rows (rule IMP-7)",
                "import:table",
                advice="Import each table by itself, and move it out of this folder first.",
            )
        if not any(map(is_hidden, one.key.split("/"))):
            found.append((one.key, one.size, one.modified_us))
    return found
