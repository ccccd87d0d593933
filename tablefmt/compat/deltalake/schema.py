"""The schema classes of delta-rs, over Spark's JSON form of a schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.name_matching import did_you_mean


class DataType:
    """Base of the types. `json_type` is the type in Spark's JSON form."""

    def __init__(self, json_type: Any) -> None:
        self.json_type = json_type

    @property
    def type(self) -> str:
        """Return the name of the type: a primitive one, or struct, array or map."""
        return self.json_type if isinstance(self.json_type, str) else self.json_type["type"]

    def to_json(self) -> str:
        """Return the type as JSON text."""
        return json.dumps(self.json_type)

    def to_arrow(self) -> pa.DataType:
        """Return the Arrow type."""
        return Field("column", self).to_arrow().type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and self.json_type == other.json_type

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.json_type!r})"


class PrimitiveType(DataType):
    """A type without parts, such as PrimitiveType("long")."""


class ArrayType(DataType):
    """An array of elements of one type."""

    def __init__(self, element_type: Any, *, contains_null: bool = True) -> None:
        element = _json_of(element_type)
        super().__init__({"type": "array", "elementType": element, "containsNull": contains_null})


class MapType(DataType):
    """A map from keys to values."""

    def __init__(self, key_type: Any, value_type: Any, *, value_contains_null: bool = True) -> None:
        super().__init__(
            {
                "type": "map",
                "keyType": _json_of(key_type),
                "valueType": _json_of(value_type),
                "valueContainsNull": value_contains_null,
            }
        )


class StructType(DataType):
    """A struct of fields."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = list(fields)
        super().__init__({"type": "struct", "fields": [each.json_field for each in self.fields]})


class Field:
    """A column, or a field of a struct."""

    def __init__(
        self,
        name: str,
        type: DataType | str,
        *,
        nullable: bool = True,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.nullable, self.metadata = name, nullable, dict(metadata or {})
        self.type = type if isinstance(type, DataType) else _type_of(type)

    @property
    def json_field(self) -> dict[str, Any]:
        """Return the field in Spark's JSON form."""
        return {
            "name": self.name,
            "type": self.type.json_type,
            "nullable": self.nullable,
            "metadata": self.metadata,
        }

    def to_json(self) -> str:
        """Return the field as JSON text."""
        return json.dumps(self.json_field)

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field."""
        return Schema([self]).to_arrow().field(0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and self.json_field == other.json_field

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"Field({self.name}, {self.type!r}, nullable={self.nullable})"


class Schema(StructType):
    """The columns of a table."""

    def __getattr__(self, name: str) -> Any:
        # Copies and pickles ask for private names of an object without attributes.
        known = [] if name.startswith("_") else [each for each in dir(Schema) if each[0] != "_"]
        raise AttributeError(
            f"deltalake: there is no Schema.{name} here{did_you_mean(name, known)}", name=name
        )

    @classmethod
    def from_arrow(cls, data_type: Any) -> Schema:
        """Return the schema of an Arrow schema."""
        return cls.from_json(json.dumps(to_spark_json(schema_from(data_type))))

    @classmethod
    def from_json(cls, schema_json: str) -> Schema:
        """Return the schema in JSON text."""
        return cls(list(map(_field_of, json.loads(schema_json)["fields"])))

    def to_arrow(self, as_large_types: bool = False) -> pa.Schema:
        """Return the Arrow schema; with `as_large_types`, with large strings and binaries."""
        schema = to_arrow(schema_from(self.json_type))
        if not as_large_types:
            return schema
        large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
        return pa.schema([each.with_type(large.get(each.type, each.type)) for each in schema])

    def json(self) -> dict[str, Any]:
        """Return the schema in Spark's JSON form."""
        return dict(self.json_type)

    def __repr__(self) -> str:
        return f"Schema([{', '.join(map(repr, self.fields))}])"


def _json_of(kind: DataType | str) -> Any:
    return kind.json_type if isinstance(kind, DataType) else kind


def _type_of(kind: Any) -> DataType:
    if isinstance(kind, str):
        return PrimitiveType(kind)
    if kind["type"] == "struct":
        return StructType(list(map(_field_of, kind["fields"])))
    if kind["type"] == "array":
        return ArrayType(_type_of(kind["elementType"]), contains_null=kind["containsNull"])
    value = _type_of(kind["valueType"])
    nullable = kind["valueContainsNull"]
    return MapType(_type_of(kind["keyType"]), value, value_contains_null=nullable)


def _field_of(given: dict[str, Any]) -> Field:
    kind, nullable = _type_of(given["type"]), given["nullable"]
    return Field(given["name"], kind, nullable=nullable, metadata=given["metadata"])
