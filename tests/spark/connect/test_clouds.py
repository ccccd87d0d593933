"""Tables on emulators of Google and Azure over Spark Connect, through Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tests.system.real_clouds.emulators import emulator


@pytest.mark.soak
@pytest.mark.parametrize("cloud", ["gcs", "azure"])
def test_a_table_on_a_cloud_is_changed_and_read(
    connect: Any, printed: Callable[[], str], cloud: str
) -> None:
    """STO-11: secrets are in no plan and no log line."""
    with emulator(cloud) as running:
        uri, options = running.new_root(), running.options
        frame = connect.range(0, 100, 1, 4).selectExpr("id", "id % 2 AS p")
        tablefmt.spark.write(frame, uri, partition_by=["p"], storage_options=options)
        table = tablefmt.spark.open(connect, uri, storage_options=options)
        table.delete("id >= 50")
        source = connect.range(48, 52).selectExpr("id", "7L AS p")
        merge = table.merge(source, "t.id = s.id").when_matched_update_all()
        merge.when_not_matched_insert_all().execute()
        table.compact()
        expected = sorted([*((i, i % 2) for i in range(48)), *((i, 7) for i in range(48, 52))])
        read: Any = tablefmt.spark.read(connect, uri, storage_options=options)
        assert sorted(map(tuple, read.collect())) == expected
        found = tablefmt.open(uri, storage_options=options)
        rows = found.to_arrow().to_pydict()
        assert sorted(zip(*rows.values(), strict=True)) == expected
        report = found.verify(deep=True)
        assert (report.findings, report.unnamed) == ((), ())
        secret = options.get("azure_storage_account_key", "no secret of Google")
        plans = "".join(read._explain_string(mode=m) for m in ("extended", "formatted", "cost"))
        assert secret not in plans + repr(read) + printed()
