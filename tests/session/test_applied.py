"""Detection of application versions that were already applied, with a handle that threads share."""

from __future__ import annotations

from tablefmt.session.commit_options import CommitOptions
from tests.tables import handle, memory, new_table, rows


def test_an_application_version_in_a_skipped_entry_was_applied() -> None:
    """CFL-6: the writer begins at the newest known version, as a sink's batch does."""
    store = memory()
    new_table(store)
    known = handle(store)
    assert handle(store).append(rows(1), application=("query", 7)).version == 1
    # It judges by the headers of entries alone.
    assert known.append(rows(2)).version == 2
    assert known.context.begin(refresh=False).version == 2
    options = CommitOptions(application=("query", 7))
    applied = known.context.applied(options, None, "WRITE")
    assert applied is not None
    assert (applied.version, applied.already_applied) == (1, True)
    assert known.context.applied(CommitOptions(application=("query", 8)), None, "WRITE") is None
