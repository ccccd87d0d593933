"""Which partitions two operations share. Pure. Spec: CFL-19."""

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
    """The partitions in both scopes; None if they may overlap in ways that are not listed.

    An empty set is a proof: they share nothing. What cannot be read proves nothing.

    Args:
        theirs, mine: the scopes.
        metadata: what the partition columns are.
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
    """The partitions of a scope; those of FLOAT columns as the column has them (VAL-1).

    Numbers of other texts are the same Python value, or another value of the column.
    """
    kinds = [metadata.schema.by_id(i).type for i in metadata.partition_by] if metadata else []
    if Primitive("float") not in kinds:
        return frozenset(scope.values)
    columns = zip(kinds, zip(*scope.values, strict=True), strict=True)
    return frozenset(zip(*(encode(decode(c, kind), kind) for kind, c in columns), strict=True))


@lru_cache(maxsize=64)
def _condition(text: str, schema: Schema) -> Predicate:
    # A transaction meets every winner with the same scope of its own.
    return parse_predicate(text, schema)


def _inside(scope: PartitionScope, condition: Predicate, metadata: Metadata) -> Partitions | None:
    """The listed partitions for which the condition holds."""
    ids = frozenset(metadata.partition_by)
    if not decided_by_partitions(condition, ids):
        return None
    columns = zip(metadata.partition_by, zip(*scope.values, strict=True), strict=True)
    values = {f"partition.{i}": decode(c, metadata.schema.by_id(i).type) for i, c in columns}
    matches = partition_match(condition, pa.table(values), ids)
    return frozenset(v for v, is_in in zip(scope.values, matches, strict=True) if is_in)
