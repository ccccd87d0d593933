"""Errors as text: out of any wrapping they come back as they were."""

from __future__ import annotations

import datetime as dt
import inspect
import random
import sys
import textwrap
import traceback
import types
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt import errors
from tablefmt.errors import (
    CommitRejectedError,
    CorruptDataError,
    StoreError,
    TablefmtError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.spark.runtime import failures, spark_messages
from tablefmt.spark.runtime.failures import (
    carrying,
    marked,
    misfit,
    recovered,
    translated,
    understood,
)
from tablefmt.spark.runtime.spark_messages import lost_file, without_s3a
from tablefmt.spark.statements.dml import explaining_misfits
from tablefmt.store.object_store import KeyNotFoundError

UTC = dt.timezone.utc

CONFLICT = {
    "reason": 'both touch ünï [code] "x" <b> ${y} %s\nand more',
    "winner_version": 7,
    "winner_operation": "OVERWRITE",
    "rule": "CFL-2",
    "evidence": {"partitions": [[None, "a/b"], (1, 2.5)], "cell": "x", "deep": {"n": {}}},
    "advice": "Do it again.",
}
ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "TableNotFoundError": (("/a b", "dropped"), {}),
    "TableExistsError": (("s3://b/t",), {}),
    "ExportBlockedError": (
        ("s3://b/t", "delta", "_delta_log/0.json", "another table is there"),
        {},
    ),
    "ForeignTableError": (("s3://b/t", "a Delta table is there", "_delta_log/0.json"), {}),
    "VersionNotFoundError": (
        (dt.datetime(2024, 1, 1, 0, 0, 0, 1, UTC), dt.date(2024, 1, 2), (Decimal("0.10"), b"\xff")),
        {},
    ),
    "ChangesExpiredError": ((3, 9), {}),
    "CommitUnknownError": (("ab" * 16, 12, "reset"), {}),
    "CommitRejectedError": (("disk full",), {}),
    "LogGapError": ((4, 5), {}),
    "UnsupportedFeatureError": (("no", ["a", "b"]), {}),
    "StoreError": (("busy",), {"retryable": True}),
    "SchemaMismatchError": (("no such columns", ["x", "ä\U0001f600"]), {}),
}


MOMENTS = st.datetimes().map(lambda moment: moment.replace(fold=0))


def example(kind: type[TablefmtError]) -> TablefmtError:
    if issubclass(kind, errors.ConcurrentModificationException):
        given = dict(CONFLICT)
        return kind(given.pop("reason"), **given)  # type: ignore[arg-type]
    if kind.__name__ not in ARGUMENTS and issubclass(kind, errors.CorruptTableError):
        return kind("torn\nin two", key="data/x", rule="DAT-5")
    positional, named = ARGUMENTS.get(kind.__name__, (("a message",), {}))
    return kind(*positional, **named)


KINDS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, TablefmtError)
]


def same(one: TablefmtError | None, other: TablefmtError) -> bool:
    return (
        type(one) is type(other)
        and str(one) == str(other)
        and one.args == other.args
        and repr(vars(one)) == repr(vars(other))
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_error_comes_back_with_its_class_message_and_attributes(
    kind: type[TablefmtError],
) -> None:
    error = example(kind)
    text = marked(error)
    assert text.startswith(str(error))
    assert same(recovered(text), error)


def wrapped_by_a_traceback(error: TablefmtError) -> str:
    def failing() -> None:
        with carrying():
            raise error

    with pytest.raises(type(error)) as caught:
        failing()
    return "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_wrapping_does_no_harm(kind: type[TablefmtError]) -> None:
    error = example(kind)
    text = wrapped_by_a_traceback(error)
    assert same(recovered(text), error)
    java = f"org.apache.spark.SparkException: [X] Job aborted: {text}\n\tat java.lang.Thread.run"
    assert same(recovered(java), error)
    narrow = "\n".join(textwrap.wrap(java, 60, break_long_words=True, break_on_hyphens=True))
    assert same(recovered(narrow), error)
    indented = textwrap.indent(narrow, "    ")
    assert same(recovered(indented), error)


@pytest.mark.slow
@given(
    st.text(),
    st.lists(st.text()),
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | MOMENTS,
            lambda inner: (
                st.lists(inner)
                | st.tuples(inner, inner)
                | st.dictionaries(st.text() | st.integers(), inner)
            ),
        ),
    ),
)
def test_any_text_and_any_value_comes_back(
    message: str, columns: list[str], evidence: dict[str, Any]
) -> None:
    assert same(
        recovered(marked(errors.SchemaMismatchError(message, columns))),
        errors.SchemaMismatchError(message, columns),
    )
    conflict = errors.ConcurrentAppendException(
        message, winner_version=1, winner_operation="X", rule="R", evidence=evidence
    )
    assert same(recovered(marked(conflict)), conflict)


def test_a_damaged_record_is_none_or_still_says_the_same() -> None:
    """Some bits of a compressed record mean nothing, and its checksum is of what it holds."""
    error = VersionNotFoundError(9, 0, 5)
    text = marked(error)
    body = text[text.index("[tablefmt:") + 10 : -1]
    draws = random.Random(1)
    undamaged = 0
    for _ in range(300):
        at = draws.randrange(len(body))
        other = draws.choice("ABCDabcd0123_-")
        if other != body[at] and (at < len(body) - 4):
            got = recovered(f"[tablefmt:{body[:at]}{other}{body[at + 1 :]}]")
            assert got is None or same(got, error)
            undamaged += got is not None
        assert recovered(f"[tablefmt:{body[:at]}]") is None
        assert recovered(text[: len(text) - 1 - at]) is None
    assert undamaged < 10
    assert recovered("[tablefmt:]") is None
    assert recovered("[tablefmt:é]") is None
    assert recovered("no record at all") is None


@pytest.mark.parametrize("name", ["OSError", "annotations", "Nothing", "ClassVar"])
def test_a_class_that_is_not_ours_is_none(name: str) -> None:
    class Foreign(TablefmtError):
        pass

    Foreign.__name__ = name
    made = marked(Foreign("x"))
    assert same(recovered(made), TablefmtError("x"))
    errors_of_another_version = failures.record_of.__globals__["errors"]
    fake = types.ModuleType("fake")
    setattr(fake, name, Foreign)
    failures.record_of.__globals__["errors"] = fake
    try:
        text = marked(Foreign("x"))
    finally:
        failures.record_of.__globals__["errors"] = errors_of_another_version
    assert recovered(text) is None


def test_an_error_class_of_another_package_travels_as_its_base_class() -> None:
    error = recovered(marked(KeyNotFoundError("data/x")))
    assert type(error) is TablefmtError
    assert str(error) == str(KeyNotFoundError("data/x"))


def test_the_last_record_of_a_text_and_the_outermost_text_decide() -> None:
    first, second = VersionNotFoundError(1, 2, 3), UnsupportedFeatureError("no", ["x"])
    assert same(recovered(f"{marked(first)}\nthen\n{marked(second)}"), second)
    assert same(understood(["Job aborted", marked(first), marked(second)]), first)
    assert understood(["Job aborted", "None"]) is None


def test_other_exceptions_pass_through_carrying() -> None:
    with pytest.raises(ZeroDivisionError), carrying():
        1 / 0  # noqa: B018


def test_messages_that_send_the_user_the_wrong_way_are_replaced() -> None:
    mode = translated(
        '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "tablefmt" cannot be written in the '
        '"ErrorIfExists" mode. Please use either the "Append" or "Overwrite" mode instead.'
    )
    assert isinstance(mode, UnsupportedFeatureError)
    assert "tablefmt.spark.write" in str(mode)
    assert mode.features == ["mode:ErrorIfExists"]
    unknown = translated(
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: tablefmt. Make sure the provider "
        "name is correct"
    )
    assert isinstance(unknown, UnsupportedFeatureError)
    assert "tablefmt.spark.register(spark)" in str(unknown)
    for text in (
        "Python is not connected: call tablefmt.spark.register(spark)",
        "Table `tablefmt, in a session without tablefmt`.`spark`.`register(spark)` does not …",
    ):
        assert "once per session" in str(translated(text))
    by_path = (
        "[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY] Unsupported data source type for direct query"
    )
    assert "TEMPORARY VIEW" in str(translated(f"{by_path} on files: tablefmt SQLSTATE: 0A000"))
    assert translated(f"{by_path} on files: tablefmt2 SQLSTATE: 0A000") is None
    assert translated("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: tabelfmt. x") is None
    assert (
        translated(
            '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "other" cannot be written in the '
            '"Ignore" mode. See tablefmt.'
        )
        is None
    )


def test_a_query_on_s3_without_hadoops_classes_says_what_to_start() -> None:
    file = "Encountered error while reading file {}://b/t/data/x.parquet. "
    lacking = (
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    )
    found = without_s3a([file.format("s3a-971bed9709"), lacking])
    assert "session(s3=True)" in str(found)
    assert without_s3a([file.format("s3a"), lacking]) is None  # a file of another format
    assert without_s3a([file.format("s3a-971bed9709"), "AccessDenied"]) is None


class Java:
    """The members of a Java exception that py4j shows."""

    def __init__(self, message: str | None, cause: Java | None = None) -> None:
        self.getMessage = lambda: message
        self.getCause = lambda: cause


def test_the_whole_chain_of_causes_is_searched_and_the_rest_left_alone() -> None:
    error = VersionNotFoundError(9, 0, 5)
    seen: list[Any] = []

    def original(exception: Any) -> Exception:
        seen.append(exception)
        return KeyError("as it was")

    module = types.SimpleNamespace(convert_exception=original, __name__="m")
    failures._wrap(module, failures._java_texts)
    first = module.convert_exception
    failures._wrap(module, failures._java_texts)
    assert module.convert_exception is first
    chain = Java(
        "Query failed", Java(None, Java("Job aborted", Java(wrapped_by_a_traceback(error))))
    )
    assert same(first(chain), error)
    assert seen == []
    other = Java("of another kind", Java(None))
    assert repr(first(other)) == "KeyError('as it was')"
    strange = object()
    assert repr(first(strange)) == "KeyError('as it was')"
    assert seen == [other, strange]
    loop = Java("a")
    loop.getCause = lambda: loop
    assert repr(first(loop)) == "KeyError('as it was')"


def test_without_pyspark_or_its_parts_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    failures.install()


def test_what_spark_says_of_rows_that_do_not_fit_names_table_and_columns() -> None:
    said = (
        "[INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_COLUMNS] Cannot write incompatible data for the table "
        "`spark_catalog`.`d``b`.`t`: Cannot write extra columns `e``x`, `y`. SQLSTATE: KD000"
    )
    found = misfit(said)
    assert found is not None
    assert (found[0], found[1].columns) == ("`d``b`.`t`", ["e`x", "y"])
    assert "KD000" not in str(found[1])
    assert misfit("[PARSE_SYNTAX_ERROR] Syntax error") is None


def test_the_mark_of_a_failed_callback_is_the_same_in_java() -> None:
    """Both languages know a failure by it."""
    code = files("tablefmt.spark.jvm").joinpath("java").joinpath("Bridge.java").read_text("utf-8")
    escaped = failures.FAILED.replace("\0", "\\u0000")
    assert f'String FAILED = "{escaped}";' in code


def test_errors_of_this_package_keep_their_class_and_cause() -> None:
    """A text that looks like a value that does not fit changes nothing."""
    text = "[CAST_OVERFLOW] The value 1 of the type BIGINT cannot be cast to INT"
    cause = StoreError("no answer")
    with pytest.raises(CommitRejectedError) as rejected, explaining_misfits([]):
        raise CommitRejectedError(text) from cause
    assert rejected.value.__cause__ is cause
    with pytest.raises(RuntimeError) as other, explaining_misfits([]):
        raise RuntimeError("another failure") from cause
    assert other.value.__cause__ is cause


NOT_THERE = (
    "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file {}. File does not "
    "exist. It is possible the underlying files have been updated."
)


def test_a_file_that_spark_does_not_find_is_one_of_a_table() -> None:
    """DAT-5: the error has both reasons if the log cannot be asked."""
    key = f"data/{'a' * 32}/p=1/0-0.parquet"
    error = lost_file(["Job aborted", NOT_THERE.format(f"s3a://bucket/t/{key}")])
    assert isinstance(error, CorruptDataError)
    assert error.key == key
    assert "a vacuum removed its version after it was read, or it is lost" in str(error)
    assert lost_file([NOT_THERE.format("s3a://bucket/t/part-0.parquet"), ""]) is None


def test_a_file_that_spark_does_not_find_is_none_of_ours_if_no_log_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-5: another's folders may be called as ours are, and there may be a table beside them."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    table.append({"id": [1]})
    (key,) = table.scan().files()["path"].to_pylist()
    other = f"data/{'a' * 32}/0-0.parquet"

    def answer(root: str, key: str) -> Exception | None:
        return lost_file([NOT_THERE.format(f"file:{tmp_path / root}/{key}")])

    assert answer("nowhere at all", key) is None
    assert answer("t", other) is None
    for _ in range(2):
        error = answer("t", key)
        assert isinstance(error, CorruptDataError)
        assert error.key == key
        assert "it is missing" in str(error)
        # A version before has it.
        table.overwrite({"id": [2]})
    monkeypatch.setattr(spark_messages, "ENTRIES_MAX", 2)
    table.append({"id": [3]})
    # The log is too long to be searched from its beginning.
    for old in (key, other):
        assert "a vacuum removed its version after it was read, or" in str(answer("t", old))
    table.vacuum(retention="0 seconds", breaks_running_transactions=True, dry_run=False)
    assert isinstance(answer("t", key), VersionNotFoundError)
