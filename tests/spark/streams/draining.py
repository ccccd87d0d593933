"""A stream that is read to its end, batch by batch, by Spark."""

from __future__ import annotations

from typing import Any


def drain(frame: Any, checkpoint: Any, **trigger: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of every batch that a query over a stream runs, sorted; it ends by itself.

    Args:
        frame: of `spark.readStream`.
        checkpoint: a folder; of an earlier query: it goes on.
        trigger: by default availableNow=True.
    """
    batches: list[list[tuple[Any, ...]]] = []

    def take(rows: Any, number: int) -> None:
        batches.append(sorted(map(tuple, rows.collect()), key=repr))

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(**(trigger or {"availableNow": True})).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return batches
