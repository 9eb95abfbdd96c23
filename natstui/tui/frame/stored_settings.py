"""Stores view settings (theme, screen, columns, sort order) between two runs; no server data."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from natstui.files import lock_for_change, write_atomic_file
from natstui.paths import create_private_folder
from natstui.tui.kit.terminal import is_in_browser


def load_view_setting(name: str) -> object:
    """Return the JSON value stored under a name; None if there is none."""
    return _load_all_settings().get(name)


def store_view_setting(name: str, value: object) -> None:
    """Store a JSON value under a name; does nothing if the folder cannot be written.

    For a browser nothing is stored: its visitor is not the user of this machine.
    """
    if is_in_browser():
        return
    folder = _view_file_path().parent
    with contextlib.suppress(OSError):
        create_private_folder(folder)
        with lock_for_change(folder):
            values = _load_all_settings() | {name: value}
            write_atomic_file(_view_file_path(), json.dumps(values).encode())


def _view_file_path() -> Path:
    from platformdirs import user_state_path

    return user_state_path("natstui") / "view.json"


def _load_all_settings() -> dict[str, object]:
    try:
        values = json.loads(_view_file_path().read_text("utf-8"))
    except (OSError, ValueError):
        # Nothing remembered, or not by us: start from the defaults.
        return {}
    return values if isinstance(values, dict) else {}
