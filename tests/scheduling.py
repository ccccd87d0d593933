"""Which process of `pytest -n 2 --dist loadfile` runs what, and in which order.

One process has Spark's session and everything that uses it: a second one costs a JVM that has to
warm up. The other begins with the files that take longest, so that neither is left alone at the
end with a long one.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

SESSION = "tests/spark/"
CONNECT = "tests/spark/connect/"
LONG = (
    CONNECT,
    "tests/spark/s3/test_leaks.py",
    "tests/spark/cluster/",
    "tests/documents/",
    "tests/demo/",
    "tests/system/simulation/",
    "tests/system/stateful/",
    "tests/system/transactions/",
)
"""What takes long and does not use the session, the longest first."""


class OneSession(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
    """By file, but what uses the session is one piece, and so is what uses the Connect server."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if rank(path) == 0:
            return SESSION
        return CONNECT if path.startswith(CONNECT) else path


def rank(path: str) -> int:
    """Where a file stands in the order of a run: what uses the session is first."""
    for place, beginning in enumerate(LONG, 1):
        if path.startswith(beginning):
            return place
    return 0 if path.startswith(SESSION) else len(LONG) + 1
