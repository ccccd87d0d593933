"""Schema conversion for Spark users: StructType, its JSON form, DDL text, defaults as SQL. Pure.

Spec: SCH-5 (spec/entry.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import sqlglot.errors
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Token, TokenType

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.constant_values import cast_target
from tablefmt.expressions.literals import literal_sql
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.sql_parser import ddl_problem, misplaced_comma, tokens_of
from tablefmt.expressions.sql_vocabulary import as_quoted, is_typed_name, is_word
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.identity_columns import read_identity, shown_identity
from tablefmt.model.name_matching import folded
from tablefmt.model.scalar_values import decode_value
from tablefmt.model.schema import (
    DEPTH_MAX,
    Array,
    Field,
    Identity,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    is_length,
    kind_name,
    primitive,
)
from tablefmt.model.schema_rules import number_fields

DDL_MAX = 1_000_000
"""Maximum characters of DDL text."""

_SPARK = Dialect.get_or_raise("spark")
_CHARACTERS = re.compile(r"(?:var)?char\(\d+\)")
_BY_BYTES = "spark.UTF8_BINARY"
"""The collation that all text of a table has. SHOW CREATE TABLE writes it out."""
_BY_BYTES_TYPE = re.compile(" collate UTF8_BINARY$", re.IGNORECASE)
_RAW_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Key in Spark's column metadata for the declared type of a STRING."""
EXPRESSION = "delta.generationExpression"
"""Key in Delta's column metadata for the expression of a generated column."""
_EXPRESSIONS = (EXPRESSION, "GENERATION_EXPRESSION")
"""Keys in Delta's and in Spark's column metadata for such an expression."""
IDENTITY_KEYS = ("identity.start", "identity.step", "identity.allowExplicitInsert")
"""Keys in Spark's column metadata for an identity column. Delta's begin with `delta.`."""
COMMENT = "comment"
"""Key in Spark's column metadata for the comment."""
_SQL_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def is_schema(value: Any) -> bool:
    """Return True for a value that `schema_from` reads, valid or not, and False for rows."""
    if isinstance(value, Mapping):
        # In a dict of columns, "type" would hold a list.
        return isinstance(value.get("type"), str)
    rows = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    known = isinstance(value, Schema | str) or hasattr(value, "__arrow_c_schema__")
    return (known and not rows) or callable(getattr(value, "jsonValue", None))


def schema_from(value: Any) -> Schema:
    """Return a schema from a user's value.

    Args:
        value: A `Schema` (returned as it is), pyarrow.Schema (anything with `__arrow_c_schema__`),
            Spark StructType (anything with `jsonValue()`), its JSON form, or DDL text such as
            `id BIGINT NOT NULL, s STRING`.

    Raises:
        SchemaMismatchError: SCH-2 .. SCH-5: names, or types that a table cannot have; `columns`
            names them.
    """
    if isinstance(value, Schema):
        return value
    if isinstance(value, pa.Schema):
        return from_arrow(value)
    if isinstance(value, str):
        return _from_ddl(value)
    if isinstance(value, Mapping):
        return from_spark_json(value)
    if callable(getattr(value, "jsonValue", None)):
        return from_spark_json(value.jsonValue())
    if hasattr(value, "__arrow_c_schema__"):
        try:
            return from_arrow(pa.schema(value))
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise SchemaMismatchError(
                f"the {type(value).__name__} is not a schema of columns: {error}"
            ) from None
    raise SchemaMismatchError(
        f"expected a pyarrow.Schema, a StructType or DDL text, got {type(value).__name__}"
    )


def to_spark_json(schema: Schema, *, field_ids: bool = False) -> dict[str, Any]:
    """Return Spark's JSON form of a StructType, with logical names.

    With `field_ids`, every field's metadata has `parquet.field.id`, which Spark's Parquet reader
    and writer use. Otherwise it has the field's comment, if any.
    """
    return _struct_to_json(schema.fields, field_ids)


def _struct_to_json(fields: tuple[Field, ...], field_ids: bool) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {
                "name": f.name,
                "type": _type_to_json(f.type, field_ids),
                "nullable": f.nullable,
                "metadata": {"parquet.field.id": f.id} if field_ids else _said(f),
            }
            for f in fields
        ],
    }


def _said(field: Field) -> dict[str, Any]:
    said: dict[str, Any] = {COMMENT: field.comment, EXPRESSION: field.generated}
    if field.identity is not None:
        values = (field.identity.start, field.identity.step, not field.identity.always)
        said |= {f"delta.{key}": each for key, each in zip(IDENTITY_KEYS, values, strict=True)}
    return {key: text for key, text in said.items() if text is not None}


def identity_of(metadata: Mapping[str, Any]) -> Identity | None:
    """Return the identity that Spark's or Delta's column metadata says; None if there is none."""
    for prefix in ("delta.", ""):
        start, step, explicit = (metadata.get(prefix + key) for key in IDENTITY_KEYS)
        if start is not None or step is not None:
            first, by = (1 if each is None else int(each) for each in (start, step))
            return Identity(explicit is not True, first, by)
    return None


def _type_to_json(kind: Type, field_ids: bool) -> Any:
    if isinstance(kind, Struct):
        return _struct_to_json(kind.fields, field_ids)
    if isinstance(kind, Array):
        return {
            "type": "array",
            "elementType": _type_to_json(kind.element, field_ids),
            "containsNull": kind.nullable,
        }
    if isinstance(kind, Map):
        return {
            "type": "map",
            "keyType": _type_to_json(kind.key, field_ids),
            "valueType": _type_to_json(kind.value, field_ids),
            "valueContainsNull": kind.nullable,
        }
    return str(kind)


def from_spark_json(value: Mapping[str, Any]) -> Schema:
    """Return a new schema from Spark's JSON form, with new field ids.

    Of the metadata, only lengths, collations, comments and expressions are read.

    Raises:
        SchemaMismatchError: SCH-2 .. SCH-5, or not the JSON form of a StructType.
    """
    try:
        kind = _type_from_json(value, "", 0)
    except (KeyError, TypeError, AttributeError) as error:
        raise SchemaMismatchError(f"not the JSON form of a StructType: {error!r}") from None
    if not isinstance(kind, Struct):
        raise SchemaMismatchError(f"expected a StructType as the table's schema, got {kind}")
    return number_fields(kind.fields)


def _type_from_json(value: Any, path: str, depth: int) -> Type:
    if depth > DEPTH_MAX:
        raise SchemaMismatchError(f"the schema nests deeper than {DEPTH_MAX} levels", [path])
    if isinstance(value, str):
        value = _BY_BYTES_TYPE.sub("", value)
        if _CHARACTERS.fullmatch(value):
            raise _no_length(path, value)
        try:
            return primitive(value.replace(" ", ""))
        except KeyError:
            raise _refused(path, value) from None
    kind = value["type"]
    if kind == "struct":
        return Struct(tuple(_field_from_json(f, path, depth) for f in value["fields"]))
    if kind == "array":
        element = _type_from_json(value["elementType"], f"{path}.element", depth + 1)
        return Array(element, bool(value["containsNull"]))
    if kind == "map":
        return Map(
            _type_from_json(value["keyType"], f"{path}.key", depth + 1),
            _type_from_json(value["valueType"], f"{path}.value", depth + 1),
            bool(value["valueContainsNull"]),
        )
    raise _refused(path, "a user-defined type" if kind == "udt" else str(kind))


def _field_from_json(value: Mapping[str, Any], path: str, depth: int) -> Field:
    name = value["name"]
    where = f"{path}.{name}" if path else name
    metadata = value.get("metadata") or {}
    if set((metadata.get("__COLLATIONS") or {}).values()) - {_BY_BYTES}:
        # Text would silently compare differently from the declared collation.
        raise _refused(where, "STRING with a collation")
    kind, text = value["type"], None
    if isinstance(kind, str):
        kind = _BY_BYTES_TYPE.sub("", kind)
    if not path and is_length(kind):
        kind, text = "string", kind
    elif not path and kind == "string" and is_length(metadata.get(_RAW_TYPE)):
        text = metadata[_RAW_TYPE]
    kind_read = _type_from_json(kind, where, depth + 1)
    comment = metadata.get(COMMENT)
    comment = comment if isinstance(comment, str) and comment else None
    generated = next((metadata[key] for key in _EXPRESSIONS if key in metadata), None)
    identity = identity_of(metadata)
    if (generated is not None or identity is not None) and path:
        raise SchemaMismatchError(
            f"field {where!r} cannot be generated; only top-level columns can", [where]
        )
    field = Field(0, name, name, kind_read, value["nullable"], text=text, comment=comment)
    return replace(field, generated=generated, identity=identity)


def _refused(path: str, kind: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {path!r} has type {kind}, which a table cannot hold; cast it to another", [path]
    )


def _no_length(path: str, kind: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {path!r} has type {kind.upper()}; a table supports lengths from 1 on, and only "
        "for top-level columns; use STRING",
        [path],
    )


def _from_ddl(text: str) -> Schema:
    """Return the schema of DDL text. Raises SchemaMismatchError."""
    if len(text) > DDL_MAX:
        raise SchemaMismatchError(f"the DDL text has more than {DDL_MAX} characters")
    statement = f"{_BEFORE}{text}\n)"
    tokens: list[Token] = []
    try:
        tokens = _named(tokens_of(statement))
        comma = misplaced_comma(tokens[4:-1], len(_BEFORE))
        if comma is not None:
            raise SchemaMismatchError(f"cannot read the columns {text[:200]!r}: {comma}")
        tokens, identities = _without_identities(tokens, statement)
        tokens, generated = _without_expressions(tokens, statement)
        trees = _SPARK.parser().parse(tokens, statement)
    except sqlglot.errors.SqlglotError as error:
        problem = ddl_problem(error, text, tokens, len(_BEFORE))
        raise SchemaMismatchError(f"cannot read the columns {text[:200]!r}: {problem}") from None
    except RecursionError:
        raise SchemaMismatchError(f"the schema nests deeper than {DEPTH_MAX} levels") from None
    create = trees[0] if len(trees) == 1 else None
    columns = create.this if isinstance(create, exp.Create) else None
    extra = create is not None and (create.args.get("properties") or create.args.get("expression"))
    if not isinstance(columns, exp.Schema) or extra:
        raise SchemaMismatchError(
            f"cannot read the columns {text[:200]!r}: expected a list of names and types, such "
            "as 'id BIGINT NOT NULL, name STRING'"
        )
    fields = [_ddl_field(c, "") for c in columns.expressions]
    return number_fields(
        [
            replace(
                f,
                generated=generated.get(at),
                identity=read_identity(f.name, identities[at]) if at in identities else None,
            )
            for at, f in enumerate(fields)
        ]
    )


_IDENTITIES = (
    ("GENERATED", "ALWAYS", "AS", "IDENTITY"),
    ("GENERATED", "BY", "DEFAULT", "AS", "IDENTITY"),
)


_Clause = tuple[int, str]
"""Position of a clause's last token, and its text."""


def _without_clauses(
    tokens: list[Token], clause_at: Callable[[int], _Clause | None]
) -> tuple[list[Token], dict[int, str]]:
    """Return the tokens without the clause of each column, and the clauses.

    The clauses are by the position of their column. `clause_at` finds one that begins at a token.
    """
    left: list[Token] = []
    found: dict[int, str] = {}
    at, depth, column = 0, 0, 0
    while at < len(tokens):
        clause = clause_at(at) if depth == 1 and column not in found else None
        if clause is not None:
            end, found[column] = clause
            at = end + 1
            continue
        text = tokens[at].text
        depth += _DEPTHS.get(text, 0)
        column += text == "," and depth == 1
        left.append(tokens[at])
        at += 1
    return left, found


def _without_identities(tokens: list[Token], statement: str) -> tuple[list[Token], dict[int, str]]:
    """Return the tokens without the clauses of identity columns, and the clauses."""

    def clause_at(at: int) -> _Clause | None:
        words = tuple(token.text.upper() for token in tokens[at : at + 5])
        clause = next((each for each in _IDENTITIES if words[: len(each)] == each), None)
        if clause is None:
            return None
        end = at + len(clause) - 1
        if tokens[end + 1 : end + 2] and tokens[end + 1].token_type == TokenType.L_PAREN:
            end = _closing(tokens, end + 1) or end
        return end, statement[tokens[at].start : tokens[end].end + 1]

    return _without_clauses(tokens, clause_at)


_GENERATED = ("GENERATED", "ALWAYS", "AS")


def _without_expressions(tokens: list[Token], statement: str) -> tuple[list[Token], dict[int, str]]:
    """Return the tokens without the expressions of generated columns, and the expressions.

    The parser would rewrite an expression.
    """

    def clause_at(at: int) -> _Clause | None:
        words = tuple(token.text.upper() for token in tokens[at : at + 3])
        opens = at + 3 < len(tokens) and tokens[at + 3].token_type == TokenType.L_PAREN
        end = _closing(tokens, at + 3) if words == _GENERATED and opens else None
        if end is None:
            return None
        return end, statement[tokens[at + 3].end + 1 : tokens[end].start].strip()

    return _without_clauses(tokens, clause_at)


_DEPTHS = {"(": 1, ")": -1, "<": 1, ">": -1, ">>": -2}


def _closing(tokens: list[Token], opening: int) -> int | None:
    depth = 0
    for at in range(opening, len(tokens)):
        kind = tokens[at].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            return at
    return None


_BEFORE = "CREATE TABLE t ("


def _named(tokens: list[Token]) -> list[Token]:
    """Return the tokens, with words at the place of a column name as names (SQL-8).

    VOID becomes a type that the parser knows, so that the error can name its column.
    """
    for i, token in enumerate(tokens):
        before, after = tokens[i - 1].text, tokens[i + 1 : i + 2]
        begins = before in ("(", ",") and after and is_typed_name(token, after[0])
        if begins or (before in ("<", ",") and after and after[0].text == ":" and is_word(token)):
            tokens[i] = as_quoted(token)
        elif token.text.upper() == "VOID" and before != ",":
            kind = TokenType.UNKNOWN
            tokens[i] = Token(kind, "VOID", token.line, token.col, token.start, token.end)
    return tokens


def _ddl_field(node: exp.Expression, path: str) -> Field:
    if not isinstance(node, exp.ColumnDef) or not isinstance(node.args.get("kind"), exp.DataType):
        shown = node.sql("spark")[:200]
        plain = isinstance(node, exp.Identifier | exp.Column)
        why = "has no type" if plain else "is not a column and its type"
        raise SchemaMismatchError(
            f"{shown} {why}; write a name and a type, such as 'id BIGINT'", [path]
        )
    name = node.name
    where = f"{path}.{name}" if path else name
    nullable, comment = True, None
    for constraint in node.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"):
            nullable = False
        elif isinstance(kind, exp.CommentColumnConstraint):
            comment = kind.this.name or None
        elif isinstance(kind, exp.CollateColumnConstraint) and _is_by_bytes(kind):
            continue
        else:
            raise SchemaMismatchError(
                f"column {where!r}: {constraint.sql('spark')} is not supported in a schema; leave "
                "it out, and use alter.set_default() or alter.add_constraint() on the table",
                [where],
            )
    given: exp.DataType = node.args["kind"]
    text = given.sql("spark").lower()
    if not path and is_length(text):
        return Field(0, name, name, Primitive("string"), nullable, text=text, comment=comment)
    return Field(0, name, name, _ddl_type(given, where), nullable, comment=comment)


def _is_by_bytes(kind: exp.CollateColumnConstraint) -> bool:
    """Return whether the collation is the order that all text has."""
    return folded(str(kind.this.name)) == "utf8_binary"


def _ddl_type(node: exp.DataType, path: str) -> Type:
    kinds = exp.DataType.Type
    if node.this in (kinds.VARCHAR, kinds.CHAR):
        raise _no_length(path, node.sql("spark") if node.expressions else node.this.value)
    if node.this == kinds.STRUCT:
        return Struct(tuple(_ddl_field(f, path) for f in node.expressions))
    if node.this in (kinds.LIST, kinds.ARRAY) and len(node.expressions) == 1:
        return Array(_ddl_type(node.expressions[0], f"{path}.element"))
    if node.this == kinds.MAP and len(node.expressions) == 2:
        key, value = node.expressions
        return Map(_ddl_type(key, f"{path}.key"), _ddl_type(value, f"{path}.value"))
    if node.this == kinds.VARIANT and not node.expressions:
        return Primitive("variant")
    target = cast_target(node)
    if target is None:
        # The dialect renames some types, so use the name that was read.
        type_name = str(node.this.value if isinstance(node.this, kinds) else node.this)
        raise _refused(path, node.sql("spark") if node.expressions else type_name)
    return target


def to_ddl(schema: Schema) -> str:
    """Return DDL text that `schema_from` and Spark read back. It keeps nested nullability for
    structs.
    """
    return ", ".join(_ddl_column(f, " ") for f in schema.fields)


def _ddl_column(field: Field, between: str) -> str:
    required = "" if field.nullable else " NOT NULL"
    kind = field.text.upper() if field.text is not None else _ddl_name(field.type)
    comment = "" if field.comment is None else f" COMMENT {_text_sql(field.comment)}"
    text = field.generated
    generated = "" if text is None else f" GENERATED ALWAYS AS ({text})"
    if field.identity is not None:
        generated = f" {shown_identity(field.identity)}"
    return f"{quote_name(field.name)}{between}{kind}{required}{generated}{comment}"


def _text_sql(text: str) -> str:
    literal: str = exp.Literal.string(text).sql("spark")
    return literal


def _ddl_name(kind: Type) -> str:
    if isinstance(kind, Struct):
        return f"STRUCT<{', '.join(_ddl_column(f, ': ') for f in kind.fields)}>"
    if isinstance(kind, Array):
        return f"ARRAY<{_ddl_name(kind.element)}>"
    if isinstance(kind, Map):
        return f"MAP<{_ddl_name(kind.key)}, {_ddl_name(kind.value)}>"
    return _SQL_NAMES.get(str(kind), str(kind).upper())


CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""Key in Spark's column metadata for the SQL text of its default."""

EXISTS_DEFAULT = "EXISTS_DEFAULT"
"""Key in Spark's column metadata for the value that its reader uses if a file lacks the column."""


def default_sql(value: Any, kind: Type) -> str:
    """Return a value of VAL-1 as a Spark literal of exactly that type and value."""
    name = kind_name(kind)
    return f"CAST({literal_sql(decode_value(value, kind), name)} AS {str(kind).upper()})"


def say_values(described: dict[str, Any], schema: Schema, which: str) -> dict[str, Any]:
    """Return Spark's JSON form of the schema, with values of its columns under Spark's keys.

    Args:
        described: the JSON from `to_spark_json`. The function changes it.
        schema: the same schema.
        which: CURRENT_DEFAULT or EXISTS_DEFAULT.
    """
    for field, one in zip(schema.fields, described["fields"], strict=True):
        value = field.default if which == CURRENT_DEFAULT else field.initial
        if value is not None:
            one["metadata"][which] = default_sql(value, field.type)
    return described
