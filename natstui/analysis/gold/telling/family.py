"""Names of consumers that differ only in what a client or the server chose by chance.

One home for queries and reports. Imports no pyspark.
"""

from __future__ import annotations

import re

PATTERN = (
    "^(?:(.*[-_])(?=.*[0-9A-Z])[A-Za-z0-9]{4,}|(?=.*[0-9A-Z])(?:[A-Za-z0-9]{8}|[A-Za-z0-9]{22}))$"
)
"""Matches a beginning and what was chosen by chance, or a name that the server chose."""


def family_of(name: str) -> str | None:
    """Return how the names that belong together begin, and `*`; None for a name by itself."""
    found = re.match(PATTERN, name)
    return None if found is None else f"{found[1] or ''}*"
