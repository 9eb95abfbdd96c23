"""Names and subjects as they were typed, checked before they become part of a request."""

from __future__ import annotations

import click

from natstui.errors import UsageError
from natstui.model.assets.subjects import is_subject


def given_name(name: str) -> str:
    """Return a name that can be part of a request; raises UsageError for one that cannot."""
    if not name or any(letter in name for letter in ".*> \t\r\n/\\"):
        raise UsageError(
            f"{name!r} is not a valid name: it has a space, a dot, or one of * > / or \\"
        )
    return name


def given_subject(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> str | None:
    """Return the subject that an option was given; raises UsageError for what is none."""
    if text is not None and not is_subject(text):
        raise UsageError(f"Subject: {text!r} is not a valid subject")
    return text
