"""The names of other table libraries, so that their users change one import line.

`tablefmt.compat.deltalake` has the names of delta-rs, `tablefmt.compat.delta` those of Delta's
Python library for Spark, and `tablefmt.compat.pyiceberg` those of PyIceberg. Each only translates:
a call becomes a call of `tablefmt`. A name or an argument without a counterpart raises
`UnsupportedFeatureError`, which says what to use instead. Spec: spec/decisions/0045.
"""

from tablefmt.compat.translation import CompatibilityWarning

__all__ = ["CompatibilityWarning"]
