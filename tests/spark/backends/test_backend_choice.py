"""The session's setting of who reads and writes data files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConcurrentModificationException,
    InvalidRangeError,
    UnsupportedFeatureError,
)
from tablefmt.spark.backends.arrow.arrow_backend import ArrowBackend
from tablefmt.spark.backends.backend_choice import SETTING, backend_for, choose
from tablefmt.spark.backends.native.native_backend import NativeBackend
from tablefmt.store.location import open_store


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().analyzed().toString())


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["native", "NATIVE", "arrow", "auto", None])
def test_every_way_to_read_goes_by_it(
    spark: Any, uri: str, use_backend: Callable[..., None], name: str | None
) -> None:
    tablefmt.spark.register(spark)
    tablefmt.spark.write(spark.range(5), uri)
    if name is not None:
        use_backend(name)
    frames = [
        tablefmt.spark.read(spark, uri),
        tablefmt.spark.open(spark, uri).changes(after_version=0),
        spark.read.format("tablefmt").load(uri),
    ]
    by_arrow = ["MapInArrow" in plan_of(f) or "RelationV2" in plan_of(f) for f in frames]
    assert by_arrow == [name == "arrow"] * 3
    assert [sorted(r.id for r in f.select("id").collect()) for f in frames] == [list(range(5))] * 3
    kind = ArrowBackend if name == "arrow" else NativeBackend
    assert type(backend_for(spark, open_store(uri))) is kind


def test_what_cannot_be_is_refused_by_name(
    spark: Any, uri: str, use_backend: Callable[..., None]
) -> None:
    options = {"s3_additional_kwargs": {"StorageClass": "GLACIER_IR"}, "key": "a", "secret": "b"}
    untranslated = open_store("s3://some-bucket/table", options)
    assert choose(spark, untranslated).name == "arrow"
    use_backend("native")
    with pytest.raises(UnsupportedFeatureError, match="s3_additional_kwargs") as refused:
        choose(spark, untranslated)
    assert SETTING in str(refused.value)
    assert refused.value.features == ["spark:native"]
    with pytest.raises(UnsupportedFeatureError, match="memory"):
        tablefmt.spark.write(spark.range(1), "memory://somewhere/table")
    use_backend("nativ")
    with pytest.raises(InvalidRangeError, match="native, arrow or auto"):
        tablefmt.spark.write(spark.range(1), uri)
    assert not tablefmt.exists(uri)


@pytest.mark.share(3)
@pytest.mark.parametrize("how", ["read by arrow", "source by arrow", "read by native"])
def test_the_reads_of_a_query_are_known_with_each_backend(
    spark: Any, uri: str, use_backend: Callable[..., None], how: str
) -> None:
    """CFL-22: the setting may change between a read and the write that depends on it."""
    tablefmt.spark.register(spark)
    tablefmt.spark.write(spark.range(10), uri)
    use_backend(how.split()[-1])
    if how.startswith("source"):
        frame = spark.read.format("tablefmt").load(uri)
    else:
        frame = tablefmt.spark.read(spark, uri)
    frame = frame.selectExpr("id + 10 AS id")
    use_backend("arrow" if how.endswith("native") else "native")
    table = tablefmt.spark.open(spark, uri)
    append = frame.where("id < 13")
    assert table.append(append).version == 2
    entry = tablefmt.open(uri).history().to_pylist()[0]
    assert entry["isBlindAppend"] is False
    if how.startswith("read"):
        with pytest.raises(ConcurrentModificationException):
            table.append(append)
