"""All metrics of one commit of each kind, but for times and requests."""

from __future__ import annotations

import tablefmt
from tablefmt.commit.transaction_plan import _retention_horizon
from tablefmt.model.log_entry import LogRetentionHorizon, RetentionHorizon
from tests.tables import memory, rows


def counted(commit: tablefmt.Commit) -> dict[str, int]:
    """Return the metrics that count files, rows and bytes, with bytes as numbers of files."""
    return {
        name: value
        for name, value in commit.metrics.items()
        if not name.endswith(("Ms", "Requests", "Waits"))
    }


def test_a_horizon_that_a_concurrent_commit_passed() -> None:
    """RET-5, RET-9: no further version is given up, but entries of the log may be."""
    log = LogRetentionHorizon(3, "0" * 64, ())
    assert _retention_horizon(None, 5) is None
    assert _retention_horizon(RetentionHorizon(7), 5) == RetentionHorizon(7)
    assert _retention_horizon(RetentionHorizon(7, log), 5) == RetentionHorizon(7, log)
    for given in (4, 5):
        assert _retention_horizon(RetentionHorizon(given), 5) is None
        assert _retention_horizon(RetentionHorizon(given, log), 5) == RetentionHorizon(5, log)


def test_metrics_of_every_kind() -> None:
    table = tablefmt.create(memory().uri, rows().schema)
    one = counted(table.append(rows(1, 2, 3)))
    (size,) = table.scan().files()["size"].to_pylist()
    assert one == {
        "numFiles": 1,
        "numOutputRows": 3,
        "numOutputBytes": size,
        "numAddedFiles": 1,
        "numRemovedFiles": 0,
    }
    deleted = counted(table.delete("id = 2"))
    files = {name: n for name, n in deleted.items() if "Files" in name or "Bytes" in name}
    assert files == {
        "numAddedFiles": 0,
        "numAddedBytes": 0,
        "numRemovedFiles": 0,
        "numRemovedBytes": 0,
    }
    assert (deleted["numOutputRows"], deleted["numDeletedRows"]) == (0, 1)
    table.append(rows(4))
    gone = sum(table.scan().files()["size"].to_pylist())
    replaced = counted(table.overwrite(rows(5, 6)))
    (size,) = table.scan().files()["size"].to_pylist()
    assert replaced == {
        "numFiles": 1,
        "numOutputRows": 2,
        "numOutputBytes": size,
        "numAddedFiles": 1,
        "numRemovedFiles": 2,
        "numRemovedBytes": gone,
        "numDeletedRows": 3,
    }
    table.append(rows(7))
    (size, more) = table.scan().files()["size"].to_pylist()
    back = counted(table.restore(version=4))
    assert back == {
        "tableSizeAfterRestore": size,
        "numOfFilesAfterRestore": 1,
        "numRestoredFiles": 0,
        "restoredFilesSize": 0,
        "numRemovedFiles": 1,
        "removedFilesSize": more,
        "numRemovedBytes": more,
    }
    table.delete("true")
    (added,) = table.scan(version=6).files()["size"].to_pylist()
    assert counted(table.restore(version=6)) == {
        "tableSizeAfterRestore": added,
        "numOfFilesAfterRestore": 1,
        "numRestoredFiles": 1,
        "restoredFilesSize": added,
        "numRemovedFiles": 0,
        "removedFilesSize": 0,
        "numAddedFiles": 1,
        "numFiles": 1,
        "numOutputBytes": added,
        "numOutputRows": 2,
    }
