"""Reasons for which a commit may follow each concurrent one, or conflicts with it.

The judge is that of a commit: `ConflictResolver`. Nothing is written. Spec: CFL-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from tablefmt.commit.concurrent_commits import ConflictResolver
from tablefmt.commit.transaction_plan import Staged
from tablefmt.conflict.verdict import AlreadyApplied, Conflict, Overtaken
from tablefmt.data.arrow_results import ArrowReport
from tablefmt.model.log_entry import StoredEntry
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import plan_of_staged
from tablefmt.session.table_context import TableContext

CONCURRENT = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("transaction", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("rule", pa.string()),
        pa.field("cell", pa.string()),
        pa.field("error", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("evidence", pa.string()),
        pa.field("advice", pa.string()),
    ]
)
"""Columns about each concurrent commit. `cell` is the matrix rule, `error` the kind of the
exception, `evidence` JSON text about the files, rows and partitions that both commits touched.
"""


@dataclass(frozen=True, slots=True)
class CommitReport(ArrowReport):
    """Verdict on each commit since the version that a transaction read.

    `to_arrow` has a row for each of them: version, timestamp, operation, transaction, `verdict`,
    `rule`, `cell`, `error`, `reason`, `evidence`, `advice`.
    """

    uri: str
    operation: str
    """The operation of the transaction."""
    read_version: int
    verdict: str
    """The verdict that decides: "may_follow" if the transaction can commit now."""
    commits: pa.Table = field(repr=False)

    def to_arrow(self) -> pa.Table:
        """Return a row for each concurrent commit, in the order of versions."""
        return self.commits

    def __str__(self) -> str:
        count = number_of(self.commits.num_rows, "concurrent commit")
        lines = [
            f"{self.uri}: {self.operation} of read version {self.read_version} met {count}: "
            f"{self.verdict.replace('_', ' ')}"
        ]
        for row in self.commits.to_pylist():
            facts = [row[name] for name in ("rule", "cell", "reason", "evidence") if row[name]]
            lines.append(
                f"  version {row['version']}, {row['operation']}: "
                f"{'; '.join([row['verdict'].replace('_', ' '), *facts])}"
            )
        return printable_lines(lines)


def commit_report(
    context: TableContext, staged: Staged, options: CommitOptions, digest: str | None
) -> CommitReport:
    """Return the verdicts on all commits after the version that a transaction read.

    Args:
        context: the table.
        staged: the work of the transaction, perhaps of one that has ended.
        options, digest: as for `commit_staged`.

    Raises:
        CorruptTableError, StoreError, TableReplacedError: the log cannot be read.
    """
    assert staged.read_version is not None
    plan = plan_of_staged(context, staged, options, digest, False, None)
    context.view.refresh()
    resolver = ConflictResolver(context.store, plan)
    entries = context.view.entries_after(staged.read_version)
    rows = list(_judged(resolver, entries, staged.transaction))
    decided = next((r["verdict"] for r in rows if r["verdict"] != "may_follow"), "may_follow")
    return CommitReport(
        uri=context.store.uri,
        operation=staged.operation.name,
        read_version=staged.read_version,
        verdict=decided,
        commits=pa.Table.from_pylist(rows, CONCURRENT),
    )


def _judged(
    resolver: ConflictResolver, entries: list[StoredEntry], own: str
) -> Iterator[dict[str, Any]]:
    """Yield a row for each concurrent commit: the verdict that the commit itself would reach."""
    decided = False
    for stored in entries:
        entry = stored.entry
        row: dict[str, Any] = {
            "version": entry.version,
            "timestamp": entry.timestamp,
            "operation": entry.operation.name,
            "transaction": entry.transaction,
        }
        if decided:
            # No commit is judged after the one that decides.
            yield row | {"verdict": "not_judged"}
            continue
        if entry.transaction == own:
            decided = True
            yield row | {"verdict": "committed"}
            continue
        verdict = resolver.judge(entry)
        decided = verdict is not None
        if isinstance(verdict, Conflict):
            yield row | {
                "verdict": "conflict",
                "rule": verdict.rule,
                "cell": verdict.cell,
                "error": verdict.error.kind,
                "reason": verdict.reason,
                "evidence": orjson.dumps(dict(verdict.evidence), default=str).decode(),
                "advice": verdict.advice or verdict.error.default_advice,
            }
        elif isinstance(verdict, AlreadyApplied):
            yield row | {"verdict": "already_applied"}
        else:
            assert verdict is None or isinstance(verdict, Overtaken)
            over = resolver.rebased_over[-1]
            name = "may_follow" if verdict is None else "overtaken"
            yield row | {"verdict": name, "rule": over.rule, "cell": over.cell}
