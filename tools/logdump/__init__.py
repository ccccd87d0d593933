"""The second reader of tablefmt tables, written from spec/ alone, without the package's code.

It reads the readable part of a damaged table, and lists problems by rule id. Run it with
`python tools/logdump URI`; `tools/logdump.py` is the same command.
Exit code: 0 sound, 1 findings, 2 usage error or no response from the store, 3 no table.
"""

from __future__ import annotations

from logdump.reader import NothingThereError, Replay, main, read

__all__ = ["NothingThereError", "Replay", "main", "read"]
