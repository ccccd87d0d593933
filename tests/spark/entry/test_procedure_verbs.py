"""Every procedure of Iceberg is run or refused by name. tests/compat/documented runs them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tablefmt.expressions.procedure_calls import PROCEDURES, REFUSED
from tablefmt.spark.entry.procedure_verbs import refusal, result_of

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.mark.parametrize("name", sorted(PROCEDURES))
def test_every_procedure_has_a_result_or_a_refusal(name: str) -> None:
    error = refusal(name)
    if name in REFUSED:
        assert error is not None
        assert error.features == [f"procedure:{name}"]
        assert REFUSED[name] in str(error)
    else:
        assert error is None
        assert result_of(name).names


@pytest.mark.usefixtures("catalog")
def test_a_changelog_has_all_columns_and_a_kept_version_is_no_orphan(
    spark: Any, tmp_path: Path
) -> None:
    """Columns of the user may begin as those of a change do."""
    spark.sql(
        f"CREATE TABLE called_t (id INT, _code STRING) USING tablefmt LOCATION '{tmp_path / 't'}'"
    )
    try:
        spark.sql("INSERT INTO called_t VALUES (1, 'a'), (2, 'b')")
        spark.sql("DELETE FROM called_t WHERE id = 1")
        call = "CALL spark_catalog.system."
        spark.sql(f"{call}create_changelog_view(table => 'called_t', changelog_view => 'seen')")
        rows = spark.sql("SELECT * FROM seen ORDER BY _change_ordinal, id").collect()
        assert [tuple(row) for row in rows] == [
            (1, "a", "INSERT", 1, 1),
            (2, "b", "INSERT", 1, 1),
            (1, "a", "DELETE", 2, 2),
        ]
        assert spark.sql(f"{call}remove_orphan_files('called_t')").collect() == []
        old = f"older_than => '{datetime.now() + timedelta(days=1)}'"
        spark.conf.set(CHECK, "false")
        with pytest.raises(Exception, match="Call expire_snapshots first"):
            spark.sql(f"{call}remove_orphan_files(table => 'called_t', {old})").collect()
    finally:
        spark.conf.unset(CHECK)
        spark.sql("DROP VIEW IF EXISTS seen")
        spark.sql("DROP TABLE called_t")
