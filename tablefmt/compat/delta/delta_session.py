"""Sessions as Delta's programs build them, without Delta's extension and catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tablefmt.spark
from tablefmt.compat.delta.delta_names import NAMES
from tablefmt.compat.translation import translated

DELTAS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings of a session with Delta, which has no class of them here."""


class SessionBuilder:
    """A builder of Spark whose session is registered for tablefmt."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def getOrCreate(self) -> Any:
        """Return the session, registered."""
        options = getattr(self._builder, "_options", {})
        for name, value in DELTAS.items():
            if options.get(name) == value:
                del options[name]
        session = self._builder.getOrCreate()
        tablefmt.spark.register(session)
        return session

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._builder, name)
        if not callable(member):
            return member

        def chained(*arguments: Any, **named: Any) -> Any:
            result = member(*arguments, **named)
            return SessionBuilder(result) if isinstance(result, type(self._builder)) else result

        return chained


@translated(NAMES, "configure_spark_with_delta_pip")
def configure_spark_with_delta_pip(
    spark_session_builder: Any, extra_packages: Sequence[str] | None = None
) -> SessionBuilder:
    """Return a builder of a registered session, without Delta's extension and catalog.

    Other packages are downloaded as Spark does it.
    """
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return SessionBuilder(spark_session_builder)
