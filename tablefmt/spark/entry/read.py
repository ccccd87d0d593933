"""Reading a table as a Spark DataFrame that stays at the version it was made at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.model.times import Time
from tablefmt.spark.runtime.frames import DataFrame, Session
from tablefmt.spark.statements.open_logs import open_context
from tablefmt.spark.statements.snapshots import read_at
from tablefmt.store.open import open_store


def read(
    spark: Session,
    uri: str,
    *,
    version: int | None = None,
    timestamp: Time | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The table as a DataFrame, scanned in Spark's tasks and pinned to one version.

    It stays at that version over Spark Connect too, where `format("tablefmt")` without a version is
    analysed anew for every action (spec/decisions/0005).

    Args:
        spark: a session, classic or Connect.
        uri: where the table is.
        version: the ID version to read; by default the newest there is now.
        timestamp: or a point in time: an aware datetime, or ISO text, which without a zone is in
            the session's time zone. TIM-4, TIM-5.
        storage_options: as `tablefmt.open`.

    Raises:
        TableNotFoundError, CorruptTableError: as `tablefmt.open`.
        VersionNotFoundError, InvalidRangeError: no such version or time.
        UnsupportedFeatureError: it needs a newer reader (ENT-7); memory://, which Spark's workers
            cannot see.
        StoreError: an address or an option that makes no sense, or no answer.
    """
    return read_at(spark, open_context(open_store(uri, storage_options)), version, timestamp)
