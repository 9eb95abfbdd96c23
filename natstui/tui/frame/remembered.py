"""How the user left the screens: remembered between two runs, and nothing of a server with it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from natstui.files import write_complete
from natstui.paths import private_folder


def recall(name: str) -> object:
    """Return what was kept under a name; None: nothing was."""
    return _load().get(name)


def keep(name: str, value: object) -> None:
    """Keep a value of JSON; a folder that cannot be written costs only that."""
    known = _load() | {name: value}
    with contextlib.suppress(OSError):
        private_folder(_path().parent)
        write_complete(_path(), json.dumps(known).encode())


def _path() -> Path:
    from platformdirs import user_state_path

    return user_state_path("natstui") / "view.json"


def _load() -> dict[str, object]:
    try:
        known = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        # Nothing remembered, or not by us: start from the defaults.
        return {}
    return known if isinstance(known, dict) else {}
