"""Distribution of the tests over the processes of `pytest -n 2 --dist loadfile`, and their order.

One process has Spark's session and everything that uses it: a second one costs a JVM that has to
warm up. The other begins with the files that take longest, so that neither is left alone at the
end with a long one.
"""

from __future__ import annotations

from binascii import crc32
from collections import defaultdict
from functools import cache

import pytest
from hypothesis import is_hypothesis_test, settings
from xdist.scheduler import LoadFileScheduling

ADDRESS = " at 0x"
SESSION = "tests/spark/"
CONNECT = "tests/spark/connect/"
TOGETHER = (CONNECT, "tests/architecture/")
"""Folders whose files are one piece: a Connect server, and syntax trees of all modules."""
LONG = (
    CONNECT,
    "tests/spark/s3/test_leaks.py",
    "tests/spark/cluster/",
    "tests/documents/",
    # From here on 25 seconds of processor time to 4.
    "tests/system/transactions/test_random_histories.py",
    "tests/system/transactions/test_cells_file_and_row.py",
    "tests/system/simulation/test_rules_under_faults.py",
    "tests/store/test_s3_answers.py",
    "tests/store/test_contract.py",
    "tests/store/test_open_probe_wrap.py",
    "tests/conflict/test_serialisability.py",
    "tests/snapshot/test_deletes.py",
    "tests/system/stateful/",
    "tests/expressions/test_file_pruning.py",
    "tests/expressions/test_arrow_to_predicate.py",
    "tests/expressions/test_predicate.py",
    "tests/system/transactions/",
    "tests/system/simulation/",
    "tests/operations/test_identity_columns.py",
    "tests/operations/test_merge_differential.py",
    "tests/table/test_special_names.py",
    "tests/session/test_fingerprint.py",
    "tests/store/",
    "tests/conflict/test_lineage.py",
    "tests/data/",
    "tests/spec/",
)
"""Slow files that do not use the session, the slowest first.

All other files are so quick that both processes end at about the same time.
"""


class OneSession(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
    """Distributes whole files. All that use the session are one piece, and so is a folder of
    `TOGETHER`.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = path_of(nodeid)
        if rank(path) == 0:
            return SESSION
        return next((folder for folder in TOGETHER if path.startswith(folder)), path)


NO_ORACLE = pytest.StashKey[bool]()
"""True for a test whose tables the oracle does not read."""
ORACLE_SHARE = 4


def leave_to_the_soak(items: list[pytest.Item]) -> None:
    """Mark the parameters that only the soak runs: all but one in n, where a test has `share(n)`.

    The choice is by a hash: it is the same in every run. Each function keeps at least one. Of the
    parameters that run, the oracle reads the tables of one in `ORACLE_SHARE`.
    """
    functions = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("soak"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for of_one in functions.values():
        of_one.sort(key=lambda item: crc32(item.nodeid.encode()))
        mark = of_one[0].get_closest_marker("share")
        kept = -(-len(of_one) // mark.args[0]) if mark else len(of_one)
        for item in of_one[kept:]:
            item.add_marker("soak")
        for item in of_one[-(-kept // ORACLE_SHARE) : kept]:
            item.stash[NO_ORACLE] = True


FEWER = 4


def few(count: int) -> int:
    """Return how many of `count` random examples run at each change."""
    return -(-count // FEWER)


def examples(count: int) -> settings:
    """Return settings for random examples: `count` in the soak, a quarter at each change.

    A change has the same examples as every other. The soak has new ones in each run.
    """
    same = settings.get_profile("fixed") is settings.default
    return settings(max_examples=few(count) if same else count, deadline=None)


def add_to_the_soak(items: list[pytest.Item]) -> None:
    """Mark tests of random examples, for a run of the soak."""
    for item in items:
        if is_hypothesis_test(getattr(item, "function", None)):
            item.add_marker("soak")


def without_address(value: object) -> str:
    """Return a text of a value for `ids=`, the same in every process."""
    return str(value).partition(ADDRESS)[0][:60]


def path_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@cache
def rank(path: str) -> int:
    """Return the position of a file in the order of a run. Files with the session come first."""
    for place, beginning in enumerate(LONG, 1):
        if path.startswith(beginning):
            return place
    return 0 if path.startswith(SESSION) else len(LONG) + 1
