"""Pipes on a Connect session: the same rows, the same cursor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tablefmt
import tablefmt.spark


def test_a_pipe_appends_and_merges(connect: Any, tmp_path: Path) -> None:
    """PIP-1, PIP-4, PIP-5: first runs and later ones, in turn with Arrow."""
    here = tablefmt.create(tmp_path / "here", "id BIGINT, v STRING")
    here.append({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    appended, merged = str(tmp_path / "appended"), str(tmp_path / "merged")
    pipe = tablefmt.spark.pipe(connect, here, where="id < 100")
    assert pipe.into(appended).rows == 3
    assert pipe.into(merged, keys="id").rows == 3
    here.update({"v": "'x'"}, "id = 1")
    here.delete("id = 2")
    here.append({"id": [4, 400], "v": ["d", "e"]})
    assert pipe.into(appended).rows == 2
    assert pipe.into(merged, keys="id").rows == 3
    rows = tablefmt.open(merged).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "v": "x"}, {"id": 3, "v": "c"}, {"id": 4, "v": "d"}]
    found = sorted(tuple(row.values()) for row in tablefmt.open(appended).to_arrow().to_pylist())
    assert found == [(1, "a"), (1, "x"), (2, "b"), (3, "c"), (4, "d")]
    assert tablefmt.pipe(here).into(appended).commit.no_op
