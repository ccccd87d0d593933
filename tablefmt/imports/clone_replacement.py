"""Replacement of a table by a clone, in one commit of class OVERWRITE.

The table's history stays, and its ids and physical names continue (SCH-12). If the source's schema
can follow the table's, it becomes the table's, as for a clone of the same source that is made
again. Otherwise all columns are new ones, and the files are imported under the names that their
columns have (IMP-4). `fitted`, which decides that, is pure. Spec: CLN-5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.transaction_plan import Replacing, Staged
from tablefmt.expressions.generated_columns import features_for, renumbered_constraints
from tablefmt.imports.clone_copies import CloneCopies
from tablefmt.imports.clone_plan import FEATURES, FORMAT, NAME, CloneSource
from tablefmt.model.identity_columns import continued, renumbered_identities, with_counters
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import (
    AddedFiles,
    Import,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
)
from tablefmt.model.name_matching import folded
from tablefmt.model.partition_fields import renumbered_hidden
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type, all_fields
from tablefmt.model.schema_rules import NewIds, dropped_names
from tablefmt.model.tags import only_tags
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.measurements import Measured
from tablefmt.session.staging import autocommit, require_features
from tablefmt.session.statement import Begun, Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove
from tablefmt.snapshot.head import schema_problem


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A clone as the next version of a table."""

    metadata: Metadata
    numbers: pa.ChunkedArray
    """The import of each file, or NULL."""
    ids: Mapping[int, int]
    """Ids of the table's columns by those of the source, where they differ."""

    def columns(self, added: AddedFiles) -> AddedFiles:
        """Return the files with the numbers of imports, and the ids of the table's columns."""
        renamed: dict[str, Sequence[Any]] = {}
        for name, values in added.columns.items():
            group, dot, place = name.partition(".")
            renamed[f"{group}.{self.ids.get(int(place), place)}" if dot else name] = values
        renamed.pop(NUMBER, None)
        if self.numbers.null_count < len(self.numbers):
            renamed[NUMBER] = self.numbers.to_pylist()
        return AddedFiles(renamed)


def fitted(
    table: Metadata,
    source: CloneSource,
    definition: Metadata,
    imports: Mapping[int, Import],
    numbers: pa.ChunkedArray,
) -> Fitted:
    """Return a clone as the next version of a table. Tags of the table stay.

    Args:
        table: the table's metadata.
        source: the version to clone.
        definition: of the clone.
        imports: of the clone, as of a new table.
        numbers: the import of each file by `imports`, or NULL.
    """
    schema, fields = _schema(table.schema, definition.schema, imports)
    names = {new.id: (old.id, old.physical, new.physical) for old, new in fields}
    first = max(table.imports, default=0)
    renames = any(was != now for _, was, now in names.values())
    own = max(imports, default=0) + 1
    known = dict(imports)
    if renames and numbers.null_count:
        known[own] = Import("", {}, FORMAT, source.uri, source.version, adopt=True)
        numbers = pc.fill_null(numbers, own)
    moved = {n + first: replace(e, names=_names(e, names)) for n, e in known.items()}
    renumbered = {old.id: new.id for old, new in fields}
    ids = {old: new for old, new in renumbered.items() if old != new}
    metadata = replace(
        definition,
        schema=schema,
        partition_by=_renumbered(definition.partition_by, ids),
        partitionings={n: _renumbered(by, ids) for n, by in definition.partitionings.items()},
        properties={
            **renumbered_identities(definition, renumbered),
            **only_tags(table.properties),
        },
        constraints=renumbered_constraints(definition, renumbered),
        # A number keeps its meaning (IMP-2), so earlier imports stay.
        imports={**table.imports, **moved},
    )
    return Fitted(continued(table, metadata), pc.add(numbers, first), ids)


def _renumbered(fields: Sequence[int], ids: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(ids.get(i, i) for i in fields)


def _schema(
    table: Schema, source: Schema, imports: Mapping[int, Import]
) -> tuple[Schema, list[tuple[Field, Field]]]:
    """Return the table's next schema, and each field at every depth before and after."""
    lost = [f for f in table.fields if f.id not in {g.id for g in source.fields}]
    names = {*dropped_names(table, lost), *source.dropped}
    last = max(table.last_id, source.last_id)
    same = replace(source, last_id=last, dropped=tuple(sorted(names)))
    before, after = ({f.id: f.initial for f in s.fields} for s in (table, same))
    alike = all(before[i] == after[i] for i in before.keys() & after.keys())
    if alike and schema_problem(table, same, replaces_all=True) is None:
        return same, [(f, f) for f in all_fields(source)]
    ids, fields = NewIds(table), list[Field]()
    for field in source.fields:
        fields.append(ids.numbered(field, (*table.fields, *fields)))
    pairs = [pair for two in zip(source.fields, fields, strict=True) for pair in _pairs(*two)]
    used = {folded(f.physical) for f in all_fields(Schema(tuple(fields), ids.last))}
    held = {*source.dropped, *(old.physical for old, _ in pairs)}
    held |= {name for each in imports.values() for name in each.names.values() if name is not None}
    # Files have columns of these names. A later column must not read them.
    reserved = {name for name in held if folded(name) not in used}
    known = {*dropped_names(table, table.fields), *reserved}
    hidden = renumbered_hidden(source, {old.id: new.id for old, new in pairs}, ids.last)
    pairs += [(field, hidden[field.id]) for field in source.hidden]
    last = ids.last + len(hidden)
    dropped = tuple(sorted(known, key=str.encode))
    return Schema(tuple(fields), last, dropped, tuple(hidden.values())), pairs


def _pairs(old: Field, new: Field) -> Iterator[tuple[Field, Field]]:
    yield old, new
    yield from _pairs_inside(old.type, new.type)


def _pairs_inside(old: Type, new: Type) -> Iterator[tuple[Field, Field]]:
    if isinstance(old, Struct) and isinstance(new, Struct):
        for one, other in zip(old.fields, new.fields, strict=True):
            yield from _pairs(one, other)
    elif isinstance(old, Array) and isinstance(new, Array):
        yield from _pairs_inside(old.element, new.element)
    elif isinstance(old, Map) and isinstance(new, Map):
        yield from _pairs_inside(old.key, new.key)
        yield from _pairs_inside(old.value, new.value)


def _names(each: Import, fields: Mapping[int, tuple[int, str, str]]) -> dict[int, str | None]:
    """Return the names of columns in the files of an import, by the ids of the table."""
    found = {}
    for new, (old, was, now) in fields.items():
        name = each.names.get(old, was)
        if name != now:
            found[new] = name
    return found


def replace_by(
    table: TableContext,
    source: CloneSource,
    staged: Staged,
    numbers: pa.ChunkedArray,
    copies: CloneCopies | None,
    measured: Measured | None,
) -> Commit:
    """Replace all rows and the definition of a table by a clone.

    Args:
        table: the table.
        source: the version to clone.
        staged: the clone as the first entry of a new table.
        numbers: the import of each file, or NULL.
        copies: of the files of a deep clone; None: it is shallow.
        measured: measurement since the work on the table began.

    Raises:
        ConstraintViolationError: the table is append-only.
        SchemaMismatchError: SCH-2, SCH-11.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    table.refresh()
    head = table.view.read_head
    before = with_counters(head.metadata, head.applications)
    fit = fitted(before, source, _definition(staged), _imports(staged), numbers)
    require_features(table, lambda known: _features(fit.metadata, known))

    def stage(txn: TransactionSnapshot, _: Any) -> Staged:
        fit = fitted(txn.counted_metadata, source, _definition(staged), _imports(staged), numbers)
        add = None if staged.add is None else fit.columns(staged.add)
        keeps = None
        if add is not None and copies is not None:
            # The table may have lost a copy that it had.
            paths = copies.paths(txn.snapshot)
            add = AddedFiles({**add.columns, "path": paths})
            keeps = txn.version if copies.are_shared(paths) else None
        return Staged(
            transaction=txn.transaction,
            operation=Operation(
                name=NAME,
                cls=OperationClass.OVERWRITE,
                parameters={**staged.operation.parameters, "replaces": True},
            ),
            written_under=txn.metadata,
            read_version=txn.version,
            add=add,
            deletes=staged.deletes,
            replacing=Replacing(None),
            metadata=fit.metadata,
            replaces=True,
            keeps=keeps,
        )

    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_remove(metadata)
        return (str(staged.operation.parameters),)

    statement = Statement(name=NAME, stage=stage, text=text)
    version = table.view.head.version
    begun = Begun(transaction=staged.transaction, version=version, measured=measured)
    return autocommit(table, statement, CommitOptions(), begun=begun)


def _definition(staged: Staged) -> Metadata:
    assert staged.metadata is not None
    return replace(staged.metadata, imports={})


def _imports(staged: Staged) -> Any:
    assert staged.metadata is not None
    return staged.metadata.imports


def _features(metadata: Metadata, known: ProtocolFeatures) -> ProtocolFeatures:
    if metadata.imports:
        known = known.plus(FEATURES.reader, FEATURES.writer)
    return features_for(metadata, known) or known
