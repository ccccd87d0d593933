"""The second reader of tablefmt tables, written from spec/ alone: no code of the package.

It reads what can be read of a damaged table, and lists what is wrong by rule id. Run it with
`python tools/logdump URI`; `tools/logdump.py` is the same command.
Exit code: 0 sound, 1 findings, 2 usage or no answer from the store, 3 nothing there.
"""

from __future__ import annotations

from logdump.reader import NothingThereError, Replay, main, read

__all__ = ["NothingThereError", "Replay", "main", "read"]
