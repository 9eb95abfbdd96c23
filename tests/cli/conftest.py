"""What the tests of commands share."""

from __future__ import annotations

import pytest

from natstui.cli.watch import find
from natstui.jetstream.managing import configure
from natstui.jetstream.system import requests


@pytest.fixture(autouse=True)
def short_waits(own_folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands poll as often as the server's share allows, and look soon at what they edited."""
    monkeypatch.setenv("NATSTUI_MONITOR_INTERVAL_S", "0.2")
    monkeypatch.setattr(find, "_POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(find, "_WATCH_S", 0.05)
    monkeypatch.setattr(configure, "REREAD_EDIT_AFTER_S", 0.02)


@pytest.fixture
def lone_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the reply of the one server that there is, none of another is waited for."""
    monkeypatch.setattr(requests, "_QUIET_S", 0.1)
