"""The text filter of every table: a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable

from natstui.errors import UsageError


def compile_filter(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests whether a text passes a filter.

    A leading `!` inverts the filter. Raises UsageError for an invalid expression.
    """
    is_inverted = pattern.startswith("!")
    try:
        search = re.compile(pattern[is_inverted:], re.IGNORECASE).search
    except re.error as error:
        raise UsageError(f"/{pattern} is not a regular expression: {error}") from error
    return lambda text: (search(text) is None) is is_inverted
