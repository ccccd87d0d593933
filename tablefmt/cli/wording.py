"""Translation of Python argument names in error messages to command line options. Pure."""

from __future__ import annotations

import re

OPTIONS = {
    "breaks_running_transactions": "--breaks-running-transactions",
    "starting_version": "--since",
    "starting_timestamp": "--since",
    "starting_…": "--since",
    "after_version": "--after",
    "after_timestamp": "--after",
    "after_…": "--after",
    "ending_version": "--until",
    "ending_timestamp": "--until",
    "ending_…": "--until",
    "target_file_size": "--target-file-size",
    "commit_every": "--commit-every",
    "dry_run=False": "--delete",
    "dry_run": "--dry-run",
    "storage_options": "--storage-option",
}
"""Argument -> option. No other argument has one of these names, and a column need not."""

# An argument name that is not part of an address.
_BEFORE, _AFTER = r"(?<![\w`'\"/.:-])", r"(?![\w/-]|\.\w)"
_ARGUMENT = re.compile(f"{_BEFORE}({'|'.join(map(re.escape, OPTIONS))})(=True)?{_AFTER}")
_TWICE = re.compile(r"(--[a-z-]+)((?:, | and | or )\1)+(?![\w-])")


def as_options(message: str) -> str:
    """Return a message with options in place of arguments, each named once."""
    named = _ARGUMENT.sub(lambda match: OPTIONS[match[1]], message)
    return _TWICE.sub(r"\1", named)
