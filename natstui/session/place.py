"""Where sessions are kept."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_data_path

from natstui.config.settings import Session
from natstui.paths import user_path


def sessions_folder(settings: Session) -> Path:
    """Return the folder of all sessions; it may not exist yet."""
    if settings.folder is not None:
        return user_path(settings.folder)
    return user_data_path("natstui") / "sessions"
