"""Names of objects, and the check of many paths at once, which is that of KEY-2 for each."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tablefmt.log.object_names import (
    PATH_BYTES_MAX,
    VERSION_MAX,
    _are_plain,
    entry_key,
    entry_version,
    first_path_problem,
    imported_path_problem,
    log_segment_key,
    log_segment_range,
    path_problem,
    root_key,
    root_version,
    shared_folder_key,
    shared_folder_transaction,
)

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
    assert_told([path, OWN], lead)


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


NONCE = "0123456789abcdef" * 2


def test_names_hold_their_numbers_up_to_the_last_version() -> None:
    """KEY-1, CKP-1, HIS-1."""
    for version in (0, 1, VERSION_MAX - 1, VERSION_MAX):
        assert entry_version(entry_key(version)) == version
        assert root_version(root_key(version, NONCE)) == version
        assert log_segment_range(log_segment_key(version // 2, version)) == (version // 2, version)
    for version in (-1, VERSION_MAX + 1):
        with pytest.raises(ValueError, match="not between"):
            entry_key(version)
    beyond = f"{VERSION_MAX + 1:020d}"
    assert entry_version(f"_log/{beyond}.json") is None
    assert root_version(f"_log/checkpoints/{beyond}.{NONCE}.json") is None
    digits = "\u0663" * 20
    assert entry_version(f"_log/{digits}.json") is None
    assert root_version(f"_log/checkpoints/{digits}.{NONCE}.json") is None
    assert log_segment_range(f"_log/history/{digits}-{digits}.jsonl.gz") is None


def test_a_file_in_a_shared_folder_names_its_transaction() -> None:
    key = shared_folder_key("f" * 32, NONCE)
    assert shared_folder_transaction(key) == NONCE
    assert shared_folder_transaction(OWN) is None


IMPORTED = {
    "a": None,
    "year=1/a.parquet": None,
    "data/a": None,
    "_a": "starts with '.'",
    "a/.b": "starts with '.'",
    ".a=1/b": "starts with '.'",
    "a/_b=1/c": None,
    "_b=1/c": None,
    "deletes/a": "'deletes' is a folder",
    "metadata/a": "'metadata' is a folder",
    "a/deletes/b": None,
    "a//b": "empty",
    "a/../b": "starts with",
    "": "empty",
    "x" * PATH_BYTES_MAX: "longer than",
    "x" * (PATH_BYTES_MAX - 5): None,
    "data/" + "x" * (PATH_BYTES_MAX - 5): None,
    "data/" + "x" * (PATH_BYTES_MAX - 4): "longer than",
}


@pytest.mark.parametrize("path", [pytest.param(path, id=path[:20]) for path in IMPORTED])
def test_paths_of_imported_files(path: str) -> None:
    """IMP-1: alone, and among files of the table's own."""
    expected, problem = IMPORTED[path], imported_path_problem(path)
    assert problem is None if expected is None else expected in (problem or "")
    paths, numbers = pa.chunked_array([[OWN, path, OWN]]), pa.chunked_array([[None, 1, None]])
    found = first_path_problem(paths, numbers)
    assert found is None if problem is None else problem in (found or "")


def test_a_path_that_is_no_text_is_refused() -> None:
    assert path_problem(7) == imported_path_problem(7) == "it is not text"


def test_plain_names_are_checked_together() -> None:
    """KEY-2: a check of each name by itself is left to arrays with an odd one."""
    plain = pa.array([OWN] * 3 + ["data/a b", "data/a~"], pa.string())
    assert _are_plain(plain)
    assert _are_plain(plain.slice(3))
    for odd in ("data/é", "data/a\x7fb", "data/a\x1fb", "data/.a", "data/a/", "a", "", None):
        assert not _are_plain(pa.array([OWN, odd], pa.string())), odd
    assert not _are_plain(pa.array([], pa.string()))
    assert not _are_plain(pa.array(["data/" + "x" * 1020], pa.string()))
