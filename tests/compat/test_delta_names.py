"""Delta's names for Spark: all of its Python API is translated or refused by name."""

from __future__ import annotations

import ast
import inspect
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from tablefmt import errors
from tablefmt.compat import delta
from tablefmt.compat.delta import exceptions
from tablefmt.compat.delta.delta_builders import (
    DELTAS,
    DeltaMergeBuilder,
    configure_spark_with_delta_pip,
)
from tablefmt.compat.delta.delta_names import NAMES, ROWS
from tests.compat.delta_signatures import SIGNATURES


def ours(call: str) -> Any:
    called, dot, name = call.partition(".")
    found = getattr(delta, called)
    return getattr(found, name, None) if dot else found


@pytest.mark.parametrize("call", sorted(SIGNATURES))
def test_every_name_and_argument_of_delta_is_translated_or_refused(call: str) -> None:
    row = NAMES.rows[call]
    if row.kind == "refused" and "." not in call:
        with pytest.raises(errors.UnsupportedFeatureError, match=call):
            getattr(delta, call)
    elif row.kind == "refused":
        assert ours(call) is None
    else:
        given = [name for name in inspect.signature(ours(call)).parameters if name != "self"]
        assert given == list(SIGNATURES[call])


def test_every_row_names_something_of_delta() -> None:
    for row in ROWS:
        call, _, argument = row.theirs.rstrip(")").partition("(")
        assert call in SIGNATURES
        assert not argument or argument in SIGNATURES[call]


def test_every_argument_is_used_or_its_row_says_otherwise() -> None:
    unread = []
    for call, arguments in SIGNATURES.items():
        if NAMES.rows[call].kind != "same":
            continue
        source = inspect.getsource(inspect.unwrap(ours(call)))
        tree = ast.parse(textwrap.dedent(source))
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        unread += [
            f"{call}({argument})"
            for argument in arguments
            if argument not in read and f"{call}({argument})" not in NAMES.rows
        ]
    # A place is looked at without Spark.
    assert unread == ["DeltaTable.isDeltaTable(sparkSession)"]


def test_a_session_is_built_without_deltas_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []
    monkeypatch.setattr("tablefmt.spark.register", registered.append)

    class Builder:
        """Takes the place of Spark's builder."""

        def __init__(self) -> None:
            self._options: dict[str, str] = {}

        def config(self, name: str, value: str) -> Builder:
            self._options[name] = value
            return self

        def getOrCreate(self) -> dict[str, str]:
            return self._options

    builder = Builder().config("spark.app.name", "shop")
    for name, value in DELTAS.items():
        builder.config(name, value)
    made = configure_spark_with_delta_pip(builder, ["a:b:1"]).config("x", "y").getOrCreate()
    assert made == {"spark.app.name": "shop", "spark.jars.packages": "a:b:1", "x": "y"}
    assert registered == [made]
    own = Builder().config("spark.sql.extensions", "mine.Extension")
    assert configure_spark_with_delta_pip(own).getOrCreate() == own._options
    assert own._options == {"spark.sql.extensions": "mine.Extension"}


def test_errors_have_deltas_names() -> None:
    assert exceptions.DeltaConcurrentModificationException is errors.ConcurrentModificationException
    for name in exceptions.__all__[:-3]:
        assert issubclass(getattr(exceptions, name), errors.ConcurrentModificationException)


def test_a_merge_that_is_never_executed_warns_once_where_it_was_made() -> None:
    """All builders of one MERGE share the warning. Executing one of them turns it off."""
    ran: list[Any] = []

    class Stub:
        """Takes the place of a SparkTable, which needs a session."""

        def merge(self, **arguments: Any) -> Any:
            ran.append(arguments)
            raise InterruptedError

    arguments = {"source": None, "on": "a = b", "source_alias": "s", "target_alias": "t"}
    table: Any = Stub()

    def begin_and_forget() -> None:
        first = DeltaMergeBuilder(table, arguments)
        first.whenMatchedDelete()
        first.whenNotMatchedInsertAll().withSchemaEvolution()

    with pytest.warns(UserWarning, match="never executed") as seen:
        begin_and_forget()
    assert [Path(each.filename).name for each in seen] == [Path(__file__).name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        builder = DeltaMergeBuilder(table, arguments).whenMatchedDelete()
        with pytest.raises(InterruptedError):
            builder.execute()
        del builder
    assert ran == [arguments]
