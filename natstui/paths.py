"""Paths as people write them, and folders that only their owner may enter."""

from __future__ import annotations

from pathlib import Path

from natstui.errors import UsageError


def expand_user_path(text: str) -> Path:
    """Return the path with `~` replaced by the home folder; raises UsageError for an unknown
    user.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{text}: there is no such user") from error


def create_private_folder(path: Path) -> Path:
    """Create a folder, and its missing parents, that only their owner may enter; return its path.

    `Path.mkdir` applies its mode to the last folder only: under umask 000 everybody could replace
    the folders above it. An existing folder keeps its mode.

    Raises OSError if a folder cannot be created.
    """
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path
