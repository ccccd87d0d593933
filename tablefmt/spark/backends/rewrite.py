"""Rows of a query written under a transaction's folder, whoever writes them."""

from __future__ import annotations

from collections.abc import Sequence

from tablefmt.session.measurements import REWRITE
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.backends.base import Destination, Rewritten
from tablefmt.spark.backends.choice import backend_for
from tablefmt.spark.backends.layout import session_layout
from tablefmt.spark.options import WriteOptions
from tablefmt.spark.runtime.frames import DataFrame, Session


def rewrite(
    spark: Session,
    pinned: TransactionSnapshot,
    frame: DataFrame,
    names: Sequence[str],
    options: WriteOptions,
    part: str = "u",
) -> Rewritten:
    """Run a query; its rows go to files under the transaction's folder, durably (ADD-5).

    Args:
        spark: the session.
        pinned: the version, and where the files go.
        frame: the table's columns by name, and those of `names`.
        names: of FILE, ROW, SOURCE, ACTION, those there are.
        options: how the files are written.
        part: names the folder below the transaction's: one for every call.

    Raises:
        SchemaMismatchError: DAT-2. ConstraintViolationError: DAT-3. CommitRejectedError: the files
        are not all that Spark wrote. Spark's own exceptions if the query fails. The files stay.
    """
    layout = session_layout(spark, options.files, pinned.target, pinned.view.head)
    to = Destination(pinned.transaction, pinned.target, layout)
    backend = backend_for(spark, pinned.store)
    with pinned.measured.timed(REWRITE):
        return backend.rewrite_rows(frame, to, names, part)
