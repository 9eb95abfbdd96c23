"""A crash in writing: the traceback without values of variables, for the user's eyes only."""

from __future__ import annotations

import os
import traceback
from datetime import UTC, datetime
from pathlib import Path

from natstui import __version__
from natstui.clean import clean_text


def log_folder() -> Path:
    """Return where crash logs are kept."""
    import platformdirs

    return platformdirs.user_log_path("natstui")


def write_crash_log(error: BaseException, folder: Path) -> Path | None:
    """Write a new file that only its owner may read; None if it cannot be written."""
    now = datetime.now(UTC)
    text = "".join(traceback.format_exception(error))
    report = f"natstui {__version__}, {now:%Y-%m-%d %H:%M:%S} UTC\n\n{clean_text(text)}"
    path = folder / f"crash-{now:%Y%m%dT%H%M%S%f}.log"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(report)
    except OSError:
        return None
    return path


def crash_line(error: BaseException, path: Path | None) -> str:
    """Return the one line a user sees; the message may hold a secret, so only its kind is said."""
    where = f"the report is in {path}" if path else "its report could not be written"
    return f"natstui: stopped by a defect ({type(error).__name__}); {where}"
