"""PyIceberg's partition specs, and the object that changes the partitioning of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.pyiceberg.pyiceberg_updates import DefinitionUpdate
from tablefmt.compat.translation import translated
from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.partition_transforms import with_name
from tablefmt.operations import alterations

if TYPE_CHECKING:
    from typing_extensions import Self

_TRANSFORMS = frozenset({"identity", "year", "month", "day", "hour", "bucket", "truncate"})


def declared(column: str, transform: Any, name: str | None = None) -> str:
    """Return how `partition_by` declares a field of PyIceberg.

    Args:
        column: name of the column.
        transform: of PyIceberg, or its text: `bucket[16]`.
        name: of the field.

    Raises:
        UnsupportedFeatureError: a transform that tables do not have.
    """
    kind, _, number = str(transform).rstrip("]").partition("[")
    if kind not in _TRANSFORMS:
        raise UnsupportedFeatureError(
            f"pyiceberg: the partition transform {transform} is not supported; store its value in "
            "a column and partition by that",
            [f"compat:transform:{transform}"],
        )
    if kind == "identity":
        return with_name(column, name)
    return with_name(f"{kind}({f'{number}, ' if number else ''}{quote_name(column)})", name)


def partitioning_of(spec: Any, schema: Any) -> list[str]:
    """Return the partitioning that a spec of PyIceberg says, or a list of names as it is.

    Raises:
        UnsupportedFeatureError: a transform that tables do not have.
        InvalidArgumentError: a spec without a schema of PyIceberg.
    """
    if spec is None or isinstance(spec, list | tuple):
        return list(spec or ())
    if spec.fields and not hasattr(schema, "find_column_name"):
        raise InvalidArgumentError(
            "pyiceberg: a PartitionSpec needs a schema of PyIceberg; with an Arrow schema, "
            "give a list of column names"
        )
    return [
        declared(schema.find_column_name(each.source_id), each.transform, each.name)
        for each in spec.fields
    ]


class UpdateSpec(DefinitionUpdate):
    """Changes of the partitioning. Files keep the one that they have."""

    _called = "UpdateSpec"

    @translated(NAMES, "UpdateSpec.add_field")
    def add_field(
        self, source_column_name: str, transform: Any, partition_field_name: str | None = None
    ) -> Self:
        """Partition by a transform of a column, too."""
        text = declared(source_column_name, transform, partition_field_name)
        return self._with(alterations.add_partition_field(text))

    @translated(NAMES, "UpdateSpec.add_identity")
    def add_identity(self, source_column_name: str) -> Self:
        """Partition by a column, too."""
        return self._with(alterations.add_partition_field(source_column_name))

    def identity(self, source_column_name: str) -> Self:
        """Do the same as `add_identity`, under the name that PyIceberg's page has."""
        return self.add_identity(source_column_name)

    @translated(NAMES, "UpdateSpec.remove_field")
    def remove_field(self, name: str) -> Self:
        """Do not partition by a field any more."""
        return self._with(alterations.drop_partition_field(name))

    @translated(NAMES, "UpdateSpec.rename_field")
    def rename_field(self, name: str, new_name: str) -> Self:
        """Give another name to the field of a transform."""
        return self._with(alterations.rename_partition_field(name, new_name))
