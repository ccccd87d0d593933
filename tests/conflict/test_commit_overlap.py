"""Partitions that two operations share, by the values in their scopes. Spec: CFL-19."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.conflict.commit_overlap import shared_partitions
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.log_entry import Metadata, PartitionScope, PredicateScope

SINGLE = 0.10000000149011612
"""0.1 as the double that a FLOAT of it is."""


@pytest.mark.parametrize(
    ("kind", "theirs", "mine", "shared"),
    [
        ("FLOAT", 0.1, SINGLE, {(SINGLE,)}),
        ("FLOAT", 1, 1.0, {(1.0,)}),
        ("FLOAT", "NaN", "NaN", {("NaN",)}),
        ("FLOAT", None, None, {(None,)}),
        ("FLOAT", 0.1, 0.2, set()),
        ("DOUBLE", 1, 1.0, {(1.0,)}),
        ("DOUBLE", 0.1, SINGLE, set()),
        ("STRING", "a", "a", {("a",)}),
    ],
)
def test_a_partition_is_the_same_whatever_text_its_value_has(
    kind: str, theirs: Any, mine: Any, shared: set[Any]
) -> None:
    """VAL-1: another writer may write the number of a FLOAT with other digits."""
    metadata = Metadata(schema_from(f"p {kind}, x BIGINT"), (1,))
    scopes = (PartitionScope(((theirs,),)), PartitionScope(((mine,),)))
    assert shared_partitions(*scopes, metadata) == frozenset(shared)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["(no condition ${env:HOME} at all", "", "y = 1", "\0", "p = p" * 6_000]
)
def test_a_condition_that_cannot_be_read_overlaps(text: str) -> None:
    """CFL-19, ENT-5: any text may be in an entry, and an unreadable condition rules nothing out."""
    metadata = Metadata(schema_from("p STRING, x BIGINT"), (1,))
    listed, readable = PartitionScope((("a",),)), PredicateScope("p = 'b'")
    for mine in (listed, readable, PredicateScope(text)):
        assert shared_partitions(PredicateScope(text), mine, metadata) is None
        assert shared_partitions(mine, PredicateScope(text), metadata) is None
    assert shared_partitions(readable, listed, metadata) == frozenset()
