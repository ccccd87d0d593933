"""Files of Spark and of the compiled classes on the disk of the driver."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from tablefmt.spark.entry import spark_session
from tablefmt.spark.jvm import java_classes


def modes(places: list[str]) -> list[int]:
    return [stat.S_IMODE(Path(place).stat().st_mode) for place in places]


def test_blocks_and_classes_of_spark_are_the_users_own(spark: Any) -> None:
    """SEC-3: blocks and shuffles of the driver, and our classes."""
    java_classes.new_instance(spark, "Bridge")
    (blocks,) = [folder.path for folder in spark_session._local_dirs]
    assert [path.name for path in Path(blocks).glob("blockmgr-*")] != []
    assert modes([blocks, *java_classes._folders]) == [0o700, 0o700]
