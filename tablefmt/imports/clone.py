"""Clones: a new table with the rows and the definition of one version of another table.

The whole clone is one entry, the first of the new table. It is put last, and only if the place is
free. So a clone that stopped is no table. Copies that it left are removed by a vacuum of a later
table in the place. Spec: CLN-1 .. CLN-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.environment import SYSTEM
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.errors import (
    CommitUnknownError,
    InvalidArgumentError,
    TableExistsError,
    TablefmtError,
    VersionNotFoundError,
)
from tablefmt.imports.clone_copies import THREADS, CloneCopies, Progress
from tablefmt.imports.clone_plan import (
    CloneSource,
    cloned_metadata,
    deep_imports,
    shallow_imports,
    staged_clone,
)
from tablefmt.imports.clone_replacement import replace_by
from tablefmt.maintenance.drop import drop_at
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.log_entry import Import
from tablefmt.model.properties import check_properties
from tablefmt.model.tags import HOLD
from tablefmt.model.times import Time
from tablefmt.operations.alter import alter
from tablefmt.operations.alterations import drop_tag, set_tag
from tablefmt.operations.create import create_with_files, is_there, open_if_exists, prepare
from tablefmt.operations.restore import restore
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.measurements import Measured
from tablefmt.session.metadata_changes import with_properties
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import explain_given_up_version
from tablefmt.session.transaction_snapshot import TransactionFiles
from tablefmt.store.import_roots import ImportingStore
from tablefmt.store.location import Uri, open_store, scheme_of
from tablefmt.store.object_store import KeyNotFoundError, Store


class CloneKeywords(TypedDict, total=False):
    """Keywords of `Table.clone`, besides the storage options."""

    shallow: bool
    version: int | str | None
    timestamp: Time | None
    hold: bool
    replace: bool
    properties: Mapping[str, Any] | None


def clone_roots(source: TableContext, version: int) -> list[str]:
    """Return the folders that a new handle on a shallow clone may read.

    They are the source's own, and those that the user allowed for the source. Its log can name any
    folder, so a clone allows no other one (IMP-3).
    """
    snapshot = source.view.snapshot(version)
    return _allowed(source, CloneSource.of(source.store.uri, snapshot, source.view.read_head))


def _allowed(source: TableContext, described: CloneSource) -> list[str]:
    store = source.store
    return [r for r in described.roots() if r == described.uri or store.folder(r) is not None]


def clone_store(source: Store, into: Uri, storage_options: Mapping[str, Any] | None) -> Store:
    """Return the store of the place of a clone. Without options, it has those of the source."""
    given = storage_options
    if given is None:
        alike = scheme_of(into) == source.traits.scheme
        given = source.portable_options() if alike else {}
    return open_store(into, given)


def clone(
    source: TableContext,
    target: Store,
    *,
    shallow: bool = True,
    version: int | str | None = None,
    timestamp: Time | None = None,
    hold: bool = False,
    replace: bool = False,
    properties: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> TableContext:
    """Make a new table of one version. Other arguments and errors as of `Table.clone`.

    Args:
        source: the table.
        target: store of the place of the new table.
        shallow, version, timestamp, hold, replace, properties: as of `Table.clone`.
        progress: gets the number of files that were copied, and that of all files.
    """
    check_flags(shallow=shallow, hold=hold, replace=replace)
    changed = check_properties({} if properties is None else properties)
    _check_apart(source.store, target, replace=replace)
    there = is_there(target)
    if there and not replace:
        raise TableExistsError(
            target.uri,
            advice="Clone to another place, or pass replace=True to replace the rows and the "
            "definition of the table there.",
        )
    if version is None and timestamp is None:
        source.refresh()
    at = source.resolve_point(version, timestamp)
    with explain_given_up_version(source.store, at):
        snapshot = source.view.snapshot(at)
        described = CloneSource.of(source.store.uri, snapshot, source.view.read_head)
    if hold:
        _check_hold(described, shallow=shallow)
    if not there:
        prepare(target)
    place = target
    if shallow:
        readable = {root: source.store.portable_options() for root in _allowed(source, described)}
        place = ImportingStore(target, readable, open_store)
    parameters = {"source": described.uri, "sourceVersion": at, "isShallow": shallow}
    table = open_if_exists(place) if there else None
    measured = None if table is None else table.measure()
    work = _Work(source, described, place, changed, parameters, table, measured)
    return work.shallow(hold=hold) if shallow else work.deep(progress)


def _check_apart(source: Store, target: Store, *, replace: bool) -> None:
    """Refuse a place inside the source, or around it, and the source itself as a target."""
    one, other = f"{target.uri}/", f"{source.uri}/"
    if one == other and replace:
        raise InvalidArgumentError(
            f"the table at {source.uri} cannot be replaced by a clone of itself; use restore"
        )
    if one != other and (one.startswith(other) or other.startswith(one)):
        raise InvalidArgumentError(
            f"{target.uri} cannot be a clone of {source.uri}, because one of the two is inside the "
            "other; choose another place"
        )


def _check_hold(described: CloneSource, *, shallow: bool) -> None:
    """Refuse to keep files that the clone does not need, or that a tag cannot keep."""
    if not shallow:
        raise InvalidArgumentError(
            "hold=True keeps the files of a source for a shallow clone; a deep clone needs none of "
            "them. Leave hold out."
        )
    others = described.roots()[1:]
    if others:
        raise InvalidArgumentError(
            f"hold=True sets a tag on the table at {described.uri}, but that keeps no file of "
            f"{others[0]!r:.300}, where some of its rows are. Clone the table there, or make a "
            "deep clone: shallow=False."
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """One clone to make, in a free place or over the table there."""

    source: TableContext
    described: CloneSource
    target: Store
    changed: Mapping[str, str]
    """Properties of the clone in place of those of the source."""
    parameters: Mapping[str, Any]
    table: TableContext | None
    """The table to replace; None: the place is free."""
    measured: Measured | None
    """Measurement since the work on that table began."""

    def shallow(self, *, hold: bool) -> TableContext:
        """Make a shallow clone."""
        source, described, target = self.source, self.described, self.target
        imports, numbers = shallow_imports(described)
        transaction, parameters = SYSTEM.nonce(), dict(self.parameters)
        tag = f"{HOLD}{transaction[:16]}" if hold else None
        if tag is not None:
            _hold(source, tag, described.version, target.uri)
            parameters["hold"] = tag
        try:
            _check_kept(source, described)
            made = self._made(transaction, imports, numbers, parameters)
        except CommitUnknownError:
            # The clone may be there, so its files must stay.
            raise
        except TablefmtError:
            if tag is not None:
                _release(source, tag)
            raise
        try:
            _check_kept(source, described)
        except VersionNotFoundError:
            # A vacuum ran while the entry was put.
            if self.table is not None:
                restore(made, made.version - 1, None, CommitOptions())
            else:
                drop_at(target, CommitOptions())
            raise
        return made

    def deep(self, progress: Progress | None) -> TableContext:
        """Make a deep clone."""
        described, target = self.described, self.target
        imports, numbers = deep_imports(described)
        transaction = SYSTEM.nonce()
        files = TransactionFiles(target, transaction)
        store, version = self.source.store, described.version
        copies = CloneCopies(store, described, target, transaction, progress)
        with files.removed_on_failure(), explain_given_up_version(store, version):
            copies.paths(None if self.table is None else self.table.view.snapshot())
        return self._made(transaction, imports, numbers, self.parameters, copies)

    def _made(
        self,
        transaction: str,
        imports: Mapping[int, Import],
        numbers: pa.ChunkedArray,
        parameters: Mapping[str, Any],
        copies: CloneCopies | None = None,
    ) -> TableContext:
        """Commit the clone. Copies that are certainly not in the table are removed."""
        described, target = self.described, self.target
        with TransactionFiles(target, transaction).discarded_on_failure():
            metadata = with_properties(cloned_metadata(described, imports), self.changed)
            paths = None if copies is None or self.table is not None else copies.paths(None)
            staged = staged_clone(described, transaction, metadata, numbers, parameters, paths)
        if self.table is None:
            return create_with_files(target, staged)
        replace_by(self.table, described, staged, numbers, copies, self.measured)
        return self.table


def _hold(source: TableContext, tag: str, version: int, uri: str) -> None:
    """Keep the version of the source for its clone, by a tag (TAG-2)."""
    options = CommitOptions(user_metadata={"clone": uri})
    alter(source, set_tag(tag, version, None), options)


def _release(source: TableContext, tag: str) -> None:
    with suppress(TablefmtError):
        alter(source, drop_tag(tag), CommitOptions())


def _check_kept(source: TableContext, described: CloneSource) -> None:
    """Check that no vacuum has removed a file of the version (CLN-4).

    An entry gives a version up before its files are removed (RET-4). So files are looked for only
    if there is such an entry.

    Raises:
        VersionNotFoundError: a file is missing.
    """
    source.refresh()
    head = source.view.head
    if described.version >= head.totals.oldest:
        return
    live = source.view.snapshot().files_with({"path"})["path"]
    files = described.files.filter(pc.is_null(described.numbers()))
    loose = files.filter(pc.invert(pc.is_in(files["path"], value_set=live)))["path"].to_pylist()

    def is_missing(path: str) -> bool:
        try:
            source.store.size(path)
        except KeyNotFoundError:
            return True
        return False

    if any(side_by_side(is_missing, iter(loose), THREADS)):
        raise VersionNotFoundError(f"version {described.version}", head.totals.oldest, head.version)
