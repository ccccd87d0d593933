"""Tables whose rows are deleted and moved, staged entry by entry, beside a plain model.

The model alone decides the content of a version, in lists and sets. It uses nothing of the package.

The model holds files and positions; the rows of a version follow from them. It knows no statement:
a test itself chooses the deleted positions and the runs that move. The model of statements is
`tablefmt.testing.reference_model`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

import tablefmt
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import write_deletes
from tablefmt.model.log_entry import (
    NOT_LOGICAL,
    AddedFiles,
    Basis,
    Entry,
    Lineage,
    Operation,
    OperationClass,
    RowUpdate,
    Totals,
)
from tablefmt.model.positions import DeletionVector, encode_positions, row_deletes

Row = tuple[int, int]
Positions = tuple[Sequence[int], Sequence[int]]
"""Deleted, and updated."""
Run = tuple[int, int, int, int, Sequence[int]]
"""Output, input, start, rows, dropped."""

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])

_numbers = itertools.count(1)


class StagedTable:
    """A table and its model."""

    def __init__(self, uri: str) -> None:
        self.table = tablefmt.create(uri, SCHEMA)
        self.store = self.table.context.store
        self.content: dict[int, list[Row]] = {}
        """Rows of every file ever, by id."""
        self.gone: dict[int, set[int]] = {}
        """Positions of every file ever."""
        self.live: list[int] = []
        self.sizes: dict[int, int] = {}
        self.versions: list[list[Row]] = [[]]
        """Rows of each version, in the order of files and positions."""

    def rows(self, file: int) -> list[tuple[int, Row]]:
        """Positions and rows that a file still has."""
        kept = enumerate(self.content[file])
        return [(p, row) for p, row in kept if p not in self.gone[file]]

    def commit(
        self,
        cls: OperationClass,
        add: Sequence[Sequence[Row]] = (),
        remove: Sequence[int] = (),
        marks: Mapping[int, Positions] | None = None,
        *,
        lineage: Sequence[Run] = (),
        updated: Sequence[bool] | None = None,
        side: bool = False,
        update: RowUpdate | None = None,
    ) -> Entry:
        """Write the next entry, and bring the model forward."""
        head = self.table.context.view.head
        transaction = f"{next(_numbers):032x}"
        added = self._files(transaction, add, updated)
        for file in remove:
            self.live.remove(file)
        first = head.totals.next_id
        for at, rows in enumerate(add):
            self.live.append(first + at)
            self.content[first + at], self.gone[first + at] = list(rows), set()
            self.sizes[first + at] = added.columns["size"][at] if added else 0
        for file, (deleted, changed) in (marks or {}).items():
            if file in self.live:
                self.gone[file] |= {*deleted, *changed}
        found = row_deletes(
            {f: DeletionVector(BitMap64(d), BitMap64(u)) for f, (d, u) in (marks or {}).items()}
        )
        moves = cls in NOT_LOGICAL
        entry = Entry(
            table=head.table,
            version=head.version + 1,
            timestamp=head.timestamp + 1,
            time_version=head.time_version if moves else head.timestamp + 1,
            transaction=transaction,
            previous=head.digest,
            operation=Operation(name=cls.value, cls=cls),
            basis=Basis(
                read_version=head.version,
                isolation="WriteSerializable",
                granularity="row",
                blind=False,
            ),
            totals=Totals(
                files=len(self.live),
                rows=sum(len(self.content[f]) for f in self.live),
                bytes=sum(self.sizes[f] for f in self.live),
                next_id=first + len(add),
                metadata_version=0,
                deleted=sum(len(self.gone[f]) for f in self.live),
            ),
            add=added,
            remove=sorted(remove),
            delete=write_deletes(self.store, transaction, found) if side and found else found,
            lineage=lineage_of(lineage) if lineage else None,
            update=update,
        )
        self.store.put_if_absent(entry_key(entry.version), encode(entry))
        self.versions.append([row for file in self.live for _, row in self.rows(file)])
        self.table.refresh()
        return entry

    def _files(
        self, transaction: str, add: Sequence[Sequence[Row]], updated: Sequence[bool] | None
    ) -> AddedFiles | None:
        if not add:
            return None
        columns: dict[str, list[Any]] = {
            name: [] for name in ("path", "size", "rows", "lower.1", "upper.1", "nulls.1")
        }
        for at, rows in enumerate(add):
            path = f"data/{transaction}/{at}.parquet"
            sink = pa.BufferOutputStream()
            ids, values = zip(*rows, strict=True)
            # Small row groups: some are skipped, and positions have to count them.
            pq.write_table(pa.table([ids, values], SCHEMA), sink, row_group_size=2)
            body = sink.getvalue().to_pybytes()
            self.store.put(path, body)
            of_file = (path, len(body), len(rows), min(ids), max(ids), 0)
            for name, value in zip(columns, of_file, strict=True):
                columns[name].append(value)
        if updated is not None:
            columns["updated"] = list(updated)
        return AddedFiles(columns)


def lineage_of(runs: Sequence[Run]) -> Lineage:
    """The runs as an entry has them."""
    outputs, inputs, starts, rows, dropped = zip(*runs, strict=True)
    texts = [encode_positions(BitMap64(d)) if d else None for d in dropped]
    return Lineage(list(outputs), list(inputs), list(starts), list(rows), texts)
