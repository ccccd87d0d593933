"""Python workers that lack tablefmt: verbs that need it there say so before any work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.runtime.failures import translated
from tests.spark.conftest import UseBackend
from tests.spark.looking import everything, strays

SAID = (
    r"Spark's Python workers cannot import tablefmt with .*python.*ModuleNotFoundError: No module"
)


@pytest.fixture
def table(spark: Any, uri: str) -> Any:
    """Two small files, whose deletes copy rows."""
    tablefmt.create(uri, "id BIGINT", properties={"deleteMode": "copy-on-write"})
    for start in (0, 10):
        tablefmt.spark.write(spark.range(start, start + 10, 1, 1), uri)
    return tablefmt.spark.open(spark, uri)


@pytest.fixture
def bare_workers(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of Python run in workers that find no tablefmt."""
    hidden = tmp_path / "hidden" / "tablefmt"
    hidden.mkdir(parents=True)
    message = "No module named 'tablefmt'"
    (hidden / "__init__.py").write_text(f"raise ModuleNotFoundError({message!r}, name='tablefmt')")
    python = tmp_path / "python"
    # The folder where a worker begins is the first that it looks in.
    python.write_text(f'#!/bin/sh\ncd "{hidden.parent}" && exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))


def verbs(spark: Any, table: Any, uri: str) -> dict[str, Callable[[], Any]]:
    return {
        "compact": table.compact,
        "cluster": lambda: table.cluster("id"),
        "delete": lambda: table.delete("id % 2 = 0"),
        "update": lambda: table.update({"id": "id + 100"}, "id = 3"),
    }


def test_verbs_that_work_in_workers_name_the_interpreter_that_lacks_tablefmt(
    spark: Any, table: Any, uri: str, bare_workers: None, use_backend: UseBackend
) -> None:
    before, version = everything(uri), tablefmt.open(uri).version
    for verb in verbs(spark, table, uri).values():
        with pytest.raises(UnsupportedFeatureError, match=SAID) as told:
            verb()
        assert sys.executable in str(told.value)
        assert told.value.features == ["spark:workers"]
    # Spark's own work needs no Python in workers.
    assert tablefmt.spark.read(spark, uri).count() == 20
    use_backend("arrow")
    tablefmt.spark.register(spark)
    frame = spark.range(3)
    for work in (
        lambda: tablefmt.spark.read(spark, uri).collect(),
        lambda: tablefmt.spark.write(frame, uri),
        lambda: frame.write.format("tablefmt").mode("append").save(uri),
        lambda: spark.read.format("tablefmt").load(uri).collect(),
        lambda: table.merge(frame, "t.id = s.id").when_matched_delete().execute(),
    ):
        with pytest.raises(UnsupportedFeatureError, match="workers cannot import tablefmt"):
            work()
    assert tablefmt.open(uri).version == version
    assert strays(uri, before) == []


def test_workers_are_asked_once_an_application(
    spark: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tablefmt.spark.backends import python_workers

    asked: list[Any] = []
    answer = python_workers._answer
    monkeypatch.setattr(
        python_workers, "_answer", lambda session: asked.append(1) or answer(session)
    )
    monkeypatch.setattr(python_workers, "_checked", type(python_workers._checked)())
    tablefmt.spark.read(spark, table.table.uri).count()
    assert asked == []
    table.compact()
    table.delete("id = 3")
    table.cluster("id")
    assert asked == [1]


def test_a_worker_that_fails_later_is_told_of_in_the_same_words() -> None:
    """The worker is on another machine than the one that was checked."""
    raw = (
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "serializers.py", line 188, in loads\n'
        "ModuleNotFoundError: No module named 'tablefmt'\n"
    )
    error = translated(raw)
    assert isinstance(error, UnsupportedFeatureError)
    assert error.features == ["spark:workers"]
    assert translated(raw.replace("'tablefmt'", "'tablefmt_other'")) is None
