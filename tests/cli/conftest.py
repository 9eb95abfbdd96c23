"""What the tests of commands share."""

from __future__ import annotations

import pytest

from natstui.cli.watch import finding


@pytest.fixture(autouse=True)
def short_interval(own_folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands poll as often as the server's share allows: three polls a second, and not one."""
    monkeypatch.setenv("NATSTUI_MONITOR_INTERVAL_S", "0.1")
    monkeypatch.setattr(finding, "_INTERVAL_S", 0.05)
    monkeypatch.setattr(finding, "_WATCH_S", 0.05)
