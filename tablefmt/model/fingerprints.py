"""Whether two writes of one application version are of other content. Pure. Spec: CFL-6, CFL-7."""

from __future__ import annotations

TEXT, ROWS, RUN = "text", "rows", "run"
"""Forms of a digest: of a statement that takes no rows, of one with rows; and in place of one, the
run of a streaming query that wrote it (STR-12)."""


def of_run(run: str) -> str:
    """What stands for the content of a stream's batch: the run that has it."""
    return f"{RUN}:{run}"


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
    return {form, other_form} == {TEXT, ""} and value != other_value


def _parted(digest: str) -> tuple[str, str]:
    form, mark, value = digest.partition(":")
    return (form, value) if mark else ("", digest)
