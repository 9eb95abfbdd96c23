"""What a command shows on a terminal while it waits for the server."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.cli.test_manage import run_here

pytestmark = [pytest.mark.slow, pytest.mark.terminal]

COMMAND = (sys.executable, "-m", "natstui", "stream", "ls", "--server")
PATIENCE_S = 30.0


def test_who_waits_for_more_than_a_second_sees_for_how_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        terminal, stderr = os.openpty()
        process = subprocess.Popen((*COMMAND, address), stderr=stderr, stdout=subprocess.PIPE)
        os.close(stderr)
        seen, end = b"", time.monotonic() + PATIENCE_S
        while len(seconds := re.findall(rb"waiting for the server: (\d+) s", seen)) < 2:
            assert time.monotonic() < end, seen
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
        seen += os.read(terminal, 4096)
        os.close(terminal)
    assert (output, process.returncode) == (b"", 130)
    assert sorted(set(map(int, seconds))) == list(map(int, seconds))
    assert b"\r\x1b[K" in seen[seen.rindex(b"waiting") :], "the line is cleared at the end"


def test_nothing_of_that_is_in_a_pipe() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        environment = {"NATSTUI_CONNECTION_CONNECT_TIMEOUT_S": "1.5"}
        done = run_here("stream", "ls", "--server", address, environment=environment)
    assert done.returncode != 0
    assert "waiting" not in done.stderr
    assert done.stderr.count("\n") == 1
