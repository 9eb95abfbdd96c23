"""What the viewer remembers between two runs: how each table was sorted. Nothing of the server."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

from natstui.tui.present.columns import Order


def _path() -> Path:
    from platformdirs import user_state_path

    return user_state_path("natstui") / "view.json"


def _load() -> dict[str, dict[str, object]]:
    try:
        known = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        # Nothing remembered, or not by us: start from the defaults.
        return {}
    return known if isinstance(known, dict) else {}


def recall_order(table: str, start: Order) -> Order:
    """Return how a table was sorted last time."""
    known = _load().get(table)
    if not isinstance(known, dict) or not isinstance(known.get("column"), str):
        return start
    return replace(start, column=str(known["column"]), reverse=known.get("reverse") is True)


def keep_order(table: str, order: Order) -> None:
    """Remember how a table is sorted; a folder that cannot be written costs only that."""
    known = _load() | {table: {"column": order.column, "reverse": order.reverse}}
    with contextlib.suppress(OSError):
        _path().parent.mkdir(parents=True, exist_ok=True)
        _path().write_text(json.dumps(known), "utf-8")
