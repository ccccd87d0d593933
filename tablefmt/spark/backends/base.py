"""What both backends are told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are spread over files."""

    compression: str = "zstd"
    rows_max: int | None = None
    """Rows a file; None: as the session says."""
    shuffle_bytes: int | None = None
    """Bytes a task of the shuffle that `optimizeWrite` asks for; None: no shuffle."""
