"""`natstui demo` on a real terminal: one command shows a busy shop, and leaving leaves nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import PATIENCE_S, assert_nothing_is_left, pids_of
from tests.tui.terminals import OnTerminal

pytestmark = [pytest.mark.terminal, pytest.mark.long]

DEMO = "import sys; sys.argv[1:] = ['demo']; from natstui.__main__ import main; main()"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    # What belongs to another server must not be tried on this one.
    monkeypatch.setenv("NATS_USER", "somebody")
    monkeypatch.setenv("NATSTUI_CONNECTION_PASSWORD", "secret")
    monkeypatch.setenv("NATSTUI_SYSTEM_CONTEXT", "elsewhere")
    monkeypatch.setenv("NATSTUI_CONNECTION", '{"user": "ann", "password": "secret"}')
    return folder


@pytest.fixture
def viewer(temporary: Path) -> Iterator[OnTerminal]:
    with OnTerminal(DEMO, width=80, height=24) as terminal:
        assert b"Guide 1/" in terminal.read(b"Guide 1/")
        assert len(pids_of(temporary)) >= 4
        yield terminal


def test_q_leaves_the_demo_and_stops_all_it_started(viewer: OnTerminal, temporary: Path) -> None:
    os.write(viewer.master, b"q")
    viewer.read(b"nothing like this", within_s=PATIENCE_S)
    assert viewer.process.wait(PATIENCE_S) == 0
    assert_nothing_is_left(temporary)


def test_a_killed_app_leaves_nothing(viewer: OnTerminal, temporary: Path) -> None:
    """One told to end, as by the hang-up of its terminal, test_viewer_process.py tests."""
    viewer.process.send_signal(signal.SIGKILL)
    viewer.read(b"nothing like this", within_s=PATIENCE_S)
    viewer.process.wait(PATIENCE_S)
    assert_nothing_is_left(temporary)
