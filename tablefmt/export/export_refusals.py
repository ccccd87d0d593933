"""Refusals: changes of the metadata that a target of the property `export` cannot show.

The table of rules is a literal. It is asked when a change is staged, so the copy does not hold
unnoticed. The caller may pass `force=True` to let the copy hold. Spec: XPT-12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.export.delta_schema import partitioning_problem
from tablefmt.export.iceberg_schema import ambiguous_names, refused_promotions, variant_columns
from tablefmt.export.table_export import target_of
from tablefmt.model.log_entry import Metadata
from tablefmt.model.properties import export_targets, get_property
from tablefmt.model.schema import id_types
from tablefmt.snapshot.log_view import LogView

_Columns = Callable[[Metadata, Metadata], list[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of change that a target cannot show."""

    target: str
    columns: _Columns
    """Gives the columns at fault: metadata before, metadata after."""
    why: str
    way_out: str


def _with_initial(before: Metadata, after: Metadata) -> list[str]:
    known = {column.id for column in before.schema.fields}
    return [f.name for f in after.schema.fields if f.id not in known and f.initial is not None]


def _widened(before: Metadata, after: Metadata) -> list[str]:
    known = [id_types(before.schema)]
    return [name for name, _, _ in refused_promotions(after.schema, known)]


def _ambiguous(before: Metadata, after: Metadata) -> list[str]:
    known = ambiguous_names(before.schema)
    return [name for name in ambiguous_names(after.schema) if name not in known]


def _of_format_two(columns: _Columns) -> _Columns:
    def checked(before: Metadata, after: Metadata) -> list[str]:
        wanted = get_property(after.properties, "export.iceberg.format")
        return columns(before, after) if wanted == "2" else []

    return checked


def _variants(before: Metadata, after: Metadata) -> list[str]:
    known = variant_columns(before.schema)
    return [name for name in variant_columns(after.schema) if name not in known]


def _partitionings(before: Metadata, after: Metadata) -> list[str]:
    added = after.partitionings.keys() - before.numbered.keys()
    if not added or not partitioning_problem(after):
        return []
    return after.partition_names or ["no partitioning"]


RULES = (
    Rule(
        "delta",
        _partitionings,
        "a Delta table has one partitioning, and older files have another one",
        "Overwrite the whole table with overwrite_schema=True and partition_by, or change the "
        "partitioning with force=True and rewrite the older files with Table.repartition()",
    ),
    Rule(
        "delta",
        _with_initial,
        "Delta reads NULL, and not the default, in the files that exist",
        "Add the column without a default, and fill it with an UPDATE",
    ),
    Rule(
        "iceberg",
        _widened,
        "Iceberg's readers cannot widen the values in the files that exist to this type",
        "Add a column of the wider type, and fill it with an UPDATE",
    ),
    Rule(
        "iceberg",
        _ambiguous,
        "Iceberg joins the names of nested fields with dots, and then two columns have one name",
        "Choose another name",
    ),
    Rule(
        "iceberg",
        _of_format_two(_with_initial),
        "Iceberg 2 reads NULL, and not the default, in the files that exist",
        "Set export.iceberg.format to auto",
    ),
    Rule(
        "iceberg",
        _of_format_two(_variants),
        "Iceberg 2 has no variant",
        "Set export.iceberg.format to auto",
    ),
)
"""All rules. A rule is broken if it gives columns."""


def check_exports(view: LogView, version: int, before: Metadata, after: Metadata) -> None:
    """Refuse a change that a target of the property cannot show, and a target for such a table.

    Args:
        view: the log.
        version: the version that the change was made from.
        before, after: the metadata.

    Raises:
        UnsupportedFeatureError: with the target, the columns, the reason and a way out.
    """
    known = export_targets(before.properties)
    for name in export_targets(after.properties):
        if name not in known and (reason := target_of(name).cannot_show(view, version)):
            raise _refused(name, f"cannot export the table to {name}: {reason}")
    if not view.totals_at(version).files:
        return
    for rule in RULES:
        if rule.target in known and rule.target in export_targets(after.properties):
            columns = rule.columns(before, after)
            if columns:
                shown = ", ".join(map(repr, columns))
                text = f"the table is exported to {rule.target}, which cannot show {shown}: "
                raise _refused(rule.target, f"{text}{rule.why}. {rule.way_out}")


def _refused(target: str, text: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{text}. Or pass force=True: the copy then stays at the version before, until the files "
        "are rewritten.",
        [f"export:{target}"],
    )
