"""Reasons for which a vacuum removes an object or keeps it, and the time at which it can go.

The decision is that of a dry run: `vacuum.plan_vacuum`. The reasons come from the facts that it
decided by. Spec: RET-4 .. RET-6, RET-10, TAG-2, XPT-12, IMP-2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import InvalidArgumentError
from tablefmt.maintenance.removal_plan import ClassifiedObjects, classified
from tablefmt.maintenance.vacuum import DERIVED_FOLDERS, VacuumPlan, plan_vacuum
from tablefmt.model.properties import duration_text
from tablefmt.model.tags import HOLD, Tag, tags_of
from tablefmt.model.times import MICROS_MAX, show_time
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.segments import NEVER, find_files

_TIME = pa.timestamp("us", "UTC")

OBJECTS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("modified", _TIME),
        pa.field("removed_version", pa.int64()),
        pa.field("goes", pa.bool_(), nullable=False),
        pa.field("kept_by", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("can_go", _TIME),
    ]
)
"""Columns about each object. `removed_version` is the last version that removed it. `can_go` is
null if it depends on something else than time.
"""

SHOWN = 20
"""Objects that the printed report lists."""

_MICROS = 1_000_000

LIVE, LOG, IMPORT, YOUNG, OTHER, CHECKPOINT, MISSING = (
    *("live", "log", "import", "young", "other", "checkpoint", "missing"),
)

_TEXTS = {
    LIVE: "the newest version needs it",
    LOG: "an entry of the log names it; it goes after the entry has expired",
    IMPORT: "it is an imported file, and vacuum never removes one",
    YOUNG: "no entry names it yet, and a running transaction may still commit it",
    OTHER: "writers of this table make no such name, or it is in the folder of another table",
    CHECKPOINT: "readers may need this checkpoint or compacted part of the log",
}
"""Reasons that do not depend on a version. The keys are values of `kept_by`."""


@dataclass(frozen=True, slots=True)
class RemovalReport(ArrowReport):
    """Reasons for which a vacuum would remove each object below a table, or keep it.

    `to_arrow` has a row for each object: path, size, modified, removed_version, `goes`, `kept_by`,
    `reason`, `can_go`.
    """

    uri: str
    version: int
    """The newest version."""
    oldest: int
    """The earliest version that a vacuum would keep now."""
    retention_seconds: float
    listed: int
    """Number of objects that a vacuum examines."""
    removed: int
    """Number of them that it would remove now."""
    objects: pa.Table = field(repr=False)

    def to_arrow(self) -> pa.Table:
        """Return a row for each object, in the order of the listing."""
        return self.objects

    @property
    def kept(self) -> dict[str, int]:
        """Number of objects that stay, by what keeps them."""
        stay = self.objects.filter(pc.invert(self.objects["goes"]))
        counts = pc.value_counts(stay["kept_by"]).to_pylist()
        return {each["values"]: each["counts"] for each in counts}

    def summary(self) -> list[str]:
        """Return the lines that sum up all objects."""
        lines = [
            f"{self.uri}: a vacuum now would remove {self.removed} of "
            f"{number_of(self.listed, 'object')}, and keep versions {self.oldest} to "
            f"{self.version} (retention {duration_text(self.retention_seconds)})"
        ]
        if self.objects.num_rows == 1:
            return lines
        return [*lines, *(f"  kept by {by}: {each}" for by, each in self.kept.items())]

    def notable(self) -> pa.Table:
        """Return the rows about objects that are not live; all rows if there is only one."""
        if self.objects.num_rows == 1:
            return self.objects
        return self.objects.filter(pc.fill_null(pc.not_equal(self.objects["kept_by"], LIVE), True))

    def __str__(self) -> str:
        lines, rows = self.summary(), self.notable()
        for row in rows.slice(0, SHOWN).to_pylist():
            verb = "goes" if row["goes"] else f"kept by {row['kept_by']}"
            verb = "not in the store" if row["kept_by"] == MISSING else verb
            when = "" if row["can_go"] is None else f"; it can go at {row['can_go'].isoformat()}"
            lines.append(f"  {row['path']}: {verb}: {row['reason']}{when}")
        if rows.num_rows > SHOWN:
            lines.append(f"  and {rows.num_rows - SHOWN} more")
        return printable_lines(lines)


def removal_report(context: TableContext, file: int | str | None = None) -> RemovalReport:
    """Return the reasons for all objects that a vacuum examines, or for one. Nothing is removed.

    Args:
        context: the table.
        file: id of a file, or key of an object below the table; None: all.

    Raises:
        InvalidArgumentError: neither the store nor an entry has this file.
        UnsupportedFeatureError, StoreError, CorruptTableError: as `vacuum`.
    """
    plan = plan_vacuum(context)
    objects = explained(plan)
    if file is not None:
        path = _path_of(plan, file) if isinstance(file, int) else file
        objects = objects.filter(pc.equal(objects["path"], path))
        if not objects.num_rows:
            objects = _missing(plan, path)
    return RemovalReport(
        uri=context.store.uri,
        version=plan.view.head.version,
        oldest=plan.kept.oldest,
        retention_seconds=plan.seconds,
        listed=plan.listing.num_rows,
        removed=plan.files.num_rows,
        objects=objects,
    )


def explained(plan: VacuumPlan) -> pa.Table:
    """Return OBJECTS for the listing of a plan. Pure."""
    listing, keys = plan.listing, plan.listing["key"]
    facts = classified(listing, plan.view.snapshot().history, plan.named.sides, plan.limits)
    at = pc.index_in(keys, value_set=plan.files["path"].combine_chunks())
    goes = np.asarray(at.is_valid(), np.bool_)
    modified: NDArray[np.int64] = listing["modified_us"].to_numpy()
    kinds, kept_by, reasons = _kept(plan, facts)
    young = kinds == YOUNG
    can_go = np.where(young, modified + round(plan.limits.unnamed_seconds * _MICROS), 0)
    by_version = _by_version(plan, np.unique(facts.removed[kinds == "version"]))
    versions, places = np.unique(
        np.where(kinds == "version", facts.removed, -1), return_inverse=True
    )
    known = [by_version.get(int(version), ("", "", 0)) for version in versions]
    is_version = pa.array(kinds == "version")
    texts = [pa.array([each[n] for each in known], pa.string()) for n in (0, 1)]
    kept_by, reasons = (
        pc.if_else(is_version, text.take(pa.array(places.reshape(-1))), other)
        for text, other in zip(texts, (kept_by, reasons), strict=True)
    )
    can_go += np.array([each[2] for each in known], np.int64)[places.reshape(-1)]
    removal = plan.files["reason"].take(at)
    columns = [
        keys,
        listing["size"],
        pa.array(modified, mask=modified <= 0).cast(_TIME),
        pa.array(facts.removed, mask=(facts.removed < 0) | (facts.removed == NEVER)),
        pa.array(goes),
        pc.if_else(pa.array(goes), pa.scalar(None, pa.string()), kept_by),
        pc.if_else(pa.array(goes), removal, reasons),
        pa.array(can_go, mask=goes | (can_go <= 0) | (modified <= 0)).cast(_TIME),
    ]
    return pa.table(columns, schema=OBJECTS)


def _kept(
    plan: VacuumPlan, facts: ClassifiedObjects
) -> tuple[NDArray[np.str_], pa.Array, pa.Array]:
    """Return what keeps each object, were it kept, as an array of numpy and as columns."""
    keys = plan.listing["key"]
    derived = np.zeros(len(keys), np.bool_)
    for prefix in DERIVED_FOLDERS:
        derived |= np.asarray(pc.starts_with(keys, prefix), np.bool_)
    kinds = np.select(
        [
            derived,
            facts.removed == NEVER,
            facts.removed > facts.oldest,
            facts.is_side,
            facts.is_foreign,
            facts.is_own & (facts.removed < 0),
        ],
        [CHECKPOINT, LIVE, "version", LOG, IMPORT, YOUNG],
        OTHER,
    )
    names, places = np.unique(kinds, return_inverse=True)
    taken = pa.array(places.reshape(-1))
    kept_by = pa.array(names.tolist(), pa.string()).take(taken)
    texts = pa.array([_TEXTS.get(str(name), "") for name in names], pa.string())
    return kinds, kept_by, texts.take(taken)


def _by_version(plan: VacuumPlan, removed: NDArray[np.int64]) -> Mapping[int, tuple[str, str, int]]:
    """Return what keeps the files that each version removed: names, reasons, and when they go.

    The time is in µs since 1970 UTC; 0 if it does not depend on time alone.
    """
    kept, head = plan.kept, plan.view.head
    tags = {
        name: tag
        for name, tag in tags_of(head.metadata).items()
        if tag.keeps(plan.limits.now_us) and tag.version >= kept.readable
    }
    found = {}
    for version in removed.tolist():
        by, why, times = [], [f"versions before {version} need it"], []
        if kept.retention < version:
            by.append("retention")
            times.append(plan.view.timestamp_at(version) + round(plan.seconds * _MICROS))
            late = times[-1] <= plan.limits.now_us
            why.append(
                "by the store's times they are younger than the retention"
                if late
                else "they are younger than the retention"
            )
            times[-1] = 0 if late else times[-1]
        if kept.exports is not None and kept.exports < version:
            by.append("export")
            why.append(f"a copy in another format shows version {kept.exports}")
            times.append(0)
        mine = {name: tag for name, tag in tags.items() if tag.version < version}
        if mine:
            by.append("tag")
            why += [_tag_text(name, tag) for name, tag in mine.items()]
            times += [0 if tag.until is None else tag.until for tag in mine.values()]
        can_go = max(times) if times and all(times) else 0
        found[version] = (", ".join(by), "; ".join(why), min(can_go, MICROS_MAX))
    return found


def _tag_text(name: str, tag: Tag) -> str:
    what = "the tag of a clone" if name.startswith(HOLD) else "the tag"
    until = "until it is dropped" if tag.until is None else f"until {show_time(tag.until)}"
    return f"{what} {name!r} keeps version {tag.version} and later ones {until}"


def _path_of(plan: VacuumPlan, file: int) -> str:
    """Return the path of the file with this id. Raises InvalidArgumentError."""
    history = plan.view.snapshot().history
    for segment, places, _ in find_files(history.segments, np.array([file], np.int64)):
        return str(history.segments[segment].files.take(places, ["path"])["path"][0].as_py())
    raise _unknown(file)


def _missing(plan: VacuumPlan, path: str) -> pa.Table:
    """Return the row about a file that the store does not have. Raises InvalidArgumentError."""
    keys = pa.chunked_array([[path]])
    listing = pa.table([keys, [0], [0]], names=["key", "size", "modified_us"])
    facts = classified(listing, plan.view.snapshot().history, plan.named.sides, plan.limits)
    removed = int(facts.removed[0])
    if removed < 0:
        raise _unknown(path)
    if removed == NEVER:
        reason = (
            f"version {plan.view.head.version} needs it, but the store does not have it. Run "
            "`tablefmt verify`, and restore the object from a copy"
        )
    elif removed <= plan.view.head.totals.oldest:
        by = next(
            version
            for version in range(removed, plan.view.head.version + 1)
            if plan.view.totals_at(version).oldest >= removed
        )
        reason = (
            f"version {removed} removed it from the table, version {by} gave up the versions that "
            "need it, and a vacuum removed it from the store"
        )
    else:
        reason = f"versions before {removed} need it, but the store does not have it"
    row = {"path": path, "removed_version": None if removed == NEVER else removed}
    row |= {"goes": False, "kept_by": MISSING, "reason": reason}
    return pa.Table.from_pylist([row], OBJECTS)


def _unknown(file: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"neither the store nor an entry of the log has file {file!r:.200}. Choose a path or an id "
        "of Table.scan().files(), or a path of Table.vacuum()."
    )
