"""Folders of Parquet files, perhaps with partition values in the names of folders. Spec: IMP-5."""

from __future__ import annotations

from tablefmt.errors import TableNotFoundError
from tablefmt.imports.partition_values import folder_values
from tablefmt.imports.source import Source, refused
from tablefmt.log.object_names import imported_path_problem
from tablefmt.store.object_store import Store

_Listing = list[tuple[str, int, int]]


def parquet_source(store: Store) -> Source:
    """Return the files of a folder. Names that start with `_` or `.` are hidden, as in Spark.

    Raises:
        TableNotFoundError: there is no file.
        UnsupportedFeatureError: IMP-7.
    """
    listing = _listing(store)
    if not listing:
        raise TableNotFoundError(store.uri, "it holds no Parquet file to import")
    paths = [path for path, _, _ in listing]
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
        return f"the file {different[0][0]!r:.200} appeared, changed or went"

    return Source(
        format="parquet",
        version=None,
        paths=paths,
        sizes=[size for _, size, _ in listing],
        partition_names=names,
        partitions=values,
        changed=changed,
    )


def _listing(store: Store) -> _Listing:
    """Return path, size and time of all visible files."""
    return [
        (one.key, one.size, one.modified_us)
        for one in store.list_after("")
        if not one.key.startswith(("_", "."))
        and "/_" not in f"/{one.key}"
        and "/." not in f"/{one.key}"
    ]
