"""Parallel execution of jobs with ordered results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_J = TypeVar("_J")
_R = TypeVar("_R")


def side_by_side(work: Callable[[_J], _R], jobs: Iterator[_J], most: int) -> Iterator[_R]:
    """Yield the results in order; at most `most` jobs run at once, each in a thread.

    If a job fails, running jobs finish before the exception is raised. A single job uses no thread.
    """
    first, second = next(jobs, None), next(jobs, None)
    if first is None or second is None:
        yield from map(work, () if first is None else (first,))
        return
    with ThreadPoolExecutor(most) as pool:
        running = deque([pool.submit(work, first), pool.submit(work, second)])
        del first, second
        for job in jobs:
            if len(running) >= most:
                yield running.popleft().result()
            running.append(pool.submit(work, job))
            del job
        while running:
            yield running.popleft().result()
