"""Exports of a table: on demand with a report, and after commits of tables that ask for them.

Exporters stay warm beside the log they export, so that the next commit costs one PUT a target.
Spec: XPT-1, XPT-3, XPT-12.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

import pyarrow as pa

from tablefmt.commit.environment import Environment
from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import ExportBlockedError, InvalidArgumentError, TablefmtError
from tablefmt.export.delta_target import DeltaTarget
from tablefmt.export.export_run import Exporter
from tablefmt.export.export_target import Mark, Target, started
from tablefmt.export.iceberg_catalog import open_catalog, register
from tablefmt.export.iceberg_target import IcebergTarget, location_of
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.name_matching import did_you_mean
from tablefmt.model.properties import export_targets
from tablefmt.printable import number_of, printable
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.object_store import Store

logger = logging.getLogger(__name__)

TargetName = Literal["delta", "iceberg"]
TARGETS: dict[str, Callable[[], Target]] = {"delta": DeltaTarget, "iceberg": IcebergTarget}
"""All targets by name."""

SECONDS = 2.0
"""Time after which an export that follows a commit stops. The next commit continues it."""

REST = 60.0
"""Seconds without further attempts after a copy was found blocked."""

Start = Literal["head"] | int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport(ArrowReport):
    """Result of an export. `print` shows one line; `to_arrow` has one row."""

    uri: str
    to: str
    """Name of the target."""
    version: int
    """Newest version of the table."""
    exported: int
    """Version of the newest foreign commit."""
    shown: int
    """Version whose rows the copy shows."""
    held: str | None
    """Reason why the copy shows an older version than it has; None if it does not hold."""
    first: int | None
    """First version that this run wrote or found; None if there was nothing to do."""
    written: int
    """Foreign commits that this run created."""
    found: int
    """Foreign commits that another exporter created meanwhile."""
    bytes: int
    """Bytes that this run wrote."""
    place: str
    """Key of the newest foreign commit, relative to the table."""
    seconds: float
    registered: str | None = None
    """Name of the copy in the catalog that it was registered with; None for no catalog."""

    def to_arrow(self) -> pa.Table:
        """Return one row with a column for each field."""
        return pa.Table.from_pylist([asdict(self)], _SCHEMA)

    def __str__(self) -> str:
        done = (
            f"{number_of(self.written, 'version')} written"
            if self.first is not None
            else "nothing to do"
        )
        found = f", {self.found} found" if self.found else ""
        held = f"; it shows version {self.shown}: {self.held}" if self.held else ""
        return printable(
            f"{self.uri}: {self.to} copy at version {self.exported} of {self.version}, {done}"
            f"{found}, {self.bytes} bytes in {self.seconds:.2f} s: {self.place}{held}"
            + (f"; in the catalog as {self.registered}" if self.registered else "")
        )


_SCHEMA = pa.schema(
    [
        ("uri", pa.string()),
        ("to", pa.string()),
        *((name, pa.int64()) for name in ("version", "exported", "shown")),
        ("held", pa.string()),
        *((name, pa.int64()) for name in ("first", "written", "found", "bytes")),
        ("place", pa.string()),
        ("seconds", pa.float64()),
        ("registered", pa.string()),
    ]
)


@dataclass(eq=False)
class _Warm:
    """An exporter of one log to one target, for all threads of a process."""

    exporter: Exporter
    rests_until: float = float("-inf")
    busy: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget that an export is running: the parent process continues it."""
        self.busy = threading.Lock()


_warm: WeakKeyDictionary[LogView, dict[str, _Warm]] = WeakKeyDictionary()


def target_of(name: object) -> Target:
    """Return a new target. Raises InvalidArgumentError for another name."""
    if isinstance(name, str) and name in TARGETS:
        return TARGETS[name]()
    raise InvalidArgumentError(
        f"cannot export to {name!r:.100}; expected one of {', '.join(TARGETS)}"
        f"{did_you_mean(str(name), TARGETS)}"
    )


def export_table(
    store: Store,
    view: LogView,
    environment: Environment,
    to: str,
    *,
    start: Start = "head",
    catalog: Any = None,
    table: str | None = None,
) -> ExportReport:
    """Bring the copy of a table in another format up to its newest version.

    Args:
        store: the table's root.
        view: its log.
        environment: clock and waiting.
        to: name of the target.
        start: first version of a new copy: "head", or a version. An existing copy goes on.
        catalog: catalog of Iceberg to register the copy with: its name, or PyIceberg's object.
        table: name of the copy in the catalog.

    Raises:
        InvalidArgumentError: an unknown target, start or catalog.
        ExportBlockedError: another program writes where the copy is.
        UnsupportedFeatureError: the target cannot show the first version.
        VersionNotFoundError: `start` is not in the history.
        StoreError, CorruptTableError: of the store and of the log.
    """
    first = None if start == "head" else whole_number(start)
    if first is None and start != "head":
        raise InvalidArgumentError(f"start is {start!r:.100}; expected 'head' or a version")
    began = environment.monotonic()
    opened = _catalog(to, catalog, table)
    warm = _exporter(store, view, environment, to)
    view.refresh()
    with warm.busy:
        exporter = warm.exporter
        exporter.stands()
        done = exporter.run(view, start=first)
    mark = exporter.mark
    assert mark is not None
    if opened is not None:
        assert table is not None
        address = f"{location_of(store.uri)}/{done.place}"
        register(opened, table, address, mark, store.uri)
    return ExportReport(
        uri=store.uri,
        to=to,
        version=view.head.version,
        exported=mark.version,
        shown=mark.shown,
        held=done.held or None,
        first=done.first,
        written=done.written,
        found=done.found,
        bytes=done.bytes,
        place=done.place,
        seconds=environment.monotonic() - began,
        registered=table,
    )


def _catalog(to: str, catalog: Any, table: str | None) -> Any:
    """Return the opened catalog; None without one."""
    if catalog is None and table is None:
        return None
    if to != "iceberg" or catalog is None or table is None:
        raise InvalidArgumentError(
            f"catalog is {catalog!r:.100} and table is {table!r:.100}, for an export to {to}; to "
            "register a copy, pass both, and export to iceberg"
        )
    return open_catalog(catalog)


def _exporter(store: Store, view: LogView, environment: Environment, to: str) -> _Warm:
    known = _warm.get(view)
    if known is None:
        known = _warm.setdefault(view, {})
    if to not in known:
        known[to] = _Warm(Exporter(store, target_of(to), environment.sleep))
    return known[to]


def follow_commit(store: Store, view: LogView, environment: Environment) -> Mapping[str, int]:
    """Export after a commit, if the table's property `export` asks for it. Never raises.

    Another thread may be exporting already, and a run that takes too long stops. In both cases a
    later commit goes on.

    Args:
        store: the table's root.
        view: its log, which has the commit.
        environment: clock and waiting.

    Returns:
        The version that each copy shows. A target without a copy is absent.
    """
    stands = {}
    for name in export_targets(view.head.metadata.properties):
        try:
            mark = _follow(store, view, environment, name)
        except Exception as error:
            _log_failure(store, name, error)
            mark = _exporter(store, view, environment, name).exporter.mark
        if mark is not None:
            stands[name] = mark.shown
    return stands


def _follow(store: Store, view: LogView, environment: Environment, name: str) -> Mark | None:
    began = environment.monotonic()
    warm = _exporter(store, view, environment, name)
    if warm.rests_until > began or not warm.busy.acquire(blocking=False):
        return warm.exporter.mark
    try:
        warm.exporter.run(
            view,
            start=_natural_start(view),
            until=lambda: environment.monotonic() - began > SECONDS,
        )
    except ExportBlockedError:
        warm.rests_until = began + REST
        raise
    finally:
        warm.busy.release()
    return warm.exporter.mark


def _log_failure(store: Store, name: str, error: Exception) -> None:
    # The error may be another library's, with text of the store in it.
    said = printable(str(error))
    logger.warning("could not export %s to %s: %s", printable(store.uri), name, said)


def _natural_start(view: LogView) -> int | None:
    """Return version 0 for a table that had the property from the beginning; else None, the head.

    Such a table has few versions before its first export.
    """
    whole = view.base.version < 0 and view.timeline.oldest == 0
    return 0 if whole and view.metadata_version_at(view.head.version) == 0 else None


def mark_of_copy(store: Store, name: str) -> Mark | None:
    """Return the mark of a table's copy; None if there is no copy, or it is another program's."""
    target = target_of(name)
    newest = target.newest(store)
    return None if newest is None else target.read_mark(newest[1])


def copies_of(store: Store, view: LogView) -> dict[str, dict[str, int | str]]:
    """Return where each copy of the property `export` stands: by target, what `describe` shows.

    Args:
        store: the table's root.
        view: its log, at the head.
    """
    copies: dict[str, dict[str, int | str]] = {}
    for name in export_targets(view.head.metadata.properties):
        mark = mark_of_copy(store, name)
        if mark is None or mark.table != view.head.table or mark.version > view.head.version:
            copies[name] = {"status": "no copy yet, or a copy of another program"}
            continue
        copies[name] = {"version": mark.version, "behind": view.head.version - mark.version}
        if mark.shown != mark.version:
            why = target_of(name).cannot_show(view, mark.version)
            copies[name] |= {"shows": mark.shown, "heldSince": mark.shown + 1, "why": why}
    return copies


def kept_for_copies(
    store: Store, view: LogView, environment: Environment, *, catch_up: bool
) -> int | None:
    """Return the earliest version that a copy of the table shows; None without a copy.

    The files and entries that it needs must stay (XPT-12).

    Args:
        store: the table's root.
        view: its log.
        environment: clock and waiting.
        catch_up: bring the copies up to the head first. A copy that cannot be brought up stays.
    """
    shown = []
    for name in TARGETS:
        target = target_of(name)
        newest = target.newest(store)
        if newest is None:
            continue
        mark = target.read_mark(newest[1])
        if mark is None:
            # Readers may still use older commits of the copy.
            start = started(store, target.start_key)
            if start is not None and start[0] == view.head.table:
                uri, blocking = printable(store.uri), printable(newest[0])
                logger.warning("the %s copy of %s is blocked by %s", name, uri, blocking)
                shown.append(start[1])
            continue
        if mark.table != view.head.table:
            continue
        if catch_up and mark.version < view.head.version:
            try:
                export_table(store, view, environment, name)
                mark = mark_of_copy(store, name) or mark
            except TablefmtError as error:
                _log_failure(store, name, error)
        shown.append(mark.shown)
    return min(shown, default=None)
