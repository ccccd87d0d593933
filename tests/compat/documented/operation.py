"""Operations that the documentation of another library describes, and what they give here.

The words and the tables are ours. Each text is written for the other library. The runner makes one
change: it replaces the name of the format, or of the import.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Language = Literal["sql", "python"]

RECORD = Path(__file__).with_name("recorded.json")
"""Operations that gave what they should when they ran last, and their digests then."""

ORDERS = [(1, "EU", 10.0), (2, "US", 20.0), (3, "EU", 30.0), (4, "US", 40.0)]
"""Rows of `orders` and `sales`: the first three are those of version 1."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The operation is refused by an error of tablefmt."""

    words: str
    """Words of the error, which say what to do instead."""
    absent: bool = False
    """True if tablefmt does not have the feature at all, such as branches."""


@dataclass(frozen=True, slots=True)
class SameError:
    """The operation is an error there and here."""

    words: str
    """Words of the error."""


@dataclass(frozen=True, slots=True)
class SparkError:
    """The operation is an error of Spark, which does not name tablefmt."""

    words: str
    """Words of the error."""
    absent: bool = True


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a page."""

    feature: str
    language: Language
    text: str
    gives: Any
    """Sorted rows, or another value, of the last statement. Or `Refused`, or `SameError`."""
    page: str = ""

    @property
    def runs(self) -> bool:
        """Return whether it runs after the change."""
        return not isinstance(self.gives, Refused | SparkError)

    def digest(self, documentation: Documentation) -> str:
        """Return a digest of what runs, and of what it gives."""
        text = repr((self.language, documentation.changed(self.text), self.gives))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def sql(feature: str, text: str, gives: Any = ()) -> Operation:
    """Return an operation in SQL: statements with a semicolon between them."""
    return Operation(feature, "sql", text, gives)


def python(feature: str, text: str, gives: Any = None) -> Operation:
    """Return an operation in Python, of which the last line has the value."""
    return Operation(feature, "python", text, gives)


def read_stream(
    feature: str, reads: str, gives: Any, before: str = "", rows: str = 'spark.table("seen")'
) -> Operation:
    """Return a stream that is read to its end into the table `seen`, which has the value.

    Args:
        feature, gives: of the operation.
        reads: the calls on `spark.readStream`.
        before: a statement before the stream.
        rows: the expression of the value.
    """
    sink = 'format("memory").queryName("seen").trigger(availableNow=True).start()'
    return _stream(feature, f"spark.readStream.{reads}.writeStream.{sink}", rows, gives, before)


def write_stream(
    feature: str, writes: str, starts: str, rows: str, gives: Any, before: str = ""
) -> Operation:
    """Return a stream of the numbers 1 to 3 that is written to its end.

    `writes` are the calls on `writeStream`, and `starts` is the last one. Others as `read_stream`.
    """
    query = (
        f'spark.readStream.schema("id BIGINT").parquet("/data/parquet").writeStream.{writes}'
        f'.option("checkpointLocation", "/data/checkpoint").trigger(availableNow=True).{starts}'
    )
    return _stream(feature, query, rows, gives, before)


def _stream(feature: str, query: str, rows: str, gives: Any, before: str) -> Operation:
    return python(feature, f"{before}\nquery = {query}\nquery.awaitTermination()\n{rows}", gives)


@dataclass(frozen=True, slots=True)
class Documentation:
    """The operations of one documentation, and the change."""

    name: str
    change: Sequence[tuple[str, str]]
    """Texts to replace: theirs, ours."""
    pages: dict[str, Sequence[Operation]] = field(default_factory=dict)

    def changed(self, text: str) -> str:
        """Return a text with the name of the format, or of the import, replaced."""
        for theirs, ours in self.change:
            text = text.replace(theirs, ours)
        return text

    @property
    def operations(self) -> list[Operation]:
        """Return all operations, with their pages."""
        return [
            Operation(one.feature, one.language, one.text, one.gives, page)
            for page, operations in self.pages.items()
            for one in operations
        ]

    def ratio(self) -> str:
        """Return how many run, and which are refused: of all, and of those of features here."""
        refused = [one for one in self.operations if not one.runs]
        absent = [one for one in refused if one.gives.absent]
        every, runs = len(self.operations), len(self.operations) - len(refused)
        here = every - len(absent)
        lines = [
            f"{self.name}: {runs} of {every} run ({runs / every:.1%}); without features that "
            f"tablefmt does not have, {runs} of {here} ({runs / here:.1%})"
        ]
        for title, rows in (
            ("refused", [r for r in refused if r not in absent]),
            ("no such feature", absent),
        ):
            lines.append(f"  {title}: " + "; ".join(f"{one.page}: {one.feature}" for one in rows))
        return "\n".join(lines)


def ids_of(documentation: Documentation) -> dict[str, Operation]:
    """Return the operations by page and feature."""
    found = {f"{one.page}: {one.feature}": one for one in documentation.operations}
    assert len(found) == len(documentation.operations), "a feature of a page has two operations"
    return found


def report(
    documentations: Sequence[Documentation],
    problem: Callable[[Documentation, Operation], str | None],
    arguments: Sequence[str] = (),
) -> int:
    """Run operations, and print the ratios. Return 1 if the outcome of one differs.

    Args:
        documentations: the documentations to run.
        problem: runs an operation, and returns how its outcome differs.
        arguments: parts of names; without any, all operations run. `--record` writes down which
            operations gave what they should.
    """
    parts = [each for each in arguments if each != "--record"]
    ran: dict[str, bool] = {}
    for documentation in documentations:
        for one in documentation.operations:
            name = f"{documentation.name}: {one.page}: {one.feature}"
            if parts and not any(part in name for part in parts):
                continue
            found = problem(documentation, one)
            ran[name] = found is None
            if found is not None:
                print(f"{name}: {found}", flush=True)
        print(documentation.ratio(), flush=True)
    if "--record" in arguments:
        record(documentations, ran)
    count = len(ran) - sum(ran.values())
    print(f"{count} of {len(ran)} differ", flush=True)
    return 1 if count else 0


def digests(documentations: Sequence[Documentation]) -> dict[str, str]:
    """Return a digest of each operation's text and expected outcome, by its full name."""
    return {
        f"{documentation.name}: {name}": one.digest(documentation)
        for documentation in documentations
        for name, one in ids_of(documentation).items()
    }


def recorded() -> dict[str, str]:
    """Return the digests of the operations that gave what they should when they ran last."""
    found: dict[str, str] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def record(documentations: Sequence[Documentation], ran: Mapping[str, bool]) -> None:
    """Write down the outcome of operations that ran, and keep those of all others.

    Args:
        documentations: the documentations that were run.
        ran: names of operations -> whether they gave what they should.
    """
    now = digests(documentations)
    gone = {
        name
        for name in recorded()
        if name not in now and any(name.startswith(f"{each.name}: ") for each in documentations)
    }
    good = {name: now[name] for name, fine in ran.items() if fine}
    kept = {n: d for n, d in recorded().items() if n not in gone and ran.get(n, True)}
    RECORD.write_text(
        json.dumps({**kept, **good}, indent=0, sort_keys=True, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )
