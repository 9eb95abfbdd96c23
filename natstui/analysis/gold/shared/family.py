"""Families of consumers: names that differ only in a random part.

Queries and reports use this pattern. Imports no pyspark.
"""

from __future__ import annotations

import re

RANDOM_NAME_PATTERN = (
    "^(?:(.*[-_])(?=.*[0-9A-Z])[A-Za-z0-9]{4,}|(?=.*[0-9A-Z])(?:[A-Za-z0-9]{8}|[A-Za-z0-9]{22}))$"
)
"""Pattern of a name with a random part after a prefix, or of one that the server generated."""


def family_of(name: str) -> str | None:
    """Return the prefix of a consumer's name and `*`; None if the name has no random part."""
    match = re.match(RANDOM_NAME_PATTERN, name)
    return None if match is None else f"{match[1] or ''}*"
