"""Overlap of the partitions of two operations. Pure. Spec: CFL-19."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from tablefmt.errors import CorruptEntryError, InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.conditions_overlap import may_both_hold
from tablefmt.expressions.predicate import Predicate
from tablefmt.expressions.prune import decided_by_partitions, partition_match
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.entry import Metadata, PartitionScope, PredicateScope, Scope
from tablefmt.model.schema import Primitive, Schema
from tablefmt.model.values import decode, encode

Partitions = frozenset[tuple[Any, ...]]


def overlap(theirs: Scope, mine: Scope, metadata: Metadata | None) -> Partitions | None:
    """Return the partitions in both scopes; None if the overlap cannot be listed.

    An empty set proves that the scopes are disjoint. A scope that cannot be read returns None.

    Args:
        theirs, mine: the scopes.
        metadata: it defines the partition columns.
    """
    if any(isinstance(scope, PartitionScope) and not scope.values for scope in (theirs, mine)):
        return frozenset()
    lists = isinstance(theirs, PartitionScope) and isinstance(mine, PartitionScope)
    if theirs is None or mine is None or (metadata is None and not lists):
        return None
    try:
        if isinstance(theirs, PartitionScope) and isinstance(mine, PartitionScope):
            return _listed(theirs, metadata) & _listed(mine, metadata)
        assert metadata is not None
        if isinstance(theirs, PredicateScope) and isinstance(mine, PredicateScope):
            both = (_condition(each.predicate, metadata.schema) for each in (theirs, mine))
            return None if may_both_hold(*both) else frozenset()
        listed, predicate = (theirs, mine) if isinstance(theirs, PartitionScope) else (mine, theirs)
        assert isinstance(listed, PartitionScope)
        assert isinstance(predicate, PredicateScope)
        return _inside(listed, _condition(predicate.predicate, metadata.schema), metadata)
    except (InvalidPredicateError, UnsupportedFeatureError, CorruptEntryError, ValueError):
        return None


def _listed(scope: PartitionScope, metadata: Metadata | None) -> Partitions:
    """Return the partitions of a scope, with values of FLOAT columns as the column stores them
    (VAL-1).

    Different texts of a number can be one Python value and still differ from the stored value.
    """
    kinds = [metadata.schema.by_id(i).type for i in metadata.partition_by] if metadata else []
    if Primitive("float") not in kinds:
        return frozenset(scope.values)
    columns = zip(kinds, zip(*scope.values, strict=True), strict=True)
    return frozenset(zip(*(encode(decode(c, kind), kind) for kind, c in columns), strict=True))


@lru_cache(maxsize=64)
def _condition(text: str, schema: Schema) -> Predicate:
    # A transaction compares its own scope with every concurrent commit, so cache the parsed text.
    return parse_predicate(text, schema)


def _inside(scope: PartitionScope, condition: Predicate, metadata: Metadata) -> Partitions | None:
    """Return the listed partitions for which the condition holds."""
    ids = frozenset(metadata.partition_by)
    if not decided_by_partitions(condition, ids):
        return None
    columns = zip(metadata.partition_by, zip(*scope.values, strict=True), strict=True)
    values = {f"partition.{i}": decode(c, metadata.schema.by_id(i).type) for i, c in columns}
    matches = partition_match(condition, pa.table(values), ids)
    return frozenset(v for v, is_in in zip(scope.values, matches, strict=True) if is_in)
