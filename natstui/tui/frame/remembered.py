"""Stores screen settings between two runs, and nothing of a server with them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from natstui.files import changing, write_complete
from natstui.paths import private_folder
from natstui.tui.kit.terminal import is_in_browser


def recall(name: str) -> object:
    """Return the value stored under a name; None without one."""
    return _load().get(name)


def keep(name: str, value: object) -> None:
    """Store a JSON value under a name; ignores a folder that cannot be written.

    Nothing is stored for a browser: its visitor is not the user of this machine.
    """
    if is_in_browser():
        return
    folder = _path().parent
    with contextlib.suppress(OSError):
        private_folder(folder)
        with changing(folder):
            values = _load() | {name: value}
            write_complete(_path(), json.dumps(values).encode())


def _path() -> Path:
    from platformdirs import user_state_path

    return user_state_path("natstui") / "view.json"


def _load() -> dict[str, object]:
    try:
        values = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        # Nothing remembered, or not by us: start from the defaults.
        return {}
    return values if isinstance(values, dict) else {}
