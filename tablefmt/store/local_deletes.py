"""Removal of files, folder by folder, with one fsync for each folder. Spec: STO-7."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

from tablefmt.store.local_errors import explain
from tablefmt.store.local_files import Directories

_THREADS = 8


def remove_many(directories: Directories, keys: Sequence[str]) -> dict[str, str]:
    """Remove files by their keys. Return the keys that remain, each with the reason."""
    by_folder = [
        (folder, [key.rpartition("/")[2] for key in group])
        for folder, group in groupby(sorted(keys), lambda key: key.rpartition("/")[0])
    ]
    with ThreadPoolExecutor(max(1, min(_THREADS, len(by_folder)))) as pool:
        results = pool.map(lambda each: remove_names(directories, *each), by_folder)
        return {key: explain(error) for failures in results for key, error in failures.items()}


def remove_names(directories: Directories, folder: str, names: Sequence[str]) -> dict[str, OSError]:
    """Remove files of one folder; absent files are fine. Return the errors by key."""
    keys = [f"{folder}/{name}" if folder else name for name in names]
    failures: dict[str, OSError] = {}
    try:
        directory = directories.open(folder, create=False)
    except FileNotFoundError:
        return failures
    except OSError as error:
        return dict.fromkeys(keys, error)
    for key, name in zip(keys, names, strict=True):
        try:
            os.unlink(name, dir_fd=directory.fd)
        except FileNotFoundError:
            continue
        except OSError as error:
            failures[key] = error
    try:
        os.fsync(directory.fd)
    except OSError as error:
        return dict.fromkeys(keys, error)
    return failures
