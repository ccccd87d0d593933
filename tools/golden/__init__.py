"""The writer of spec/golden and spec/vectors, made from spec/ alone: no code of the package.

Run it with `python tools/golden`.
"""
