"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path

from natstui.errors import UsageError


def user_path(text: str) -> Path:
    """Return the path, `~` being a home folder; raise UsageError when there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{text}: there is no such user") from error
