"""URI schemes for Hadoop, one for each combination of a location and its settings.

Hadoop caches one file system per scheme and authority in every process, and ignores later changes
of settings. With separate schemes, two tables of one bucket can have different credentials, and new
keys take effect at once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping

# Plans and logs show schemes. The salt keeps them from confirming a guessed secret.
_SALT = secrets.token_bytes(16)


def scheme_for(prefix: str, place: str, settings: Mapping[str, str]) -> str:
    """Return a scheme such as `s3a-1f0c9b27d4`. It is the same for equal arguments.

    Args:
        prefix: the name of the connector.
        place: the bucket.
        settings: Hadoop's settings, including credentials.
    """
    text = json.dumps([place, sorted(settings.items())])
    digest = hmac.new(_SALT, text.encode(), hashlib.sha256).hexdigest()
    return f"{prefix}-{digest[:10]}"
