"""What it means that an entry is not there while later ones are. Spec: LOG-2, LOG-8."""

from __future__ import annotations

from tablefmt.errors import CorruptEntryError, LogGapError, TablefmtError, UnsupportedFeatureError
from tablefmt.log.codec import document_of
from tablefmt.log.names import LOG, entry_key, entry_version
from tablefmt.model.features import needs_newer
from tablefmt.store.protocol import Store


def gap_error(store: Store, missing: int, found: int) -> TablefmtError:
    """The error of who does not find version `missing` though it does find `found`.

    A log whose beginning was given up says so in its newest entry; so does one that needs what
    this version lacks. Any other gap is damage.
    """
    listed = (entry_version(each.key) for each in store.list_after(LOG, entry_key(missing)))
    newest = max((version for version in listed if version is not None), default=found)
    newest = max(newest, found)
    (body,) = store.get_many([entry_key(newest)])
    try:
        document = {} if body is None else document_of(body, newest)
    except UnsupportedFeatureError as error:
        return error
    except CorruptEntryError:
        return LogGapError(missing, found)
    totals = document.get("totals")
    oldest = totals.get("oldest") if isinstance(totals, dict) else None
    if isinstance(oldest, int) and missing < oldest:
        return needs_newer(f"the log, whose versions below {oldest} were given up,", ["logExpiry"])
    return LogGapError(missing, found)
