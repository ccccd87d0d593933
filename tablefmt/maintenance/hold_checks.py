"""Checks of the tags that keep a version for a shallow clone: at the source, and from the clone.

A vacuum does not know the clones of a table. So the check of a source names each version that it
keeps for a clone, and the check of a clone looks whether the source still keeps its files.
Spec: CLN-4, TAG-2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from tablefmt.errors import CorruptTableError, StoreError, TablefmtError, UnsupportedFeatureError
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.tags import HOLD, PREFIX, tags_of
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.import_roots import folder_of


def hold_problems(
    view: LogView, entries: Sequence[StoredEntry]
) -> Iterator[tuple[str, CorruptTableError]]:
    """Yield the kind of each finding about the holds of clones, and what it says.

    Args:
        view: a view of the whole log.
        entries: the entries of the log. Those that have expired tell nothing about a hold.
    """
    yield from _kept_for_clones(view, entries)
    yield from _lost_holds(view, entries)


def _kept_for_clones(
    view: LogView, entries: Sequence[StoredEntry]
) -> Iterator[tuple[str, CorruptTableError]]:
    """Yield what the table keeps for clones of it."""
    places = _clones_by_tag(entries)
    for name, tag in tags_of(view.head.metadata).items():
        if not name.startswith(HOLD):
            continue
        place = places.get(name)
        of_whom = "" if place is None else f" at {place!r:.300}"
        message = (
            f"it keeps version {tag.version} and later ones for a shallow clone{of_whom}, so "
            "no vacuum removes their files"
        )
        yield "clone-hold", CorruptTableError(message, key=PREFIX + name, rule="CLN-4")


def _clones_by_tag(entries: Sequence[StoredEntry]) -> Mapping[str, str]:
    """Return the address of the clone that each tag was set for."""
    found: dict[str, str] = {}
    for stored in entries:
        name = stored.entry.operation.parameters.get("tag")
        place = stored.entry.user_metadata.get("clone")
        if isinstance(name, str) and isinstance(place, str):
            found[name] = place
    return found


def _lost_holds(
    view: LogView, entries: Sequence[StoredEntry]
) -> Iterator[tuple[str, CorruptTableError]]:
    """Yield the sources that no longer keep the files of this clone."""
    live = _live_imports(view)
    for stored in entries:
        tag, metadata = stored.entry.operation.parameters.get("hold"), stored.entry.metadata
        if not isinstance(tag, str) or metadata is None:
            continue
        # A clone with a hold has files of one source alone.
        roots = {
            each.root
            for number, each in metadata.imports.items()
            if each.format == "tablefmt" and number in live
        }
        for root in sorted(roots):
            try:
                source = LogView.open(folder_of(view.store, root))
                kept = tag in tags_of(source.head.metadata)
            except (CorruptTableError, UnsupportedFeatureError, StoreError) as error:
                yield "not-checked", _lost(root, f"its tag {tag!r:.200} cannot be read: {error}")
                continue
            except TablefmtError as error:
                yield "lost-hold", _lost(root, f"the source of this clone cannot be read: {error}")
                continue
            if not kept:
                message = (
                    f"it has no tag {tag!r:.200} any more, so its next vacuum may remove files of "
                    "this clone"
                )
                yield "lost-hold", _lost(root, message)


def _lost(root: str, message: str) -> CorruptTableError:
    return CorruptTableError(message, key=root, rule="CLN-4")


def _live_imports(view: LogView) -> frozenset[int]:
    """Return the numbers of the imports that live files have."""
    files = view.snapshot().files_with(("path", NUMBER))
    if NUMBER not in files.column_names:
        return frozenset()
    return frozenset(pc.unique(files[NUMBER].drop_null()).to_pylist())
