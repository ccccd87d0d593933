"""Changes of a table's partitioning without a rewrite, and the numbers of its partitionings. Pure.

Spec: EVO-1, EVO-2, EVO-5, EVO-6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tablefmt.errors import CorruptEntryError, SchemaMismatchError
from tablefmt.model.clustering_columns import check_clustering
from tablefmt.model.log_entry import PARTITIONING, AddedFiles, Metadata
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.partition_fields import partitioned
from tablefmt.model.partition_transforms import declared, named, parsed_transform, with_name
from tablefmt.model.schema import Field, Schema
from tablefmt.model.schema_rules import check_hidden_names


def repartitioned(metadata: Metadata, names: Sequence[str]) -> Metadata:
    """Return the metadata with another current partitioning. Files keep the one that they have.

    It is `metadata` itself if the fields are the same, in any order, and keep their names.

    Raises:
        SchemaMismatchError: as `partitioned`; a column of the clustering order partitions.
    """
    schema, ids = partitioned(metadata.schema, names, metadata.schema)
    metadata = _renamed(metadata, schema)
    if frozenset(ids) == frozenset(metadata.partition_by):
        return metadata
    known = dict(metadata.numbered)
    same = (number for number, each in known.items() if frozenset(each) == frozenset(ids))
    number = next(same, None)
    if number is None:
        number = max(known) + 1
        known[number] = ids
    hidden = {field.id: field for field in metadata.schema.hidden}
    given = {named(name, metadata.schema)[1] for name in names}
    for field in schema.hidden:
        if field.id not in hidden:
            taken = [*schema.fields, *hidden.values()]
            hidden[field.id] = field if field.name in given else _named_apart(field, taken)
    whole = replace(schema, hidden=tuple(hidden[i] for i in sorted(hidden)))
    check_hidden_names(whole)
    changed = replace(metadata, schema=whole, partition_by=known[number], partitionings=known)
    check_clustering(changed)
    return changed


def _renamed(metadata: Metadata, schema: Schema) -> Metadata:
    """Return the metadata with the names that the same hidden fields have in a schema."""
    names = {field.id: field.name for field in schema.hidden}

    def renamed(field: Field) -> Field:
        name = names.get(field.id, field.name)
        return field if name == field.name else replace(field, name=name, physical=name)

    hidden = tuple(map(renamed, metadata.schema.hidden))
    if hidden == metadata.schema.hidden:
        return metadata
    changed = replace(metadata.schema, hidden=hidden)
    check_hidden_names(changed)
    return replace(metadata, schema=changed)


def _named_apart(field: Field, others: Collection[Field]) -> Field:
    """Return a hidden field with a name that no other field has, ignoring case."""
    taken = {folded(other.name) for other in others if other.transform is not None}
    name, count = field.name, 1
    while folded(name) in taken:
        count += 1
        name = f"{field.name}_{count}"
    return replace(field, name=name, physical=name)


def without_unused(metadata: Metadata, used: Collection[int]) -> Metadata:
    """Return the metadata without partitionings that no live file has.

    Args:
        metadata: the metadata.
        used: numbers of the partitionings of live files.
    """
    kept = {
        number: ids
        for number, ids in metadata.partitionings.items()
        if number in used or number == metadata.partitioning
    }
    if len(kept) == len(metadata.partitionings):
        return metadata
    return replace(metadata, partitionings=kept, schema=_needed(metadata.schema, kept))


def _needed(schema: Schema, numbered: Mapping[int, Sequence[int]]) -> Schema:
    """Return the schema without hidden fields that no partitioning has."""
    needed = {i for ids in numbered.values() for i in ids}
    return replace(schema, hidden=tuple(f for f in schema.hidden if f.id in needed))


def restored_partitionings(now: Metadata, then: Metadata) -> dict[int, tuple[int, ...]]:
    """Return the partitionings of an older version, under numbers that suit the current ones.

    Files that both versions have stay, so their numbers must mean the same. Spec: EVO-6.
    """
    if not now.partitionings and not then.partitionings:
        return {}
    known = {frozenset(ids): number for number, ids in now.numbered.items()}
    taken, found = {*now.numbered}, {}
    for number, ids in then.numbered.items():
        same = known.get(frozenset(ids))
        if same is None:
            same = number if number not in taken else max(taken) + 1
            taken.add(same)
        found[same] = ids
    return {} if found == {0: then.partition_by} else found


def with_own_values(added: AddedFiles, metadata: Metadata) -> AddedFiles:
    """Return added files without columns of partition fields that none of them has (EVO-2).

    A rebase may have dropped the files that had them.

    Raises:
        CorruptEntryError: the values do not fit. The writer has a bug.
    """
    columns, numbered = added.columns, metadata.numbered
    if PARTITIONING not in columns:
        return added
    current = metadata.partitioning
    numbers = {current if number is None else number for number in columns[PARTITIONING]}
    used = {f"partition.{i}" for n in numbers & numbered.keys() for i in numbered[n]}
    kept = {
        name: values
        for name, values in columns.items()
        if name in used or not name.startswith("partition.")
    }
    problem = values_problem(kept, numbered, current)
    if problem is not None:
        rule, message = problem
        raise CorruptEntryError(message, rule=rule)
    return AddedFiles(kept)


def values_problem(
    columns: Mapping[str, Sequence[Any]], numbered: Mapping[int, Sequence[int]], current: int
) -> tuple[str, str] | None:
    """Return what is wrong with the partition values of added files, as a rule and a clause.

    Args:
        columns: ADD-1 names; only partition columns and `partitioning` are read.
        numbered: the partitionings in force.
        current: the number of files without a number of their own.
    """
    found = {name for name in columns if name.startswith("partition.")}
    wrong = "ADD-1", "its files lack a partition value, or have an unknown one"
    if PARTITIONING not in columns:
        return None if found == {f"partition.{i}" for i in numbered[current]} else wrong
    numbers = [current if number is None else number for number in columns[PARTITIONING]]
    if not numbered.keys() >= set(numbers):
        return "EVO-2", "its files have a partitioning that its metadata lacks"
    names = {n: {f"partition.{i}" for i in numbered[n]} for n in set(numbers)}
    if found != set().union(*names.values()):
        return wrong
    for name in found:
        pairs = zip(numbers, columns[name], strict=True)
        if any(value is not None and name not in names[number] for number, value in pairs):
            return "EVO-2", f"a file has a value in {name!r}, which does not partition it"
    return None


def with_field(metadata: Metadata, text: str) -> list[str]:
    """Return the declaration of the partitioning with one more field.

    Raises:
        SchemaMismatchError: the table has that partition field.
    """
    if _place(metadata, text) is not None:
        raise SchemaMismatchError(f"the table is partitioned by {text!r:.200} already", [text])
    return [*metadata.partition_names, text]


def without_field(metadata: Metadata, text: str) -> list[str]:
    """Return the declaration of the partitioning without a field.

    Args:
        metadata: the metadata.
        text: a column, a transform of one, or the name of a hidden field.

    Raises:
        SchemaMismatchError: there is no such field.
    """
    at = _found(metadata, text)
    return [name for place, name in enumerate(metadata.partition_names) if place != at]


def with_field_replaced(metadata: Metadata, text: str, by: str) -> list[str]:
    """Return the declaration of the partitioning with another field in place of one.

    The field may take its own place, to get another name.

    Raises:
        SchemaMismatchError: as `without_field` and `with_field`.
    """
    at = _found(metadata, text)
    if _place(metadata, by) not in (None, at):
        raise SchemaMismatchError(f"the table is partitioned by {by!r:.200} already", [by])
    names = metadata.partition_names
    return [by if place == at else name for place, name in enumerate(names)]


def with_field_renamed(metadata: Metadata, text: str, name: str) -> list[str]:
    """Return the declaration of the partitioning with another name for one of its hidden fields.

    Raises:
        SchemaMismatchError: as `without_field`.
    """
    at = _found(metadata, text)
    names = metadata.partition_names
    return [with_name(each, name) if place == at else each for place, each in enumerate(names)]


def _found(metadata: Metadata, text: str) -> int:
    at = _place(metadata, text)
    if at is None:
        names = metadata.partition_names
        raise SchemaMismatchError(
            f"the table is not partitioned by {text!r:.200}; {there_are(text, names)}", [text]
        )
    return at


def _place(metadata: Metadata, text: str) -> int | None:
    """Return the place of a field in the current partitioning; None if it is not there."""
    schema = metadata.schema
    made = parsed_transform(text, schema)
    column = schema.find(named(text, schema)[0]) if made is None else None
    wanted = text if made is None and column is None else str(made or (column and column.name))
    for at, field in enumerate(metadata.partition_fields):
        if folded(wanted) in (folded(declared(field, schema)), folded(field.name)):
            return at
    return None
