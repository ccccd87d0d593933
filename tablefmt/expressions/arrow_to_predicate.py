"""Conditions as pyarrow expressions: converted to predicates, and identified by bytes. Pure.

Arrow binds the expression to the schema first. So names, columns and literal types are exactly
those that Arrow compares. Only known parts are converted. Unknown parts are left out, and no input
causes an error. Spec: PRN-15 (spec/pruning.md).

The identity is for the digest of a statement. The text of an expression is not unique: it omits the
middle of a long list and of long text in it, and a quote inside a text looks like its end.
Spec: CFL-23.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.predicate import (
    FALSE,
    TRUE,
    And,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
)
from tablefmt.expressions.substrait import (
    Message,
    NotConvertedError,
    check_only,
    decoded,
    extended_expression,
    inner,
    literal_of,
    option_in,
    value_in,
)
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.schema import Field, Schema, all_fields, is_float, is_nested

BYTES_MAX = 4 << 20
"""Maximum length of a message to read. No condition that a person writes comes close."""

WEIGHT_MAX = 1 << 13
"""Maximum weight of an expression to read. A chain of 12 comparisons weighs 8,189.

Arrow's output doubles with every level of nesting (apache/arrow#48761), at about 94 bytes per unit
of weight. Without this limit, a chain of 40 would never end.
"""

_COMPARISON = "functions_comparison.yaml"
_BOOLEAN = "functions_boolean.yaml"

_OPERATORS = {"equal": "=", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

_PAGES = {
    **dict.fromkeys((*_OPERATORS, "is_null", "is_not_null", "is_nan"), _COMPARISON),
    **dict.fromkeys(("and", "or", "not"), _BOOLEAN),
}
"""Supported functions, with the Substrait page that defines each."""


def predicates_of(expression: pc.Expression, schema: Schema) -> tuple[list[Predicate], bool]:
    """Return the supported AND-ed parts of a pyarrow expression, and True if these are all parts.

    Args:
        expression: a condition over the columns of `schema`, by name.
        schema: the columns; Arrow sees them as `to_arrow(schema)`.

    Returns:
        Each predicate is TRUE for every row for which Arrow's part is true. With the flag, their
        conjunction is TRUE for exactly the rows that Arrow's filter keeps. The content of the
        expression never causes an error: unknown parts are left out. Arrow converts an expression
        as a whole. So one function that its Substrait lacks leaves out all parts: `match_like`, and
        `starts_with` before pyarrow 26. Spec: PRN-15.
    """
    try:
        names = (field.name for field in all_fields(schema))
        if any("\n" in name for name in names) or _weight(expression) > WEIGHT_MAX:
            return [], False
        message = bytes(expression.to_substrait(to_arrow(schema)))
    except (pa.ArrowException, ImportError, UnicodeError):
        # Substrait cannot express it, a column does not exist, or Arrow lacks Substrait.
        return [], False
    return predicates_from_bytes(message, schema)


def predicates_from_bytes(message: bytes, schema: Schema) -> tuple[list[Predicate], bool]:
    """Return the result of `predicates_of` for a Substrait ExtendedExpression with one condition.

    The function accepts any bytes.
    """
    try:
        outer = extended_expression(message) if len(message) <= BYTES_MAX else None
        if outer is None or len(outer.referred_expr) != 1:
            return [], False
        reader = _Reader(schema, _functions(outer))
        parts = reader.chain(outer.referred_expr[0].expression, "and")
    except NotConvertedError:
        return [], False
    predicates: list[Predicate] = []
    complete = True
    for part in parts:
        try:
            predicates.append(reader.truth(part, True))
        except NotConvertedError:
            complete = False
    return predicates, complete and reader.exact


def _weight(expression: pc.Expression) -> int:
    """Return the size of Arrow's Substrait output: 1 per call plus twice its arguments. Linear.

    The tree is in the metadata of Arrow's pickled form, with a line for each start and end of a
    call. The only other user text in it is names of columns, each on one line.
    """
    pickled = expression.__reduce__()[1][0]
    text = pa.ipc.open_file(pickled).schema.to_string(truncate_metadata=False)
    _, header, lines = text.rpartition("-- schema metadata --\n")
    if not header:
        raise pa.ArrowInvalid("no tree")
    weights = [0]
    for line in lines.split("\n"):
        if line.startswith("call: '"):
            weights.append(0)
        elif line.startswith("end: '"):
            weight = 1 + 2 * weights.pop()
            if weight > WEIGHT_MAX or not weights:
                return WEIGHT_MAX + 1
            weights[-1] += weight
    return weights[0] if len(weights) == 1 else WEIGHT_MAX + 1


def _functions(outer: Message) -> dict[int, str]:
    """Return the supported functions that the message declares, by anchor."""
    pages = {page.anchor: decoded(page.uri) for page in outer.extension_uris}
    names: dict[int, str] = {}
    for declaration in outer.extensions:
        if not declaration.HasField("extension_function"):
            continue
        function = declaration.extension_function
        name = decoded(function.name)
        page = pages.get(function.uri_reference, "").rpartition("/")[2]
        if function.anchor in names:
            raise NotConvertedError("two functions have one anchor")
        names[function.anchor] = name if _PAGES.get(name) == page else ""
    return names


class _Reader:
    """Converter of Substrait expressions to predicates over the columns of a schema."""

    def __init__(self, schema: Schema, functions: dict[int, str]) -> None:
        self.schema = schema
        self.functions = functions
        self.exact = True
        """False once a predicate is TRUE for more rows than Arrow's condition."""

    def truth(self, node: Message, truth_value: bool) -> Predicate:
        """Return a predicate that is TRUE where `node` is `truth_value`, and FALSE or NULL
        elsewhere.

        Raises NotConvertedError. The nesting is limited by what protobuf reads.
        """
        if node.HasField("literal"):
            return self._constant(node, truth_value)
        if node.HasField("selection"):
            field = self._field(node)
            if str(field.type) != "boolean":
                raise NotConvertedError("a column that is not a condition")
            return Comparison(field, "=", truth_value)
        if node.HasField("singular_or_list"):
            return self._membership(node, truth_value)
        name, arguments = self._call(node)
        if name == "not" and len(arguments) == 1:
            return self.truth(arguments[0], not truth_value)
        if name in ("and", "or"):
            items = [self.truth(item, truth_value) for item in self.chain(node, name)]
            return all_of(items) if (name == "and") == truth_value else any_of(items)
        if name in _OPERATORS and len(arguments) == 2:
            return self._comparison(_OPERATORS[name], arguments, truth_value)
        if name in ("is_null", "is_not_null") and len(arguments) == 1:
            null = IsNull(self._field(arguments[0]))
            return null if (name == "is_null") == truth_value else Not(null)
        if name == "is_nan" and len(arguments) == 1:
            field = self._field(arguments[0])
            if not is_float(field.type):
                raise NotConvertedError("is_nan of a column that has no NaN")
            if truth_value:
                return IsNaN(field)
            return And((Not(IsNaN(field)), Not(IsNull(field))))
        raise NotConvertedError("an unknown function")

    def chain(self, node: Message, name: str) -> list[Message]:
        """Return the operands of `name`, through all of its directly nested calls."""
        operands: list[Message] = []
        waiting = [node]
        while waiting:
            item = waiting.pop()
            if self._is_call_of(item, name):
                waiting.extend(reversed(self._call(item)[1]))
            else:
                operands.append(item)
        if not operands:
            raise NotConvertedError("a call without arguments")
        return operands

    def _is_call_of(self, node: Message, name: str) -> bool:
        try:
            return self._call(node)[0] == name
        except NotConvertedError:
            return False

    def _call(self, node: Message) -> tuple[str, list[Message]]:
        """Return the name and arguments of a call without options."""
        call = inner(node, "scalar_function")
        check_only(call, "function_reference", "output_type", "arguments")
        arguments = [inner(argument, "value") for argument in call.arguments]
        return self.functions.get(call.function_reference, ""), arguments

    def _field(self, node: Message) -> Field:
        """Return a top-level column that is not nested."""
        reference = inner(node, "selection")
        check_only(reference, "direct_reference", "root_reference")
        if not reference.HasField("root_reference") or reference.root_reference:
            raise NotConvertedError("not a column of the rows")
        member = inner(reference.direct_reference, "struct_field")
        check_only(member, "field")
        position: int = member.field
        if not 0 <= position < len(self.schema.fields):
            raise NotConvertedError("a column that does not exist")
        field = self.schema.fields[position]
        if is_nested(field.type):
            raise NotConvertedError("a nested column")
        return field

    def _constant(self, node: Message, truth_value: bool) -> Predicate:
        literal = literal_of(node)
        if literal.kind not in ("boolean", "null"):
            raise NotConvertedError("a value that is not a condition")
        return Constant(literal.value is truth_value)

    def _comparison(self, op: str, arguments: Sequence[Message], truth_value: bool) -> Predicate:
        left, right = arguments
        if left.HasField("literal"):
            left, right, op = right, left, _MIRRORED[op]
        field, literal = self._field(left), literal_of(right)
        if literal.kind == "null":
            return FALSE
        value = value_in(literal, field)
        if is_float(field.type):
            return _float_comparison(field, op, value, truth_value)
        return Comparison(field, op if truth_value else _OPPOSITE[op], value)

    def _membership(self, node: Message, truth_value: bool) -> Predicate:
        """Return the predicate of Arrow's is_in, which is never NULL.

        For a null it is false, unless a null is among the options.
        """
        membership = inner(node, "singular_or_list")
        check_only(membership, "value", "options")
        field = self._field(membership.value)
        options = [literal_of(option) for option in membership.options]
        values = tuple(option_in(o, field) for o in options if o.kind != "null")
        if is_float(field.type) and any(v != v or v == 0 for v in values):
            # Arrow's is_in treats 0.0 and -0.0, and NaN with other bits, as different values.
            if not truth_value:
                raise NotConvertedError("a negated set with zero or NaN")
            self.exact = False
        has_null = len(values) < len(options)
        if has_null:
            # Substrait does not carry the option that decides if a null matches.
            self.exact = False
        if truth_value:
            listed = In(field, values) if values else FALSE
            return any_of((IsNull(field), listed)) if has_null else listed
        return Or((IsNull(field), Not(In(field, values)))) if values else TRUE


def _float_comparison(field: Field, op: str, value: float, truth_value: bool) -> Predicate:
    """Return Arrow's comparison, where NaN is never equal or ordered, in our order with NaN on
    top.
    """
    if value != value:
        return Not(IsNull(field)) if (op == "!=") == truth_value else FALSE
    plain = Comparison(field, op if truth_value else _OPPOSITE[op], value)
    if op not in (">", ">="):
        return plain
    return And((plain, Not(IsNaN(field)))) if truth_value else Or((plain, IsNaN(field)))


CALLS_MAX = 12
"""Maximum nested calls for Substrait, which doubles with every level (apache/arrow#48761)."""


def expression_identity(expression: pc.Expression, schema: pa.Schema) -> bytes:
    """Return bytes that differ for different expressions.

    Args:
        expression: a condition.
        schema: the columns of the condition.

    Raises:
        UnsupportedFeatureError: it names columns by position, and Arrow cannot serialize it.
    """
    try:
        (pickled,) = expression.__reduce__()[1]
        return bytes(pickled)
    except pa.ArrowException:
        # Only Substrait supports a column by position.
        pass
    text = str(expression)
    try:
        if text.count("(") <= CALLS_MAX:
            return bytes(expression.to_substrait(schema, allow_arrow_extensions=True))
    except (pa.ArrowException, UnicodeError):
        # Substrait does not support all of Arrow's functions.
        pass
    if "\n" not in text:
        # The text is unique, because there is no list in it.
        return text.encode()
    raise UnsupportedFeatureError(
        "this pyarrow expression refers to columns by position, so tablefmt cannot tell which "
        "columns it uses; refer to them by name, or pass SQL text",
        ["where:expression-places"],
    )
