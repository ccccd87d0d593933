"""The tests of a module are found by its path: their folders are those of the package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import tablefmt
from tests.places import ROOT
from tests.scheduling import LONG

IMPORT = re.compile(r"^ *from (tablefmt[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
PACKAGE = Path(tablefmt.__file__).parent
TESTS = ROOT / "tests"
OF_NO_PACKAGE = {
    "architecture": "the shape of the package",
    "documents": "README and the site",
    "spark/cluster": "executors in processes of their own",
    "spark/connect": "the Spark Connect client",
    "spark/s3": "Spark on S3",
    "spec": "the specification, its golden tables and the second reader",
    "system": "many packages at once: faults, processes, simulation, histories, requests",
    "table": "what holds for every verb",
}
TESTED_THROUGH_OTHERS = {
    "cli": "log_commands maintenance_commands table_commands",
    "commit": "concurrent_commits environment restore_plan",
    "compat/delta": "delta_table tables",
    "compat/deltalake": "deltalake_arguments deltalake_table",
    "compat/pyiceberg": "pyiceberg_catalog pyiceberg_table",
    "compat": "translation",
    "data": (
        "arrow_results assigned_values clustering_order column_cast data_writer "
        "file_prefetch file_rewrite generated_values identity_values imported_files"
    ),
    "demo": "story",
    ".": "duckdb polars printable",
    "engines": "duckdb_query duckdb_tables polars_scan",
    "export": (
        "delta_actions delta_state export_refusals iceberg_commit iceberg_deletes written_columns"
    ),
    "expressions": (
        "ansi_comparisons arrow_values check_constraints constant_values constraint_tokens "
        "duckdb_operators duckdb_types partition_conditions set_assignments"
    ),
    "imports": ("clone_plan delta_log partition_values source source_columns source_description"),
    "inspection": "explained_table",
    "log": "entry_columns entry_json metadata_json",
    "maintenance": (
        "derived_checks file_checks log_damage manual_checkpoint position_checks stored_objects"
    ),
    "model": (
        "argument_checks argument_names cached_property clustering_columns features "
        "identity_columns import_layouts partition_fields partitionings tags"
    ),
    "operations": "alterations describe merge merge_matches prepared_merge",
    "pipes": "keyed_merge replication_lag",
    "session": (
        "background_work commit_result identity_claims input_rows metadata_changes "
        "statement_scope table_context"
    ),
    "snapshot": "earlier_versions head_freshness",
    "spark/backends": "distributed_compaction query_plans",
    "spark/backends/native": "s3a",
    "spark/columns": "catalog_columns projection store_assignment",
    "spark/entry": (
        "catalog_locations clone_verbs dataframe_io inspection_verbs java_arguments "
        "metadata_frames read_verbs spark_table statement_verbs stream_verbs "
        "write_verbs"
    ),
    "spark": "pyspark_objects spark_options",
    "spark/runtime": "sql_text",
    "spark/statements": "alter_table frame_reads",
    "spark/streams": "stream_files",
    "store": (
        "cloud_options forks fsspec_filesystem import_roots listing_order "
        "remote_store s3_access store_traits"
    ),
    "testing": (
        "contract faults random_conditions random_statements reference_model schedules "
        "simulated_commit simulated_retention"
    ),
}
"""Modules that no test in the folder of their package names. The list only gets shorter."""


def test_folders_of_tests_are_packages() -> None:
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    of_packages = {
        f for f in folders if not any(f"{f}/".startswith(f"{o}/") for o in OF_NO_PACKAGE)
    }
    assert of_packages
    assert [folder for folder in sorted(of_packages) if not (PACKAGE / folder).is_dir()] == []


def imports(path: Path) -> Iterator[str]:
    """Yield every name that a file imports from the package, with its module."""
    for module, names in IMPORT.findall(path.read_text(encoding="utf-8")):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


def without_a_test() -> dict[str, list[str]]:
    """Return the modules by package that no test of the package's folder has by name or imports.

    The tests of a package inside another may lie in the folder of the outer one.
    """
    found: dict[str, list[str]] = {}
    named = {
        folder: {name for path in folder.glob("*.py") for name in (path.stem, *imports(path))}
        for folder in (TESTS, *(path for path in TESTS.rglob("*") if path.is_dir()))
    }
    for path in sorted(PACKAGE.rglob("[!_]*.py")):
        package = path.relative_to(PACKAGE).parent
        module = ".".join(("tablefmt", *package.parts, path.stem))
        folders = [TESTS / each for each in (package, *package.parents[:-1])]
        if not any({module, f"test_{path.stem}"} & named.get(each, set()) for each in folders):
            found.setdefault(package.as_posix(), []).append(path.stem)
    return found


def test_a_module_has_a_test_in_the_folder_of_its_package() -> None:
    """A test of one module has the name of the module, a test of a behaviour another."""
    found = {package: " ".join(names) for package, names in without_a_test().items()}
    assert found == TESTED_THROUGH_OTHERS


def test_the_schedule_names_tests_that_exist() -> None:
    assert [path for path in LONG if not (ROOT / path).exists()] == []
