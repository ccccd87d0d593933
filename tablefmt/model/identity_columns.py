"""Identity columns: numbers that the table gives to its new rows. Pure.

The definition of an identity column is the property `identity.<field id>`, whose value is JSON. A
writer claims numbers of rows by an entry that raises a counter. The counter is an application
version of the log, so it is in every checkpoint, and it never falls. Spec: IDN-1 .. IDN-3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from tablefmt.errors import (
    ConstraintViolationError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.model.log_entry import ApplicationTransaction, Metadata
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.schema import Field, Identity, Primitive, Schema

PREFIX = "identity."
"""Prefix of the properties that are definitions."""

COUNTER_PREFIX = "_identity."
"""Prefix of the application ids that are counters."""

CLAIM = "CLAIM IDENTITY"
"""Name of the operation of an entry that only claims numbers."""

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""Bounds of a BIGINT."""

BIGINT = Primitive("long")


@dataclass(frozen=True, slots=True)
class IdentityColumn:
    """A column whose values the table gives."""

    field: Field
    identity: Identity
    skip: int = 0
    """Numbers up to this one are not given any more (IDN-4)."""

    @property
    def property_name(self) -> str:
        """Return the name of the property that defines it."""
        return f"{PREFIX}{self.field.id}"

    @property
    def counter(self) -> str:
        """Return the application id that counts its numbers."""
        return f"{COUNTER_PREFIX}{self.field.id}"

    @property
    def text(self) -> str:
        """Return the value of its property."""
        said: dict[str, int | bool] = {
            "always": self.identity.always,
            "start": self.identity.start,
            "step": self.identity.step,
        }
        if self.skip:
            said["skip"] = self.skip
        return orjson.dumps(said).decode()

    def value(self, number: int) -> int:
        """Return the value of the row with a number, from 1 on."""
        return self.identity.start + (number - 1) * self.identity.step

    def number_of(self, value: int) -> int:
        """Return the last number whose value does not lie beyond a value; 0 or less for none."""
        return min((value - self.identity.start) // self.identity.step + 1, HIGHEST)

    def claimed(self, counter: int, count: int) -> int:
        """Return the counter after a claim of some numbers.

        Raises:
            ConstraintViolationError: IDN-2, the values would not fit a BIGINT.
        """
        last = max(counter, self.skip) + count
        if last > HIGHEST or not LOWEST <= self.value(last) <= HIGHEST:
            raise ConstraintViolationError(
                f"the identity column {self.field.name!r} has no value left for {count} rows: "
                f"{self.value(last)} is not a BIGINT. Nothing was written; write to a table with "
                "another START WITH."
            )
        return last


class Claim(Protocol):
    """Claims numbers of rows that no other writer gets."""

    def __call__(self, column: IdentityColumn, count: int) -> Sequence[range]:
        """Return ranges of numbers, which have `count` numbers together."""


def identity_columns(metadata: Metadata) -> tuple[IdentityColumn, ...]:
    """Return the identity columns, in the order of the table's columns. Spec: IDN-1."""
    if not any(name.startswith(PREFIX) for name in metadata.properties):
        return ()
    found = (_read(field, metadata.properties) for field in metadata.schema.fields)
    return tuple(each for each in found if each is not None)


def _read(field: Field, properties: Mapping[str, str]) -> IdentityColumn | None:
    text = properties.get(f"{PREFIX}{field.id}")
    if text is None or field.type != BIGINT:
        return None
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    needed = {"always", "start", "step"}
    if not isinstance(given, dict) or not needed <= given.keys() <= needed | {"skip"}:
        return None
    numbers = [given["start"], given["step"], given.get("skip", 0)]
    if type(given["always"]) is not bool or any(type(number) is not int for number in numbers):
        return None
    if not all(LOWEST <= number <= HIGHEST for number in numbers) or given["step"] == 0:
        return None
    if given.get("skip", 1) < 1:
        return None
    identity = Identity(given["always"], given["start"], given["step"])
    return IdentityColumn(field, identity, given.get("skip", 0))


def identity_column(metadata: Metadata, name: str) -> IdentityColumn:
    """Return the identity column of a name.

    Raises:
        SchemaMismatchError: there is none.
    """
    columns = {folded(each.field.name): each for each in identity_columns(metadata)}
    found = columns.get(folded(name)) if isinstance(name, str) else None
    if found is None:
        known = there_are(str(name), [each.field.name for each in columns.values()])
        raise SchemaMismatchError(f"{name!r:.200} is not an identity column; {known}", [str(name)])
    return found


def identity_ids(metadata: Metadata) -> frozenset[int]:
    """Return the ids of the identity columns."""
    return frozenset(each.field.id for each in identity_columns(metadata))


def identity_texts(metadata: Metadata) -> dict[str, str]:
    """Return the identity columns by name, as DDL says them after AS IDENTITY."""
    return {each.field.name: shown_identity(each.identity) for each in identity_columns(metadata)}


def shown_identity(identity: Identity) -> str:
    """Return the clause that defines an identity column."""
    kind = "ALWAYS" if identity.always else "BY DEFAULT"
    options = f"(START WITH {identity.start} INCREMENT BY {identity.step})"
    return f"GENERATED {kind} AS IDENTITY {options}"


_CLAUSE = re.compile(
    r"\s*(?:GENERATED\s+)?(?P<kind>ALWAYS|BY\s+DEFAULT)(?:\s+AS\s+IDENTITY)?"
    r"\s*(?:\((?P<options>[^()]*)\))?\s*",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"\s*(?P<name>START\s+WITH|INCREMENT\s+BY)\s+(?P<value>[+-]?\s*[0-9]+)(?![\w.])\s*,?",
    re.IGNORECASE,
)


def read_identity(name: str, text: Any) -> Identity:
    """Return an identity from text such as `ALWAYS (START WITH 1 INCREMENT BY 1)`.

    Args:
        name: of the column, for messages.
        text: the clause of DDL; the words GENERATED and AS IDENTITY may be left out.

    Raises:
        SchemaMismatchError: it is no such text, or the numbers cannot be used.
    """
    if isinstance(text, Identity):
        return checked_identity(name, text)
    found = _CLAUSE.fullmatch(text) if isinstance(text, str) else None
    options = {} if found is None else _options(found["options"] or "")
    if found is None or options is None:
        raise SchemaMismatchError(
            f"column {name!r}: {text!r:.200} is not an identity; expected text such as "
            "'ALWAYS (START WITH 1 INCREMENT BY 1)' or 'BY DEFAULT'",
            [name],
        )
    always = found["kind"].upper() == "ALWAYS"
    given = Identity(always, options.get("START", 1), options.get("INCREMENT", 1))
    return checked_identity(name, given)


def is_identity(text: str) -> bool:
    """Return whether text is a clause as `shown_identity` makes it, and not an expression."""
    return _CLAUSE.fullmatch(text) is not None and text.upper().startswith("GENERATED")


def _options(text: str) -> dict[str, int] | None:
    """Return the options by their first word; None if the text is something else."""
    options: dict[str, int] = {}
    at = 0
    while at < len(text) and text[at:].strip():
        one = _OPTION.match(text, at)
        word = "" if one is None else one["name"].split()[0].upper()
        if one is None or word in options:
            return None
        options[word] = int(re.sub(r"\s", "", one["value"]))
        at = one.end()
    return options


def checked_identity(name: str, identity: Identity) -> Identity:
    """Return an identity whose numbers can be used.

    Raises:
        SchemaMismatchError: IDN-1.
    """
    if identity.step == 0:
        raise SchemaMismatchError(
            f"column {name!r}: INCREMENT BY 0 would give every row the same value; give another "
            "number, such as 1 or -1",
            [name],
        )
    for word, number in (("START WITH", identity.start), ("INCREMENT BY", identity.step)):
        if not LOWEST <= number <= HIGHEST:
            raise SchemaMismatchError(
                f"column {name!r}: {word} {number} is not a BIGINT; give a number of 64 bits",
                [name],
            )
    return identity


def defined_identities(metadata: Metadata, identities: Mapping[str, Any] | None) -> Metadata:
    """Return the definition of a new table with its identity columns. Spec: IDN-1.

    Args:
        metadata: the definition. Its columns say their identities (`Field.identity`).
        identities: further ones as `read_identity` takes them, by the names of columns.

    Raises:
        SchemaMismatchError: no such column, a column that has an expression, a default or another
            type than BIGINT, or numbers that cannot be used.
    """
    schema = metadata.schema
    given = {field.id: field.identity for field in schema.fields if field.identity is not None}
    for name, text in (identities or {}).items():
        field = schema.find(name) if isinstance(name, str) else None
        if field is None:
            raise SchemaMismatchError(
                f"identity names {name!r}, which is not a column; {there_are(name, schema.names)}",
                [name],
            )
        if field.id in given:
            raise SchemaMismatchError(f"column {field.name!r} has two identities", [field.name])
        given[field.id] = read_identity(field.name, text)
    if not given:
        return metadata
    for field in schema.fields:
        if field.id in given:
            _check_column(field)
    plain = tuple(replace(field, identity=None) for field in schema.fields)
    changed = replace(metadata, schema=replace(schema, fields=plain))
    columns = (IdentityColumn(f, given[f.id]) for f in plain if f.id in given)
    return with_identities(changed, columns)


def _check_column(field: Field) -> None:
    if field.identity is not None:
        checked_identity(field.name, field.identity)
    if field.type != BIGINT:
        raise SchemaMismatchError(
            f"column {field.name!r} is {field.text or field.type} and cannot be an identity "
            "column: expected BIGINT",
            [field.name],
        )
    if field.default is not None or field.generated is not None:
        what = "a default" if field.generated is None else "an expression"
        raise SchemaMismatchError(
            f"column {field.name!r} is an identity column, so it cannot have {what}", [field.name]
        )


def with_identities(metadata: Metadata, columns: Iterable[IdentityColumn]) -> Metadata:
    """Return the metadata with definitions of identity columns."""
    said = {each.property_name: each.text for each in columns}
    return replace(metadata, properties={**metadata.properties, **said}) if said else metadata


def without_identities(metadata: Metadata) -> Metadata:
    """Return the metadata in which no column is an identity column."""
    if not any(name.startswith(PREFIX) for name in metadata.properties):
        return metadata
    return replace(metadata, properties=_other(metadata.properties))


def _other(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in properties.items() if not name.startswith(PREFIX)}


def declared_identities(metadata: Metadata, schema: Schema) -> Schema:
    """Return columns of the table with their identities, for a definition as text."""
    known = {each.field.id: each.identity for each in identity_columns(metadata)}
    if not known:
        return schema
    fields = (replace(field, identity=known.get(field.id)) for field in schema.fields)
    return replace(schema, fields=tuple(fields))


def renumbered_identities(metadata: Metadata, ids: Mapping[int, int]) -> dict[str, str]:
    """Return all properties, with the definitions of identity columns under other ids."""
    columns = identity_columns(metadata)
    moved = (replace(e, field=replace(e.field, id=ids[e.field.id])) for e in columns)
    return {**_other(metadata.properties), **{each.property_name: each.text for each in moved}}


def continued(before: Metadata, after: Metadata) -> Metadata:
    """Return the definition of a table that replaces another one. Spec: IDN-5.

    A column that keeps its id gives no value that the table gave before. Definitions of columns
    that left stay for a restore.

    Args:
        before: of the table, as from `with_counters`.
        after: the new definition, with the ids of the table.
    """
    known = {each.field.id: each for each in identity_columns(before)}
    staying = {f"{PREFIX}{field.id}" for field in after.schema.fields}
    left = {
        name: text
        for name, text in before.properties.items()
        if name.startswith(PREFIX) and name not in staying
    }
    columns = (
        _beyond(each, known[each.field.id])
        for each in identity_columns(after)
        if each.field.id in known
    )
    return with_identities(replace(after, properties={**left, **after.properties}), columns)


def _beyond(new: IdentityColumn, old: IdentityColumn) -> IdentityColumn:
    """Return a column that goes on beyond all values that another definition of it gave."""
    if not old.skip:
        return new
    given = (old.identity.start, old.value(old.skip))
    farthest = max(given) if new.identity.step > 0 else min(given)
    return replace(new, skip=max(new.skip, new.number_of(farthest)))


def without_history(metadata: Metadata) -> Metadata:
    """Return the definition for another table, whose identity columns begin at their start."""
    columns = identity_columns(metadata)
    return with_identities(metadata, (replace(each, skip=0) for each in columns))


def counted(
    applications: Mapping[str, tuple[ApplicationTransaction, int]], column: IdentityColumn
) -> int:
    """Return the last number that any writer claimed; 0 for none."""
    known = applications.get(column.counter)
    return 0 if known is None else known[0].version


def with_counters(
    metadata: Metadata, applications: Mapping[str, tuple[ApplicationTransaction, int]]
) -> Metadata:
    """Return a definition whose identity columns continue after the numbers that were claimed."""
    columns = identity_columns(metadata)
    return with_identities(
        metadata, (replace(e, skip=max(e.skip, counted(applications, e))) for e in columns)
    )


def with_last_values(metadata: Metadata, last: Mapping[str, int]) -> Metadata:
    """Return a definition whose identity columns continue after some values, by column names."""
    columns = (e for e in identity_columns(metadata) if e.field.name in last)
    return with_identities(
        metadata, (replace(e, skip=max(e.skip, e.number_of(last[e.field.name]))) for e in columns)
    )


def refuse_identity(fields: Iterable[Field], what: str) -> None:
    """Refuse identity columns where existing rows would need values.

    Raises:
        SchemaMismatchError: one is an identity column.
    """
    for field in fields:
        if field.identity is not None:
            raise SchemaMismatchError(
                f"column {field.name!r} cannot be an identity column in {what}: existing rows "
                "would need values; create a table with the column, and copy the rows",
                [field.name],
            )


def refuse_set(metadata: Metadata, fields: Iterable[Field], what: str) -> None:
    """Refuse to give new values to columns that are GENERATED ALWAYS AS IDENTITY. Spec: IDN-3.

    Args:
        metadata: of the table.
        fields: columns that a statement sets.
        what: the statement, for the message.

    Raises:
        ConstraintViolationError: it sets such a column.
    """
    always = {e.field.id for e in identity_columns(metadata) if e.identity.always}
    for field in fields:
        if field.id in always:
            raise ConstraintViolationError(
                f"{what} sets column {field.name!r}, which is GENERATED ALWAYS AS IDENTITY; leave "
                "the column out. To set it, create the table with GENERATED BY DEFAULT AS IDENTITY."
            )


def cannot_number(columns: Sequence[IdentityColumn], where: str) -> UnsupportedFeatureError:
    """Return the error for a writer that cannot claim numbers."""
    names = ", ".join(repr(each.field.name) for each in columns)
    return UnsupportedFeatureError(
        f"{where} cannot give values to the identity column {names}; use append, MERGE or "
        "overwrite of an existing table",
        ["identityColumns"],
    )
