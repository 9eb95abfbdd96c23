"""Unexpected errors: each is written to a private crash log and reported in one sentence.

`contained` is the only handler of every error in the program. A test names the modules that may
use it, and checks its report and its sentence.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from natstui import __version__
from natstui.clean import clean_text
from natstui.errors import NatstuiError
from natstui.paths import private_folder

_PLACES_KEPT = 100
_reported: dict[str, tuple[Path | None, float]] = {}
"""Source line and task of a defect → its crash log, and when it was last reported (monotonic
seconds).
"""


@contextmanager
def contained(task: str, report: Callable[[str], None], *, again_s: float = 0) -> Iterator[None]:
    """Let a defect inside end only `task`: write a crash log, report a sentence, continue.

    The same defect in the same line is logged once, and reported again after `again_s` seconds.
    Errors that users can act on pass through: they have their own sentences.
    """
    try:
        yield
    except NatstuiError:
        raise
    except Exception as error:  # noqa: BLE001 - the one place, see above
        location = _place(error)
        path, told_s = _reported.get(location, (None, float("-inf")))
        if location not in _reported:
            path = write_crash_log(error, log_folder())
        if (now_s := time.monotonic()) - told_s >= again_s:
            if len(_reported) >= _PLACES_KEPT:
                _reported.clear()
            _reported[location] = (path, now_s)
            report(f"{task} failed by a defect ({type(error).__name__}); {_where(path)}")


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    return f"{type(error).__name__} {last.filename}:{last.lineno}" if last else repr(type(error))


def log_folder() -> Path:
    """Return where crash logs are kept."""
    import platformdirs

    return platformdirs.user_log_path("natstui")


def write_crash_log(error: BaseException, folder: Path) -> Path | None:
    """Write a new file that only its owner may read; None if it cannot be written.

    The newest 20 are kept.
    """
    now = datetime.now(UTC)
    text = "".join(traceback.format_exception(error))
    report = f"natstui {__version__}, {now:%Y-%m-%d %H:%M:%S} UTC\n\n{clean_text(text)}"
    path = folder / f"crash-{now:%Y%m%dT%H%M%S%f}.log"
    try:
        private_folder(folder)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(report)
    except OSError:
        return None
    _remove_older(folder)
    return path


_REPORTS_KEPT = 20


def _remove_older(folder: Path) -> None:
    """Remove all but the newest reports; what cannot be removed stays."""
    for path in sorted(folder.glob("crash-*.log"))[:-_REPORTS_KEPT]:
        with suppress(OSError):
            path.unlink()


def crash_line(error: BaseException, path: Path | None) -> str:
    """Return the one line a user sees; without the error's message, which may contain a secret."""
    return f"natstui: stopped by a defect ({type(error).__name__}); {_where(path)}"


def _where(path: Path | None) -> str:
    return f"the report is in {path}" if path else "its report could not be written"
