"""The check of many paths at once gives the same result as KEY-2 for each."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tablefmt.log.object_names import first_path_problem, path_problem

OWN = "data/" + "0" * 32 + "/0-0.parquet"
PATHS = [
    OWN, "data/a", "data/", "data", "datax", "data/a/", "data/../a", "data/..", "data/.", "data/.a",
    "data/a..b", "data/a/..", "data//a", "/data/a", "", "a", "data/a\\b", "data/a\nb",
    "data/a\x7fb", "data/a\x85b", "data/a\x00b", "data/é", "data/e\u0301", "data/" + "x" * 1019,
    "data/" + "x" * 1020, "data/" + "é" * 510, "data/" + "é" * 505, "s3://b/data/a", "Data/a",
    "data/a/./b", None,
]  # fmt: skip


def assert_told(paths: list[str | None], lead: int = 0) -> None:
    array = pa.array([*[OWN] * lead, *paths], pa.string()).slice(lead)
    found = first_path_problem(pa.chunked_array([array]))
    problems = [problem for problem in map(path_problem, paths) if problem]
    assert (found is None) == (not problems)
    assert found is None or problems[0] in found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("lead", [0, 3])
def test_one_path_is_refused_alone_and_among_others(path: str | None, lead: int) -> None:
    assert_told([path], lead)
    assert_told([OWN, path, OWN], lead)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, pytest.param(3_000, marks=pytest.mark.soak)])
def test_any_text_is_told_apart_as_by_itself(count: int) -> None:
    chance = random.Random(3)
    for _ in range(count):
        text = "".join(chance.choice("a./\\é\n-") for _ in range(chance.randrange(8)))
        assert_told(["data/" + text, text], chance.randrange(3))


def test_bytes_that_are_no_text() -> None:
    """Parquet returns the bytes as text, and Arrow does not check them."""
    offsets = pa.py_buffer(b"\x00\0\0\0\x08\0\0\0")
    bad = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"data/\xff\xfea")])
    problem = first_path_problem(pa.chunked_array([bad]))
    assert problem is not None
    assert "Unicode" in problem
