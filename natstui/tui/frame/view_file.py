"""Stores settings of screens between two runs, but no data of a server."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from natstui.files import lock_for_change, write_atomic_file
from natstui.paths import create_private_folder
from natstui.tui.kit.terminal import is_in_browser


def load_value(name: str) -> object:
    """Return the value stored under a name; None without one."""
    return _load().get(name)


def store_value(name: str, value: object) -> None:
    """Store a JSON value under a name; does nothing if the folder cannot be written.

    For a browser nothing is stored: its visitor is not the user of this machine.
    """
    if is_in_browser():
        return
    folder = _path().parent
    with contextlib.suppress(OSError):
        create_private_folder(folder)
        with lock_for_change(folder):
            values = _load() | {name: value}
            write_atomic_file(_path(), json.dumps(values).encode())


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
