"""Tables whose entries and checkpoints have wrong cursors, identity claims or partitionings.

    PYTHONPATH=tools python -m tests.system.fuzzed_fields SEED CASES [FIELD]

Every case changes some values below one field of an entry or of a checkpoint, with right checksums
and digests, and then reads, writes and explains the table in every way. It prints what is no error
of the tree, and ends with 1 if there was any. The bounds of time and memory are those of
`fuzzed_bytes`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import orjson

import tablefmt
from tablefmt.errors import TablefmtError
from tablefmt.inspection.report_facts import report_facts
from tablefmt.log.object_names import entry_version, root_version
from tablefmt.table import Table
from tests.snapshot.forged import store_of
from tests.system.fuzzed_bytes import (
    Objects,
    chained,
    problem_of,
    run_cases,
    sealed,
    spoil,
    with_few_threads,
)
from tests.tables import contents_of, handle, memory

FIELDS: dict[str, tuple[str, ...]] = {
    "derived_from": ("derived_from",),
    "cursors": ("cursors",),
    "identity claim": ("application",),
    "applications": ("applications",),
    "identity": ("metadata", "properties"),
    "partitionings": ("metadata", "partitionings"),
    "partition_by": ("metadata", "partition_by"),
    "hidden": ("metadata", "schema", "hidden"),
    "number": ("add", "partitioning"),
    "partition": ("add", "partition"),
    "written": ("add", "written"),
    "protocol": ("protocol",),
    "horizon": ("horizon",),
    "operation": ("operation",),
    "user_metadata": ("user_metadata",),
}
"""Places in an entry or a root, by the name of the field."""


class Evolved:
    """A table with a cursor that went back, identity values and three partitionings."""

    def __init__(self) -> None:
        source = tablefmt.create(memory().uri, "id BIGINT, p STRING")
        source.append({"id": [1, 2], "p": ["a", "b"]})
        store = memory()
        table = tablefmt.create(
            store.uri,
            "n BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, p STRING, "
            "g BIGINT GENERATED ALWAYS AS (id * 2)",
            partition_by=["p"],
        )
        tablefmt.pipe(source).into(table)
        table.alter.set_partitioning(["bucket(4, id)"])
        source.append({"id": [3], "p": ["a"]})
        tablefmt.pipe(source).into(table)
        table.refresh()
        table.append({"id": [9], "p": ["gone"]})
        table.delete("id = 9")
        table.alter.set_tag("q", version=table.version)
        table.alter.set_partitioning(["truncate(1, p)", "bucket(2, id)"])
        table.append(
            {"id": [4, 5], "p": ["c", None]}, application=("job", 7), user_metadata={"run": 1}
        )
        table.delete("id = 4 or id < 3")
        table.checkpoint()
        table.restore("q")
        table.append({"id": [6], "p": ["a"]})
        table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
        self.source = source
        self.objects = contents_of(store)
        self.version = table.version
        missing = [each for each in FIELDS if not any(documents_with(self.objects, each))]
        assert missing == [], missing


def documents_with(objects: Objects, field: str) -> Iterator[str]:
    """Yield the keys of the entries and roots that have a field."""
    for key, body in sorted(objects.items()):
        if entry_version(key) is None and root_version(key) is None:
            continue
        if inner(orjson.loads(body), field) is not None:
            yield key


def inner(document: Any, field: str) -> Any:
    """Return the object or list at a field's place, or None."""
    for name in FIELDS[field]:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict | list) and document else None


def change(objects: Objects, field: str, chance: random.Random) -> None:
    """Change values below a field of one object, and make its checksums and digests right."""
    key = chance.choice(list(documents_with(objects, field)))
    document = orjson.loads(objects[key])
    value = inner(document, field)
    if chance.random() < 0.2:
        *above, last = FIELDS[field]
        outer = document
        for name in above:
            outer = outer[name]
        wrapper = {last: value}
        spoil(wrapper, chance)
        outer.pop(last)
        outer.update(wrapper)
    else:
        spoil(value, chance)
    version = entry_version(key)
    if version is None:
        document.pop("checksum")
        body = sealed(document)
        if body is not None:
            objects[key] = body
            hint = {"table": document.get("table"), "version": 0, "checkpoint": key}
            objects["_log/hint.json"] = orjson.dumps(hint)
        return
    if sealed(document) is not None:
        chained(objects, version, document)


def explained(table: Table) -> None:
    """Ask for everything that inspection shows."""
    str(table.blame(where="id > 1"))
    str(table.why(where="p = 'a'"))
    str(table.why(vacuum=True))
    str(table.why(version=3))
    str(table.conflicts())
    report_facts(table.context)
    assert table.report().startswith("<!doctype html>")
    assert table._repr_html_()


def look(known: Evolved, objects: Objects) -> None:
    """Read, explain and write the table in every way. Only errors of the tree may be raised."""
    store = store_of(objects)
    works = (
        lambda t: t.to_arrow(),
        lambda t: t.to_arrow(where="p = 'a' AND id > 1"),
        lambda t: t.to_arrow(version="q"),
        lambda t: t.changes(after_version=1, content="net").to_arrow(),
        lambda t: t.history(),
        lambda t: t.tags(),
        lambda t: str(t.verify(deep=True)),
        explained,
        lambda t: t.scan().partitions(),
        lambda t: tablefmt.pipe(known.source).into(t),
        lambda t: t.append({"id": [70], "p": ["z"]}, application=("job", 8)),
        lambda t: t.update({"p": "'y'"}, "id = 70"),
        lambda t: t.compact(),
        lambda t: t.checkpoint(),
        lambda t: t.alter.set_partitioning(["p"]),
        lambda t: t.restore("q"),
        lambda t: t.vacuum(),
    )
    for work in works:
        said = ""
        try:
            work(handle(store))
        except TablefmtError as error:
            said = str(error)
        assert said.isprintable(), "an error drives a terminal"
    for one in list(store.list_after("")):
        store.delete(one.key)


def case(known: Evolved, seed: int, field: str) -> str:
    """Run one case. Return "", or what is wrong with it."""
    objects = dict(known.objects)

    def run() -> None:
        change(objects, field, random.Random(seed))
        look(known, objects)

    return problem_of(run)


def main(seed: int, cases: int, only: str = "") -> int:
    """Run cases from a seed on. Return 1 if one of them is wrong."""
    with_few_threads()
    known = Evolved()
    names = list(FIELDS)

    def field_of(number: int) -> str:
        return only or names[number % len(names)]

    return run_cases(
        range(seed, seed + cases), field_of, lambda number, field: case(known, number, field)
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
