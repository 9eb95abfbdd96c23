"""Validation of typed names and subjects, before they become part of a request."""

from __future__ import annotations

import click

from natstui.errors import UsageError
from natstui.model.assets.subjects import is_valid_subject


def parse_name(name: str) -> str:
    """Return the name of a stream or consumer unchanged.

    Raises UsageError for a name that no request may contain: empty, or with a space, dot, wildcard
    or slash.
    """
    if not name or any(letter in name for letter in ".*> \t\r\n/\\"):
        raise UsageError(
            f"{name!r} is not a valid name: it has a space, a dot, or one of * > / or \\"
        )
    return name


def parse_subject(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> str | None:
    """Return the subject of an option unchanged, as a callback of click.

    Raises UsageError for an invalid subject.
    """
    if text is not None and not is_valid_subject(text):
        raise UsageError(f"Subject: {text!r} is not a valid subject")
    return text
