"""Data files on a local disk that Spark must not open: links, pipes, folders. Spec: STO-2, DAT-5.

Hadoop follows links and waits for a pipe. When a scan is planned, PlainFiles.java looks at each
file, and asks here for the error.
"""

from __future__ import annotations

from typing import Any

from tablefmt.data.damage import first_line
from tablefmt.errors import CorruptDataError, StoreError
from tablefmt.spark.jvm import loader
from tablefmt.spark.runtime.failures import answered
from tablefmt.store.local import LocalStore
from tablefmt.store.protocol import KeyNotFoundError


def connect_plain_files(spark: Any) -> None:
    """Tell the JVM of a classic session, once, whom to ask."""
    loader.kept(spark, "plain files", lambda: _connected(spark))


def _connected(spark: Any) -> bool:
    answer = loader.callback(spark, lambda request: answered(check_plain, *list(request)))
    loader.new_instance(spark, "PlainFiles").connect(answer)
    return True


def check_plain(root: str, key: str) -> None:
    """Refuse a name that is no regular file, in the words of a read by Arrow.

    Args:
        root: of the table, on a local disk.
        key: of a data file. One that is missing is left to Spark.

    Raises:
        CorruptDataError: DAT-5.
    """
    try:
        LocalStore(root).size(key)
    except KeyNotFoundError:
        return
    except StoreError as error:
        first = first_line(error)
        raise CorruptDataError(f"it cannot be read: {first}", key=key, rule="DAT-5") from None
