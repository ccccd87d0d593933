"""delta-rs' names over tables of tablefmt: all of its API is translated or refused by name."""

from __future__ import annotations

import ast
import inspect
import pickle
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake as peer
import deltalake.exceptions
import deltalake.table
import pyarrow as pa
import pytest

import tablefmt
from tablefmt import errors
from tablefmt.compat import CompatibilityWarning, deltalake
from tablefmt.compat.deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    Schema,
    Transaction,
    WriterProperties,
    convert_to_deltalake,
    deltalake_builders,
    exceptions,
    write_deltalake,
)
from tablefmt.compat.deltalake.deltalake_names import NAMES, ROWS
from tablefmt.compat.deltalake.query import QueryBuilder
from tablefmt.store.location import open_store
from tablefmt.store.s3_access import S3Access
from tests.tables import sorted_rows

CLASSES = {
    "QueryBuilder": (peer.QueryBuilder, QueryBuilder),
    "DeltaTable": (peer.DeltaTable, deltalake.DeltaTable),
    "TableMerger": (peer.table.TableMerger, deltalake_builders.TableMerger),
    "TableOptimizer": (peer.table.TableOptimizer, deltalake_builders.TableOptimizer),
    "TableAlterer": (peer.table.TableAlterer, deltalake_builders.TableAlterer),
}
FUNCTIONS = ("write_deltalake", "convert_to_deltalake", "CommitProperties", "WriterProperties")
INTERNAL = {"TableMerger", "TableOptimizer", "TableAlterer"}
"""Classes that users do not construct."""

VALUES = {
    *("DataType", "Field", "Metadata", "PostCommitHookProperties", "Schema", "Transaction"),
    *("BloomFilterProperties", "ColumnProperties", "__version__", "WriterProperties"),
}
"""Names of classes of plain values, which need no row."""

UNKNOWN = {"TableFeatures", "VariantType"}
"""Names that only refused arguments use."""


def theirs() -> Iterator[tuple[str, Any, Any]]:
    """Yield each call of delta-rs: its name in the rows, their function, and ours or None."""
    for name in FUNCTIONS:
        yield name, getattr(peer, name), getattr(deltalake, name)
    for called, (their, our) in CLASSES.items():
        if called not in INTERNAL:
            yield called, their.__init__, our.__init__
        for name, member in inspect.getmembers(their):
            if not name.startswith("_"):
                yield f"{called}.{name}", member, getattr(our, name, None)


def arguments(function: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {n: p for n, p in found.items() if n not in ("self", "cls") and p.kind not in kinds}


@pytest.mark.parametrize("call", [name for name, _, _ in theirs()])
def test_every_name_and_argument_of_delta_rs_is_translated_or_refused(call: str) -> None:
    their, our = next((their, our) for name, their, our in theirs() if name == call)
    row = NAMES.rows.get(call)
    if call not in VALUES:
        assert row is not None, f"{call} has no row"
    if row is not None and row.kind == "refused":
        assert our is None
        return
    assert our is not None, f"{call} is missing"
    if callable(their):
        assert list(arguments(our)) == list(arguments(their))


def test_every_exported_name_of_delta_rs_is_there_or_refused() -> None:
    missing = {name for name in peer.__all__ if name not in deltalake.__all__}
    refused = {row.theirs for row in ROWS if row.kind == "refused" and "." not in row.theirs}
    assert missing - refused - UNKNOWN - {"__version__"} == set()
    for name in missing & refused:
        with pytest.raises(errors.UnsupportedFeatureError, match=name):
            getattr(deltalake, name)


def test_every_error_of_delta_rs_is_there() -> None:
    assert set(exceptions.__all__) == set(peer.exceptions.__all__)


def test_every_row_names_something_of_delta_rs() -> None:
    known = {name for name, _, _ in theirs()} | set(peer.__all__)
    known.add("TableFeatures")
    wrong = []
    for row in ROWS:
        call, _, argument = row.theirs.rstrip(")").partition("(")
        if call not in known:
            wrong.append(row.theirs)
        elif argument:
            their = next(function for name, function, _ in theirs() if name == call)
            if argument not in arguments(their):
                wrong.append(row.theirs)
    assert wrong == []


def test_every_argument_is_used_or_its_row_says_otherwise() -> None:
    """An argument that the code never reads would be ignored in silence."""
    unread = []
    for call, _, our in theirs():
        if our is None or isinstance(our, property) or call in VALUES:
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(our))))
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for argument in arguments(our):
            row = NAMES.rows.get(f"{call}({argument})")
            if argument not in read and (row is None or row.kind == "same"):
                unread.append(f"{call}({argument})")
    assert unread == []


@pytest.fixture
def uri(tmp_path: Path) -> str:
    write_deltalake(
        str(tmp_path / "t"),
        pa.table({"id": [1, 2, 3], "region": ["EU", "US", "EU"]}),
        partition_by=["region"],
    )
    return str(tmp_path / "t")


REFUSED = [
    row.theirs
    for row in ROWS
    if row.kind == "refused" and row.theirs.startswith("DeltaTable.") and "(" not in row.theirs
]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_methods_say_what_to_use(uri: str, name: str) -> None:
    with pytest.raises(errors.UnsupportedFeatureError) as error:
        getattr(DeltaTable(uri), name.partition(".")[2])
    assert NAMES.rows[name].note in str(error.value)
    assert error.value.features == [f"compat:{name}"]


def test_refused_and_unknown_arguments_change_nothing(uri: str) -> None:
    table = DeltaTable(uri)
    with pytest.raises(errors.UnsupportedFeatureError, match="keep_versions"):
        table.vacuum(keep_versions=[1])
    with pytest.raises(errors.UnsupportedFeatureError, match="try_cast"):
        table.update({"id": "id"}, error_on_type_mismatch=False)
    with pytest.raises(errors.InvalidArgumentError, match="predicate"):
        table.delete(predicat="id = 1")  # type: ignore[call-arg]
    with pytest.raises(errors.InvalidArgumentError, match="filters"):
        table.to_pandas(where="id = 1")  # type: ignore[call-arg]
    assert table.version() == tablefmt.open(uri).version == 1


def test_arguments_without_effect_warn_once_at_the_caller(uri: str) -> None:
    with pytest.warns(CompatibilityWarning, match="writer_properties") as found:
        DeltaTable(uri).delete("id = 1", writer_properties=WriterProperties(compression="ZSTD"))
    assert [warning.filename for warning in found] == [__file__]


def test_version_0_is_refused_because_delta_has_rows_there(uri: str) -> None:
    table = DeltaTable(uri)
    for call in (
        lambda: DeltaTable(uri, version=0),
        lambda: table.load_as_version(0),
        lambda: table.restore(0),
    ):
        with pytest.raises(errors.InvalidArgumentError, match="first write is version 1"):
            call()
    assert table.version() == 1


def test_quickstart_write_append_overwrite_and_time_travel(uri: str) -> None:
    write_deltalake(uri, pa.table({"id": [4], "region": ["US"]}), mode="append")
    write_deltalake(uri, pa.table({"id": [9], "region": ["EU"]}), mode="overwrite",
                    predicate="region = 'EU'")  # fmt: skip
    table = DeltaTable(uri)
    assert sorted_rows(table.to_pyarrow_table()) == [(2, "US"), (4, "US"), (9, "EU")]
    assert table.version() == 3
    table.load_as_version(1)
    assert sorted_rows(table.to_pyarrow_table()) == [(1, "EU"), (2, "US"), (3, "EU")]
    assert sorted_rows(DeltaTable(uri, version=2).to_pyarrow_table()) == [
        (1, "EU"),
        (2, "US"),
        (3, "EU"),
        (4, "US"),
    ]
    table.update_incremental()
    assert table.count() == 3
    with pytest.raises(errors.TableExistsError):
        write_deltalake(uri, pa.table({"id": [1], "region": ["EU"]}))
    write_deltalake(uri, pa.table({"id": [1], "region": ["EU"]}), mode="ignore")
    write_deltalake(table, pa.table({"id": [5], "region": ["US"]}), mode="append")
    assert table.version() == 4
    write_deltalake(uri, pa.table({"n": [1]}), mode="overwrite", schema_mode="overwrite",
                    partition_by=[])  # fmt: skip
    assert DeltaTable(uri).schema().to_arrow().names == ["n"]


def test_metrics_and_rows_are_those_of_delta_rs(uri: str, tmp_path: Path) -> None:
    """The same program runs on both libraries: results, metrics and rows are equal."""
    source = pa.table({"id": [3, 7], "region": ["US", "US"]})
    counts = (
        *("num_deleted_rows", "num_updated_rows", "num_source_rows", "num_target_rows_inserted"),
        *("num_target_rows_updated", "num_target_rows_deleted"),
    )

    def run(library: Any, place: str) -> list[Any]:
        library.write_deltalake(place, pa.table({"id": [1, 2, 3], "region": ["EU", "US", "EU"]}))
        table = library.DeltaTable(place)
        done = [
            table.delete("id = 1"),
            table.update({"id": "id + 10"}, predicate="id = 2"),
            table.update(new_values={"region": "its"}, predicate="id = 12"),
        ]
        merge = table.merge(source, "s.id = t.id", source_alias="s", target_alias="t")
        merge = merge.when_matched_update({"region": "s.region"}).when_not_matched_insert_all()
        done.append(merge.execute())
        table.update_incremental()
        return [
            *({name: each[name] for name in counts if name in each} for each in done),
            sorted_rows(table.to_pyarrow_table()),
            table.schema().to_json().replace(" ", ""),
            table.count(),
        ]

    ours, both = run(deltalake, str(tmp_path / "ours")), run(peer, str(tmp_path / "peer"))
    assert ours[-3:] == [[(3, "US"), (7, "US"), (12, "its")], ours[-2], 3]
    assert ours == [*both[:-3], sorted(both[-3]), *both[-2:]]


def test_inspection_of_a_table(uri: str) -> None:
    table = DeltaTable(uri)
    assert table.partitions() == [{"region": "EU"}, {"region": "US"}]
    assert table.partitions(file_pruning_predicate=[("region", "=", "US")]) == [{"region": "US"}]
    files = table.file_uris()
    assert len(files) == 2
    assert all(Path(name).exists() for name in files)
    assert table.get_add_actions(flatten=True).column_names == [
        "path", "size_bytes", "num_records", "partition.region",
    ]  # fmt: skip
    assert table.to_pandas(partitions=[("region", "=", "EU")], columns=["id"])["id"].tolist() == [
        1, 3,
    ]  # fmt: skip
    both = table.to_pyarrow_table(partitions=[("region", "=", "EU")], filters=[("id", ">", 1)])
    assert both["id"].to_pylist() == [3]
    assert table.to_pyarrow_dataset().to_table().num_rows == 3
    assert [entry["operation"] for entry in table.history()] == ["WRITE", "CREATE TABLE"]
    assert table.metadata().partition_columns == ["region"]
    changed = table.load_cdf().read_all()
    assert sorted(changed["id"].to_pylist()) == [1, 2, 3]


def test_definition_and_alterations(tmp_path: Path) -> None:
    table = DeltaTable.create(
        tmp_path / "t",
        Schema([Field("id", "long", nullable=False), Field("s", "string")]),
        name="people",
        description="all of them",
        configuration={"delta.appendOnly": "false", "delta.logRetentionDuration": "interval 9 days",
                       "delta.enableChangeDataFeed": "true"},
    )  # fmt: skip
    found = table.metadata()
    assert (found.name, found.description) == ("people", "all of them")
    assert found.configuration == {"appendOnly": "false", "logRetentionDuration": "interval 9 days"}
    table.alter.add_columns([Field("n", "integer"), Field("a.b", "double")])
    table.alter.add_constraint({"positive": "id > 0"})
    table.alter.set_table_properties({"delta.enableDeletionVectors": "false"})
    assert table.schema().to_arrow().names == ["id", "s", "n", "a.b"]
    assert table.metadata().configuration["deleteMode"] == "copy-on-write"
    with pytest.raises(exceptions.DeltaProtocolError):
        write_deltalake(table, pa.table({"id": [-1], "s": ["x"]}), mode="append")
    with pytest.raises(exceptions.SchemaMismatchError, match="appendOnly"):
        table.alter.set_table_properties({"delta.apendOnly": "true"})
    with pytest.raises(exceptions.SchemaMismatchError, match="compression"):
        table.alter.set_table_properties({"delta.parquet.compression.codec": "gzip"})
    table.alter.drop_constraint("nothing", raise_if_not_exists=False)


def test_commit_properties_apply_a_write_once(uri: str) -> None:
    properties = CommitProperties({"job": "nightly"}, app_transactions=[Transaction("app", 7)])
    for _ in range(2):
        write_deltalake(uri, pa.table({"id": [4], "region": ["US"]}), mode="append",
                        commit_properties=properties)  # fmt: skip
    table = DeltaTable(uri)
    assert (table.count(), table.transaction_version("app")) == (4, 7)
    assert table.transaction_version("other") is None
    assert table.history(1)[0]["job"] == "nightly"


def test_maintenance(uri: str) -> None:
    for at in range(3):
        write_deltalake(uri, pa.table({"id": [at], "region": ["US"]}), mode="append")
    table = DeltaTable(uri)
    assert table.optimize.compact() == {"numFilesAdded": 1, "numFilesRemoved": 4}
    assert table.optimize.z_order(["id"])["numFilesAdded"] == 2
    assert table.restore(1)["numRestoredFile"] == 2
    assert table.count() == 3
    removed = table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert removed
    assert sorted_rows(table.to_pyarrow_table()) == [(1, "EU"), (2, "US"), (3, "EU")]


def test_storage_options_of_object_store_are_those_of_the_store() -> None:
    """STO-27: the store reads the names of object_store; a few options are not needed."""
    given = {"AWS_ACCESS_KEY_ID": "a", "aws_secret_access_key": "b", "AWS_REGION": "eu",
             "AWS_S3_ALLOW_UNSAFE_RENAME": "true", "AWS_ENDPOINT_URL": "http://x",
             "aws_conditional_put": "etag"}  # fmt: skip
    store = open_store("s3://bucket/t", deltalake.storage_keywords(given))
    assert store.access() == S3Access(
        endpoint="http://x", region="eu", path_style=True, credentials="keys", key="a", secret="b"
    )
    with pytest.raises(errors.StoreError, match="aws_sse_kms"):
        DeltaTable.is_deltatable("s3://bucket/t", {"aws_sse_kms": "x"})


def test_folders_of_parquet_become_tables(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    convert_to_deltalake(str(tmp_path), name="old")
    assert DeltaTable.is_deltatable(str(tmp_path))
    assert DeltaTable(str(tmp_path)).count() == 2


def test_no_warning_in_a_plain_program(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_deltalake(tmp_path / "t", pa.table({"id": [1]}), description="d")
        assert DeltaTable(tmp_path / "t").metadata().description == "d"
        assert DeltaTable(tmp_path / "t").version() == 1


def test_a_schema_names_the_method_that_is_meant() -> None:
    """`to_pyarrow` was the name before delta-rs 1.0."""
    schema = Schema.from_arrow(pa.schema([("id", pa.int64())]))
    with pytest.raises(
        AttributeError, match=r"no Schema\.to_pyarrow here; did you mean 'to_arrow'"
    ):
        _ = schema.to_pyarrow
    assert pickle.loads(pickle.dumps(schema)) == schema
