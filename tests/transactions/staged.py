"""Operations that are no verbs yet, staged as a transaction's work with real files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Group, Keys
from tablefmt.model.entry import AddedFiles, Operation, OperationClass, RowUpdate, Scope
from tablefmt.model.keys import encode_hashes, hash_keys
from tablefmt.operations.pinned import Pinned, joined, scope_of, scope_of_files
from tablefmt.operations.rows import Change, change_rows, flagged, rewrite, select, take_out
from tablefmt.operations.staging import Stage
from tablefmt.operations.target import Target, target_of

MINOR, MAJOR, CLUSTER = (
    OperationClass.MINOR_COMPACT,
    OperationClass.MAJOR_COMPACT,
    OperationClass.CLUSTER,
)

Choose = Callable[[pa.Table], Iterable[Sequence[int]]]
"""The live files of a snapshot; gives the groups to compact, as ids in the order of their rows."""


def update(where: str, change: Change, columns: Sequence[str]) -> Stage:
    """UPDATE … SET `columns` WHERE; `change` gives the new rows for the old ones."""

    def stage(pinned: Pinned) -> Plan:
        schema = pinned.metadata.schema
        target = target_of(where, schema)
        selected = select(pinned, target)
        taken = take_out(pinned, selected, updated=True)
        return Plan(
            transaction=pinned.transaction,
            operation=Operation(name="UPDATE", cls=OperationClass.UPDATE),
            scope=_write_scope(pinned, target, columns),
            predicate=target.text,
            written_under=pinned.metadata,
            read_version=pinned.version,
            add=joined([taken.added, change_rows(pinned, selected, change)]),
            reads=(target.read(selected.files, selected.rows),),
            removes=taken.removes,
            deletes=taken.deletes,
            carried=taken.carried,
            update=RowUpdate(set=_ids(pinned, columns)),
        )

    return stage


def merge(source: pa.Table, key: str, where: str | None = None) -> Stage:
    """MERGE ON t.key = s.key [AND where]: matched rows get the source's `v`, others are inserted.

    `where` is over the target.
    """

    def stage(pinned: Pinned) -> Plan:
        schema = pinned.metadata.schema
        wanted = ", ".join(map(str, source[key].to_pylist()))
        on = f"{key} IN ({wanted})"
        target = target_of(on if where is None else f"({where}) AND {on}", schema)
        selected = select(pinned, target)
        taken = take_out(pinned, selected, updated=True)
        known: set[int] = set()

        def change(rows: pa.Table) -> pa.Table:
            known.update(rows[key].to_pylist())
            at = pc.index_in(rows[key], source[key].combine_chunks())
            return rows.set_column(rows.column_names.index("v"), "v", source["v"].take(at))

        updated = change_rows(pinned, selected, change)
        new = source.filter(pc.invert(pc.is_in(source[key], pa.array(known, pa.int64()))))
        inserted = pinned.write(new.to_reader()) if new.num_rows else None
        column = schema.find(key)
        assert column is not None
        return Plan(
            transaction=pinned.transaction,
            operation=Operation(name="MERGE", cls=OperationClass.UPDATE),
            scope=_write_scope(
                pinned, target, pinned.metadata.partition_names if where is None else ()
            ),
            predicate=target.text,
            written_under=pinned.metadata,
            read_version=pinned.version,
            add=joined(
                [taken.added, updated, _with_keys(pinned, inserted, new, key) if inserted else None]
            ),
            reads=(
                replace(
                    target.read(selected.files, selected.rows),
                    keys=Keys((column.id,), _hashes(pinned, source, key)),
                ),
            ),
            removes=taken.removes,
            deletes=taken.deletes,
            carried=taken.carried,
            update=RowUpdate(set=_ids(pinned, ["v"]), keys=(column.id,)),
        )

    return stage


def compact(cls: OperationClass, choose: Choose, sort: Change | None = None) -> Stage:
    """One commit of a MINOR or MAJOR compaction, or with `sort` of a clustering."""

    def stage(pinned: Pinned) -> Plan:
        parts: list[AddedFiles | None] = []
        groups: list[Group] = []
        first = 0
        for ids in choose(pinned.snapshot.files):
            added, outputs = rewrite(pinned, ids, sort)
            groups.append(Group(np.array(sorted(ids), np.int64), tuple(enumerate(outputs, first))))
            parts.append(added)
            first += len(outputs)
        inputs = [file for group in groups for file in group.inputs.tolist()]
        files = pinned.snapshot.files
        chosen = files.filter(pc.is_in(files["id"], pa.array(inputs, pa.int64())))
        return Plan(
            transaction=pinned.transaction,
            operation=Operation(name="OPTIMIZE", cls=cls),
            scope=scope_of_files(chosen, pinned.metadata),
            written_under=pinned.metadata,
            read_version=pinned.version,
            add=joined(parts),
            groups=tuple(groups),
        )

    return stage


def _write_scope(pinned: Pinned, target: Target, columns: Iterable[str]) -> Scope:
    """Where rows are read and written: all, if the new ones may be in other partitions."""
    moves = not set(pinned.metadata.partition_names).isdisjoint(columns)
    return None if moves else scope_of(target.predicate, pinned.metadata)


def _ids(pinned: Pinned, columns: Sequence[str]) -> tuple[int, ...]:
    return tuple(sorted(f.id for f in pinned.metadata.schema.fields if f.name in columns))


def _with_keys(pinned: Pinned, added: AddedFiles, rows: pa.Table, key: str) -> AddedFiles:
    """Every file gets the keys of all of them: more than it holds is allowed (ADD-8)."""
    text = encode_hashes(_hashes(pinned, rows, key))
    plain = flagged(added, updated=False)
    return AddedFiles({**plain.columns, "keys": [text] * len(plain)})


def _hashes(pinned: Pinned, rows: pa.Table, key: str) -> NDArray[np.uint64]:
    column = pinned.metadata.schema.find(key)
    assert column is not None
    return hash_keys([rows[key].combine_chunks()], [column.type])
