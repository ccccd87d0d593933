"""The bounds of dependencies that are declared are those that are tested."""

from __future__ import annotations

import pytest
from checks import environments

PROJECT = """
[project]
classifiers = [
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3.10",
]
dependencies = [
    "click>=8.1",
    "sqlglot>=27,<31", # a comment
]

[project.optional-dependencies]
s3 = ["s3fs>=2025.3,<2027", "botocore>=1.36"]
polars = ["polars>=1.36"] # another
connect = [
    "tablefmt[s3,polars]",
    "grpcio-status>=1.76",
]
test = [
    "tablefmt[s3]",
    "ruff>=0.17,<0.18",
]
bench = ["deltalake>=1.6"]

[project.scripts]
"""


def test_every_lower_bound_that_users_get_is_a_constraint() -> None:
    assert environments.lower_bounds(PROJECT) == [
        "boto3==1.36",
        "botocore==1.36",
        "click==8.1",
        "grpcio-status==1.76",
        "polars==1.36",
        "s3fs==2025.3",
        "sqlglot==27",
    ]


def test_every_dependency_has_a_lower_bound() -> None:
    """Without a bound, `oldest` would install the newest version of an index."""
    text = (environments.TOP / "pyproject.toml").read_text("utf-8")
    names = {line.split("==")[0] for line in environments.lower_bounds(text)}
    core = {"click", "fsspec", "numpy", "orjson", "protobuf", "pyarrow", "pyroaring", "rich"}
    extras = {"grpcio", "s3fs", "botocore", "duckdb", "pytz", "pandas", "polars"}
    assert core | extras | {"sqlglot"} < names


@pytest.mark.soak
@pytest.mark.parametrize("name", ["oldest", "newest"])
def test_it_works_with_the_dependencies(name: str) -> None:
    """`pip check` and tests of every part but Spark; tools/checks/old_sparks.py has that."""
    assert environments.main([name]) == 0
