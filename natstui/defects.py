"""Unexpected errors: each is written to a private crash log and reported in one sentence.

`report_defects` is the only handler of every error in the program. A test names the modules that
may use it, and checks its report and its sentence.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from natstui import __version__
from natstui.clean import clean_text
from natstui.errors import NatstuiError
from natstui.paths import create_private_folder

_MAX_REPORTED_DEFECTS = 100


class _ReportedDefect(NamedTuple):
    """The crash log of a defect, and when the defect was last reported."""

    path: Path | None
    reported_mono_s: float


_reported_defects: dict[str, _ReportedDefect] = {}
"""Type and source line of an error → the defect."""


@contextmanager
def report_defects(
    task: str, report: Callable[[str], None], *, repeat_after_s: float = 0
) -> Iterator[None]:
    """Write a crash log and report a sentence for an unexpected error in the block, then continue.

    The sentence begins with `task`, the name of what failed. The same error in the same source
    line is logged once, and reported again after `repeat_after_s` seconds. A NatstuiError passes
    through: it has its own sentence.
    """
    try:
        yield
    except NatstuiError:
        raise
    except Exception as error:  # noqa: BLE001 - the only one, see above
        location = _source_location(error)
        path, reported_mono_s = _reported_defects.get(location, (None, float("-inf")))
        if location not in _reported_defects:
            path = write_crash_log(error, log_folder())
        if (now_s := time.monotonic()) - reported_mono_s >= repeat_after_s:
            if len(_reported_defects) >= _MAX_REPORTED_DEFECTS:
                _reported_defects.clear()
            _reported_defects[location] = _ReportedDefect(path, now_s)
            report(f"{task} failed by a defect ({type(error).__name__}); {_crash_log_text(path)}")


def _source_location(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last_frame = frames[-1] if frames else None
    return (
        f"{type(error).__name__} {last_frame.filename}:{last_frame.lineno}"
        if last_frame
        else repr(type(error))
    )


def log_folder() -> Path:
    """Return the folder of the crash logs."""
    import platformdirs

    return platformdirs.user_log_path("natstui")


def write_crash_log(error: BaseException, folder: Path) -> Path | None:
    """Write a crash log that only its owner may read; return its path, None if it cannot be
    written.

    The newest 20 are kept.
    """
    now = datetime.now(UTC)
    text = "".join(traceback.format_exception(error))
    report = f"natstui {__version__}, {now:%Y-%m-%d %H:%M:%S} UTC\n\n{clean_text(text)}"
    path = folder / f"crash-{now:%Y%m%dT%H%M%S%f}.log"
    try:
        create_private_folder(folder)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(report)
    except OSError:
        return None
    _remove_old_logs(folder)
    return path


_MAX_CRASH_LOGS = 20


def _remove_old_logs(folder: Path) -> None:
    """Remove all but the newest 20 crash logs; a log that cannot be removed stays."""
    for path in sorted(folder.glob("crash-*.log"))[:-_MAX_CRASH_LOGS]:
        with suppress(OSError):
            path.unlink()


def crash_line(error: BaseException, path: Path | None) -> str:
    """Return the line that reports a crash to the user, with the path of its crash log.

    It is without the error's message, which may contain a secret.
    """
    return f"natstui: stopped by a defect ({type(error).__name__}); {_crash_log_text(path)}"


def _crash_log_text(path: Path | None) -> str:
    return f"the report is in {path}" if path else "its report could not be written"
