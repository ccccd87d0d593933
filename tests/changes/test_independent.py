"""Row changes beside those that a reader derives which shares no code, from the bare files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import logdump
import pyarrow.parquet as pq
import pytest

from tests.changes.histories import History

Counted = Counter[tuple[str, int]]


def by_hand(uri: str, changes: list[dict[str, Any]]) -> Counted:
    """Return the change type and the key of each row. Every file has the key under that name."""
    rows: Counted = Counter()
    for change in changes:
        keys = pq.read_table(f"{uri}/{change['path']}", columns=["k"])["k"].to_pylist()
        for first, end in change["rows"]:
            rows.update((change["type"], key) for key in keys[first:end])
    return rows


def difference(rows: Counted) -> Counted:
    """Keys that went and did not come as often, and the other way."""
    went, came = (
        Counter({key: n for (kind, key), n in rows.items() if kind == wanted})
        for wanted in ("delete", "insert")
    )
    left = {("delete", key): n for key, n in (went - came).items()}
    return Counter(left | {("insert", key): n for key, n in (came - went).items()})


@pytest.mark.parametrize("seed", range(20, 24))
def test_every_commit_did_what_another_reader_says(seed: int, tmp_path: Path) -> None:
    """INC-3, INC-5: rows, and the type of each."""
    uri = str(tmp_path / "t")
    history = History(seed, uri).run(14)
    document = logdump.read(uri, changes=True)
    assert document["findings"] == []
    rows = {version: Counter[tuple[str, int]]() for version in range(len(history.versions))}
    answer = history.table.changes(starting_version=0).to_arrow()
    for row in answer.to_pylist():
        rows[row["_commit_version"]][row["_change_type"], row["k"]] += 1
    for entry in document["entries"]:
        expected, actual = by_hand(uri, entry["changes"]), rows[entry["version"]]
        if entry["entry"]["operation"]["name"] == "RESTORE":
            expected, actual = difference(expected), difference(actual)
        assert actual == expected, entry["version"]
