"""Partitionings of files by number, from spec/ alone (EVO)."""

from __future__ import annotations

import re
from typing import Any

from logdump.shapes import Json, Refusal, require

NUMBER = re.compile(r"(0|[1-9][0-9]{0,18})\Z")
Numbered = dict[int, list[int]]


def partitionings(metadata: Json) -> Numbered:
    """Return the ids of the fields of each partitioning by number (EVO-1)."""
    if "partitionings" not in metadata:
        return {0: metadata["partition_by"]}
    given = metadata["partitionings"]
    sound = isinstance(given, dict) and given and all(map(NUMBER.match, given))
    require(sound, "EVO-1", f"has the partitionings {given!r:.100}")
    lists = all(isinstance(ids, list) for ids in given.values())
    require(lists, "EVO-1", "has a partitioning that is no list of ids")
    return {int(number): ids for number, ids in given.items()}


def fields_in_order(metadata: Json) -> list[int]:
    """Return the ids of the fields of all partitionings, the current one first."""
    every = [i for ids in partitionings(metadata).values() for i in ids]
    return list(dict.fromkeys([*metadata["partition_by"], *sorted(every)]))


def current(metadata: Json) -> int:
    """Return the number of `partition_by` (EVO-1)."""
    keys = metadata["partition_by"]
    for number, ids in partitionings(metadata).items():
        if ids == keys:
            return number
    raise Refusal("EVO-1", "has a `partition_by` that is none of its partitionings")


def check_partitionings(metadata: Json, flat: set[int]) -> None:
    """Refuse partitionings that break EVO-1; `flat` has the ids of fields that may partition."""
    found = partitionings(metadata)
    for ids in found.values():
        sound = all(type(i) is int for i in ids) and len(set(ids)) == len(ids) and set(ids) <= flat
        require(sound, "EVO-1", f"has the partitioning {ids!r:.100}")
    sets = {frozenset(ids) for ids in found.values()}
    require(len(sets) == len(found), "EVO-1", "has a partitioning twice")
    current(metadata)


def numbers_of(add: Json, numbered: Numbered, now: int) -> list[int]:
    """Return the number of the partitioning of each file of an entry (EVO-2)."""
    given = add.get("partitioning", [None] * len(add["path"]))
    numbers = [now if number is None else number for number in given]
    unknown = set(numbers) - numbered.keys()
    require(not unknown, "EVO-2", f"adds files of unknown partitionings {sorted(unknown)}")
    return numbers


def partition_values(given: Json, ids: list[int]) -> Json:
    """Return the values of the fields that partition a file; refuse others (EVO-2)."""
    keys = {str(i) for i in ids}
    strange = [key for key, value in given.items() if value is not None and key not in keys]
    require(not strange, "EVO-2", f"has values of fields {strange} that do not partition the file")
    return {str(i): given[str(i)] for i in ids}


def check_kept(metadata: Json, before: Json, files: dict[int, Any]) -> None:
    """Refuse metadata that does not say how a file is partitioned that stays (ENT-8, EVO-1)."""
    now, then = partitionings(metadata), partitionings(before)
    alike = {n for n in now.keys() & then.keys() if set(now[n]) == set(then[n])}
    other = now.keys() & then.keys() != alike or not alike
    require(not (other and files), "ENT-8", "partitions by other columns, and keeps files")
    lost = {file["partitioning"] for file in files.values()} - now.keys()
    require(not lost, "EVO-1", f"lacks the partitionings {sorted(lost)} of live files")


def check_feature(metadata: Json, add: Json, protocol: Json) -> None:
    """Refuse numbers of partitionings without their feature (VER-4)."""
    if "partitionings" in metadata or "partitioning" in add:
        known = all("partitionEvolution" in protocol[side] for side in ("reader", "writer"))
        require(known, "VER-4", "has partitionings, and no entry up to it has partitionEvolution")
