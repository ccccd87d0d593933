"""Golden cases of invalid entries, states, paths and files, which every reader must refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from golden.maker import (
    CORRUPT,
    LONG,
    START,
    Json,
    Maker,
    field,
    hex_of,
    three,
)


def bad_paths() -> Iterator[Maker]:
    """Yield cases of paths that must never reach a store (KEY-2)."""
    paths = {
        "dotdot": "data/../../other/x.parquet",
        "dot": "data/./x.parquet",
        "absolute": "/data/x.parquet",
        "url": "file:///data/x.parquet",
        "outside": "_log/x.parquet",
        "backslash": "data\\..\\x.parquet",
        "double-slash": "data//x.parquet",
        "trailing-slash": "data/x/",
        "control": "data/x\n.parquet",
        "nul": "data/x\u0000.parquet",
        "long": "data/" + "x" * 1020,
        "bare": "data",
    }
    for name, path in paths.items():
        maker = three(f"path-{name}")
        maker.append({"x": 5}, change=lambda entry, path=path: entry["add"].update(path=[path]))
        yield maker.broken("An invalid path.", CORRUPT, (3, "KEY-2"))


def bad_states() -> Iterator[Maker]:
    """Yield cases of entries that contradict the state before them."""
    for total in ("files", "rows", "bytes", "next_id", "metadata_version"):
        maker = three(f"sum-{total.replace('_', '-')}")
        wrong = {total: maker.documents[-1]["totals"][total] + 7}
        maker.append({"x": 5}, change=lambda entry, wrong=wrong: entry["totals"].update(wrong))
        yield maker.broken("A table statistic that differs from replay.", CORRUPT, (3, "RPL-3"))

    maker = three("removed-twice")
    maker.commit("OVERWRITE", "TRUNCATE", (), (1,))
    maker.commit("OVERWRITE", "TRUNCATE", (), (1,))
    yield maker.broken("Removes a file that is not live.", CORRUPT, (4, "RPL-2"), also="RPL-3")

    maker = three("removes-its-own")
    maker.append({"x": 5}, change=lambda entry: entry.update(remove=[3]))
    yield maker.broken("Removes a file that it adds (ADD-3).", CORRUPT, (3, "RPL-2"), also="RPL-3")

    maker = three("path-live")
    path = maker.live[1]["path"]
    maker.append({"x": 5}, change=lambda entry: entry["add"].update(path=[path]))
    yield maker.broken("Adds the path of a live file.", CORRUPT, (3, "ADD-1"))

    maker = three("application-falls")
    for version in (2, 1):
        maker.append({"x": 5}, application={"id": "a", "version": version, "digest": None})
    yield maker.broken("An application version falls.", CORRUPT, (4, "RPL-5"))


def bad_entries() -> Iterator[Maker]:
    """Yield cases of entries with invalid or contradictory fields."""
    changes: dict[str, tuple[str, Callable[[Json], object]]] = {
        "remove-order": ("ENT-3", lambda entry: entry.update(remove=[2, 1])),
        "format-text": ("ENT-3", lambda entry: entry.update(format="1")),
        "metadata-null": ("ENT-8", lambda entry: entry.update(metadata=None)),
        "isolation": ("ENT-5", lambda entry: entry["basis"].update(isolation=["none"])),
        "version-wide": (
            "ENT-2",
            lambda entry: entry.update(application={"id": "", "version": 2**63, "digest": None}),
        ),
        "field-id": ("ADD-1", lambda entry: entry["add"].update(nulls={"x": [0]})),
        "no-table": ("ENT-3", lambda entry: entry.pop("table")),
        "transaction": ("ENT-3", lambda entry: entry.update(transaction="3")),
        "class-number": ("ENT-4", lambda entry: entry["operation"].update({"class": 1})),
        "written-above": ("ADD-9", lambda entry: entry["add"].update(written=[4])),
        "written-text": ("ADD-9", lambda entry: entry["add"].update(written=["0"])),
        "basis-blind": ("ENT-5", lambda entry: entry["basis"].update(blind="yes")),
        "path-twice": ("ADD-1", lambda entry: entry["add"].update(path=entry["add"]["path"] * 2)),
        "uneven-add": ("ADD-1", lambda entry: entry["add"].update(rows=[1, 2])),
        "size-zero": ("ADD-1", lambda entry: entry["add"].update(size=[0])),
        "rows-negative": ("ADD-1", lambda entry: entry["add"].update(rows=[-1])),
        "time-back": ("TIM-1", lambda entry: entry.update(timestamp=START, time_version=START)),
        "time-far": ("ENT-3", lambda e: e.update(timestamp=1 << 62, time_version=1 << 62)),
        "time-version": ("TIM-2", lambda entry: entry.update(time_version=START + 5)),
    }
    for name, (rule, change) in changes.items():
        maker = three(f"bad-{name}")
        maker.append({"x": 5}, change=change)
        yield maker.broken(f"An entry that breaks {rule}.", CORRUPT, (3, rule), also="ENT-3")


def bad_files() -> Iterator[Maker]:
    """Yield cases of entries with invalid or damaged columns about added files."""
    for name, rule, kind, values in (
        ("partition-missing", "ADD-1", "long", {}),
        ("partition-type", "VAL-1", "long", {"1": ["one"]}),
        ("partition-decimal", "VAL-1", "decimal(4,0)", {"1": [1]}),
        ("partition-float", "VAL-1", "timestamp", {"1": [1.0]}),
    ):
        maker = Maker(name, [field(1, "p", kind), field(2, "x", "long")], (1,))
        maker.append({"p": None, "x": 1}, change=lambda e, v=values: e["add"].update(partition=v))
        yield maker.broken("Invalid partition values.", CORRUPT, (1, rule))

    for name in ("flipped", "missing"):
        maker = Maker(f"side-{name}", LONG)
        maker.commit("INSERT", "WRITE", (maker.file([{"x": 1}]),), side=True)
        path = f"_log/side/{hex_of(maker.name, 1)}.parquet"
        raw = maker.objects.pop(path)
        if name == "flipped":
            maker.objects[path] = raw[:40] + bytes([raw[40] ^ 1]) + raw[41:]
        yield maker.broken("A damaged overflow metadata file.", "CorruptTableError", (1, "ADD-6"))
