"""A verb with its arguments, and the content that tells one call from another (CFL-7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablefmt.commit.plan import Staged
from tablefmt.model.entry import Metadata
from tablefmt.model.schema import Schema
from tablefmt.session.files import TransactionFiles
from tablefmt.session.fingerprint import ContentDigest, digest_of
from tablefmt.session.measurements import Measured
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.source import source_reader, without_handles
from tablefmt.store.clocks import Moment

Stage = Callable[[TransactionSnapshot], Staged]
"""Reads the pinned version, writes data files through it, and says what is to be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRows:
    """Rows that an engine reads and writes by itself: their values are not known here."""

    digest: str | None = None
    """Stands for their content: of a stream's batch. None: not known."""
    version_read: Callable[[TransactionSnapshot], int | None] = lambda pinned: None
    """Gives the version of the table that their query reads, all of it; None: it reads none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A verb with its arguments."""

    name: str
    stage: Callable[[TransactionSnapshot, Any], Staged]
    """Its work on the pinned version, and on the rows that it takes: a reader, or None."""
    text: Callable[[Metadata], tuple[str, ...]] = lambda metadata: ()
    """The rest of its text: all that decides what it does to a table with this metadata. Raises
    for what can be refused before any work."""
    takes_rows: bool = False
    source: Any = None
    """Where the rows come from, if it takes some: see `source_reader`."""
    replaces_columns: bool = False
    """The columns of the rows take the place of the table's."""
    engine: EngineRows | None = None
    """The rows of an engine, which `stage` takes by itself; None: it takes none of these."""
    files_of: Callable[[TransactionSnapshot], TransactionFiles] | None = None
    """Gives the files that an engine wrote; None: `stage` writes them in this process."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", without_handles(self.source))

    def rows(self, schema: Schema) -> pa.RecordBatchReader | None:
        """Return the rows that it takes, for a table of these columns; None if it takes none.

        Raises as `source_reader`.
        """
        if not self.takes_rows:
            return None
        return source_reader(self.source, None if self.replaces_columns else schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A transaction whose files were written before its statement is carried out."""

    transaction: str
    version: int
    """The one that it read."""
    measured: Measured | None = None
    """The measurement since then; None: another process began it."""
    began: Moment | None = None
    """When that was, if another process began it; None: not known."""


class Content:
    """What a statement was given: its text, and its rows as they are read."""

    def __init__(
        self,
        rows: pa.RecordBatchReader | None,
        text: tuple[str, ...],
        engine: EngineRows | None = None,
    ) -> None:
        self._text = text
        self._engine = engine
        self._digest = None if rows is None else ContentDigest()
        self.rows = rows if self._digest is None or rows is None else self._digest.through(rows)

    def digest(self) -> str | None:
        """Return the digest of text and rows, once all rows were read; None: not known."""
        if self._engine is not None:
            return self._engine.digest
        if self._digest is None:
            return digest_of(None, *self._text)
        return self._digest.of(*self._text)
