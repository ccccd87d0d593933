"""The generator of spec/golden and spec/vectors, from spec/ alone, without the package's code.

Run it with `python tools/golden`.
"""
