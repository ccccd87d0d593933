"""A small table with everything the commands print, and a way to run them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("ratio", pa.float64()),
    ]
)


def row(number: int, part: str | None) -> dict[str, Any]:
    """A row and, by `as_json`, what must be printed for it."""
    return {
        "id": number,
        "part": part,
        "amount": Decimal(number) / 4,
        "day": date(2024, 2, 28 + number % 2),
        "at": datetime(2024, 1, 1, 0, 0, 0, number, timezone.utc),
        "raw": bytes([255, number]),
        "ratio": float("nan") if number == 2 else number / 8,
    }


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert (self.code, self.err) == (0, ""), self.err
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def run(*arguments: str) -> Result:
    """A command line, run in this process."""
    done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Result(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(params=["local", "memory"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh place on each store that needs no server."""
    if request.param == "local":
        return str(tmp_path / "a table")
    place = f"cli-{request.node.name.replace('[', '-').replace(']', '')}"
    return f"memory://{place}"


@pytest.fixture
def table(uri: str) -> tablefmt.Table:
    """Versions: 0 created; 1 ids 1, 2; 2 ids 3, 4; 3 part 'a' overwritten by id 5."""
    made = tablefmt.create(uri, SCHEMA, partition_by=["part"], properties={"user.owner": "me"})
    made.append(rows(row(1, "a"), row(2, None)))
    made.append(rows(row(3, "a"), row(4, "\x1b[31m/")), user_metadata={"job": 7})
    made.overwrite(rows(row(5, "a")), where="part = 'a'")
    return made


def rows(*given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(given), SCHEMA)
