"""Digests that detect different content under one application version. Pure. Spec: CFL-6, CFL-7."""

from __future__ import annotations

TEXT, ROWS, RUN, BATCH = "text", "rows", "run", "batch"
"""Forms of a digest (STR-12).

- `TEXT`: a statement that takes no rows.
- `ROWS`: a statement with rows.
- `RUN`: a stream's batch, with the run of the query that wrote it.
- `BATCH`: a batch without its run.
"""


def of_batch(content: str | None, run: str | None) -> str | None:
    """Return the digest of the content of a stream's batch.

    Args:
        content: digits that identify its rows; None: not known.
        run: id of the run of the query that has it; None: not known.
    """
    if run is not None:
        return f"{RUN}:{run}" if content is None else f"{RUN}:{run}/{content}"
    return None if content is None else f"{BATCH}:{content}"


def without_run(digest: str | None) -> str | None:
    """Return the digest of a batch that another run may repeat; None: its rows are not known."""
    return None if digest is None else of_batch(_batch(*_parted(digest)) or None, None)


def advice_for(digest: str | None) -> str:
    """Return the advice for an application version that was used before with other content."""
    if digest is not None and _parted(digest)[0] in (RUN, BATCH):
        return (
            "the stream's checkpoint was restored, or restarted under an id in use, and the rows "
            "of this batch may be missing in the table. Start with a new checkpoint and a new "
            "txnAppId, at the place in the source up to which the table has its rows"
        )
    return "use a new application version for new content"


def differ(one: str | None, other: str | None) -> bool:
    """Return True if two digests are known to be of different content (CFL-7).

    An older writer stored a digest without a form. Its digest of text is still computed the same
    way. Its digest of rows depends on their bytes, so equal rows may have different digests.
    """
    if one is None or other is None or one == other:
        return False
    (form, value), (other_form, other_value) = _parted(one), _parted(other)
    if form == other_form or {form, other_form} == {TEXT, ROWS}:
        return True
    if {form, other_form} == {RUN, BATCH}:
        # Another run that comes later may repeat a batch.
        contents = _batch(form, value), _batch(other_form, other_value)
        return "" not in contents and contents[0] != contents[1]
    return {form, other_form} == {TEXT, ""} and value != other_value


def _parted(digest: str) -> tuple[str, str]:
    form, mark, value = digest.partition(":")
    return (form, value) if mark else ("", digest)


def _batch(form: str, value: str) -> str:
    """Return the part of a digest that identifies the rows of a batch; empty if there is none."""
    if form == RUN:
        return value.partition("/")[2]
    return value if form == BATCH else ""
