"""Entries of golden tables with something changed, sealed again; and what two readers make of them.

The checksum of a mutated entry is right, so what is tested is what its content may be. Both readers
take it and show the same state, or both refuse it. Where they may differ, a rule says so.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import logdump
import logdump.values
import pyarrow.compute as pc
from golden import maker

import tablefmt
from tablefmt.errors import CorruptTableError, TableNotFoundError, UnsupportedFeatureError
from tablefmt.log.metadata_json import schema_to_json
from tablefmt.maintenance.position_checks import row_problems
from tablefmt.snapshot.log_view import LogView
from tests import oracle
from tests.places import GOLDEN

Json = dict[str, Any]
Way = tuple[Any, ...]

NUMBERS: list[Any] = [
    0, 1, -1, 2, 7, 31, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64,
    -(2**63) - 1, 10**20, 10**30, 0.0, -0.0, 1.0, 1.5, -1.0, 1e20, 1e16, 1e-7, 5e-324, 3.5e38,
    1.7976931348623157e308, 253402300799999999, 253402300800000000,
]  # fmt: skip
TEXTS: list[Any] = [
    "", "0", "1", "-1", "a", "A", "x", "NaN", "Infinity", "-Infinity", "null", "é", "e\u0301", "ß",
    "ss", "İ", "ı", "\ud7ff", "\uffff", "\U0001f600", "\0", "\n", "\x7f", "\u2028", "..", "data/a",
    "data/../b", "x" * 33, "x" * 1024, "x" * 1025, "é" * 520, "c" * 4001, "0" * 32, "0" * 64,
    "AAAA", "AA==", "AB==", "AAA", "1.5", "1e3", "-0", "01", "0.50", "INSERT", "OVERWRITE",
    "UPDATE", "CLUSTER",
    "MINOR_COMPACT", "PROTOCOL", "METADATA", "DANCE", "row", "Serializable", "long", "integer",
    "double", "string", "binary", "date", "variant", "decimal(4,2)", "decimal(0,0)", "varchar(3)",
    "logExpiry", "x > 0", "p = 'a'",
]  # fmt: skip
NESTED: list[Any] = [
    [], {}, [None], [[]], [{}], ["a", "a"], [1, 1], [2, 1], [-1], {"a": 1}, {"": None}, {"1": [0]},
    {"side": {}}, {"partitions": []}, {"partitions": [[]]}, {"predicate": "p = 'a'"},
    {"struct": []}, {"array": "long", "element_id": 90, "nullable": True},
]  # fmt: skip
PLAIN: list[Any] = [None, True, False, *NUMBERS, *TEXTS, *NESTED]
KEYS = [
    "x_more", "zz", "checksum", "side", "parts", "ends", "horizon", "update", "lineage", "delete",
    "add", "remove", "metadata", "protocol", "cursors", "derived_from", "application", "written",
    "updated", "keys", "footer", "nulls", "nans", "lower", "upper", "partition", "deleted",
    "oldest", "predicate", "comment", "constraints", "default", "initial", "text", "dropped",
    "user_metadata", "log", "location", "1", "2", "99", "01", "-1", "é", "", "Format",
]  # fmt: skip

BY_RULE = {
    "LIN-2": "A reader need not check this before it moves a position along; `verify` does.",
}
"""Rules by which one reader may take what the other refuses. `verify` of the package refuses it."""


class Raw(str):
    """The text of a number as the entry has it."""

    __slots__ = ()


class Doubled(dict[str, Any]):
    """An object whose first key is in the text twice, the second time with another value."""

    second: Any = None


@dataclass(frozen=True)
class Base:
    """A sound table that ends with the entry to be mutated."""

    case: str
    version: int
    before: Json | None
    """The state before it, as the reader in tools/ has it."""
    entry: Json
    objects: tuple[tuple[str, bytes], ...]
    """All others."""

    def lay(self, folder: Path, body: bytes) -> str:
        """Write the table with the bytes of the mutated entry; give where it is."""
        for name, raw in (*self.objects, (f"_log/{self.version:020d}.json", body)):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)
        return str(folder)


def bases() -> list[Base]:
    """Every entry of every good golden table whose log is whole."""
    found: list[Base] = []
    for folder in sorted(path for path in GOLDEN.iterdir() if path.is_dir()):
        expected = json.loads((folder / "expected.json").read_bytes())
        entries = sorted((folder / "table" / "_log").glob("0" * 10 + "?" * 10 + ".json"))
        whole = [int(path.name[:20]) for path in entries] == list(range(len(entries)))
        if "error" in expected or not whole:
            continue
        names = [p for p in (folder / "table").rglob("*") if p.is_file() and _is_aside(p)]
        aside = [(str(p.relative_to(folder / "table")), p.read_bytes()) for p in names]
        raw = [path.read_bytes() for path in entries]
        replay = logdump.Replay(dict(aside).__getitem__)
        for version, body in enumerate(raw):
            log = [(f"_log/{v:020d}.json", raw[v]) for v in range(version)]
            entry = json.loads(body)
            del entry["checksum"]
            before = replay.state() if version else None
            replay.apply(copy.deepcopy(entry), version)
            found.append(Base(folder.name, version, before, entry, (*log, *aside)))
    return found


def _is_aside(path: Path) -> bool:
    return path.parent.name in ("side", "deletes") or path.parent.parent.name == "deletes"


# --- mutations -----------------------------------------------------------------------------------


def mutated(base: Base, random: Random) -> bytes:
    """The bytes of the entry with one thing changed, or a few, and a checksum that is right."""
    document = copy.deepcopy(base.entry)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change = random.choices(CHANGES, [weight for weight, _ in WEIGHTS])[0]
        change(document, random)
    if random.random() < 0.6:
        _mend_sums(document, base.before)
    style = Style(random) if random.random() < 0.25 else None
    text = _text(document, style)
    return maker.seal(text.encode("utf-8", "surrogatepass"))


def _places(value: Any, way: Way = ()) -> Iterator[Way]:
    """The way to everything in a document, itself first."""
    yield way
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*way, key))
    elif isinstance(value, list):
        for at in range(len(value)):
            yield from _places(value[at], (*way, at))


def _at(document: Any, way: Way) -> Any:
    for step in way:
        document = document[step]
    return document


def _chosen(document: Json, random: Random, kind: type | tuple[type, ...]) -> Way | None:
    """A place of something of a kind: first one of the fields, so that large ones are not all."""
    fields = list(document)
    random.shuffle(fields)
    for field in fields:
        found = list(_places(document[field], (field,)))
        fit = [way for way in found if isinstance(_at(document, way), kind)]
        if fit:
            return random.choice(fit)
    return None


def _any(random: Random) -> Any:
    """Any value, a new one each time: what is inside of it may be changed too."""
    return copy.deepcopy(random.choice(PLAIN))


def _near(value: Any, random: Random) -> Any:
    """A value that is near another one, or far from it."""
    choices: list[Callable[[], Any]] = [lambda: _any(random)] * 2
    if type(value) is int:
        near = (value + 1, value - 1, -value, float(value), str(value), [value], 2 * value)
        choices += [lambda: random.choice(near), lambda: random.choice(NUMBERS)]
        choices.append(lambda: Raw(random.choice((f"{value}.0", f"{value}e0", f"-{value}", "-0"))))
    elif isinstance(value, float):
        near_floats = (-value, value * 2, math.nextafter(value, 9.0), str(value))
        choices += [lambda: random.choice(near_floats), lambda: random.choice(NUMBERS)]
        choices.append(lambda: Raw(random.choice(("1", "-0.0", "1e400", "1E5", "100" * 9))))
    elif isinstance(value, str):
        near_texts = (value + "x", value[1:], value.upper(), value.swapcase(), " " + value, [value])
        choices += [lambda: random.choice(near_texts), lambda: random.choice(TEXTS)]
    elif isinstance(value, bool):
        choices.append(lambda: not value)
    return random.choice(choices)()


def _replace(document: Json, random: Random) -> None:
    way = _chosen(document, random, (int, float, str, type(None)))
    if way:
        _at(document, way[:-1])[way[-1]] = _near(_at(document, way), random)


def _replace_whole(document: Json, random: Random) -> None:
    way = _chosen(document, random, (dict, list))
    if way:
        _at(document, way[:-1])[way[-1]] = _any(random)


def _take_key(document: Json, random: Random) -> None:
    way = _chosen(document, random, dict) if random.random() < 0.8 else ()
    target = _at(document, way or ())
    if target:
        del target[random.choice(list(target))]


def _give_key(document: Json, random: Random) -> None:
    way = _chosen(document, random, dict) if random.random() < 0.8 else ()
    target = _at(document, way or ())
    value = random.choice([_any(random), *target.values()])
    target[random.choice(KEYS)] = copy.deepcopy(value)


def _rename_key(document: Json, random: Random) -> None:
    way = _chosen(document, random, dict)
    target = _at(document, way or ())
    if target:
        key = random.choice(list(target))
        other = random.choice([*KEYS, key.upper(), key + " ", key[:-1]])
        target[other] = target.pop(key)


def _double_key(document: Json, random: Random) -> None:
    way = _chosen(document, random, dict)
    if way and _at(document, way):
        doubled = Doubled(_at(document, way))
        doubled.second = random.choice([next(iter(doubled.values())), _any(random)])
        _at(document, way[:-1])[way[-1]] = doubled


def _change_list(document: Json, random: Random) -> None:
    way = _chosen(document, random, list)
    target = _at(document, way) if way else []
    if target:
        _edit(random.randrange(6), target, random.randrange(len(target)), random)


def _edit(kind: int, values: list[Any], at: int, random: Random) -> None:
    if kind == 0:
        del values[at]
    elif kind == 1:
        values.insert(at, copy.deepcopy(values[at]))
    elif kind == 2:
        other = random.randrange(len(values))
        values[at], values[other] = values[other], values[at]
    elif kind == 3:
        values.reverse()
    elif kind == 4:
        values.append(_any(random))
    else:
        values[at] = _near(values[at], random)


def _change_columns(document: Json, random: Random) -> None:
    """The same change of all columns of `add`, `delete` or `lineage`, so that they stay even."""
    named = [document.get(name) for name in ("add", "delete", "lineage")]
    groups = [group for group in named if isinstance(group, dict)]
    if not groups:
        return
    group = random.choice(groups)
    columns = [v for v in group.values() if isinstance(v, list)]
    nested = [v for v in group.values() if isinstance(v, dict)]
    columns += [v for each in nested for v in each.values() if isinstance(v, list)]
    longest = max(map(len, columns), default=0)
    if not longest:
        return
    kind, at = random.randrange(4), random.randrange(longest)
    seed = random.random()
    for values in columns:
        if len(values) > at:
            _edit(kind, values, at, Random(seed))


def _swap(document: Json, random: Random) -> None:
    """Two values of one type exchange their places."""
    way = _chosen(document, random, (int, float, str))
    if not way:
        return
    value = _at(document, way)
    same = [w for w in _places(document) if w and type(_at(document, w)) is type(value)]
    other = random.choice(same)
    moved = _at(document, other)
    _at(document, other[:-1])[other[-1]] = value
    _at(document, way[:-1])[way[-1]] = moved


def _become_other(document: Json, random: Random) -> None:
    """Change the class of the entry, its scope, or the versions that it gives up."""
    classes = ["INSERT", "OVERWRITE", "UPDATE", "MINOR_COMPACT", "MAJOR_COMPACT", "CLUSTER"]
    classes += ["METADATA", "PROTOCOL"]
    scopes: list[Any] = [None, {"partitions": []}, {"partitions": [[]]}, {"predicate": "TRUE"}]
    kind = random.randrange(5)
    if kind == 0 and isinstance(document.get("operation"), dict):
        document["operation"]["class"] = random.choice(classes)
    elif kind == 1 and isinstance(document.get("basis"), dict):
        document["basis"]["scope"] = random.choice(scopes)
    elif kind == 2:
        document["ends"] = True
    elif kind == 3:
        document["horizon"] = {"version": random.choice([0, 1, 2, document.get("version", 1)])}
    else:
        document["time_version"] = document.get("timestamp", 0)


WEIGHTS: list[tuple[int, Callable[[Json, Random], None]]] = [
    (10, _replace), (3, _replace_whole), (3, _take_key), (3, _give_key), (2, _rename_key),
    (1, _double_key), (3, _change_list), (3, _change_columns), (2, _swap), (2, _become_other),
]  # fmt: skip
CHANGES = [change for _, change in WEIGHTS]


def _mend_sums(document: Json, before: Json | None) -> None:
    """Make `totals` follow from the entry's fields, if they can be added up."""
    sums = before["totals"] if before else {"files": 0, "rows": 0, "bytes": 0, "next_id": 1}
    files = {file["id"]: file for file in before["files"]} if before else {}
    add, delete = document.get("add", {}), document.get("delete", {})
    totals = document.get("totals")
    try:
        if "side" in add or "side" in delete or not isinstance(totals, dict):
            return
        rows, sizes = add.get("rows", []), add.get("size", [])
        gone = [files[i] for i in document.get("remove", [])]
        live = {i: file for i, file in files.items() if file not in gone}
        new = range(sums["next_id"], sums["next_id"] + len(rows))
        marked = sum(
            count
            for i, count in zip(delete.get("file", []), delete.get("rows", []), strict=True)
            if i in live or i in new
        )
        totals["files"] = sums["files"] + len(rows) - len(gone)
        totals["rows"] = sums["rows"] + sum(rows) - sum(file["rows"] for file in gone)
        totals["bytes"] = sums["bytes"] + sum(sizes) - sum(file["size"] for file in gone)
        totals["next_id"] = sums["next_id"] + len(rows)
        left = sums.get("deleted", 0) + marked - sum(file["deleted"] for file in gone)
        totals.pop("deleted", None)
        if left:
            totals["deleted"] = left
    except (TypeError, KeyError, ValueError, AttributeError):
        return


# --- text ----------------------------------------------------------------------------------------


class Style:
    """The style in which another writer writes JSON."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.blank = random.choice(("", "", " ", "\n", "\t "))
        self.is_sorted = random.random() < 0.5
        self.escapes = random.random() < 0.5

    def keys(self, document: Json) -> list[str]:
        """The keys of an object in their order."""
        keys = list(document)
        self.random.shuffle(keys)
        return sorted(keys) if self.is_sorted else keys

    def string(self, text: str) -> str:
        """A text as JSON."""
        plain = json.dumps(text, ensure_ascii=self.escapes)
        return plain.replace("/", "\\/") if self.escapes else plain

    def number(self, value: float) -> str:
        """A double as text that is read as the same."""
        plain = repr(value)
        choices = [plain, f"{value:.17e}", f"{value:.17E}"]
        if value == int(value) and abs(value) < 1e21:
            choices.append(str(int(value)) if value else plain)
        if 1e-10 < abs(value) < 1e15:
            choices.append(f"{value:.30f}")
        return self.random.choice([each for each in choices if float(each) == value])


def _text(value: Any, style: Style | None) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        keys = (
            style.keys(value)
            if style
            else sorted(value, key=lambda k: k.encode("utf-8", "replace"))
        )
        pairs = [(key, value[key]) for key in keys]
        if isinstance(value, Doubled) and value:
            pairs.insert(1, (next(iter(value)), value.second))
        blank = style.blank if style else ""
        string = style.string if style else _plain_string
        members = [f"{blank}{string(k)}:{blank}{_text(v, style)}" for k, v in pairs]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        blank = style.blank if style else ""
        return "[" + ",".join(blank + _text(each, style) for each in value) + "]"
    if isinstance(value, str):
        return style.string(value) if style else _plain_string(value)
    if isinstance(value, float) and style and math.isfinite(value):
        return style.number(value)
    return json.dumps(value)


def _plain_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# --- readers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """The result of a reader for a table."""

    kind: str
    """`taken`, `refused`, `newer`, `dropped`, or `failed` with another error."""
    why: str = ""
    state: Any = None


def of_tools(uri: str, version: int) -> Verdict:
    """Return the result of the reader in tools/."""
    document = logdump.read(uri)
    state, findings = document["state"], document["findings"]
    mine = [f for f in findings if f["version"] == version]
    why = "; ".join(f"{f['rule']} {f['message']}" for f in mine)
    if state is not None and state["version"] == version:
        new = [file for file in state["files"] if file["added"] == version]
        bounds = [_bounds_of(file, state["schema"]) for file in new]
        return Verdict(
            "taken", why, (_of_oracle(oracle._expected(document)), _rest_of(state), bounds)
        )
    if not findings:
        return Verdict("dropped")
    said = [(f["rule"], f["message"]) for f in mine]
    newer = any(
        "a newer version" in text or (rule, text[:5]) == ("ENT-7", "needs") for rule, text in said
    )
    return Verdict("newer" if newer else "refused", why)


def _of_oracle(shown: Json) -> Json:
    """Return the facts that the oracle compares, with numbers in text as numbers again."""
    for entry in shown["entries"]:
        for name in ("operationParameters", "operationMetrics"):
            entry[name] = {key: _number_in(text) for key, text in entry[name].items()}
    return shown


def _number_in(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _rest_of(state: Json) -> Any:
    """Return the facts that the oracle does not compare."""
    names = ("schema", "protocol", "applications", "comment", "totals", "time_version", "oldest")
    return {name: state[name] for name in names}


def _bounds_of(file: Json, schema: Json) -> Json:
    """Bounds and counts of a file that are known, by name of the column of `add`."""
    kinds = {str(f["id"]): f["type"] for f in schema["fields"]}
    found: Json = {}
    for group in ("lower", "upper", "nulls", "nans"):
        for key, value in file[group].items():
            kind = "long" if group in ("nulls", "nans") else kinds.get(key)
            if value is not None and kind is not None:
                found[f"{group}.{key}"] = str(logdump.values.decode(value, kind))
    return found


def of_package(uri: str, version: int) -> Verdict:
    """Return the result of the package. A foreign exception is a kind of its own."""
    try:
        table = tablefmt.open(uri)
        snapshot = table.context.view.snapshot(table.version)
        of_rows = row_problems(LogView.open(table.context.store, whole=True), snapshot)
        beyond = [error for error in of_rows if error.rule not in BY_RULE]
        if beyond:
            # A read of the rows, or of the entry's changes, raises an error (DEL-1).
            return Verdict("refused", str(beyond[0]))
        shown = _of_oracle(oracle._shown(table))
        new = snapshot.files.filter(pc.field("added") == version)
        bounds = _shown_bounds(new, table.context.view.read_head.metadata)
    except UnsupportedFeatureError as error:
        return Verdict("newer", str(error))
    except TableNotFoundError as error:
        return Verdict("dropped", str(error))
    except CorruptTableError as error:
        return Verdict("refused", str(error))
    except Exception as error:
        return Verdict("failed", "".join(traceback.format_exception(error))[-2000:])
    assert table.version == version
    head = table.context.view.read_head
    totals = head.totals
    sums = {
        n: getattr(totals, n) for n in ("files", "rows", "bytes", "next_id", "metadata_version")
    }
    sums |= {n: getattr(totals, n) for n in ("deleted", "oldest") if getattr(totals, n)}
    rest = {
        "schema": schema_to_json(head.metadata.schema),
        "protocol": {"reader": [*head.protocol.reader], "writer": [*head.protocol.writer]},
        "applications": {name: app.version for name, (app, _) in head.applications.items()},
        "comment": head.metadata.comment,
        "totals": sums,
        "time_version": head.time_version,
        "oldest": totals.oldest,
    }
    return Verdict("taken", "".join(error.rule for error in of_rows), (shown, rest, bounds))


def _shown_bounds(files: Any, metadata: Any) -> list[Json]:
    """Return the same as `_bounds_of` from the columns of the package."""
    kinds = {str(f["id"]): f["type"] for f in schema_to_json(metadata.schema)["fields"]}
    rows: list[Json] = [{} for _ in range(files.num_rows)]
    for name in files.column_names:
        group, dot, key = name.partition(".")
        if not dot or group == "partition" or (group in ("lower", "upper") and key not in kinds):
            continue
        kind = "long" if group in ("nulls", "nans") else kinds[key]
        if not isinstance(kind, str) or kind == "variant":
            continue
        for row, value in zip(
            rows, logdump.values.encode(files[name].combine_chunks()), strict=True
        ):
            if value is not None:
                row[name] = str(logdump.values.decode(value, kind))
    return rows


def judged(base: Base, body: bytes, folder: Path) -> tuple[str, str | None]:
    """Return the result of the reader in tools/ for a mutation, and the package's disagreement."""
    uri = base.lay(folder, body)
    tools, package = of_tools(uri, base.version), of_package(uri, base.version)
    return tools.kind, _disagreement(base, body, tools, package)


def _disagreement(base: Base, body: bytes, tools: Verdict, package: Verdict) -> str | None:
    if (tools.kind, tools.state) == (package.kind, package.state):
        return None
    if package.kind == "dropped" and tools.why.startswith("RPL-2"):
        return None
    by_rule = tools.kind == "refused" and package.kind == "taken" and package.why
    if by_rule and tools.why.startswith(package.why):
        return None
    where = f"{base.case}, version {base.version}"
    told = f"tools: {tools.kind} ({tools.why:.300}); package: {package.kind} ({package.why:.300})"
    apart = _apart(tools.state, package.state) if tools.kind == package.kind else ""
    return f"{where}: {told}{apart}\n{body.decode('utf-8', 'replace')}"


def _apart(one: Any, other: Any) -> str:
    """The first parts of two states that differ."""
    for mine, theirs in zip(one, other, strict=True):
        if mine != theirs and isinstance(mine, dict):
            for key in mine:
                if mine[key] != theirs.get(key):
                    return f"; {key}: {mine[key]!r:.400} and {theirs.get(key)!r:.400}"
        if mine != theirs:
            return f"; {mine!r:.400} and {theirs!r:.400}"
    return ""


def outcomes(
    seed: int, count: int, folder: Path, tables: Sequence[Base]
) -> Iterator[tuple[str, str | None]]:
    """Mutate entries one after the other, and ask both readers: as `judged`."""
    random = Random(seed)
    for number in range(count):
        base = random.choice(tables)
        body = mutated(base, random)
        place = folder / str(number)
        kind, one = judged(base, body, place)
        shutil.rmtree(place)
        yield kind, one and f"mutation {number} of seed {seed}: {one}"


def compare(
    seed: int, count: int, folder: Path, tables: Sequence[Base]
) -> tuple[Counter[str], list[str]]:
    """Return the number of mutations by result of the reader in tools/, and all disagreements."""
    found = list(outcomes(seed, count, folder, tables))
    return Counter(kind for kind, _ in found), [one for _, one in found if one is not None]
