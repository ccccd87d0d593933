"""Entries of the troubleshooting page: one for each `kind` of error.

`tablefmt.errors` has the classes and their tree. This module explains the cause of each error, and
what to do. A test checks that no `kind` is missing.
"""

from __future__ import annotations

from typing import NamedTuple

from tablefmt import errors


class Advice(NamedTuple):
    """Cause and solution of errors of one `kind`."""

    kind: str
    cause: str
    action: str


GROUPS: dict[str, tuple[Advice, ...]] = {
    "Another commit was first": (
        Advice(
            "concurrent_modification",
            "Another commit landed first, and the rules do not allow both. This class is the base "
            "of the seven that follow; catch it to catch them all.",
            "Nothing was committed. Run the operation again: it starts from the newest version. If "
            "it uses values that you read, read them again first. `error.explain()` names the "
            "winning commit, the rule and what both touched.",
        ),
        Advice(
            "concurrent_append",
            "The winning commit added rows that may match what this operation read.",
            "Run the operation again: it then sees the new rows. If it happens often, narrow the "
            "condition, or partition by a column that separates the writers.",
        ),
        Advice(
            "concurrent_delete_read",
            "The winning commit deleted or updated a row that this operation read.",
            "Run the operation again. If two jobs change the same rows all the time, run them one "
            "after the other.",
        ),
        Advice(
            "concurrent_delete_delete",
            "Both operations remove the same rows or rewrite the same files.",
            "Run the operation again. Do not cluster partitions while other jobs update them.",
        ),
        Advice(
            "concurrent_write",
            "The table has `conflictGranularity` set to `transaction`, and both operations wrote "
            "the same partition.",
            "Run the operation again, or set `conflictGranularity` to `row`.",
        ),
        Advice(
            "metadata_changed",
            "The winning commit changed columns, properties, constraints or partitioning.",
            "Open the table again, adapt the rows to the new schema, and write again.",
        ),
        Advice(
            "protocol_changed",
            "The winning commit created, replaced or upgraded the table.",
            "Open the table again, and run the operation on it.",
        ),
        Advice(
            "concurrent_transaction",
            "Another writer with the same application id, pipe or streaming query committed "
            "concurrently.",
            "Run only one writer under one application id. If a job was started twice, the other "
            "run has done the work. Keep the checkpoint; the next run continues with what is left.",
        ),
    ),
    "The commit failed, or its outcome is unknown": (
        Advice(
            "commit_unknown",
            "The store gave no answer to the last request, so the commit may be in the table.",
            "Call `table.resolve(error.transaction, error.version)`. A `Commit` means that it is "
            "in the table. `None` means that it never will be; then write again. The error itself "
            "deletes no file of the commit.",
        ),
        Advice(
            "commit_rejected",
            "The store refused the write, or the deadline passed. Or the clock of this machine is "
            "more than 10 minutes ahead of the store's. Or the transaction took longer than half "
            "of `deletedFileRetentionDuration`, or an hour if that is longer.",
            "Nothing is in the table. Fix the permission, the disk, the clock, the deadline or the "
            "retention that the message names. Then run the operation again.",
        ),
    ),
    "The table, version or argument is wrong": (
        Advice(
            "table_not_found",
            "There is no table at this path, or it was dropped. `error.found` says what else is "
            "there, for example a Delta table.",
            "Check the path. Create the table with `tablefmt.create` or `tablefmt.write`.",
        ),
        Advice(
            "table_exists",
            "`create`, a clone, an import, or a write with mode `error` found an existing table.",
            "Open it with `tablefmt.open`, append with `tablefmt.write`, or pass `exist_ok=True` "
            "to `create` if the definition is the same. A clone replaces it with `replace=True`. "
            "An import needs another place.",
        ),
        Advice(
            "foreign_table",
            "The folder holds a table of another format, or data files of another program.",
            "Create the table in an empty folder. To use the files of a Parquet folder, a Delta or "
            "an Iceberg table in place, call `tablefmt.import_table`. Otherwise read the rows with "
            "a reader of that format, and pass them to `tablefmt.write`.",
        ),
        Advice(
            "export_blocked",
            "The copy of the table for Delta or Iceberg readers holds a commit that was not made "
            "from this table's log.",
            "Find the program that writes into `error.path`, and stop it. Then remove the copy's "
            "metadata and export again.",
        ),
        Advice(
            "version_not_found",
            "The version or the timestamp is outside the table's history, or has expired.",
            "Choose a version or a timestamp from `error.oldest` to `error.latest`.",
        ),
        Advice(
            "changes_expired",
            "Versions of the requested range have expired.",
            "Start at `error.earliest_version`, or read a full snapshot once. "
            '`changes(..., expired="snapshot")` does the second for you. To keep changes for '
            "longer, raise `deletedFileRetentionDuration`.",
        ),
        Advice(
            "invalid_range",
            "A version, a timestamp or a range is invalid. For example, the range ends before it "
            "begins, has two starts, or a string is not a timestamp.",
            "The message names the argument, its value and what was expected. The class is also a "
            "`ValueError`.",
        ),
        Advice(
            "invalid_argument",
            "Another argument or option is invalid: an unknown mode, a wrong type, two options "
            "that exclude each other.",
            "The message names the argument, its value and what was expected. Pass another value. "
            "The class is also a `ValueError`.",
        ),
        Advice(
            "unknown_argument",
            "A function does not take this argument. Often it is the name of another library, as "
            "`partitionBy` or `predicate`.",
            "Use the argument that the message suggests. The class is also a `TypeError`.",
        ),
        Advice(
            "invalid_predicate",
            "A condition or an expression cannot be parsed, or names a column that does not exist.",
            "Correct the text at the place that the message names. Use Spark's SQL dialect.",
        ),
    ),
    "The rows do not fit the table": (
        Advice(
            "schema_mismatch",
            "Columns are missing, unknown or of a type that the table's type cannot hold; or a "
            "schema or a property is invalid.",
            "`error.columns` names the columns. Pass `merge_schema=True` (Spark: `mergeSchema`) to "
            "add new columns.",
        ),
        Advice(
            "constraint_violation",
            "A row breaks NOT NULL or a CHECK, or the table is append-only.",
            "`error.constraint` and `error.row` name the constraint and one row. Correct the rows, "
            "or drop the constraint with `table.alter.drop_constraint`. For an append-only table, "
            'unset the property: `table.alter.unset_properties(["appendOnly"])`.',
        ),
        Advice(
            "merge_cardinality",
            "Several source rows of a MERGE would change the same target row.",
            "`error.keys` shows up to ten of them. Make the keys of the source unique first.",
        ),
        Advice(
            "idempotence",
            "An application version was used before, for other rows. A streaming query raises it "
            "if its checkpoint folder was restored to an older state.",
            "Use a new application id, or the next number. Give a stream with an old checkpoint a "
            "new checkpoint folder and a new target.",
        ),
        Advice(
            "transaction_state",
            "The transaction has ended, with or without success. Or it holds an operation that "
            "cannot share a commit.",
            "Begin a new transaction. One transaction holds several appends, or one other "
            "operation.",
        ),
    ),
    "Store errors and unsupported features": (
        Advice(
            "store",
            "The store refused or did not answer: credentials, bucket, network, disk.",
            "The message says which. `error.retryable` is true if the same request may succeed "
            "later without a change.",
        ),
        Advice(
            "unsafe_store",
            "The store does not create objects atomically, so two writers could overwrite each "
            "other's commits.",
            "Use a store that honours `If-None-Match: *` on PUT. See [S3 and other "
            "stores](guide/stores.md).",
        ),
        Advice(
            "unsupported_feature",
            "The table needs a newer tablefmt, or the call needs something that this version, its "
            "environment or this session does not have.",
            "`error.features` names it. The message says what to do instead: an extra to install, "
            "another call, an upgrade.",
        ),
    ),
    "The table is damaged": (
        Advice(
            "corrupt_table",
            "Stored bytes differ from what was written. This class is the base of the errors "
            "below.",
            "Stop writing to the table. Run `tablefmt verify URI --deep`, and restore the objects "
            "that it names from a backup.",
        ),
        Advice(
            "corrupt_entry",
            "A log entry is truncated, modified, or breaks a rule of the format.",
            "Restore the object that the message names from a backup. Never edit or "
            "delete an entry by hand.",
        ),
        Advice(
            "log_gap",
            "An entry is missing between two that exist.",
            "Find out what deletes objects below `_log/`, for example a lifecycle rule, and stop "
            "it. Then restore entry `error.missing` from a backup.",
        ),
        Advice(
            "lost_checkpoint",
            "A checkpoint is damaged, and the log entries that it replaces have expired.",
            "Restore the object that the message names from a backup.",
        ),
        Advice(
            "corrupt_data",
            "A data file is missing, has another length, or fails its checksums.",
            "Restore the file from a backup. If there is none, `tablefmt verify URI --deep` names "
            "the files, and `table.restore` can restore a version without them.",
        ),
        Advice(
            "table_replaced",
            "A different table is now at this path: the table was dropped and created again. Or "
            "the log was restored to an older state from a backup.",
            "Open the table again. For a stream, use a new checkpoint and a new target. For a "
            "pipe, use an empty target or another `name`.",
        ),
    ),
    "The base class": (
        Advice(
            "tablefmt",
            "`TablefmtError` is the base class of all errors of tablefmt.",
            "Catch it to catch them all; `error.kind` tells them apart.",
        ),
    ),
}
"""Groups of errors by what the reader does next, in the order of the page."""


def advice() -> dict[str, Advice]:
    """Return the advice by `kind`, one for each."""
    listed = [item for items in GROUPS.values() for item in items]
    found = {item.kind: item for item in listed}
    assert len(found) == len(listed), "a kind is listed twice"
    return found


def classes() -> dict[str, type[errors.TablefmtError]]:
    """Return the error classes of the package by `kind`."""
    found: dict[str, type[errors.TablefmtError]] = {}
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.TablefmtError):
            found[value.kind] = value
    return found


def sections() -> str:
    """Return the sections of the troubleshooting page, as Markdown."""
    known = classes()
    lines: list[str] = []
    for group, items in GROUPS.items():
        lines += [f"## {group}", ""]
        for item in items:
            name = known[item.kind].__name__
            lines += [
                f"### {name} {{ #{item.kind} }}",
                "",
                f"`kind`: `{item.kind}` · [reference](reference/errors.md#tablefmt.errors.{name})",
                "",
                f"**Cause.** {item.cause}",
                "",
                f"**What to do.** {item.action}",
                "",
            ]
    return "\n".join(lines)
