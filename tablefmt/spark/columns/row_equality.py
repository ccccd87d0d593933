"""What makes two rows equal to Spark's grouping, as SQL text. Spec: INC-6.

Spark takes -0.0 for 0.0 and groups neither maps nor variants, so parts of such types are put into
others that tell just as much.
"""

from __future__ import annotations

from tablefmt.expressions.predicate import quote_name
from tablefmt.model.schema import Array, Field, Map, Primitive, Struct, Type, is_float, walk


def key_sql(field: Field) -> str:
    """An expression of a column that is equal exactly where its values are the same."""
    return _key(quote_name(field.name), field.type, 0)


def _key(value: str, kind: Type, depth: int) -> str:
    if not any(map(_is_special, walk(kind))):
        return value
    if isinstance(kind, Struct):
        parts = (_key(f"{value}.{quote_name(f.name)}", f.type, depth) for f in kind.fields)
        return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
    each = f"e{depth}"
    if isinstance(kind, Array):
        return f"transform({value}, {each} -> {_key(each, kind.element, depth + 1)})"
    if isinstance(kind, Map):
        key, item = (
            _key(f"{each}.{part}", inner, depth + 1)
            for part, inner in (("key", kind.key), ("value", kind.value))
        )
        return f"transform(map_entries({value}), {each} -> struct({key}, {item}))"
    if is_float(kind):
        return f"string({value})"
    return f"concat(schema_of_variant({value}), ' ', to_json({value}))"


def _is_special(kind: Type) -> bool:
    return is_float(kind) or isinstance(kind, Map) or kind == Primitive("variant")
