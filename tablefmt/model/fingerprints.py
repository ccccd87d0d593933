"""Whether two writes of one application version are of other content. Pure. Spec: CFL-6, CFL-7."""

from __future__ import annotations

TEXT, ROWS, RUN, BATCH = "text", "rows", "run", "batch"
"""Forms of a digest: of a statement that takes no rows, of one with rows; of a stream's batch with
the run of the query that wrote it, and of a batch alone (STR-12)."""


def of_batch(content: str | None, run: str | None) -> str | None:
    """Return what stands for the content of a stream's batch.

    Args:
        content: digits that tell its rows; None: not known.
        run: id of the run of the query that has it; None: not known.
    """
    if run is not None:
        return f"{RUN}:{run}" if content is None else f"{RUN}:{run}/{content}"
    return None if content is None else f"{BATCH}:{content}"


def without_run(digest: str | None) -> str | None:
    """Return the digest of a batch that another run may repeat; None: its rows are not known."""
    return None if digest is None else of_batch(_batch(*_parted(digest)) or None, None)


def advice_for(digest: str | None) -> str:
    """Return what to do where a used application version comes with other content."""
    if digest is not None and _parted(digest)[0] in (RUN, BATCH):
        return (
            "the stream's checkpoint was put back, or begun anew under an id in use, and the rows "
            "of this batch may be missing in the table. Start with a new checkpoint and a new "
            "txnAppId, at the place in the source up to which the table has its rows"
        )
    return "use a new application version for new content"


def differ(one: str | None, other: str | None) -> bool:
    """Whether two digests are known to be of other content (CFL-7).

    A digest without a form is of an older writer: the text's is made as ever, and that of rows goes
    by their bytes, so of equal rows too it may be another one.
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
    """Return what a digest says of the rows of a batch, if anything."""
    if form == RUN:
        return value.partition("/")[2]
    return value if form == BATCH else ""
